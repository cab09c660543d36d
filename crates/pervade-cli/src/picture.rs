//! PNG files: grids of images.

use std::path::Path;

use pervade::Result;
use pervade::data::{ImageShape, PrepareKind};
use pervade::files::write_atomically;
use pervade::model::Metadata;

/// Red, green, blue.
pub(crate) type Colour = [u8; 3];

/// Background colour.
pub(crate) const PAPER: Colour = [242, 241, 237];
const GREY: Colour = [130, 128, 124];

/// An image to draw on.
pub(crate) struct Canvas {
    width: usize,
    height: usize,
    pixels: Vec<Colour>,
}

impl Canvas {
    /// A blank canvas.
    pub(crate) fn new(width: usize, height: usize) -> Self {
        Self { width, height, pixels: vec![PAPER; width * height] }
    }

    /// Sets a pixel; outside the canvas nothing happens.
    fn dot(&mut self, x: usize, y: usize, colour: Colour) {
        if x < self.width && y < self.height {
            self.pixels[y * self.width + x] = colour;
        }
    }

    /// Fills a rectangle.
    pub(crate) fn fill(&mut self, x: usize, y: usize, width: usize, height: usize, colour: Colour) {
        for row in y..y + height {
            (x..x + width).for_each(|column| self.dot(column, row, colour));
        }
    }

    /// Draws a row of the data as an image, each pixel enlarged `scale` times.
    pub(crate) fn image(
        &mut self,
        x: usize,
        y: usize,
        scale: usize,
        shape: ImageShape,
        row: &[f32],
        tone: Tone,
    ) {
        for i in 0..shape.height {
            for j in 0..shape.width {
                let at = (i * shape.width + j) * shape.channels;
                let colour = match row[at..at + shape.channels] {
                    [r, g, b] => [tone.of(r), tone.of(g), tone.of(b)],
                    [grey, ..] => [tone.of(grey); 3],
                    [] => PAPER,
                };
                self.fill(x + j * scale, y + i * scale, scale, scale, colour);
            }
        }
    }

    /// Draws a number in small type, right-aligned at `x`.
    pub(crate) fn number(&mut self, x: usize, y: usize, scale: usize, number: usize) {
        // Three by five dots per digit, one bit each, top left first.
        const DIGITS: [u16; 10] =
            [0o75557, 0o26227, 0o71747, 0o71717, 0o55711, 0o74717, 0o74757, 0o71222, 0o75757, 0o75717];
        let digits: Vec<u32> = number.to_string().chars().filter_map(|c| c.to_digit(10)).collect();
        let width = digits.len() * 4 * scale;
        let left = x.saturating_sub(width);
        for (index, &digit) in digits.iter().enumerate() {
            for dot in (0..15).filter(|dot| DIGITS[digit as usize] >> (14 - dot) & 1 == 1) {
                let (i, j) = (dot / 3, dot % 3);
                self.fill(left + (index * 4 + j) * scale, y + i * scale, scale, scale, GREY);
            }
        }
    }

    /// Writes the file atomically.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        write_atomically(path, |out| {
            let mut encoder = png::Encoder::new(out, self.width as u32, self.height as u32);
            encoder.set_color(png::ColorType::Rgb);
            encoder.set_depth(png::BitDepth::Eight);
            let mut writer = encoder.write_header().map_err(std::io::Error::other)?;
            writer.write_image_data(self.pixels.as_flattened()).map_err(std::io::Error::other)?;
            writer.finish().map_err(std::io::Error::other)
        })
    }
}

/// Maps values to brightness.
#[derive(Clone, Copy)]
pub(crate) struct Tone {
    low: f32,
    high: f32,
    /// Dark ink on light paper, for handwriting that is stored light on dark.
    ink: bool,
}

impl Tone {
    /// The range of the given rows.
    pub(crate) fn of_rows(rows: impl Iterator<Item = f32>) -> Self {
        let (low, high) =
            rows.fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
        Self { low, high, ink: false }
    }

    /// The range of the model's training data if its preparation has it, otherwise that of the given rows.
    pub(crate) fn of_model(about: &Metadata, rows: impl Iterator<Item = f32>) -> Self {
        let (low, high) = match about.preparation.kind() {
            PrepareKind::UnitRange => {
                let low = about.preparation.shift().first().copied().unwrap_or(0.0);
                (low, low + 1.0 / about.preparation.scale().first().copied().unwrap_or(1.0))
            }
            PrepareKind::None => match about.likelihood.support() {
                [low, high] if low.is_finite() && high.is_finite() => (low, high),
                _ => return Self::of_rows(rows),
            },
            _ => return Self::of_rows(rows),
        };
        Self { low, high, ink: false }
    }

    /// The same with ink and paper exchanged.
    pub(crate) fn as_ink(self) -> Self {
        Self { ink: true, ..self }
    }

    /// The brightness of a value.
    pub(crate) fn of(self, value: f32) -> u8 {
        let share = ((value - self.low) / (self.high - self.low).max(f32::MIN_POSITIVE)).clamp(0.0, 1.0);
        (255.0 * if self.ink { 1.0 - share } else { share }) as u8
    }
}

/// Enlargement that makes an image about this many pixels high.
const PICTURE_HEIGHT: usize = 40;

/// Pixels between images, and around all of them.
const PAD: usize = 6;
const MARGIN: usize = 14;

fn scale(shape: ImageShape) -> usize {
    (PICTURE_HEIGHT / shape.height.max(1)).max(1)
}

/// Bytes of a [`grid`] with this many lines and images.
pub(crate) fn grid_bytes(shape: ImageShape, lines: usize, pictures: usize) -> u64 {
    let side = |pixels: usize, n: usize| {
        let each = pixels.saturating_mul(scale(shape)).saturating_add(PAD);
        n.saturating_mul(each).saturating_add(4 * MARGIN)
    };
    let page = [side(shape.width, pictures), side(shape.height, lines)];
    pervade::memory::product(&[page[0], page[1], size_of::<Colour>()])
}

/// A grid of images: one line per cluster, preceded by its number, with groups of images separated by a gap. Rows are
/// indexed as `lines[line][group]`, each `[n, D]`.
pub(crate) fn grid(shape: ImageShape, lines: &[(Option<usize>, Vec<Vec<f32>>)], tone: Tone) -> Canvas {
    let scale = scale(shape);
    let (width, height, d) =
        (shape.width * scale, shape.height * scale, shape.width * shape.height * shape.channels);
    let (pad, gap, margin) = (PAD, 24, MARGIN);
    let left = margin + if lines.iter().any(|(number, _)| number.is_some()) { 34 } else { 0 };
    let length = |groups: &[Vec<f32>]| {
        let pictures: usize = groups.iter().map(|rows| rows.len() / d).sum();
        pictures * (width + pad) + groups.len().saturating_sub(1) * gap
    };
    let longest = lines.iter().map(|(_, groups)| length(groups)).max().unwrap_or(0);
    let mut canvas = Canvas::new(
        left + longest + margin - pad.min(longest),
        2 * margin + lines.len() * (height + pad) - pad,
    );
    for (line, (number, groups)) in lines.iter().enumerate() {
        let y = margin + line * (height + pad);
        if let Some(number) = number {
            canvas.number(left - 10, y + (height / 2).saturating_sub(6), 2, *number);
        }
        let mut x = left;
        for rows in groups {
            for row in rows.chunks_exact(d) {
                canvas.image(x, y, scale, shape, row, tone);
                x += width + pad;
            }
            x += gap;
        }
    }
    canvas
}
