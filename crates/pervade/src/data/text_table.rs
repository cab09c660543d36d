//! The cells of a text table: numbers as fast as possible, words where a column has them.

use super::dataset::{Dataset, Values, column_in_words};
use super::encoding::NOTE;
use super::labels::Labels;
use super::options::{Kept, ReadOptions, Table};
use super::schema::{
    Coder, Column, ColumnType, Found, IdName, Missing, RawCells, RawColumn, found, is_wide, looks_like_id,
    other_names, plain_table, word_in_message,
};
use super::text::{FEWER, Layout, Line, Lines};
use crate::memory::{Need, grow, product, require};
use crate::{Error, Hint, Result};

/// Reads the cells; `lines` are those of each part from its first row on, and may be called again.
pub(super) fn read<'a>(
    layout: &Layout,
    options: &ReadOptions,
    lines: impl Fn() -> Result<Vec<Lines<'a>>>,
) -> Result<Table> {
    if let Some(model) = &options.plain {
        return read_plain(layout, options, model, lines()?);
    }
    if is_probably_plain(layout, options) {
        let mut scan = Scan::new(layout, |_| Field::Row);
        if scan.read(lines()?)? {
            return scan.into_plain_table(None, options.first_row);
        }
    }
    let RawTable { columns, labels, is_utf8 } = read_columns(layout, options, &lines)?;
    let names: Option<Vec<String>> =
        layout.names.is_some().then(|| columns.iter().map(|column| column.name.clone()).collect());
    let mut table = match found(columns, options, &layout.location)? {
        Found::Typed(table) => *table,
        Found::Plain { positions, columns, kept, description } => {
            let names = names.map(|names| positions.iter().map(|&j| names[j].clone()).collect());
            plain_table(columns, names, kept, description, &layout.location)?
        }
    };
    table.labels = labels;
    if !is_utf8 {
        table.notes.push(NOTE.to_string());
    }
    if options.original {
        table.original = Some(original_columns(layout, lines()?)?);
        table.label_column = layout.label;
    }
    Ok(table)
}

/// Every field as it is written.
fn original_columns(layout: &Layout, lines: Vec<Lines>) -> Result<Vec<RawColumn>> {
    let mut scan = Scan::new(layout, |_| words());
    scan.fields.iter_mut().for_each(|field| *field = words());
    scan.read(lines)?;
    let name = |j: usize| layout.names.as_ref().map_or(String::new(), |names| names[j].clone());
    let columns = scan.fields.into_iter().enumerate().filter_map(|(j, field)| match field {
        Field::Words(coder) => Some(RawColumn { name: name(j), cells: RawCells::Words(coder.finish()) }),
        _ => None,
    });
    Ok(columns.collect())
}

/// Whether the columns share one type if all of them are numbers: there are many, and none is an id by its name.
fn is_probably_plain(layout: &Layout, options: &ReadOptions) -> bool {
    let is_id = |(j, name): (usize, &String)| Some(j) != layout.label && looks_like_id(name).is_some();
    let has_id = || layout.names.iter().flatten().enumerate().any(is_id);
    let n_columns = layout.n_fields - usize::from(layout.label.is_some());
    !options.has_column_options() && is_wide(n_columns, layout.names.is_some()) && !has_id()
}

/// Reads rows of numbers for a model without types. Anything else is an error, except text and ids in columns whose names
/// the model lacks.
fn read_plain(layout: &Layout, options: &ReadOptions, model: &[String], lines: Vec<Lines>) -> Result<Table> {
    let name = |j: usize| layout.names.as_ref().map(|names| &names[j]);
    let is_extra = |j: usize| !model.is_empty() && name(j).is_some_and(|name| !model.contains(name));
    let mut scan =
        Scan::new(layout, |j| if is_extra(j) { Field::Words(Coder::default()) } else { Field::Row });
    scan.is_strict = true;
    scan.read(lines)?;
    let mut kept = Vec::new();
    for (j, field) in scan.fields.iter_mut().enumerate() {
        let Field::Words(coder) = field else { continue };
        let name = name(j).cloned().unwrap_or_default();
        let column = RawColumn { name, cells: RawCells::Words(std::mem::take(coder).finish()) };
        let is_aside = options.keep.contains(&column.name) || looks_like_id(&column.name).is_some();
        if column.is_numbers() && !is_aside {
            let names: Vec<&str> = layout.names.iter().flatten().map(String::as_str).collect();
            let missing: Vec<&str> =
                model.iter().map(String::as_str).filter(|name| !names.contains(name)).collect();
            return Err(other_names(&layout.location, &missing, &[&column.name]));
        }
        kept.push(column);
    }
    let kept = Kept::of(kept.iter().map(|column| (column.name.as_str(), column)));
    scan.into_plain_table(kept, options.first_row)
}

/// A table as it was found.
struct RawTable {
    columns: Vec<RawColumn>,
    labels: Option<Labels>,
    is_utf8: bool,
}

/// Reads the columns in one pass, and those in which numbers and words are found in a second one.
fn read_columns<'a>(
    layout: &Layout,
    options: &ReadOptions,
    lines: impl Fn() -> Result<Vec<Lines<'a>>>,
) -> Result<RawTable> {
    let name = |j: usize| layout.names.as_ref().map_or("", |names| &names[j]);
    let start = |j: usize| {
        if wants_text(name(j), layout.names.is_some(), options) {
            words()
        } else {
            Field::Numbers(Vec::new(), false)
        }
    };
    let mut scan = Scan::new(layout, start);
    scan.missing = Missing::new(&options.missing);
    scan.read(lines()?)?;
    let (labels, is_utf8) = (scan.labels()?, scan.is_utf8);
    // Numbers that start with a zero may be codes: the words will tell.
    let is_open = |field: &Field| matches!(field, Field::Failed | Field::Numbers(_, true));
    if scan.fields.iter().any(is_open) {
        let again = |j: usize| if is_open(&scan.fields[j]) { words() } else { Field::Done };
        let mut second = Scan::new(layout, again);
        second.read(lines()?)?;
        for (field, again) in scan.fields.iter_mut().zip(second.fields) {
            if is_open(field) {
                *field = again;
            }
        }
    }
    let columns = scan.fields.into_iter().enumerate().filter_map(|(j, field)| {
        let cells = match field {
            Field::Numbers(values, _) => RawCells::Numbers(values),
            Field::Words(coder) => RawCells::Words(coder.finish()),
            _ => return None,
        };
        Some(RawColumn { name: name(j).to_string(), cells })
    });
    Ok(RawTable { columns: columns.collect(), labels, is_utf8 })
}

fn words() -> Field {
    Field::Words(Coder::default())
}

/// Whether the text of a column is needed even if it is numbers: it will be written, or compared with levels.
fn wants_text(name: &str, has_names: bool, options: &ReadOptions) -> bool {
    if let Some(schema) = &options.schema {
        let is_number = |column: &Column| column.levels.is_empty() && column.date.is_none();
        if !schema.is_named || !has_names {
            return !schema.source_columns().iter().all(is_number);
        }
        let column = schema.source_columns().iter().find(|column| column.name == name);
        return !column.is_some_and(is_number);
    }
    match options.spec(name) {
        Some(spec) => !matches!(spec.kind, ColumnType::Number | ColumnType::Positive | ColumnType::Count),
        None => looks_like_id(name) == Some(IdName::Id),
    }
}

/// What is done with a field of every line.
enum Field {
    /// Part of a row of numbers.
    Row,
    /// A column of numbers and missing cells, and whether one of them starts with a superfluous zero.
    Numbers(Vec<f64>, bool),
    /// A column of words.
    Words(Coder),
    /// A column of numbers in which a word was found: to be read again.
    Failed,
    /// The label.
    Label,
    /// Nothing: it has been read.
    Done,
}

/// Lines read so far.
struct Scan<'a> {
    layout: &'a Layout,
    missing: Missing,
    /// Whether anything but a number in a row is an error.
    is_strict: bool,
    is_utf8: bool,
    fields: Vec<Field>,
    rows: Vec<f32>,
    has_rows: bool,
    label_words: Vec<String>,
    n_rows: usize,
    /// Rows for which the columns have room.
    capacity: usize,
}

impl<'a> Scan<'a> {
    fn new(layout: &'a Layout, field: impl Fn(usize) -> Field) -> Self {
        let of = |j: usize| if layout.label == Some(j) { Field::Label } else { field(j) };
        let fields: Vec<Field> = (0..layout.n_fields).map(of).collect();
        Self {
            layout,
            missing: Missing::default(),
            is_strict: false,
            is_utf8: layout.is_utf8,
            has_rows: fields.iter().any(|field| matches!(field, Field::Row)),
            fields,
            rows: Vec::new(),
            label_words: Vec::new(),
            n_rows: 0,
            capacity: 0,
        }
    }

    /// Reads all lines; `false` if a row holds anything but numbers.
    fn read(&mut self, parts: Vec<Lines>) -> Result<bool> {
        for lines in parts {
            if !self.read_part(lines)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn read_part(&mut self, mut lines: Lines) -> Result<bool> {
        while let Some(line) = lines.next()? {
            self.reserve()?;
            let mut n_found = 0;
            for (j, field) in line.fields().enumerate() {
                n_found += 1;
                if j < self.fields.len() && !self.add(j, field, &line)? {
                    return Ok(false);
                }
            }
            if n_found != self.layout.n_fields {
                return Err(ragged(line.number, n_found, self.layout.n_fields, line.location));
            }
            self.n_rows += 1;
        }
        self.is_utf8 &= lines.is_utf8;
        Ok(true)
    }

    /// Adds a field; `false` if it should be a number of a row and is none.
    #[inline]
    fn add(&mut self, j: usize, field: &[u8], line: &Line) -> Result<bool> {
        match &mut self.fields[j] {
            Field::Row => match number::<f32>(field).filter(|x| x.is_finite()) {
                Some(x) => self.rows.push(x),
                None if self.is_strict => {
                    let column = column_in_words(self.layout.names.as_deref(), j);
                    return Err(not_a_number(field, line.number, &column, line.location));
                }
                None => return Ok(false),
            },
            Field::Numbers(values, has_zero) => match number::<f64>(field).filter(|x| x.is_finite()) {
                Some(x) => {
                    values.push(x);
                    *has_zero |= matches!(field, [b'0', b'0'..=b'9', ..]);
                }
                None if self.missing.has_word(String::from_utf8_lossy(field).trim()) => values.push(f64::NAN),
                None => self.fields[j] = Field::Failed,
            },
            Field::Words(coder) => coder.push(Some(String::from_utf8_lossy(field).trim())),
            Field::Label => self.label_words.push(String::from_utf8_lossy(field).trim().to_string()),
            Field::Failed | Field::Done => {}
        }
        Ok(true)
    }

    /// Makes room for another row; an error if memory cannot hold it.
    fn reserve(&mut self) -> Result<()> {
        let what = format_args!("the table in `{}`", self.layout.location);
        if self.has_rows {
            grow(&mut self.rows, self.layout.n_fields, &what, FEWER)?;
        }
        if self.n_rows < self.capacity {
            return Ok(());
        }
        self.capacity = (2 * self.capacity).max(1024);
        let bytes = |field: &Field| match field {
            Field::Numbers(..) => product(&[self.capacity, size_of::<f64>()]),
            Field::Words(coder) => coder.n_bytes().saturating_mul(2),
            _ => 0,
        };
        let need = Need::of("", self.fields.iter().map(bytes).fold(0, u64::saturating_add));
        require(&what.to_string(), &need, FEWER)?;
        for field in &mut self.fields {
            if let Field::Numbers(values, _) = field {
                values.reserve_exact(self.capacity - values.len());
            }
        }
        Ok(())
    }

    fn labels(&self) -> Result<Option<Labels>> {
        let labels = self.layout.label.map(|_| Labels::from_text(&self.label_words, &self.layout.location));
        labels.transpose()
    }

    /// The rows that were read as numbers without types.
    fn into_plain_table(self, kept: Option<Kept>, first_row: usize) -> Result<Table> {
        let labels = self.labels()?;
        let is_row = |j: &usize| matches!(self.fields[*j], Field::Row);
        let rows: Vec<usize> = (0..self.fields.len()).filter(is_row).collect();
        let names = self.layout.names.as_ref().map(|names| rows.iter().map(|&j| names[j].clone()).collect());
        let (location, values) = (self.layout.location.clone(), Values::F32(self.rows.into()));
        let data = Dataset::numbered(self.n_rows, rows.len(), values, location, names, first_row)?;
        let mut table = Table::new(data, labels);
        table.kept = kept;
        Ok(table)
    }
}

fn number<T: std::str::FromStr>(field: &[u8]) -> Option<T> {
    std::str::from_utf8(field).ok()?.trim().parse().ok()
}

fn not_a_number(field: &[u8], line: u64, column: &str, location: &str) -> Error {
    let word = String::from_utf8_lossy(field);
    let what = if word.trim().is_empty() {
        "is empty".into()
    } else {
        format!("is {}, not a finite number", word_in_message(&word))
    };
    Error::data(location, format!("line {line}, column {column} {what}")).with_hint(
        Hint::new("fill in or remove such rows")
            .also("a column of labels is selected by ")
            .setting_to("labels", "column:NAME"),
    )
}

fn ragged(line: u64, n_fields: usize, expected: usize, location: &str) -> Error {
    Error::data(
        location,
        format!("line {line} has {n_fields} fields, expected {expected} as in the first line"),
    )
    .with_hint("every line needs the same number of fields")
}
