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

use std::collections::BTreeMap;

use rayon::prelude::*;

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

/// Bisections to find a row's bandwidth.
const BISECTIONS: usize = 100;
/// Standard deviation of the initial embedding along its first axis.
const INITIAL_DEVIATION: f64 = 1e-4;

impl Tsne {
    /// Embeds rows of `n_columns` columns into the plane.
    pub fn embed(&self, rows: &[f32], n_columns: usize) -> Vec<[f64; 2]> {
        let n = rows.len() / n_columns;
        if n < 3 {
            return (0..n).map(|i| [i as f64, 0.0]).collect();
        }
        let affinities = Affinities::new(rows, n_columns, self.perplexity);
        let mut points = initial_embedding(rows, n_columns);
        let mut moves = vec![[0.0f64; 2]; n];
        let mut gains = vec![[1.0f64; 2]; n];
        for iteration in 0..self.iterations {
            let early = iteration < self.exaggerated;
            let exaggeration = if early { self.exaggeration } else { 1.0 };
            // scikit-learn's rule, including the gradient's factor of 4.
            let rate = (n as f64 / self.exaggeration / 4.0).max(50.0);
            let momentum = if early { 0.5 } else { 0.8 };
            let slopes = gradient(&affinities, &points, exaggeration);
            for i in 0..n {
                for axis in 0..2 {
                    let opposed = moves[i][axis] * slopes[i][axis] < 0.0;
                    let gain = if opposed { gains[i][axis] + 0.2 } else { gains[i][axis] * 0.8 };
                    gains[i][axis] = gain.max(0.01);
                    moves[i][axis] = momentum * moves[i][axis] - rate * gains[i][axis] * slopes[i][axis];
                    points[i][axis] += moves[i][axis];
                }
            }
        }
        points
    }
}

/// P: symmetric, sparse, with a sum of one.
struct Affinities {
    starts: Vec<usize>,
    others: Vec<u32>,
    values: Vec<f64>,
}

impl Affinities {
    fn new(rows: &[f32], d: usize, perplexity: f64) -> Self {
        let n = rows.len() / d;
        let count = ((3.0 * perplexity).floor() as usize).clamp(1, n - 1);
        let of_row = |i: usize| {
            let near = nearest(rows, d, i, count);
            let squares: Vec<f64> = near.iter().map(|&(square, _)| square).collect();
            let probabilities = conditional_probabilities(&squares, perplexity.min(count as f64));
            near.into_iter().zip(probabilities).map(|((_, j), p)| (j, p)).collect::<Vec<(usize, f64)>>()
        };
        let directed: Vec<Vec<(usize, f64)>> = (0..n).into_par_iter().map(of_row).collect();
        let mut sums: Vec<BTreeMap<u32, f64>> = vec![BTreeMap::new(); n];
        for (i, near) in directed.iter().enumerate() {
            for &(j, p) in near {
                *sums[i].entry(j as u32).or_insert(0.0) += p / (2 * n) as f64;
                *sums[j].entry(i as u32).or_insert(0.0) += p / (2 * n) as f64;
            }
        }
        let mut starts = vec![0];
        let (mut others, mut values) = (Vec::new(), Vec::new());
        for sum in sums {
            sum.into_iter().for_each(|(j, p)| {
                others.push(j);
                values.push(p);
            });
            starts.push(others.len());
        }
        Self { starts, others, values }
    }
}

/// Squared distances and indices of the nearest other rows.
fn nearest(rows: &[f32], d: usize, i: usize, count: usize) -> Vec<(f64, usize)> {
    let own = &rows[i * d..(i + 1) * d];
    let square = |other: &[f32]| other.iter().zip(own).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>();
    let mut all: Vec<(f64, usize)> = rows
        .chunks_exact(d)
        .enumerate()
        .filter(|&(j, _)| j != i)
        .map(|(j, other)| (square(other), j))
        .collect();
    let order = |a: &(f64, usize), b: &(f64, usize)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
    if count < all.len() {
        all.select_nth_unstable_by(count, order);
        all.truncate(count);
    }
    all.sort_unstable_by(order);
    all
}

/// Gaussian conditional probabilities of the neighbours, with the bandwidth that gives the perplexity.
fn conditional_probabilities(squares: &[f64], perplexity: f64) -> Vec<f64> {
    let nearest = squares.iter().copied().fold(f64::INFINITY, f64::min);
    let probabilities = |beta: f64| {
        let weights: Vec<f64> = squares.iter().map(|s| (-beta * (s - nearest)).exp()).collect();
        let total: f64 = weights.iter().sum();
        weights.into_iter().map(|w| w / total).collect::<Vec<f64>>()
    };
    let entropy = |p: &[f64]| -p.iter().filter(|&&p| p > 0.0).map(|p| p * p.ln()).sum::<f64>();
    let (mut low, mut high, mut beta) = (0.0, f64::INFINITY, 1.0);
    for _ in 0..BISECTIONS {
        if entropy(&probabilities(beta)) > perplexity.ln() {
            low = beta;
            beta = if high.is_finite() { 0.5 * (low + high) } else { 2.0 * beta };
        } else {
            high = beta;
            beta = 0.5 * (low + high);
        }
    }
    probabilities(beta)
}

/// The principal plane, scaled to the initial standard deviation along its first axis.
fn initial_embedding(rows: &[f32], d: usize) -> Vec<[f64; 2]> {
    let plane = principal_plane(rows, d);
    let n = plane.len() as f64;
    let deviation = (plane.iter().map(|p| p[0] * p[0]).sum::<f64>() / n).sqrt().max(f64::MIN_POSITIVE);
    plane.into_iter().map(|p| p.map(|x| x / deviation * INITIAL_DEVIATION)).collect()
}

/// The gradient at `points`: attraction by the neighbours, repulsion by all points.
fn gradient(affinities: &Affinities, points: &[[f64; 2]], exaggeration: f64) -> Vec<[f64; 2]> {
    let xs: Vec<f32> = points.iter().map(|p| p[0] as f32).collect();
    let ys: Vec<f32> = points.iter().map(|p| p[1] as f32).collect();
    let repulsion: Vec<[f64; 3]> =
        (0..points.len()).into_par_iter().map(|i| repulsion(&xs, &ys, i)).collect();
    // In the order of the rows, independent of the threads.
    let total: f64 = repulsion.iter().map(|r| r[2]).sum();
    let slope = |i: usize| {
        let mut attraction = [0.0; 2];
        for entry in affinities.starts[i]..affinities.starts[i + 1] {
            let other = points[affinities.others[entry] as usize];
            let (dx, dy) = (points[i][0] - other[0], points[i][1] - other[1]);
            let weight = affinities.values[entry] / (1.0 + dx * dx + dy * dy);
            attraction = [attraction[0] + weight * dx, attraction[1] + weight * dy];
        }
        [0, 1].map(|axis| 4.0 * (exaggeration * attraction[axis] - repulsion[i][axis] / total))
    };
    (0..points.len()).into_par_iter().map(slope).collect()
}

/// Sums over all other rows of q² (y_i - y_j), and of q = 1 / (1 + |y_i - y_j|²).
fn repulsion(xs: &[f32], ys: &[f32], i: usize) -> [f64; 3] {
    const LANES: usize = 16;
    // Single precision is enough within a block; the blocks are summed in double.
    const BLOCK: usize = 16 * LANES;
    let (x, y) = (xs[i], ys[i]);
    let mut sums = [0.0f64; 3];
    for (xs, ys) in xs.chunks(BLOCK).zip(ys.chunks(BLOCK)) {
        let mut lanes = [[0.0f32; LANES]; 3];
        for (xs, ys) in xs.chunks(LANES).zip(ys.chunks(LANES)) {
            for (lane, (other_x, other_y)) in xs.iter().zip(ys).enumerate() {
                let (dx, dy) = (x - other_x, y - other_y);
                let q = 1.0 / (1.0 + dx * dx + dy * dy);
                lanes[0][lane] += q * q * dx;
                lanes[1][lane] += q * q * dy;
                lanes[2][lane] += q;
            }
        }
        for (sum, lanes) in sums.iter_mut().zip(&lanes) {
            *sum += lanes.iter().map(|&x| f64::from(x)).sum::<f64>();
        }
    }
    // The row itself has q = 1 and no repulsion.
    [sums[0], sums[1], sums[2] - 1.0]
}

/// Projects centred rows of J columns onto their first two principal axes, by power iteration with the second
/// axis kept orthogonal to the first.
pub fn principal_plane(rows: &[f32], j: usize) -> Vec<[f64; 2]> {
    let n = (rows.len() / j).max(1) as f64;
    let mut mean = vec![0.0; j];
    rows.chunks_exact(j).for_each(|row| mean.iter_mut().zip(row).for_each(|(m, &x)| *m += f64::from(x) / n));
    let centred: Vec<f64> = rows.iter().enumerate().map(|(i, &x)| f64::from(x) - mean[i % j]).collect();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut axes: Vec<Vec<f64>> = Vec::new();
    for _ in 0..2 {
        let mut axis: Vec<f64> = (0..j).map(|i| 1.0 + i as f64 / j as f64).collect();
        for _ in 0..100 {
            let mut next = vec![0.0; j];
            for row in centred.chunks_exact(j) {
                let along = dot(row, &axis);
                next.iter_mut().zip(row).for_each(|(sum, x)| *sum += along * x);
            }
            for earlier in &axes {
                let shared = dot(&next, earlier);
                next.iter_mut().zip(earlier).for_each(|(x, e)| *x -= shared * e);
            }
            let length = dot(&next, &next).sqrt().max(f64::MIN_POSITIVE);
            axis = next.into_iter().map(|x| x / length).collect();
        }
        axes.push(axis);
    }
    centred.chunks_exact(j).map(|row| [dot(row, &axes[0]), dot(row, &axes[1])]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three groups of rows in five columns.
    fn groups(n: usize) -> Vec<f32> {
        let noise = |i: usize, j: usize| ((i * 7919 + j * 104_729) % 1000) as f32 / 1000.0 - 0.5;
        (0..n).flat_map(|i| (0..5).map(move |j| if i % 3 == j { 6.0 } else { 0.0 } + noise(i, j))).collect()
    }

    #[test]
    fn groups_stay_together_for_any_number_of_threads() {
        let rows = groups(150);
        let tsne = Tsne { iterations: 400, exaggerated: 100, perplexity: 15.0, ..Tsne::default() };
        let embed = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| tsne.embed(&rows, 5))
        };
        let points = embed(1);
        assert_eq!(points, embed(3));
        let distance = |a: usize, b: usize| (points[a][0] - points[b][0]).hypot(points[a][1] - points[b][1]);
        let nearest = |i: usize| {
            let others = (0..150).filter(|&j| j != i);
            others.min_by(|&a, &b| distance(i, a).total_cmp(&distance(i, b))).unwrap()
        };
        assert!((0..150).all(|i| nearest(i) % 3 == i % 3));
    }

    #[test]
    fn bandwidths_give_the_perplexity() {
        let squares: Vec<f64> = (1..=90).map(|i| f64::from(i) * 1e3).collect();
        let probabilities = conditional_probabilities(&squares, 30.0);
        let entropy: f64 = -probabilities.iter().map(|p| p * p.ln()).sum::<f64>();
        assert!(
            (entropy.exp() - 30.0).abs() < 1e-6 && (probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-12
        );
    }

    /// Central differences of KL(P|Q).
    #[test]
    fn the_gradient_is_that_of_the_divergence() {
        let affinities = Affinities::new(&groups(40), 5, 5.0);
        let points: Vec<[f64; 2]> =
            (0..40).map(|i| [f64::from(i).sin() * 2.0, (f64::from(i) * 1.7).cos()]).collect();
        let divergence = |points: &[[f64; 2]]| {
            let q = |i: usize, j: usize| {
                1.0 / (1.0 + (points[i][0] - points[j][0]).powi(2) + (points[i][1] - points[j][1]).powi(2))
            };
            let total: f64 = (0..40).map(|i| (0..40).filter(|&j| j != i).map(|j| q(i, j)).sum::<f64>()).sum();
            let row =
                |i: usize| (affinities.starts[i]..affinities.starts[i + 1]).map(move |entry| (i, entry));
            (0..40)
                .flat_map(row)
                .filter(|(_, entry)| affinities.values[*entry] > 0.0)
                .map(|(i, entry)| {
                    let p = affinities.values[entry];
                    p * (p * total / q(i, affinities.others[entry] as usize)).ln()
                })
                .sum::<f64>()
        };
        let slopes = gradient(&affinities, &points, 1.0);
        for i in [0, 7, 39] {
            for axis in 0..2 {
                let moved = |by: f64| {
                    let mut points = points.clone();
                    points[i][axis] += by;
                    divergence(&points)
                };
                let expected = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                assert!((slopes[i][axis] - expected).abs() < 1e-6, "{} {expected}", slopes[i][axis]);
            }
        }
    }
}
