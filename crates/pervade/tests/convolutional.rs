//! Convolutional networks: the whole training step against PyTorch and finite differences, restarts side by side, a model
//! from fit to file, and what is refused.

mod common;

use common::ops::{assert_tensor_close, named_params, params, random};
use common::{Oracle, assert_close};
use pervade::Vade;
use pervade::compute::prelude::*;
use pervade::compute::{Cpu, Gamma, Params};
use pervade::config::{Clusters, LikelihoodKind, NetworkKind, PretrainKind, Recipe, Settings};
use pervade::data::{Dataset, ImageShape, PrepareKind};
use pervade::train::{JointStep, Run};

/// Odd and even sides, more than one channel.
const IMAGE: ImageShape = ImageShape { height: 7, width: 6, channels: 2 };
const COLUMNS: usize = 84;

fn settings(likelihood: LikelihoodKind, gamma: Gamma) -> Settings {
    Settings::recipe(Recipe::Robust, Clusters::Fixed(3)).with(|s| {
        s.components = Some(5);
        s.prepare = Some(PrepareKind::None);
        s.likelihood = likelihood;
        s.noise_variance = Some(0.7);
        s.gamma = gamma;
        s.samples = 2;
        s.latents = 3;
        s.network = NetworkKind::Conv;
        s.hidden = vec![3, 4, 5];
    })
}

fn images(n_rows: usize, values: Vec<f32>) -> Dataset<'static> {
    Dataset::from_rows(n_rows, COLUMNS, values).unwrap().with_image(IMAGE)
}

#[test]
fn terms_and_gradients_of_the_elbo() {
    let oracle = Oracle::open("conv.safetensors");
    for likelihood in [LikelihoodKind::Bernoulli, LikelihoodKind::GaussianFixed] {
        for gamma in [Gamma::Exact, Gamma::Sampled] {
            let case = format!("{likelihood} {gamma} 2");
            let data = images(6, oracle.f32(&format!("{case}/x")));
            let settings = settings(likelihood, gamma).with(|s| s.seed = oracle.number("seed"));
            let (cpu, settings) = (Cpu::new(), settings.check(&data).unwrap());
            let run = Run::new(&cpu, &data, &settings).unwrap();
            let layout = &run.architecture.layout;
            let mut params = named_params(layout, |name| oracle.f32(&format!("{case}/value/{name}")));
            let mut joint = JointStep::new(&run, 0..1).unwrap();
            joint.gradients_of_rows(&run, &mut params, 0, oracle.number("step")).unwrap();
            let terms = cpu.take_sums(&mut joint.sums).unwrap()[0].scaled(1.0 / 6.0).values();
            assert_close(&terms[..4], &oracle.f64(&format!("{case}/terms")), 1e-5, &case);
            for (name, slot) in layout.slots() {
                let theirs = oracle.f64(&format!("{case}/gradient/{name}"));
                assert_tensor_close(
                    &params.gradients[slot.range()],
                    &theirs,
                    1e-5,
                    &format!("{case}: {name}"),
                );
            }
        }
    }
}

/// Along the gradient of each tensor the loss rises by the gradient's length. ReLUs that switch within the step make the
/// difference inexact, hence 2 %.
#[test]
fn gradients_agree_with_finite_differences() {
    let data = images(40, random(40 * COLUMNS, 19).iter().map(|x| 0.5 + 0.5 * x).collect());
    for (likelihood, gamma) in
        [(LikelihoodKind::Bernoulli, Gamma::Exact), (LikelihoodKind::GaussianFixed, Gamma::Sampled)]
    {
        let settings = settings(likelihood, gamma).with(|s| s.batch = 20);
        let (cpu, settings) = (Cpu::new(), settings.check(&data).unwrap());
        let run = Run::new(&cpu, &data, &settings).unwrap();
        let mut joint = JointStep::new(&run, 0..1).unwrap();
        let mut p = params(1, &run.architecture.layout, 20);
        let mut loss = |p: &mut Params<Vec<f32>>| {
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
            assert!(off < 0.02, "{likelihood} {gamma} {name}: rises by {rise}, gradient {length}");
        }
    }
}

#[test]
fn restarts_side_by_side_equal_each_alone() {
    let data = images(30, random(30 * COLUMNS, 21).iter().map(|x| 0.5 + 0.5 * x).collect());
    let settings = settings(LikelihoodKind::Auto, Gamma::Exact).with(|s| s.batch = 20);
    let (cpu, settings) = (Cpu::new(), settings.check(&data).unwrap());
    let run = Run::new(&cpu, &data, &settings).unwrap();
    let both = params(3, &run.architecture.layout, 22);
    let gradients = |restarts: std::ops::Range<usize>, values: &[f32]| {
        let mut p = Params::zeros(&cpu, restarts.len(), both.stride).unwrap();
        p.values.copy_from_slice(values);
        let mut joint = JointStep::new(&run, restarts).unwrap();
        joint.gradients_of_rows(&run, &mut p, 7, 4).unwrap();
        (p.gradients, cpu.take_sums(&mut joint.sums).unwrap())
    };
    let together = gradients(0..3, &both.values);
    for restart in 0..3 {
        let part = restart * both.stride..(restart + 1) * both.stride;
        let alone = gradients(restart..restart + 1, &both.values[part.clone()]);
        assert_eq!(together.0[part], alone.0, "{restart}");
        assert_eq!(together.1[restart], alone.1[0], "{restart}");
    }
}

/// Three patterns with noise: a bar at the top, one at the left, and a spot.
fn patterns(n_rows: usize) -> (Dataset<'static>, Vec<u32>) {
    let noise = random(n_rows * COLUMNS, 23);
    let labels: Vec<u32> = (0..n_rows as u32).map(|row| row * 7 % 3).collect();
    let pixel = |i: usize| {
        let (row, y, x) = (i / COLUMNS, i % COLUMNS / 12, i % 12 / 2);
        let on = match labels[row] {
            0 => y < 2,
            1 => x < 2,
            _ => (3..6).contains(&y) && (3..6).contains(&x),
        };
        (if on { 0.8 } else { 0.2 }) + 0.15 * noise[i]
    };
    (images(n_rows, (0..n_rows * COLUMNS).map(pixel).collect()), labels)
}

#[test]
fn a_model_from_fit_to_file() {
    let (data, labels) = patterns(300);
    let settings = Settings::recipe(Recipe::Robust, 3).with(|s| {
        s.network = NetworkKind::Conv;
        s.hidden = vec![6, 8, 16];
        s.latents = 4;
        s.pretrain_epochs = Some(30);
        s.pretrain_batch = 32;
        s.epochs = Some(4);
        s.restarts = 2;
    });
    let bytes = common::same_on_any_number_of_threads(|| {
        common::fit(&data, settings.clone()).model.to_bytes().unwrap()
    });
    let model = Vade::from_bytes(&bytes, "model".as_ref()).unwrap();
    let assigned = model.assign(&Cpu::new(), &data).unwrap();
    let accuracy = pervade::metrics::accuracy(&assigned.clusters, &labels).unwrap();
    assert!(accuracy > 0.95, "{accuracy}");
}

#[test]
fn what_a_convolutional_network_cannot_do_is_refused() {
    let (data, _) = patterns(60);
    let plain = Dataset::from_rows(60, COLUMNS, random(60 * COLUMNS, 24)).unwrap();
    let refused = |data: &Dataset, change: &dyn Fn(&mut Settings)| {
        let settings = settings(LikelihoodKind::Auto, Gamma::Exact).with(|s| change(s));
        settings.check(data).unwrap_err().to_string()
    };
    assert!(refused(&plain, &|_| {}).contains("not known to be pictures"));
    assert!(refused(&data, &|s| s.hidden = vec![8; 5]).contains("4 convolutions"));
    assert!(refused(&data, &|s| s.hidden = vec![8]).contains("at least 2"));
    assert!(refused(&data, &|s| s.likelihood = LikelihoodKind::Gaussian).contains("gaussian"));
    assert!(refused(&data, &|s| s.pretrain = PretrainKind::Stacked).contains("layer by layer"));
}
