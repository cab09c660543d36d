//! Grids of small images: one row per cluster.

use crate::page::{Anchor, Item, Page};
use crate::palette::GREY;

/// A panel: rows of images.
#[derive(Clone, Debug, PartialEq)]
pub struct ImagePanel {
    /// The title above the panel.
    pub title: String,
    /// The name before each row; may be empty.
    pub names: Vec<String>,
    /// The images of each row, as row-major pixels of brightness.
    pub rows: Vec<Vec<Vec<u8>>>,
}

const GAP: f64 = 26.0;
const PAD: f64 = 2.0;
const HEAD: f64 = 40.0;
const TITLE: f64 = 24.0;
const NAME: f64 = 24.0;
const SIZE: f64 = 13.0;
/// The approximate height of an image on the page.
const PICTURE: f64 = 28.0;

/// A page of panels, `columns` per line, of images with `width` columns of pixels, and notes below.
pub fn image_panels(
    title: &str,
    panels: &[ImagePanel],
    width: usize,
    columns: usize,
    notes: &[String],
) -> Page {
    let pixels = panels.iter().flat_map(|p| &p.rows).flatten().map(Vec::len).next().unwrap_or(width);
    let height = (pixels / width.max(1)).max(1);
    let scale = (PICTURE / height as f64).round().max(1.0);
    let picture = [width as f64 * scale, height as f64 * scale];
    let largest = |of: fn(&ImagePanel) -> usize| panels.iter().map(of).max().unwrap_or(0) as f64;
    let across = largest(|panel| panel.rows.iter().map(Vec::len).max().unwrap_or(0));
    let down = largest(|panel| panel.rows.len());
    let name_width = if panels.iter().all(|p| p.names.iter().all(String::is_empty)) { 0.0 } else { NAME };
    let size = [name_width + across * (picture[0] + PAD), down * (picture[1] + PAD)];
    let columns = columns.clamp(1, panels.len().max(1));
    let lines = panels.len().div_ceil(columns) as f64;
    let page_width = GAP + columns as f64 * (size[0] + GAP);
    let top = if title.is_empty() { 8.0 } else { HEAD };
    let mut page = Page::new(page_width, top + lines * (size[1] + TITLE + GAP));
    page.text([GAP, 26.0], 15.0, Anchor::Start, title);
    for (i, panel) in panels.iter().enumerate() {
        let x = GAP + (i % columns) as f64 * (size[0] + GAP);
        let y = top + (i / columns) as f64 * (size[1] + TITLE + GAP) + TITLE;
        page.text([x + name_width, y - 7.0], SIZE, Anchor::Start, &panel.title);
        for (row, images) in panel.rows.iter().enumerate() {
            let y = y + row as f64 * (picture[1] + PAD);
            if let Some(name) = panel.names.get(row) {
                let at = [x + name_width - 8.0, y + picture[1] / 2.0 + 0.35 * SIZE];
                page.coloured_text(at, SIZE, Anchor::End, GREY, name);
            }
            for (column, pixels) in images.iter().enumerate() {
                let at = [x + name_width + column as f64 * (picture[0] + PAD), y];
                page.items.push(Item::Image { at, size: picture, columns: width, pixels: pixels.clone() });
            }
        }
    }
    page.notes(notes, GAP);
    page
}
