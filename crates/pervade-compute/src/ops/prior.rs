//! The Gaussian-mixture prior's part of the ELBO.

use std::fmt;
use std::str::FromStr;

use crate::{Matrix, MixtureSlots, Params, Result, Sums};

/// How q(c|x) is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gamma {
    /// The closed-form optimum for a factorised q.
    Exact,
    /// p(c|z) at the sampled z, as in the paper.
    Sampled,
}

impl FromStr for Gamma {
    type Err = UnknownGamma;

    fn from_str(text: &str) -> std::result::Result<Self, UnknownGamma> {
        match text {
            "exact" => Ok(Gamma::Exact),
            "sampled" => Ok(Gamma::Sampled),
            _ => Err(UnknownGamma),
        }
    }
}

/// The error of parsing a [`Gamma`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be one of: exact, sampled")]
pub struct UnknownGamma;

impl fmt::Display for Gamma {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Gamma::Exact => "exact",
            Gamma::Sampled => "sampled",
        })
    }
}

/// The mixture prior and the entropy of q(z|x), with their gradients.
pub trait Prior: Sums {
    /// Allocates the scratch memory of `prior`, which the neighbour term uses too, for B rows and their L B samples.
    fn prior_scratch(
        &self,
        restarts: usize,
        n_rows: usize,
        n_samples: usize,
        mixture: MixtureSlots,
    ) -> Result<Self::Buffer>;

    /// Adds the terms of the prior and of the entropy to the sums, which were made for B rows; writes the gradients of the
    /// loss for the mixture's parameters, the first B rows of each restart's `d_head`, and `dz`.
    fn prior(
        &self,
        gamma: Gamma,
        params: &mut Params<Self::Buffer>,
        mixture: MixtureSlots,
        head: &Matrix<Self::Buffer>,
        z: &Matrix<Self::Buffer>,
        scratch: &mut Self::Buffer,
        d_head: &mut Matrix<Self::Buffer>,
        dz: &mut Matrix<Self::Buffer>,
        sums: &mut Self::Sums,
    ) -> Result<()>;

    /// The log joint of each component for each row, [R, B, C]: the expectation under q(z|x) for
    /// `Gamma::Exact`, the density at the latent mean for `Gamma::Sampled`.
    fn log_joint(
        &self,
        gamma: Gamma,
        params: &Params<Self::Buffer>,
        mixture: MixtureSlots,
        head: &Matrix<Self::Buffer>,
        out: &mut Matrix<Self::Buffer>,
    ) -> Result<()>;
}
