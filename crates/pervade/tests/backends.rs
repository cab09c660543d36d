//! Every operation on every instruction set, from one list of cases: agreement with its definition
//! in double precision, and the same bytes whatever the instructions and the number of threads.
//!
//! Errors are relative to the largest expected value. A sum of n products in single precision is
//! off by about 6e-8 sqrt(n) of it: 1e-6 covers n of a few hundred.

mod common;

use common::ops::*;
use pervade::compute::cpu::simd::Isa;
use pervade::compute::prelude::*;
use pervade::compute::*;
use pervade::data::{Csr, Dataset, Preparation, PrepareKind, Values};
use pervade::seed::Stream;

/// What an operation gives on a device, and what it should give.
struct Case {
    name: String,
    tolerance: f64,
    run: Box<dyn Fn(&Cpu) -> Floats + Sync>,
    expected: Vec<f64>,
}

fn case(
    name: String,
    tolerance: f64,
    expected: Vec<f64>,
    run: impl Fn(&Cpu) -> Floats + Sync + 'static,
) -> Case {
    Case { name, tolerance, run: Box::new(run), expected }
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&x| f64::from(x)).collect()
}

/// C(m, n) = sum over k of a(m, k) b(k, n).
fn product(
    m: usize,
    k: usize,
    n: usize,
    a: impl Fn(usize, usize) -> f64,
    b: impl Fn(usize, usize) -> f64,
) -> Vec<f64> {
    (0..m * n).map(|i| (0..k).map(|l| a(i / n, l) * b(l, i % n)).sum()).collect()
}

/// B, inputs, outputs: single numbers, less than a vector, odd rests, and the paper's first layer.
const SHAPES: [[usize; 3]; 6] =
    [[1, 1, 1], [7, 3, 5], [31, 127, 33], [13, 64, 70], [300, 20, 16], [100, 784, 500]];
const PRODUCT: f64 = 2e-6;

fn affine_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for [b, n, m] in SHAPES {
        let (layout, layer) = one_layer(n, m);
        let (x, dy) = (random_matrix(1, b, n, 1), random_matrix(1, b, m, 2));
        let values = params(1, &layout, 3).values;
        let (w, bias) = (wide(&values[layer.weight.range()]), wide(&values[layer.bias.range()]));
        let (x64, dy64) = (wide(&x.data), wide(&dy.data));
        let xw = product(b, n, m, |i, l| x64[i * n + l], |l, j| w[l * m + j]);
        let linear: Vec<f64> = xw.iter().enumerate().map(|(i, y)| y + bias[i % m]).collect();
        let relu = linear.iter().map(|y| y.max(0.0)).collect();
        let mut weights = vec![0.0; layout.len()];
        let dw = product(n, b, m, |i, l| x64[l * n + i], |l, j| dy64[l * m + j]);
        weights[layer.weight.range()].copy_from_slice(&dw);
        (0..b * m).for_each(|i| weights[layer.bias.offset + i % m] += dy64[i]);
        let dx = product(b, m, n, |i, l| dy64[i * m + l], |l, j| w[j * m + l]);
        let masked = dx.iter().zip(&x64).map(|(d, x)| if *x > 0.0 { *d } else { 0.0 }).collect();
        for (activation, expected) in [(Activation::Linear, linear), (Activation::Relu, relu)] {
            let (x, values) = (x.clone(), values.clone());
            cases.push(case(format!("affine {activation:?} {b}x{n}x{m}"), PRODUCT, expected, move |cpu| {
                let mut y = zeros(1, b, m);
                cpu.affine(&Params::fixed(cpu, &values).unwrap(), layer, &x, activation, &mut y).unwrap();
                y.data
            }));
        }
        let (x1, dy1) = (x.clone(), dy.clone());
        cases.push(case(format!("affine weights {b}x{n}x{m}"), PRODUCT, weights, move |cpu| {
            let mut p = Params::zeros(cpu, 1, layout.len()).unwrap();
            cpu.affine_backward_weights(&mut p, layer, &x1, &dy1, None).unwrap();
            p.gradients
        }));
        for (mask, expected) in [(false, dx), (true, masked)] {
            let (x, dy, values) = (x.clone(), dy.clone(), values.clone());
            cases.push(case(format!("affine input {b}x{n}x{m} {mask}"), PRODUCT, expected, move |cpu| {
                let (p, mut dx) = (Params::fixed(cpu, &values).unwrap(), zeros(1, b, n));
                cpu.affine_backward_input(&p, layer, &dy, mask.then_some(&x), &mut dx).unwrap();
                dx.data
            }));
        }
    }
    cases
}

/// Sparse rows with an empty one among them.
fn sparse(n_rows: usize, d: usize) -> Dataset<'static> {
    let (mut starts, mut columns) = (vec![0], Vec::new());
    for row in 0..n_rows {
        columns.extend((0..d as u32).filter(|c| row != 1 && (*c as usize * 7 + row).is_multiple_of(3)));
        starts.push(columns.len());
    }
    let values = random(columns.len(), 5);
    Dataset::new(n_rows, d, Values::Csr(Csr::new(starts, columns, values, d).unwrap()), "sparse rows")
        .unwrap()
}

fn sparse_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for [b, d, m] in [[5, 9, 3], [40, 50, 130]] {
        let (layout, layer) = one_layer(d, m);
        let dy = random_matrix(1, b, m, 2);
        let (values, dy64) = (params(1, &layout, 3).values, wide(&dy.data));
        let (w, bias) = (wide(&values[layer.weight.range()]), wide(&values[layer.bias.range()]));
        let mut x = vec![0.0; b * d];
        let data = sparse(b, d);
        (0..b).for_each(|i| data.row_into(i, &mut x[i * d..(i + 1) * d]));
        let x = wide(&x);
        let xw = product(b, d, m, |i, l| x[i * d + l], |l, j| w[l * m + j]);
        let forward = xw.iter().enumerate().map(|(i, y)| (y + bias[i % m]).max(0.0)).collect();
        let mut weights = vec![0.0; layout.len()];
        let dw = product(d, b, m, |i, l| x[l * d + i], |l, j| dy64[l * m + j]);
        weights[layer.weight.range()].copy_from_slice(&dw);
        (0..b * m).for_each(|i| weights[layer.bias.offset + i % m] += dy64[i]);
        cases.push(case(format!("sparse affine {b}x{d}x{m}"), PRODUCT, forward, move |cpu| {
            let (data, mut y) = (sparse(b, d), zeros(1, b, m));
            let preparation = Preparation::fit(PrepareKind::None, &data).unwrap();
            let rows = cpu.rows(data.view(&preparation)).unwrap();
            let mut batch = cpu.batch(&rows, 1, b).unwrap();
            cpu.gather(&rows, RowSelection::Range { first: 0 }, &mut batch).unwrap();
            let p = Params::fixed(cpu, &values).unwrap();
            cpu.input_affine(&p, layer, &rows, &batch, Activation::Relu, &mut y).unwrap();
            y.data
        }));
        cases.push(case(format!("sparse weights {b}x{d}x{m}"), PRODUCT, weights, move |cpu| {
            let data = sparse(b, d);
            let preparation = Preparation::fit(PrepareKind::None, &data).unwrap();
            let rows = cpu.rows(data.view(&preparation)).unwrap();
            let mut batch = cpu.batch(&rows, 1, b).unwrap();
            cpu.gather(&rows, RowSelection::Range { first: 0 }, &mut batch).unwrap();
            let mut p = Params::zeros(cpu, 1, layout.len()).unwrap();
            cpu.input_affine_backward(&mut p, layer, &rows, &batch, &dy, None).unwrap();
            p.gradients
        }));
    }
    cases
}

/// Box and Muller in double precision.
fn normal(words: [u32; 4], column: usize) -> f64 {
    let (a, b) = (words[column % 4 / 2 * 2], words[column % 4 / 2 * 2 + 1]);
    let radius = (-2.0 * ((f64::from(a >> 8) + 1.0) / 16_777_216.0).ln()).sqrt();
    let angle = f64::from(b) / 4_294_967_296.0 * std::f64::consts::TAU;
    radius * if column.is_multiple_of(2) { angle.cos() } else { angle.sin() }
}

fn random_number_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for [b, j, samples] in [[1, 1, 1], [9, 10, 1], [50, 7, 3]] {
        let (restarts, step) = (2, (1 << 33) + 7);
        let head = random_matrix(restarts, b, 2 * j, 4);
        let keys = keys(Stream::Latent, restarts);
        let mut expected = Vec::new();
        for place in 0..restarts * samples * b {
            let (restart, place) = (place / (samples * b), place % (samples * b));
            let line = &head.data[(restart * b + place % b) * 2 * j..][..2 * j];
            expected.extend((0..j).map(|c| {
                let words = keys[restart].draw(step, place as u32, c as u32 / 4);
                f64::from(line[c]) + (0.5 * f64::from(line[j + c])).exp() * normal(words, c)
            }));
        }
        let name = format!("latents {b}x{j}x{samples}");
        cases.push(case(name, 5e-7, expected, move |cpu| {
            let mut z = zeros(restarts, samples * b, j);
            cpu.sample_latents(Some(Draw { keys: &keys, step }), &head, &mut z).unwrap();
            z.data
        }));
    }
    let (rows, columns, rate) = (33, 21, 0.3);
    let (x, keys) = (random_matrix(2, rows, columns, 5), keys(Stream::Dropout, 2));
    let expected = (0..x.data.len()).map(|i| {
        let (place, column) = (i / columns, i % columns);
        let word = keys[place / rows].draw(9, (place % rows) as u32, column as u32 / 4)[column % 4];
        // A word below the rate's share of all words drops its number.
        let kept = f64::from(word) >= f64::from(rate) * 4_294_967_296.0 - 1.0;
        if kept { f64::from(x.data[i]) / (1.0 - f64::from(rate)) } else { 0.0 }
    });
    cases.push(case("dropout".into(), 2e-7, expected.collect(), move |cpu| {
        let mut y = zeros(2, rows, columns);
        cpu.dropout(Draw { keys: &keys, step: 9 }, rate, &x, &mut y).unwrap();
        y.data
    }));
    cases
}

/// log p(x|z) of one column and the derivatives of minus it, from the decoder's output.
fn column(family: Likelihood, x: f64, o: f64, l: f64) -> [f64; 3] {
    let ln_tau = std::f64::consts::TAU.ln();
    match family {
        Likelihood::Bernoulli => {
            let logistic = 1.0 / (1.0 + (-o).exp());
            [x * logistic.ln() + (1.0 - x) * (1.0 - logistic).ln(), logistic - x, 0.0]
        }
        Likelihood::Gaussian => {
            let square = (o - x).powi(2) / l.exp();
            [-0.5 * (ln_tau + l + square), (o - x) / l.exp(), 0.5 * (1.0 - square)]
        }
        Likelihood::GaussianFixed { variance } => {
            let v = f64::from(variance);
            [-0.5 * (ln_tau + v.ln() + (o - x).powi(2) / v), (o - x) / v, 0.0]
        }
    }
}

fn likelihood_cases() -> Vec<Case> {
    let families = [Likelihood::Bernoulli, Likelihood::Gaussian, Likelihood::GaussianFixed { variance: 0.7 }];
    let mut cases = Vec::new();
    for (family, [b, d, samples]) in families.into_iter().flat_map(|f| [(f, [1, 1, 1]), (f, [21, 39, 2])]) {
        let x = matrix(1, b, d, random(b * d, 6).iter().map(|x| 0.5 + 0.5 * x).collect());
        let (places, width) = (samples * b, family.n_outputs(d));
        let output = random_matrix(1, places, width, 7);
        let scale = 1.0 / places as f64;
        let (mut total, mut gradient) = (0.0, vec![0.0; places * width]);
        for (place, c) in (0..places).flat_map(|place| (0..d).map(move |c| (place, c))) {
            let at = place * width + c;
            let l = if width == d { 0.0 } else { f64::from(output.data[at + d]) };
            let x = f64::from(x.data[place % b * d + c]);
            let [term, d_output, d_log_variance] = column(family, x, f64::from(output.data[at]), l);
            total += term * scale;
            gradient[at] = d_output * scale;
            if width > d {
                gradient[at + d] = d_log_variance * scale;
            }
        }
        // The term is brought to the gradients' size, or it would hide them.
        let expected = gradient.into_iter().chain([total * scale]).collect();
        let name = format!("{family:?} {b}x{d}x{samples}");
        cases.push(case(name, 1e-6, expected, move |cpu| {
            let (mut output, mut sums) = (output.clone(), cpu.sums(1, output.rows).unwrap());
            cpu.likelihood(&[family], &x, &mut output, &mut sums).unwrap();
            let total = cpu.take_sums(&mut sums).unwrap()[0].reconstruction / b as f64;
            output.data.push((total * scale) as f32);
            output.data
        }));
    }
    cases
}

/// A mixture and latents for the prior, and its definition in double precision.
#[derive(Clone)]
struct Prior {
    b: usize,
    j: usize,
    samples: usize,
    slots: MixtureSlots,
    values: Floats,
    head: Matrix<Floats>,
    z: Matrix<Floats>,
}

impl Prior {
    fn new([b, j, c, samples]: [usize; 4]) -> Self {
        let (layout, slots) = one_mixture(c, j);
        let values = params(1, &layout, 8).values;
        let (head, z) = (random_matrix(1, b, 2 * j, 9), random_matrix(1, samples * b, j, 10));
        Self { b, j, samples, slots, values, head, z }
    }

    fn log_weights(&self) -> Vec<f64> {
        let logits = wide(&self.values[self.slots.logits.range()]);
        let total = logits.iter().map(|l| l.exp()).sum::<f64>().ln();
        logits.iter().map(|l| l - total).collect()
    }

    /// log w + E log N at `point` with the extra variances.
    fn log_joints(&self, point: &[f32], log_variances: Option<&[f32]>) -> Vec<f64> {
        let (means, logs) =
            (&self.values[self.slots.means.range()], &self.values[self.slots.log_variances.range()]);
        let each = |(m, log_weight): (usize, &f64)| {
            let columns = (0..self.j).map(|k| {
                let (mean, l) = (f64::from(means[m * self.j + k]), f64::from(logs[m * self.j + k]));
                let extra = log_variances.map_or(0.0, |v| f64::from(v[k]).exp());
                std::f64::consts::TAU.ln() + l + (extra + (f64::from(point[k]) - mean).powi(2)) / l.exp()
            });
            log_weight - 0.5 * columns.sum::<f64>()
        };
        self.log_weights().iter().enumerate().map(each).collect()
    }

    fn row(&self, i: usize) -> (&[f32], &[f32]) {
        self.head.data[2 * self.j * i..2 * self.j * (i + 1)].split_at(self.j)
    }

    /// Latent, cluster and entropy terms, means over rows.
    fn terms(&self, gamma: Gamma) -> Vec<f64> {
        let (mut terms, log_weights) = (vec![0.0; 3], self.log_weights());
        for place in 0..self.b * self.samples {
            let (mean, log_variance) = self.row(place % self.b);
            let expected = self.log_joints(mean, Some(log_variance));
            let logits = match gamma {
                Gamma::Exact => expected.clone(),
                Gamma::Sampled => self.log_joints(&self.z.data[place * self.j..(place + 1) * self.j], None),
            };
            let total = logits.iter().map(|l| l.exp()).sum::<f64>().ln();
            for m in 0..expected.len() {
                let log_gamma = logits[m] - total;
                terms[0] += log_gamma.exp() * (expected[m] - log_weights[m]);
                terms[1] += log_gamma.exp() * (log_weights[m] - log_gamma);
            }
            let entropy = |l: &f32| 0.5 * (1.0 + std::f64::consts::TAU.ln() + f64::from(*l));
            terms[2] += log_variance.iter().map(entropy).sum::<f64>();
        }
        terms.iter().map(|t| t / (self.b * self.samples) as f64).collect()
    }
}

fn prior_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for shape in [[1, 1, 1, 1], [60, 3, 11, 2], [26, 10, 150, 1]] {
        for gamma in [Gamma::Exact, Gamma::Sampled] {
            let prior = Prior::new(shape);
            let exact = gamma == Gamma::Exact;
            let joints = (0..prior.b).flat_map(|i| {
                let (mean, log_variance) = prior.row(i);
                prior.log_joints(mean, exact.then_some(log_variance))
            });
            let (joints, p) = (joints.collect(), prior.clone());
            cases.push(case(format!("log joint {gamma:?} {shape:?}"), 5e-7, joints, move |cpu| {
                let mut out = zeros(1, p.b, p.slots.n_components());
                let params = Params::fixed(cpu, &p.values).unwrap();
                cpu.log_joint(gamma, &params, p.slots, &p.head, &mut out).unwrap();
                out.data
            }));
            let terms = prior.terms(gamma);
            let p = prior.clone();
            cases.push(case(format!("prior {gamma:?} {shape:?}"), 1e-6, terms, move |cpu| {
                let terms = run_prior(cpu, gamma, &p).1;
                [terms.latent, terms.cluster, terms.entropy].map(|t| (t / p.b as f64) as f32).to_vec()
            }));
            // Their values are in `gradients.rs` and `oracle_elbo.rs`; here only that all agree.
            let name = format!("prior's gradients {gamma:?} {shape:?}");
            cases.push(case(name, 0.0, Vec::new(), move |cpu| run_prior(cpu, gamma, &prior).0));
        }
    }
    cases
}

/// All gradients, one after the other, and the terms.
fn run_prior(cpu: &Cpu, gamma: Gamma, p: &Prior) -> (Floats, Terms) {
    let mut params = Params::zeros(cpu, 1, p.values.len()).unwrap();
    params.values.copy_from_slice(&p.values);
    let (mut d_head, mut dz) = (zeros(1, p.b, 2 * p.j), zeros(1, p.samples * p.b, p.j));
    let (mut scratch, mut sums) =
        (cpu.prior_scratch(1, p.b, p.samples * p.b, p.slots).unwrap(), cpu.sums(1, p.samples * p.b).unwrap());
    cpu.prior(gamma, &mut params, p.slots, &p.head, &p.z, &mut scratch, &mut d_head, &mut dz, &mut sums)
        .unwrap();
    ([params.gradients, d_head.data, dz.data].concat(), cpu.take_sums(&mut sums).unwrap()[0])
}

/// Two groups over more numbers than a task takes; the definition is `make_adam.py`'s business.
fn adam_case() -> Case {
    let n = 40_000;
    case("adam".into(), 0.0, Vec::new(), move |cpu| {
        let mut p = Params::zeros(cpu, 2, n).unwrap();
        (p.values, p.gradients) = (random(2 * n, 11), random(2 * n, 12));
        for step in 1..4 {
            for (group, (range, learning_rate)) in
                [(0..n - 1000, 1e-3), (n - 900..n, 1e-2)].into_iter().enumerate()
            {
                let step = AdamStep { range, group, learning_rate, step, epsilon: 1e-4 };
                cpu.adam(&mut p, &step).unwrap();
            }
        }
        [p.values, p.first_moments, p.second_moments].concat()
    })
}

/// A layer that takes its step on the way back ends with the very numbers of gradient first, Adam after;
/// dense and sparse input, two restarts.
#[test]
fn an_update_on_the_way_back_is_the_gradient_and_then_adam() {
    for [b, n, m] in SHAPES {
        let ((layout, layer), cpu) = (one_layer(n, m), Cpu::new());
        let (x, dy) = (random_matrix(2, b, n, 1), random_matrix(2, b, m, 2));
        let data = sparse(b.max(2), n);
        let preparation = Preparation::fit(PrepareKind::None, &data).unwrap();
        let rows = cpu.rows(data.view(&preparation)).unwrap();
        let mut batch = cpu.batch(&rows, 2, b).unwrap();
        cpu.gather(&rows, RowSelection::Range { first: 0 }, &mut batch).unwrap();
        let range = 0..layout.len();
        let adam =
            |step| AdamStep { range: range.clone(), group: 0, learning_rate: 1e-2, step, epsilon: 1e-4 };
        for is_input in [false, true] {
            let backward = |p: &mut Params<Floats>, update: Option<&AdamStep>| {
                if is_input {
                    cpu.input_affine_backward(p, layer, &rows, &batch, &dy, update).unwrap();
                } else {
                    cpu.affine_backward_weights(p, layer, &x, &dy, update).unwrap();
                }
            };
            let (mut at_once, mut after) = (params(2, &layout, 3), params(2, &layout, 3));
            for step in 1..4 {
                backward(&mut at_once, Some(&adam(step)));
                backward(&mut after, None);
                cpu.adam(&mut after, &adam(step)).unwrap();
            }
            for slot in [layer.weight, layer.bias].map(|slot| slot.range()) {
                let of = |p: &Params<Floats>| {
                    let buffers = [&p.values, &p.first_moments, &p.second_moments];
                    let starts = [0, layout.len()];
                    let parts =
                        buffers.map(|b| starts.map(|s| b[s + slot.start..s + slot.end].to_vec()).concat());
                    parts.concat().into_iter().map(f32::to_bits).collect::<Vec<_>>()
                };
                assert_eq!(of(&at_once), of(&after), "{b}x{n}x{m}, input {is_input}");
            }
        }
    }
}

#[test]
fn every_operation_on_every_instruction_set() {
    let mut cases = affine_cases();
    cases.extend(sparse_cases());
    cases.extend(random_number_cases());
    cases.extend(likelihood_cases());
    cases.extend(prior_cases());
    cases.push(adam_case());
    let pools = [1, 2].map(|threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap());
    for Case { name, tolerance, run, expected } in cases {
        let mut first: Option<Floats> = None;
        for (isa, pool) in Isa::available().into_iter().flat_map(|isa| pools.iter().map(move |p| (isa, p))) {
            let cpu = Cpu::with_isa(isa).unwrap();
            let ours = pool.install(|| run(&cpu));
            if !expected.is_empty() {
                assert_tensor_close(&ours, &expected, tolerance, &format!("{name} on {isa:?}"));
            }
            let threads = pool.current_num_threads();
            let same = first.get_or_insert_with(|| ours.clone()).iter().zip(&ours);
            let differs = same.clone().position(|(a, b)| a.to_bits() != b.to_bits());
            assert_eq!(differs, None, "{name} on {isa:?}, {threads} threads");
        }
    }
}
