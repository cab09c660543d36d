//! Threads that leave no trace in the result: rows are cut into chunks whose size depends on the
//! number of rows alone, and what the chunks give is handed back in their order.

use rayon::prelude::*;
use std::ops::Range;

/// Small enough to share out evenly, large enough that starting a chunk costs nothing.
const MIN_CHUNK_ROWS: usize = 512;
/// Bounds what is held at once when every chunk returns a table.
const MAX_CHUNKS: usize = 256;

fn chunk_rows(n_rows: usize) -> usize {
    n_rows.div_ceil(MAX_CHUNKS).max(MIN_CHUNK_ROWS)
}

/// Chunks that so many rows are cut into.
pub fn n_chunks(n_rows: usize) -> usize {
    n_rows.div_ceil(chunk_rows(n_rows))
}

/// `work` on each chunk of `0..n_rows`; the results in the order of the chunks.
pub fn map_chunks<T: Send>(n_rows: usize, work: impl Fn(Range<usize>) -> T + Sync) -> Vec<T> {
    let chunk_rows = chunk_rows(n_rows);
    (0..n_chunks(n_rows))
        .into_par_iter()
        .map(|chunk| work(chunk * chunk_rows..((chunk + 1) * chunk_rows).min(n_rows)))
        .collect()
}

/// One value for each row, from `work` on each chunk of rows.
pub fn collect_rows<T: Send + Copy>(n_rows: usize, work: impl Fn(Range<usize>) -> Vec<T> + Sync) -> Vec<T> {
    map_chunks(n_rows, work).concat()
}
