//! Every backward operation against central differences of its forward one, on the CPU: those of VaDE, and its chain
//! as a whole. `gradients_rivals.rs` has those that only rivals use.

mod common;

use common::differences::*;
use common::ops::*;
use pervade::compute::prelude::*;
use pervade::compute::*;
use pervade::config::{CheckedSettings, Clusters, LikelihoodKind, PretrainKind, Recipe, Settings};
use pervade::data::{Csr, Dataset, Preparation, PrepareKind, Values};
use pervade::seed::Stream;
use pervade::train::{JointStep, NoCallback, Pack, Run, Silent, pretrain, start_mixture, train};

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
            let rows = CPU().rows(data.view(&preparation)).unwrap();
            let mut batch = CPU().batch(&rows, 1, b).unwrap();
            CPU().gather(&rows, RowSelection::Range { first: 1 }, &mut batch).unwrap();
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

/// Small networks on `data`, standing in for any likelihood and gamma.
fn small(data: &Dataset, likelihood: LikelihoodKind, gamma: Gamma) -> CheckedSettings {
    let settings = Settings::recipe(Recipe::Robust, Clusters::Fixed(3)).with(|s| {
        s.components = Some(6);
        s.prepare = Some(PrepareKind::None);
        s.likelihood = likelihood;
        s.gamma = gamma;
        s.samples = 2;
        s.latents = 3;
        s.hidden = vec![17, 9];
        s.batch = 20;
        s.pretrain_batch = 20;
        s.pretrain_epochs = Some(2);
        s.pretrain = PretrainKind::Stacked;
        s.layer_epochs = 1;
        s.epochs = Some(2);
        s.seed = 5;
    });
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
        pretrain(&run, &mut pack, &mut Silent, &mut |_| Ok(false)).unwrap();
        start_mixture(&run, &mut pack, &mut Silent, &mut |_| Ok(false)).unwrap();
        train(&run, &mut pack, &mut Silent, &mut |_| Ok(false), &mut NoCallback).unwrap();
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
