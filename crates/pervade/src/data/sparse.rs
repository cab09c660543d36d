//! Sparse rows from what files hold: unsorted columns, duplicates, compressed columns.

use super::csr::Csr;
use crate::memory::{Need, product, require};
use crate::{Error, Result};

/// Beyond this many columns the first layer alone would need tens of gigabytes, so the number must be a mistake in the
/// file.
pub(super) const MAX_COLUMNS: usize = 1 << 24;

/// The arrays of a compressed sparse table, as read.
pub(super) struct SparseParts {
    /// Start of each row (or column), and the end of the last.
    pub(super) starts: Vec<usize>,
    /// Column (or row) of each entry.
    pub(super) indices: Vec<u32>,
    /// Value of each entry.
    pub(super) values: Vec<f32>,
}

impl SparseParts {
    /// Converts to checked sparse rows; entries of a row are sorted by column and duplicates are summed.
    pub(super) fn into_csr(mut self, n_rows: usize, n_columns: usize, location: &str) -> Result<Csr> {
        self.check(n_rows, n_columns, "row", location)?;
        let is_sorted = |p: &[usize]| self.indices[p[0]..p[1]].windows(2).all(|c| c[0] < c[1]);
        if !self.starts.windows(2).all(is_sorted) {
            self.sort_rows();
        }
        Csr::new(self.starts, self.indices, self.values, n_columns)
            .map_err(|e| Error::data(location, e.to_string()))
    }

    /// Sparse rows from parts that were compressed by column.
    pub(super) fn transposed(self, n_rows: usize, n_columns: usize, location: &str) -> Result<Csr> {
        self.check(n_columns, n_rows, "column", location)?;
        // The check bounds columns by the size of the file, but rows without entries are a mere claim.
        if n_rows > MAX_COLUMNS && n_rows / 1024 > self.indices.len() {
            return Err(Error::data(
                location,
                format!("{n_rows} rows are claimed for {} entries", self.indices.len()),
            ));
        }
        let entry = size_of::<u32>() + size_of::<f32>();
        let need = Need::of("row starts", product(&[2, n_rows, size_of::<usize>()]))
            .and("entries", product(&[self.indices.len(), entry]));
        require(&format!("sparse rows of `{location}`"), &need, "give fewer rows")?;
        let mut starts = vec![0usize; n_rows + 1];
        self.indices.iter().for_each(|&row| starts[row as usize + 1] += 1);
        (0..n_rows).for_each(|row| starts[row + 1] += starts[row]);
        let mut next = starts.clone();
        let mut columns = vec![0u32; self.indices.len()];
        let mut values = vec![0f32; self.indices.len()];
        for (column, pair) in self.starts.windows(2).enumerate() {
            for entry in pair[0]..pair[1] {
                let slot = &mut next[self.indices[entry] as usize];
                columns[*slot] = column as u32;
                values[*slot] = self.values[entry];
                *slot += 1;
            }
        }
        SparseParts { starts, indices: columns, values }.into_csr(n_rows, n_columns, location)
    }

    /// Checks that starts increase from 0 to the number of entries and that every index is below `n_inner`.
    fn check(&self, n_outer: usize, n_inner: usize, outer: &str, location: &str) -> Result<()> {
        let broken = |what: String| Err(Error::data(location, what).with_hint("the file is damaged"));
        if n_outer.max(n_inner) > u32::MAX as usize {
            return broken(format!("{n_outer} x {n_inner} is too large for a sparse table"));
        }
        if self.starts.len() != n_outer.saturating_add(1) {
            return broken(format!("{} {outer} starts are given for {n_outer} {outer}s", self.starts.len()));
        }
        let n = self.values.len();
        if self.indices.len() != n || self.starts[0] != 0 || self.starts[n_outer] != n {
            return broken(format!(
                "{outer} starts run from {} to {}, with {} indices and {n} values",
                self.starts[0],
                self.starts[n_outer],
                self.indices.len()
            ));
        }
        if let Some(i) = self.starts.windows(2).position(|p| p[0] > p[1]) {
            return broken(format!("{outer} {} ends before it starts", i + 1));
        }
        if let Some(entry) = self.indices.iter().position(|&i| i as usize >= n_inner) {
            return broken(format!(
                "entry {} has the index {}, which must be below {n_inner}",
                entry + 1,
                self.indices[entry]
            ));
        }
        Ok(())
    }

    fn sort_rows(&mut self) {
        let mut kept = 0;
        let mut row: Vec<(u32, f32)> = Vec::new();
        for i in 0..self.starts.len() - 1 {
            let range = if i == 0 { 0 } else { self.starts[i] }..self.starts[i + 1];
            row.clear();
            row.extend(self.indices[range.clone()].iter().copied().zip(self.values[range].iter().copied()));
            row.sort_by_key(|&(column, _)| column);
            self.starts[i] = kept;
            let first = kept;
            for &(column, value) in &row {
                if kept > first && self.indices[kept - 1] == column {
                    self.values[kept - 1] += value;
                } else {
                    self.indices[kept] = column;
                    self.values[kept] = value;
                    kept += 1;
                }
            }
        }
        self.indices.truncate(kept);
        self.values.truncate(kept);
        let last = self.starts.len() - 1;
        self.starts[last] = kept;
    }
}

/// Returns an error for a number of columns that can only be a mistake.
pub(super) fn check_columns(n_columns: usize, location: &str) -> Result<()> {
    if n_columns <= MAX_COLUMNS {
        return Ok(());
    }
    Err(Error::data(
        location,
        format!("{n_columns} columns are more than the {MAX_COLUMNS} that are possible"),
    )
    .with_hint("keep the columns that matter, such as the 2,000 most frequent terms"))
}
