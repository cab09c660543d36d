//! What a model computes with, for exports to other tools.

use super::Vade;
use super::importance::{self, N_SAMPLES};
use super::seal::Seal;
use crate::infer::scales;
use crate::mixture::FullMixture;
use crate::nn::Architecture;
use crate::{Error, Result};

/// Networks, scales and densities of a model. The prior is [`Vade::components`] and [`Vade::groups`].
#[doc(hidden)]
#[derive(Debug)]
pub struct Parts<'m> {
    /// The layers, as slices of the parameters.
    pub architecture: &'m Architecture,
    /// All parameters.
    pub values: &'m [f32],
    /// Trained log scales of p(x|z); empty if it has none.
    pub scales: Vec<f32>,
    /// The Gaussian mixture on the prepared rows that scores of small tables use beside the networks, as a file holds it.
    pub row_mixture: Option<FullMixture>,
    /// Noise of the latents that log densities are estimated from, the same for every row. `[S, J]`
    pub noise: Vec<f32>,
    /// Log density of each sample of the noise, for deviations of one. `[S]`
    pub noise_log_densities: Vec<f64>,
}

impl Vade {
    /// What the model computes with.
    #[doc(hidden)]
    pub fn parts(&self) -> Result<Parts<'_>> {
        let (noise, noise_log_densities) = (0..N_SAMPLES)
            .map(|sample| importance::noise(sample, self.n_latents()))
            .map(|noise| {
                let log_density = importance::noise_log_density(&noise);
                (noise, log_density)
            })
            .unzip::<_, _, Vec<_>, Vec<_>>();
        let mixture = self.density.as_ref().map(|density| density.mixture.in_single_precision());
        Ok(Parts {
            architecture: &self.architecture,
            values: &self.values,
            scales: scales(&self.architecture, &self.values),
            row_mixture: mixture.transpose()?,
            noise: noise.concat(),
            noise_log_densities,
        })
    }

    /// Whether scores use a Gaussian mixture on the rows beside the networks, as for small tables of numbers.
    pub fn has_row_density(&self) -> bool {
        self.density.is_some()
    }

    /// Checksum of the model's file; for a model that was just fitted, of the file that [`save`](Vade::save) would write.
    pub fn checksum(&self) -> Result<String> {
        if let Some(checksum) = &self.metadata.checksum {
            return Ok(checksum.clone());
        }
        match Seal::of(&self.to_bytes()?) {
            Seal::Intact(checksum) => Ok(checksum),
            Seal::Absent | Seal::Broken => Err(Error::model("model", "its checksum could not be computed")),
        }
    }
}
