//! A Gaussian mixture on the prepared rows, by expectation maximisation.
//!
//! Paper: Dempster, Laird and Rubin, "Maximum likelihood from incomplete data via the EM algorithm" (1977):
//! gamma_nm ∝ w_m N(x_n; mu_m, S_m); w_m, mu_m and S_m are the moments under gamma. In the VaDE paper's
//! table 2 it has diagonal S_m and is the best of ten starts by likelihood; so is `gmm`, which calls
//! `pervade::mixture::fit`, as VaDE's mixture start does. `gmm-full` has full S_m.
//! Departures: full covariances have a single start, from the best of ten k-means starts (an iteration costs N K D²), and
//! a fraction of the mean variance is added to their diagonals in each M-step, as scikit-learn's `reg_covar` does in
//! absolute terms: constant columns would otherwise make S_m singular. Diagonal variances stay above 1e-3,
//! which scikit-learn's mixture added to them when the paper was written (`min_covar` of 0.17).
//! Expected on MNIST: 0.54 (the paper's table 2, best of ten) for diagonal covariances; repro/table2.md has ours, and
//! docs/paper.md the effect of the variance floor.

use pervade::compute::Device;
use pervade::data::{Dataset, Preparation};
use pervade::memory::{Need, product, require};
pub use pervade::mixture::Covariance;
use pervade::mixture::{EmOptions, FullMixture, fit, mean_variance};
use pervade::seed::{Key, Stream};
use pervade::train::Observer;
use pervade::{Clusterer, Clustering, Error, Result};

use crate::kmeans::best_start;
use crate::rows::{RowMixture, check_rows, dense, preparation, require_mixture};

/// The maximum number of columns with full covariances: time grows with N K D², memory with K D².
const MAX_FULL_COLUMNS: usize = 1024;

/// A Gaussian mixture with its settings.
#[derive(Clone, Debug)]
pub struct Gmm {
    /// The number of clusters, K.
    pub n_clusters: usize,
    /// The number of starts, of which the best is kept.
    pub starts: usize,
    /// The form of the components' covariances.
    pub covariance: Covariance,
    /// The maximum number of EM iterations per start.
    pub max_iterations: usize,
    /// EM stops when an iteration raises the mean log likelihood by less than this fraction of it.
    pub tolerance: f64,
    /// Diagonal covariances only: the minimum variance.
    pub least_variance: f64,
    /// Full covariances only: added to each variance, as a fraction of the columns' mean variance.
    pub ridge: f64,
}

impl Default for Gmm {
    fn default() -> Self {
        let EmOptions { max_iterations, tolerance, .. } = EmOptions::default();
        let covariance = Covariance::Diagonal;
        Self {
            n_clusters: 10,
            starts: 10,
            covariance,
            max_iterations,
            tolerance,
            least_variance: 1e-3,
            ridge: 1e-4,
        }
    }
}

impl<D: Device> Clusterer<D> for Gmm {
    fn name(&self) -> &'static str {
        match self.covariance {
            Covariance::Diagonal => "gmm",
            Covariance::Tied => "gmm-tied",
            Covariance::Full => "gmm-full",
        }
    }

    fn cluster(
        &self,
        data: &Dataset,
        device: &D,
        seed: u64,
        _observer: &mut dyn Observer,
    ) -> Result<Box<dyn Clustering<D>>> {
        let preparation = preparation(data)?;
        let d = preparation.n_distance_columns();
        check_rows(data, self.n_clusters, 2)?;
        if self.covariance == Covariance::Diagonal {
            require_mixture(data.n_rows(), d, self.n_clusters)?;
            let rows = dense(data, &preparation)?;
            let options = EmOptions::default().with(|o| {
                o.components = self.n_clusters;
                o.restarts = self.starts;
                o.max_iterations = self.max_iterations;
                o.tolerance = self.tolerance;
                o.min_variance = self.least_variance;
            });
            let key = Key::new(seed, Stream::Mixture, 0);
            let mixture = fit(device, &rows, d, &options, key)?.mixture;
            return Ok(Box::new(RowMixture { preparation, mixture }));
        }
        if d > MAX_FULL_COLUMNS {
            let problem =
                format!("{d} columns are too many for full covariances, at largest {MAX_FULL_COLUMNS}");
            return Err(Error::data("data", problem));
        }
        let rows = dense(data, &preparation)?;
        // Covariances and inverse factors, now and in the next iteration.
        let matrices = product(&[4, self.n_clusters, d, d, size_of::<f64>()]);
        let need = Need::of("covariances", matrices)
            .and("responsibilities", product(&[2, data.n_rows(), self.n_clusters, size_of::<f64>()]));
        require("a mixture with full covariances", &need, "ask for fewer clusters, or use `gmm`")?;
        let start = best_start(device, &rows, d, self.n_clusters, self.starts, seed)?;
        let ridge = self.ridge * mean_variance(&rows, d);
        let mut gamma = vec![0.0; start.assignment.len() * self.n_clusters];
        for (row, &cluster) in gamma.chunks_exact_mut(self.n_clusters).zip(&start.assignment) {
            row[cluster as usize] = 1.0;
        }
        let start = FullMixture::m_step(&rows, d, &gamma, self.n_clusters, self.covariance, ridge, None)?;
        let (mixture, _) =
            start.run_em(&rows, self.max_iterations, self.tolerance, self.covariance, ridge)?;
        Ok(Box::new(FullRowMixture { preparation, mixture }))
    }
}

/// A mixture with full covariances on prepared rows.
struct FullRowMixture {
    preparation: Preparation,
    mixture: FullMixture,
}

impl<D: Device> Clustering<D> for FullRowMixture {
    fn n_clusters(&self) -> usize {
        self.mixture.log_weights.len()
    }

    fn assign(&self, _device: &D, data: &Dataset) -> Result<Vec<u32>> {
        self.preparation.check_columns(data)?;
        let log_joint = self.mixture.log_joint(&dense(data, &self.preparation)?);
        Ok(log_joint.chunks_exact(self.mixture.log_weights.len()).map(argmax).collect())
    }

    fn embed(&self, _device: &D, _data: &Dataset) -> Result<Option<Vec<f32>>> {
        Ok(None)
    }
}

/// The index of the largest value; ties go to the first.
fn argmax(row: &[f64]) -> u32 {
    (1..row.len()).fold(0, |best, m| if row[m] > row[best] { m } else { best }) as u32
}
