//! From counts to weights, as in the code of DEC and VaDE: scikit-learn's
//! `TfidfTransformer(norm='l2', sublinear_tf=True)`, times `sqrt(D)`.
//!
//! ```text
//! tf_ij = 1 + ln n_ij        idf_j = ln((1 + N) / (1 + N_j)) + 1
//! x_ij  = sqrt(D) tf_ij idf_j / sqrt(sum_j (tf_ij idf_j)^2)
//! ```
//! with n_ij the count of term j in document i, N documents, and N_j documents that contain term j.
//!
//! DEC's code then shuffles the rows and VaDE's scales them to length 200; the former is not part of reading, the
//! latter is left to [`PrepareKind`](crate::data::PrepareKind).

use super::entries::Kind;
use crate::data::sparse::SparseParts;

/// Turns the values of the rows, counts or weights according to `kind`, into weights such that rows have length
/// `sqrt(D)`; rows without terms stay empty.
pub(super) fn weigh(parts: &mut SparseParts, n_columns: usize, kind: Kind) {
    let idf = match kind {
        Kind::Tokens => inverse_document_frequencies(parts, n_columns),
        // Vectors are weighted already.
        Kind::Vectors => Vec::new(),
    };
    let row_length = (n_columns as f64).sqrt();
    let mut row: Vec<f64> = Vec::new();
    for bounds in parts.starts.windows(2) {
        let values = &mut parts.values[bounds[0]..bounds[1]];
        let columns = &parts.indices[bounds[0]..bounds[1]];
        row.clear();
        row.extend(values.iter().zip(columns).map(|(&value, &column)| match kind {
            Kind::Tokens => (1.0 + f64::from(value).ln()) * idf[column as usize],
            Kind::Vectors => f64::from(value),
        }));
        let norm = row.iter().map(|x| x * x).sum::<f64>().sqrt();
        values.iter_mut().zip(&row).for_each(|(value, x)| *value = (x / norm * row_length) as f32);
    }
}

fn inverse_document_frequencies(parts: &SparseParts, n_columns: usize) -> Vec<f64> {
    let n_rows = (parts.starts.len() - 1) as f64;
    let mut n_with = vec![0u32; n_columns];
    parts.indices.iter().for_each(|&column| n_with[column as usize] += 1);
    n_with.iter().map(|&n| ((1.0 + n_rows) / (1.0 + f64::from(n))).ln() + 1.0).collect()
}
