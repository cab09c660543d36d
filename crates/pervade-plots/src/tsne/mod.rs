//! t-SNE, exact and reproducible.
//!
//! Paper: van der Maaten and Hinton, "Visualizing data using t-SNE" (2008). Affinities p_j|i are Gaussian with a width
//! that gives each row the same perplexity, over its 3 x perplexity nearest rows as in van der Maaten (2014);
//! P = (p_j|i + p_i|j) / 2N; q_ij is proportional to 1 / (1 + |y_i - y_j|²); the gradient of KL(P|Q),
//! 4 sum_j (p_ij - q_ij) (y_i - y_j) / (1 + |y_i - y_j|²), is followed with momentum and gains.
//! The repulsion is summed over all pairs instead of a tree: 2,000 rows take seconds, and 10,000 a minute or two.
//! The initial embedding is by the two principal axes, without random numbers; sums have a fixed order, and
//! the result does not depend on the number of threads. The crate `bhtsne` 0.7.13 was tried: from the same initial
//! embedding it gave a different result on every run.
//!
//! [`Layout`](crate::Layout) builds on the same parts, for many more rows.

mod affinities;
mod descent;
mod exact;
mod principal;

pub(crate) use affinities::Affinities;
pub(crate) use descent::{Descent, Repulsion, gradient};
pub(crate) use exact::exact_repulsion;
pub(crate) use principal::initially_scaled;
pub use principal::principal_plane;

/// t-SNE with its settings; the defaults are scikit-learn's.
#[derive(Clone, Debug, PartialEq)]
pub struct Tsne {
    /// Effective number of neighbours.
    pub perplexity: f64,
    /// The number of iterations, including those with exaggeration.
    pub iterations: usize,
    /// The number of initial iterations in which P is exaggerated.
    pub exaggerated: usize,
    /// The factor of the exaggeration.
    pub exaggeration: f64,
}

impl Default for Tsne {
    fn default() -> Self {
        Self { perplexity: 30.0, iterations: 1000, exaggerated: 250, exaggeration: 12.0 }
    }
}

impl Tsne {
    /// Embeds rows of `n_columns` columns into the plane.
    pub fn embed(&self, rows: &[f32], n_columns: usize) -> Vec<[f64; 2]> {
        let n = rows.len() / n_columns;
        if n < 3 {
            return (0..n).map(|i| [i as f64, 0.0]).collect();
        }
        let affinities = Affinities::with_perplexity(rows, n_columns, self.perplexity);
        let mut descent = Descent::new(initially_scaled(principal_plane(rows, n_columns)));
        for iteration in 0..self.iterations {
            let early = iteration < self.exaggerated;
            let exaggeration = if early { self.exaggeration } else { 1.0 };
            // scikit-learn's rule, including the gradient's factor of 4.
            let rate = (n as f64 / self.exaggeration / 4.0).max(50.0);
            let momentum = if early { 0.5 } else { 0.8 };
            let repulsion = exact_repulsion(&descent.points);
            let slopes = gradient(&affinities, &descent.points, exaggeration, &repulsion);
            descent.step(&slopes, rate, momentum);
        }
        descent.points
    }
}

#[cfg(test)]
mod tests;
