//! A mixture of Gaussians with diagonal covariance: density, responsibilities, samples.

use crate::compute::Components;
use crate::compute::cpu::argmax;
use crate::compute::math::normal_pair;
use crate::rows::check_latents;
use crate::seed::Key;
use crate::{Error, Result};
use pervade_compute::parallel::collect_rows;

/// Gaussian mixture with diagonal covariances: p(z) = sum_m w_m N(z; mu_m, diag s2_m).
///
/// # Shapes
/// - log_weights: `[C]`, means and variances: `[C, J]`
#[derive(Clone, Debug, PartialEq)]
pub struct DiagonalMixture {
    /// Natural logarithms of the weights. `[C]`
    pub log_weights: Vec<f64>,
    /// `[C, J]`
    pub means: Vec<f64>,
    /// Variances, not their logarithms. `[C, J]`
    pub variances: Vec<f64>,
    /// C
    pub n_components: usize,
    /// J
    pub n_latent: usize,
}

impl DiagonalMixture {
    /// Creates a mixture from its parameters, which must be finite and have matching shapes and positive variances.
    ///
    /// # Shapes
    /// - log_weights: `[C]`, means and variances: `[C, J]`
    pub fn new(log_weights: Vec<f64>, means: Vec<f64>, variances: Vec<f64>, n_latent: usize) -> Result<Self> {
        let n_components = log_weights.len();
        let n_values = n_components * n_latent;
        if n_values == 0 || means.len() != n_values || variances.len() != n_values {
            let problem = format!(
                "{n_components} weights, {} means and {} variances do not fit {n_latent} latent columns",
                means.len(),
                variances.len()
            );
            return Err(Error::model("mixture", problem));
        }
        let finite = log_weights.iter().chain(&means).all(|value| value.is_finite());
        if !finite || !variances.iter().all(|&variance| variance.is_finite() && variance > 0.0) {
            return Err(Error::model(
                "mixture",
                "a weight or mean is not finite, or a variance not positive",
            ));
        }
        Ok(Self { log_weights, means, variances, n_components, n_latent })
    }

    /// Samples rows of component `m`: `[count, J]`.
    pub fn draw(&self, m: usize, count: usize, key: Key) -> Result<Vec<f32>> {
        if m >= self.n_components {
            let must = format!("must be below {}, the number of components", self.n_components);
            return Err(Error::setting("component", m, must));
        }
        let j = self.n_latent;
        let value = |i: usize| {
            let [a, b, ..] = key.draw((i / j) as u64, 0, (i % j) as u32);
            let (at, eps) = (m * j + i % j, f64::from(normal_pair(a, b)[0]));
            (self.means[at] + self.variances[at].sqrt() * eps) as f32
        };
        Ok((0..count * j).map(value).collect())
    }

    /// Log joint of every row and component: l_m = log w_m + log N(z; mu_m, s2_m).
    ///
    /// # Shapes
    /// - latents: `[N, J]`, result: `[N, C]`
    pub fn log_joint(&self, latents: &[f32]) -> Result<Vec<f64>> {
        let n_rows = check_latents(latents, self.n_latent)?;
        let components = self.components(&vec![0.0; self.n_latent]);
        Ok(collect_rows(n_rows, |rows| {
            let mut out = Vec::with_capacity(rows.len() * self.n_components);
            components.for_each_block(latents, rows, |block| {
                block.rows_mut(self.n_components).for_each(|row| out.extend_from_slice(row));
            });
            out
        }))
    }

    /// Log density of every row in nats, log p(z): the log-sum-exp of the log joint.
    ///
    /// # Shapes
    /// - latents: `[N, J]`, result: `[N]`
    pub fn log_density(&self, latents: &[f32]) -> Result<Vec<f64>> {
        let n_rows = check_latents(latents, self.n_latent)?;
        let components = self.components(&vec![0.0; self.n_latent]);
        Ok(collect_rows(n_rows, |rows| {
            let mut out = Vec::with_capacity(rows.len());
            components.for_each_block(latents, rows, |block| {
                let log_density = block.softmax();
                out.extend_from_slice(&log_density[..block.rows.len()]);
            });
            out
        }))
    }

    /// Responsibilities gamma_m = p(m | z): the softmax of the log joint; each row sums to one, however far out it
    /// lies.
    ///
    /// # Shapes
    /// - latents: `[N, J]`, result: `[N, C]`
    pub fn responsibilities(&self, latents: &[f32]) -> Result<Vec<f64>> {
        let n_rows = check_latents(latents, self.n_latent)?;
        let components = self.components(&vec![0.0; self.n_latent]);
        Ok(collect_rows(n_rows, |rows| {
            let mut out = Vec::with_capacity(rows.len() * self.n_components);
            components.for_each_block(latents, rows, |block| {
                block.softmax();
                block.rows_mut(self.n_components).for_each(|row| out.extend_from_slice(row));
            });
            out
        }))
    }

    /// The component with the highest log joint for every row; ties go to the first.
    ///
    /// # Shapes
    /// - latents: `[N, J]`, result: `[N]`
    pub fn assign(&self, latents: &[f32]) -> Result<Vec<u32>> {
        let n_rows = check_latents(latents, self.n_latent)?;
        let components = self.components(&vec![0.0; self.n_latent]);
        Ok(collect_rows(n_rows, |rows| {
            let mut out = Vec::with_capacity(rows.len());
            components.for_each_block(latents, rows, |block| {
                out.extend(block.rows_mut(self.n_components).map(|row| argmax(row) as u32));
            });
            out
        }))
    }

    /// The components in the layout for computing, relative to `centre` (`[J]`).
    pub(super) fn components(&self, centre: &[f64]) -> Components {
        let half_log_two_pi = 0.5 * std::f64::consts::TAU.ln();
        let log_constants: Vec<f64> = (0..self.n_components)
            .map(|m| {
                let variances = &self.variances[m * self.n_latent..(m + 1) * self.n_latent];
                self.log_weights[m] - variances.iter().map(|s2| half_log_two_pi + 0.5 * s2.ln()).sum::<f64>()
            })
            .collect();
        Components::new(&log_constants, &self.means, |index| self.variances[index].recip(), centre)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Stream;

    #[test]
    fn samples_have_the_moments_of_their_component() -> Result<()> {
        let mixture =
            DiagonalMixture::new(vec![-1.0; 2], vec![0.0, 1.0, 5.0, -3.0], vec![1.0, 1.0, 4.0, 0.25], 2)?;
        let rows = mixture.draw(1, 40_000, Key::new(7, Stream::Generate, 1))?;
        for (column, mean, sd) in [(0, 5.0, 2.0), (1, -3.0, 0.5)] {
            let values = || rows.iter().skip(column).step_by(2).map(|&x| f64::from(x));
            let found = values().sum::<f64>() / 40_000.0;
            let deviation = (values().map(|x| (x - found).powi(2)).sum::<f64>() / 40_000.0).sqrt();
            // Four standard errors.
            assert!((found - mean).abs() < 4.0 * sd / 200.0, "mean {found}");
            assert!((deviation - sd).abs() < 4.0 * sd / 282.0, "sd {deviation}");
        }
        assert!(mixture.draw(2, 1, Key::new(7, Stream::Generate, 1)).is_err());
        Ok(())
    }
}
