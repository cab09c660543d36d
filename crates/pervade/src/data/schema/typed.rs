//! Whole tables: which columns are clustered, whether each has a type of its own, and their cells.

use std::collections::HashSet;
use std::sync::Arc;

use rayon::prelude::*;

use super::by_schema;
use super::describe::describe;
use super::gaps;
use super::infer::{Cells, Context, Outcome, given, inferred};
use super::numbers::{Moments, Summary, Summing};
use super::raw::RawColumn;
use super::strays::rows_in_message;
use super::{Column, ColumnType, Missing, Schema, unnamed_column};
use crate::data::options::{Kept, PooledCell, ReadOptions, Table};
use crate::data::{Dataset, Values};
use crate::memory::{Need, product, require};
use crate::{Error, Hint, Result};

/// The largest number of columns that have types of their own if they are plain numbers: with names, and without.
const MAX_NAMED: usize = 200;
const MAX_UNNAMED: usize = 30;
/// Grey levels have at least so many columns.
const MIN_PIXELS: usize = 32;
const MAX_GREY: f64 = 255.0;

/// What decides whether the columns of a table have types of their own; see [`TableShape::is_typed`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableShape {
    /// Number of clustered columns.
    pub n_columns: usize,
    /// Whether the columns have names.
    pub is_named: bool,
    /// Whether all columns are numbers without gaps.
    pub is_plain: bool,
    /// Whether the numbers are stored as dense floating-point numbers (or as text).
    pub is_float: bool,
    /// Whether the rows are images, or look like grey levels: whole numbers from 0 to at most 255, in at least 32 columns, a
    /// third of which (constants aside) reach the largest number.
    pub is_image: bool,
    /// Whether all numbers are 0 or 1.
    pub is_zero_one: bool,
    /// Whether the user set `prepare` or `likelihood`, which are for all columns alike.
    pub is_shared: bool,
}

impl TableShape {
    /// Whether each column has a type, a preparation and a likelihood of its own; otherwise all columns share them.
    ///
    /// Tables with categories, dates or gaps always do. Tables of plain numbers do if they are such as people make by hand:
    /// with names and at most 200 columns, or without names and at most 30 columns of floating-point numbers. Images, columns
    /// of zeros and ones, and plain numbers for which the user chose a preparation or a likelihood do not.
    pub fn is_typed(self) -> bool {
        if !self.is_plain {
            return true;
        }
        let is_like_an_array = self.is_shared || self.is_image || self.is_zero_one;
        !is_like_an_array && !is_wide(self.n_columns, self.is_named) && (self.is_named || self.is_float)
    }
}

/// Whether a table of plain numbers has too many columns to give each a type.
pub(in crate::data) fn is_wide(n_columns: usize, is_named: bool) -> bool {
    n_columns > if is_named { MAX_NAMED } else { MAX_UNNAMED }
}

/// Whether columns of numbers without gaps are grey levels; see [`TableShape::is_image`].
fn are_grey_levels<'a>(columns: impl ExactSizeIterator<Item = &'a Summary> + Clone) -> bool {
    let high = columns.clone().fold(0.0, |high: f64, column| high.max(column.high));
    let is_grey = |column: &Summary| column.whole && column.low >= 0.0;
    if columns.len() < MIN_PIXELS || high > MAX_GREY || !columns.clone().all(is_grey) {
        return false;
    }
    let varying = columns.clone().filter(|column| !column.is_constant()).count();
    3 * columns.filter(|column| !column.is_constant() && column.high == high).count() >= varying
}

/// A table after its columns were looked at.
pub(in crate::data) enum Found {
    /// Each column has a type.
    Typed(Box<Table>),
    /// The columns are numbers that share one: their positions among the raw columns, their values column by column.
    Plain { positions: Vec<usize>, columns: Vec<Vec<f64>>, kept: Option<Kept>, description: Option<String> },
}

impl Table {
    /// A table from columns as a file or a data frame has them: each is given a type (or the one that `options` say), ids
    /// and text are kept apart, constants are left out, and cells become numbers. [`Table::description`] says how.
    ///
    /// If the columns are numbers that need no types of their own, the table has no [`Schema`]; see
    /// [`TableShape::is_typed`].
    pub fn from_columns(columns: Vec<RawColumn>, options: &ReadOptions, source: &str) -> Result<Table> {
        let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
        let table = match found(columns, options, source)? {
            Found::Typed(table) => *table,
            Found::Plain { positions, columns, kept, description } => {
                let is_named = names.iter().any(|name| !name.is_empty());
                let names = is_named.then(|| positions.iter().map(|&j| names[j].clone()).collect());
                plain_table(columns, names, kept, description, source)?
            }
        };
        Ok(table.noting_absent_gaps(options))
    }
}

impl Table {
    /// The rows of an array, read as the options say: with the types that they give, or for a fitted model.
    pub(in crate::data) fn with_column_options(self, options: &ReadOptions) -> Result<Table> {
        if options.plain.is_some() {
            self.data.check_complete()?;
            return Ok(self);
        }
        let has_gaps = self.data.schema().is_some_and(|schema| schema.has_gaps());
        let gaps_count = options.missing_informative && has_gaps;
        if !options.has_column_options() && !gaps_count {
            return Ok(self);
        }
        if options.schema.as_ref().is_some_and(|schema| is_as_in_fit(&self.data, schema, options)) {
            let note = self.data.note_on_empty_rows(0);
            let notes = self.notes.into_iter().chain(note).collect();
            return Ok(Table { notes, ..self });
        }
        let (data, source) = (&self.data, self.data.source().to_string());
        if matches!(data.values(), Values::Csr(_)) {
            let must = "but columns of sparse rows have no types";
            return Err(Error::setting("type", "given", must).with_hint("give the rows as a dense table"));
        }
        let name = |j: usize| data.column_names().map_or(String::new(), |names| names[j].clone());
        let need = Need::of("", product(&[data.n_rows(), data.n_columns(), size_of::<f64>()]));
        require(&format!("the columns of `{source}`"), &need, "give fewer rows or columns")?;
        let cells = |j: usize| (0..data.n_rows()).map(|i| data.cell(i, j)).collect();
        let columns = (0..data.n_columns()).map(|j| RawColumn::numbers(name(j), cells(j))).collect();
        let table = Table::from_columns(columns, options, &source)?;
        Ok(Table { labels: self.labels, ..table })
    }
}

/// Whether the numbers of an array are the cells of the columns of a fit, without any change.
fn is_as_in_fit(data: &Dataset, schema: &Schema, options: &ReadOptions) -> bool {
    let has_words = [&schema.missing, &options.missing, &options.keep].iter().any(|words| !words.is_empty());
    let has_columns = data.n_columns() == schema.columns.len()
        && data.column_names().is_none_or(|names| names == schema.names())
        && schema.columns.iter().all(Column::is_numeric);
    let is_cell = |column: &Column, x: f64| match column.kind {
        ColumnType::Positive | ColumnType::Count => x >= 0.0,
        ColumnType::YesNo => x == 0.0 || x == 1.0,
        _ => true,
    };
    let is_column = |(j, column): (usize, &Column)| {
        (0..data.n_rows()).map(|i| data.cell(i, j)).all(|x| x.is_nan() || is_cell(column, x))
    };
    !has_words && has_columns && schema.columns.par_iter().enumerate().all(is_column)
}

/// A table of numbers that share one preparation, in single precision unless that would round whole numbers.
pub(in crate::data) fn plain_table(
    columns: Vec<Vec<f64>>,
    names: Option<Vec<String>>,
    kept: Option<Kept>,
    description: Option<String>,
    source: &str,
) -> Result<Table> {
    let n_rows = columns.first().map_or(0, Vec::len);
    let is_rounded = |x: &f64| *x == x.trunc() && f64::from(*x as f32) != *x;
    let n_columns = columns.len();
    let values = interleave(columns, n_rows, source)?;
    let values = if values.iter().any(is_rounded) {
        Values::F64(values.into())
    } else {
        Values::F32(values.iter().map(|&x| x as f32).collect::<Vec<f32>>().into())
    };
    let data = Dataset::named(n_rows, n_columns, values, source.to_string(), names)?;
    let mut table = Table::new(data, None);
    (table.kept, table.description) = (kept, description);
    Ok(table)
}

/// Looks at the columns of a table and gives them types, unless they share one.
pub(in crate::data) fn found(
    mut columns: Vec<RawColumn>,
    options: &ReadOptions,
    source: &str,
) -> Result<Found> {
    let n_rows = check_lengths(&columns, source)?;
    if let Some(schema) = &options.schema {
        return by_schema::read(columns, schema, options, source).map(|table| Found::Typed(Box::new(table)));
    }
    let is_named = columns.iter().any(|column| !column.name.is_empty());
    if !is_named {
        columns.iter_mut().enumerate().for_each(|(j, column)| column.name = unnamed_column(j));
    }
    options.check_names(&columns)?;
    let missing = Missing::new(&options.missing);
    let each = columns.into_par_iter().map(|mut raw| {
        let name = std::mem::take(&mut raw.name);
        let context = Context { source, name: &name, missing: &missing };
        let outcome = match options.spec(&name) {
            Some(spec) => given(&context, &spec, &raw.cells),
            None => inferred(&context, &mut raw.cells),
        }?;
        Ok(Looked { name, outcome, raw })
    });
    let looked = each.collect::<Result<Vec<Looked>>>()?;
    assemble(looked, n_rows, is_named, options, source)
}

/// A column that was looked at.
pub(super) struct Looked {
    pub(super) name: String,
    pub(super) outcome: Outcome,
    /// As it was found, without the numbers of a clustered column.
    raw: RawColumn,
}

impl Looked {
    /// The summary of numbers without gaps; `None` for other columns.
    fn plain_summary(&self) -> Option<&Summary> {
        let summary = match &self.outcome {
            Outcome::Clustered(Cells { summary, .. }) | Outcome::LeftOut(_, summary) => summary.as_ref(),
            Outcome::Kept(_) => None,
        };
        summary.filter(|summary| summary.n_missing == 0)
    }

    /// The numbers as they were found, if the column is plain numbers that are not kept.
    fn into_numbers(self, n_rows: usize) -> Option<Vec<f64>> {
        let values = self.plain_summary()?.values.clone();
        match self.outcome {
            Outcome::Clustered(cells) if cells.column.kind == ColumnType::YesNo => {
                Some(cells.values.iter().map(|&level| values[level as usize]).collect())
            }
            Outcome::Clustered(cells) => Some(cells.values),
            _ => Some(vec![*values.first()?; n_rows]),
        }
    }
}

/// The number of rows, which must be the same in all columns.
fn check_lengths(columns: &[RawColumn], source: &str) -> Result<usize> {
    let n_rows = columns.first().map_or(0, RawColumn::len);
    if let Some(odd) = columns.iter().find(|column| column.len() != n_rows) {
        let problem = format!("column `{}` has {} cells, the first column {n_rows}", odd.name, odd.len());
        return Err(Error::data(source, problem));
    }
    if n_rows == 0 {
        return Err(Error::data(source, format!("the table is empty: 0 rows x {} columns", columns.len())));
    }
    Ok(n_rows)
}

/// Puts the columns together: typed, or plain.
fn assemble(
    looked: Vec<Looked>,
    n_rows: usize,
    is_named: bool,
    options: &ReadOptions,
    source: &str,
) -> Result<Found> {
    let mut description = describe(&looked);
    let is_kept = |column: &&Looked| matches!(column.outcome, Outcome::Kept(_));
    let kept = Kept::of(looked.iter().filter(is_kept).map(|column| (column.name.as_str(), &column.raw)));
    if options.types.is_empty() && !shape(&looked, is_named).is_typed() {
        let positions = (0..looked.len()).filter(|&j| !is_kept(&&looked[j])).collect();
        let columns = looked.into_iter().filter_map(|column| column.into_numbers(n_rows)).collect();
        return Ok(Found::Plain {
            positions,
            columns,
            description: kept.is_some().then_some(description),
            kept,
        });
    }
    check_unique(&looked, source)?;
    let mut schema = Schema { is_named, missing: options.missing.clone(), ..Schema::default() };
    let (mut values, mut pooled, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    for Looked { name, outcome, .. } in looked {
        match outcome {
            Outcome::Clustered(cells) => {
                let column = schema.columns.len();
                pooled.extend(cells.pooled.into_iter().map(|(row, word)| PooledCell { row, column, word }));
                notes.extend(cells.notes);
                schema.columns.push(cells.column);
                values.push(cells.values);
            }
            Outcome::Kept(_) => schema.kept.push(name),
            Outcome::LeftOut(..) => schema.left_out.push(name),
        }
    }
    if schema.columns.is_empty() {
        let problem = match n_rows {
            1 => "there is only 1 row: clusters need more".to_string(),
            _ => format!("there is nothing to cluster; {description}"),
        };
        let hint = Hint::new("check that the right file was read").also("columns are given a type with ");
        return Err(Error::data(source, problem).with_hint(hint.setting_to("type", "NAME=TYPE")));
    }
    if let Some(gaps) = options.missing_informative.then(|| gaps::add(&mut schema, &mut values)).flatten() {
        description = format!("{description}; {gaps}");
    }
    let data = Dataset::typed(interleave(values, n_rows, source)?, Arc::new(schema), source.to_string())?;
    data.check_rows_have_cells()?;
    pooled.sort_unstable_by_key(|cell: &PooledCell| (cell.row, cell.column));
    let mut table = Table::new(data, None);
    (table.kept, table.description, table.notes, table.pooled) = (kept, Some(description), notes, pooled);
    Ok(Found::Typed(Box::new(table)))
}

/// What decides whether the columns that are not kept have types of their own.
fn shape(looked: &[Looked], is_named: bool) -> TableShape {
    let clustered = looked.iter().filter(|column| !matches!(column.outcome, Outcome::Kept(_)));
    // Constants count here: images have them.
    let summaries: Option<Vec<&Summary>> = clustered.clone().map(Looked::plain_summary).collect();
    let summaries = summaries.unwrap_or_default();
    let is_zero_one = |column: &&Summary| column.values.iter().all(|&x| x == 0.0 || x == 1.0);
    TableShape {
        n_columns: clustered.count(),
        is_named,
        is_plain: !summaries.is_empty(),
        is_float: true,
        is_image: are_grey_levels(summaries.iter().copied()),
        is_zero_one: summaries.iter().all(is_zero_one),
        is_shared: false,
    }
}

/// Returns an error if two columns have the same name: types and new rows could not be matched.
fn check_unique(looked: &[Looked], source: &str) -> Result<()> {
    let mut seen = HashSet::new();
    match looked.iter().find(|column| !seen.insert(column.name.as_str())) {
        None => Ok(()),
        Some(twice) => Err(Error::data(source, format!("two columns are named `{}`", twice.name))
            .with_hint("give every column a name of its own")),
    }
}

/// Rows from columns, which are freed one after the other where possible.
pub(super) fn interleave(columns: Vec<Vec<f64>>, n_rows: usize, source: &str) -> Result<Vec<f64>> {
    let d = columns.len();
    let need = Need::of("", product(&[n_rows, d, size_of::<f64>()]));
    require(&format!("the cells of `{source}`"), &need, "give fewer rows or columns")?;
    let mut rows = vec![0.0; n_rows * d];
    // Blocks of rows stay in the cache while their columns are filled in.
    const BLOCK: usize = 256;
    rows.par_chunks_mut(BLOCK * d).enumerate().for_each(|(block, out)| {
        for (j, column) in columns.iter().enumerate() {
            let cells = &column[block * BLOCK..];
            out[j..].iter_mut().step_by(d).zip(cells).for_each(|(out, &x)| *out = x);
        }
    });
    Ok(rows)
}

impl Dataset<'_> {
    /// The types of the columns for a fit, if each column has one of its own; otherwise the table is numbers that share a
    /// preparation and a likelihood. `is_shared` if the user set one of these. [`TableShape::is_typed`] has the rule.
    ///
    /// An error if a row has no cells at all.
    pub fn typed_schema(&self, is_shared: bool) -> Result<Option<Arc<Schema>>> {
        if let Some(schema) = self.schema() {
            self.check_rows_have_cells()?;
            return Ok((!(is_shared && schema.is_plain_numbers())).then(|| schema.clone()));
        }
        let is_named = self.column_names().is_some();
        let is_float = !matches!(self.values(), Values::Csr(_));
        if !is_float || is_shared || self.image().is_some() || is_wide(self.n_columns(), is_named) {
            return Ok(None);
        }
        let (schema, summaries) = schema_and_summaries(self);
        let shape = TableShape {
            n_columns: self.n_columns(),
            is_named,
            is_plain: true,
            is_float,
            is_image: are_grey_levels(summaries.iter()),
            is_zero_one: summaries.iter().all(|s| s.values.iter().all(|&x| x == 0.0 || x == 1.0)),
            is_shared,
        };
        Ok(shape.is_typed().then(|| Arc::new(schema)))
    }

    /// What is to be said of new rows without cells.
    pub(super) fn note_on_empty_rows(&self, first_row: usize) -> Option<String> {
        let empty: Vec<usize> = self.rows_without_cells().into_iter().map(|row| first_row + row).collect();
        let have = if empty.len() == 1 { "has" } else { "have" };
        let rows = (!empty.is_empty()).then(|| rows_in_message(&empty, empty.len()))?;
        Some(format!("{rows} {have} no values: what is said about such rows is a guess"))
    }

    /// Returns an error if a row has no cells: nothing could be learnt from it.
    fn check_rows_have_cells(&self) -> Result<()> {
        let empty = self.rows_without_cells();
        let Some(&first) = empty.first() else { return Ok(()) };
        let number = self.row_number(first);
        let problem = match empty.len() {
            1 => format!("row {number} has no values"),
            n => format!("{n} rows have no values; the first is row {number}"),
        };
        let hint = "remove such rows; spreadsheets often leave some at the end";
        Err(Error::data(self.source(), problem).with_hint(hint))
    }
}

/// The types of a dense table of numbers.
pub(in crate::data) fn number_schema(data: &Dataset) -> Schema {
    schema_and_summaries(data).0
}

/// The types of a dense table of numbers; its cells stay as they are, so that only 0/1 columns are yes/no.
fn schema_and_summaries(data: &Dataset) -> (Schema, Vec<Summary>) {
    let name = |j: usize| data.column_names().map_or_else(|| unnamed_column(j), |names| names[j].clone());
    let mut summing = vec![Summing::default(); data.n_columns()];
    data.fold_columns(&mut summing, Summing::add);
    let mut moments: Vec<Moments> = summing.iter().map(Summing::moments).collect();
    data.fold_columns(&mut moments, Moments::add);
    let each = summing.into_par_iter().zip(moments).enumerate().map(|(j, (summing, moments))| {
        let summary = summing.finish(&moments);
        let kind = match summary.kind((0..data.n_rows()).map(|i| data.cell(i, j))) {
            ColumnType::YesNo if summary.values != [0.0, 1.0] => ColumnType::Number,
            kind => kind,
        };
        (summary.column(&name(j), kind), summary)
    });
    let (columns, summaries) = each.unzip();
    (Schema { columns, is_named: data.column_names().is_some(), ..Schema::default() }, summaries)
}
