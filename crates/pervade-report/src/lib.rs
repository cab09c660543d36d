//! One self-contained HTML page about a clustering. [`Content`] holds everything on it as plain data; [`page`] turns it
//! into HTML that needs no network and executes no text of the data; the same content gives the same bytes.

mod content;

pub use content::*;
