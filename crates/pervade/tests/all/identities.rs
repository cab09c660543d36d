//! Properties of any model: bounds, sums, and that a row's result depends only on the row.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::common::ops::{matrix, one_mixture, params, random, zeros};
use crate::common::{planted, tiny};
use pervade::compute::prelude::*;
use pervade::compute::{Cpu, Gamma};
use pervade::config::{Clusters, LikelihoodKind, Recipe, Settings};
use pervade::data::{Dataset, PrepareKind};
use pervade::model::Vade;
use pervade::seed::{Key, Stream};
use safetensors::SafeTensors;

const ROWS: usize = 600; // more than a block of 512
const COLUMNS: usize = 8;

fn rows() -> Vec<f32> {
    planted(ROWS, COLUMNS, 3).0
}

fn dataset(values: Vec<f32>) -> Dataset<'static> {
    Dataset::from_rows(values.len() / COLUMNS, COLUMNS, values).unwrap()
}

fn settings() -> Settings {
    tiny(Recipe::Robust, Clusters::Fixed(3)).with(|s| {
        s.pretrain_epochs = Some(30);
        s.epochs = Some(15);
    })
}

/// A model of standardised rows with a fixed noise variance.
fn model() -> &'static Vade {
    static MODEL: OnceLock<Vade> = OnceLock::new();
    MODEL.get_or_init(|| {
        let settings = settings().with(|s| s.prepare = Some(PrepareKind::Standardise));
        crate::common::fit(&dataset(rows()), settings).model
    })
}

fn assert_probabilities(probabilities: &[f32], n_clusters: usize, what: &str) {
    for (i, row) in probabilities.chunks(n_clusters).enumerate() {
        let sum: f64 = row.iter().map(|&p| f64::from(p)).sum();
        let fine = (sum - 1.0).abs() < 1e-6 && row.iter().all(|p| (0.0..=1.0).contains(p));
        assert!(fine, "{what}: row {i} is {row:?}");
    }
}

#[test]
fn responsibilities_sum_to_one_far_away() {
    let (b, j, c) = (40, 3, 7);
    let (layout, slots) = one_mixture(c, j);
    let p = params(1, &layout, 1);
    // Standard deviations are between 0.6 and 1.6, so these rows are at least 1e4 of them away.
    let head = matrix(1, b, 2 * j, random(b * 2 * j, 2).iter().map(|x| x * 2e4).collect());
    for gamma in [Gamma::Exact, Gamma::Sampled] {
        let mut joints = zeros(1, b, c);
        Cpu::new().log_joint(gamma, &p, slots, &head, &mut joints).unwrap();
        for row in joints.data.chunks(c) {
            assert!(row.iter().all(|l| l.is_finite()), "{row:?}");
            let greatest = f64::from(row.iter().copied().fold(f32::MIN, f32::max));
            let gammas: Vec<f64> = row.iter().map(|&l| (f64::from(l) - greatest).exp()).collect();
            // None of them is a small constant that was added: far away, one component has all the weight.
            assert!(gammas.iter().sum::<f64>() >= 1.0 && gammas.iter().filter(|g| **g > 0.01).count() < c);
        }
    }
}

#[test]
fn probabilities_sum_to_one_for_any_row() {
    let cpu = Cpu::new();
    for scale in [1.0, 1e4, 1e8, 1e20, 3e37] {
        let far = dataset(random(50 * COLUMNS, 3).iter().map(|x| x * scale).collect());
        if scale == 3e37 {
            // Sums in the networks may overflow, and the result would be that of another row.
            let error = model().assign(&cpu, &far).map(drop).unwrap_err().to_string();
            assert!(error.contains("is beyond what the model can compute"), "{error}");
            continue;
        }
        let found = model().assign(&cpu, &far).unwrap();
        assert_probabilities(&found.probabilities, 3, &format!("rows of size {scale:e}"));
        assert!(found.clusters.iter().all(|&c| c < 3));
        let scores = model().score(&cpu, &far).unwrap();
        assert!(
            scores.iter().all(|s| !s.is_nan() && *s < f64::INFINITY),
            "rows of size {scale:e}: {scores:?}"
        );
    }
    assert_probabilities(&model().assign(&cpu, &dataset(rows())).unwrap().probabilities, 3, "the data");
}

#[test]
fn the_result_of_a_row_depends_only_on_the_row() {
    let cpu = Cpu::new();
    let all = model().assign(&cpu, &dataset(rows())).unwrap();
    let all_scores = model().score(&cpu, &dataset(rows())).unwrap();
    let orders: [Vec<usize>; 4] =
        [(0..ROWS).rev().collect(), (0..ROWS).step_by(7).collect(), vec![511, 0, 512, 0], vec![ROWS - 1]];
    for order in orders {
        let rows = rows();
        let some: Vec<f32> =
            order.iter().flat_map(|&i| rows[i * COLUMNS..(i + 1) * COLUMNS].iter().copied()).collect();
        let (found, scores) = (
            model().assign(&cpu, &dataset(some.clone())).unwrap(),
            model().score(&cpu, &dataset(some)).unwrap(),
        );
        for (index, &i) in order.iter().enumerate() {
            assert_eq!(found.clusters[index], all.clusters[i], "row {i}");
            assert_eq!(
                found.probabilities[3 * index..3 * (index + 1)],
                all.probabilities[3 * i..3 * (i + 1)]
            );
            assert_eq!(scores[index].to_bits(), all_scores[i].to_bits(), "row {i}");
        }
    }
}

#[test]
fn unlike_rows_score_lower() {
    let cpu = Cpu::new();
    let mean = |values: Vec<f32>| {
        let scores = model().score(&cpu, &dataset(values)).unwrap();
        scores.iter().sum::<f64>() / scores.len() as f64
    };
    // Each column keeps its values; the association between columns is lost.
    let key = Key::new(1, Stream::Sample, 0);
    let (known, mut shuffled) = (rows(), rows());
    for (i, c) in (0..ROWS).flat_map(|i| (0..COLUMNS).map(move |c| (i, c))) {
        shuffled[i * COLUMNS + c] = known[key.permute(i, ROWS, c as u64) * COLUMNS + c];
    }
    let far: Vec<f32> = known.iter().map(|x| x + 30.0).collect();
    let (known, shuffled, far) = (mean(known), mean(shuffled), mean(far));
    assert!(known > shuffled + 3.0 && known > far + 3.0, "{known}, {shuffled}, {far}");
}

#[test]
fn generated_rows_are_assigned_to_their_cluster() {
    let cpu = Cpu::new();
    for cluster in 0..3 {
        let generated = model().generate(&cpu, Some(cluster), 200, 5, pervade::model::Cells::Auto).unwrap();
        assert!(generated.clusters.iter().all(|&c| c as usize == cluster));
        let found = model().assign(&cpu, &dataset(generated.rows)).unwrap().clusters;
        let back = found.iter().filter(|&&c| c as usize == cluster).count();
        assert!(back > 180, "{back} of 200 rows go back to cluster {cluster}");
    }
    let any = model().generate(&cpu, None, 300, 5, pervade::model::Cells::Auto).unwrap();
    assert!((0..3).all(|c| any.clusters.contains(&c)), "all clusters are drawn");
    assert_eq!(any, model().generate(&cpu, None, 300, 5, pervade::model::Cells::Auto).unwrap());
    assert_ne!(any.rows, model().generate(&cpu, None, 300, 6, pervade::model::Cells::Auto).unwrap().rows);
    let error = model().generate(&cpu, Some(3), 1, 0, pervade::model::Cells::Auto).unwrap_err().to_string();
    assert_eq!(error, "`cluster` is 3, must be below 3, the number of clusters");
}

/// The model in double precision, from its file: a second implementation of its arithmetic.
struct Twin {
    arrays: HashMap<String, Vec<f64>>,
    variance: Option<f64>,
    n_latents: usize,
}

impl Twin {
    fn new(model: &Vade) -> Self {
        let bytes = model.to_bytes().unwrap();
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let floats = |data: &[u8]| {
            data.chunks_exact(4).map(|b| f64::from(f32::from_le_bytes(b.try_into().unwrap()))).collect()
        };
        let arrays = tensors.iter().map(|(name, view)| (name.to_string(), floats(view.data()))).collect();
        let variance = match model.metadata().likelihood {
            pervade::compute::Likelihood::GaussianFixed { variance } => Some(f64::from(variance)),
            _ => None,
        };
        Self { arrays, variance, n_latents: model.n_latents() }
    }

    fn layer(&self, name: &str, x: &[f64], relu: bool) -> Vec<f64> {
        let (weight, bias) = (&self.arrays[&format!("{name}.weight")], &self.arrays[&format!("{name}.bias")]);
        let m = bias.len();
        let at = |j: usize| bias[j] + x.iter().enumerate().map(|(i, x)| x * weight[i * m + j]).sum::<f64>();
        (0..m).map(|j| if relu { at(j).max(0.0) } else { at(j) }).collect()
    }

    /// Applies the two hidden layers and the output layer.
    fn network(&self, part: &str, last: &str, x: &[f64]) -> Vec<f64> {
        let hidden = self.layer(&format!("{part}.1"), &self.layer(&format!("{part}.0"), x, true), true);
        self.layer(last, &hidden, false)
    }

    fn log_likelihood(&self, x: &[f64], z: &[f64]) -> f64 {
        let output = self.network("decoder", "decoder.output", z);
        let column = |(x, o): (&f64, &f64)| match self.variance {
            Some(v) => -0.5 * ((std::f64::consts::TAU * v).ln() + (x - o).powi(2) / v),
            None => x * o - o.max(0.0) - (-o.abs()).exp().ln_1p(),
        };
        x.iter().zip(&output).map(column).sum()
    }

    /// Log joint of each component at a point with extra variances.
    fn log_joints(&self, model: &Vade, point: &[f64], variances: &[f64]) -> Vec<f64> {
        let (weights, means, component_variances) = model.components();
        let j = self.n_latents;
        let each = |m: usize| {
            let columns = (0..j).map(|k| {
                let v = component_variances[m * j + k];
                (std::f64::consts::TAU * v).ln() + (variances[k] + (point[k] - means[m * j + k]).powi(2)) / v
            });
            weights[m].ln() - 0.5 * columns.sum::<f64>()
        };
        (0..weights.len()).map(each).collect()
    }
}

fn log_sum_exp(values: &[f64]) -> f64 {
    let greatest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    greatest + values.iter().map(|v| (v - greatest).exp()).sum::<f64>().ln()
}

/// For one prepared row: the score, the ELBO with its standard error, and log p(x) by importance sampling.
fn bounds(twin: &Twin, model: &Vade, x: &[f64], row: usize) -> (f64, f64, f64, f64) {
    const SAMPLES: usize = 1000;
    let (j, key) = (twin.n_latents, Key::new(9, Stream::Score, 0));
    let head = twin.network("encoder", "encoder.head", x);
    let (mean, variances) = (&head[..j], head[j..].iter().map(|l| l.exp()).collect::<Vec<f64>>());
    let entropy: f64 = head[j..].iter().map(|l| 0.5 * (1.0 + std::f64::consts::TAU.ln() + l)).sum();
    let prior = log_sum_exp(&twin.log_joints(model, mean, &variances));
    let (mut reconstructions, mut log_weights) = (Vec::new(), Vec::new());
    for sample in 0..SAMPLES {
        let eps: Vec<f64> = (0..j)
            .map(|k| {
                let uniform = |draw: u32| key.uniform(sample as u64, (row * j + k) as u32, draw);
                (-2.0 * (1.0 - uniform(0)).ln()).sqrt() * (std::f64::consts::TAU * uniform(1)).cos()
            })
            .collect();
        let z: Vec<f64> = (0..j).map(|k| mean[k] + variances[k].sqrt() * eps[k]).collect();
        let log_q: f64 =
            (0..j).map(|k| -0.5 * ((std::f64::consts::TAU * variances[k]).ln() + eps[k] * eps[k])).sum();
        let log_x = twin.log_likelihood(x, &z);
        reconstructions.push(log_x);
        log_weights.push(log_x + log_sum_exp(&twin.log_joints(model, &z, &vec![0.0; j])) - log_q);
    }
    let n = SAMPLES as f64;
    let average = reconstructions.iter().sum::<f64>() / n;
    let spread = reconstructions.iter().map(|r| (r - average).powi(2)).sum::<f64>() / n;
    let score = twin.log_likelihood(x, mean) + prior + entropy;
    (score, average + prior + entropy, (spread / n).sqrt(), log_sum_exp(&log_weights) - n.ln())
}

/// The exact ELBO is below the log likelihood, and `score` follows its definition.
#[test]
fn elbo_is_a_lower_bound() {
    let unit: Vec<f32> = rows().iter().map(|x| (x + 3.0) / 26.0).collect();
    let bernoulli = settings().with(|s| s.likelihood = LikelihoodKind::Bernoulli);
    let unit_model = crate::common::fit(&dataset(unit.clone()), bernoulli).model;
    for (model, values) in [(model(), rows()), (&unit_model, unit)] {
        let twin = Twin::new(model);
        let scores = model.score(&Cpu::new(), &dataset(values.clone())).unwrap();
        let (data, mut gaps) = (dataset(values), Vec::new());
        let mut prepared = vec![0.0; COLUMNS];
        for row in (0..ROWS).step_by(30) {
            model.metadata().preparation.prepared_row_into(&data, row, &mut prepared);
            let x: Vec<f64> = prepared.iter().map(|&x| f64::from(x)).collect();
            let (score, elbo, error, log_likelihood) = bounds(&twin, model, &x, row);
            let same = (scores[row] - score).abs() < 1e-4 * score.abs().max(1.0);
            assert!(same, "row {row}: score {}, expected {score}", scores[row]);
            // Five standard errors of the reconstruction: the rest of the ELBO is exact.
            assert!(elbo <= log_likelihood + 5.0 * error, "row {row}: {elbo} above {log_likelihood}");
            gaps.push(log_likelihood - elbo);
        }
        let gap = gaps.iter().sum::<f64>() / gaps.len() as f64;
        assert!(gap > 0.0, "a bound that is tight everywhere is no bound of this model: {gap}");
    }
}
