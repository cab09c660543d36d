//! The mixture's start and the neighbour graph: passes over all rows against their definitions, and the
//! whole start against the CPU's.

use pervade::Result;
use pervade::compute::{Components, Cpu, Moments};
use pervade::graph::{Graph, GraphOptions};
use pervade::mixture::{EmOptions, fit, kmeans};
use pervade::seed::{Key, Stream};
use pervade_rivals::RivalDevice;

use super::{Check, numbers};

/// Rows, latents, components and neighbours: one of each, odd numbers, more columns and longer lists than a
/// block of a device holds at once.
const SHAPES: [[usize; 4]; 4] = [[3, 1, 1, 2], [257, 10, 13, 10], [523, 37, 150, 30], [301, 130, 70, 200]];

/// Latents around a few centres, away from the origin.
fn latents(n: usize, j: usize) -> Vec<f32> {
    let (noise, centres) = (numbers(n * j, 60), numbers(7 * j, 61));
    (0..n * j).map(|i| 5.0 + 3.0 * centres[i / j % 7 * j + i % j] + noise[i]).collect()
}

/// A mixture with the rows as its means.
struct Mixture {
    log_constants: Vec<f64>,
    means: Vec<f64>,
    inverse_variances: Vec<f64>,
}

impl Mixture {
    fn new(latents: &[f32], j: usize, c: usize) -> Self {
        let inverse = |x: &f32| 1.0 + 0.5 * f64::from(*x);
        Self {
            log_constants: numbers(c, 62).iter().map(|&x| f64::from(x)).collect(),
            means: latents[..c * j].iter().map(|&z| f64::from(z)).collect(),
            inverse_variances: numbers(c * j, 63).iter().map(inverse).collect(),
        }
    }

    fn log_joint(&self, z: &[f32], m: usize) -> f64 {
        let j = z.len();
        let term =
            |k: usize| (f64::from(z[k]) - self.means[m * j + k]).powi(2) * self.inverse_variances[m * j + k];
        self.log_constants[m] - 0.5 * (0..j).map(term).sum::<f64>()
    }
}

/// Mass, means and variances by their definition from responsibilities [N, C].
fn reference(latents: &[f32], j: usize, gamma: &[f64], c: usize) -> Vec<f64> {
    let mut all = Vec::new();
    for m in 0..c {
        let weight = |row: usize| gamma[row * c + m];
        let sum = |value: &dyn Fn(usize) -> f64| -> f64 {
            (0..latents.len() / j).map(|row| weight(row) * value(row)).sum()
        };
        let mass = sum(&|_| 1.0);
        all.push(mass);
        for k in 0..j {
            let z = |row: usize| f64::from(latents[row * j + k]);
            let mean = sum(&z) / mass;
            all.extend([mean - 5.0, sum(&|row| (z(row) - mean).powi(2)) / mass]);
        }
    }
    all
}

fn listed(moments: &Moments, j: usize, c: usize) -> Vec<f64> {
    let of = |m: usize| {
        let columns = (0..j).map(move |k| moments.mean_and_variance(m, k));
        std::iter::once(moments.mass(m)).chain(columns.flat_map(|(mean, variance)| [mean, variance]))
    };
    (0..c).flat_map(of).collect()
}

/// The nearest by a full sort, in single precision as the operation is defined.
fn nearest(latents: &[f32], j: usize, rows: &[u32], k: usize) -> Vec<f64> {
    let row = |node: usize| &latents[rows[node] as usize * j..][..j];
    let square =
        |a: usize, b: usize| row(a).iter().zip(row(b)).fold(0.0f32, |sum, (x, y)| sum + (x - y) * (x - y));
    let of = |node: usize| {
        let mut others: Vec<usize> = (0..rows.len()).filter(|&other| other != node).collect();
        others.sort_by(|&a, &b| square(node, a).total_cmp(&square(node, b)).then(a.cmp(&b)));
        others.into_iter().take(k).map(|other| other as f64)
    };
    (0..rows.len()).flat_map(of).collect()
}

/// Every pass against its definition: the worst of the shapes for each.
pub(super) fn checks<D: RivalDevice>(device: &D) -> Result<Vec<Check>> {
    let mut worst: Vec<Check> = Vec::new();
    for shape in SHAPES {
        for (place, check) in checks_of(device, shape)?.into_iter().enumerate() {
            match worst.get_mut(place) {
                None => worst.push(check),
                Some(before) if before.error >= check.error => {}
                Some(before) => *before = check,
            }
        }
    }
    Ok(worst)
}

fn checks_of<D: RivalDevice>(device: &D, [n, j, c, k]: [usize; 4]) -> Result<Vec<Check>> {
    let latents = latents(n, j);
    let mixture = Mixture::new(&latents, j, c);
    let inverse = |place: usize| mixture.inverse_variances[place];
    let components = Components::new(&mixture.log_constants, &mixture.means, inverse, &vec![5.0; j]);
    let (mut soft, mut hard, mut log_density, mut choice) = (Vec::new(), Vec::new(), 0.0, Vec::new());
    for z in latents.chunks_exact(j) {
        let joints: Vec<f64> = (0..c).map(|m| mixture.log_joint(z, m)).collect();
        let best = (1..c).fold(0, |best, m| if joints[m] > joints[best] { m } else { best });
        let sum: f64 = joints.iter().map(|l| (l - joints[best]).exp()).sum();
        log_density += joints[best] + sum.ln();
        soft.extend(joints.iter().map(|l| (l - joints[best]).exp() / sum));
        hard.extend((0..c).map(|m| f64::from(u8::from(m == best))));
        choice.extend([best as f64, -2.0 * joints[best]]);
    }
    let (soft, hard) = (reference(&latents, j, &soft, c), reference(&latents, j, &hard, c));
    let mut points = device.points(&latents, j)?;
    let (moments, sum) = device.e_step(&mut points, &components)?;
    let (moments_of_parts, _) = device.assign(&mut points, &components)?;
    let (assignment, squares) = device.assigned(&points)?;
    let chosen: Vec<f64> = assignment.iter().zip(squares).flat_map(|(&m, s)| [f64::from(m), s]).collect();
    let moved = device.assign(&mut points, &components)?.1;
    // All rows but every fifth, so that nodes and rows have numbers of their own.
    let rows: Vec<u32> = (0..n as u32).filter(|row| n < 5 || row % 5 != 4).collect();
    let neighbours = device.neighbours(&points, &rows, k, &mut || true)?;
    Ok(vec![
        Check::new("log densities of a mixture", 1e-12, &[sum], &[log_density]),
        Check::new("moments of a mixture", 1e-10, &listed(&moments, j, c), &soft),
        Check::new("moments of parts", 1e-10, &listed(&moments_of_parts, j, c), &hard),
        Check::new("parts", 1e-12, &chosen, &choice),
        Check::new("rows that changed parts", 0.0, &[u8::from(moved)], &[0.0]),
        Check::new("nearest neighbours", 0.0, &neighbours, &nearest(&latents, j, &rows, k)),
    ])
}

/// A whole start: k-means++, k-means, EM; and a graph.
pub(super) fn against_cpu<D: RivalDevice>(device: &D) -> Result<Vec<Check>> {
    let (n, j, c) = (20_000, 10, 60);
    let (latents, key, cpu) = (latents(n, j), Key::new(7, Stream::Mixture, 0), Cpu::new());
    let ours = kmeans(device, &latents, j, c, key, 0)?;
    let theirs = kmeans(&cpu, &latents, j, c, key, 0)?;
    let options = EmOptions::default().with(|o| {
        o.components = c;
        o.restarts = 2;
        o.max_iterations = 40;
        o.tolerance = 1e-7;
    });
    let our_fit = fit(device, &latents, j, &options, key)?;
    let their_fit = fit(&cpu, &latents, j, &options, key)?;
    let graph = GraphOptions::default();
    let our_graph = Graph::build(device, &latents, j, &graph, key)?.neighbours;
    let their_graph = Graph::build(&cpu, &latents, j, &graph, key)?.neighbours;
    let wide = |ids: &[u32]| ids.iter().map(|&id| f64::from(id)).collect::<Vec<f64>>();
    Ok(vec![
        Check::new("k-means against the CPU, centres", 1e-9, &ours.centres, &theirs.centres),
        Check::new("k-means against the CPU, clusters", 0.0, &ours.assignment, &wide(&theirs.assignment)),
        Check::new("EM against the CPU, log likelihoods", 1e-9, &our_fit.trace, &their_fit.trace),
        Check::new("EM against the CPU, means", 1e-6, &our_fit.mixture.means, &their_fit.mixture.means),
        Check::new("graph of 20,000 rows against the CPU", 0.0, &our_graph, &wide(&their_graph)),
    ])
}
