//! The backward operations that only rivals use against central differences of their forward ones, on the CPU.

mod common;

use common::differences::*;
use common::ops::*;
use pervade::compute::prelude::*;
use pervade::compute::*;
use pervade::seed::Stream;

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
        CPU().weighted_likelihood(&families, &x, &shares, &mut output, &mut d_shares, &mut sums).unwrap();
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

/// Windows that overlap and leave a rest at the edges: unfold and fold are each the other's gradient.
#[test]
fn windows_of_images() {
    let windows = Windows { height: 7, width: 6, channels: 2, size: 3, stride: 2, padding: 1 };
    let (r, n) = (2, 2);
    let [down, across] = windows.count();
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
        (Activation::LeakyRelu { slope: 0.1 }, LINEAR),
        (Activation::LeakyRelu { slope: 0.0 }, LINEAR),
        (Activation::Sigmoid, CURVED),
    ] {
        let x = away_from_zero(b * n, 33);
        let forward = |v: &[f32]| {
            let mut y = matrix(1, b, n, v.to_vec());
            CPU().activate(curve, &mut y).unwrap();
            y
        };
        let mut dy = w.clone();
        CPU().activate_backward(curve, &forward(&x), &mut dy).unwrap();
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
