//! Tables with types, for methods with networks: encoded rows as a table of numbers.
//!
//! Their networks have a likelihood of whole rows, such as a Gaussian one, not one of each column. They see what the other
//! methods see: standardised numbers, one-hot categories, and zeros where cells are missing.

use pervade::compute::Device;
use pervade::config::{CheckedSettings, Settings};
use pervade::data::{Dataset, Preparation, PrepareKind};
use pervade::train::Observer;
use pervade::{Clusterer, Clustering, Result};

use crate::rows::{dense, rows_of_cells};

/// Encoded rows.
pub(crate) struct EncodedRows {
    preparation: Preparation,
    rows: Dataset<'static>,
}

impl EncodedRows {
    /// The rows as numbers, if these settings give each column a likelihood.
    pub(crate) fn of(data: &Dataset, settings: &CheckedSettings) -> Result<Option<Self>> {
        let preparation = settings.preparation();
        if !matches!(preparation.kind(), PrepareKind::Typed | PrepareKind::Counts) {
            return Ok(None);
        }
        let rows = encoded(data, preparation)?;
        Ok(Some(Self { preparation: preparation.clone(), rows }))
    }

    /// The clusters that a method with [`unscaled`] settings finds.
    pub(crate) fn cluster<D: Device>(
        self,
        method: &dyn Clusterer<D>,
        device: &D,
        seed: u64,
        observer: &mut dyn Observer,
    ) -> Result<Box<dyn Clustering<D>>> {
        let found = method.cluster(&self.rows, device, seed, observer)?;
        Ok(Box::new(EncodedClusters { preparation: self.preparation, found }))
    }
}

/// Settings that leave encoded rows as they are.
pub(crate) fn unscaled(settings: &Settings) -> Settings {
    settings.clone().with(|s| s.prepare = Some(PrepareKind::None))
}

fn encoded(data: &Dataset, preparation: &Preparation) -> Result<Dataset<'static>> {
    Dataset::from_rows(data.n_rows(), preparation.n_distance_columns(), dense(data, preparation)?)
}

/// A clustering of encoded rows.
struct EncodedClusters<D: Device> {
    preparation: Preparation,
    found: Box<dyn Clustering<D>>,
}

impl<D: Device> Clustering<D> for EncodedClusters<D> {
    fn n_clusters(&self) -> usize {
        self.found.n_clusters()
    }

    fn assign(&self, device: &D, data: &Dataset) -> Result<Vec<u32>> {
        self.preparation.check_columns(data)?;
        self.found.assign(device, &encoded(data, &self.preparation)?)
    }

    fn embed(&self, device: &D, data: &Dataset) -> Result<Option<Vec<f32>>> {
        self.preparation.check_columns(data)?;
        self.found.embed(device, &encoded(data, &self.preparation)?)
    }

    fn generate(&self, device: &D, cluster: usize, count: usize, seed: u64) -> Result<Option<Vec<f32>>> {
        let rows = self.found.generate(device, cluster, count, seed)?;
        Ok(rows.and_then(|rows| rows_of_cells(&self.preparation, rows)))
    }
}
