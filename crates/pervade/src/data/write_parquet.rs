//! Tables of results as Parquet.

use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Float32Array, Float64Array, Int64Array, StringArray,
    TimestampMicrosecondArray, UInt32Array,
};
use arrow::record_batch::RecordBatch;
use parquet::arrow::ArrowWriter;

use super::options::Kept;
use super::schema::{Column, ColumnType, DateFormat, LevelKind, Zone, parse_date};
use super::write::{OutputCells, OutputTable};

/// Rows converted to columns at a time.
const BLOCK_ROWS: usize = 1 << 14;

impl OutputTable<'_> {
    pub(super) fn write_parquet(
        &self,
        out: &mut (impl Write + Send),
        n: usize,
    ) -> parquet::errors::Result<()> {
        let names = self.names();
        let mut writer: Option<ArrowWriter<_>> = None;
        let mut out = Some(out);
        // One block even without rows, so that the file still has its columns.
        for start in (0..n.max(1)).step_by(BLOCK_ROWS) {
            let range = start..(start + BLOCK_ROWS).min(n);
            let mut columns: Vec<ArrayRef> = Vec::new();
            for column in self.kept.iter().flat_map(|kept| &kept.columns) {
                let known =
                    column[range.clone()].iter().map(|text| (!text.is_empty()).then_some(text.as_str()));
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
            let batch = RecordBatch::try_from_iter(names.iter().zip(columns))?;
            if writer.is_none() {
                writer = out.take().map(|out| ArrowWriter::try_new(out, batch.schema(), None)).transpose()?;
            }
            if let Some(writer) = &mut writer {
                writer.write(&batch)?;
            }
        }
        if let Some(writer) = writer {
            writer.close()?;
        }
        Ok(())
    }
}

/// Writes columns of text: numbers as numbers, and the others as their type says.
pub(super) fn write_texts(
    out: &mut (impl Write + Send),
    columns: &Kept,
    types: Vec<Option<&Column>>,
) -> parquet::errors::Result<()> {
    let arrays = columns.columns.iter().zip(types).map(|(texts, kind)| text_column(texts, kind));
    let batch = RecordBatch::try_from_iter(columns.names.iter().zip(arrays))?;
    let mut writer = ArrowWriter::try_new(out, batch.schema(), None)?;
    writer.write(&batch)?;
    writer.close()?;
    Ok(())
}

/// Text as dates or truth values if that is its type, otherwise as whole numbers, numbers or text, whatever fits first.
fn text_column(texts: &[String], kind: Option<&Column>) -> ArrayRef {
    let known = || texts.iter().map(|text| Some(text.as_str()).filter(|text| !text.is_empty()));
    if let Some(format) = kind.and_then(|column| column.date) {
        let seconds = |text: &str| parse_date(text).map(|seconds| seconds - format.origin as f64);
        return date_column(known().map(|text| text.and_then(seconds)), &format);
    }
    if kind.is_some_and(|column| column.level_kind == LevelKind::Truth && !column.levels.is_empty()) {
        return Arc::new(known().map(|text| text.map(|text| text == "true")).collect::<BooleanArray>());
    }
    let is_whole = |text: &str| text.parse::<i64>().is_ok_and(|number| number.to_string() == text);
    if known().flatten().all(is_whole) {
        return Arc::new(known().map(|text| text?.parse::<i64>().ok()).collect::<Int64Array>());
    }
    let has_zeros =
        |text: &str| text.len() > 1 && text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit());
    if known().flatten().all(|text| text.parse::<f64>().is_ok() && !has_zeros(text)) {
        return Arc::new(known().map(|text| text?.parse::<f64>().ok()).collect::<Float64Array>());
    }
    Arc::new(known().collect::<StringArray>())
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
