//! A page of shapes, with coordinates in pixels of 1/96 inch from the top left.

use crate::font;
use crate::palette::{BLACK, Colour, GREY, Shape};

/// The horizontal alignment of a text relative to its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// The text begins at the point.
    Start,
    /// The text is centred at the point.
    Middle,
    /// The text ends at the point.
    End,
}

/// An element of a page.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// A polyline.
    Line {
        /// The vertices.
        points: Vec<[f64; 2]>,
        /// The colour.
        colour: Colour,
        /// The width.
        width: f64,
        /// From 0, transparent, to 1, opaque.
        opacity: f64,
        /// Whether the line is dashed.
        dashed: bool,
    },
    /// A filled rectangle.
    Rectangle {
        /// Top left corner.
        at: [f64; 2],
        /// Width and height.
        size: [f64; 2],
        /// The colour.
        colour: Colour,
    },
    /// Points with the same shape and colour.
    Marks {
        /// The centres.
        centres: Vec<[f64; 2]>,
        /// The shape.
        shape: Shape,
        /// Half the width.
        radius: f64,
        /// The colour.
        colour: Colour,
        /// From 0, transparent, to 1, opaque.
        opacity: f64,
    },
    /// A line of text.
    Text {
        /// The point on the baseline to which it is aligned.
        at: [f64; 2],
        /// The font size.
        size: f64,
        /// The text.
        text: String,
        /// The alignment.
        anchor: Anchor,
        /// The colour.
        colour: Colour,
        /// Whether it is rotated by 90 degrees, to be read from bottom to top.
        rotated: bool,
        /// Whether it has a white outline, to be readable over points.
        halo: bool,
    },
    /// A greyscale image.
    Image {
        /// Top left corner.
        at: [f64; 2],
        /// Width and height on the page.
        size: [f64; 2],
        /// The number of columns of pixels.
        columns: usize,
        /// Brightness, row-major.
        pixels: Vec<u8>,
    },
}

/// A figure: a list of shapes that can be rendered as SVG or PNG.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// The width.
    pub width: f64,
    /// The height.
    pub height: f64,
    /// The elements, from bottom to top.
    pub items: Vec<Item>,
}

impl Page {
    /// An empty page.
    pub fn new(width: f64, height: f64) -> Self {
        Self { width, height, items: Vec::new() }
    }

    /// Adds a solid line.
    pub fn line(&mut self, points: Vec<[f64; 2]>, colour: Colour, width: f64) {
        self.items.push(Item::Line { points, colour, width, opacity: 1.0, dashed: false });
    }

    /// Adds black text.
    pub fn text(&mut self, at: [f64; 2], size: f64, anchor: Anchor, text: &str) {
        self.coloured_text(at, size, anchor, BLACK, text);
    }

    /// Adds coloured text.
    pub fn coloured_text(&mut self, at: [f64; 2], size: f64, anchor: Anchor, colour: Colour, text: &str) {
        let (text, rotated, halo) = (text.to_string(), false, false);
        self.items.push(Item::Text { at, size, text, anchor, colour, rotated, halo });
    }

    /// Adds the outline of a rectangle.
    pub fn frame(&mut self, at: [f64; 2], size: [f64; 2], colour: Colour, width: f64) {
        let ([x, y], [w, h]) = (at, size);
        self.line(vec![[x, y], [x + w, y], [x + w, y + h], [x, y + h], [x, y]], colour, width);
    }

    /// The width of a text at a font size.
    pub fn text_width(text: &str, size: f64) -> f64 {
        font::width(text) * size
    }

    /// Adds notes below everything else, in small grey type; the page grows by their height.
    pub fn notes(&mut self, notes: &[String], left: f64) {
        const SIZE: f64 = 11.5;
        let width = self.width - 2.0 * left;
        for line in notes.iter().flat_map(|note| Self::wrapped(note, SIZE, width)) {
            self.height += SIZE + 6.0;
            self.coloured_text([left, self.height - 12.0], SIZE, Anchor::Start, GREY, &line);
        }
    }

    /// Wraps a text into lines of at most `width`.
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
