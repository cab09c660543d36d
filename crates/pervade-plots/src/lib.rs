//! Figures: curves with levels, scatter plots, grids of images, and t-SNE. Plain data go in, a [`Page`] comes out, and a
//! page is an SVG text or the bytes of a PNG; nothing here reads or writes files, and the same data give the same bytes.
//!
//! A page is a list of shapes with two small renderers, so that both files show the same. Shapes become pixels by
//! `tiny-skia`, letters by their outlines in a font that is part of the program: no system fonts are needed.
//! Colours are those of Okabe and Ito, which the colour-blind tell apart; classes differ in shape too.

mod curves;
mod font;
mod images;
mod page;
mod palette;
mod raster;
mod scatter;
mod svg;
mod tsne;

pub use curves::{Curves, Level, Line};
pub use images::{ImagePanel, image_panels};
pub use page::{Anchor, Item, Page};
pub use palette::Shape;
pub use palette::{BLACK, Colour, GREY, OKABE_ITO, PALE, WHITE, class_colour, class_shape};
pub use scatter::{Classes, ScatterPanel, scatter_panels};
pub use tsne::{Tsne, principal_plane};
