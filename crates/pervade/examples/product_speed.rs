//! The rate of every matrix product of a training step: 784 columns, batch 100, all threads.
//!
//! `cargo run --release -p pervade --example product_speed`
#![expect(clippy::print_stdout, reason = "a program for the terminal")]

use std::time::Instant;

use pervade::compute::cpu::product::{Epilogue, View, product};
use pervade::compute::cpu::simd::Isa;

const BATCH: usize = 100;
const LAYERS: [[usize; 2]; 8] =
    [[784, 500], [500, 500], [500, 2000], [2000, 20], [10, 2000], [2000, 500], [500, 500], [500, 784]];

fn main() {
    for isa in Isa::available() {
        let mut total_ms = [0.0; 3];
        for [inputs, outputs] in LAYERS {
            let seconds = layer(isa, inputs, outputs);
            let rate = seconds.map(|s| 2e-9 * (BATCH * inputs * outputs) as f64 / s);
            total_ms.iter_mut().zip(seconds).for_each(|(total, s)| *total += 1e3 * s);
            println!(
                "{isa:?} {inputs} x {outputs}: forward {:.0}, input gradient {:.0}, weight gradient {:.0} GFLOP/s",
                rate[0], rate[1], rate[2]
            );
        }
        println!("{isa:?} together: {:.2} + {:.2} + {:.2} ms", total_ms[0], total_ms[1], total_ms[2]);
    }
}

/// Seconds of a layer's forward product, input gradient and weight gradient.
fn layer(isa: Isa, inputs: usize, outputs: usize) -> [f64; 3] {
    let (x, weight) = (vec![0.5; BATCH * inputs], vec![0.01; inputs * outputs]);
    let bias = vec![0.0; outputs];
    let (mut y, mut dx) = (vec![0.0; BATCH * outputs], vec![0.0; BATCH * inputs]);
    let mut d_weight = vec![0.0; inputs * outputs];
    let x_view = View::new(&x, BATCH, inputs);
    let weight_view = View::new(&weight, inputs, outputs);
    let forward = best_of(|| product(isa, x_view, weight_view, Epilogue::BiasRelu(&bias), &mut y));
    let dy_view = View::new(&y, BATCH, outputs);
    let input = best_of(|| product(isa, dy_view, weight_view.transposed(), Epilogue::Mask(&x), &mut dx));
    let weights = best_of(|| product(isa, x_view.transposed(), dy_view, Epilogue::Store, &mut d_weight));
    [forward, input, weights]
}

fn best_of(mut work: impl FnMut()) -> f64 {
    work();
    let mut times = (0..30).map(|_| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    });
    let first = times.next().unwrap_or(f64::MAX);
    times.fold(first, f64::min)
}
