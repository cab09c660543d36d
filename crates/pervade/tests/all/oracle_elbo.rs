//! Terms and gradients of the ELBO and of pretraining against PyTorch, Adam against torch.optim;
//! `testdata/oracle/make_elbo.py` and `make_adam.py` wrote the values.
//!
//! Gradients are compared relative to the largest entry of their tensor: theirs are in double precision, ours are sums
//! of single-precision products, whose error is that of the largest.

use crate::common::ops::{assert_tensor_close, named_params};
use crate::common::{Oracle, assert_close};
use pervade::compute::prelude::*;
use pervade::compute::{AdamStep, Cpu, Gamma, Params};
use pervade::config::{CheckedSettings, Clusters, LikelihoodKind, PretrainKind, Recipe, Settings};
use pervade::data::{Dataset, PrepareKind};
use pervade::train::{Control, Event, JointStep, Observer, Pack, Run, pretrain};

const TOLERANCE: f64 = 1e-5;
const ROWS: usize = 6;
const COLUMNS: usize = 12;

/// The rows of a case, and the settings of the oracle's small networks.
fn given(oracle: &Oracle, case: &str, likelihood: &str, gamma: Gamma) -> (Dataset<'static>, Settings) {
    let data = Dataset::from_rows(ROWS, COLUMNS, oracle.f32(&format!("{case}/x"))).unwrap();
    let settings = Settings::recipe(Recipe::Robust, Clusters::Fixed(5)).with(|s| {
        s.components = Some(5);
        s.prepare = Some(PrepareKind::None);
        s.likelihood = likelihood.parse::<LikelihoodKind>().unwrap();
        s.noise_variance = Some(0.7);
        s.gamma = gamma;
        s.latents = Some(3);
        s.hidden = Some(vec![7, 9]);
        s.pretrain = PretrainKind::Stacked;
        s.dropout = 0.2;
        s.seed = oracle.number("seed");
    });
    (data, settings)
}

fn values_of(oracle: &Oracle, case: &str, run: &Run<'_, Cpu>) -> Params<Vec<f32>> {
    named_params(&run.architecture.layout, |name| oracle.f32(&format!("{case}/value/{name}")))
}

fn assert_gradients(oracle: &Oracle, case: &str, run: &Run<'_, Cpu>, gradients: &[f32]) {
    for (name, slot) in run.architecture.layout.slots() {
        let theirs = oracle.f64(&format!("{case}/gradient/{name}"));
        assert_tensor_close(&gradients[slot.range()], &theirs, TOLERANCE, &format!("{case}: {name}"));
    }
}

/// The names of the cases: the part before the first `/`.
fn cases(oracle: &Oracle) -> Vec<String> {
    let mut cases: Vec<String> =
        oracle.names().iter().map(|name| name.split('/').next().unwrap().to_owned()).collect();
    cases.dedup();
    cases
}

#[test]
fn terms_and_gradients_of_the_elbo() {
    let oracle = Oracle::open("elbo.safetensors");
    assert_eq!(cases(&oracle).len(), 18);
    for case in cases(&oracle) {
        let words: Vec<&str> = case.split(' ').collect();
        let (data, settings) = given(&oracle, &case, words[0], words[1].parse().unwrap());
        let samples = words[2].parse().unwrap();
        let settings = settings.with(|s| s.samples = samples).check(&data).unwrap();
        let cpu = Cpu::new();
        let run = Run::new(&cpu, &data, &settings).unwrap();
        let mut params = values_of(&oracle, &case, &run);
        let mut joint = JointStep::new(&run, 0..1).unwrap();
        joint.gradients_of_rows(&run, &mut params, 0, oracle.number("step")).unwrap();
        let terms = joint.take_sums(&run).unwrap()[0].scaled(1.0 / ROWS as f64);
        let ours = [terms.reconstruction, terms.latent, terms.cluster, terms.entropy];
        assert_close(&ours, &oracle.f64(&format!("{case}/terms")), TOLERANCE, &format!("{case}: terms"));
        assert_gradients(&oracle, &case, &run, &params.gradients);
    }
}

/// Row i + 1 is the neighbour of row i, and the last row's is the first.
#[test]
fn terms_and_gradients_with_neighbours() {
    let oracle = Oracle::open("neighbours.safetensors");
    assert_eq!(cases(&oracle).len(), 4);
    for case in cases(&oracle) {
        let words: Vec<&str> = case.split(' ').collect();
        let (data, settings) = given(&oracle, &case, words[0], words[1].parse().unwrap());
        let settings = settings.with(|s| {
            s.samples = 2;
            s.neighbour_weight = Some(3.5);
        });
        let (cpu, settings) = (Cpu::new(), settings.check(&data).unwrap());
        let run = Run::new(&cpu, &data, &settings).unwrap();
        let mut params = values_of(&oracle, &case, &run);
        let mut joint = JointStep::with_ring(&run, 0..1, 2).unwrap();
        joint.gradients_of_rows(&run, &mut params, 0, oracle.number("step")).unwrap();
        let terms = joint.take_sums(&run).unwrap()[0].scaled(1.0 / ROWS as f64).values();
        assert_close(&terms, &oracle.f64(&format!("{case}/terms")), TOLERANCE, &format!("{case}: terms"));
        assert_gradients(&oracle, &case, &run, &params.gradients);
    }
}

/// Asks for a checkpoint after every epoch.
struct Saver;

impl Observer for Saver {
    fn event(&mut self, event: &Event<'_>) -> Control {
        if matches!(event, Event::Pretrained(..)) { Control::Save } else { Control::Continue }
    }
}

/// The gradients of the first step of a phase, taken from the checkpoint after it: the first moment is then a tenth of
/// them. (The weights' gradients themselves are consumed layer by layer.)
fn pretrain_gradients(run: &Run<'_, Cpu>, phase: usize, values: Vec<f32>) -> Vec<f32> {
    let mut pack = Pack::new(run, 0..1).unwrap();
    pack.state.phase = phase;
    pack.params.values = values;
    let mut seen = None;
    pretrain(run, &mut pack, &mut Saver, &mut |pack| {
        seen.get_or_insert_with(|| {
            let mut moments = pack.params.first_moments.clone();
            let weights = run.architecture.layout.weights();
            run.device.moments_to_rows(&weights, pack.params.stride, &mut moments);
            moments.iter().map(|m| m / (1.0 - 0.9)).collect()
        });
        Ok(true)
    })
    .unwrap();
    seen.unwrap()
}

/// Also tests the order of rows and dropout: both affect the layers' gradients.
#[test]
fn gradients_of_pretraining() {
    let oracle = Oracle::open("pretrain.safetensors");
    assert_eq!(cases(&oracle).len(), 12);
    for case in cases(&oracle) {
        let (likelihood, phase) = case.split_once(' ').unwrap();
        let (data, settings) = given(&oracle, &case, likelihood, Gamma::Exact);
        let one = settings.with(|s| {
            s.layer_epochs = 1;
            s.pretrain_epochs = Some(1);
        });
        let settings: CheckedSettings = one.check(&data).unwrap();
        let cpu = Cpu::new();
        let run = Run::new(&cpu, &data, &settings).unwrap();
        let values = values_of(&oracle, &case, &run).values;
        let gradients = pretrain_gradients(&run, phase.parse().unwrap(), values);
        assert_gradients(&oracle, &case, &run, &gradients);
    }
}

#[test]
fn steps_of_adam() {
    steps_with(0.9, "after");
    steps_with(0.5, "after_beta1_half");
}

fn steps_with(beta1: f32, after: &str) {
    let oracle = Oracle::open("adam.safetensors");
    let (start, gradients, after) = (oracle.f32("start"), oracle.f32("gradients"), oracle.f64(after));
    let (cpu, p, restarts) = (Cpu::new(), start.len(), 2);
    let mut params = Params::zeros(&cpu, restarts, p).unwrap();
    params.values = start.repeat(restarts);
    params.beta1 = beta1;
    for (step, (gradients, after)) in gradients.chunks(p).zip(after.chunks(p)).enumerate() {
        params.gradients = gradients.repeat(restarts);
        for (group, (range, learning_rate)) in [(0..50, 2e-3), (64..96, 1e-2)].into_iter().enumerate() {
            let step = AdamStep { range, group, learning_rate, step: step as u64 + 1, epsilon: 1e-4 };
            cpu.adam(&mut params, &step).unwrap();
        }
        for values in params.values.chunks(p) {
            let moved: Vec<f32> = values.iter().zip(&start).map(|(v, s)| v - s).collect();
            let expected: Vec<f64> = after.iter().zip(&start).map(|(a, &s)| a - f64::from(s)).collect();
            // The movement, not the value: a value near one hides a small step. A movement of 1e-2 is stored in a
            // number near one, so its own rounding is 6e-8 / 1e-2.
            assert_tensor_close(&moved, &expected, 2e-5, &format!("step {step}"));
            assert_eq!(values[50..64], start[50..64], "a part outside the groups moved");
        }
    }
}
