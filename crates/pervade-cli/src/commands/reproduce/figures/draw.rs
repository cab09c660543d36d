//! Draws pages from records, without training or reading data.

use pervade_plots::{
    BLACK, Classes, Curves, GREY, ImagePanel, Level, Line, OKABE_ITO, Page, ScatterPanel, Shape,
    class_colour, class_shape, image_panels, scatter_panels,
};

use super::record::{Accuracy, FigureRecord, Pictures, Points, from_hex};
use crate::settings::short;
use crate::words;

/// A level of the accuracy figure: method and mean accuracy.
pub(super) type MethodLevel = (String, f64);

const VADE_COLOUR: [u8; 3] = OKABE_ITO[0];
const PAPER_COLOUR: [u8; 3] = OKABE_ITO[3];
/// Colours of right and wrong.
const RIGHT: ([u8; 3], Shape) = (OKABE_ITO[4], Shape::Circle);
const WRONG: ([u8; 3], Shape) = (OKABE_ITO[3], Shape::Cross);

/// The note of a figure that flags changed.
fn look<B>(record: &FigureRecord<B>) -> Option<String> {
    let each: Vec<String> =
        record.overrides.iter().map(|(key, value)| format!("{key} {}", short(value))).collect();
    (!each.is_empty()).then(|| format!("A quick look with {}.", each.join(", ")))
}

/// All notes of a figure.
fn notes<B>(record: &FigureRecord<B>, own: &[String]) -> Vec<String> {
    look(record).into_iter().chain(own.iter().cloned()).collect()
}

pub(super) fn accuracy(record: &FigureRecord<Accuracy>, rivals: &[MethodLevel], paper: Option<f64>) -> Page {
    let restarts = &record.numbers.restarts;
    let percent = |(epoch, share): (usize, &f64)| [epoch as f64, 100.0 * share];
    let curve = |values: &[f64]| values.iter().enumerate().map(percent).collect::<Vec<[f64; 2]>>();
    let thin = |values: &Vec<f64>| Line {
        points: curve(values),
        colour: VADE_COLOUR,
        width: 1.0,
        opacity: 0.35,
        label: None,
    };
    let mut lines: Vec<Line> = restarts.iter().map(thin).collect();
    let last = |values: &Vec<f64>| values.last().copied().unwrap_or(0.0);
    let best = restarts.iter().max_by(|a, b| last(a).total_cmp(&last(b)));
    let several = restarts.len() > 1;
    if let Some(best) = best {
        let label = if several { format!("VaDE, best of {}", restarts.len()) } else { "VaDE".to_string() };
        let label = Some(format!("{label}: {:.1}", 100.0 * last(best)));
        lines.push(Line { points: curve(best), colour: VADE_COLOUR, width: 2.4, opacity: 1.0, label });
    }
    if several {
        let median = medians(restarts);
        let label = Some(format!("VaDE, median: {:.1}", 100.0 * last(&median)));
        lines.push(Line { points: curve(&median), colour: BLACK, width: 2.4, opacity: 1.0, label });
    }
    // Their names are at the ends of the lines: colour is reserved for what is trained here.
    let level = |(name, mean): &MethodLevel| Level {
        value: 100.0 * mean,
        label: format!("{name} {:.1}", 100.0 * mean),
        colour: GREY,
    };
    let mut levels: Vec<Level> = rivals.iter().map(level).collect();
    levels.extend(paper.map(|value| Level {
        value,
        label: format!("VaDE in the paper {value:.1}"),
        colour: PAPER_COLOUR,
    }));
    Curves {
        title: format!(
            "{}: VaDE by the paper's recipe, {}; means of the others",
            record.title,
            words::counted(restarts.len(), "restart")
        ),
        x_label: "epoch of joint training".to_string(),
        y_label: "accuracy, %".to_string(),
        lines,
        levels,
        notes: notes(record, &[]),
    }
    .page()
}

/// The median over the restarts at each epoch.
fn medians(restarts: &[Vec<f64>]) -> Vec<f64> {
    let epochs = restarts.iter().map(Vec::len).min().unwrap_or(0);
    let at = |epoch: usize| {
        let mut values: Vec<f64> = restarts.iter().map(|values| values[epoch]).collect();
        values.sort_by(f64::total_cmp);
        let (low, high) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
        f64::midpoint(low, high)
    };
    (0..epochs).map(at).collect()
}

/// The labels as classes.
fn label_classes(names: &[String]) -> Classes {
    let looks = (0..names.len().max(1)).map(|class| (class_colour(class), class_shape(class))).collect();
    Classes { names: names.to_vec(), looks, named_in_place: true }
}

pub(super) fn latents(record: &FigureRecord<Points>) -> Page {
    let points = &record.numbers;
    let panels: Vec<ScatterPanel> = points
        .panels
        .iter()
        .map(|panel| ScatterPanel {
            title: format!("{}: ACC {:.1} %", panel.name, 100.0 * panel.accuracy),
            points: panel.points.clone(),
            classes: points.labels.clone(),
            set: 0,
        })
        .collect();
    let title = format!("VaDE's latents of {} as it is trained, by t-SNE", record.title);
    scatter_panels(&title, &panels, &[label_classes(&points.names)], 3, &notes(record, &points.notes))
}

pub(super) fn embeddings(record: &FigureRecord<Points>) -> Page {
    let points = &record.numbers;
    let by_label = points.panels.iter().map(|panel| ScatterPanel {
        title: format!("{}, by label", panel.name),
        points: panel.points.clone(),
        classes: points.labels.clone(),
        set: 0,
    });
    let by_match = points.panels.iter().map(|panel| ScatterPanel {
        title: format!("{}: ACC {:.1} %", panel.name, 100.0 * panel.accuracy),
        points: panel.points.clone(),
        classes: panel.right.iter().map(|&right| u32::from(!right)).collect(),
        set: 1,
    });
    let panels: Vec<ScatterPanel> = by_label.chain(by_match).collect();
    let matched = Classes {
        names: vec!["in the cluster of its label".to_string(), "in another".to_string()],
        looks: vec![RIGHT, WRONG],
        named_in_place: false,
    };
    let title = format!("Representations of {}, by t-SNE", record.title);
    let sets = [label_classes(&points.names), matched];
    scatter_panels(&title, &panels, &sets, points.panels.len(), &notes(record, &points.notes))
}

pub(super) fn pictures(record: &FigureRecord<Pictures>, title: &str) -> Page {
    let pictures = &record.numbers;
    let decoded = |line: &Vec<String>| line.iter().map(|text| from_hex(text)).collect::<Vec<Vec<u8>>>();
    let panels: Vec<ImagePanel> = pictures
        .panels
        .iter()
        .map(|panel| ImagePanel {
            title: panel.title.clone(),
            names: panel.names.clone(),
            rows: panel.lines.iter().map(decoded).collect(),
        })
        .collect();
    let title = format!("{title} {}", record.title);
    let mut notes = notes(record, &pictures.notes);
    if pictures.panels.iter().any(|panel| !panel.names.is_empty()) {
        notes.insert(
            0,
            "Before each line: the most frequent label of the cluster; ? if it has none.".to_string(),
        );
    }
    image_panels(&title, &panels, pictures.width, 2, &notes)
}
