//! Samples of p(x|z), one cell at a time.

use crate::math::double::{exp, ln, ln_gamma_and_digamma};
use crate::math::normal_pair;
use crate::random::Key;

/// The random numbers of one cell, in order: some distributions reject what they draw and draw again.
pub(crate) struct CellRandom {
    key: Key,
    row: u64,
    column: u32,
    n_drawn: u32,
}

/// Means from which Poisson numbers are drawn by rejection.
const LARGE_MEAN: f64 = 10.0;

impl CellRandom {
    pub(crate) fn new(key: Key, row: u64, column: usize) -> Self {
        Self { key, row, column: column as u32, n_drawn: 0 }
    }

    /// In (0, 1].
    pub(crate) fn uniform(&mut self) -> f64 {
        self.n_drawn += 1;
        1.0 - self.key.uniform(self.row, self.column, self.n_drawn - 1)
    }

    pub(crate) fn normal(&mut self) -> f64 {
        self.n_drawn += 1;
        let [a, b, ..] = self.key.draw(self.row, self.column, self.n_drawn - 1);
        f64::from(normal_pair(a, b)[0])
    }

    /// One with probability `chance`, else zero.
    pub(crate) fn chance(&mut self, chance: f64) -> f32 {
        f32::from(self.uniform() <= chance)
    }

    /// An index with the probability softmax(output).
    pub(crate) fn category(&mut self, output: &[f32], log_sum: f64) -> usize {
        let mut left = self.uniform();
        let chances = output.iter().map(|&o| exp(f64::from(o) - log_sum));
        let reached = |chance: f64| {
            left -= chance;
            left <= 0.0
        };
        chances.map(reached).position(|found| found).unwrap_or(output.len() - 1)
    }

    /// A negative binomial number: Poisson with a mean that is Gamma distributed.
    pub(crate) fn count(&mut self, mean: f64, dispersion: f64) -> f64 {
        if !(mean.is_finite() && dispersion.is_finite()) {
            return f64::NAN;
        }
        let rate = self.gamma(dispersion) * mean / dispersion;
        self.poisson(rate)
    }

    /// A Gamma number with scale one (Marsaglia and Tsang, 2000).
    fn gamma(&mut self, shape: f64) -> f64 {
        if shape < 1.0 {
            let power = exp(ln(self.uniform()) / shape);
            return self.gamma(shape + 1.0) * power;
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let x = self.normal();
            let root = 1.0 + c * x;
            let v = root * root * root;
            let u = self.uniform();
            if v > 0.0 && ln(u) < 0.5 * x * x + d - d * v + d * ln(v) {
                return d * v;
            }
        }
    }

    /// Small means by inversion, large ones by transformed rejection (Hoermann, 1993).
    fn poisson(&mut self, mean: f64) -> f64 {
        if mean < LARGE_MEAN {
            let (mut k, mut chance, mut left) = (0.0, exp(-mean), self.uniform());
            // Beyond the last digit of the uniform number chances are zero.
            while left > chance && chance > 0.0 {
                left -= chance;
                k += 1.0;
                chance *= mean / k;
            }
            return k;
        }
        let b = 0.931 + 2.53 * mean.sqrt();
        let a = -0.059 + 0.02483 * b;
        let inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
        loop {
            let (u, v) = (self.uniform() - 0.5, self.uniform());
            let rest = 0.5 - u.abs();
            if rest <= 0.0 {
                continue;
            }
            let k = ((2.0 * a / rest + b) * u + mean + 0.43).floor();
            if rest >= 0.07 && v <= 0.9277 - 3.6224 / (b - 2.0) {
                return k;
            }
            if k < 0.0 || (rest < 0.013 && v > rest) {
                continue;
            }
            let log_chance = k * ln(mean) - mean - ln_gamma_and_digamma(k + 1.0).0;
            if ln(v) + ln(inverse_alpha) - ln(a / (rest * rest) + b) <= log_chance {
                return k;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean and variance of the negative binomial are m and m + m^2 / r; five standard errors.
    #[test]
    fn counts_have_the_moments_of_a_negative_binomial() {
        for (i, (mean, r)) in [(0.3, 0.5), (4.0, 2.0), (50.0, 30.0), (2e4, 3.0), (9.0, 2e4), (0.1, 0.05)]
            .into_iter()
            .enumerate()
        {
            let key = Key::new(3, 9u32, i);
            let n = 40_000;
            let draws: Vec<f64> = (0..n).map(|row| CellRandom::new(key, row, 1).count(mean, r)).collect();
            assert!(draws.iter().all(|k| *k >= 0.0 && k.fract() == 0.0));
            let moment = |p: i32| draws.iter().map(|k| (k - mean).powi(p)).sum::<f64>() / n as f64;
            let variance = mean + mean * mean / r;
            let p = r / (r + mean);
            let kurtosis = 3.0 + 6.0 / r + p * p / ((1.0 - p) * r);
            assert!(moment(1).abs() < 5.0 * (variance / n as f64).sqrt(), "{mean}, {r}: {}", moment(1));
            let error = variance * ((kurtosis - 1.0) / n as f64).sqrt();
            assert!((moment(2) - variance).abs() < 5.0 * error, "{mean}, {r}: {} {variance}", moment(2));
            let zeros = draws.iter().filter(|k| **k == 0.0).count() as f64 / n as f64;
            let chance = p.powf(r);
            assert!((zeros - chance).abs() < 5.0 * (chance / n as f64).sqrt() + 1e-3, "{mean}, {r}: {zeros}");
        }
    }

    #[test]
    fn categories_have_their_chances() {
        let (output, n) = ([0.3f32, -1.0, 1.2], 30_000);
        let sum: f64 = output.iter().map(|&o| f64::from(o).exp()).sum();
        let key = Key::new(3, 10u32, 0);
        let drawn: Vec<usize> =
            (0..n).map(|row| CellRandom::new(key, row, 0).category(&output, sum.ln())).collect();
        for (level, &o) in output.iter().enumerate() {
            let chance = f64::from(o).exp() / sum;
            let share = drawn.iter().filter(|&&d| d == level).count() as f64 / n as f64;
            assert!((share - chance).abs() < 5.0 * (chance / n as f64).sqrt(), "{level}: {share}, {chance}");
        }
    }

    #[test]
    fn what_is_no_number_is_no_endless_loop() {
        assert!(CellRandom::new(Key::new(1, 1u32, 0), 0, 0).count(f64::NAN, 1.0).is_nan());
        assert!(CellRandom::new(Key::new(1, 1u32, 0), 0, 0).count(1.0, f64::NAN).is_nan());
    }
}
