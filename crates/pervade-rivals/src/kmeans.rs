//! k-means on the prepared rows.
//!
//! Paper: Arthur and Vassilvitskii, "k-means++: the advantages of careful seeding" (2007), with Lloyd's
//! iterations; the best of several starts, by inertia.
//! Departures: none; at most 40 iterations per start.
//! Expected on MNIST: 0.53 (as in DEC's paper).

use pervade::compute::Device;
use pervade::data::Dataset;
use pervade::mixture::{self, DiagonalMixture, kmeans};
use pervade::seed::{Key, Stream};
use pervade::train::Observer;
use pervade::{Clusterer, Clustering, Result};

use crate::rows::{RowMixture, dense, preparation, require_mixture};

/// k-means with its settings.
#[derive(Clone, Debug)]
pub struct KMeans {
    /// The number of clusters, K.
    pub n_clusters: usize,
    /// The number of starts, of which the best is kept.
    pub starts: usize,
}

impl Default for KMeans {
    fn default() -> Self {
        Self { n_clusters: 10, starts: 10 }
    }
}

impl<D: Device> Clusterer<D> for KMeans {
    fn name(&self) -> &'static str {
        "k-means"
    }

    fn cluster(
        &self,
        data: &Dataset,
        device: &D,
        seed: u64,
        _observer: &mut dyn Observer,
    ) -> Result<Box<dyn Clustering<D>>> {
        let preparation = preparation(data)?;
        let rows = dense(data, &preparation)?;
        let d = preparation.n_distance_columns();
        let best = best_start(device, &rows, d, self.n_clusters, self.starts, seed)?;
        Ok(Box::new(RowMixture { preparation, mixture: nearest_centre(best.centres, self.n_clusters) }))
    }
}

/// A mixture with equal weights and variances, whose most probable component is the nearest centre.
pub(crate) fn nearest_centre(centres: Vec<f64>, n_clusters: usize) -> DiagonalMixture {
    DiagonalMixture {
        log_weights: vec![0.0; n_clusters],
        variances: vec![1.0; centres.len()],
        n_components: n_clusters,
        n_latent: centres.len() / n_clusters,
        means: centres,
    }
}

/// k-means from several starts; returns the result with the lowest inertia.
///
/// # Shapes
/// - rows: `[N, D]`
pub(crate) fn best_start<D: Device>(
    device: &D,
    rows: &[f32],
    n_columns: usize,
    n_clusters: usize,
    starts: usize,
    seed: u64,
) -> Result<mixture::KMeansFit> {
    require_mixture(rows.len() / n_columns, n_columns, n_clusters)?;
    let key = Key::new(seed, Stream::Mixture, 0);
    let mut best = kmeans(device, rows, n_columns, n_clusters, key, 0)?;
    for start in 1..starts {
        let next = kmeans(device, rows, n_columns, n_clusters, key, start)?;
        if next.inertia < best.inertia {
            best = next;
        }
    }
    Ok(best)
}
