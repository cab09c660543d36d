//! Stick-breaking weights, their prior, and the ELBO of a mixture as posterior against PyTorch;
//! `testdata/oracle/make_sticks.py` wrote the values.

use crate::common::ops::{Floats, assert_tensor_close, keys, matrix, one_layer, zeros};
use crate::common::{Oracle, assert_close};
use pervade::compute::prelude::*;
use pervade::compute::{Activation, Cpu, Draw, Likelihood, Matrix, Params, PosteriorMixture, StickPrior};
use pervade::seed::Stream;

const TOLERANCE: f64 = 1e-5;

#[test]
fn weights_and_divergence_of_sticks() {
    let (oracle, cpu) = (Oracle::open("sticks.safetensors"), Cpu::new());
    let falling = |concentration| StickPrior::Falling { concentration };
    let dirichlet = StickPrior::Dirichlet { concentration: 1.0 };
    let cases = [
        ("falling", 5, 9, falling(5.0), 3),
        ("dirichlet", 4, 5, dirichlet, (1 << 33) + 1),
        ("two", 3, 2, falling(2.5), 0),
    ];
    for (case, b, j, prior, step) in cases {
        let get = |name: &str| format!("{case}/{name}");
        let head = matrix(1, b, 2 * j, oracle.f32(&get("head")));
        let w = matrix(1, b, j, oracle.f32(&get("w")));
        let keys = keys(Stream::Latent, 1);
        for (name, draw) in [("drawn", Some(Draw { keys: &keys, step })), ("mean", None)] {
            let (mut weights, mut d_head) = (zeros(1, b, j), zeros(1, b, 2 * j));
            cpu.stick_breaking(draw, &head, &mut weights).unwrap();
            assert_tensor_close(&weights.data, &oracle.f64(&get(name)), TOLERANCE, &get(name));
            cpu.stick_breaking_backward(draw, &head, &w, &mut d_head).unwrap();
            let gradient = get(&format!("{name}_gradient"));
            assert_tensor_close(&d_head.data, &oracle.f64(&gradient), TOLERANCE, &gradient);
        }
        let (mut d_head, mut sums) = (matrix(1, b, 2 * j, vec![9.0; b * 2 * j]), cpu.sums(1, b, 1).unwrap());
        cpu.stick_prior(prior, &head, &mut d_head, &mut sums).unwrap();
        let kl = -cpu.take_sums(&mut sums).unwrap()[0].elbo() / b as f64;
        assert_close(&[kl], &oracle.f64(&get("kl")), 1e-9, &get("kl"));
        let gradient = get("kl_gradient");
        assert_tensor_close(&d_head.data, &oracle.f64(&gradient), TOLERANCE, &gradient);
    }
}

/// Everything between encoder and decoder, in the order of a training step.
#[test]
fn elbo_of_a_mixture_as_posterior() {
    const B: usize = 6;
    const K: usize = 4;
    const J: usize = 3;
    const D: usize = 7;
    let (oracle, cpu) = (Oracle::open("sticks.safetensors"), Cpu::new());
    let get = |name: &str| oracle.f32(&format!("mixture/{name}"));
    let components = matrix(1, K * B, 2 * J, get("components"));
    let (sticks, x) = (matrix(1, B, 2 * K, get("sticks")), matrix(1, B, D, get("x")));
    let (layout, layer) = one_layer(J, D);
    let mut params = Params::zeros(&cpu, 1, layout.len()).unwrap();
    cpu.write(&mut params.values, layer.weight.offset, &get("layer")).unwrap();
    let keys = keys(Stream::Latent, 1);
    let draw = |step: u64| Some(Draw { keys: &keys, step });
    let (mut z, mut output) = (zeros(1, K * B, J), zeros(1, K * B, D));
    let (mut shares, mut drawn) = (zeros(1, B, K), zeros(1, B, K));
    cpu.sample_latents(draw(5), components.rows, &components, &mut z).unwrap();
    cpu.stick_breaking(None, &sticks, &mut shares).unwrap();
    cpu.stick_breaking(draw(6), &sticks, &mut drawn).unwrap();
    cpu.affine(&params, layer, &z, Activation::Linear, &mut output).unwrap();

    let filled = |rows: usize, columns: usize| -> Matrix<Floats> {
        matrix(1, rows, columns, vec![9.0; rows * columns])
    };
    let (mut d_components, mut d_sticks) = (filled(K * B, 2 * J), filled(B, 2 * K));
    let (mut d_shares, mut d_drawn, mut dz) = (filled(B, K), filled(B, K), zeros(1, K * B, J));
    let mut sums = cpu.sums(1, B, K).unwrap();
    let posterior = PosteriorMixture { head: &components, z: &z, shares: &shares, drawn: &drawn };
    cpu.posterior_mixture(0.5, posterior, &mut d_components, &mut d_shares, &mut d_drawn, &mut sums).unwrap();
    cpu.weighted_likelihood(&[Likelihood::Bernoulli], &x, &shares, &mut output, &mut d_shares, &mut sums)
        .unwrap();
    cpu.affine_backward_input(&params, layer, &output, None, &mut dz).unwrap();
    cpu.sample_latents_backward(components.rows, &components, &z, &dz, None, &mut d_components).unwrap();
    cpu.stick_prior(StickPrior::Dirichlet { concentration: 1.0 }, &sticks, &mut d_sticks, &mut sums).unwrap();
    cpu.stick_breaking_backward(None, &sticks, &d_shares, &mut d_sticks).unwrap();
    cpu.stick_breaking_backward(draw(6), &sticks, &d_drawn, &mut d_sticks).unwrap();

    let elbo = cpu.take_sums(&mut sums).unwrap()[0].elbo() / B as f64;
    assert_close(&[elbo], &oracle.f64("mixture/elbo"), 1e-6, "ELBO");
    for (name, ours) in [("components", &d_components), ("sticks", &d_sticks)] {
        let theirs = oracle.f64(&format!("mixture/{name}_gradient"));
        assert_tensor_close(&ours.data, &theirs, TOLERANCE, name);
    }
}
