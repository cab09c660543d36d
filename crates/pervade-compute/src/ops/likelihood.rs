//! The families of p(x|z): all that is known of one, but its kernels, is in this file.

use std::f64::consts::TAU;
use std::fmt;

use crate::math::double::exp;
use crate::math::softplus_and_logistic;
use crate::ops::density;
use crate::ops::sample::CellRandom;
use crate::random::Key;
use crate::{DECODER_LOG_VARIANCE_LIMIT, Matrix, Result, Sums};

/// log p(x|z) from the decoder's output.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Likelihood {
    /// Data in [0, 1]; the output o is a logit: sum of x o - softplus(o).
    Bernoulli,
    /// The output is D means followed by D log variances.
    Gaussian,
    /// The output is D means; one variance for all.
    GaussianFixed {
        /// The noise variance.
        variance: f32,
    },
    /// Weights of terms, such as tf-idf, none of them negative; the output is D logits: sum of x_j log softmax(o)_j.
    Multinomial,
    /// A table whose columns have types of their own. What it is needs the columns: see [`ColumnTable`](crate::ColumnTable).
    Typed {
        /// Columns of the decoder's output.
        n_outputs: u32,
    },
    /// A table of counts with a dispersion per column, as [`ColumnTable::Counts`](crate::ColumnTable::Counts).
    Counts,
}

impl fmt::Display for Likelihood {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Likelihood::Bernoulli => f.write_str("bernoulli"),
            Likelihood::Gaussian => f.write_str("gaussian with a variance for every value"),
            Likelihood::GaussianFixed { variance } => write!(f, "gaussian with variance {variance}"),
            Likelihood::Multinomial => f.write_str("multinomial"),
            Likelihood::Typed { .. } => f.write_str("by the columns' types"),
            Likelihood::Counts => f.write_str("counts"),
        }
    }
}

impl Likelihood {
    /// One of each family without trained scales, for checks that go through all of them.
    pub const EXAMPLES: [Likelihood; 4] = [
        Likelihood::Bernoulli,
        Likelihood::Gaussian,
        Likelihood::GaussianFixed { variance: 0.7 },
        Likelihood::Multinomial,
    ];

    /// Whether it has trained scales: its value is that of [`typed_likelihood`](crate::TypedLikelihood::typed_likelihood), and of
    /// a [`ColumnTable`](crate::ColumnTable) on the host.
    pub fn has_scales(self) -> bool {
        matches!(self, Likelihood::Typed { .. } | Likelihood::Counts)
    }

    /// Columns of the decoder's output for D columns of data.
    pub fn n_outputs(self, n_columns: usize) -> usize {
        match self {
            Likelihood::Gaussian => 2 * n_columns,
            Likelihood::Typed { n_outputs } => n_outputs as usize,
            Likelihood::Bernoulli
            | Likelihood::GaussianFixed { .. }
            | Likelihood::Multinomial
            | Likelihood::Counts => n_columns,
        }
    }

    /// The values that x may have, lowest and highest.
    pub fn support(self) -> [f32; 2] {
        match self {
            Likelihood::Bernoulli => [0.0, 1.0],
            Likelihood::Multinomial | Likelihood::Counts => [0.0, f32::INFINITY],
            Likelihood::Gaussian | Likelihood::GaussianFixed { .. } | Likelihood::Typed { .. } => {
                [f32::NEG_INFINITY, f32::INFINITY]
            }
        }
    }

    /// Its number in the kernels, and its parameter there.
    #[cfg(feature = "cuda")]
    pub(crate) fn kernel_code(self) -> (u32, f32) {
        match self {
            Likelihood::Bernoulli => (0, 1.0),
            Likelihood::Gaussian => (1, 1.0),
            Likelihood::GaussianFixed { variance } => (2, variance),
            Likelihood::Multinomial => (3, 1.0),
            Likelihood::Typed { .. } | Likelihood::Counts => panic!("{NEEDS_COLUMNS}"),
        }
    }

    /// Whether its parameters are ones that it may have; what is read from a file may be anything.
    pub fn is_valid(self) -> bool {
        match self {
            Likelihood::Typed { n_outputs } => n_outputs > 0,
            Likelihood::Bernoulli | Likelihood::Gaussian | Likelihood::Multinomial | Likelihood::Counts => {
                true
            }
            Likelihood::GaussianFixed { variance } => variance.is_normal() && variance > 0.0,
        }
    }

    /// Whether `other` is of the same family, whatever its parameters.
    pub fn is_same_family(self, other: Self) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }

    /// The same family with the parameters that suit an auto-encoder whose rows have this mean log likelihood.
    ///
    /// For one variance v of D columns the mean is -D/2 ln(2 pi v) - S / (2 v), with S the mean squared error of a row; the
    /// variance that suits the residual is S / D.
    pub fn refitted(self, mean_log_likelihood: f64, n_columns: usize) -> Self {
        match self {
            Likelihood::Bernoulli
            | Likelihood::Gaussian
            | Likelihood::Multinomial
            | Likelihood::Typed { .. }
            | Likelihood::Counts => self,
            Likelihood::GaussianFixed { variance } => {
                let (d, v) = (n_columns as f64, f64::from(variance));
                let squares = 2.0 * v * (-mean_log_likelihood - 0.5 * d * (TAU * v).ln());
                Likelihood::GaussianFixed { variance: (squares / d).max(LEAST_NOISE) as f32 }
            }
        }
    }

    /// The mean of p(x|z) of one row, appended to `mean`; for multinomial rows, of one whose sum is one.
    ///
    /// # Panics
    /// If the likelihood has trained scales.
    pub fn append_mean(self, output: &[f32], mean: &mut Vec<f32>) {
        match self {
            Likelihood::Bernoulli => mean.extend(output.iter().map(|&o| softplus_and_logistic(o).1)),
            Likelihood::Gaussian => mean.extend_from_slice(&output[..output.len() / 2]),
            Likelihood::GaussianFixed { .. } => mean.extend_from_slice(output),
            Likelihood::Multinomial => {
                let log_sum = density::log_sum_exp(output);
                mean.extend(output.iter().map(|&o| exp(f64::from(o) - log_sum) as f32));
            }
            Likelihood::Typed { .. } | Likelihood::Counts => panic!("{NEEDS_COLUMNS}"),
        }
    }

    /// A sample of p(x|z) of one row, appended to `cells`; it depends only on the key and the index of the row. Weights of
    /// terms are no counts: a multinomial row is its mean.
    ///
    /// # Panics
    /// If the likelihood has trained scales.
    pub fn append_draw(self, output: &[f32], (key, row): (Key, u64), cells: &mut Vec<f32>) {
        let first = cells.len();
        self.append_mean(output, cells);
        let n_columns = cells.len() - first;
        for (j, x) in cells[first..].iter_mut().enumerate() {
            let mut random = CellRandom::new(key, row, j);
            let variance = match self {
                Likelihood::Bernoulli => {
                    *x = random.chance(f64::from(*x));
                    continue;
                }
                Likelihood::GaussianFixed { variance } => f64::from(variance),
                Likelihood::Gaussian => exp(bounded(output[n_columns + j])),
                Likelihood::Multinomial | Likelihood::Typed { .. } | Likelihood::Counts => return,
            };
            *x = (f64::from(*x) + variance.sqrt() * random.normal()) as f32;
        }
    }

    /// log p(x|z) of one row, in double precision.
    ///
    /// # Panics
    /// If the likelihood has trained scales.
    pub fn log_density(self, x: &[f32], output: &[f32]) -> f64 {
        let pairs = x.iter().zip(output).map(|(&x, &o)| (f64::from(x), f64::from(o)));
        match self {
            Likelihood::Bernoulli => {
                pairs.map(|(x, o)| x * o - (o.max(0.0) + (-o.abs()).exp().ln_1p())).sum()
            }
            Likelihood::GaussianFixed { variance } => {
                let v = f64::from(variance);
                pairs.map(|(x, o)| -0.5 * ((TAU * v).ln() + (x - o).powi(2) / v)).sum()
            }
            Likelihood::Gaussian => {
                let logs = output[x.len()..].iter().map(|&l| bounded(l));
                pairs.zip(logs).map(|((x, o), l)| -0.5 * (TAU.ln() + l + (x - o).powi(2) * (-l).exp())).sum()
            }
            Likelihood::Multinomial => {
                let log_sum = density::log_sum_exp(output);
                pairs.map(|(x, o)| x * (o - log_sum)).sum()
            }
            Likelihood::Typed { .. } | Likelihood::Counts => panic!("{NEEDS_COLUMNS}"),
        }
    }
}

/// The log variance that a Gaussian decoder outputs, within its bounds.
fn bounded(log_variance: f32) -> f64 {
    f64::from(log_variance.clamp(-DECODER_LOG_VARIANCE_LIMIT, DECODER_LOG_VARIANCE_LIMIT))
}

/// A likelihood with trained scales where one without is needed: a mistake of the caller.
pub(crate) const NEEDS_COLUMNS: &str = "a likelihood with trained scales needs its columns";

/// An auto-encoder that reproduces the data exactly still leaves this much noise.
const LEAST_NOISE: f64 = 1e-4;

/// The likelihood of the rows and its gradient.
pub trait Likelihoods: Sums {
    /// Adds log p(x|z) of the first B rows of each restart's `x` to the sums, which were made for B rows, and replaces the decoder's output by the gradient of the loss,
    /// the mean of -log p(x|z) over B and L. One family without trained scales per restart; all of them multinomial, or none.
    fn likelihood(
        &self,
        families: &[Likelihood],
        x: &Matrix<Self::Buffer>,
        output: &mut Matrix<Self::Buffer>,
        sums: &mut Self::Sums,
    ) -> Result<()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First and second moments of samples of every family, within five standard errors.
    #[test]
    fn draws_have_the_moments_of_the_family() {
        let n = 20_000u64;
        for (i, family) in Likelihood::EXAMPLES.into_iter().enumerate() {
            // Two columns: means 0.6 and -0.2, or logits; log variances if the family has them.
            let output = [0.6f32, -0.2, 0.4, -1.0];
            let output = &output[..family.n_outputs(2)];
            let (mut x, mut mean) = (Vec::new(), Vec::new());
            (0..n).for_each(|row| family.append_draw(output, (Key::new(8, 3u32, i), row), &mut x));
            family.append_mean(output, &mut mean);
            for j in 0..2 {
                let m = f64::from(mean[j]);
                let variance = match family {
                    Likelihood::Bernoulli => m * (1.0 - m),
                    Likelihood::Gaussian => f64::from(output[2 + j]).exp(),
                    Likelihood::GaussianFixed { variance } => f64::from(variance),
                    _ => 0.0,
                };
                let errors = x.iter().skip(j).step_by(2).map(|&x| f64::from(x) - m);
                let (first, second) =
                    errors.fold((0.0, 0.0), |(a, b), e| (a + e / n as f64, b + e * e / n as f64));
                let root = (n as f64).sqrt();
                assert!(first.abs() <= 5.0 * variance.sqrt() / root, "{family:?}, column {j}: {first}");
                assert!(
                    (second - variance).abs() <= 7.1 * variance / root,
                    "{family:?}, column {j}: {second}"
                );
            }
        }
    }
}
