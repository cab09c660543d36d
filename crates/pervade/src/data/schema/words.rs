//! Which type a column of words has: numbers, dates, categories, or none.

use super::infer::{Cells, Context, Outcome, of_numbers};
use super::names::{IdName, looks_like_id};
use super::numbers::differing;
use super::raw::{Coded, MISSING};
use super::strays::{rows_in_message, stray_words, unreadable_numbers, word_in_message};
use super::{Column, ColumnType, DateFormat, LevelKind, MAX_LEVELS, OTHER, dates, number_text};
use crate::{Error, Hint, Result};

/// If at least this share of the cells are numbers, or dates, the others are mistakes.
const MOST: f64 = 0.8;
/// In columns of fewer cells than this, one word is a large share: there, more than half are most, unless the name is that of an id.
const FEW_CELLS: usize = 20;
const MOST_OF_FEW: f64 = 0.5;
/// Rare levels are in fewer than 0.5 % of the cells, or in fewer than 20, or in small tables than 5 % of them.
const RARE_SHARE: f64 = 0.005;
const RARE_CELLS: f64 = 20.0;
const RARE_SHARE_OF_FEW: f64 = 0.05;

/// The outcome for text of unknown type, none of which is a word for missing cells.
pub(super) fn of_words(context: &Context, coded: Coded) -> Result<Outcome> {
    let is_number: Vec<bool> = coded.words.iter().map(|word| number(word).is_some()).collect();
    let counts = coded.counts();
    let n_cells: usize = counts.iter().sum();
    let share = |is: &dyn Fn(usize) -> bool| {
        (0..counts.len()).filter(|&code| is(code)).map(|code| counts[code]).sum::<usize>() as f64
            / n_cells as f64
    };
    let is_short = n_cells < FEW_CELLS && looks_like_id(context.name) != Some(IdName::Id);
    let are_most = |share: f64| share >= MOST || is_short && share > MOST_OF_FEW;
    if let Some(numbers) = all_numbers(&coded.words) {
        return Ok(of_numbers(context, coded.map(&numbers)));
    }
    if !is_code(&coded.words) {
        let error = unreadable_numbers(context.source, context.name, &coded, 0, |code| is_number[code]);
        if let Some(error) = error {
            return Err(error);
        }
        if are_most(share(&|code| is_number[code])) {
            return Err(stray_words(context.source, context.name, "numbers", &coded, 0, |code| {
                !is_number[code]
            }));
        }
    }
    let is_date: Vec<bool> = coded.words.iter().map(|word| dates::parse(word).is_some()).collect();
    if are_most(share(&|code| is_date[code])) {
        return of_dates(context, &coded);
    }
    if coded.words.iter().all(|word| dates::is_ambiguous(word)) {
        return Ok(Outcome::Kept("dates that are not written like 2024-12-31".to_string()));
    }
    if coded.words.len() > 2
        && let Some(reason) = differing(coded.words.len(), n_cells)
    {
        let what = if coded.words.iter().any(|word| word.contains(' ')) { "text" } else { "an id" };
        return Ok(Outcome::Kept(format!("{what}: {reason}")));
    }
    Ok(of_levels(context, coded, LevelKind::Words))
}

/// A finite number.
pub(super) fn number(word: &str) -> Option<f64> {
    word.parse().ok().filter(|x: &f64| x.is_finite())
}

/// The numbers that the words are; `None` if one is no number, or if they are codes.
pub(super) fn all_numbers(words: &[String]) -> Option<Vec<f64>> {
    if is_code(words) { None } else { words.iter().map(|word| number(word)).collect() }
}

/// Whether words of digits are codes, such as postal codes, because they are filled up with zeros: `00501`, `10001`.
fn is_code(words: &[String]) -> bool {
    let length = words.first().map_or(0, String::len);
    let is_digits = |word: &String| word.len() == length && word.bytes().all(|b| b.is_ascii_digit());
    length > 1 && words.iter().any(|word| word.starts_with('0')) && words.iter().all(is_digits)
}

/// Dates; words among them are an error, and so are timestamps with and without a zone in one column.
pub(super) fn of_dates(context: &Context, coded: &Coded) -> Result<Outcome> {
    let parsed: Vec<Option<(f64, DateFormat)>> = coded.words.iter().map(|word| dates::parse(word)).collect();
    if parsed.iter().any(Option::is_none) {
        let is_stray = |code: usize| parsed[code].is_none();
        return Err(stray_words(context.source, context.name, "dates", coded, 0, is_stray));
    }
    let with = |wanted: bool| {
        parsed.iter().position(|date| date.is_some_and(|(_, format)| format.has_zone() == Some(wanted)))
    };
    if let (Some(zoned), Some(local)) = (with(true), with(false)) {
        let shown = |code: usize| {
            let row = rows_in_message(&coded.rows_with(code, 1), 1);
            format!("{} in {row}", word_in_message(&coded.words[code]))
        };
        let problem = format!(
            "column `{}` mixes timestamps with a time zone ({}) and without one ({})",
            context.name,
            shown(zoned),
            shown(local)
        );
        let hint = Hint::new("give all of them in one time zone").also("");
        let hint = hint.setting_to("keep_columns", context.name).text(" leaves the column out");
        return Err(Error::data(context.source, problem).with_hint(hint));
    }
    let formats = parsed.iter().flatten().map(|(_, format)| *format);
    let format = formats.reduce(DateFormat::merged).unwrap_or(DateFormat::DAYS);
    let seconds: Vec<f64> = parsed.iter().map(|date| date.map_or(f64::NAN, |(seconds, _)| seconds)).collect();
    Ok(of_seconds(context, coded.map(&seconds), format))
}

/// Takes dates that stand for something else, such as "never", as missing, and says so.
pub(super) fn remove_absurd(name: &str, seconds: &mut [f64], format: &DateFormat) -> Option<String> {
    let [first, last] = DateFormat::YEARS;
    let absurd = |x: &f64| !(first..last).contains(x) && !x.is_nan();
    let n_absurd = seconds.iter().filter(|x| absurd(x)).count();
    let example = DateFormat { origin: 0, ..*format }.text(seconds.iter().copied().find(absurd)?);
    seconds.iter_mut().filter(|x| absurd(x)).for_each(|x| *x = f64::NAN);
    let (dates, are) = if n_absurd == 1 { ("date", "is") } else { ("dates", "are") };
    Some(format!(
        "{n_absurd} {dates} of `{name}`, such as {example}, {are} outside of the years 1000 to 3000: taken as missing"
    ))
}

/// The fewest rows for which it is no accident that their dates are in order.
const MIN_IN_ORDER: usize = 20;

/// A remark about times that go up from row to row, as in a recording.
fn note_on_time(name: &str, seconds: &[f64]) -> Option<String> {
    let is_recording = seconds.len() >= MIN_IN_ORDER && seconds.windows(2).all(|pair| pair[0] < pair[1]);
    is_recording.then(|| {
        format!(
            "`{name}` goes up from row to row, so clusters may be stretches of time; the type `keep` leaves it out of the clustering"
        )
    })
}

/// Dates as seconds since 1970.
pub(super) fn of_seconds(context: &Context, mut seconds: Vec<f64>, format: DateFormat) -> Outcome {
    let notes = remove_absurd(context.name, &mut seconds, &format).into_iter();
    let notes = notes.chain(note_on_time(context.name, &seconds)).collect();
    let known = || seconds.iter().copied().filter(|x| !x.is_nan());
    let (low, high) = known().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| (a.min(x), b.max(x)));
    if low >= high || !low.is_finite() {
        let reason =
            if low == high { format!("always {}", format.text(low)) } else { "no values".to_string() };
        return Outcome::LeftOut(reason, None);
    }
    // A midnight near the middle, so that cells are small numbers.
    let origin = (f64::midpoint(low, high) / 86_400.0).round() * 86_400.0;
    let mut column = Column::new(context.name, ColumnType::Date);
    column.has_gaps = seconds.iter().any(|x| x.is_nan());
    column.date = Some(DateFormat { origin: origin as i64, ..format });
    seconds.iter_mut().for_each(|x| *x -= origin);
    Outcome::Clustered(Cells { notes, ..Cells::new(column, seconds) })
}

/// Categories or yes/no; kept if there are too many levels.
pub(super) fn of_levels(context: &Context, coded: Coded, kind: LevelKind) -> Outcome {
    match coded.words.as_slice() {
        [] => return Outcome::LeftOut("no values".to_string(), None),
        [only] => return Outcome::LeftOut(format!("always {only}"), None),
        words if words.len() > MAX_LEVELS => {
            return Outcome::Kept(format!("{} different values, more than {MAX_LEVELS} levels", words.len()));
        }
        _ => {}
    }
    let order = sorted(&coded.words);
    Outcome::Clustered(pooled_levels(context, &coded, &order, kind))
}

/// The order of levels: of numbers by value, of others as text.
pub(super) fn sorted(words: &[String]) -> Vec<usize> {
    let numbers: Option<Vec<f64>> = words.iter().map(|word| number(word)).collect();
    let mut order: Vec<usize> = (0..words.len()).collect();
    match numbers {
        Some(numbers) => order.sort_by(|&a, &b| numbers[a].total_cmp(&numbers[b])),
        None => order.sort_by(|&a, &b| words[a].cmp(&words[b])),
    }
    order
}

/// A category or yes/no with its levels in this order; rare levels become one.
///
/// Nothing is pooled if that would leave no level of its own, or replace only a single one.
pub(super) fn pooled_levels(context: &Context, coded: &Coded, order: &[usize], kind: LevelKind) -> Cells {
    let counts = coded.counts();
    let n_cells = counts.iter().sum::<usize>() as f64;
    let least = (RARE_SHARE * n_cells).max(RARE_CELLS.min(RARE_SHARE_OF_FEW * n_cells));
    let is_rare = |code: usize| (counts[code] as f64) < least;
    let n_rare = order.iter().filter(|&&code| is_rare(code)).count();
    let has_pool = n_rare >= 2 && n_rare < order.len();
    let mut levels: Vec<String> = Vec::new();
    let mut cell_of_code = vec![f64::NAN; coded.words.len()];
    for &code in order.iter().filter(|&&code| !(has_pool && is_rare(code))) {
        cell_of_code[code] = levels.len() as f64;
        levels.push(coded.words[code].clone());
    }
    let mut pooled = Vec::new();
    if has_pool {
        let other = levels.len() as f64;
        order.iter().filter(|&&code| is_rare(code)).for_each(|&code| cell_of_code[code] = other);
        levels.push(OTHER.to_string());
        let rows = coded.codes.iter().enumerate().filter(|(_, code)| **code != MISSING);
        let rare = rows.filter(|(_, code)| is_rare(**code as usize));
        pooled.extend(rare.map(|(row, &code)| (row, coded.words[code as usize].clone())));
    }
    let mut column =
        Column::new(context.name, if levels.len() == 2 { ColumnType::YesNo } else { ColumnType::Category });
    column.has_gaps = coded.codes.contains(&MISSING);
    column.level_kind = kind;
    column.levels = levels;
    Cells { pooled, ..Cells::new(column, coded.map(&cell_of_code)) }
}

/// Numbers as levels.
pub(super) fn coded_numbers(values: &[f64]) -> Coded {
    let mut different: Vec<f64> = values.iter().copied().filter(|x| !x.is_nan()).collect();
    different.sort_unstable_by(f64::total_cmp);
    different.dedup();
    let code = |x: &f64| {
        if x.is_nan() { MISSING } else { different.partition_point(|value| value < x) as u32 }
    };
    Coded {
        codes: values.iter().map(code).collect(),
        words: different.iter().map(|&x| number_text(x, false)).collect(),
    }
}
