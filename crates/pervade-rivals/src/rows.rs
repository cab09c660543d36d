//! Rows as every method sees them: dense, and prepared as for VaDE.

use pervade::compute::{ColumnFamily, Device};
use pervade::config::{Clusters, Recipe, Settings};
use pervade::data::{Dataset, Preparation, PrepareKind};
use pervade::memory::{Need, product, require};
use pervade::mixture::{DiagonalMixture, bytes_needed};
use pervade::seed::{Key, Stream};
use pervade::{Clustering, Error, Result};

/// The preparation that VaDE's default settings choose for this table, so that all methods see the same values.
pub(crate) fn preparation(data: &Dataset) -> Result<Preparation> {
    Ok(Settings::recipe(Recipe::Robust, Clusters::Auto).check(data)?.preparation().clone())
}

/// All rows, dense and prepared: of a table with types, standardised numbers and one-hot categories, with zeros where cells
/// are missing. `[N, D]`, with D the preparation's number of columns for distances
pub(crate) fn dense(data: &Dataset, preparation: &Preparation) -> Result<Vec<f32>> {
    let d = preparation.n_distance_columns();
    let need = Need::of("", product(&[data.n_rows(), d, size_of::<f32>()]));
    require("the prepared rows of all columns", &need, "give fewer rows or columns")?;
    let mut rows = vec![0.0; data.n_rows() * d];
    for (i, row) in rows.chunks_exact_mut(d).enumerate() {
        preparation.input_row_into(data, i, row);
    }
    Ok(rows)
}

/// Rows like those of [`dense`] in the units of the data; `None` if the table has columns that are not numbers.
pub(crate) fn rows_of_cells(preparation: &Preparation, mut rows: Vec<f32>) -> Option<Vec<f32>> {
    let is_numbers = preparation.columns().iter().all(|column| column.family == ColumnFamily::Gaussian);
    if !is_numbers || preparation.kind() == PrepareKind::Counts {
        return None;
    }
    rows.chunks_exact_mut(preparation.n_columns()).for_each(|row| preparation.undo(row));
    Some(rows)
}

/// An error unless there is memory for k-means or a diagonal mixture of this size.
pub(crate) fn require_mixture(n_rows: usize, n_columns: usize, n_clusters: usize) -> Result<()> {
    let need = Need::of("", bytes_needed(n_rows, n_columns, n_clusters));
    require("fitting centres to the rows", &need, "ask for fewer clusters, or give fewer columns")
}

/// An error unless there are at least `min_rows` rows and at least as many rows as clusters.
pub(crate) fn check_rows(data: &Dataset, n_clusters: usize, min_rows: usize) -> Result<()> {
    if n_clusters < 1 || n_clusters > data.n_rows() {
        let must = format!("must be between 1 and {}, the number of rows", data.n_rows());
        return Err(Error::setting("clusters", n_clusters, must));
    }
    if data.n_rows() < min_rows {
        let problem = format!("{} rows, at least {min_rows} are needed", data.n_rows());
        return Err(Error::data("data", problem));
    }
    Ok(())
}

/// A diagonal mixture on prepared rows: each row belongs to its most probable component.
pub(crate) struct RowMixture {
    pub(crate) preparation: Preparation,
    pub(crate) mixture: DiagonalMixture,
}

impl<D: Device> Clustering<D> for RowMixture {
    fn n_clusters(&self) -> usize {
        self.mixture.n_components
    }

    fn assign(&self, _device: &D, data: &Dataset) -> Result<Vec<u32>> {
        self.preparation.check_columns(data)?;
        self.mixture.assign(&dense(data, &self.preparation)?)
    }

    fn embed(&self, _device: &D, _data: &Dataset) -> Result<Option<Vec<f32>>> {
        Ok(None)
    }

    fn generate(&self, _device: &D, cluster: usize, count: usize, seed: u64) -> Result<Option<Vec<f32>>> {
        let rows = self.mixture.draw(cluster, count, Key::new(seed, Stream::Generate, cluster))?;
        Ok(rows_of_cells(&self.preparation, rows))
    }
}
