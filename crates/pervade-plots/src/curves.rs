//! Line plots with labelled horizontal levels.

use crate::page::{Anchor, Item, Page};
use crate::palette::{BLACK, Colour, GREY, PALE};

/// A curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The points, from left to right.
    pub points: Vec<[f64; 2]>,
    /// The colour.
    pub colour: Colour,
    /// The width.
    pub width: f64,
    /// From 0, transparent, to 1, opaque.
    pub opacity: f64,
    /// The label at its end.
    pub label: Option<String>,
}

/// A labelled, dashed horizontal line.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// The y value.
    pub value: f64,
    /// The label.
    pub label: String,
    /// The colour.
    pub colour: Colour,
}

/// A plot of curves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curves {
    /// The title above the plot.
    pub title: String,
    /// The label of the x axis.
    pub x_label: String,
    /// The label of the y axis.
    pub y_label: String,
    /// The curves, from bottom to top.
    pub lines: Vec<Line>,
    /// The horizontal levels.
    pub levels: Vec<Level>,
    /// Notes in small type below the plot.
    pub notes: Vec<String>,
}

const WIDTH: f64 = 780.0;
const HEIGHT: f64 = 470.0;
const LEFT: f64 = 66.0;
const RIGHT: f64 = 200.0;
const TOP: f64 = 46.0;
const BOTTOM: f64 = 56.0;
const SIZE: f64 = 13.0;

/// Maps data coordinates to the page.
struct Scale {
    x: [f64; 2],
    y: [f64; 2],
}

impl Scale {
    fn position(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        let share = |value: f64, [low, high]: [f64; 2]| (value - low) / (high - low).max(f64::MIN_POSITIVE);
        [
            LEFT + share(x, self.x) * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - share(y, self.y) * (HEIGHT - TOP - BOTTOM),
        ]
    }
}

impl Curves {
    /// Draws the plot on a page.
    pub fn page(&self) -> Page {
        let mut page = Page::new(WIDTH, HEIGHT);
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let x = range(points().map(|p| p[0]));
        let y = range(points().map(|p| p[1]).chain(self.levels.iter().map(|level| level.value)));
        let y_ticks = ticks(y, 6);
        let outer = |ticks: &[f64], [low, high]: [f64; 2]| {
            let step = if ticks.len() > 1 { ticks[1] - ticks[0] } else { 1.0 };
            [(low / step).floor() * step, (high / step).ceil() * step]
        };
        let scale = Scale { x, y: outer(&y_ticks, y) };
        self.axes(&mut page, &scale);
        for level in &self.levels {
            let ends = x.map(|x| scale.position([x, level.value]));
            let (points, colour) = (ends.to_vec(), level.colour);
            page.items.push(Item::Line { points, colour, width: 1.4, opacity: 1.0, dashed: true });
        }
        for line in &self.lines {
            let points = line.points.iter().map(|&point| scale.position(point)).collect();
            let Line { colour, width, opacity, .. } = *line;
            page.items.push(Item::Line { points, colour, width, opacity, dashed: false });
        }
        self.labels(&mut page, &scale);
        page.text([LEFT, 26.0], SIZE + 2.0, Anchor::Start, &self.title);
        page.notes(&self.notes, 20.0);
        page
    }

    fn axes(&self, page: &mut Page, scale: &Scale) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for value in ticks(scale.y, 6) {
            let [_, y] = scale.position([scale.x[0], value]);
            page.line(vec![[LEFT, y], [right, y]], PALE, 1.0);
            page.text([LEFT - 8.0, y + 0.35 * SIZE], SIZE, Anchor::End, &number(value));
        }
        for value in ticks(scale.x, 7) {
            let [x, _] = scale.position([value, scale.y[0]]);
            page.line(vec![[x, bottom], [x, bottom + 5.0]], GREY, 1.0);
            page.text([x, bottom + 20.0], SIZE, Anchor::Middle, &number(value));
        }
        page.line(vec![[LEFT, bottom], [right, bottom]], GREY, 1.0);
        page.text([f64::midpoint(LEFT, right), HEIGHT - 14.0], SIZE, Anchor::Middle, &self.x_label);
        let at = [20.0, f64::midpoint(TOP, bottom)];
        let (size, text, colour) = (SIZE, self.y_label.clone(), BLACK);
        page.items.push(Item::Text {
            at,
            size,
            text,
            anchor: Anchor::Middle,
            colour,
            rotated: true,
            halo: false,
        });
    }

    /// Draws labels at the right, moved apart where they would overlap, each with a leader line.
    fn labels(&self, page: &mut Page, scale: &Scale) {
        let ends = self.lines.iter().filter_map(|line| {
            let end = scale.position(*line.points.last()?);
            Some((end, line.label.clone()?, line.colour))
        });
        let levels = self
            .levels
            .iter()
            .map(|level| (scale.position([scale.x[1], level.value]), level.label.clone(), level.colour));
        let mut labels: Vec<([f64; 2], String, Colour)> = ends.chain(levels).collect();
        labels.sort_by(|a, b| a.0[1].total_cmp(&b.0[1]));
        let wanted: Vec<f64> = labels.iter().map(|label| label.0[1]).collect();
        let positions = spaced(&wanted, SIZE + 4.0, TOP, HEIGHT - BOTTOM);
        for ((end, text, colour), y) in labels.into_iter().zip(positions) {
            let x = WIDTH - RIGHT + 26.0;
            page.line(vec![end, [WIDTH - RIGHT + 6.0, end[1]], [x - 5.0, y], [x - 1.0, y]], colour, 1.0);
            page.text([x + 2.0, y + 0.35 * SIZE], SIZE, Anchor::Start, &text);
        }
    }
}

/// Minimum and maximum; a range of length one if they are equal or there are no values.
fn range(values: impl Iterator<Item = f64>) -> [f64; 2] {
    let [low, high] =
        values.fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], v| [low.min(v), high.max(v)]);
    match high - low {
        length if length > 0.0 && length.is_finite() => [low, high],
        _ if low.is_finite() => [low - 0.5, low + 0.5],
        _ => [0.0, 1.0],
    }
}

/// Round values within a range, about `count` of them.
fn ticks([low, high]: [f64; 2], count: usize) -> Vec<f64> {
    let raw = (high - low) / count as f64;
    let unit = 10f64.powf(raw.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].iter().map(|m| m * unit).find(|&step| step >= raw * 0.999).unwrap_or(unit);
    let first = (low / step - 1e-9).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    (first..=last).map(|i| i as f64 * step).collect()
}

fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// Ascending positions at least `gap` apart, near the wanted ones and within the plot if they fit.
fn spaced(wanted: &[f64], gap: f64, low: f64, high: f64) -> Vec<f64> {
    let mut positions: Vec<f64> = wanted.to_vec();
    for i in 1..positions.len() {
        positions[i] = positions[i].max(positions[i - 1] + gap);
    }
    // Labels pushed below the plot push back, and all move halfway towards their wanted positions.
    for _ in 0..100 {
        for i in (0..positions.len()).rev() {
            let max = positions.get(i + 1).map_or(high, |next| next - gap);
            let min = if i == 0 { low } else { positions[i - 1] + gap };
            let own = 0.5 * (positions[i] + wanted[i]);
            positions[i] = own.max(min).min(max);
        }
    }
    positions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_labels_keep_their_distance() {
        assert_eq!(ticks([0.0, 300.0], 7), [0.0, 50.0, 100.0, 150.0, 200.0, 250.0, 300.0]);
        assert_eq!(ticks([53.7, 94.5], 6), [60.0, 70.0, 80.0, 90.0]);
        let positions = spaced(&[100.0, 101.0, 102.0, 390.0, 395.0], 17.0, 40.0, 400.0);
        assert!(positions.windows(2).all(|pair| pair[1] - pair[0] > 16.9), "{positions:?}");
        assert!(positions[4] <= 400.0 && positions[0] > 60.0, "{positions:?}");
        assert_eq!((number(0.5), number(60.0)), ("0.5".to_string(), "60".to_string()));
    }
}
