//! Sums over rows of the terms of the ELBO.

use crate::{Memory, Result};

/// Sums over rows of the terms of the ELBO (the paper's detailed ELBO), in nats.
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
    /// The weighted log probability that a row and its neighbour belong to the same cluster; not a part of the ELBO.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub neighbour: f64,
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

impl Terms {
    /// How many terms there are.
    pub const N: usize = 5;

    /// The ELBO: the sum of its four terms.
    pub fn elbo(&self) -> f64 {
        self.reconstruction + self.latent + self.cluster + self.entropy
    }

    /// What training maximises: the ELBO and the neighbour term.
    pub fn objective(&self) -> f64 {
        self.elbo() + self.neighbour
    }

    /// Adds up groups of values in the order of [`Terms::values`].
    pub fn total(values: &[f64]) -> Self {
        let total = |term: usize| values.iter().skip(term).step_by(Self::N).sum();
        Self {
            reconstruction: total(0),
            latent: total(1),
            cluster: total(2),
            entropy: total(3),
            neighbour: total(4),
        }
    }

    /// The terms in the order of the fields.
    pub fn values(&self) -> [f64; Self::N] {
        [self.reconstruction, self.latent, self.cluster, self.entropy, self.neighbour]
    }

    /// Every term multiplied by `factor`.
    pub fn scaled(&self, factor: f64) -> Self {
        Self {
            reconstruction: self.reconstruction * factor,
            latent: self.latent * factor,
            cluster: self.cluster * factor,
            entropy: self.entropy * factor,
            neighbour: self.neighbour * factor,
        }
    }
}

/// Accumulates the terms of the ELBO, per restart.
pub trait Sums: Memory {
    /// The accumulators.
    type Sums: Send;

    /// Accumulators, initially zero, for steps with B rows and L samples of each.
    fn sums(&self, restarts: usize, n_rows: usize, samples: usize) -> Result<Self::Sums>;

    /// Returns the sums so far, one per restart, and resets them to zero.
    fn take_sums(&self, sums: &mut Self::Sums) -> Result<Vec<Terms>>;

    /// The accumulators in the middle of an epoch, for a checkpoint: an equal number of groups per
    /// restart, each with the terms in the order of [`Terms`].
    fn read_sums(&self, sums: &Self::Sums) -> Result<Vec<f64>>;

    /// Restores the values that `read_sums` returned; those of another kind of device are added up first.
    fn write_sums(&self, sums: &mut Self::Sums, values: &[f64]) -> Result<()>;
}
