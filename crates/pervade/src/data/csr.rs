//! Sparse rows.

use std::collections::HashMap;
use std::ops::Range;

use crate::{Error, Result};

/// Compressed sparse rows: the entries of row i are `starts[i]..starts[i + 1]`.
///
/// Column indices increase strictly within a row; `Csr::new` checks this.
#[derive(Debug, Clone, PartialEq)]
pub struct Csr {
    starts: Vec<usize>,
    columns: Vec<u32>,
    values: Vec<f32>,
}

impl Csr {
    /// Checked sparse rows over `n_columns` columns: starts increase from zero to the number of entries; column indices
    /// increase strictly within each row and are below `n_columns`.
    pub fn new(starts: Vec<usize>, columns: Vec<u32>, values: Vec<f32>, n_columns: usize) -> Result<Self> {
        let broken = |what: String| Err(Error::data("sparse rows", what));
        if starts.first() != Some(&0)
            || starts.last() != Some(&columns.len())
            || columns.len() != values.len()
        {
            return broken(format!(
                "row starts end at {:?}, but there are {} columns and {} values",
                starts.last(),
                columns.len(),
                values.len()
            ));
        }
        for (row, pair) in starts.windows(2).enumerate() {
            if pair[0] > pair[1] || pair[1] > columns.len() {
                return broken(format!("row {} ends before it starts ({} > {})", row + 1, pair[0], pair[1]));
            }
            let row_columns = &columns[pair[0]..pair[1]];
            if let Some(&last) = row_columns.last().filter(|&&c| c as usize >= n_columns) {
                return broken(format!("row {} has column {}, the table has {n_columns}", row + 1, last + 1));
            }
            if row_columns.windows(2).any(|c| c[0] >= c[1]) {
                return broken(format!("the columns of row {} do not rise", row + 1));
            }
        }
        Ok(Self { starts, columns, values })
    }

    /// Number of rows.
    pub fn n_rows(&self) -> usize {
        self.starts.len() - 1
    }

    /// Number of stored entries.
    pub fn n_entries(&self) -> usize {
        self.values.len()
    }

    /// Columns and values of row `i`.
    #[inline]
    pub fn row(&self, i: usize) -> (&[u32], &[f32]) {
        let range = self.starts[i]..self.starts[i + 1];
        (&self.columns[range.clone()], &self.values[range])
    }

    /// Row and column of the stored entry with index `entry`.
    pub(super) fn position_of_entry(&self, entry: usize) -> (usize, usize) {
        (self.starts.partition_point(|&start| start <= entry) - 1, self.columns[entry] as usize)
    }

    /// Start of each row, and the end of the last.
    pub fn starts(&self) -> &[usize] {
        &self.starts
    }

    /// Column index of each entry.
    pub fn columns(&self) -> &[u32] {
        &self.columns
    }

    /// All stored values.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    pub(super) fn slice(&self, rows: Range<usize>) -> Self {
        let starts = &self.starts[rows.start..=rows.end];
        let entries = starts[0]..starts[rows.len()];
        Self {
            starts: starts.iter().map(|start| start - entries.start).collect(),
            columns: self.columns[entries.clone()].to_vec(),
            values: self.values[entries].to_vec(),
        }
    }

    /// A copy whose column j is column `columns[j]`; each column may be chosen at most once.
    pub(super) fn with_columns(&self, columns: &[usize]) -> Self {
        let new: HashMap<u32, u32> = columns.iter().zip(0..).map(|(&old, new)| (old as u32, new)).collect();
        let mut made = Self { starts: vec![0], columns: Vec::new(), values: Vec::new() };
        let mut entries: Vec<(u32, f32)> = Vec::new();
        for i in 0..self.n_rows() {
            let (old, values) = self.row(i);
            entries.clear();
            entries.extend(old.iter().zip(values).filter_map(|(old, &x)| Some((*new.get(old)?, x))));
            entries.sort_unstable_by_key(|&(column, _)| column);
            made.columns.extend(entries.iter().map(|&(column, _)| column));
            made.values.extend(entries.iter().map(|&(_, x)| x));
            made.starts.push(made.columns.len());
        }
        made
    }
}
