//! Passes over the latents of all rows.

use super::inputs::*;
use super::{Case, EveryOperation, Tolerance};
use crate::{Components, Moments, Result};

/// Rows, latents, components and neighbours: one of each, odd numbers, more columns and longer lists than a
/// block of a device holds at once.
const SHAPES: [[usize; 4]; 4] = [[3, 1, 1, 2], [257, 10, 13, 10], [523, 37, 150, 30], [301, 130, 70, 200]];
/// Where the latents' centre is.
const CENTRE: f32 = 5.0;

pub(super) fn cases<D: EveryOperation>() -> Vec<Case<D>> {
    let mut cases = Vec::new();
    for [n, j, c, k] in SHAPES {
        cases.extend(e_step([n, j, c]));
        cases.extend(assign([n, j, c]));
        cases.push(neighbours([n, j, k]));
    }
    for shape in [[257, 10, 13], [20_000, 10, 60]] {
        cases.push(kmeans_plus_plus(shape));
    }
    cases
}

/// Latents around a few centres, away from the origin.
fn latents(n: usize, j: usize) -> Vec<f32> {
    let (noise, centres) = (numbers(n * j, 60), numbers(7 * j, 61));
    (0..n * j).map(|i| CENTRE + 3.0 * centres[i / j % 7 * j + i % j] + noise[i]).collect()
}

/// Latents, and a mixture with the first rows as its means.
struct Input {
    latents: Vec<f32>,
    j: usize,
    log_constants: Vec<f64>,
    means: Vec<f64>,
    inverse_variances: Vec<f64>,
}

impl Input {
    fn new([n, j, c]: [usize; 3]) -> Self {
        let latents = latents(n, j);
        Self {
            j,
            log_constants: wide(&numbers(c, 62)),
            means: wide(&latents[..c * j]),
            inverse_variances: numbers(c * j, 63).iter().map(|&x| 1.0 + 0.5 * f64::from(x)).collect(),
            latents,
        }
    }

    fn components(&self) -> Components {
        let centre = vec![f64::from(CENTRE); self.j];
        Components::new(&self.log_constants, &self.means, |i| self.inverse_variances[i], &centre)
    }

    /// For each row the log joint of each component.
    fn log_joints(&self) -> Vec<Vec<f64>> {
        let j = self.j;
        let log_joint = |z: &[f32], m: usize| {
            let column = |k: usize| {
                (f64::from(z[k]) - self.means[m * j + k]).powi(2) * self.inverse_variances[m * j + k]
            };
            self.log_constants[m] - 0.5 * (0..j).map(column).sum::<f64>()
        };
        let of_row = |z| (0..self.log_constants.len()).map(|m| log_joint(z, m)).collect();
        self.latents.chunks_exact(j).map(of_row).collect()
    }

    /// Mass, means and variances of each component, from the rows' responsibilities.
    fn moments(&self, gamma: &[Vec<f64>]) -> Vec<f64> {
        let mut all = Vec::new();
        for m in 0..self.log_constants.len() {
            let sum = |value: &dyn Fn(usize) -> f64| -> f64 {
                gamma.iter().enumerate().map(|(row, gamma)| gamma[m] * value(row)).sum()
            };
            let mass = sum(&|_| 1.0);
            all.push(mass);
            for k in 0..self.j {
                let z = |row: usize| f64::from(self.latents[row * self.j + k]);
                let mean = sum(&z) / mass;
                all.extend([mean - f64::from(CENTRE), sum(&|row| (z(row) - mean).powi(2)) / mass]);
            }
        }
        all
    }

    fn listed(&self, moments: &Moments) -> Vec<f64> {
        let of = |m: usize| {
            let columns = (0..self.j).flat_map(move |k| {
                let (mean, variance) = moments.mean_and_variance(m, k);
                [mean, variance]
            });
            std::iter::once(moments.mass(m)).chain(columns)
        };
        (0..self.log_constants.len()).flat_map(of).collect()
    }
}

/// The most probable component; ties go to the first.
fn most_probable(log_joints: &[f64]) -> usize {
    (1..log_joints.len()).fold(0, |best, m| if log_joints[m] > log_joints[best] { m } else { best })
}

fn e_step<D: EveryOperation>(shape: [usize; 3]) -> [Case<D>; 2] {
    let run = move |device: &D| {
        let input = Input::new(shape);
        let mut points = device.points(&input.latents, input.j)?;
        let (moments, log_density) = device.e_step(&mut points, &input.components())?;
        Ok((input.listed(&moments), log_density))
    };
    let log_density =
        move |_: &D| Ok(vec![Input::new(shape).log_joints().iter().map(|row| log_sum_exp(row)).sum()]);
    let moments = move |_: &D| {
        let input = Input::new(shape);
        let responsibilities = |row: Vec<f64>| {
            let total = log_sum_exp(&row);
            row.iter().map(|l| (l - total).exp()).collect()
        };
        Ok(input.moments(&input.log_joints().into_iter().map(responsibilities).collect::<Vec<Vec<f64>>>()))
    };
    [
        Case::against(
            format!("E-step, sum of log densities {shape:?}"),
            Tolerance::Fixed(1e-12),
            log_density,
            move |device: &D| Ok(vec![run(device)?.1]),
        ),
        Case::against(
            format!("E-step, moments {shape:?}"),
            Tolerance::Fixed(1e-10),
            moments,
            move |device: &D| Ok(run(device)?.0),
        ),
    ]
}

/// What assignment gives: moments; component and minus twice its log joint per row; whether a second call changed any.
fn assigned<D: EveryOperation>(device: &D, shape: [usize; 3]) -> Result<(Vec<f64>, Vec<f64>, bool)> {
    let input = Input::new(shape);
    let components = input.components();
    let mut points = device.points(&input.latents, input.j)?;
    let (moments, _) = device.assign(&mut points, &components)?;
    let (assignment, squares) = device.assigned(&points)?;
    let chosen = assignment.iter().zip(squares).flat_map(|(&m, s)| [f64::from(m), s]).collect();
    let changed = device.assign(&mut points, &components)?.1;
    Ok((input.listed(&moments), chosen, changed))
}

fn assign<D: EveryOperation>(shape: [usize; 3]) -> [Case<D>; 3] {
    let moments = move |_: &D| {
        let input = Input::new(shape);
        let responsibilities = |row: Vec<f64>| {
            let best = most_probable(&row);
            (0..row.len()).map(|m| f64::from(u8::from(m == best))).collect()
        };
        Ok(input.moments(&input.log_joints().into_iter().map(responsibilities).collect::<Vec<Vec<f64>>>()))
    };
    let chosen = move |_: &D| {
        let each = |row: Vec<f64>| {
            let best = most_probable(&row);
            [best as f64, -2.0 * row[best]]
        };
        Ok(Input::new(shape).log_joints().into_iter().flat_map(each).collect())
    };
    [
        Case::against(
            format!("assignment, moments {shape:?}"),
            Tolerance::Fixed(1e-10),
            moments,
            move |device: &D| Ok(assigned(device, shape)?.0),
        ),
        Case::against(
            format!("assignment, components and distances {shape:?}"),
            Tolerance::Fixed(1e-12),
            chosen,
            move |device: &D| Ok(assigned(device, shape)?.1),
        ),
        Case::against(
            format!("assignment, rows that change the second time {shape:?}"),
            Tolerance::Fixed(0.0),
            |_: &D| Ok(vec![0.0]),
            move |device: &D| Ok(vec![f64::from(u8::from(assigned(device, shape)?.2))]),
        ),
    ]
}

/// The nearest by a full sort, in single precision as the operation is defined.
fn neighbours<D: EveryOperation>([n, j, k]: [usize; 3]) -> Case<D> {
    // All rows but every fifth, so that positions differ from rows.
    let rows = move || (0..n as u32).filter(|row| n < 5 || row % 5 != 4).collect::<Vec<u32>>();
    let expected = move |_: &D| {
        let (latents, rows) = (latents(n, j), rows());
        let row = |position: usize| &latents[rows[position] as usize * j..][..j];
        let square = |a: usize, b: usize| {
            row(a).iter().zip(row(b)).fold(0.0f32, |sum, (x, y)| sum + (x - y) * (x - y))
        };
        let of = |position: usize| {
            let mut others: Vec<(f32, usize)> = (0..rows.len())
                .filter(|&other| other != position)
                .map(|other| (square(position, other), other))
                .collect();
            others.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            others.into_iter().take(k).map(|(_, other)| other as f64)
        };
        Ok((0..rows.len()).flat_map(of).collect())
    };
    let name = format!("nearest neighbours [{n}, {j}, {k}]");
    Case::against(name, Tolerance::Fixed(0.0), expected, move |device: &D| {
        let latents = latents(n, j);
        let points = device.points(&latents, j)?;
        // In two parts, as two ranks would.
        let (rows, mut found) = (rows(), Vec::new());
        for queries in [0..rows.len() / 3, rows.len() / 3..rows.len()] {
            found.extend(device.neighbours(&points, &rows, queries, k, &mut || true)?);
        }
        Ok(found.into_iter().map(f64::from).collect())
    })
}

/// Draws of k-means++, and the rows to choose from: every third is left out.
fn sample_and_draws(n: usize, c: usize) -> (Vec<u32>, Vec<f64>) {
    let sample = (0..n as u32).filter(|row| row % 3 != 1).rev().collect();
    (sample, wide(&fractions(c, 64)))
}

fn kmeans_plus_plus<D: EveryOperation>([n, j, c]: [usize; 3]) -> Case<D> {
    let expected = move |_: &D| {
        let (latents, (sample, draws)) = (latents(n, j), sample_and_draws(n, c));
        let row = |position: usize| &latents[sample[position] as usize * j..][..j];
        let square = |a: usize, b: usize| -> f64 {
            row(a).iter().zip(row(b)).map(|(&x, &y)| (f64::from(x) - f64::from(y)).powi(2)).sum()
        };
        let (mut nearest, mut chosen, mut next) = (vec![f64::INFINITY; sample.len()], Vec::new(), 0);
        for draw in draws {
            chosen.push(f64::from(sample[next]));
            nearest.iter_mut().enumerate().for_each(|(i, least)| *least = least.min(square(i, next)));
            let (total, mut running) = (nearest.iter().sum::<f64>(), 0.0);
            let passed = nearest.iter().position(|mass| {
                running += mass;
                running > draw * total
            });
            next = passed.unwrap_or(sample.len() - 1);
        }
        Ok(chosen)
    };
    let name = format!("k-means++ [{n}, {j}, {c}]");
    Case::against(name, Tolerance::Fixed(0.0), expected, move |device: &D| {
        let (latents, (sample, draws)) = (latents(n, j), sample_and_draws(n, c));
        let chosen = device.kmeans_plus_plus(&mut device.points(&latents, j)?, &sample, &draws)?;
        Ok(chosen.into_iter().map(f64::from).collect())
    })
}
