//! Scatter plots with a colour and a shape per class, and class names at the densest points.

use crate::page::{Anchor, Item, Page};
use crate::palette::Shape;
use crate::palette::{BLACK, Colour, PALE};

/// A panel of a scatter plot.
#[derive(Clone, Debug, PartialEq)]
pub struct ScatterPanel {
    /// The title above the panel.
    pub title: String,
    /// The points, in any scale.
    pub points: Vec<[f64; 2]>,
    /// The class of each point.
    pub classes: Vec<u32>,
    /// Index into the page's sets of classes.
    pub set: usize,
}

/// Names and looks of classes.
#[derive(Clone, Debug, PartialEq)]
pub struct Classes {
    /// The names, for the legend below.
    pub names: Vec<String>,
    /// The colours and shapes.
    pub looks: Vec<(Colour, Shape)>,
    /// Whether each name is also drawn over its points.
    pub named_in_place: bool,
}

const SIDE: f64 = 270.0;
const GAP: f64 = 18.0;
const TITLE: f64 = 24.0;
const HEAD: f64 = 40.0;
const LEGEND: f64 = 26.0;
const RADIUS: f64 = 1.7;
/// The distance of a panel's points from its frame.
const INSET: f64 = 10.0;

/// A page of panels, `columns` per line, with a legend per set of classes, and notes below.
pub fn scatter_panels(
    title: &str,
    panels: &[ScatterPanel],
    sets: &[Classes],
    columns: usize,
    notes: &[String],
) -> Page {
    let columns = columns.clamp(1, panels.len().max(1));
    let lines = panels.len().div_ceil(columns);
    let width = GAP + columns as f64 * (SIDE + GAP);
    let legends: Vec<Vec<Vec<usize>>> = sets.iter().map(|set| legend_lines(set, width - 2.0 * GAP)).collect();
    let legend_height = legends.iter().map(|lines| lines.len() as f64 * LEGEND).sum::<f64>();
    let height = HEAD + lines as f64 * (SIDE + TITLE + GAP) + legend_height + 4.0;
    let mut page = Page::new(width, height);
    page.text([GAP, 26.0], 15.0, Anchor::Start, title);
    for (i, panel) in panels.iter().enumerate() {
        let at = [
            GAP + (i % columns) as f64 * (SIDE + GAP),
            HEAD + (i / columns) as f64 * (SIDE + TITLE + GAP) + TITLE,
        ];
        draw(&mut page, panel, &sets[panel.set.min(sets.len() - 1)], at);
    }
    let mut y = height - legend_height + 8.0;
    for (set, lines) in sets.iter().zip(&legends) {
        for line in lines {
            let mut x = GAP + 4.0;
            for &class in line {
                let (colour, shape) = set.looks[class % set.looks.len()];
                let centres = vec![[x + 4.0, y - 4.5]];
                page.items.push(Item::Marks { centres, shape, radius: 4.5, colour, opacity: 1.0 });
                page.text([x + 14.0, y], 13.0, Anchor::Start, &set.names[class]);
                x += entry_width(&set.names[class]);
            }
            y += LEGEND;
        }
    }
    page.notes(notes, GAP + 4.0);
    page
}

fn entry_width(name: &str) -> f64 {
    14.0 + Page::text_width(name, 13.0) + 20.0
}

/// The classes of a legend, broken into lines that fit.
fn legend_lines(set: &Classes, width: f64) -> Vec<Vec<usize>> {
    let mut lines: Vec<Vec<usize>> = vec![Vec::new()];
    let mut used = 0.0;
    for class in 0..set.names.len() {
        let own = entry_width(&set.names[class]);
        if used + own > width && used > 0.0 {
            lines.push(Vec::new());
            used = 0.0;
        }
        used += own;
        if let Some(line) = lines.last_mut() {
            line.push(class);
        }
    }
    lines
}

fn draw(page: &mut Page, panel: &ScatterPanel, set: &Classes, at: [f64; 2]) {
    page.frame(at, [SIDE, SIDE], PALE, 1.0);
    page.text([at[0], at[1] - 7.0], 13.0, Anchor::Start, &panel.title);
    let positions = fitted(&panel.points, at);
    for class in 0..set.names.len() {
        let own = |i: &usize| panel.classes[*i] as usize == class;
        let centres: Vec<[f64; 2]> = (0..positions.len()).filter(own).map(|i| positions[i]).collect();
        let (colour, shape) = set.looks[class % set.looks.len()];
        page.items.push(Item::Marks { centres, shape, radius: RADIUS, colour, opacity: 0.8 });
    }
    if !set.named_in_place {
        return;
    }
    for class in 0..set.names.len() {
        let is_own = |&i: &usize| panel.classes[i] as usize == class;
        let own: Vec<[f64; 2]> = (0..positions.len()).filter(is_own).map(|i| positions[i]).collect();
        if let Some([x, y]) = densest(&own) {
            let (text, colour) = (set.names[class].clone(), BLACK);
            let (at, anchor) = ([x, y + 5.5], Anchor::Middle);
            page.items.push(Item::Text { at, size: 16.0, text, anchor, colour, rotated: false, halo: true });
        }
    }
}

/// Scales points into the panel, with the same scale on both axes.
fn fitted(points: &[[f64; 2]], at: [f64; 2]) -> Vec<[f64; 2]> {
    let bounds = |axis: usize| {
        points
            .iter()
            .map(|p| p[axis])
            .fold([f64::INFINITY, f64::NEG_INFINITY], |[a, b], v| [a.min(v), b.max(v)])
    };
    let (x, y) = (bounds(0), bounds(1));
    let extent = (x[1] - x[0]).max(y[1] - y[0]).max(f64::MIN_POSITIVE);
    let inner = SIDE - 2.0 * INSET;
    let position =
        |value: f64, [low, high]: [f64; 2]| SIDE / 2.0 + (value - f64::midpoint(low, high)) / extent * inner;
    points.iter().map(|p| [at[0] + position(p[0], x), at[1] + SIDE - position(p[1], y)]).collect()
}

/// The centre of the densest neighbourhood: a median may be where there are no points.
fn densest(points: &[[f64; 2]]) -> Option<[f64; 2]> {
    const NEAR: f64 = 14.0;
    let near = |a: &[f64; 2]| {
        points.iter().filter(|b| (a[0] - b[0]).powi(2) + (a[1] - b[1]).powi(2) < NEAR * NEAR).count()
    };
    let counts: Vec<usize> = points.iter().map(near).collect();
    let best = (0..points.len()).fold(None, |best: Option<usize>, i| match best {
        Some(b) if counts[b] >= counts[i] => Some(b),
        _ => Some(i),
    })?;
    // The mean of that neighbourhood.
    let around = points
        .iter()
        .filter(|b| (points[best][0] - b[0]).powi(2) + (points[best][1] - b[1]).powi(2) < NEAR * NEAR);
    let sum = around.fold([0.0, 0.0, 0.0], |[x, y, n], p| [x + p[0], y + p[1], n + 1.0]);
    Some([sum[0] / sum[2], sum[1] / sum[2]])
}
