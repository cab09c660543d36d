//! DEC's clustering loss and its gradients against PyTorch; `testdata/oracle/make_dec.py` wrote the values.

use crate::common::ops::{assert_tensor_close, matrix, one_mixture, zeros};
use crate::common::{Oracle, assert_close};
use pervade::compute::prelude::*;
use pervade::compute::{Cpu, Params};

const TOLERANCE: f64 = 1e-5;

#[test]
fn loss_and_gradients_of_soft_clusters() {
    let oracle = Oracle::open("dec.safetensors");
    for (case, b, c, j) in [("small", 6, 5, 3), ("wide", 40, 11, 10), ("one mean", 3, 1, 2)] {
        let cpu = Cpu::new();
        let (layout, slots) = one_mixture(c, j);
        let mut params = Params::zeros(&cpu, 1, layout.len()).unwrap();
        cpu.write(&mut params.values, slots.means.offset, &oracle.f32(&format!("{case}/means"))).unwrap();
        params.gradients.fill(9.0);
        let z = matrix(1, b, j, oracle.f32(&format!("{case}/z")));
        let targets = matrix(1, b, c, oracle.f32(&format!("{case}/targets")));
        let (mut affinity_gradient, mut dz) = (zeros(1, b, c), matrix(1, b, j, vec![9.0; b * j]));
        let mut sums = cpu.sums(1, b, 1).unwrap();
        cpu.soft_clusters(&mut params, slots, &targets, &z, &mut affinity_gradient, &mut dz, &mut sums)
            .unwrap();
        let loss = -cpu.take_sums(&mut sums).unwrap()[0].elbo() / b as f64;
        assert_close(&[loss], &oracle.f64(&format!("{case}/loss")), TOLERANCE, &format!("{case}: loss"));
        let d_means = &params.gradients[slots.means.range()];
        for (name, ours) in [("z", &dz.data[..]), ("means", d_means)] {
            let theirs = oracle.f64(&format!("{case}/gradient/{name}"));
            if c > 1 {
                assert_tensor_close(ours, &theirs, TOLERANCE, &format!("{case}: {name}"));
            } else {
                assert!(ours.iter().all(|&d| d == 0.0), "{case}: one cluster holds every row whole");
            }
        }
        let other = |i: &usize| !slots.means.range().contains(i);
        assert!(
            (0..layout.len()).filter(other).all(|i| params.gradients[i] == 9.0),
            "only the means' gradient"
        );
    }
}
