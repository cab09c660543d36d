//! VAE+GMM: a variational auto-encoder, then a diagonal Gaussian mixture on the means of q(z|x).
//!
//! Paper: the baseline of Jiang et al., "Variational deep embedding" (2017), table 2; the auto-encoder is that of
//! Kingma and Welling, "Auto-encoding variational Bayes" (2014). A VAE is VaDE with one component that stays at
//! N(0, I): the ELBO's terms, its gradients and the training loop are the library's.
//! Departures: none that the paper speaks of. Training begins at random weights, with VaDE's epochs and learning
//! rates; a Gaussian decoder has a variance of one half, which is the authors' sum of squared errors.
//! Expected on MNIST: the paper reports 0.73.

use pervade::compute::{Device, Gamma};
use pervade::config::{CheckedSettings, Clusters, Recipe, Settings};
use pervade::data::Dataset;
use pervade::train::{Observer, Pack, Run, Stage, maximise_elbo};
use pervade::{Clusterer, Clustering, Result};

use crate::latents::{LatentClusters, settings_of};

/// VAE+GMM with its settings.
#[derive(Clone, Debug)]
pub struct VaeGmm {
    /// K.
    pub n_clusters: usize,
    /// Networks and training; K and the seed are those given beside it.
    pub settings: Settings,
    /// Starts of the mixture; the most likely is kept.
    pub starts: usize,
}

impl Default for VaeGmm {
    fn default() -> Self {
        Self { n_clusters: 10, settings: Settings::recipe(Recipe::Paper, Clusters::Auto), starts: 10 }
    }
}

impl<D: Device> Clusterer<D> for VaeGmm {
    fn name(&self) -> &'static str {
        "vae+gmm"
    }

    fn cluster(
        &self,
        data: &Dataset,
        device: &D,
        seed: u64,
        observer: &mut dyn Observer,
    ) -> Result<Box<dyn Clustering<D>>> {
        let k = self.n_clusters;
        let settings = Settings {
            // With one component q(c|x) is one, whichever way it is computed; this way takes fewer steps.
            gamma: Gamma::Exact,
            mixture_learning_rate: 0.0,
            ..settings_of(&self.settings, k, seed)
        };
        // A fresh component has mean 0 and log variance 0, and at a learning rate of 0 it keeps them.
        let settings = CheckedSettings { n_components: 1, ..settings.check(data)? };
        let run = Run::new(device, data, &settings)?;
        let mut pack = Pack::new(&run, 0..1)?;
        pack.state.stage = Stage::Joint;
        pack.state.likelihoods = vec![run.likelihood];
        maximise_elbo(&run, &mut pack, observer, &mut |_| Ok(()), |_, _| Ok(()))?;
        Ok(Box::new(LatentClusters::by_mixture(&run, &pack, k, self.starts)?))
    }
}
