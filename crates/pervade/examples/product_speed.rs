//! Speed of the matrix products of one training step (784 columns, batch 100).
#![expect(clippy::print_stdout, reason = "printing is what it is for")]

use pervade::compute::cpu::{product::*, simd::Isa};
use std::time::Instant;

fn main() {
    let b = 100;
    let layers =
        [[784, 500], [500, 500], [500, 2000], [2000, 20], [10, 2000], [2000, 500], [500, 500], [500, 784]];
    for isa in Isa::available() {
        let mut total = [0.0f64; 3];
        for [i, o] in layers {
            let x = vec![0.5f32; b * i];
            let w = vec![0.01f32; i * o];
            let bias = vec![0.0f32; o];
            let mut y = vec![0.0f32; b * o];
            let mut dx = vec![0.0f32; b * i];
            let mut dw = vec![0.0f32; i * o];
            let mut time = |slot: usize, f: &mut dyn FnMut()| {
                f();
                let mut best = f64::MAX;
                for _ in 0..30 {
                    let t = Instant::now();
                    f();
                    best = best.min(t.elapsed().as_secs_f64());
                }
                total[slot] += best;
                best
            };
            let g = 2e-9 * (b * i * o) as f64;
            let t0 = time(0, &mut || {
                product(isa, View::new(&x, b, i), View::new(&w, i, o), Epilogue::BiasRelu(&bias), &mut y);
            });
            let t1 = time(1, &mut || {
                product(
                    isa,
                    View::new(&y, b, o),
                    View::new(&w, i, o).transposed(),
                    Epilogue::Mask(&x),
                    &mut dx,
                );
            });
            let t2 = time(2, &mut || {
                product(isa, View::new(&x, b, i).transposed(), View::new(&y, b, o), Epilogue::Store, &mut dw);
            });
            println!(
                "{isa:?} {i}x{o}: forward {:.0} input {:.0} weight {:.0} GFLOP/s",
                g / t0,
                g / t1,
                g / t2
            );
        }
        println!("{isa:?} ms: {:?}", total.map(|t| t * 1e3));
    }
}
