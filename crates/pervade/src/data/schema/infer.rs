//! The type of one column: the one that a user gives, or the one that its cells suggest.

use super::numbers::{Summary, id_reason};
use super::raw::{Coded, RawCells};
use super::strays::{rows_in_message, stray_words};
use super::words::{
    all_numbers, coded_numbers, number, of_dates, of_levels, of_seconds, of_words, pooled_levels, sorted,
};
use super::{Column, ColumnSpec, ColumnType, LevelKind, MAX_LEVELS, Missing, number_text};
use crate::{Error, Hint, Result};

/// What is known about a column besides its cells.
pub(super) struct Context<'a> {
    /// The table, for messages.
    pub(super) source: &'a str,
    pub(super) name: &'a str,
    pub(super) missing: &'a Missing,
}

/// What becomes of a column.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It is clustered.
    Clustered(Cells),
    /// It goes along to the results, for this reason.
    Kept(String),
    /// It is left out, for this reason; with a summary if it holds numbers.
    LeftOut(String, Option<Summary>),
}

/// A clustered column and its cells.
#[derive(Debug)]
pub(super) struct Cells {
    pub(super) column: Column,
    /// NaN where missing.
    pub(super) values: Vec<f64>,
    /// Rows whose level is one of the rare ones, and which.
    pub(super) pooled: Vec<(usize, String)>,
    pub(super) notes: Vec<String>,
    /// Of the cells as they were, if they are numbers or truth values.
    pub(super) summary: Option<Summary>,
}

impl Cells {
    /// Cells of a column that is not numbers.
    pub(super) fn new(column: Column, values: Vec<f64>) -> Self {
        Self { column, values, pooled: Vec::new(), notes: Vec::new(), summary: None }
    }
}

/// The outcome for a column that nobody gave a type. Numbers are moved out of `cells` if they are clustered.
pub(super) fn inferred(context: &Context, cells: &mut RawCells) -> Result<Outcome> {
    match cells {
        RawCells::Numbers(values) => {
            context.missing.remove_from(values);
            let summary = Summary::of(values.iter().copied());
            if let Some(reason) = id_reason(context.name, values, &summary) {
                return Ok(Outcome::Kept(reason));
            }
            let kind = summary.kind(values.iter().copied());
            Ok(as_numbers(context, std::mem::take(values), summary, kind))
        }
        RawCells::Words(coded) => match present(context, coded) {
            None => Ok(no_values()),
            Some(coded) => of_words(context, coded),
        },
        RawCells::Truth(values) => {
            let numbers = values.iter().map(|truth| truth.map_or(f64::NAN, f64::from));
            let summary = Some(Summary::of(numbers));
            Ok(match of_levels(context, coded_truth(values), LevelKind::Truth) {
                Outcome::Clustered(cells) => Outcome::Clustered(Cells { summary, ..cells }),
                Outcome::LeftOut(reason, _) => Outcome::LeftOut(reason, summary),
                kept @ Outcome::Kept(_) => kept,
            })
        }
        RawCells::Categories { coded, ordered } => {
            let coded = coded.without(|_| false);
            if *ordered && (3..=MAX_LEVELS).contains(&coded.words.len()) {
                return Ok(Outcome::Clustered(ordered_levels(
                    context,
                    &coded,
                    &coded.words,
                    LevelKind::Words,
                )));
            }
            Ok(of_levels(context, coded, LevelKind::Words))
        }
        RawCells::Dates { seconds, format } => Ok(of_seconds(context, seconds.clone(), *format)),
    }
}

fn no_values() -> Outcome {
    Outcome::LeftOut("no values".to_string(), None)
}

/// The words that are not missing; `None` if all are.
fn present(context: &Context, coded: &Coded) -> Option<Coded> {
    let coded = coded.without(|word| context.missing.has_word(word));
    (!coded.words.is_empty()).then_some(coded)
}

/// The outcome for numbers.
pub(super) fn of_numbers(context: &Context, values: Vec<f64>) -> Outcome {
    let summary = Summary::of(values.iter().copied());
    if let Some(reason) = id_reason(context.name, &values, &summary) {
        return Outcome::Kept(reason);
    }
    let kind = summary.kind(values.iter().copied());
    as_numbers(context, values, summary, kind)
}

/// The cells as this kind of number; left out if they are all the same.
fn as_numbers(context: &Context, mut values: Vec<f64>, summary: Summary, kind: ColumnType) -> Outcome {
    match summary.values.as_slice() {
        [] => return no_values(),
        [only] => return Outcome::LeftOut(format!("always {}", number_text(*only, false)), Some(summary)),
        [low, _] if kind == ColumnType::YesNo => {
            values.iter_mut().filter(|x| !x.is_nan()).for_each(|x| *x = if *x == *low { 0.0 } else { 1.0 });
        }
        _ => {}
    }
    let column = summary.column(context.name, kind);
    Outcome::Clustered(Cells { summary: Some(summary), ..Cells::new(column, values) })
}

fn coded_truth(values: &[Option<bool>]) -> Coded {
    let word = |truth: &Option<bool>| truth.map(|truth| if truth { "true" } else { "false" });
    Coded::of(values.iter().map(word))
}

/// The outcome for a column whose type was given.
pub(super) fn given(context: &Context, spec: &ColumnSpec, cells: &RawCells) -> Result<Outcome> {
    match spec.kind {
        ColumnType::Kept => Ok(Outcome::Kept("as asked".to_string())),
        ColumnType::Number | ColumnType::Positive | ColumnType::Count => {
            given_numbers(context, spec.kind, cells)
        }
        ColumnType::Date => given_dates(context, cells),
        ColumnType::YesNo | ColumnType::Category | ColumnType::Ordered => given_levels(context, spec, cells),
    }
}

fn given_numbers(context: &Context, kind: ColumnType, cells: &RawCells) -> Result<Outcome> {
    let mut values = match cells {
        RawCells::Numbers(values) => values.clone(),
        RawCells::Truth(values) => values.iter().map(|truth| truth.map_or(f64::NAN, f64::from)).collect(),
        RawCells::Words(coded) | RawCells::Categories { coded, .. } => {
            let Some(coded) = present(context, coded) else { return Ok(no_values()) };
            let numbers: Vec<Option<f64>> = coded.words.iter().map(|word| number(word)).collect();
            if numbers.iter().any(Option::is_none) {
                let what = format!("{kind} as asked");
                return Err(stray_words(context.source, context.name, &what, &coded, 0, |code| {
                    numbers[code].is_none()
                }));
            }
            coded.map(&numbers.into_iter().flatten().collect::<Vec<f64>>())
        }
        RawCells::Dates { .. } => return Err(unsuitable(context, kind, "it holds dates")),
    };
    context.missing.remove_from(&mut values);
    let is_wrong = |x: &f64| match kind {
        ColumnType::Count => *x < 0.0 || *x != x.trunc() && !x.is_nan(),
        ColumnType::Positive => *x < 0.0,
        _ => false,
    };
    let wrong: Vec<usize> = (0..values.len()).filter(|&row| is_wrong(&values[row])).collect();
    if let Some(&first) = wrong.first() {
        let rule = if kind == ColumnType::Count {
            "counts are whole numbers from 0 on"
        } else {
            "amounts are never negative"
        };
        let value = number_text(values[first], false);
        let rows = rows_in_message(&wrong, wrong.len());
        return Err(unsuitable(context, kind, &format!("{rule}, but it is {value} in {rows}")));
    }
    let summary = Summary::of(values.iter().copied());
    Ok(as_numbers(context, values, summary, kind))
}

fn unsuitable(context: &Context, kind: ColumnType, why: &str) -> Error {
    let problem = format!("column `{}` cannot be of type {kind}: {why}", context.name);
    let hint = Hint::new("correct those cells, or give another ").setting("type");
    Error::data(context.source, problem).with_hint(hint)
}

fn given_dates(context: &Context, cells: &RawCells) -> Result<Outcome> {
    let numbers =
        || unsuitable(context, ColumnType::Date, "dates are written like 2024-12-31, and it holds numbers");
    match cells {
        RawCells::Dates { seconds, format } => Ok(of_seconds(context, seconds.clone(), *format)),
        RawCells::Words(coded) | RawCells::Categories { coded, .. } => match present(context, coded) {
            None => Ok(no_values()),
            Some(coded) if coded.words.iter().all(|word| number(word).is_some()) => Err(numbers()),
            Some(coded) => of_dates(context, &coded),
        },
        _ => Err(numbers()),
    }
}

/// The levels of any column, and what they were.
fn levels_of(context: &Context, cells: &RawCells) -> (Coded, LevelKind) {
    match cells {
        RawCells::Numbers(values) => {
            let mut values = values.clone();
            context.missing.remove_from(&mut values);
            (coded_numbers(&values), LevelKind::Numbers)
        }
        RawCells::Truth(values) => (coded_truth(values), LevelKind::Truth),
        RawCells::Words(coded) => {
            let coded = coded.without(|word| context.missing.has_word(word));
            match all_numbers(&coded.words) {
                // `1.0` and `1` are the same level.
                Some(numbers) => (coded_numbers(&coded.map(&numbers)), LevelKind::Numbers),
                None => (coded, LevelKind::Words),
            }
        }
        RawCells::Categories { coded, .. } => (coded.without(|_| false), LevelKind::Words),
        RawCells::Dates { seconds, format } => {
            let texts: Vec<Option<String>> =
                seconds.iter().map(|&x| (!x.is_nan()).then(|| format.text(x))).collect();
            (Coded::of(texts.iter().map(Option::as_deref)), LevelKind::Words)
        }
    }
}

fn given_levels(context: &Context, spec: &ColumnSpec, cells: &RawCells) -> Result<Outcome> {
    let is_ordered = matches!(cells, RawCells::Categories { ordered: true, .. });
    let (coded, kind) = levels_of(context, cells);
    let n_levels = coded.words.len();
    if n_levels < 2 {
        let constant = |only: &String| Outcome::LeftOut(format!("always {only}"), None);
        return Ok(coded.words.first().map_or_else(no_values, constant));
    }
    let order = sorted(&coded.words);
    match spec.kind {
        ColumnType::YesNo if n_levels > 2 => {
            let why = format!("it has {n_levels} different values");
            Err(unsuitable(context, ColumnType::YesNo, &why))
        }
        ColumnType::Ordered => {
            let levels = if !spec.order.is_empty() {
                spec.order.clone()
            } else if is_ordered {
                coded.words.clone()
            } else if coded.words.iter().all(|word| number(word).is_some()) {
                order.iter().map(|&code| coded.words[code].clone()).collect()
            } else {
                return Err(no_order(context, &coded, &order));
            };
            if levels.len() > MAX_LEVELS {
                let why = format!("it has {n_levels} different values, more than {MAX_LEVELS} levels");
                return Err(unsuitable(context, ColumnType::Ordered, &why));
            }
            if let Some(code) = coded.words.iter().position(|word| !levels.contains(word)) {
                let row = rows_in_message(&coded.rows_with(code, 1), 1);
                let why = format!(
                    "its levels are to be {}, but it is `{}` in {row}",
                    levels.join(" < "),
                    coded.words[code]
                );
                return Err(unsuitable(context, ColumnType::Ordered, &why));
            }
            Ok(Outcome::Clustered(ordered_levels(context, &coded, &levels, kind)))
        }
        _ => {
            let cells = pooled_levels(context, &coded, &order, kind);
            if cells.column.levels.len() > MAX_LEVELS {
                let why = format!(
                    "it has {n_levels} different values, all of them rare; at most {MAX_LEVELS} are possible"
                );
                let hint = Hint::new("leave it out with ").setting_to("keep_columns", context.name);
                return Err(unsuitable(context, ColumnType::Category, &why)
                    .with_hint(hint.text(", or group its values")));
            }
            Ok(Outcome::Clustered(cells))
        }
    }
}

fn no_order(context: &Context, coded: &Coded, order: &[usize]) -> Error {
    let words: Vec<&str> = order.iter().take(4).map(|&code| coded.words[code].as_str()).collect();
    let more = if order.len() > words.len() { " < .." } else { "" };
    let example = format!("{}=ordered: {}{more}", context.name, words.join(" < "));
    let why = "the order of its levels is not known";
    unsuitable(context, ColumnType::Ordered, why)
        .with_hint(Hint::new("give the levels from low to high, as in ").setting_to("type", example))
}

/// Ranks of levels in an order.
fn ordered_levels(context: &Context, coded: &Coded, levels: &[String], kind: LevelKind) -> Cells {
    let rank =
        |word: &String| levels.iter().position(|level| level == word).map_or(f64::NAN, |rank| rank as f64);
    let ranks: Vec<f64> = coded.words.iter().map(rank).collect();
    let values = coded.map(&ranks);
    let mut column = Column::new(context.name, ColumnType::Ordered);
    column.levels = levels.to_vec();
    column.level_kind = kind;
    column.has_gaps = values.iter().any(|x| x.is_nan());
    Cells::new(column, values)
}
