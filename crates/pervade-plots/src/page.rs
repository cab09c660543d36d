//! A page of shapes, in pixels of 1/96 inch from the top left.

use crate::font;
use crate::palette::{BLACK, Colour, GREY, Shape};

/// Where a text stands against its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// It begins there.
    Start,
    /// It is centred there.
    Middle,
    /// It ends there.
    End,
}

/// Something on the page.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// A line through points.
    Line {
        /// Its corners.
        points: Vec<[f64; 2]>,
        /// Its colour.
        colour: Colour,
        /// Its width.
        width: f64,
        /// Zero is clear, one is solid.
        opacity: f64,
        /// Dashes instead of a whole line.
        dashed: bool,
    },
    /// A filled rectangle.
    Rectangle {
        /// Top left corner.
        at: [f64; 2],
        /// Width and height.
        size: [f64; 2],
        /// Its colour.
        colour: Colour,
    },
    /// Points of one look.
    Marks {
        /// Where they are.
        centres: Vec<[f64; 2]>,
        /// What they look like.
        shape: Shape,
        /// Half their width.
        radius: f64,
        /// Their colour.
        colour: Colour,
        /// Zero is clear, one is solid.
        opacity: f64,
    },
    /// A line of text.
    Text {
        /// Its foot.
        at: [f64; 2],
        /// Height of the font.
        size: f64,
        /// The letters.
        text: String,
        /// Where it stands against the point.
        anchor: Anchor,
        /// Its colour.
        colour: Colour,
        /// Turned by a right angle, to be read from below.
        turned: bool,
        /// A white edge, to be read over points.
        halo: bool,
    },
    /// A grey picture, each of its pixels a square.
    Image {
        /// Top left corner.
        at: [f64; 2],
        /// Width and height on the page.
        size: [f64; 2],
        /// Columns of pixels.
        columns: usize,
        /// Brightness, row by row.
        pixels: Vec<u8>,
    },
}

/// The page.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// Width.
    pub width: f64,
    /// Height.
    pub height: f64,
    /// What is on it, the first below.
    pub items: Vec<Item>,
}

impl Page {
    /// An empty page.
    pub fn new(width: f64, height: f64) -> Self {
        Self { width, height, items: Vec::new() }
    }

    /// A solid line.
    pub fn line(&mut self, points: Vec<[f64; 2]>, colour: Colour, width: f64) {
        self.items.push(Item::Line { points, colour, width, opacity: 1.0, dashed: false });
    }

    /// Black text.
    pub fn text(&mut self, at: [f64; 2], size: f64, anchor: Anchor, text: &str) {
        self.coloured_text(at, size, anchor, BLACK, text);
    }

    /// Text of a colour.
    pub fn coloured_text(&mut self, at: [f64; 2], size: f64, anchor: Anchor, colour: Colour, text: &str) {
        let (text, turned, halo) = (text.to_string(), false, false);
        self.items.push(Item::Text { at, size, text, anchor, colour, turned, halo });
    }

    /// The outline of a rectangle.
    pub fn frame(&mut self, at: [f64; 2], size: [f64; 2], colour: Colour, width: f64) {
        let ([x, y], [w, h]) = (at, size);
        self.line(vec![[x, y], [x + w, y], [x + w, y + h], [x, y + h], [x, y]], colour, width);
    }

    /// Width of a text in this size.
    pub fn text_width(text: &str, size: f64) -> f64 {
        font::width(text) * size
    }

    /// Notes below everything else, in small grey letters; the page grows by their lines.
    pub fn notes(&mut self, notes: &[String], left: f64) {
        const SIZE: f64 = 11.5;
        let width = self.width - 2.0 * left;
        for line in notes.iter().flat_map(|note| Self::wrapped(note, SIZE, width)) {
            self.height += SIZE + 6.0;
            self.coloured_text([left, self.height - 12.0], SIZE, Anchor::Start, GREY, &line);
        }
    }

    /// A text broken into lines of at most `width`.
    pub fn wrapped(text: &str, size: f64, width: f64) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for word in text.split_whitespace() {
            match lines.last_mut() {
                Some(line) if Self::text_width(&format!("{line} {word}"), size) <= width => {
                    line.push(' ');
                    line.push_str(word);
                }
                _ => lines.push(word.to_string()),
            }
        }
        lines
    }
}
