//! A wrapper that returns a method's results only if the data did not change meanwhile.

use pervade::compute::Device;
use pervade::data::Dataset;
use pervade::train::Observer;
use pervade::{Clusterer, Clustering, Result};

/// A method, with a check that the file behind the rows did not change while it ran.
pub(crate) struct Checked<D: Device>(pub(crate) Box<dyn Clusterer<D>>);

impl<D: Device> Clusterer<D> for Checked<D> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn cluster(
        &self,
        data: &Dataset,
        device: &D,
        seed: u64,
        observer: &mut dyn Observer,
    ) -> Result<Box<dyn Clustering<D>>> {
        let checksum = data.checksum();
        let found = self.0.cluster(data, device, seed, observer);
        data.check_unchanged_since(&checksum)?;
        Ok(Box::new(CheckedClusters(found?)))
    }

    fn cluster_each(
        &self,
        data: &Dataset,
        device: &D,
        seeds: &[u64],
        observer: &mut dyn Observer,
        take: &mut dyn FnMut(u64, Box<dyn Clustering<D>>) -> Result<()>,
    ) -> Result<()> {
        let checksum = data.checksum();
        let done = self.0.cluster_each(data, device, seeds, observer, &mut |seed, found| {
            data.check_unchanged_since(&checksum)?;
            take(seed, Box::new(CheckedClusters(found)))
        });
        data.unless_changed(done)
    }
}

/// A clustering, with the same check of the rows that it is applied to.
struct CheckedClusters<D: Device>(Box<dyn Clustering<D>>);

impl<D: Device> Clustering<D> for CheckedClusters<D> {
    fn n_clusters(&self) -> usize {
        self.0.n_clusters()
    }

    fn assign(&self, device: &D, data: &Dataset) -> Result<Vec<u32>> {
        data.unless_changed(self.0.assign(device, data))
    }

    fn embed(&self, device: &D, data: &Dataset) -> Result<Option<Vec<f32>>> {
        data.unless_changed(self.0.embed(device, data))
    }

    fn generate(&self, device: &D, cluster: usize, count: usize, seed: u64) -> Result<Option<Vec<f32>>> {
        self.0.generate(device, cluster, count, seed)
    }
}
