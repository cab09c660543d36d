//! The interface of methods in a comparison: VaDE in this crate, its rivals in others.

use crate::Result;
use crate::compute::Device;
use crate::config::Settings;
use crate::data::Dataset;
use crate::model::{Cells, Vade};
use crate::train::Observer;

/// A clustering method with its settings. It gets rows and a seed, but never labels.
pub trait Clusterer<D: Device> {
    /// The name of the method in tables.
    fn name(&self) -> &'static str;

    /// Clusters the rows.
    fn cluster(
        &self,
        data: &Dataset,
        device: &D,
        seed: u64,
        observer: &mut dyn Observer,
    ) -> Result<Box<dyn Clustering<D>>>;

    /// Clusters the rows once per seed and passes each result to `take`. Work that does not depend on the seed is
    /// shared; each result equals that of [`Clusterer::cluster`].
    fn cluster_each(
        &self,
        data: &Dataset,
        device: &D,
        seeds: &[u64],
        observer: &mut dyn Observer,
        take: &mut dyn FnMut(u64, Box<dyn Clustering<D>>) -> Result<()>,
    ) -> Result<()> {
        seeds.iter().try_for_each(|&seed| take(seed, self.cluster(data, device, seed, observer)?))
    }
}

/// A fitted clustering, which assigns clusters to the same or new rows.
pub trait Clustering<D: Device> {
    /// Number of clusters, K.
    fn n_clusters(&self) -> usize;

    /// The cluster of each row; deterministic.
    fn assign(&self, device: &D, data: &Dataset) -> Result<Vec<u32>>;

    /// The representation of each row, `[N, J]`, if the method has one.
    fn embed(&self, device: &D, data: &Dataset) -> Result<Option<Vec<f32>>>;

    /// New rows of a cluster in the units of the data, `[count, D]`, if the method can generate them.
    fn generate(&self, _device: &D, _cluster: usize, _count: usize, _seed: u64) -> Result<Option<Vec<f32>>> {
        Ok(None)
    }
}

impl<D: Device> Clusterer<D> for Settings {
    fn name(&self) -> &'static str {
        "VaDE"
    }

    fn cluster(
        &self,
        data: &Dataset,
        device: &D,
        seed: u64,
        observer: &mut dyn Observer,
    ) -> Result<Box<dyn Clustering<D>>> {
        let settings = Settings { seed, ..self.clone() }.check(data)?;
        Ok(Box::new(crate::fit(data, &settings, device, observer, None)?.model))
    }
}

impl<D: Device> Clustering<D> for Vade {
    fn n_clusters(&self) -> usize {
        Vade::n_clusters(self)
    }

    fn assign(&self, device: &D, data: &Dataset) -> Result<Vec<u32>> {
        Ok(Vade::assign(self, device, data)?.clusters)
    }

    fn embed(&self, device: &D, data: &Dataset) -> Result<Option<Vec<f32>>> {
        Vade::embed(self, device, data).map(Some)
    }

    fn generate(&self, device: &D, cluster: usize, count: usize, seed: u64) -> Result<Option<Vec<f32>>> {
        Ok(Some(Vade::generate(self, device, Some(cluster), count, seed, Cells::Mean)?.rows))
    }
}
