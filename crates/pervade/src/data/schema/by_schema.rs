//! New rows for a fitted model: columns are matched by name, cells read as in the fit.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::names::other_names;
use super::raw::{Coded, RawCells, RawColumn};
use super::strays::{stray_words, unreadable_numbers};
use super::typed::interleave;
use super::words::{number, remove_absurd};
use super::{Column, ColumnType, DateFormat, Missing, Schema, dates, number_text, unnamed_column};
use crate::data::Dataset;
use crate::data::options::{Kept, PooledCell, ReadOptions, Table};
use crate::{Error, Hint, Result};

/// The table with the columns of `schema`, in its order.
pub(super) fn read(
    columns: Vec<RawColumn>,
    schema: &Arc<Schema>,
    options: &ReadOptions,
    source: &str,
) -> Result<Table> {
    let n_rows = columns.first().map_or(0, RawColumn::len);
    let Matched { order, kept, is_reordered } = matched(&columns, schema, options, source)?;
    let words: Vec<String> = schema.missing.iter().chain(&options.missing).cloned().collect();
    let missing = Missing::new(&words);
    let first_row = options.first_row;
    let mut reading = Reading { source, first_row, missing: &missing, notes: Vec::new(), pooled: Vec::new() };
    if is_reordered {
        reading.notes.push("columns were matched by name".to_string());
    }
    let mut values = Vec::with_capacity(order.len());
    for (j, &at) in order.iter().enumerate() {
        values.push(reading.cells(&schema.columns[j], j, &columns[at])?);
    }
    values.extend(schema.gap_values(&values));
    let kept = Kept::of(kept.iter().map(|&at| (columns[at].name.as_str(), &columns[at])));
    let Reading { mut notes, mut pooled, .. } = reading;
    let cells = interleave(values, n_rows, source)?;
    let data = Dataset::typed_from(cells, schema.clone(), source.to_string(), first_row)?;
    notes.extend(data.note_on_empty_rows(first_row));
    pooled.sort_unstable_by_key(|cell: &PooledCell| (cell.row, cell.column));
    let mut table = Table::new(data, None);
    (table.kept, table.notes, table.pooled) = (kept, notes, pooled);
    (table.missing, table.order) = (words, order);
    Ok(table)
}

/// Where the columns of the schema are.
struct Matched {
    /// For each column of the schema the index of the raw one.
    order: Vec<usize>,
    /// Columns that go along.
    kept: Vec<usize>,
    is_reordered: bool,
}

fn matched(columns: &[RawColumn], schema: &Schema, options: &ReadOptions, source: &str) -> Result<Matched> {
    let is_named = columns.iter().any(|column| !column.name.is_empty());
    if !is_named || !schema.is_named {
        return matched_by_position(columns, schema, source);
    }
    let mut index: HashMap<&str, usize> = HashMap::new();
    for (j, column) in columns.iter().enumerate() {
        if index.insert(&column.name, j).is_some()
            && schema.source_columns().iter().any(|c| c.name == column.name)
        {
            let problem = format!("two columns are named `{}`", column.name);
            return Err(Error::data(source, problem).with_hint("give every column a name of its own"));
        }
    }
    let wanted: HashSet<&str> = schema.source_columns().iter().map(|column| column.name.as_str()).collect();
    let is_aside = |name: &str| {
        [&schema.kept, &schema.left_out, &options.keep].iter().any(|names| names.iter().any(|n| n == name))
    };
    let absent: Vec<&str> = schema
        .source_columns()
        .iter()
        .map(|c| c.name.as_str())
        .filter(|name| !index.contains_key(name))
        .collect();
    let given = columns.iter().map(|column| column.name.as_str());
    let unexpected: Vec<&str> = given.filter(|name| !wanted.contains(name) && !is_aside(name)).collect();
    if !absent.is_empty() || !unexpected.is_empty() {
        return Err(other_names(source, &absent, &unexpected));
    }
    let order: Vec<usize> =
        schema.source_columns().iter().map(|column| index[column.name.as_str()]).collect();
    let is_left_out = |name: &String| schema.left_out.contains(name) && !options.keep.contains(name);
    let kept = (0..columns.len())
        .filter(|&j| !wanted.contains(columns[j].name.as_str()) && !is_left_out(&columns[j].name));
    let is_reordered = !order.is_sorted();
    Ok(Matched { kept: kept.collect(), order, is_reordered })
}

/// Without names on one side, columns are in the order of the fit: those that are clustered, or all that the table had.
fn matched_by_position(columns: &[RawColumn], schema: &Schema, source: &str) -> Result<Matched> {
    let d = schema.source_columns().len();
    if columns.len() == d {
        return Ok(Matched { order: (0..d).collect(), kept: Vec::new(), is_reordered: false });
    }
    let index: HashMap<String, usize> = (0..columns.len()).map(|j| (unnamed_column(j), j)).collect();
    let position = |name: &str| index.get(name).copied();
    let all = |names: Vec<&str>| names.into_iter().map(position).collect::<Option<Vec<usize>>>();
    let order = all(schema.source_columns().iter().map(|column| column.name.as_str()).collect());
    let kept = all(schema.kept.iter().map(String::as_str).collect());
    let n_all = d + schema.kept.len() + schema.left_out.len();
    match (order, kept) {
        (Some(order), Some(kept)) if !schema.is_named && columns.len() == n_all => {
            Ok(Matched { order, kept, is_reordered: false })
        }
        _ => {
            let problem = format!("the table has {} columns, the model was fitted on {d}", columns.len());
            let hint = "give the columns of the fit in the same order, or with names";
            Err(Error::data(source, problem).with_hint(hint))
        }
    }
}

/// Cells of the columns read so far: what is to be said about them.
struct Reading<'a> {
    source: &'a str,
    /// Index of the first row in the whole table.
    first_row: usize,
    missing: &'a Missing,
    notes: Vec<String>,
    pooled: Vec<PooledCell>,
}

impl Reading<'_> {
    /// The cells of a column as in the fit; NaN where missing.
    fn cells(&mut self, column: &Column, j: usize, raw: &RawColumn) -> Result<Vec<f64>> {
        match column.kind {
            ColumnType::Date => self.dates(column, raw),
            ColumnType::YesNo | ColumnType::Category | ColumnType::Ordered => Ok(self.levels(column, j, raw)),
            _ => self.numbers(column, raw),
        }
    }

    fn numbers(&mut self, column: &Column, raw: &RawColumn) -> Result<Vec<f64>> {
        let mut values = match &raw.cells {
            RawCells::Numbers(values) => values.clone(),
            RawCells::Truth(values) => values.iter().map(|truth| truth.map_or(f64::NAN, f64::from)).collect(),
            RawCells::Words(coded) | RawCells::Categories { coded, .. } => {
                let coded = coded.without(|word| self.missing.has_word(word));
                let numbers: Vec<Option<f64>> = coded.words.iter().map(|word| number(word)).collect();
                if numbers.iter().any(Option::is_none) {
                    let is_number = |code: usize| numbers[code].is_some();
                    let (source, name) = (self.source, &column.name);
                    let unreadable = unreadable_numbers(source, name, &coded, self.first_row, is_number);
                    return Err(unreadable.unwrap_or_else(|| {
                        self.stray_words(column, "numbers", &coded, |code| !is_number(code))
                    }));
                }
                coded.map(&numbers.into_iter().flatten().collect::<Vec<f64>>())
            }
            RawCells::Dates { .. } => return Err(self.other_type(column, "dates")),
        };
        self.missing.remove_from(&mut values);
        if matches!(column.kind, ColumnType::Positive | ColumnType::Count) {
            let n = values.iter().filter(|x| **x < 0.0).count();
            values.iter_mut().filter(|x| **x < 0.0).for_each(|x| *x = f64::NAN);
            self.note(n, "negative", column);
        }
        Ok(values)
    }

    fn dates(&mut self, column: &Column, raw: &RawColumn) -> Result<Vec<f64>> {
        let format = column.date.ok_or_else(|| self.other_type(column, "dates without a format"))?;
        let mut seconds = match &raw.cells {
            RawCells::Dates { seconds, .. } => seconds.clone(),
            RawCells::Words(coded) | RawCells::Categories { coded, .. } => {
                let coded = coded.without(|word| self.missing.has_word(word));
                let parsed: Vec<_> = coded.words.iter().map(|word| dates::parse(word)).collect();
                if parsed.iter().any(Option::is_none) {
                    let is_stray = |code: usize| parsed[code].is_none();
                    return Err(self.stray_words(column, "dates", &coded, is_stray));
                }
                let zone = |date: &DateFormat| date.has_zone();
                let known = format.has_zone();
                if parsed
                    .iter()
                    .flatten()
                    .any(|(_, f)| zone(f).is_some() && known.is_some() && zone(f) != known)
                {
                    let what = if known == Some(true) {
                        "timestamps without a time zone"
                    } else {
                        "timestamps with a time zone"
                    };
                    return Err(self.other_type(column, what));
                }
                coded.map(&parsed.into_iter().flatten().map(|(seconds, _)| seconds).collect::<Vec<f64>>())
            }
            _ => return Err(self.other_type(column, "numbers")),
        };
        self.notes.extend(remove_absurd(&column.name, &mut seconds, &format));
        seconds.iter_mut().for_each(|x| *x -= format.origin as f64);
        Ok(seconds)
    }

    fn levels(&mut self, column: &Column, j: usize, raw: &RawColumn) -> Vec<f64> {
        let coded = match &raw.cells {
            RawCells::Words(coded) => coded.without(|word| self.missing.has_word(word)),
            RawCells::Categories { coded, .. } => coded.without(|_| false),
            _ => {
                let texts: Vec<String> = (0..raw.len()).map(|row| raw.text(row)).collect();
                let known = |text: &'_ String| !self.missing.has_word(text);
                Coded::of(texts.iter().map(|text| known(text).then_some(text.as_str())))
            }
        };
        let index: HashMap<&str, usize> =
            column.levels.iter().enumerate().map(|(i, level)| (level.as_str(), i)).collect();
        let cell = |word: &String| {
            let known = index.get(word.as_str()).copied();
            // `1.0` is the level `1`.
            let known = known.or_else(|| index.get(number_text(number(word)?, false).as_str()).copied());
            let other = column.is_pooled().then(|| column.levels.len() - 1);
            known.or(other).map_or(f64::NAN, |level| level as f64)
        };
        let cells: Vec<f64> = coded.words.iter().map(cell).collect();
        let counts = coded.counts();
        let unknown: Vec<usize> = (0..cells.len()).filter(|&code| cells[code].is_nan()).collect();
        if let Some(&first) = unknown.first() {
            let n: usize = unknown.iter().map(|&code| counts[code]).sum();
            let what = format!("a level that the fit did not have (such as `{}`)", coded.words[first]);
            self.note(n, &what, column);
        }
        let is_other = |code: usize| column.is_pooled() && cells[code] as usize == column.levels.len() - 1;
        for (row, &code) in coded.codes.iter().enumerate() {
            if let Some(word) = coded.words.get(code as usize).filter(|_| is_other(code as usize)) {
                self.pooled.push(PooledCell { row, column: j, word: word.clone() });
            }
        }
        coded.map(&cells)
    }

    /// Cells that are taken as missing, though they have a value.
    fn note(&mut self, n: usize, what: &str, column: &Column) {
        let (cells, are) = if n == 1 { ("1 cell".to_string(), "is") } else { (format!("{n} cells"), "are") };
        if n > 0 {
            let of = if what.starts_with("a level") { "has" } else { are };
            self.notes.push(format!("{cells} of `{}` {of} {what}: taken as missing", column.name));
        }
    }

    fn stray_words(
        &self,
        column: &Column,
        what: &str,
        coded: &Coded,
        is_stray: impl Fn(usize) -> bool,
    ) -> Error {
        stray_words(self.source, &column.name, what, coded, self.first_row, is_stray)
    }

    fn other_type(&self, column: &Column, what: &str) -> Error {
        let problem =
            format!("column `{}` holds {what}, but was of type {} in the fit", column.name, column.kind);
        Error::data(self.source, problem)
            .with_hint(Hint::from("give it as in the table that the model was fitted on"))
    }
}
