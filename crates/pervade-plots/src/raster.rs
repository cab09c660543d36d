//! Rendering of a page as PNG.

use tiny_skia::{
    FillRule, FilterQuality, Paint, Path, PathBuilder, Pixmap, PixmapPaint, PremultipliedColorU8, Rect,
    Stroke, StrokeDash, Transform,
};

use crate::font;
use crate::page::{Anchor, Item, Page};
use crate::palette::Shape;
use crate::palette::{Colour, WHITE};

/// The maximum width and height in pixels: 16,384 squared takes a gigabyte.
const MAX_PIXELS: f64 = 16_384.0;

impl Page {
    /// The page as an RGB PNG, magnified by `scale`; an error if it is too large.
    pub fn png(&self, scale: f64) -> std::io::Result<Vec<u8>> {
        let side = |length: f64| (length * scale).round().clamp(1.0, MAX_PIXELS) as u32;
        let (width, height) = (side(self.width), side(self.height));
        let mut pixmap =
            Pixmap::new(width, height).ok_or_else(|| std::io::Error::other("the page is too large"))?;
        pixmap.fill(tiny_skia::Color::WHITE);
        let base = Transform::from_scale(scale as f32, scale as f32);
        self.items.iter().for_each(|item| draw(&mut pixmap, item, base));
        let rgb: Vec<u8> = pixmap.pixels().iter().flat_map(|p| [p.red(), p.green(), p.blue()]).collect();
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, width, height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header().map_err(std::io::Error::other)?;
        writer.write_image_data(&rgb).map_err(std::io::Error::other)?;
        writer.finish().map_err(std::io::Error::other)?;
        Ok(bytes)
    }
}

fn paint(colour: Colour, opacity: f64) -> Paint<'static> {
    let [r, g, b] = colour;
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color_rgba8(r, g, b, (255.0 * opacity.clamp(0.0, 1.0)).round() as u8);
    paint
}

fn draw(pixmap: &mut Pixmap, item: &Item, base: Transform) {
    match item {
        Item::Line { points, colour, width, opacity, dashed } => {
            let dash = if *dashed { StrokeDash::new(vec![5.0, 4.0], 0.0) } else { None };
            let stroke = Stroke { width: *width as f32, dash, ..Stroke::default() };
            if let Some(path) = polyline(points) {
                pixmap.stroke_path(&path, &paint(*colour, *opacity), &stroke, base, None);
            }
        }
        Item::Rectangle { at, size, colour } => {
            let [x, y, w, h] = [at[0], at[1], size[0], size[1]].map(|v| v as f32);
            if let Some(rectangle) = Rect::from_xywh(x, y, w, h) {
                pixmap.fill_rect(rectangle, &paint(*colour, 1.0), base, None);
            }
        }
        Item::Marks { centres, shape, radius, colour, opacity } => {
            // One by one, so that overlapping points become darker.
            for centre in centres {
                mark(pixmap, *centre, *shape, *radius, &paint(*colour, *opacity), base);
            }
        }
        Item::Text { at, size, text, anchor, colour, rotated, halo } => {
            let Some(path) = font::outline(text) else { return };
            let shift = font::width(text)
                * match anchor {
                    Anchor::Start => 0.0,
                    Anchor::Middle => 0.5,
                    Anchor::End => 1.0,
                };
            let translation = Transform::from_translate(at[0] as f32, at[1] as f32);
            let rotation = if *rotated { Transform::from_rotate(-90.0) } else { Transform::identity() };
            let scaling = Transform::from_scale(*size as f32, *size as f32).pre_translate(-shift as f32, 0.0);
            let transform = base.pre_concat(translation).pre_concat(rotation).pre_concat(scaling);
            if *halo {
                // The width is in units of the font's height.
                let stroke =
                    Stroke { width: 0.28, line_join: tiny_skia::LineJoin::Round, ..Stroke::default() };
                pixmap.stroke_path(&path, &paint(WHITE, 1.0), &stroke, transform, None);
            }
            pixmap.fill_path(&path, &paint(*colour, 1.0), FillRule::Winding, transform, None);
        }
        Item::Image { at, size, columns, pixels } => image(pixmap, *at, *size, *columns, pixels, base),
    }
}

fn polyline(points: &[[f64; 2]]) -> Option<Path> {
    let mut builder = PathBuilder::new();
    for (i, point) in points.iter().enumerate() {
        let [x, y] = point.map(|v| v as f32);
        if i == 0 { builder.move_to(x, y) } else { builder.line_to(x, y) }
    }
    builder.finish()
}

fn mark(
    pixmap: &mut Pixmap,
    centre: [f64; 2],
    shape: Shape,
    radius: f64,
    paint: &Paint<'_>,
    base: Transform,
) {
    if shape == Shape::Circle {
        if let Some(path) = PathBuilder::from_circle(centre[0] as f32, centre[1] as f32, radius as f32) {
            pixmap.fill_path(&path, paint, FillRule::Winding, base, None);
        }
        return;
    }
    let path = polyline(&corners(shape, centre, radius));
    match path {
        Some(path) if shape == Shape::Cross => {
            let other: Vec<[f64; 2]> =
                corners(shape, centre, radius).iter().map(|p| [2.0 * centre[0] - p[0], p[1]]).collect();
            let stroke = Stroke { width: (0.6 * radius) as f32, ..Stroke::default() };
            pixmap.stroke_path(&path, paint, &stroke, base, None);
            if let Some(other) = polyline(&other) {
                pixmap.stroke_path(&other, paint, &stroke, base, None);
            }
        }
        Some(path) => pixmap.fill_path(&path, paint, FillRule::Winding, base, None),
        None => {}
    }
}

/// The corners of a mark; for a cross, the ends of its descending bar. Areas are about equal.
pub(crate) fn corners(shape: Shape, centre: [f64; 2], radius: f64) -> Vec<[f64; 2]> {
    let r = radius;
    let offsets: &[[f64; 2]] = match shape {
        Shape::Triangle => &[[0.0, -1.3], [1.15, 0.85], [-1.15, 0.85]],
        Shape::Square => &[[-0.88, -0.88], [0.88, -0.88], [0.88, 0.88], [-0.88, 0.88]],
        Shape::Diamond => &[[0.0, -1.25], [1.25, 0.0], [0.0, 1.25], [-1.25, 0.0]],
        Shape::Cross | Shape::Circle => &[[-1.0, -1.0], [1.0, 1.0]],
    };
    offsets.iter().map(|[x, y]| [centre[0] + r * x, centre[1] + r * y]).collect()
}

fn image(pixmap: &mut Pixmap, at: [f64; 2], size: [f64; 2], columns: usize, pixels: &[u8], base: Transform) {
    let rows = pixels.len() / columns.max(1);
    let Some(mut picture) = Pixmap::new(columns as u32, rows as u32) else { return };
    for (pixel, &grey) in picture.pixels_mut().iter_mut().zip(pixels) {
        *pixel = PremultipliedColorU8::from_rgba(grey, grey, grey, 255).unwrap_or(*pixel);
    }
    let transform = base
        .pre_translate(at[0] as f32, at[1] as f32)
        .pre_scale((size[0] / columns as f64) as f32, (size[1] / rows as f64) as f32);
    let paint = PixmapPaint { quality: FilterQuality::Nearest, ..PixmapPaint::default() };
    pixmap.draw_pixmap(0, 0, picture.as_ref(), &paint, transform, None);
}
