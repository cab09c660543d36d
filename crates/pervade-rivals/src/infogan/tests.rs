//! One update of InfoGAN against PyTorch; `testdata/oracle/make_images.py` wrote the values.

use pervade::compute::prelude::*;
use pervade::compute::{Cpu, Layout, Params};
use pervade::data::{Dataset, Preparation, PrepareKind};

use super::training::Training;
use super::{InfoGan, Sizes};
use crate::tests::Oracle;

const BATCH: usize = 9;
/// Sums of a few hundred terms in single precision, through six layers and as many normalisations of few rows.
const TOLERANCE: f64 = 2e-4;

#[track_caller]
fn assert_close(ours: &[f32], theirs: &[f64], tolerance: f64, what: &str) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    let largest = theirs.iter().fold(0.0, |largest: f64, x| largest.max(x.abs()));
    for (i, (&a, &b)) in ours.iter().zip(theirs).enumerate() {
        let error = (f64::from(a) - b).abs();
        // A bias before a normalisation has no gradient except for rounding.
        assert!(error <= tolerance * largest.max(1e-3), "{what}[{i}] is {a}, expected {b} of {largest}");
    }
}

/// Overwrites the initial values with the oracle's.
fn initialise(oracle: &Oracle, layout: &Layout, params: &mut Params<Vec<f32>>) {
    for (name, slot) in layout.slots() {
        if !name.ends_with(".mean") && !name.ends_with(".variance") {
            params.values[slot.range()].copy_from_slice(&oracle.f32(&format!("infogan/start/{name}")));
        }
    }
}

/// Compares `factor` times our gradients with the oracle's.
fn check_gradients(oracle: &Oracle, phase: &str, layout: &Layout, params: &Params<Vec<f32>>, factor: f32) {
    for (name, slot) in layout.slots() {
        if name.ends_with(".mean") || name.ends_with(".variance") {
            continue;
        }
        let ours: Vec<f32> = params.gradients[slot.range()].iter().map(|g| factor * g).collect();
        let theirs = oracle.f64(&format!("infogan/{phase}/gradient/{name}"));
        assert_close(&ours, &theirs, TOLERANCE, &format!("{phase}: {name}"));
    }
}

#[test]
fn losses_and_gradients_of_an_update_agree_with_pytorch() {
    let (oracle, cpu) = (Oracle::named("images.safetensors"), Cpu::new());
    let sizes = Sizes {
        side: 8,
        n_clusters: 3,
        n_codes: 2,
        n_noise: 4,
        channels: [5, 6],
        width: 16,
        recognition: 7,
        learn_deviations: true,
    };
    let data = Dataset::from_rows(BATCH, 64, oracle.f32("infogan/real")).unwrap();
    let unscaled = Preparation::fit(PrepareKind::None, &data).unwrap();
    let method = InfoGan { n_clusters: 3, batch: BATCH, information_weight: 0.7, ..InfoGan::default() };
    let rows = cpu.rows(data.view(&unscaled)).unwrap();
    let mut training = Training::new(&method, sizes, &cpu, rows, BATCH, 0).unwrap();
    let Training { generator, discriminator, generator_params, discriminator_params, state, .. } =
        &mut training;
    initialise(&oracle, &generator.layout, generator_params);
    initialise(&oracle, &discriminator.layout, discriminator_params);
    let tick = state.tick(0);

    cpu.write(&mut state.fake.z.data, 0, &oracle.f32("infogan/discriminate/z")).unwrap();
    state
        .discriminator_step(
            &cpu,
            (generator, generator_params),
            (discriminator, discriminator_params),
            &tick,
            false,
        )
        .unwrap();
    let images = oracle.f64("infogan/discriminate/images");
    assert_close(&state.fake.images.data, &images, 1e-5, "images");
    let terms = cpu.take_sums(&mut state.both_sums).unwrap()[0].scaled(1.0 / BATCH as f64);
    let terms = [terms.reconstruction, terms.latent, terms.cluster].map(|x| x as f32);
    assert_close(&terms, &oracle.f64("infogan/discriminate/terms"), 1e-5, "discriminator: terms");
    check_gradients(&oracle, "discriminate", &discriminator.layout, discriminator_params, 2.0);

    cpu.write(&mut state.fake.z.data, 0, &oracle.f32("infogan/deceive/z")).unwrap();
    state
        .generator_step(
            &cpu,
            (generator, generator_params),
            (discriminator, discriminator_params),
            &tick,
            false,
        )
        .unwrap();
    let terms = cpu.take_sums(&mut state.fake_sums).unwrap()[0].scaled(1.0 / BATCH as f64);
    let terms = [terms.reconstruction, terms.latent, terms.cluster].map(|x| x as f32);
    assert_close(&terms, &oracle.f64("infogan/deceive/terms"), 1e-5, "generator: terms");
    check_gradients(&oracle, "deceive", &generator.layout, generator_params, 1.0);
}
