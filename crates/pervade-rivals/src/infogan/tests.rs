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
    let largest = theirs.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
    for (place, (&a, &b)) in ours.iter().zip(theirs).enumerate() {
        let error = (f64::from(a) - b).abs();
        // A bias before a normalisation has no gradient but for rounding.
        assert!(error <= tolerance * largest.max(1e-3), "{what}[{place}] is {a}, expected {b} of {largest}");
    }
}

/// Writes the oracle's start values over those that were drawn.
fn start(oracle: &Oracle, layout: &Layout, params: &mut Params<Vec<f32>>) {
    for (name, slot) in layout.slots() {
        if !name.ends_with(".mean") && !name.ends_with(".variance") {
            params.values[slot.range()].copy_from_slice(&oracle.f32(&format!("infogan/start/{name}")));
        }
    }
}

/// Every gradient that the oracle has, `factor` times ours.
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
    let as_they_are = Preparation::fit(PrepareKind::None, &data).unwrap();
    let method = InfoGan { n_clusters: 3, batch: BATCH, information_weight: 0.7, ..InfoGan::default() };
    let rows = cpu.rows(data.view(&as_they_are)).unwrap();
    let mut training = Training::new(&method, sizes, &cpu, rows, BATCH, 0).unwrap();
    let Training { generator, discriminator, made_by, judged_by, work, .. } = &mut training;
    start(&oracle, &generator.layout, made_by);
    start(&oracle, &discriminator.layout, judged_by);
    let tick = work.tick(0);

    cpu.write(&mut work.made.z.data, 0, &oracle.f32("infogan/discriminate/z")).unwrap();
    work.discriminate(&cpu, (generator, made_by), (discriminator, judged_by), &tick, false).unwrap();
    let images = oracle.f64("infogan/discriminate/images");
    assert_close(&work.made.images.data, &images, 1e-5, "images");
    let terms = cpu.take_sums(&mut work.both_sums).unwrap()[0].scaled(1.0 / BATCH as f64);
    let terms = [terms.reconstruction, terms.latent, terms.cluster].map(|x| x as f32);
    assert_close(&terms, &oracle.f64("infogan/discriminate/terms"), 1e-5, "discriminate: terms");
    check_gradients(&oracle, "discriminate", &discriminator.layout, judged_by, 2.0);

    cpu.write(&mut work.made.z.data, 0, &oracle.f32("infogan/deceive/z")).unwrap();
    work.deceive(&cpu, (generator, made_by), (discriminator, judged_by), &tick, false).unwrap();
    let terms = cpu.take_sums(&mut work.made_sums).unwrap()[0].scaled(1.0 / BATCH as f64);
    let terms = [terms.reconstruction, terms.latent, terms.cluster].map(|x| x as f32);
    assert_close(&terms, &oracle.f64("infogan/deceive/terms"), 1e-5, "deceive: terms");
    check_gradients(&oracle, "deceive", &generator.layout, made_by, 1.0);
}
