//! The font: DejaVu Sans, reduced to the characters that figures use.

use tiny_skia::{Path, PathBuilder, Transform};
use ttf_parser::{Face, OutlineBuilder};

static FONT: &[u8] = include_bytes!("../assets/DejaVuSans-subset.ttf");

fn face() -> Face<'static> {
    // The font is a constant, and the tests parse it.
    Face::parse(FONT, 0).expect("the embedded font is valid")
}

/// The width of a text at font size one.
pub(crate) fn width(text: &str) -> f64 {
    let face = face();
    let em = f64::from(face.units_per_em());
    text.chars().map(|letter| advance(&face, letter) / em).sum()
}

fn advance(face: &Face<'_>, letter: char) -> f64 {
    face.glyph_index(letter).and_then(|glyph| face.glyph_hor_advance(glyph)).map_or(0.0, f64::from)
}

/// The outline of a text at font size one, with its baseline at the origin and y downwards.
pub(crate) fn outline(text: &str) -> Option<Path> {
    let face = face();
    let mut pen = Pen { builder: PathBuilder::new(), x: 0.0, scale: 1.0 / f32::from(face.units_per_em()) };
    let mut along = 0.0;
    for letter in text.chars() {
        pen.x = along as f32;
        if let Some(glyph) = face.glyph_index(letter) {
            face.outline_glyph(glyph, &mut pen);
        }
        along += advance(&face, letter);
    }
    pen.builder.finish()?.transform(Transform::identity())
}

struct Pen {
    builder: PathBuilder,
    /// The x position of the current glyph, in font units.
    x: f32,
    scale: f32,
}

impl Pen {
    fn position(&self, x: f32, y: f32) -> (f32, f32) {
        ((self.x + x) * self.scale, -y * self.scale)
    }
}

impl OutlineBuilder for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.position(x, y);
        self.builder.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.position(x, y);
        self.builder.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.position(x1, y1), self.position(x, y));
        self.builder.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) =
            (self.position(x1, y1), self.position(x2, y2), self.position(x, y));
        self.builder.cubic_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.builder.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_letter_of_figures_has_an_outline() {
        for letter in ('!'..='~').chain("±×–†".chars()) {
            assert!(outline(&letter.to_string()).is_some(), "{letter}");
        }
        assert!(width("MM") > 1.5 * width("ii") && width("") == 0.0);
    }
}
