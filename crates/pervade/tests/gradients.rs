//! Every backward operation against central differences of its forward one, on the CPU.
//!
//! A forward pass in single precision is off by about 1e-7 of its size, so a difference over 2h has
//! an error of 1e-7 / h from rounding and of h^2 from curvature: h = 1e-2 makes both about 1e-5 to
//! 1e-4. Operations that are linear have no curvature and take h = 1/4. Entries are compared
//! relative to the largest of their tensor.

mod common;

use common::ops::*;
use pervade::compute::*;
use pervade::config::{CheckedSettings, Clusters, LikelihoodKind, PretrainKind, Recipe, Settings};
use pervade::data::{Csr, Dataset, Preparation, PrepareKind, Values};
use pervade::seed::Stream;
use pervade::train::{JointStep, Pack, Run, Silent, Unwatched, pretrain, start_mixture, train};

const CPU: fn() -> Cpu = Cpu::new;
const LINEAR: (f32, f64) = (0.25, 1e-5);
const CURVED: (f32, f64) = (1e-2, 1e-3);

/// Compares `gradient` with central differences of `loss` around `at`.
fn check(what: &str, (h, tolerance): (f32, f64), at: &[f32], gradient: &[f32], loss: impl Fn(&[f32]) -> f64) {
    assert_eq!(at.len(), gradient.len(), "{what}");
    let mut point = at.to_vec();
    let differences: Vec<f64> = (0..at.len())
        .map(|i| {
            let (up, down) = (at[i] + h, at[i] - h);
            point[i] = up;
            let above = loss(&point);
            point[i] = down;
            let below = loss(&point);
            point[i] = at[i];
            (above - below) / (f64::from(up) - f64::from(down))
        })
        .collect();
    assert!(largest(differences.iter().copied()) > 0.0, "{what}: the loss does not move");
    assert_tensor_close(gradient, &differences, tolerance, what);
}

/// Sum of w y: a loss whose gradient with respect to y is w.
fn weighted(w: &[f32], y: &[f32]) -> f64 {
    w.iter().zip(y).map(|(&w, &y)| f64::from(w) * f64::from(y)).sum()
}

fn with_values(params: &Params<Floats>, values: &[f32]) -> Params<Floats> {
    let mut other = Params::fixed(&CPU(), values).unwrap();
    (other.restarts, other.stride) = (params.restarts, params.stride);
    other
}

/// Numbers at least 0.3 away from zero, so that a step of 1/4 never crosses the ReLU's kink.
fn away_from_zero(n: usize, salt: u32) -> Floats {
    random(n, salt).iter().map(|x| x + 0.3f32.copysign(*x)).collect()
}

#[test]
fn affine_weights_bias_and_input() {
    let (b, n, m) = (5, 7, 6);
    let (layout, layer) = one_layer(n, m);
    let (x, w) = (random_matrix(1, b, n, 1), random_matrix(1, b, m, 2));
    let mut p = params(1, &layout, 3);
    let y = |p: &Params<Floats>, x: &Matrix<Floats>| {
        let mut y = zeros(1, b, m);
        CPU().affine(p, layer, x, Activation::Linear, &mut y).unwrap();
        weighted(&w.data, &y.data)
    };
    CPU().affine_backward_weights(&mut p, layer, &x, &w, None).unwrap();
    check("weights and bias", LINEAR, &p.values, &p.gradients, |v| y(&with_values(&p, v), &x));
    let mut dx = zeros(1, b, n);
    CPU().affine_backward_input(&p, layer, &w, None, &mut dx).unwrap();
    check("input", LINEAR, &x.data, &dx.data, |v| y(&p, &matrix(1, b, n, v.to_vec())));

    let before_relu = away_from_zero(b * n, 4);
    let relu = |v: &[f32]| matrix(1, b, n, v.iter().map(|x| x.max(0.0)).collect());
    CPU().affine_backward_input(&p, layer, &w, Some(&relu(&before_relu)), &mut dx).unwrap();
    check("input behind a ReLU", LINEAR, &before_relu, &dx.data, |v| y(&p, &relu(v)));
}

/// The same table dense and as sparse rows: two thirds of the entries are zero, row 2 all of them.
fn dense_and_sparse(n_rows: usize, d: usize) -> [Dataset<'static>; 2] {
    let mut dense = random(n_rows * d, 6);
    let absent = |i: usize| !i.is_multiple_of(3) || i / d == 2;
    dense.iter_mut().enumerate().filter(|(i, _)| absent(*i)).for_each(|(_, x)| *x = 0.0);
    let (mut starts, mut columns, mut values) = (vec![0], Vec::new(), Vec::new());
    for row in dense.chunks(d) {
        let entries = row.iter().enumerate().filter(|(_, x)| **x != 0.0);
        entries.for_each(|(column, &x)| {
            columns.push(column as u32);
            values.push(x);
        });
        starts.push(columns.len());
    }
    let csr = Csr::new(starts, columns, values, d).unwrap();
    let sparse = Dataset::new(n_rows, d, Values::Csr(csr), "sparse rows").unwrap();
    [Dataset::from_rows(n_rows, d, dense).unwrap(), sparse]
}

#[test]
fn input_affine_dense_and_sparse() {
    let (b, d, m) = (6, 10, 70); // 70 outputs: more than one stripe of the sparse gradient
    for kind in [PrepareKind::None, PrepareKind::UnitRange, PrepareKind::Standardise, PrepareKind::RowNorm] {
        for data in dense_and_sparse(8, d) {
            let Ok(preparation) = Preparation::fit(kind, &data) else { continue };
            let what = format!("{kind} {}", data.source());
            let rows = CPU().rows(&data, &preparation).unwrap();
            let mut batch = CPU().batch(&rows, 1, b).unwrap();
            CPU().gather(&rows, Pick::Range { first: 1 }, &mut batch).unwrap();
            let (layout, layer) = one_layer(d, m);
            let (mut p, w) = (params(1, &layout, 7), random_matrix(1, b, m, 8));
            // What was there before must not count: gradients are set, not added to.
            p.gradients.fill(9.0);
            CPU().input_affine_backward(&mut p, layer, &rows, &batch, &w, None).unwrap();
            let padding = |i: usize| !layer.weight.range().contains(&i) && !layer.bias.range().contains(&i);
            (0..p.stride).filter(|&i| padding(i)).for_each(|i| p.gradients[i] = 0.0);
            check(&what, LINEAR, &p.values, &p.gradients, |v| {
                let mut y = zeros(1, b, m);
                let p = with_values(&p, v);
                CPU().input_affine(&p, layer, &rows, &batch, Activation::Linear, &mut y).unwrap();
                weighted(&w.data, &y.data)
            });
        }
    }
}

#[test]
fn sampled_latents() {
    let (b, j, samples) = (4, 5, 3);
    let mut head = random_matrix(1, b, 2 * j, 10);
    // Beyond the bounds no gradient passes.
    (head.data[j], head.data[3 * j + 2]) = (25.0, -25.0);
    let keys = keys(Stream::Latent, 1);
    let w = random_matrix(1, samples * b, j, 11);
    let sample = |head: &[f32]| {
        let mut z = zeros(1, samples * b, j);
        let draw = Draw { keys: &keys, step: 1 << 40 };
        CPU().sample_latents(Some(draw), &matrix(1, b, 2 * j, head.to_vec()), &mut z).unwrap();
        z
    };
    let mut d_head = matrix(1, b, 2 * j, vec![0.5; b * 2 * j]);
    CPU().sample_latents_backward(&head, &sample(&head.data), &w, None, &mut d_head).unwrap();
    // The share is added to what is there.
    let share: Floats = d_head.data.iter().map(|d| d - 0.5).collect();
    // A standard deviation of e^10 leaves no digits for its mean: that latent is tested at its bound only.
    let loss = |v: &[f32]| weighted(&w.data, &sample(v).data);
    assert_eq!((share[j], share[3 * j + 2]), (0.0, 0.0));
    head.data[j] = 0.3;
    let mut d_head = zeros(1, b, 2 * j);
    CPU().sample_latents_backward(&head, &sample(&head.data), &w, None, &mut d_head).unwrap();
    check("head", CURVED, &head.data, &d_head.data, loss);
}

#[test]
fn dropout() {
    let (b, n) = (5, 9);
    let keys = keys(Stream::Dropout, 1);
    let draw = Draw { keys: &keys, step: 3 };
    let (x, w) = (random_matrix(1, b, n, 12), random_matrix(1, b, n, 13));
    let forward = |v: &[f32]| {
        let mut y = zeros(1, b, n);
        CPU().dropout(draw, 0.3, &matrix(1, b, n, v.to_vec()), &mut y).unwrap();
        weighted(&w.data, &y.data)
    };
    let mut dy = matrix(1, b, n, w.data.clone());
    CPU().dropout_backward(draw, 0.3, &mut dy).unwrap();
    check("dropout", LINEAR, &x.data, &dy.data, forward);
    let dropped = dy.data.iter().filter(|d| **d == 0.0).count();
    assert!((5..25).contains(&dropped), "{dropped} of 45 are dropped at a rate of 0.3");
}

#[test]
fn likelihoods() {
    let (b, d, samples) = (4, 19, 2); // 19 columns: more than one group of lanes, and a rest
    let x = matrix(1, b, d, random(b * d, 14).iter().map(|x| 0.5 + 0.5 * x).collect());
    for family in [Likelihood::Bernoulli, Likelihood::Gaussian, Likelihood::GaussianFixed { variance: 0.7 }] {
        let columns = family.n_outputs(d);
        let mut at: Floats = random(samples * b * columns, 15).iter().map(|x| 2.0 * x).collect();
        if family == Likelihood::Gaussian {
            // Beyond the bounds no gradient passes.
            (at[d + 1], at[columns + d + 2]) = (10.5, -10.5);
        }
        let run = |at: &[f32]| {
            let mut output = matrix(1, samples * b, columns, at.to_vec());
            let mut sums = CPU().sums(1, output.rows).unwrap();
            CPU().likelihood(&[family], &x, &mut output, &mut sums).unwrap();
            (-CPU().take_sums(&mut sums).unwrap()[0].reconstruction / b as f64, output.data)
        };
        let gradient = run(&at).1;
        if family == Likelihood::Gaussian {
            // A variance of e^-10 makes the loss so large that differences of others drown in it.
            assert_eq!((gradient[d + 1], gradient[columns + d + 2]), (0.0, 0.0));
            (at[d + 1], at[columns + d + 2]) = (0.5, -0.5);
        }
        check(&format!("{family:?}"), CURVED, &at, &run(&at).1, |v| run(v).0);
    }
}

/// Each restart has a noise variance of its own.
#[test]
fn likelihoods_of_restarts() {
    let (b, d) = (5, 19);
    let (x, output) = (random_matrix(2, b, d, 22), random_matrix(2, b, d, 23));
    let families = [0.3, 1.7].map(|variance| Likelihood::GaussianFixed { variance });
    let run = |families: &[Likelihood], x: Matrix<Floats>, mut output: Matrix<Floats>| {
        let mut sums = CPU().sums(families.len(), output.rows).unwrap();
        CPU().likelihood(families, &x, &mut output, &mut sums).unwrap();
        (output.data, CPU().take_sums(&mut sums).unwrap())
    };
    let together = run(&families, x.clone(), output.clone());
    for restart in 0..2 {
        let part = restart * b * d..(restart + 1) * b * d;
        let only = |m: &Matrix<Floats>| matrix(1, b, d, m.data[part.clone()].to_vec());
        let alone = run(&families[restart..=restart], only(&x), only(&output));
        assert_eq!((&together.0[part.clone()], together.1[restart]), (&alone.0[..], alone.1[0]));
    }
}

#[test]
fn prior_of_both_gammas() {
    // 30 rows are two tasks, 11 components more than one group of lanes, each with a rest.
    let (b, j, c, samples) = (30, 3, 11, 2);
    let (layout, slots) = one_mixture(c, j);
    let (head, z) = (random_matrix(1, b, 2 * j, 16), random_matrix(1, samples * b, j, 17));
    let p = params(1, &layout, 18);
    for gamma in [Gamma::Exact, Gamma::Sampled] {
        let run = |values: &[f32], head: &[f32], z: &[f32]| {
            let mut p = with_values(&p, values);
            p.gradients = vec![0.0; p.stride];
            let (head, z) = (matrix(1, b, 2 * j, head.to_vec()), matrix(1, samples * b, j, z.to_vec()));
            let (mut d_head, mut dz) = (random_matrix(1, b, 2 * j, 1), random_matrix(1, samples * b, j, 2));
            let mut scratch = CPU().prior_scratch(1, b, z.rows, slots).unwrap();
            let mut sums = CPU().sums(1, z.rows).unwrap();
            CPU()
                .prior(gamma, &mut p, slots, &head, &z, &mut scratch, &mut d_head, &mut dz, &mut sums)
                .unwrap();
            let loss = -CPU().take_sums(&mut sums).unwrap()[0].elbo() / b as f64;
            (loss, p.gradients, d_head.data, dz.data)
        };
        let (_, gradients, d_head, dz) = run(&p.values, &head.data, &z.data);
        for (name, slot) in layout.slots() {
            let what = format!("{gamma:?} {name}");
            check(&what, CURVED, &p.values[slot.range()], &gradients[slot.range()], |v| {
                let mut values = p.values.clone();
                values[slot.range()].copy_from_slice(v);
                run(&values, &head.data, &z.data).0
            });
        }
        let loss = |v: &[f32]| run(&p.values, v, &z.data).0;
        check(&format!("{gamma:?} head"), CURVED, &head.data, &d_head, loss);
        if gamma == Gamma::Sampled {
            check("z", CURVED, &z.data, &dz, |v| run(&p.values, &head.data, v).0);
        } else {
            assert!(dz.iter().all(|&d| d == 0.0), "the exact prior does not look at z");
        }
    }
}

#[test]
fn soft_clusters() {
    let (r, b, j, c) = (2, 7, 3, 5);
    let (layout, slots) = one_mixture(c, j);
    let (p, z) = (params(r, &layout, 24), random_matrix(r, b, j, 25));
    let mut targets = matrix(r, b, c, random(r * b * c, 26).iter().map(|x| x.abs()).collect());
    for row in targets.data.chunks_mut(c) {
        // A target of zero has no logarithm and must not count.
        row[1] = 0.0;
        let total: f32 = row.iter().sum();
        row.iter_mut().for_each(|x| *x /= total);
    }
    let run = |values: &[f32], z: &[f32]| {
        let mut p = with_values(&p, values);
        p.gradients = vec![0.0; values.len()];
        let (mut pulls, mut dz) = (zeros(r, b, c), random_matrix(r, b, j, 1));
        let mut sums = CPU().sums(r, b).unwrap();
        let z = matrix(r, b, j, z.to_vec());
        CPU().soft_clusters(&mut p, slots, &targets, &z, &mut pulls, &mut dz, &mut sums).unwrap();
        let terms = CPU().take_sums(&mut sums).unwrap();
        (-terms.iter().map(Terms::elbo).sum::<f64>() / b as f64, p.gradients, dz.data)
    };
    let (_, gradients, dz) = run(&p.values, &z.data);
    check("means", CURVED, &p.values, &gradients, |v| run(v, &z.data).0);
    check("z", CURVED, &z.data, &dz, |v| run(&p.values, v).0);
}

#[test]
fn softmax_of_some_columns() {
    let (r, b, columns, n) = (2, 3, 7, 4);
    let (x, w) = (random_matrix(r, b, columns, 27), random_matrix(r, b, columns, 28));
    let forward = |v: &[f32]| {
        let mut y = matrix(r, b, columns, v.to_vec());
        CPU().softmax(n, &mut y).unwrap();
        y
    };
    let y = forward(&x.data);
    for (y, x) in y.data.chunks(columns).zip(x.data.chunks(columns)) {
        assert!((y[..n].iter().sum::<f32>() - 1.0).abs() < 1e-6 && y[n..] == x[n..]);
    }
    let mut dy = w.clone();
    CPU().softmax_backward(n, &y, &mut dy).unwrap();
    check("softmax", CURVED, &x.data, &dy.data, |v| weighted(&w.data, &forward(v).data));
    // Logits beyond what the exponential holds.
    let far = forward(&[1e4, -1e4, 0.0, 1e4 - 1.0, 5.0, 6.0, 7.0].repeat(r * b));
    assert!(far.data.iter().all(|y| y.is_finite()) && far.data[0] > 0.7);
}

#[test]
fn columns_side_by_side() {
    let (x, mut y) = (random_matrix(2, 3, 5, 29), zeros(2, 7, 6));
    CPU().copy_columns(&x, 1..4, &mut y, [4, 2]).unwrap();
    let wanted = |place: usize| {
        let (restart, row, column) = (place / 42, place / 6 % 7, place % 6);
        let inside = row >= 4 && (2..5).contains(&column);
        if inside { x.data[(restart * 3 + row - 4) * 5 + column - 1] } else { 0.0 }
    };
    assert!((0..y.data.len()).all(|place| y.data[place] == wanted(place)));
    let mut z = zeros(2, 2, 4);
    CPU().copy_block(&y, 4..6, 2..5, &mut z, [0, 1]).unwrap();
    let wanted = |place: usize| {
        let (restart, row, column) = (place / 8, place / 4 % 2, place % 4);
        if column > 0 { x.data[(restart * 3 + row) * 5 + column] } else { 0.0 }
    };
    assert!((0..z.data.len()).all(|place| z.data[place] == wanted(place)));
}

/// Weights of a stick and their gradient: drawn, and at the fractions' means.
#[test]
fn sticks() {
    let (r, b, j) = (2, 3, 6);
    let mut head = matrix(r, b, 2 * j, random(r * b * 2 * j, 30).iter().map(|x| 2.0 * x).collect());
    let (keys, w) = (keys(Stream::Latent, r), random_matrix(r, b, j, 31));
    for draw in [None, Some(Draw { keys: &keys, step: 1 << 35 })] {
        let forward = |v: &[f32]| {
            let mut weights = zeros(r, b, j);
            CPU().stick_breaking(draw, &matrix(r, b, 2 * j, v.to_vec()), &mut weights).unwrap();
            weights
        };
        for weights in forward(&head.data).data.chunks(j) {
            assert!((weights.iter().sum::<f32>() - 1.0).abs() < 1e-6 && weights.iter().all(|&w| w > 0.0));
        }
        let mut d_head = matrix(r, b, 2 * j, vec![0.25; r * b * 2 * j]);
        CPU().stick_breaking_backward(draw, &head, &w, &mut d_head).unwrap();
        // The share is added to what is there.
        let share: Floats = d_head.data.iter().map(|d| d - 0.25).collect();
        let loss = |v: &[f32]| weighted(&w.data, &forward(v).data);
        check(&format!("sticks, {}", draw.is_some()), CURVED, &head.data, &share, loss);
    }
    // Far beyond the parameters' bounds weights and gradients are numbers, and no gradient passes.
    head.data.iter_mut().enumerate().for_each(|(i, x)| *x = if i % 3 == 0 { -200.0 } else { 1e5 });
    for draw in [None, Some(Draw { keys: &keys, step: 4 })] {
        let (mut weights, mut d_head) = (zeros(r, b, j), zeros(r, b, 2 * j));
        CPU().stick_breaking(draw, &head, &mut weights).unwrap();
        CPU().stick_breaking_backward(draw, &head, &w, &mut d_head).unwrap();
        assert!(weights.data.iter().all(|w| w.is_finite()) && d_head.data.iter().all(|&d| d == 0.0));
    }
}

#[test]
fn prior_of_sticks() {
    let (r, b, j) = (2, 3, 5);
    let head = matrix(r, b, 2 * j, random(r * b * 2 * j, 32).iter().map(|x| 2.0 * x).collect());
    let priors = [StickPrior::Falling { concentration: 5.0 }, StickPrior::Dirichlet { concentration: 0.7 }];
    for prior in priors {
        let run = |v: &[f32]| {
            let (mut d_head, mut sums) = (random_matrix(r, b, 2 * j, 33), CPU().sums(r, b).unwrap());
            CPU().stick_prior(prior, &matrix(r, b, 2 * j, v.to_vec()), &mut d_head, &mut sums).unwrap();
            let terms = CPU().take_sums(&mut sums).unwrap();
            (-terms.iter().map(Terms::elbo).sum::<f64>() / b as f64, d_head.data)
        };
        check(&format!("{prior:?}"), CURVED, &head.data, &run(&head.data).1, |v| run(v).0);
    }
}

#[test]
fn likelihoods_by_shares() {
    let (r, b, d, samples) = (2, 3, 19, 4);
    let x = matrix(r, b, d, random(r * b * d, 34).iter().map(|x| 0.5 + 0.5 * x).collect());
    let shares = matrix(r, b, samples, random(r * b * samples, 35).iter().map(|x| x.abs()).collect());
    let families = [Likelihood::Bernoulli, Likelihood::GaussianFixed { variance: 0.7 }];
    let at = random(r * samples * b * d, 36);
    let run = |at: &[f32], shares: &[f32]| {
        let (mut output, mut d_shares) = (matrix(r, samples * b, d, at.to_vec()), zeros(r, b, samples));
        d_shares.data.fill(0.5);
        let (shares, mut sums) =
            (matrix(r, b, samples, shares.to_vec()), CPU().sums(r, samples * b).unwrap());
        CPU().shared_likelihood(&families, &x, &shares, &mut output, &mut d_shares, &mut sums).unwrap();
        let terms = CPU().take_sums(&mut sums).unwrap();
        // The share is added to what is there.
        d_shares.data.iter_mut().for_each(|d| *d -= 0.5);
        (-terms.iter().map(Terms::elbo).sum::<f64>() / b as f64, output.data, d_shares.data)
    };
    let (_, d_output, d_shares) = run(&at, &shares.data);
    check("output", CURVED, &at, &d_output, |v| run(v, &shares.data).0);
    check("shares", CURVED, &shares.data, &d_shares, |v| run(&at, v).0);
}

#[test]
fn mixtures_as_posteriors() {
    let (r, b, k, j) = (2, 3, 4, 3);
    let (head, noise) = (random_matrix(r, k * b, 2 * j, 37), random(r * k * b * j, 38));
    let weights = |salt: u32| -> Floats {
        let raw = random(r * b * k, salt);
        let row = |raw: &[f32]| raw.iter().map(|x| (0.1 + x.abs()) / 3.0).collect::<Floats>();
        raw.chunks(k).flat_map(row).collect()
    };
    let (shares, drawn) = (weights(39), weights(40));
    // z moves with its component: the noise stays.
    let z = |head: &[f32]| -> Floats {
        let value = |i: usize| {
            let (mean, log_variance) = (head[i / j * 2 * j + i % j], head[i / j * 2 * j + j + i % j]);
            mean + (0.5 * log_variance).exp() * noise[i]
        };
        (0..noise.len()).map(value).collect()
    };
    let run = |head: &[f32], shares: &[f32], drawn: &[f32]| {
        let z = matrix(r, k * b, j, z(head));
        let head = matrix(r, k * b, 2 * j, head.to_vec());
        let [shares, drawn] = [shares, drawn].map(|weights| matrix(r, b, k, weights.to_vec()));
        let mut sums = CPU().sums(r, k * b).unwrap();
        let mut d_head = random_matrix(r, k * b, 2 * j, 1);
        let (mut d_shares, mut d_drawn) = (random_matrix(r, b, k, 2), random_matrix(r, b, k, 3));
        let posterior = PosteriorMixture { head: &head, z: &z, shares: &shares, drawn: &drawn };
        CPU().posterior_mixture(0.5, posterior, &mut d_head, &mut d_shares, &mut d_drawn, &mut sums).unwrap();
        let terms = CPU().take_sums(&mut sums).unwrap();
        let loss = -terms.iter().map(Terms::elbo).sum::<f64>() / b as f64;
        (loss, d_head.data, d_shares.data, d_drawn.data)
    };
    let (_, d_head, d_shares, d_drawn) = run(&head.data, &shares, &drawn);
    check("components", CURVED, &head.data, &d_head, |v| run(v, &shares, &drawn).0);
    check("shares", CURVED, &shares, &d_shares, |v| run(&head.data, v, &drawn).0);
    check("drawn weights", CURVED, &drawn, &d_drawn, |v| run(&head.data, &shares, v).0);
    // A component without weight has none of the entropy, and no gradient that is not a number.
    let mut none = drawn.clone();
    none[0] = 0.0;
    let (loss, .., d_drawn) = run(&head.data, &shares, &none);
    assert!(loss.is_finite() && d_drawn[0] == 0.0 && d_drawn.iter().all(|d| d.is_finite()));
}

/// Small networks on `data`, standing in for any likelihood and gamma.
fn small(data: &Dataset, likelihood: LikelihoodKind, gamma: Gamma) -> CheckedSettings {
    let settings = Settings {
        components: Some(6),
        prepare: Some(PrepareKind::None),
        likelihood,
        gamma,
        samples: 2,
        latents: 3,
        hidden: vec![17, 9],
        batch: 20,
        pretrain_batch: 20,
        pretrain_epochs: Some(2),
        pretrain: PretrainKind::Stacked,
        layer_epochs: 1,
        epochs: Some(2),
        seed: 5,
        ..Settings::recipe(Recipe::Robust, Clusters::Fixed(3))
    };
    settings.check(data).unwrap()
}

/// Along the gradient of each tensor the loss must rise by the gradient's length. ReLUs that switch
/// within the step make the difference inexact, hence 2 %; `oracle_elbo.rs` holds the digits.
#[test]
fn whole_chain() {
    let data = Dataset::from_rows(60, 8, random(60 * 8, 19).iter().map(|x| 0.5 + 0.5 * x).collect()).unwrap();
    for likelihood in [LikelihoodKind::Bernoulli, LikelihoodKind::Gaussian, LikelihoodKind::GaussianFixed] {
        for gamma in [Gamma::Exact, Gamma::Sampled] {
            let (cpu, settings) = (CPU(), small(&data, likelihood, gamma));
            let run = Run::new(&cpu, &data, &settings).unwrap();
            let mut joint = JointStep::new(&run, 0..1).unwrap();
            let mut p = params(1, &run.architecture.layout, 20);
            let mut loss = |p: &mut Params<Floats>| {
                joint.gradients_of_rows(&run, p, 10, 4).unwrap();
                -cpu.take_sums(&mut joint.sums).unwrap()[0].elbo() / 20.0
            };
            loss(&mut p);
            let (at, gradients) = (p.values.clone(), p.gradients.clone());
            for (name, slot) in run.architecture.layout.slots() {
                let gradient = &gradients[slot.range()];
                let length = gradient.iter().map(|&g| f64::from(g).powi(2)).sum::<f64>().sqrt();
                let mut at_distance = |h: f64| {
                    p.values.copy_from_slice(&at);
                    let part = p.values[slot.range()].iter_mut().zip(gradient);
                    part.for_each(|(v, &g)| *v += (h / length * f64::from(g)) as f32);
                    loss(&mut p)
                };
                let rise = (at_distance(2e-3) - at_distance(-2e-3)) / 4e-3;
                let off = (rise / length - 1.0).abs();
                assert!(off < 0.02, "{likelihood:?} {gamma:?} {name}: rises by {rise}, gradient {length}");
            }
        }
    }
}

#[test]
fn restarts_side_by_side_equal_each_alone() {
    for data in dense_and_sparse(60, 12) {
        for gamma in [Gamma::Exact, Gamma::Sampled] {
            let kind = LikelihoodKind::Gaussian;
            let (cpu, settings) = (CPU(), small(&data, kind, gamma));
            let run = Run::new(&cpu, &data, &settings).unwrap();
            let both = params(2, &run.architecture.layout, 21);
            let gradients = |restarts: std::ops::Range<usize>, values: &[f32]| {
                let mut p = Params::zeros(&cpu, restarts.len(), both.stride).unwrap();
                p.values.copy_from_slice(values);
                let mut joint = JointStep::new(&run, restarts).unwrap();
                joint.gradients_of_rows(&run, &mut p, 7, 4).unwrap();
                (p.gradients, cpu.take_sums(&mut joint.sums).unwrap())
            };
            let together = gradients(0..2, &both.values);
            for restart in 0..2 {
                let part = restart * both.stride..(restart + 1) * both.stride;
                let alone = gradients(restart..restart + 1, &both.values[part.clone()]);
                assert_eq!(together.0[part], alone.0, "{} {gamma:?} {restart}", data.source());
                assert_eq!(together.1[restart], alone.1[0], "{} {gamma:?} {restart}", data.source());
            }
        }
    }
}

/// All three stages, too: what a device that trains restarts side by side relies on.
#[test]
fn stages_side_by_side_equal_each_alone() {
    let (rows, _) = common::planted(120, 8, 3);
    let data = Dataset::from_rows(120, 8, rows.iter().map(|x| x / 10.0).collect()).unwrap();
    let (cpu, settings) = (CPU(), small(&data, LikelihoodKind::Auto, Gamma::Sampled));
    let run = Run::new(&cpu, &data, &settings).unwrap();
    let trained = |restarts: std::ops::Range<usize>| {
        let mut pack = Pack::new(&run, restarts).unwrap();
        pretrain(&run, &mut pack, &mut Silent, &mut |_| Ok(())).unwrap();
        start_mixture(&run, &mut pack, &mut Silent, &mut |_| Ok(())).unwrap();
        train(&run, &mut pack, &mut Silent, &mut |_| Ok(()), &mut Unwatched).unwrap();
        pack
    };
    let together = trained(0..2);
    for restart in 0..2 {
        let alone = trained(restart..restart + 1);
        assert_eq!(together.values_of(&cpu, restart).unwrap(), alone.params.values, "{restart}");
        assert_eq!(together.state.records[restart], alone.state.records[0], "{restart}");
        assert_eq!(together.best_values[restart], alone.best_values[0], "{restart}");
    }
}

/// Windows that overlap and leave a rest at the edges: unfold and fold are each the other's gradient.
#[test]
fn windows_of_images() {
    let windows = Windows { height: 7, width: 6, channels: 2, size: 3, stride: 2, padding: 1 };
    let (r, n) = (2, 2);
    let [down, across] = windows.places();
    let (images, unfolded) = ((n, windows.image_len()), (n * down * across, windows.window_len()));
    let x = random_matrix(r, images.0, images.1, 30);
    let w = random_matrix(r, unfolded.0, unfolded.1, 31);
    let mut dx = random_matrix(r, images.0, images.1, 1);
    CPU().fold(&windows, &w, &mut dx).unwrap();
    check("unfold", LINEAR, &x.data, &dx.data, |v| {
        let mut y = random_matrix(r, unfolded.0, unfolded.1, 2);
        CPU().unfold(&windows, &matrix(r, images.0, images.1, v.to_vec()), &mut y).unwrap();
        weighted(&w.data, &y.data)
    });
    let mut dw = random_matrix(r, unfolded.0, unfolded.1, 2);
    CPU().unfold(&windows, &x, &mut dw).unwrap();
    check("fold", LINEAR, &w.data, &dw.data, |v| {
        let mut y = random_matrix(r, images.0, images.1, 1);
        CPU().fold(&windows, &matrix(r, unfolded.0, unfolded.1, v.to_vec()), &mut y).unwrap();
        weighted(&x.data, &y.data)
    });
}

#[test]
fn curves() {
    let (b, n) = (5, 9);
    let w = random_matrix(1, b, n, 32);
    for (curve, step) in [
        (Curve::Leaky { slope: 0.1 }, LINEAR),
        (Curve::Leaky { slope: 0.0 }, LINEAR),
        (Curve::Logistic, CURVED),
    ] {
        let x = away_from_zero(b * n, 33);
        let forward = |v: &[f32]| {
            let mut y = matrix(1, b, n, v.to_vec());
            CPU().bend(curve, &mut y).unwrap();
            y
        };
        let mut dy = w.clone();
        CPU().bend_backward(curve, &forward(&x), &mut dy).unwrap();
        check(&format!("{curve:?}"), step, &x, &dy.data, |v| weighted(&w.data, &forward(v).data));
    }
}

/// Two models of three groups each; more columns than a task takes, and a rest.
#[test]
fn batch_norm_in_groups() {
    let (r, groups, b, columns) = (2, 3, 12, 19);
    let mut layout = Layout::default();
    let layer = NormSlots::new(&mut layout, "norm", columns);
    let (mut p, x, w) =
        (params(r, &layout, 34), random_matrix(r, b, columns, 35), random_matrix(r, b, columns, 36));
    let forward = |p: &Params<Floats>, x: &Matrix<Floats>| {
        let mut statistics = zeros(r, NormSlots::statistics_rows(groups), columns);
        let mut y = zeros(r, b, columns);
        CPU().batch_norm(p, layer, x, &mut statistics, &mut y).unwrap();
        (y, statistics)
    };
    let (mut statistics, mut dx) = (forward(&p, &x).1, random_matrix(r, b, columns, 1));
    CPU().batch_norm_backward_input(&p, layer, &x, &w, &mut statistics, &mut dx).unwrap();
    // Four rows of a group: the way through their deviation bends sharply.
    let step = (2e-3, 5e-3);
    let loss = |p: &Params<Floats>, x: &Matrix<Floats>| weighted(&w.data, &forward(p, x).0.data);
    check("x", step, &x.data, &dx.data, |v| loss(&p, &matrix(r, b, columns, v.to_vec())));
    let at = p.values.clone();
    CPU().batch_norm_backward_weights(&mut p, layer, &statistics, None).unwrap();
    check("gain and shift", LINEAR, &at, &p.gradients, |v| loss(&with_values(&p, v), &x));
}

#[test]
fn likelihood_of_codes() {
    let (r, b, places, k, c) = (2, 5, 8, 4, 3);
    let keys = keys(Stream::Latent, r);
    let mut codes = zeros(r, b, k + c + 2);
    CPU().draw_codes(Draw { keys: &keys, step: 5 }, k, &mut codes).unwrap();
    for width in [k + 2 * c, k + c] {
        let at: Floats = random(r * places * width, 37).iter().map(|x| 2.0 * x).collect();
        let run = |at: &[f32]| {
            let mut output = matrix(r, places, width, at.to_vec());
            let mut sums = CPU().sums(r, places).unwrap();
            CPU().code_likelihood((k, c), 0.7, &codes, &mut output, &mut sums).unwrap();
            let terms = CPU().take_sums(&mut sums).unwrap();
            let total: f64 = terms.iter().map(|terms| terms.cluster + terms.latent).sum();
            (-0.7 * total / places as f64, output.data)
        };
        let gradient = run(&at).1;
        check(&format!("codes from {width} columns"), CURVED, &at, &gradient, |v| run(v).0);
        let without = |place: usize| place / width % places >= b;
        assert!((0..at.len()).filter(|&i| without(i)).all(|i| gradient[i] == 0.0), "rows without a code");
    }
}

/// One of the choices each, all about as often; numbers evenly spread and others in every row and step.
#[test]
fn codes_are_drawn_evenly() {
    let (b, k, columns) = (3000, 5, 9);
    let keys = keys(Stream::Latent, 1);
    let drawn = |step: u64| {
        let mut z = zeros(1, b, columns);
        CPU().draw_codes(Draw { keys: &keys, step }, k, &mut z).unwrap();
        z.data
    };
    let (z, later) = (drawn(0), drawn(1));
    assert!(z.chunks(columns).all(|row| row[..k].iter().sum::<f32>() == 1.0));
    for choice in 0..k {
        let count = z.chunks(columns).filter(|row| row[choice] == 1.0).count() as f64;
        // Five standard deviations of a binomial.
        assert!((count - 600.0).abs() < 5.0 * (600.0 * 0.8f64).sqrt(), "{count} of 3000 chose {choice}");
    }
    let numbers: Vec<f64> =
        z.chunks(columns).flat_map(|row| row[k..].iter().map(|&x| f64::from(x))).collect();
    let n = numbers.len() as f64;
    let (mean, square) = (numbers.iter().sum::<f64>() / n, numbers.iter().map(|x| x * x).sum::<f64>() / n);
    assert!(
        mean.abs() < 5.0 * (1.0 / 3.0 / n).sqrt()
            && (square - 1.0 / 3.0).abs() < 5.0 * (4.0 / 45.0 / n).sqrt()
    );
    assert!(numbers.iter().all(|x| (-1.0..1.0).contains(x)));
    let same = z.iter().zip(&later).enumerate().filter(|(i, (a, b))| i % columns >= k && a == b).count();
    assert!(same < 5, "{same} numbers are the same in two steps");
}
