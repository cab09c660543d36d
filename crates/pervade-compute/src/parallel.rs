//! Parallelism that does not affect the result: rows are split into chunks whose size depends on the
//! number of rows alone, and the chunks' results are returned in order.

use rayon::prelude::*;
use std::ops::Range;

/// Small enough to balance the load, large enough that the overhead of a chunk is negligible.
const MIN_CHUNK_ROWS: usize = 512;
/// Bounds the memory in use when every chunk returns a table.
const MAX_CHUNKS: usize = 256;

fn chunk_rows(n_rows: usize) -> usize {
    n_rows.div_ceil(MAX_CHUNKS).max(MIN_CHUNK_ROWS)
}

/// The number of chunks for `n_rows` rows.
pub fn n_chunks(n_rows: usize) -> usize {
    n_rows.div_ceil(chunk_rows(n_rows))
}

/// Calls `work` on each chunk of `0..n_rows` in parallel and returns the results in order.
pub fn map_chunks<T: Send>(n_rows: usize, work: impl Fn(Range<usize>) -> T + Sync) -> Vec<T> {
    let chunk_rows = chunk_rows(n_rows);
    (0..n_chunks(n_rows))
        .into_par_iter()
        .map(|chunk| work(chunk * chunk_rows..((chunk + 1) * chunk_rows).min(n_rows)))
        .collect()
}

/// Calls `work` on each chunk of `0..n_rows` in parallel and concatenates the results.
pub fn collect_rows<T: Send + Copy>(n_rows: usize, work: impl Fn(Range<usize>) -> Vec<T> + Sync) -> Vec<T> {
    map_chunks(n_rows, work).concat()
}
