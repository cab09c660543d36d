//! Parquet: columns of numbers, words, truth values and dates, and lists of numbers that all have the same length.

use arrow::array::{Array as _, ArrayRef, ArrowPrimitiveType, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Float32Type, Float64Type, UInt8Type};
use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};

use super::dataset::{Dataset, Values};
use super::elements::whole_numbers;
use super::labels::Labels;
use super::options::{Kept, LabelSource, ReadOptions, Table, not_offered};
use super::parquet_claims::{has_invalid_footer, has_invalid_page};
use super::parquet_columns::Builder;
use super::schema::{ColumnType, Found, IdName, RawColumn, found, is_wide, looks_like_id};
use crate::memory::grow;
use crate::quiet::catch_panic;
use crate::{Error, Hint, Result};

/// Rows decoded at a time.
const BLOCK_ROWS: usize = 1 << 13;

/// Reads the columns; one may hold the labels.
pub(super) fn read(bytes: Vec<u8>, location: &str, options: &ReadOptions) -> Result<Table> {
    guarded(location, || read_columns(bytes, location, options))
}

/// Reads a file of one column as labels.
pub(super) fn read_labels(bytes: Vec<u8>, location: &str) -> Result<Labels> {
    guarded(location, || {
        let (fields, batches) = open(Bytes::from(bytes), location)?;
        let [only] = fields.as_slice() else {
            return Err(Error::data(
                location,
                format!("there are {} columns, a file of labels has one", fields.len()),
            ));
        };
        let mut words = Vec::new();
        for batch in batches {
            let batch = batch.map_err(|e| damaged(location, &e))?;
            add_words(batch.column(0), only, &mut words, location)?;
        }
        Labels::from_text(&words, location)
    })
}

/// Runs third-party decoding, which flipped bytes do make panic (in `arrow-buffer` and in its column decoder, version
/// 60); a panic is reported as a damaged file.
fn guarded<T>(location: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_panic(work).unwrap_or_else(|| Err(damaged(location, &"the decoder gave up")))
}

pub(super) fn damaged(location: &str, error: &dyn std::fmt::Display) -> Error {
    Error::data(location, format!("the Parquet file cannot be read: {error}"))
        .with_hint("the file is cut short or damaged")
}

fn open(bytes: Bytes, location: &str) -> Result<(Vec<Field>, ParquetRecordBatchReader)> {
    if has_invalid_footer(&bytes) {
        return Err(damaged(location, &"its footer is damaged"));
    }
    let builder =
        ParquetRecordBatchReaderBuilder::try_new(bytes.clone()).map_err(|e| damaged(location, &e))?;
    if has_invalid_page(&bytes, builder.metadata()) {
        return Err(damaged(location, &"the header of a page is damaged"));
    }
    let fields = builder.schema().fields().iter().map(|f| f.as_ref().clone()).collect();
    let batches = builder.with_batch_size(BLOCK_ROWS).build().map_err(|e| damaged(location, &e))?;
    Ok((fields, batches))
}

fn read_columns(bytes: Vec<u8>, location: &str, options: &ReadOptions) -> Result<Table> {
    let bytes = Bytes::from(bytes);
    let (fields, _) = open(bytes.clone(), location)?;
    let label = label_column(&fields, options.labels.as_ref(), location)?;
    // pandas stores its row index under such a name; it is not part of the table.
    let is_data = |&j: &usize| Some(j) != label && !fields[j].name().starts_with("__index_level_");
    let columns: Vec<usize> = (0..fields.len()).filter(is_data).collect();
    let file = File { bytes, location, fields, label };
    if let Some(model) = &options.plain {
        let (kept, columns) =
            columns.into_iter().partition::<Vec<usize>, _>(|&j| file.is_aside(j, model, options));
        let mut table = file.read_numbers(&columns)?;
        let (raw, _) = file.read_raw(&kept, &|_| true)?;
        table.kept = Kept::of(raw.iter().map(|(_, column)| (column.name.as_str(), column)));
        return Ok(table);
    }
    if file.is_probably_plain(&columns, options)
        && let Ok(table) = file.read_numbers(&columns)
    {
        return Ok(table);
    }
    let (raw, labels) = file.read_raw(&columns, &|name| wants_text(name, options))?;
    let (field_of_column, raw): (Vec<usize>, Vec<RawColumn>) = raw.into_iter().unzip();
    match found(raw, options, location)? {
        Found::Typed(table) => {
            let mut table = Table { labels, ..*table };
            if options.original {
                let all: Vec<usize> =
                    (0..file.fields.len()).filter(|j| columns.contains(j) || label == Some(*j)).collect();
                let (raw, _) = file.read_raw(&all, &|_| true)?;
                table.label_column = raw.iter().position(|(field, _)| Some(*field) == label);
                table.original = Some(raw.into_iter().map(|(_, column)| column).collect());
            }
            Ok(table)
        }
        Found::Plain { positions, kept, description, .. } => {
            let mut chosen: Vec<usize> = positions.iter().map(|&j| field_of_column[j]).collect();
            chosen.dedup();
            let table = file.read_numbers(&chosen)?;
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

/// A Parquet file whose footer was read.
pub(super) struct File<'a> {
    bytes: Bytes,
    location: &'a str,
    fields: Vec<Field>,
    /// The field of the labels.
    label: Option<usize>,
}

impl File<'_> {
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
    fn read_numbers(&self, columns: &[usize]) -> Result<Table> {
        let location = self.location;
        let (_, batches) = open(self.bytes.clone(), location)?;
        let kind = Kind::of(columns.iter().map(|&j| &self.fields[j]), location)?;
        let mut rows = RowBuffer {
            kind,
            widths: Vec::new(),
            bytes: Vec::new(),
            singles: Vec::new(),
            doubles: Vec::new(),
            n: 0,
        };
        let mut words = Vec::new();
        for batch in batches {
            let batch = batch.map_err(|e| damaged(location, &e))?;
            rows.add(&batch, columns, location)?;
            self.add_labels(&batch, &mut words)?;
        }
        let mut names = Vec::new();
        for (&j, &(width, is_list)) in columns.iter().zip(&rows.widths) {
            names.extend(column_names(self.fields[j].name(), width, is_list));
        }
        let (n_rows, n_columns) = (rows.n, names.len());
        let values = rows.into_values(location)?;
        let data = Dataset::named(n_rows, n_columns, values, location.into(), Some(names))?;
        Ok(Table::new(data, self.labels(&words)?))
    }

    /// The columns as they are, each with the index of its field, and the labels; lists become several columns.
    fn read_raw(
        &self,
        columns: &[usize],
        wants_text: &dyn Fn(&str) -> bool,
    ) -> Result<(Vec<(usize, RawColumn)>, Option<Labels>)> {
        let (_, batches) = open(self.bytes.clone(), self.location)?;
        let builder =
            |&j: &usize| Builder::new(&self.fields[j], wants_text(self.fields[j].name()), self.location);
        let mut builders = columns.iter().map(builder).collect::<Result<Vec<Builder>>>()?;
        let (mut words, mut n_rows) = (Vec::new(), 0);
        for batch in batches {
            let batch = batch.map_err(|e| damaged(self.location, &e))?;
            for (builder, &j) in builders.iter_mut().zip(columns) {
                builder.add(batch.column(j), n_rows, self.fields[j].name(), self.location)?;
            }
            self.add_labels(&batch, &mut words)?;
            n_rows += batch.num_rows();
        }
        let raw = builders.into_iter().zip(columns).flat_map(|(builder, &j)| {
            builder.finish(self.fields[j].name()).into_iter().map(move |column| (j, column))
        });
        Ok((raw.collect(), self.labels(&words)?))
    }

    fn add_labels(&self, batch: &RecordBatch, words: &mut Vec<String>) -> Result<()> {
        self.label.map_or(Ok(()), |j| add_words(batch.column(j), &self.fields[j], words, self.location))
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
enum Kind {
    Bytes,
    Singles,
    /// Integers that may or may not fit single precision: decided once all are read.
    Whole,
    Doubles,
}

impl Kind {
    fn of<'a>(fields: impl Iterator<Item = &'a Field>, location: &str) -> Result<Self> {
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
struct RowBuffer {
    kind: Kind,
    /// Width of each column, and whether it is a list.
    widths: Vec<(usize, bool)>,
    bytes: Vec<u8>,
    singles: Vec<f32>,
    doubles: Vec<f64>,
    n: usize,
}

impl RowBuffer {
    fn add(&mut self, batch: &RecordBatch, columns: &[usize], location: &str) -> Result<()> {
        let n = batch.num_rows();
        let mut flat = Vec::with_capacity(columns.len());
        for (at, &j) in columns.iter().enumerate() {
            let name = batch.schema().field(j).name().clone();
            let (values, width, is_list) = flatten(batch.column(j), self.n, &name, location)?;
            match self.widths.get(at) {
                None => self.widths.push((width, is_list)),
                Some(&(first, _)) if first != width && n > 0 => {
                    return Err(uneven(location, self.n, &name, width, first));
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

fn lists<O: arrow::array::OffsetSizeTrait>(
    list: &arrow::array::GenericListArray<O>,
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

fn add_words(column: &ArrayRef, field: &Field, words: &mut Vec<String>, location: &str) -> Result<()> {
    refuse_nulls(column, words.len(), field.name(), location)?;
    let text = cast(column, &DataType::Utf8)
        .map_err(|e| Error::data(location, format!("column `{}` cannot be labels: {e}", field.name())))?;
    words.extend(text.as_string::<i32>().iter().map(|word| word.unwrap_or("").to_string()));
    Ok(())
}
