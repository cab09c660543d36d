//! The columns of a table that people have: numbers, amounts, counts, categories, dates, and gaps.
//!
//! A reader makes [`RawColumn`]s, [`Table::from_columns`](super::Table::from_columns) gives each a type and turns its
//! cells into numbers: the [`Schema`] says which, and how a cell is written as text again.

mod by_schema;
mod dates;
mod describe;
mod gaps;
mod infer;
mod missing;
mod names;
mod numbers;
mod raw;
mod spec;
mod strays;
mod typed;
mod words;

use serde::{Deserialize, Serialize};

pub use dates::{DateFormat, TimeFormat, Zone};
pub use gaps::NO_GAPS;
pub(super) use missing::Missing;
pub(crate) use names::other_names;
pub(super) use names::{IdName, listed, looks_like_id};
pub(super) use raw::Coder;
pub use raw::{Coded, RawCells, RawColumn};
pub use spec::{ColumnSpec, ColumnType};
pub(super) use strays::word_in_message;
pub use typed::TableShape;
pub(super) use typed::{Found, found, is_wide, number_schema, plain_table};

/// The level that stands for all rare ones.
pub const OTHER: &str = "(other)";

/// The largest number of levels of a category.
pub const MAX_LEVELS: usize = 255;

/// A clustered column: what its cells mean.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Its name; `column_1` and so on if the table has no names.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: ColumnType,
    /// The levels of a category, of yes/no and of ordered values: cells are indices into them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<String>,
    /// What the levels were in the source.
    #[serde(default, skip_serializing_if = "LevelKind::is_words")]
    pub level_kind: LevelKind,
    /// Whether all numbers are whole.
    #[serde(default)]
    pub whole: bool,
    /// How dates are written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<DateFormat>,
    /// Whether cells were missing when the model was fitted.
    #[serde(default)]
    pub has_gaps: bool,
    /// The column whose missing cells this one tells, if it is no column of the table itself; see
    /// [`ReadOptions::missing_informative`](super::ReadOptions::missing_informative).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap_of: Option<usize>,
}

/// What the levels of a column were in the source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LevelKind {
    /// Words.
    #[default]
    Words,
    /// Truth values.
    Truth,
    /// Numbers.
    Numbers,
}

impl LevelKind {
    fn is_words(&self) -> bool {
        *self == LevelKind::Words
    }
}

/// The clustered columns of a table in order, and the names of the others. Stored in the model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Schema {
    /// The clustered columns; those that tell where others have gaps come last.
    pub columns: Vec<Column>,
    /// Columns that only go along to results: ids, free text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<String>,
    /// Columns that are left out: constants, columns without values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// Words for missing cells, beside the usual ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Whether the table has names; columns are matched by position otherwise.
    pub is_named: bool,
}

/// A schema as stored in a file, before it is checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    columns: Vec<Column>,
    #[serde(default)]
    kept: Vec<String>,
    #[serde(default)]
    left_out: Vec<String>,
    #[serde(default)]
    missing: Vec<String>,
    is_named: bool,
}

impl TryFrom<Unchecked> for Schema {
    type Error = String;

    fn try_from(u: Unchecked) -> std::result::Result<Self, String> {
        u.columns.iter().try_for_each(Column::check)?;
        gaps::check(&u.columns)?;
        let Unchecked { columns, kept, left_out, missing, is_named } = u;
        Ok(Self { columns, kept, left_out, missing, is_named })
    }
}

impl Schema {
    /// Names of the columns.
    pub fn names(&self) -> Vec<String> {
        self.columns.iter().map(|column| column.name.clone()).collect()
    }

    /// A cell of column `j` as it would be written in the table; empty if it is missing (NaN).
    ///
    /// Whole numbers have no decimals, dates are written as they were read, indices of levels become their names; an
    /// index or number in between is rounded.
    pub fn cell_to_text(&self, j: usize, value: f64) -> String {
        self.columns[j].text(value)
    }

    /// The cell of column `j` that a text stands for, the reverse of [`Schema::cell_to_text`]: the index of a level, the
    /// seconds of a date, a number. None if it is no value of the column.
    pub fn cell_from_text(&self, j: usize, text: &str) -> Option<f64> {
        let (column, text) = (&self.columns[j], text.trim());
        match &column.date {
            Some(format) => parse_date(text).map(|seconds| seconds - format.origin as f64),
            None if !column.levels.is_empty() => {
                column.levels.iter().position(|level| level == text).map(|level| level as f64)
            }
            None => text.parse().ok().filter(|x: &f64| x.is_finite()),
        }
    }

    /// Words for missing cells, the usual ones among them, and numbers that stand for missing cells.
    pub fn missing_cells(&self) -> (Vec<String>, Vec<f64>) {
        let missing = Missing::new(&self.missing);
        (missing.all_words(), missing.all_numbers().to_vec())
    }

    /// Whether every column is numbers without gaps, so that the table can share one preparation and likelihood.
    pub fn is_plain_numbers(&self) -> bool {
        self.columns.iter().all(|column| !column.has_gaps && column.is_numeric())
    }

    /// Whether some column had missing cells.
    pub fn has_gaps(&self) -> bool {
        self.columns.iter().any(|column| column.has_gaps)
    }

    /// The schema with its columns in another order: column j is column `columns[j]` of this one.
    pub(super) fn with_columns(&self, columns: &[usize]) -> Self {
        let position = |j: usize| columns.iter().position(|&old| old == j);
        let moved = |&j: &usize| {
            let column = self.columns[j].clone();
            Column { gap_of: column.gap_of.and_then(position), ..column }
        };
        Self { columns: columns.iter().map(moved).collect(), ..self.clone() }
    }
}

impl Column {
    /// A column of this type without levels or dates.
    pub fn new(name: impl Into<String>, kind: ColumnType) -> Self {
        Self {
            name: name.into(),
            kind,
            levels: Vec::new(),
            level_kind: LevelKind::Words,
            whole: false,
            date: None,
            has_gaps: false,
            gap_of: None,
        }
    }

    /// Whether the cells are the numbers of the source themselves.
    pub(super) fn is_numeric(&self) -> bool {
        match self.kind {
            ColumnType::Number | ColumnType::Positive | ColumnType::Count => true,
            ColumnType::YesNo => self.level_kind == LevelKind::Numbers && self.levels == ["0", "1"],
            _ => false,
        }
    }

    /// Whether rare levels, and levels that the fit never saw, are one level, the last.
    pub fn is_pooled(&self) -> bool {
        self.levels.last().is_some_and(|last| last == OTHER)
    }

    /// A cell as text; see [`Schema::cell_to_text`].
    pub(super) fn text(&self, value: f64) -> String {
        if value.is_nan() {
            return String::new();
        }
        match (self.kind, &self.date) {
            (ColumnType::Date, Some(format)) => format.text(value),
            (ColumnType::YesNo | ColumnType::Category | ColumnType::Ordered, _)
                if !self.levels.is_empty() =>
            {
                self.levels[self.level_index(value)].clone()
            }
            (ColumnType::Count, _) => number_text(value.max(0.0), true),
            _ => number_text(value, self.whole),
        }
    }

    /// The level that is nearest to a cell; there must be levels.
    pub(super) fn level_index(&self, value: f64) -> usize {
        (value.round().max(0.0) as usize).min(self.levels.len() - 1)
    }

    /// What is wrong with a column that was read from a file.
    fn check(&self) -> std::result::Result<(), String> {
        let n = self.levels.len();
        let is_right = match self.kind {
            ColumnType::YesNo => n == 2,
            ColumnType::Category => (2..=MAX_LEVELS).contains(&n),
            ColumnType::Ordered => n >= 2,
            ColumnType::Date => n == 0 && self.date.is_some(),
            ColumnType::Number | ColumnType::Positive | ColumnType::Count => n == 0,
            ColumnType::Kept => false,
        };
        let is_right = is_right && self.date.is_some() == (self.kind == ColumnType::Date);
        if is_right {
            Ok(())
        } else {
            Err(format!("column `{}` of type {} is incomplete", self.name, self.kind))
        }
    }
}

/// The name of column `j` of a table without names.
fn unnamed_column(j: usize) -> String {
    format!("column_{}", j + 1)
}

/// Seconds since 1970-01-01 UTC of a date or timestamp.
pub(super) fn parse_date(text: &str) -> Option<f64> {
    dates::parse(text).map(|(seconds, _)| seconds)
}

/// A number as text: the shortest that reads back as the same number, whole numbers without decimals.
pub(super) fn number_text(value: f64, whole: bool) -> String {
    let value = if whole { value.round() + 0.0 } else { value };
    if value == value.trunc() && value.abs() < 1e15 {
        return format!("{value:.0}");
    }
    // Numbers of a network have single precision: more digits would only show how they are stored.
    let single = value as f32;
    if f64::from(single) == value { format!("{single:?}") } else { format!("{value:?}") }
}
