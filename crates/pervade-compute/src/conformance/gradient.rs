//! Operations with a gradient: what their cases have in common.

use std::sync::{Arc, OnceLock};

use super::case::{Case, Tolerance};
use super::inputs::wide;
use crate::{Memory, Result};

/// How far a difference quotient reaches to both sides, and how far it may be off.
///
/// A forward pass in single precision is off by about 1e-7 of its size, so a central difference over 2h has an error of
/// 1e-7 / h from rounding and of h^2 from curvature.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) h: f32,
    pub(super) tolerance: f64,
}

/// For operations that are linear, and so have no curvature.
pub(super) const LINEAR: Step = Step { h: 0.25, tolerance: 1e-5 };
/// With h = 1e-2 both errors are about 1e-5 to 1e-4.
pub(super) const CURVED: Step = Step { h: 1e-2, tolerance: 1e-3 };

/// Something that the loss depends on.
pub(super) struct Tensor {
    pub(super) name: &'static str,
    pub(super) values: Vec<f32>,
    /// None where differences would be lost in rounding errors, or take too long.
    pub(super) step: Option<Step>,
}

impl Tensor {
    pub(super) fn new(name: &'static str, values: Vec<f32>, step: Option<Step>) -> Self {
        Self { name, values, step }
    }
}

/// The device's loss and its gradient for each tensor.
pub(super) type LossAndGradients = (f64, Vec<Vec<f32>>);
type Run<D> = dyn Fn(&D, &[Vec<f32>]) -> Result<LossAndGradients> + Send + Sync;
type Definition = dyn Fn(&[Vec<f64>]) -> Vec<Vec<f64>> + Send + Sync;

/// The gradients of a loss: one case per tensor that it depends on.
pub(super) fn gradient_cases<D: Memory>(
    name: &str,
    tolerance: Tolerance,
    tensors: Vec<Tensor>,
    definition: impl Fn(&[Vec<f64>]) -> Vec<Vec<f64>> + Send + Sync + 'static,
    run: impl Fn(&D, &[Vec<f32>]) -> Result<LossAndGradients> + Send + Sync + 'static,
) -> Vec<Case<D>> {
    let at: Arc<Vec<Vec<f32>>> = Arc::new(tensors.iter().map(|tensor| tensor.values.clone()).collect());
    let (run, definition): (Arc<Run<D>>, Arc<Definition>) = (Arc::new(run), Arc::new(definition));
    let expected = Arc::new(OnceLock::new());
    let case = |(index, tensor): (usize, Tensor)| {
        let (for_definition, definition, expected) = (at.clone(), definition.clone(), expected.clone());
        let (for_run, run_once) = (at.clone(), run.clone());
        let mut case = Case::new(
            format!("{name}, gradient for {}", tensor.name),
            tolerance,
            move || {
                let all = expected.get_or_init(|| {
                    definition(&for_definition.iter().map(|values| wide(values)).collect::<Vec<_>>())
                });
                all[index].clone()
            },
            move |device: &D| Ok(run_once(device, &for_run)?.1.swap_remove(index)),
        );
        let (at, run) = (at.clone(), run.clone());
        case.differences = tensor.step.map(|step| Differences { step, at, index, run });
        case
    };
    tensors.into_iter().enumerate().map(case).collect()
}

/// Central differences of the device's loss for one of its tensors.
pub(super) struct Differences<D> {
    step: Step,
    at: Arc<Vec<Vec<f32>>>,
    index: usize,
    run: Arc<Run<D>>,
}

impl<D> Differences<D> {
    pub(super) fn tolerance(&self) -> f64 {
        self.step.tolerance
    }

    pub(super) fn compute(&self, device: &D) -> Result<Vec<f64>> {
        let mut point = self.at.to_vec();
        let mut slopes = Vec::new();
        for i in 0..point[self.index].len() {
            let middle = point[self.index][i];
            let (above, below) = (middle + self.step.h, middle - self.step.h);
            let mut loss_at = |value: f32| {
                point[self.index][i] = value;
                Ok((self.run)(device, &point)?.0)
            };
            let rise = loss_at(above)? - loss_at(below)?;
            point[self.index][i] = middle;
            slopes.push(rise / (f64::from(above) - f64::from(below)));
        }
        Ok(slopes)
    }
}

/// The gradient of a loss that is defined in double precision, by central differences.
pub(super) fn central_differences(at: &[Vec<f64>], loss: impl Fn(&[Vec<f64>]) -> f64) -> Vec<Vec<f64>> {
    const H: f64 = 1e-5;
    let mut point = at.to_vec();
    let mut slope = |tensor: usize, i: usize| {
        let middle = point[tensor][i];
        let mut loss_at = |value: f64| {
            point[tensor][i] = value;
            loss(&point)
        };
        let rise = loss_at(middle + H) - loss_at(middle - H);
        point[tensor][i] = middle;
        rise / (2.0 * H)
    };
    at.iter()
        .enumerate()
        .map(|(tensor, values)| (0..values.len()).map(|i| slope(tensor, i)).collect())
        .collect()
}
