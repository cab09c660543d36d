//! Checks of a whole joint training step.

use std::ops::Range;

use pervade::compute::{Cpu, Params};
use pervade::train::{JointStep, Run};

use super::ops::{Floats, params};

/// Along the gradient of each tensor the loss must rise by the gradient's length. ReLUs that switch within the step make
/// the difference inexact, hence 2 %; the PyTorch fixtures hold the digits.
pub(crate) fn assert_loss_rises_along_gradients(run: &Run<'_, Cpu>, what: &str) {
    let b = run.settings.batch() as f64;
    let mut joint = JointStep::new(run, 0..1).unwrap();
    let mut p = params(1, &run.architecture.layout, 20);
    let mut loss = |p: &mut Params<Floats>| {
        joint.gradients_of_rows(run, p, 10, 4).unwrap();
        -joint.take_sums(run).unwrap()[0].elbo() / b
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
        assert!(off < 0.02, "{what} {name}: rises by {rise}, gradient {length}");
    }
}

/// Gradients and terms of restarts side by side are those of each alone.
pub(crate) fn assert_restarts_equal_each_alone(run: &Run<'_, Cpu>, restarts: usize, salt: u32, what: &str) {
    let cpu = run.device;
    let all = params(restarts, &run.architecture.layout, salt);
    let gradients = |restarts: Range<usize>, values: &[f32]| {
        let mut p = Params::zeros(cpu, restarts.len(), all.stride).unwrap();
        p.values.copy_from_slice(values);
        let mut joint = JointStep::new(run, restarts).unwrap();
        joint.gradients_of_rows(run, &mut p, 7, 4).unwrap();
        (p.gradients, joint.take_sums(run).unwrap())
    };
    let together = gradients(0..restarts, &all.values);
    for restart in 0..restarts {
        let part = restart * all.stride..(restart + 1) * all.stride;
        let alone = gradients(restart..restart + 1, &all.values[part.clone()]);
        assert_eq!(together.0[part], alone.0, "{what} {restart}");
        assert_eq!(together.1[restart], alone.1[0], "{what} {restart}");
    }
}
