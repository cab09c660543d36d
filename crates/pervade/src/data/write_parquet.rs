//! Tables of results as Parquet.

use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, Float32Array, Float64Array, Int64Array, StringArray,
    TimestampMicrosecondArray, UInt32Array,
};
use parquet::arrow::ArrowWriter;

use super::options::Kept;
use super::schema::{Column, ColumnType, DateFormat, LevelKind, Zone, parse_date};
use super::write::{OutputCells, OutputTable};

/// Rows converted to columns at a time.
const BLOCK_ROWS: usize = 1 << 14;

/// A Parquet file that is written batch by batch; the first one tells its columns.
pub(super) struct ParquetWriter<W: Write + Send> {
    out: Option<W>,
    writer: Option<ArrowWriter<W>>,
}

impl<W: Write + Send> ParquetWriter<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out: Some(out), writer: None }
    }

    /// Appends the rows of a table.
    pub(super) fn add(&mut self, table: &OutputTable<'_>, n: usize) -> parquet::errors::Result<()> {
        // One block even without rows, so that the file still has its columns.
        for start in (0..n.max(1)).step_by(BLOCK_ROWS) {
            self.write(&table.batch(start..(start + BLOCK_ROWS).min(n))?)?;
        }
        Ok(())
    }

    /// Appends columns of text, which become what `types` say.
    pub(super) fn add_texts(&mut self, columns: &Kept, types: &[TextType]) -> parquet::errors::Result<()> {
        let arrays = columns.columns.iter().zip(types).map(|(texts, kind)| text_column(texts, *kind));
        self.write(&RecordBatch::try_from_iter(columns.names.iter().zip(arrays))?)
    }

    fn write(&mut self, batch: &RecordBatch) -> parquet::errors::Result<()> {
        if let Some(out) = self.out.take() {
            self.writer = Some(ArrowWriter::try_new(out, batch.schema(), None)?);
        }
        match &mut self.writer {
            Some(writer) => writer.write(batch),
            None => Ok(()),
        }
    }

    pub(super) fn finish(self) -> parquet::errors::Result<()> {
        self.writer.map_or(Ok(()), |writer| writer.close().map(drop))
    }
}

impl OutputTable<'_> {
    /// Some rows as columns.
    fn batch(&self, range: Range<usize>) -> parquet::errors::Result<RecordBatch> {
        let mut columns: Vec<ArrayRef> = Vec::new();
        for column in self.kept.iter().flat_map(|kept| &kept.columns) {
            let known = column[range.clone()].iter().map(|text| (!text.is_empty()).then_some(text.as_str()));
            columns.push(Arc::new(known.collect::<StringArray>()));
        }
        if let Some(clusters) = self.clusters {
            columns.push(Arc::new(UInt32Array::from(clusters[range.clone()].to_vec())));
        }
        if let Some((clusters, names)) = self.named() {
            let name = |&c: &u32| Some(names[c as usize].as_str()).filter(|name| !name.is_empty());
            columns.push(Arc::new(clusters[range.clone()].iter().map(name).collect::<StringArray>()));
        }
        for (_, values) in &self.singles {
            columns.push(Arc::new(Float32Array::from(values[range.clone()].to_vec())));
        }
        if let Some(rows) = self.rows {
            let column = |j: usize| range.clone().map(move |i| rows.values[i * rows.n_columns + j]);
            let of = |j| Arc::new(Float32Array::from_iter_values(column(j))) as ArrayRef;
            columns.extend((0..rows.n_columns).map(of));
        }
        if let Some(cells) = &self.cells {
            columns.extend(
                (0..cells.schema.source_columns().len()).map(|j| cell_column(cells, j, range.clone())),
            );
        }
        Ok(RecordBatch::try_from_iter(self.names().iter().zip(columns))?)
    }
}

/// What a column of text becomes in a Parquet file. Of the last three, a column is the first that all its cells fit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum TextType {
    Date(DateFormat),
    Truth,
    Whole,
    Number,
    Text,
}

impl TextType {
    /// The type of some cells: dates or truth values if that is the type of their column.
    pub(super) fn of(texts: &[String], kind: Option<&Column>) -> Self {
        if let Some(format) = kind.and_then(|column| column.date) {
            return TextType::Date(format);
        }
        if kind.is_some_and(|column| column.level_kind == LevelKind::Truth && !column.levels.is_empty()) {
            return TextType::Truth;
        }
        let known = texts.iter().filter(|text| !text.is_empty());
        known.map(|text| Self::of_cell(text)).fold(TextType::Whole, Self::wider)
    }

    fn of_cell(text: &str) -> Self {
        if text.parse::<i64>().is_ok_and(|number| number.to_string() == text) {
            return TextType::Whole;
        }
        let has_zeros = text.len() > 1 && text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit());
        if text.parse::<f64>().is_ok() && !has_zeros { TextType::Number } else { TextType::Text }
    }

    /// The type of a column some of whose cells are of this type and some of the other.
    pub(super) fn wider(self, other: Self) -> Self {
        match (self, other) {
            (TextType::Whole, other) => other,
            (TextType::Number, TextType::Text) => TextType::Text,
            (this, _) => this,
        }
    }
}

fn text_column(texts: &[String], kind: TextType) -> ArrayRef {
    let known = || texts.iter().map(|text| Some(text.as_str()).filter(|text| !text.is_empty()));
    match kind {
        TextType::Date(format) => {
            let seconds = |text: &str| parse_date(text).map(|seconds| seconds - format.origin as f64);
            date_column(known().map(|text| text.and_then(seconds)), &format)
        }
        TextType::Truth => {
            Arc::new(known().map(|text| text.map(|text| text == "true")).collect::<BooleanArray>())
        }
        TextType::Whole => Arc::new(known().map(|text| text?.parse::<i64>().ok()).collect::<Int64Array>()),
        TextType::Number => Arc::new(known().map(|text| text?.parse::<f64>().ok()).collect::<Float64Array>()),
        TextType::Text => Arc::new(known().collect::<StringArray>()),
    }
}

/// Some cells of column `j` in the type that it has in the table.
fn cell_column(cells: &OutputCells, j: usize, rows: Range<usize>) -> ArrayRef {
    let (schema, d) = (cells.schema, cells.schema.columns.len());
    let column = &schema.columns[j];
    let known = rows.clone().map(|i| Some(cells.cells[i * d + j]).filter(|x| !x.is_nan()));
    let level = |x: f64| column.levels[column.level_index(x)].as_str();
    match (column.kind, column.level_kind, &column.date) {
        (ColumnType::Date, _, Some(format)) => date_column(known, format),
        (_, LevelKind::Truth, _) if !column.levels.is_empty() => {
            Arc::new(known.map(|x| x.map(|x| level(x) == "true")).collect::<BooleanArray>())
        }
        (_, LevelKind::Numbers, _) if !column.levels.is_empty() && !column.is_pooled() => {
            let number = |x: f64| level(x).parse::<f64>().unwrap_or(f64::NAN);
            numbers(
                known.map(|x| x.map(number)),
                column.levels.iter().all(|level| level.parse::<i64>().is_ok()),
            )
        }
        _ if !column.levels.is_empty() => {
            let word =
                |(i, x): (usize, Option<f64>)| x.map(|x| cells.rare_level(i, j).unwrap_or_else(|| level(x)));
            Arc::new(rows.zip(known).map(word).collect::<StringArray>())
        }
        _ => numbers(known, column.whole || column.kind == ColumnType::Count),
    }
}

fn numbers(known: impl Iterator<Item = Option<f64>>, are_whole: bool) -> ArrayRef {
    if are_whole {
        return Arc::new(known.map(|x| x.map(|x| x.round() as i64)).collect::<Int64Array>());
    }
    Arc::new(known.collect::<Float64Array>())
}

/// Seconds from the origin of a format as dates or timestamps.
fn date_column(known: impl Iterator<Item = Option<f64>>, format: &DateFormat) -> ArrayRef {
    let origin = format.origin;
    let Some(time) = format.time else {
        let day = |x: f64| (x / 86_400.0).round() as i64 + origin.div_euclid(86_400);
        return Arc::new(known.map(|x| x.map(|x| day(x) as i32)).collect::<Date32Array>());
    };
    let microseconds = |x: f64| (x * 1e6).round() as i64 + origin.saturating_mul(1_000_000);
    let stamps = known.map(|x| x.map(microseconds)).collect::<TimestampMicrosecondArray>();
    match time.zone {
        Zone::Local => Arc::new(stamps),
        Zone::Utc | Zone::Offset(_) => Arc::new(stamps.with_timezone("UTC")),
    }
}
