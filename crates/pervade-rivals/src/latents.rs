//! Clusters among the latents of trained networks: what every deep rival leaves.

use pervade::compute::{Device, Params};
use pervade::config::{CheckedSettings, Clusters, Settings};
use pervade::data::Dataset;
use pervade::mixture::{DiagonalMixture, EmOptions, fit};
use pervade::seed::{Key, Stream};
use pervade::train::{Pack, Run, latents};
use pervade::{Clustering, Result};

/// A method's settings with its number of clusters, one component each, and the seed.
pub(crate) fn settings_of(settings: &Settings, n_clusters: usize, seed: u64) -> Settings {
    let (clusters, components) = (Clusters::Fixed(n_clusters), Some(n_clusters));
    Settings { seed, clusters, components, ..settings.clone() }
}

/// A trained encoder: what turns rows into latents.
pub(crate) struct Encoder {
    settings: CheckedSettings,
    /// The networks' numbers, as the library lays them out.
    values: Vec<f32>,
}

impl Encoder {
    /// That of the pack's first restart.
    pub(crate) fn new<D: Device>(run: &Run<'_, D>, pack: &Pack<D>) -> Result<Self> {
        Ok(Self { settings: run.settings.clone(), values: pack.values_of(run.device, 0)? })
    }

    /// Latent means of all rows: [N, J].
    pub(crate) fn latents<D: Device>(&self, device: &D, data: &Dataset) -> Result<Vec<f32>> {
        self.settings.preparation.check_columns(data)?;
        let run = Run::new(device, data, &self.settings)?;
        Ok(latents(&run, &Params::fixed(device, &self.values)?)?.swap_remove(0))
    }
}

/// Trained networks and a mixture on their latents.
pub(crate) struct LatentClusters {
    encoder: Encoder,
    mixture: DiagonalMixture,
}

impl LatentClusters {
    /// Fits a diagonal mixture of K components to the latents of the pack's first restart.
    pub(crate) fn by_mixture<D: Device>(
        run: &Run<'_, D>,
        pack: &Pack<D>,
        n_clusters: usize,
        starts: usize,
    ) -> Result<Self> {
        let rows = latents(run, &pack.params)?.swap_remove(0);
        let options = EmOptions { components: n_clusters, restarts: starts, ..EmOptions::default() };
        let key = Key::new(run.settings.settings.seed, Stream::Mixture, 0);
        let mixture = fit(run.device, &rows, run.architecture.n_latents(), &options, key)?.mixture;
        Self::new(run, pack, mixture)
    }

    /// The networks of the pack's first restart with a mixture that is already there.
    pub(crate) fn new<D: Device>(run: &Run<'_, D>, pack: &Pack<D>, mixture: DiagonalMixture) -> Result<Self> {
        Ok(Self { encoder: Encoder::new(run, pack)?, mixture })
    }
}

impl<D: Device> Clustering<D> for LatentClusters {
    fn n_clusters(&self) -> usize {
        self.mixture.n_components
    }

    fn assign(&self, device: &D, data: &Dataset) -> Result<Vec<u32>> {
        self.mixture.assign(&self.encoder.latents(device, data)?)
    }

    fn embed(&self, device: &D, data: &Dataset) -> Result<Option<Vec<f32>>> {
        self.encoder.latents(device, data).map(Some)
    }
}
