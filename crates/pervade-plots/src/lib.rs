//! Figures: curves with levels, scatter plots, grids of images, t-SNE, and the layout of many rows in the plane. Each
//! figure becomes a [`Page`], which is rendered as SVG or PNG; nothing here reads or writes files, and the same data
//! give the same bytes.
//!
//! A page is a list of shapes with two small renderers, so that SVG and PNG look the same. PNGs are rasterised by
//! `tiny-skia`, with an embedded font: no system fonts are needed.
//! Colours are the colour-blind safe palette of Okabe and Ito; classes also differ in shape.

mod curves;
mod font;
mod images;
mod layout;
mod page;
mod palette;
mod raster;
mod scatter;
mod svg;
mod tsne;

pub use curves::{Curves, Level, Line};
pub use images::{ImagePanel, image_panels};
pub use layout::{Layout, LayoutError, LayoutInput};
pub use page::{Anchor, Item, Page};
pub use palette::Shape;
pub use palette::{BLACK, Colour, GREY, OKABE_ITO, PALE, WHITE, class_colour, class_shape};
pub use scatter::{Classes, ScatterPanel, scatter_panels};
pub use tsne::{Tsne, principal_plane};
