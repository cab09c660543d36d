//! Tables of results as Parquet.

use std::io::Write;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float32Array, UInt32Array};
use arrow::record_batch::RecordBatch;
use parquet::arrow::ArrowWriter;

use super::write::Columns;

/// Rows converted to columns at a time.
const BLOCK_ROWS: usize = 1 << 14;

impl Columns<'_> {
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
            if let Some(clusters) = self.clusters {
                columns.push(Arc::new(UInt32Array::from(clusters[range.clone()].to_vec())));
            }
            for (_, values) in &self.singles {
                columns.push(Arc::new(Float32Array::from(values[range.clone()].to_vec())));
            }
            if let Some(rows) = self.rows {
                let column = |j: usize| range.clone().map(move |i| rows.values[i * rows.n_columns + j]);
                let of = |j| Arc::new(Float32Array::from_iter_values(column(j))) as ArrayRef;
                columns.extend((0..rows.n_columns).map(of));
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
