//! VAE: a plain variational auto-encoder, with one cluster for all rows.
//!
//! Paper: Kingma and Welling, "Auto-encoding variational Bayes" (2014). A VAE is VaDE with one component fixed at
//! N(0, I): the ELBO's terms, its gradients and the training loop are the library's. The representation of a row
//! is the mean of q(z|x); new rows are decoded from z ~ N(0, I).
//! Departures: VaDE's networks, learning rates and pretraining, so that only the prior differs; a hundred epochs; a
//! Gaussian decoder has a variance of one half, which is the authors' sum of squared errors; docs/paper.md has what an
//! estimated one changes. Without pretraining, a mixture on the latents of MNIST is worse: 0.51 after 150 epochs, where
//! pretraining gave 0.66 after 60 (one seed each).
//! Expected on MNIST: test errors of k-nearest neighbours with 50 latents of 28.4, 21.0 and 15.3 % (k = 3, 5, 10) in
//! Nalisnick and Smyth (2017), with one hidden layer. Tried: 5,000 rows and 2,000 test rows, ten latents, a hidden layer
//! of 200, 30 epochs at 1e-3: 11.9, 11.4 and 11.0 %, where the pixels give 9.5, 10.0 and 11.3 %.

use pervade::compute::{Device, Gamma};
use pervade::config::{CheckedSettings, Clusters, Recipe, Settings};
use pervade::data::Dataset;
use pervade::mixture::DiagonalMixture;
use pervade::seed::{Key, Stream};
use pervade::train::{Observer, Pack, Run, Stage, maximise_elbo, pretrain};
use pervade::{Clusterer, Clustering, Result};

use crate::encoded::{EncodedRows, unscaled};
use crate::latents::{TrainedNetworks, begin, settings_of};

/// A VAE with its settings.
#[derive(Clone, Debug)]
pub struct Vae {
    /// Networks and training; the seed is overridden.
    pub settings: Settings,
}

impl Default for Vae {
    fn default() -> Self {
        Self { settings: settings() }
    }
}

/// The settings of VaDE's paper, with pretraining epochs chosen by the number of rows.
pub(crate) fn settings() -> Settings {
    let paper = Settings::recipe(Recipe::Paper, Clusters::Auto);
    paper.with(|s| {
        s.pretrain_epochs = None;
        s.epochs = Some(100);
    })
}

/// The settings with one component, fixed at its initial mean 0 and log variance 0.
pub(crate) fn one_component(settings: &Settings, seed: u64, data: &Dataset) -> Result<CheckedSettings> {
    let settings = settings_of(settings, 1, seed).with(|s| {
        // With one component q(c|x) is one, however it is computed; this is the cheaper way.
        s.gamma = Gamma::Exact;
        s.mixture_learning_rate = 0.0;
    });
    settings.check(data)
}

/// Pretrains an auto-encoder, then maximises the ELBO.
pub(crate) fn train<D: Device>(run: &Run<'_, D>, observer: &mut dyn Observer) -> Result<Pack<D>> {
    let mut pack = Pack::new(run, 0..1)?;
    pretrain(run, &mut pack, observer, &mut |_| Ok(false))?;
    pack.state.stage = Stage::Joint;
    maximise_elbo(run, &mut pack, run.settings.epochs(), observer, &mut |_| Ok(false), |_, _| Ok(()))?;
    Ok(pack)
}

impl<D: Device> Clusterer<D> for Vae {
    fn name(&self) -> &'static str {
        "vae"
    }

    fn cluster(
        &self,
        data: &Dataset,
        device: &D,
        seed: u64,
        observer: &mut dyn Observer,
    ) -> Result<Box<dyn Clustering<D>>> {
        let settings = one_component(&self.settings, seed, data)?;
        if let Some(rows) = EncodedRows::of(data, &settings)? {
            let method = Self { settings: unscaled(&self.settings) };
            return rows.cluster(&method, device, seed, observer);
        }
        let run = begin(device, data, &settings)?;
        let pack = train(&run, observer)?;
        let j = run.architecture.n_latents();
        let prior = DiagonalMixture::new(vec![0.0], vec![0.0; j], vec![1.0; j], j)?;
        Ok(Box::new(TrainedVae { networks: TrainedNetworks::new(&run, &pack)?, prior }))
    }
}

/// The trained networks and the prior of their latents.
struct TrainedVae {
    networks: TrainedNetworks,
    prior: DiagonalMixture,
}

impl<D: Device> Clustering<D> for TrainedVae {
    fn n_clusters(&self) -> usize {
        1
    }

    fn assign(&self, _device: &D, data: &Dataset) -> Result<Vec<u32>> {
        self.networks.settings.preparation().check_columns(data)?;
        Ok(vec![0; data.n_rows()])
    }

    fn embed(&self, device: &D, data: &Dataset) -> Result<Option<Vec<f32>>> {
        self.networks.latents(device, data).map(Some)
    }

    fn generate(&self, device: &D, cluster: usize, count: usize, seed: u64) -> Result<Option<Vec<f32>>> {
        let latents = self.prior.draw(cluster, count, Key::new(seed, Stream::Generate, cluster))?;
        self.networks.rows(device, &latents).map(Some)
    }
}
