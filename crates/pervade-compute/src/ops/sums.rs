//! Sums over rows of the terms of the ELBO.

use crate::{Memory, Result};

/// Sums over rows of the terms of the ELBO (paper, the detailed ELBO), in nats.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Terms {
    /// E log p(x|z).
    pub reconstruction: f64,
    /// Sum over c of gamma_c E log p(z|c).
    pub latent: f64,
    /// Sum over c of gamma_c log(pi_c / gamma_c).
    pub cluster: f64,
    /// Entropy of q(z|x).
    pub entropy: f64,
}

impl Terms {
    /// The ELBO: the sum of the terms.
    pub fn elbo(&self) -> f64 {
        self.reconstruction + self.latent + self.cluster + self.entropy
    }

    /// The terms added up over groups of four values.
    pub fn total(values: &[f64]) -> Self {
        let total = |term: usize| values.iter().skip(term).step_by(4).sum();
        Self { reconstruction: total(0), latent: total(1), cluster: total(2), entropy: total(3) }
    }

    /// The four terms.
    pub fn values(&self) -> [f64; 4] {
        [self.reconstruction, self.latent, self.cluster, self.entropy]
    }

    /// Every term multiplied by `factor`.
    pub fn scaled(&self, factor: f64) -> Self {
        Self {
            reconstruction: self.reconstruction * factor,
            latent: self.latent * factor,
            cluster: self.cluster * factor,
            entropy: self.entropy * factor,
        }
    }
}

/// Running sums of the terms, per restart.
pub trait Sums: Memory {
    /// The sums.
    type Sums: Send;

    /// Sums at zero, for steps with L B samples.
    fn sums(&self, restarts: usize, n_samples: usize) -> Result<Self::Sums>;

    /// The sums so far, one per restart; they start again at zero.
    fn take_sums(&self, sums: &mut Self::Sums) -> Result<Vec<Terms>>;

    /// The sums as they stand in the middle of an epoch, for a checkpoint: the same number of groups for
    /// each restart, each group with the four terms in the order of [`Terms`].
    fn read_sums(&self, sums: &Self::Sums) -> Result<Vec<f64>>;

    /// Continues from what `read_sums` returned. Values of another kind of device are added up first.
    fn write_sums(&self, sums: &mut Self::Sums, values: &[f64]) -> Result<()>;
}
