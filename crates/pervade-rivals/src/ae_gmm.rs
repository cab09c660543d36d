//! AE+GMM: an auto-encoder, then a diagonal Gaussian mixture on its latents.
//!
//! Paper: the baseline of Jiang et al., "Variational deep embedding" (2017), table 2. The networks and their
//! training are those of VaDE's pretraining (mean log likelihood of the rows, Adam), the mixture has K
//! components and is the most likely of ten starts.
//! Departures: the paper does not say how its auto-encoder was trained; here it is the library's end-to-end
//! pretraining with its decaying learning rate.
//! Expected on MNIST: 0.79 +- 0.07 over seeds; the paper reports its best of ten, 0.82.

use pervade::compute::Device;
use pervade::config::{Clusters, Recipe, Settings};
use pervade::data::Dataset;
use pervade::train::{Observer, Pack, pretrain};
use pervade::{Clusterer, Clustering, Result};

use crate::encoded::{EncodedRows, unscaled};
use crate::latents::{LatentClusters, begin, settings_of};

/// AE+GMM with its settings.
#[derive(Clone, Debug)]
pub struct AeGmm {
    /// The number of clusters, K.
    pub n_clusters: usize,
    /// Networks and pretraining; K and the seed are overridden.
    pub settings: Settings,
    /// The number of starts of the mixture, of which the most likely is kept.
    pub starts: usize,
}

impl Default for AeGmm {
    fn default() -> Self {
        Self {
            n_clusters: 10,
            settings: Settings::recipe(Recipe::Robust, Clusters::Auto).with(|s| s.latents = Some(10)),
            starts: 10,
        }
    }
}

impl<D: Device> Clusterer<D> for AeGmm {
    fn name(&self) -> &'static str {
        "ae+gmm"
    }

    fn cluster(
        &self,
        data: &Dataset,
        device: &D,
        seed: u64,
        observer: &mut dyn Observer,
    ) -> Result<Box<dyn Clustering<D>>> {
        let k = self.n_clusters;
        let settings = settings_of(&self.settings, k, seed).check(data)?;
        if let Some(rows) = EncodedRows::of(data, &settings)? {
            let method = Self { settings: unscaled(&self.settings), ..self.clone() };
            return rows.cluster(&method, device, seed, observer);
        }
        let run = begin(device, data, &settings)?;
        let mut pack = Pack::new(&run, 0..1)?;
        pretrain(&run, &mut pack, observer, &mut |_| Ok(false))?;
        Ok(Box::new(LatentClusters::by_mixture(&run, &pack, k, self.starts)?))
    }
}
