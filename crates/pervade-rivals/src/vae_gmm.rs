//! VAE+GMM: a variational auto-encoder, then a diagonal Gaussian mixture on the means of q(z|x).
//!
//! Paper: the baseline of Jiang et al., "Variational deep embedding" (2017), table 2; the auto-encoder is that of
//! Kingma and Welling, "Auto-encoding variational Bayes" (2014), trained in `vae.rs`.
//! Departures: those of `vae.rs`; the paper gives no details.
//! Expected on MNIST: the paper reports 0.73.

use pervade::compute::Device;
use pervade::config::Settings;
use pervade::data::Dataset;
use pervade::train::Observer;
use pervade::{Clusterer, Clustering, Result};

use crate::encoded::{EncodedRows, unscaled};
use crate::latents::{LatentClusters, begin};
use crate::rows::check_rows;
use crate::vae::{one_component, train};

/// VAE+GMM with its settings.
#[derive(Clone, Debug)]
pub struct VaeGmm {
    /// The number of clusters, K.
    pub n_clusters: usize,
    /// Networks and training; K and the seed are overridden.
    pub settings: Settings,
    /// The number of starts of the mixture, of which the most likely is kept.
    pub starts: usize,
}

impl Default for VaeGmm {
    fn default() -> Self {
        Self { n_clusters: 10, settings: crate::vae::settings(), starts: 10 }
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
        check_rows(data, k, 1)?;
        let settings = one_component(&self.settings, seed, data)?;
        if let Some(rows) = EncodedRows::of(data, &settings)? {
            let method = Self { settings: unscaled(&self.settings), ..self.clone() };
            return rows.cluster(&method, device, seed, observer);
        }
        let run = begin(device, data, &settings)?;
        let pack = train(&run, observer)?;
        Ok(Box::new(LatentClusters::by_mixture(&run, &pack, k, self.starts)?))
    }
}
