//! Rendering of a page as SVG: text stays text, images are embedded as PNG.

use std::fmt::Write;

use crate::page::{Anchor, Item, Page};
use crate::palette::Colour;
use crate::palette::Shape;
use crate::raster::corners;

const FONTS: &str = "DejaVu Sans, Verdana, Arial, sans-serif";

impl Page {
    /// The page as SVG.
    pub fn svg(&self) -> String {
        let (w, h) = (self.width, self.height);
        let mut text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{h}\" viewBox=\"0 0 {w} {h}\" \
             font-family=\"{FONTS}\">\n<rect width=\"{w}\" height=\"{h}\" fill=\"#ffffff\"/>\n"
        );
        self.items.iter().for_each(|item| text.push_str(&element(item)));
        text.push_str("</svg>\n");
        text
    }
}

fn hex([r, g, b]: Colour) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// A coordinate with two digits, without trailing zeros.
fn short(x: f64) -> String {
    let text = format!("{x:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

fn through(points: &[[f64; 2]]) -> String {
    let mut path = String::new();
    for (i, [x, y]) in points.iter().enumerate() {
        let _ = write!(path, "{}{} {}", if i == 0 { "M" } else { "L" }, short(*x), short(*y));
    }
    path
}

fn element(item: &Item) -> String {
    match item {
        Item::Line { points, colour, width, opacity, dashed } => format!(
            "<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"{}{}/>\n",
            through(points),
            hex(*colour),
            short(*width),
            clear(*opacity, "stroke-opacity"),
            if *dashed { " stroke-dasharray=\"5 4\"" } else { "" }
        ),
        Item::Rectangle { at, size, colour } => format!(
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>\n",
            short(at[0]),
            short(at[1]),
            short(size[0]),
            short(size[1]),
            hex(*colour)
        ),
        Item::Marks { centres, shape, radius, colour, opacity } => {
            marks(centres, *shape, *radius, *colour, *opacity)
        }
        Item::Text { at, size, text, anchor, colour, rotated, halo } => {
            let anchor = match anchor {
                Anchor::Start => "start",
                Anchor::Middle => "middle",
                Anchor::End => "end",
            };
            let rotation = if *rotated {
                format!(" transform=\"rotate(-90 {} {})\"", short(at[0]), short(at[1]))
            } else {
                String::new()
            };
            let edge = if *halo {
                " stroke=\"#ffffff\" stroke-width=\"0.28em\" stroke-linejoin=\"round\" paint-order=\"stroke\""
            } else {
                ""
            };
            format!(
                "<text x=\"{}\" y=\"{}\" font-size=\"{}\" text-anchor=\"{anchor}\" fill=\"{}\"{rotation}{edge}>{}</text>\n",
                short(at[0]),
                short(at[1]),
                short(*size),
                hex(*colour),
                escaped(text)
            )
        }
        Item::Image { at, size, columns, pixels } => format!(
            "<image x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" image-rendering=\"pixelated\" \
             href=\"data:image/png;base64,{}\"/>\n",
            short(at[0]),
            short(at[1]),
            short(size[0]),
            short(size[1]),
            base64(&grey_png(*columns, pixels))
        ),
    }
}

fn clear(opacity: f64, name: &str) -> String {
    if opacity < 1.0 { format!(" {name}=\"{}\"", short(opacity)) } else { String::new() }
}

/// All points with the same shape and colour in one group.
fn marks(centres: &[[f64; 2]], shape: Shape, radius: f64, colour: Colour, opacity: f64) -> String {
    let (open, close) = match shape {
        Shape::Cross => (
            format!(
                "<g fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"{}>",
                hex(colour),
                short(0.6 * radius),
                clear(opacity, "stroke-opacity")
            ),
            "</g>\n",
        ),
        _ => (format!("<g fill=\"{}\"{}>", hex(colour), clear(opacity, "fill-opacity")), "</g>\n"),
    };
    let mut text = open;
    for centre in centres {
        let at = corners(shape, *centre, radius);
        let _ = match shape {
            Shape::Circle => {
                write!(
                    text,
                    "<circle cx=\"{}\" cy=\"{}\" r=\"{}\"/>",
                    short(centre[0]),
                    short(centre[1]),
                    short(radius)
                )
            }
            Shape::Cross => {
                let other: Vec<[f64; 2]> = at.iter().map(|p| [2.0 * centre[0] - p[0], p[1]]).collect();
                write!(text, "<path d=\"{}{}\"/>", through(&at), through(&other))
            }
            _ => write!(text, "<path d=\"{}Z\"/>", through(&at)),
        };
    }
    text + close
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The image as PNG, or no bytes if it is not a valid image; writing to memory cannot fail.
fn grey_png(columns: usize, pixels: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, columns as u32, (pixels.len() / columns.max(1)) as u32);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::Eight);
    let done = encoder.write_header().and_then(|mut writer| writer.write_image_data(pixels));
    if done.is_err() { Vec::new() } else { bytes }
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for part in bytes.chunks(3) {
        let word =
            part.iter().fold(0u32, |word, &byte| word << 8 | u32::from(byte)) << (8 * (3 - part.len()));
        for i in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * i) & 63) as usize];
            text.push(if i <= part.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_matches_the_test_vectors_of_rfc_4648() {
        assert_eq!(
            ["", "f", "fo", "foo", "foob"].map(|t| base64(t.as_bytes())),
            ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]
        );
    }
}
