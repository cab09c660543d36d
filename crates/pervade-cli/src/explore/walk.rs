//! A walk through the latent space from one cluster to another, with the rows that the model expects on the way.

use pervade::compute::Device;
use pervade::model::Vade;
use pervade_report::{Example, examples_json};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Refusal, Worker};

/// Columns that are shown of a wide table, and rows that say how much a column varies.
const COLUMNS: usize = 10;
const SAMPLE: usize = 1000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Question {
    from: usize,
    to: usize,
    steps: usize,
}

pub(super) fn answer<D: Device>(worker: &Worker<'_, D>, question: Question) -> Result<Value, Refusal> {
    let Question { from, to, steps } = question;
    let model = &worker.model;
    if let Some(k) = [from, to].into_iter().find(|&k| k >= model.n_clusters() || !model.has_components(k)) {
        return Err(Refusal::bad(format!("there is no cluster {k}, or it was merged into another")));
    }
    if from == to || !(2..=41).contains(&steps) {
        return Err(Refusal::bad("a walk has 2 to 41 steps between two different clusters"));
    }
    let mixture = Mixture::new(model);
    let (start, end) = (mixture.center(from), mixture.center(to));
    let share = |step: usize| step as f64 / (steps - 1) as f64;
    let at = |step: usize| {
        start.iter().zip(&end).map(move |(a, b)| (a + (b - a) * share(step)) as f32).collect::<Vec<f32>>()
    };
    let latents: Vec<f32> = (0..steps).flat_map(at).collect();
    let decoded = model.decode(worker.device, &latents)?;
    let rows: Vec<&[f32]> = decoded.chunks_exact(model.n_columns()).collect();
    let columns = if model.image().is_some() { Vec::new() } else { changing_columns(worker, &rows) };
    let examples = worker.examples();
    let made: Vec<Example> = rows.iter().map(|row| examples.with_columns(row, &columns)).collect();
    let probabilities: Vec<Vec<f64>> =
        latents.chunks_exact(model.n_latents()).map(|z| mixture.probabilities(z)).collect();
    Ok(json!({
        "steps": examples_json(&made, model.n_clusters()),
        "probabilities": probabilities,
        "shown": columns.len(),
        "columns": model.n_columns(),
    }))
}

/// All columns of a narrow table, otherwise those that change most on the way, in units of their deviation.
fn changing_columns<D: Device>(worker: &Worker<'_, D>, rows: &[&[f32]]) -> Vec<usize> {
    let d = worker.model.n_columns();
    if d <= COLUMNS {
        return (0..d).collect();
    }
    let data = &worker.explored.table.data;
    let n = data.n_rows().min(SAMPLE);
    let mut sums = vec![(0.0f64, 0.0f64, 0.0f64); d];
    let mut row = vec![0.0; d];
    for i in 0..n {
        data.row_into(i * data.n_rows() / n, &mut row);
        for (sum, x) in sums.iter_mut().zip(row.iter().map(|&x| f64::from(x))) {
            if !x.is_nan() {
                *sum = (sum.0 + 1.0, sum.1 + x, sum.2 + x * x);
            }
        }
    }
    let change = |j: usize| {
        let (n, sum, squares) = sums[j];
        let deviation = (squares / n - (sum / n).powi(2)).max(0.0).sqrt();
        let values = || rows.iter().map(|row| f64::from(row[j]));
        let range = values().fold(f64::NEG_INFINITY, f64::max) - values().fold(f64::INFINITY, f64::min);
        if deviation > 0.0 { range / deviation } else { 0.0 }
    };
    let mut ranked: Vec<(usize, f64)> = (0..d).map(|j| (j, change(j))).collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    ranked.into_iter().take(COLUMNS).map(|(j, _)| j).collect()
}

/// The mixture in the latent space.
struct Mixture<'a> {
    model: &'a Vade,
    weights: Vec<f64>,
    means: Vec<f64>,
    variances: Vec<f64>,
}

impl<'a> Mixture<'a> {
    fn new(model: &'a Vade) -> Self {
        let (weights, means, variances) = model.components();
        Self { model, weights, means, variances }
    }

    /// The mean of the heaviest component of a cluster: that of several may lie between them, where no rows are.
    fn center(&self, cluster: usize) -> Vec<f64> {
        let j = self.model.n_latents();
        let own = (0..self.weights.len()).filter(|&c| self.model.groups()[c] as usize == cluster);
        let heaviest = own.reduce(|best, c| if self.weights[c] > self.weights[best] { c } else { best });
        let heaviest = heaviest.unwrap_or(0);
        self.means[heaviest * j..(heaviest + 1) * j].to_vec()
    }

    /// The probability of each cluster at a point of the latent space.
    fn probabilities(&self, z: &[f32]) -> Vec<f64> {
        let j = z.len();
        let log_joint = |c: usize| {
            let of_column = |i: usize| {
                let (mean, variance) = (self.means[c * j + i], self.variances[c * j + i]);
                -0.5 * (variance.ln() + (f64::from(z[i]) - mean).powi(2) / variance)
            };
            self.weights[c].ln() + (0..j).map(of_column).sum::<f64>()
        };
        let joints: Vec<f64> = (0..self.weights.len()).map(log_joint).collect();
        let greatest = joints.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut probabilities = vec![0.0; self.model.n_clusters()];
        let total: f64 = joints.iter().map(|joint| (joint - greatest).exp()).sum();
        for (joint, &cluster) in joints.iter().zip(self.model.groups()) {
            probabilities[cluster as usize] += (joint - greatest).exp() / total;
        }
        probabilities
    }
}
