//! Rows as every method sees them: prepared as VaDE would prepare them, dense.

use pervade::Result;
use pervade::config::{Clusters, Recipe, Settings};
use pervade::data::{Dataset, Preparation};

/// The preparation that VaDE's own settings would choose for this table: a rival starts from the same numbers.
pub(crate) fn preparation(data: &Dataset) -> Result<Preparation> {
    Ok(Settings::recipe(Recipe::Robust, Clusters::Auto).check(data)?.preparation)
}

/// All rows, prepared. `[N, D]`
pub(crate) fn dense(data: &Dataset, preparation: &Preparation) -> Vec<f32> {
    let d = data.n_columns();
    let mut rows = vec![0.0; data.n_rows() * d];
    for (i, row) in rows.chunks_exact_mut(d).enumerate() {
        preparation.prepared_row_into(data, i, row);
    }
    rows
}
