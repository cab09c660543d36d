//! Trained networks, and clusterings of their latents: the result of every deep rival.

use pervade::compute::{Device, Likelihood, Params};
use pervade::config::{CheckedSettings, Clusters, Settings};
use pervade::data::Dataset;
use pervade::infer::{Observed, decoded};
use pervade::mixture::{DiagonalMixture, EmOptions, fit};
use pervade::nn::Architecture;
use pervade::seed::{Key, Stream};
use pervade::train::{Pack, Run, latents, require_memory};
use pervade::{Clustering, Result};

/// A method's settings with this number of clusters, one component each, and this seed.
pub(crate) fn settings_of(settings: &Settings, n_clusters: usize, seed: u64) -> Settings {
    let (clusters, components) = (Clusters::Fixed(n_clusters), Some(n_clusters));
    settings.clone().with(|s| {
        s.seed = seed;
        s.clusters = clusters;
        s.components = components;
    })
}

/// A run for training, if there is enough memory.
pub(crate) fn begin<'a, D: Device>(
    device: &'a D,
    data: &'a Dataset<'a>,
    settings: &'a CheckedSettings,
) -> Result<Run<'a, D>> {
    require_memory(device, data, settings, 1, false)?;
    Run::new(device, data, settings)
}

/// Trained networks: an encoder from rows to latents, and a decoder back.
pub(crate) struct TrainedNetworks {
    pub(crate) settings: CheckedSettings,
    pub(crate) architecture: Architecture,
    likelihood: Likelihood,
    /// The parameters, in the library's layout.
    pub(crate) values: Vec<f32>,
}

impl TrainedNetworks {
    /// The networks of the pack's first restart.
    pub(crate) fn new<D: Device>(run: &Run<'_, D>, pack: &Pack<D>) -> Result<Self> {
        // A variance to be estimated is known after pretraining; only the mean is decoded.
        let likelihood = pack.state.likelihoods.first().copied().unwrap_or(run.likelihood);
        let values = pack.values_of(run.device, 0)?;
        Ok(Self {
            settings: run.settings.clone(),
            architecture: run.architecture.clone(),
            likelihood,
            values,
        })
    }

    /// A run of these networks on new rows.
    pub(crate) fn run<'a, D: Device>(&'a self, device: &'a D, data: &'a Dataset<'a>) -> Result<Run<'a, D>> {
        self.settings.preparation().check_columns(data)?;
        let run = Run::new(device, data, &self.settings)?;
        Ok(Run { architecture: self.architecture.clone(), ..run })
    }

    /// Latent means of all rows: [N, J].
    pub(crate) fn latents<D: Device>(&self, device: &D, data: &Dataset) -> Result<Vec<f32>> {
        let run = self.run(device, data)?;
        Ok(latents(&run, &Params::fixed(device, &self.values)?)?.swap_remove(0))
    }

    /// Decodes latents [N, J] to rows [N, D], in the units of the data.
    pub(crate) fn rows<D: Device>(&self, device: &D, latents: &[f32]) -> Result<Vec<f32>> {
        let params = Params::fixed(device, &self.values)?;
        let preparation = self.settings.preparation();
        let observed = Observed::new(self.likelihood, preparation, &self.architecture, &self.values);
        decoded(device, &self.architecture, &params, &observed, latents, None)
    }
}

/// Trained networks and a mixture on their latents.
pub(crate) struct LatentClusters {
    networks: TrainedNetworks,
    mixture: DiagonalMixture,
    /// Whether the components are a density of the latents, from which new ones can be drawn.
    is_density: bool,
}

impl LatentClusters {
    /// Fits a diagonal mixture of K components to the latents of trained networks.
    pub(crate) fn by_mixture<D: Device>(
        run: &Run<'_, D>,
        pack: &Pack<D>,
        n_clusters: usize,
        starts: usize,
    ) -> Result<Self> {
        let rows = latents(run, &pack.params)?.swap_remove(0);
        let options = EmOptions::default().with(|o| {
            o.components = n_clusters;
            o.restarts = starts;
        });
        let key = Key::new(run.settings.settings().seed, Stream::Mixture, 0);
        let mixture = fit(run.device, &rows, run.architecture.n_latents(), &options, key)?.mixture;
        Ok(Self { networks: TrainedNetworks::new(run, pack)?, mixture, is_density: true })
    }

    /// The networks of the pack's first restart with a mixture that only encodes the nearest centre.
    pub(crate) fn by_centres<D: Device>(
        run: &Run<'_, D>,
        pack: &Pack<D>,
        centres: DiagonalMixture,
    ) -> Result<Self> {
        Ok(Self { networks: TrainedNetworks::new(run, pack)?, mixture: centres, is_density: false })
    }
}

impl<D: Device> Clustering<D> for LatentClusters {
    fn n_clusters(&self) -> usize {
        self.mixture.n_components
    }

    fn assign(&self, device: &D, data: &Dataset) -> Result<Vec<u32>> {
        self.mixture.assign(&self.networks.latents(device, data)?)
    }

    fn embed(&self, device: &D, data: &Dataset) -> Result<Option<Vec<f32>>> {
        self.networks.latents(device, data).map(Some)
    }

    fn generate(&self, device: &D, cluster: usize, count: usize, seed: u64) -> Result<Option<Vec<f32>>> {
        if !self.is_density {
            return Ok(None);
        }
        let latents = self.mixture.draw(cluster, count, Key::new(seed, Stream::Generate, cluster))?;
        self.networks.rows(device, &latents).map(Some)
    }
}
