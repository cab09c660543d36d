//! Matrices, parameters and random numbers for tests of single operations.

use pervade::compute::prelude::*;
use pervade::compute::{Affine, Cpu, Layout, Matrix, MixtureSlots, Params};
use pervade::seed::{Key, Stream};

pub(crate) type Floats = Vec<f32>;

/// Numbers spread evenly over -1..1, others for each `salt`.
pub(crate) fn random(n: usize, salt: u32) -> Floats {
    let key = Key::new(3, Stream::Sample, 0);
    (0..n).map(|i| (key.uniform(i as u64, salt, 0) * 2.0 - 1.0) as f32).collect()
}

pub(crate) fn matrix(restarts: usize, rows: usize, columns: usize, data: Floats) -> Matrix<Floats> {
    assert_eq!(data.len(), restarts * rows * columns);
    Matrix { data, restarts, rows, columns }
}

pub(crate) fn zeros(restarts: usize, rows: usize, columns: usize) -> Matrix<Floats> {
    matrix(restarts, rows, columns, vec![0.0; restarts * rows * columns])
}

/// Random parameters for R models of this layout.
pub(crate) fn params(restarts: usize, layout: &Layout, salt: u32) -> Params<Floats> {
    let mut params = Params::zeros(&Cpu::new(), restarts, layout.len()).unwrap();
    params.values = random(restarts * layout.len(), salt);
    params
}

/// A layout with one layer in it.
pub(crate) fn one_layer(inputs: usize, outputs: usize) -> (Layout, Affine) {
    let mut layout = Layout::default();
    let layer = layout.push_affine("layer", inputs, outputs);
    (layout, layer)
}

/// A layout with one mixture in it.
pub(crate) fn one_mixture(n_components: usize, n_latents: usize) -> (Layout, MixtureSlots) {
    let mut layout = Layout::default();
    let slots = MixtureSlots {
        logits: layout.push("mixture.logits", 1, n_components),
        means: layout.push("mixture.means", n_components, n_latents),
        log_variances: layout.push("mixture.log_variances", n_components, n_latents),
    };
    (layout, slots)
}

/// One key a restart.
pub(crate) fn keys(stream: Stream, restarts: usize) -> Vec<Key> {
    (0..restarts).map(|restart| Key::new(11, stream, restart)).collect()
}

/// Parameters with these values by name, for one model.
pub(crate) fn named_params<'v>(layout: &Layout, value: impl Fn(&str) -> Floats + 'v) -> Params<Floats> {
    let cpu = Cpu::new();
    let mut params = Params::zeros(&cpu, 1, layout.len()).unwrap();
    for (name, slot) in layout.slots() {
        let values = value(name);
        assert_eq!(values.len(), slot.range().len(), "{name}");
        cpu.write(&mut params.values, slot.offset, &values).unwrap();
    }
    params
}

/// The largest absolute value, or zero.
pub(crate) fn largest(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(0.0, |most, x| most.max(x.abs()))
}

/// Each entry relative to the largest of the expected tensor: what a step of training would notice.
pub(crate) fn assert_tensor_close(ours: &[f32], theirs: &[f64], tolerance: f64, what: &str) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    let scale = largest(theirs.iter().copied()).max(f64::MIN_POSITIVE);
    for (index, (&a, &b)) in ours.iter().zip(theirs).enumerate() {
        let error = (f64::from(a) - b).abs() / scale;
        assert!(error <= tolerance, "{what}[{index}] is {a}, expected {b} (largest {scale}): {error:e}");
    }
}
