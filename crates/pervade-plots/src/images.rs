//! Panels of small pictures: a line a cluster.

use crate::page::{Anchor, Item, Page};
use crate::palette::GREY;

/// One panel: lines of pictures.
#[derive(Clone, Debug, PartialEq)]
pub struct ImagePanel {
    /// Above it.
    pub title: String,
    /// What stands before each line; may be empty.
    pub names: Vec<String>,
    /// Pictures, line by line; brightness, row by row.
    pub lines: Vec<Vec<Vec<u8>>>,
}

const GAP: f64 = 26.0;
const PAD: f64 = 2.0;
const HEAD: f64 = 40.0;
const TITLE: f64 = 24.0;
const NAME: f64 = 24.0;
const SIZE: f64 = 13.0;
/// About this high is a picture on the page.
const PICTURE: f64 = 28.0;

/// Panels side by side, `columns` a line, of pictures with `width` columns of pixels; notes below.
pub fn image_panels(
    title: &str,
    panels: &[ImagePanel],
    width: usize,
    columns: usize,
    notes: &[String],
) -> Page {
    let pixels = panels.iter().flat_map(|p| &p.lines).flatten().map(Vec::len).next().unwrap_or(width);
    let height = (pixels / width.max(1)).max(1);
    let scale = (PICTURE / height as f64).round().max(1.0);
    let picture = [width as f64 * scale, height as f64 * scale];
    let most = |of: fn(&ImagePanel) -> usize| panels.iter().map(of).max().unwrap_or(0) as f64;
    let across = most(|panel| panel.lines.iter().map(Vec::len).max().unwrap_or(0));
    let down = most(|panel| panel.lines.len());
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
        for (line, pictures) in panel.lines.iter().enumerate() {
            let y = y + line as f64 * (picture[1] + PAD);
            if let Some(name) = panel.names.get(line) {
                let at = [x + name_width - 8.0, y + picture[1] / 2.0 + 0.35 * SIZE];
                page.coloured_text(at, SIZE, Anchor::End, GREY, name);
            }
            for (place, pixels) in pictures.iter().enumerate() {
                let at = [x + name_width + place as f64 * (picture[0] + PAD), y];
                page.items.push(Item::Image { at, size: picture, columns: width, pixels: pixels.clone() });
            }
        }
    }
    page.notes(notes, GAP);
    page
}
