//! Input and output of an E-step on any device: components and moments.

/// The number of components is padded to a multiple of this, so that they fill whole vectors.
pub(crate) const LANES: usize = 8;

/// The components of a diagonal Gaussian mixture as an E-step reads them: transposed, padded to whole
/// vectors, and relative to a centre.
#[derive(Clone, Debug)]
pub struct Components {
    pub(crate) n_latent: usize,
    pub(crate) n_padded: usize,
    /// Subtracted from every latent, so that second moments keep their digits. `[J]`
    pub(crate) centre: Vec<f64>,
    /// The part of the log joint that does not depend on z; minus infinity for padding. `[C']`
    pub(crate) log_constants: Vec<f64>,
    /// `[J, C']`, relative to `centre`
    pub(crate) means: Vec<f64>,
    /// `[J, C']`
    pub(crate) inverse_variances: Vec<f64>,
}

/// Sums over rows of gamma, gamma z and gamma z^2, with z relative to the components' centre.
#[derive(Clone, Debug)]
pub struct Moments {
    /// `[C']`
    pub(crate) mass: Vec<f64>,
    /// `[J, C']`
    pub(crate) first: Vec<f64>,
    /// `[J, C']`
    pub(crate) second: Vec<f64>,
}

impl Components {
    /// Components whose log joint is log_constants_m - 1/2 sum_j (z_j - mu_mj)^2 / s2_mj.
    ///
    /// # Shapes
    /// - log_constants: `[C]`, means and inverse_variances: `[C, J]`, centre: `[J]`
    pub fn new(
        log_constants: &[f64],
        means: &[f64],
        inverse_variances: impl Fn(usize) -> f64,
        centre: &[f64],
    ) -> Self {
        let (n_components, n_latent) = (log_constants.len(), centre.len());
        let n_padded = n_components.next_multiple_of(LANES);
        let mut this = Self {
            n_latent,
            n_padded,
            centre: centre.to_vec(),
            log_constants: vec![f64::NEG_INFINITY; n_padded],
            means: vec![0.0; n_latent * n_padded],
            inverse_variances: vec![0.0; n_latent * n_padded],
        };
        this.log_constants[..n_components].copy_from_slice(log_constants);
        for m in 0..n_components {
            for j in 0..n_latent {
                this.means[j * n_padded + m] = means[m * n_latent + j] - centre[j];
                this.inverse_variances[j * n_padded + m] = inverse_variances(m * n_latent + j);
            }
        }
        this
    }

    pub(crate) fn zero_moments(&self) -> Moments {
        let table = vec![0.0; self.n_latent * self.n_padded];
        Moments { mass: vec![0.0; self.n_padded], first: table.clone(), second: table }
    }
}

impl Moments {
    /// The total responsibility of component `m`: its effective number of rows.
    pub fn mass(&self, m: usize) -> f64 {
        self.mass[m]
    }

    /// Mean relative to the centre, and variance, of component `m` in column `j`.
    pub fn mean_and_variance(&self, m: usize, j: usize) -> (f64, f64) {
        let index = j * self.mass.len() + m;
        let mean = self.first[index] / self.mass[m];
        (mean, self.second[index] / self.mass[m] - mean * mean)
    }
}
