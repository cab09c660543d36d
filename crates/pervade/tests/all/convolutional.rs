//! Convolutional networks: the whole training step against PyTorch and finite differences, restarts side by side, a model
//! from fit to file, and what is refused.

use crate::common::ops::{assert_tensor_close, named_params, random};
use crate::common::steps::{assert_loss_rises_along_gradients, assert_restarts_equal_each_alone};
use crate::common::{Oracle, assert_close};
use pervade::Vade;
use pervade::compute::{Cpu, Gamma};
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
        s.latents = Some(3);
        s.network = NetworkKind::Conv;
        s.hidden = Some(vec![3, 4, 5]);
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
            let terms = joint.take_sums(&run).unwrap()[0].scaled(1.0 / 6.0).values();
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

#[test]
fn gradients_agree_with_finite_differences() {
    let data = images(40, random(40 * COLUMNS, 19).iter().map(|x| 0.5 + 0.5 * x).collect());
    for (likelihood, gamma) in
        [(LikelihoodKind::Bernoulli, Gamma::Exact), (LikelihoodKind::GaussianFixed, Gamma::Sampled)]
    {
        let settings = settings(likelihood, gamma).with(|s| s.batch = 20);
        let (cpu, settings) = (Cpu::new(), settings.check(&data).unwrap());
        let run = Run::new(&cpu, &data, &settings).unwrap();
        assert_loss_rises_along_gradients(&run, &format!("{likelihood} {gamma}"));
    }
}

#[test]
fn restarts_side_by_side_equal_each_alone() {
    let data = images(30, random(30 * COLUMNS, 21).iter().map(|x| 0.5 + 0.5 * x).collect());
    let settings = settings(LikelihoodKind::Auto, Gamma::Exact).with(|s| s.batch = 20);
    let (cpu, settings) = (Cpu::new(), settings.check(&data).unwrap());
    let run = Run::new(&cpu, &data, &settings).unwrap();
    assert_restarts_equal_each_alone(&run, 3, 22, "convolutions");
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
        s.hidden = Some(vec![6, 8, 16]);
        s.latents = Some(4);
        s.pretrain_epochs = Some(30);
        s.pretrain_batch = 32;
        s.epochs = Some(4);
        s.restarts = 2;
    });
    let bytes = crate::common::same_on_any_number_of_threads(|| {
        crate::common::fit(&data, settings.clone()).model.to_bytes().unwrap()
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
    assert!(refused(&data, &|s| s.hidden = Some(vec![8; 5])).contains("4 convolutions"));
    assert!(refused(&data, &|s| s.hidden = Some(vec![8])).contains("at least 2"));
    assert!(refused(&data, &|s| s.likelihood = LikelihoodKind::Gaussian).contains("gaussian"));
    assert!(refused(&data, &|s| s.pretrain = PretrainKind::Stacked).contains("layer by layer"));
}
