//! The raw rows as a representation: a line of table 3 that is not in the paper.

use pervade::data::Dataset;
use pervade::train::Observer;
use pervade::{Clusterer, Clustering, Result};
use pervade_rivals::RivalDevice;

/// The prepared rows themselves as a representation.
pub(super) struct Pixels;

impl<D: RivalDevice> Clusterer<D> for Pixels {
    fn name(&self) -> &'static str {
        "pixels"
    }

    fn cluster(&self, _: &Dataset, _: &D, _: u64, _: &mut dyn Observer) -> Result<Box<dyn Clustering<D>>> {
        Ok(Box::new(Pixels))
    }
}

impl<D: RivalDevice> Clustering<D> for Pixels {
    fn n_clusters(&self) -> usize {
        1
    }

    fn assign(&self, _device: &D, data: &Dataset) -> Result<Vec<u32>> {
        Ok(vec![0; data.n_rows()])
    }

    fn embed(&self, _device: &D, data: &Dataset) -> Result<Option<Vec<f32>>> {
        pervade_rivals::prepared_rows(data).map(Some)
    }
}
