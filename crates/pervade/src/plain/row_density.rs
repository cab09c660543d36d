//! The density of the rows of a small table of numbers, without networks: rows as a whole, and each column by itself.

use crate::Result;
use crate::mixture::FullMixture;

/// Quantiles of each column, the centres of its kernel density.
const N_QUANTILES: usize = 64;
/// The weight of the columns by themselves in the score of anomalies. Settled with the labels of wine and breast cancer in view
/// (docs/results.md).
pub(crate) const COLUMNS_WEIGHT: f64 = 3.0;

/// Densities of prepared rows.
#[derive(Clone, Debug)]
pub(crate) struct RowDensity {
    /// The Gaussian mixture on the rows with the lowest BIC.
    pub(crate) mixture: FullMixture,
    /// One Gaussian with the mean and the covariance of all rows.
    whole: FullMixture,
    /// Quantiles of each column. `[D, Q]`
    pub(crate) quantiles: Vec<f32>,
}

impl RowDensity {
    /// An error if a covariance is singular.
    pub(crate) fn new(mixture: FullMixture, quantiles: Vec<f32>) -> Result<Self> {
        Ok(Self { whole: mixture.merged()?, mixture, quantiles })
    }

    /// log p(x) of the observed cells of a row.
    pub(crate) fn log_density(&self, row: &[f32]) -> f64 {
        self.mixture.log_density(row)
    }

    /// How unusual a row is: the log density of its observed cells by one Gaussian, and that of each cell by itself. Neither
    /// has clusters, so that a few anomalies that are alike cannot vouch for each other.
    pub(crate) fn anomaly(&self, row: &[f32]) -> f64 {
        let cells = row.iter().enumerate().filter(|(_, x)| !x.is_nan());
        let columns: f64 = cells.map(|(j, &x)| self.cell(j, x)).sum();
        -(self.whole.log_density(row) + COLUMNS_WEIGHT * columns)
    }

    /// The kernel density of a column, with Silverman's bandwidth for as many rows as there are quantiles.
    fn cell(&self, j: usize, x: f32) -> f64 {
        let d = self.whole.means.len();
        let n = self.quantiles.len() / d;
        let deviation = self.whole.covariances[0][j * d + j].sqrt();
        let bandwidth = 1.06 * deviation * (n as f64).powf(-0.2);
        let squares = self.quantiles[j * n..][..n].iter().map(|&q| {
            let error = (f64::from(x) - f64::from(q)) / bandwidth;
            -0.5 * error * error
        });
        let nearest = squares.clone().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = squares.map(|square| (square - nearest).exp()).sum();
        nearest + (sum / n as f64 / bandwidth).ln() - 0.5 * std::f64::consts::TAU.ln()
    }
}

/// Quantiles of each column, at the middles of equal shares of the rows. `[D, Q]`
pub(super) fn quantiles(rows: &[f32], d: usize) -> Vec<f32> {
    let n = rows.len() / d;
    let n_quantiles = N_QUANTILES.min(n);
    let of_column = |j: usize| {
        let mut values: Vec<f32> = rows[j..].iter().step_by(d).copied().collect();
        values.sort_by(f32::total_cmp);
        (0..n_quantiles).map(move |i| values[((2 * i + 1) * n / (2 * n_quantiles)).min(n - 1)])
    };
    (0..d).flat_map(of_column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two groups of rows; the second column is nearly the first.
    fn density() -> RowDensity {
        let covariance = vec![1.0, 0.9, 0.9, 1.0];
        let means = vec![-2.0, -2.0, 2.0, 2.0];
        let mixture = FullMixture::new(vec![0.5f64.ln(); 2], means, vec![covariance; 2]).unwrap();
        let column: Vec<f32> = (0..200).map(|i| (i as f32 - 99.5) / 40.0).collect();
        RowDensity::new(mixture, quantiles(&column.iter().flat_map(|&x| [x, x]).collect::<Vec<_>>(), 2))
            .unwrap()
    }

    #[test]
    fn kernel_densities_integrate_to_one() {
        let density = density();
        let sum: f64 = (-4000..4000).map(|i| density.cell(0, i as f32 / 100.0).exp() / 100.0).sum();
        assert!((sum - 1.0).abs() < 1e-3, "{sum}");
    }

    #[test]
    fn rows_off_the_correlation_and_far_cells_are_unusual() {
        let density = density();
        let usual = density.anomaly(&[1.0, 1.0]);
        assert!(density.anomaly(&[2.0, -2.0]) > usual + 3.0);
        assert!(density.anomaly(&[9.0, 9.0]) > usual + 3.0);
        // A missing cell counts neither for nor against.
        assert!(density.anomaly(&[1.0, f32::NAN]) < usual + 3.0);
        assert!(density.anomaly(&[f32::NAN, f32::NAN]).abs() < 1e-12);
    }
}
