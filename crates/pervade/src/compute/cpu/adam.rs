//! Adam (Kingma and Ba, 2015): one pass over the flat buffers.

use rayon::prelude::*;

use super::simd::{Isa, for_isa};
use crate::compute::{AdamStep, Params};

const BETA1: f32 = 0.9;
const BETA2: f32 = 0.999;
/// Numbers a task takes: four streams of 64 KiB, so that a task's share fits the second-level cache.
const CHUNK: usize = 16 * 1024;

/// The numbers of one step that are the same for every parameter.
#[derive(Clone, Copy)]
struct Rates {
    /// Learning rate over the first moment's bias correction.
    step_size: f32,
    /// Inverse root of the second moment's bias correction.
    inverse_root: f32,
    epsilon: f32,
}

pub(super) fn adam(isa: Isa, params: &mut Params<Vec<f32>>, step: &AdamStep) {
    // Powers in double precision: at step 1e5 the single-precision one is off in the fourth digit.
    let correction1 = 1.0 - f64::from(BETA1).powf(step.step as f64);
    let correction2 = 1.0 - f64::from(BETA2).powf(step.step as f64);
    for restart in 0..params.restarts {
        let base = restart * params.stride;
        for (range, learning_rate) in &step.groups {
            if *learning_rate == 0.0 {
                continue;
            }
            let rates = Rates {
                step_size: (f64::from(*learning_rate) / correction1) as f32,
                inverse_root: (1.0 / correction2.sqrt()) as f32,
                epsilon: step.epsilon,
            };
            let range = base + range.start..base + range.end;
            let values = params.values[range.clone()].par_chunks_mut(CHUNK);
            let gradients = params.gradients[range.clone()].par_chunks(CHUNK);
            let first = params.first_moments[range.clone()].par_chunks_mut(CHUNK);
            let second = params.second_moments[range].par_chunks_mut(CHUNK);
            values
                .zip(gradients)
                .zip(first.zip(second))
                .for_each(|((p, g), (m, v))| update(isa, rates, p, g, m, v));
        }
    }
}

for_isa! {
    /// m, v and p after one gradient g.
    fn update(rates: Rates, p: &mut [f32], g: &[f32], m: &mut [f32], v: &mut [f32]) {
        for (((p, &g), m), v) in p.iter_mut().zip(g).zip(m).zip(v) {
            *m = BETA1.mul_add(*m, (1.0 - BETA1) * g);
            *v = BETA2.mul_add(*v, (1.0 - BETA2) * g * g);
            let root = v.sqrt().mul_add(rates.inverse_root, rates.epsilon);
            *p -= rates.step_size * *m / root;
        }
    }
}
