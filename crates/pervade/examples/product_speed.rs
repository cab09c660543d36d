//! The rate of every matrix product of a training step: 784 columns, all threads.
//!
//! `cargo run --release -p pervade --example product_speed [batch] [share of zeros in what leaves a ReLU]`
#![expect(clippy::print_stdout, reason = "a program for the terminal")]

use std::time::Instant;

use pervade::compute::cpu::product::{Epilogue, View, product};
use pervade::compute::cpu::simd::Isa;
use pervade::seed::{Key, Stream};

const LAYERS: [[usize; 2]; 8] =
    [[784, 500], [500, 500], [500, 2000], [2000, 20], [10, 2000], [2000, 500], [500, 500], [500, 784]];

fn main() {
    let argument = |i: usize| std::env::args().nth(i).and_then(|x| x.parse::<f64>().ok());
    let (batch, zeros) = (argument(1).unwrap_or(100.0) as usize, argument(2).unwrap_or(0.0));
    let (isa, mut total_ms) = (Isa::detect(), [0.0; 3]);
    for [inputs, outputs] in LAYERS {
        let seconds = layer(isa, batch, zeros, [inputs, outputs]);
        let rate = seconds.map(|s| 2e-9 * (batch * inputs * outputs) as f64 / s);
        total_ms.iter_mut().zip(seconds).for_each(|(total, s)| *total += 1e3 * s);
        println!(
            "{isa:?} {inputs} x {outputs}: forward {:.0}, input gradient {:.0}, weight gradient {:.0} GFLOP/s",
            rate[0], rate[1], rate[2]
        );
    }
    println!("{isa:?} together: {:.2} + {:.2} + {:.2} ms", total_ms[0], total_ms[1], total_ms[2]);
}

/// Seconds of a layer's forward product, input gradient and weight gradient.
fn layer(isa: Isa, batch: usize, zeros: f64, [inputs, outputs]: [usize; 2]) -> [f64; 3] {
    let key = Key::new(0, Stream::Sample, 0);
    let activations = |units: usize, salt: u32| -> Vec<f32> {
        let value = |i: usize| if key.uniform(i as u64, salt, 0) < zeros { 0.0 } else { 0.5 };
        (0..batch * units).map(value).collect()
    };
    let (x, dy, weight) = (activations(inputs, 1), activations(outputs, 2), vec![0.01; inputs * outputs]);
    let bias = vec![0.0; outputs];
    let (mut y, mut dx) = (vec![0.0; batch * outputs], vec![0.0; batch * inputs]);
    let mut d_weight = vec![0.0; inputs * outputs];
    let (x_view, dy_view) = (View::new(&x, batch, inputs), View::new(&dy, batch, outputs));
    let weight_view = View::new(&weight, inputs, outputs);
    let forward = best_of(|| product(isa, x_view, weight_view, Epilogue::BiasRelu(&bias), &mut y));
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
