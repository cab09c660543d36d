//! One self-contained HTML page about a clustering. [`Content`] holds everything on it as plain data; [`page`] turns it
//! into HTML that needs no network and executes no text of the data; the same content gives the same bytes.
//!
//! ```
//! let content = pervade_report::Content { title: "penguins".into(), n_rows: 344, ..Default::default() };
//! let html = pervade_report::page(&content);
//! assert!(html.starts_with("<!doctype html>"));
//! ```

mod content;
mod encode;
mod explorer;
mod html;
mod nullable;
mod packed_map;
mod sha256;
mod view;

pub use content::*;
pub use explorer::{ExplorerPage, distinctions_json, examples_json, picture_json};
pub use html::page;
