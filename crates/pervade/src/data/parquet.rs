//! Parquet: columns of numbers, words, truth values and dates, and lists of numbers that all have the same length.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, UInt8Type};
use arrow_array::{Array as _, ArrayRef, ArrowPrimitiveType, Float64Array};
use arrow_cast::cast;
use arrow_schema::{DataType, Field};

use super::bytes::FileBytes;
use super::dataset::{Dataset, Values};
use super::elements::whole_numbers;
use super::labels::Labels;
use super::options::{Kept, LabelSource, ReadOptions, Table, not_offered};
use super::parquet_columns::Builder;
use super::parquet_file::{Block, Blocks, ParquetFile, damaged, guarded};
use super::schema::{ColumnType, Found, IdName, RawColumn, found, is_wide, looks_like_id};
use crate::memory::grow;
use crate::{Error, Hint, Result};

/// Reads the columns; one may hold the labels.
pub(super) fn read(bytes: FileBytes, location: &str, options: &ReadOptions) -> Result<Table> {
    read_parts(&[ParquetFile::open(bytes, location)?], location, options)
}

/// Reads files with the same columns as one table. There must be at least one.
pub(super) fn read_parts(files: &[ParquetFile], location: &str, options: &ReadOptions) -> Result<Table> {
    let blocks = || -> Result<Blocks<'_>> {
        let each = files.iter().map(ParquetFile::blocks).collect::<Result<Vec<_>>>()?;
        Ok(Box::new(each.into_iter().flatten()))
    };
    guarded(location, || {
        read_columns(&Source::new(location, widest_fields(files), options, &blocks)?, options)
    })
}

/// Reads some rows of a file as a table of their own.
pub(super) fn read_piece(
    file: &ParquetFile,
    rows: &[(RecordBatch, usize)],
    options: &ReadOptions,
) -> Result<Table> {
    let location = file.location();
    let block = |(rows, first_row): &(RecordBatch, usize)| Block {
        rows: rows.clone(),
        location,
        first_row: *first_row,
    };
    let blocks = || -> Result<Blocks<'_>> { Ok(Box::new(rows.iter().map(|rows| Ok(block(rows))))) };
    let fields = file.fields().to_vec();
    guarded(location, || read_columns(&Source::new(location, fields, options, &blocks)?, options))
}

/// Reads a file of one column as labels.
pub(super) fn read_labels(bytes: FileBytes, location: &str) -> Result<Labels> {
    let file = ParquetFile::open(bytes, location)?;
    guarded(location, || {
        let [only] = file.fields() else {
            return Err(Error::data(
                location,
                format!("there are {} columns, a file of labels has one", file.fields().len()),
            ));
        };
        let mut words = Vec::new();
        for block in file.blocks()? {
            add_words(&block?, 0, only, &mut words)?;
        }
        Labels::from_text(&words, location)
    })
}

/// The columns of the first file, each in the widest type that it has in any of them.
fn widest_fields(files: &[ParquetFile]) -> Vec<Field> {
    let kind = |field: &Field| Kind::of(std::iter::once(field), "").unwrap_or(Kind::Doubles);
    let mut fields: Vec<Field> = files.first().map_or(Vec::new(), |file| file.fields().to_vec());
    for other in files.iter().skip(1).flat_map(ParquetFile::fields) {
        if let Some(field) = fields.iter_mut().find(|field| field.name() == other.name())
            && kind(other) > kind(field)
        {
            *field = other.clone();
        }
    }
    fields
}

fn read_columns(source: &Source<'_>, options: &ReadOptions) -> Result<Table> {
    // pandas stores its row index under such a name; it is not part of the table.
    let is_data =
        |&j: &usize| Some(j) != source.label && !source.fields[j].name().starts_with("__index_level_");
    let columns: Vec<usize> = (0..source.fields.len()).filter(is_data).collect();
    if let Some(model) = &options.plain {
        let (kept, columns) =
            columns.into_iter().partition::<Vec<usize>, _>(|&j| source.is_aside(j, model, options));
        let mut table = source.read_numbers(&columns, options.first_row)?;
        let (raw, _) = source.read_raw(&kept, &|_| true)?;
        table.kept = Kept::of(raw.iter().map(|(_, column)| (column.name.as_str(), column)));
        return Ok(table);
    }
    if source.is_probably_plain(&columns, options)
        && let Ok(table) = source.read_numbers(&columns, options.first_row)
    {
        return Ok(table);
    }
    let (raw, labels) = source.read_raw(&columns, &|name| wants_text(name, options))?;
    let (field_of_column, raw): (Vec<usize>, Vec<RawColumn>) = raw.into_iter().unzip();
    match found(raw, options, source.location)? {
        Found::Typed(table) => {
            let mut table = Table { labels, ..*table };
            if options.original {
                let is_wanted = |j: &usize| columns.contains(j) || source.label == Some(*j);
                let all: Vec<usize> = (0..source.fields.len()).filter(is_wanted).collect();
                let (raw, _) = source.read_raw(&all, &|_| true)?;
                table.label_column = raw.iter().position(|(field, _)| Some(*field) == source.label);
                table.original = Some(raw.into_iter().map(|(_, column)| column).collect());
            }
            Ok(table)
        }
        Found::Plain { positions, kept, description, .. } => {
            let mut chosen: Vec<usize> = positions.iter().map(|&j| field_of_column[j]).collect();
            chosen.dedup();
            let table = source.read_numbers(&chosen, options.first_row)?;
            Ok(Table { kept, description, ..table })
        }
    }
}

/// Whether a column is needed as text even if it holds numbers, which may be too long for double precision.
fn wants_text(name: &str, options: &ReadOptions) -> bool {
    let is_kept = options.spec(name).is_some_and(|spec| spec.kind == ColumnType::Kept);
    let is_aside = options.schema.as_ref().is_some_and(|schema| schema.kept.iter().any(|kept| kept == name));
    is_kept || is_aside || options.schema.is_none() && looks_like_id(name) == Some(IdName::Id)
}

/// The rows of one or several files, which can be read more than once.
struct Source<'a> {
    location: &'a str,
    fields: Vec<Field>,
    /// The field of the labels.
    label: Option<usize>,
    blocks: &'a dyn Fn() -> Result<Blocks<'a>>,
}

impl<'a> Source<'a> {
    fn new(
        location: &'a str,
        fields: Vec<Field>,
        options: &ReadOptions,
        blocks: &'a dyn Fn() -> Result<Blocks<'a>>,
    ) -> Result<Self> {
        let label = label_column(&fields, options.labels.as_ref(), location)?;
        Ok(Self { location, fields, label, blocks })
    }

    /// Whether the columns share one type if they have no nulls: there are many of them, or some hold lists of numbers.
    fn is_probably_plain(&self, columns: &[usize], options: &ReadOptions) -> bool {
        let fields = || columns.iter().map(|&j| &self.fields[j]);
        let has_lists = fields().any(|field| list_element(field.data_type()).is_some());
        let has_id = fields().any(|field| looks_like_id(field.name()).is_some());
        let is_wide = is_wide(columns.len(), true);
        let is_numbers = Kind::of(fields(), self.location).is_ok();
        is_numbers && !options.has_column_options() && (has_lists || is_wide) && !has_id
    }

    /// Whether a column is none of the model's, and may go along because it is text or an id.
    fn is_aside(&self, j: usize, model: &[String], options: &ReadOptions) -> bool {
        let field = &self.fields[j];
        let is_text = || Kind::of(std::iter::once(field), self.location).is_err();
        let is_aside = options.keep.contains(field.name()) || looks_like_id(field.name()).is_some();
        !model.is_empty() && !model.contains(field.name()) && (is_aside || is_text())
    }

    /// The columns as numbers without types, and the labels.
    fn read_numbers(&self, columns: &[usize], first_row: usize) -> Result<Table> {
        let location = self.location;
        let kind = Kind::of(columns.iter().map(|&j| &self.fields[j]), location)?;
        let mut rows = RowBuffer::new(kind);
        let mut words = Vec::new();
        for block in (self.blocks)()? {
            let block = block?;
            rows.add(&block, columns)?;
            self.add_labels(&block, &mut words)?;
        }
        let mut names = Vec::new();
        for (&j, &(width, is_list)) in columns.iter().zip(&rows.widths) {
            names.extend(column_names(self.fields[j].name(), width, is_list));
        }
        let (n_rows, n_columns) = (rows.n, names.len());
        let values = rows.into_values(location)?;
        let data = Dataset::numbered(n_rows, n_columns, values, location.into(), Some(names), first_row)?;
        Ok(Table::new(data, self.labels(&words)?))
    }

    /// The columns as they are, each with the index of its field, and the labels; lists become several columns.
    fn read_raw(
        &self,
        columns: &[usize],
        wants_text: &dyn Fn(&str) -> bool,
    ) -> Result<(Vec<(usize, RawColumn)>, Option<Labels>)> {
        let builder =
            |&j: &usize| Builder::new(&self.fields[j], wants_text(self.fields[j].name()), self.location);
        let mut builders = columns.iter().map(builder).collect::<Result<Vec<Builder>>>()?;
        let mut words = Vec::new();
        for block in (self.blocks)()? {
            let block = block?;
            for (builder, &j) in builders.iter_mut().zip(columns) {
                builder.add(block.rows.column(j), block.first_row, self.fields[j].name(), block.location)?;
            }
            self.add_labels(&block, &mut words)?;
        }
        let raw = builders.into_iter().zip(columns).flat_map(|(builder, &j)| {
            builder.finish(self.fields[j].name()).into_iter().map(move |column| (j, column))
        });
        Ok((raw.collect(), self.labels(&words)?))
    }

    fn add_labels(&self, block: &Block<'_>, words: &mut Vec<String>) -> Result<()> {
        self.label.map_or(Ok(()), |j| add_words(block, j, &self.fields[j], words))
    }

    fn labels(&self, words: &[String]) -> Result<Option<Labels>> {
        self.label.map(|_| Labels::from_text(words, self.location)).transpose()
    }
}

/// The names of a column's parts: of a list one per element.
pub(super) fn column_names(name: &str, width: usize, is_list: bool) -> Vec<String> {
    if is_list { (0..width).map(|k| format!("{name}_{k}")).collect() } else { vec![name.to_string()] }
}

fn label_column(fields: &[Field], wanted: Option<&LabelSource>, location: &str) -> Result<Option<usize>> {
    let found = match wanted {
        None => return Ok(None),
        Some(LabelSource::LastColumn) => fields.len().checked_sub(1),
        Some(LabelSource::Column(name)) => fields.iter().position(|f| f.name() == name),
        Some(_) => None,
    };
    let names = || fields.iter().take(20).map(|f| format!("`{}`", f.name())).collect::<Vec<_>>().join(", ");
    match (found, wanted) {
        (None, Some(wanted)) => Err(not_offered(location, wanted, &format!("the columns are {}", names()))),
        (found, _) => Ok(found),
    }
}

/// The type that can hold every column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Bytes,
    Singles,
    /// Integers that may or may not fit single precision: decided once all are read.
    Whole,
    Doubles,
}

impl Kind {
    pub(super) fn of<'a>(fields: impl Iterator<Item = &'a Field>, location: &str) -> Result<Self> {
        let mut kind = Kind::Bytes;
        for field in fields {
            let element = list_element(field.data_type()).unwrap_or(field.data_type());
            kind = kind.max(match element {
                DataType::UInt8 | DataType::Boolean => Kind::Bytes,
                DataType::Int8
                | DataType::Int16
                | DataType::UInt16
                | DataType::Float16
                | DataType::Float32 => Kind::Singles,
                DataType::Int32 | DataType::UInt32 | DataType::Int64 | DataType::UInt64 => Kind::Whole,
                DataType::Float64 | DataType::Decimal128(..) => Kind::Doubles,
                other => {
                    let problem = format!("column `{}` holds {other}, not numbers", field.name());
                    let hint =
                        Hint::new("leave it out, or name it with ").setting_to("labels", "column:NAME");
                    return Err(Error::data(location, problem).with_hint(hint.text(" if it is the label")));
                }
            });
        }
        Ok(kind)
    }
}

pub(super) fn list_element(kind: &DataType) -> Option<&DataType> {
    match kind {
        DataType::FixedSizeList(element, _) | DataType::List(element) | DataType::LargeList(element) => {
            Some(element.data_type())
        }
        _ => None,
    }
}

/// The rows read so far, in the one vector that `kind` selects.
pub(super) struct RowBuffer {
    kind: Kind,
    /// Width of each column, and whether it is a list.
    pub(super) widths: Vec<(usize, bool)>,
    bytes: Vec<u8>,
    singles: Vec<f32>,
    doubles: Vec<f64>,
    n: usize,
}

impl RowBuffer {
    pub(super) fn new(kind: Kind) -> Self {
        let (bytes, singles, doubles) = (Vec::new(), Vec::new(), Vec::new());
        Self { kind, widths: Vec::new(), bytes, singles, doubles, n: 0 }
    }

    /// Adds columns in which cells may be missing: they become NaN.
    pub(super) fn add_with_gaps(&mut self, block: &Block<'_>, columns: &[usize]) -> Result<()> {
        let without_nulls = |column: &ArrayRef| -> Result<ArrayRef> {
            if column.null_count() == 0 || self.kind == Kind::Bytes || !column.data_type().is_numeric() {
                return Ok(column.clone());
            }
            let numbers = cast(column, &DataType::Float64).map_err(|e| damaged(block.location, &e))?;
            let cells = numbers.as_primitive::<Float64Type>().iter().map(|x| x.unwrap_or(f64::NAN));
            Ok(Arc::new(Float64Array::from_iter_values(cells)))
        };
        let names = columns.iter().map(|&j| block.rows.schema().field(j).name().clone());
        let arrays = columns.iter().map(|&j| without_nulls(block.rows.column(j)));
        let arrays = arrays.collect::<Result<Vec<ArrayRef>>>()?;
        let rows = RecordBatch::try_from_iter(names.zip(arrays)).map_err(|e| damaged(block.location, &e))?;
        let all: Vec<usize> = (0..columns.len()).collect();
        self.add(&Block { rows, ..block.clone() }, &all)
    }

    fn add(&mut self, block: &Block<'_>, columns: &[usize]) -> Result<()> {
        let Block { rows: batch, location, first_row } = block;
        let n = batch.num_rows();
        let mut flat = Vec::with_capacity(columns.len());
        for (at, &j) in columns.iter().enumerate() {
            let name = batch.schema().field(j).name().clone();
            let (values, width, is_list) = flatten(batch.column(j), *first_row, &name, location)?;
            match self.widths.get(at) {
                None => self.widths.push((width, is_list)),
                Some(&(first, _)) if first != width && n > 0 => {
                    return Err(uneven(location, *first_row, &name, width, first));
                }
                Some(_) => {}
            }
            flat.push((values, width));
        }
        match self.kind {
            Kind::Bytes => interleave::<UInt8Type>(&flat, n, &DataType::UInt8, &mut self.bytes, location)?,
            Kind::Singles => {
                interleave::<Float32Type>(&flat, n, &DataType::Float32, &mut self.singles, location)?;
            }
            _ => interleave::<Float64Type>(&flat, n, &DataType::Float64, &mut self.doubles, location)?,
        }
        self.n += n;
        Ok(())
    }

    /// The numbers in the type that they were collected in.
    pub(super) fn into_stored(self) -> Values<'static> {
        match self.kind {
            Kind::Bytes => Values::U8(self.bytes.into()),
            Kind::Singles => Values::F32(self.singles.into()),
            Kind::Whole | Kind::Doubles => Values::F64(self.doubles.into()),
        }
    }

    fn into_values(self, location: &str) -> Result<Values<'static>> {
        match self.kind {
            Kind::Bytes => Ok(Values::U8(self.bytes.into())),
            Kind::Singles => Ok(Values::F32(self.singles.into())),
            Kind::Whole => whole_numbers(self.doubles, location),
            Kind::Doubles => Ok(Values::F64(self.doubles.into())),
        }
    }
}

/// The numbers of a column without nulls, how many each row has, and whether they are lists.
pub(super) fn flatten(
    column: &ArrayRef,
    first_row: usize,
    name: &str,
    location: &str,
) -> Result<(ArrayRef, usize, bool)> {
    refuse_nulls(column, first_row, name, location)?;
    let n = column.len();
    let values = match column.data_type() {
        DataType::FixedSizeList(..) => {
            let list = column.as_fixed_size_list();
            let width = list.value_length() as usize;
            list.values().slice(list.value_offset_at(0), n * width)
        }
        DataType::List(_) => lists(column.as_list::<i32>(), first_row, name, location)?,
        DataType::LargeList(_) => lists(column.as_list::<i64>(), first_row, name, location)?,
        _ => return Ok((column.clone(), 1, false)),
    };
    let width = values.len().checked_div(n).unwrap_or(0);
    match first_null(&values) {
        None => Ok((values, width, true)),
        Some(i) => {
            let value = format!("value {} of column `{name}`", i % width + 1);
            Err(null(location, first_row + i / width, &value))
        }
    }
}

fn lists<O: arrow_array::OffsetSizeTrait>(
    list: &arrow_array::GenericListArray<O>,
    first_row: usize,
    name: &str,
    location: &str,
) -> Result<ArrayRef> {
    let offsets = list.value_offsets();
    let lengths: Vec<usize> = offsets.windows(2).map(|p| (p[1] - p[0]).as_usize()).collect();
    if let Some(row) = lengths.iter().position(|&l| l != lengths[0]) {
        return Err(uneven(location, first_row + row, name, lengths[row], lengths[0]));
    }
    let start = offsets.first().map_or(0, |o| o.as_usize());
    Ok(list.values().slice(start, lengths.iter().sum()))
}

pub(super) fn uneven(location: &str, row: usize, name: &str, width: usize, first: usize) -> Error {
    let row = row + 1;
    Error::data(
        location,
        format!("row {row}, column `{name}` is a list of {width}, the first one has {first}"),
    )
}

fn refuse_nulls(column: &ArrayRef, first_row: usize, name: &str, location: &str) -> Result<()> {
    match first_null(column) {
        None => Ok(()),
        Some(row) => Err(null(location, first_row + row, &format!("column `{name}`"))),
    }
}

fn first_null(column: &ArrayRef) -> Option<usize> {
    (0..column.len()).find(|&i| column.null_count() > 0 && column.is_null(i))
}

fn null(location: &str, row: usize, what: &str) -> Error {
    Error::data(location, format!("row {}, {what} is null", row + 1))
        .with_hint("fill in or remove such rows first")
}

/// Interleaves columns and appends them to the rows in `out`.
fn interleave<P: ArrowPrimitiveType>(
    columns: &[(ArrayRef, usize)],
    n: usize,
    kind: &DataType,
    out: &mut Vec<P::Native>,
    location: &str,
) -> Result<()> {
    let total: usize = columns.iter().map(|(_, width)| width).sum();
    let start = out.len();
    grow(
        out,
        n.saturating_mul(total),
        &format_args!("the table in `{location}`"),
        "give fewer rows or columns",
    )?;
    out.resize(start + n * total, P::Native::default());
    let mut first = 0;
    for (column, width) in columns {
        let numbers = cast(column, kind).map_err(|e| damaged(location, &e))?;
        for (i, row) in numbers.as_primitive::<P>().values().chunks_exact((*width).max(1)).enumerate() {
            let at = start + i * total + first;
            out[at..at + width].copy_from_slice(&row[..*width]);
        }
        first += width;
    }
    Ok(())
}

fn add_words(block: &Block<'_>, j: usize, field: &Field, words: &mut Vec<String>) -> Result<()> {
    let (column, location) = (block.rows.column(j), block.location);
    refuse_nulls(column, block.first_row, field.name(), location)?;
    let text = cast(column, &DataType::Utf8)
        .map_err(|e| Error::data(location, format!("column `{}` cannot be labels: {e}", field.name())))?;
    words.extend(text.as_string::<i32>().iter().map(|word| word.unwrap_or("").to_string()));
    Ok(())
}
