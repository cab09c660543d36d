//! Milliseconds of each part of a training step (784 columns, batch 100).
#![expect(clippy::print_stdout, reason = "printing is what it is for")]

use pervade::compute::{Cpu, Device};
use pervade::config::{Clusters, Recipe, Settings};
use pervade::data::Dataset;
use pervade::train::{JointStep, Pack, Run};
use std::time::Instant;

fn main() {
    let (n, d) = (2000, 784);
    let rows = (0..n * d).map(|i| ((i * 7919) % 256) as f32 / 255.0).collect();
    let data = Dataset::from_rows(n, d, rows).unwrap();
    let settings = Settings::recipe(Recipe::Paper, Clusters::Fixed(10)).check(&data).unwrap();
    let device = Cpu::new();
    let run = Run::new(&device, &data, &settings).unwrap();
    let mut pack = Pack::new(&run, 0..1).unwrap();
    let mut step = JointStep::new(&run, 0..1).unwrap();
    let mut times = Vec::new();
    for i in 0..60 {
        let t = Instant::now();
        step.step(&run, &mut pack.params, (i / 20) as u64, i % 20, 20, [2e-3, 2e-3]).unwrap();
        times.push(t.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    println!("step ms: min {:.2} median {:.2}", times[0], times[30]);
    let adam = pervade::compute::AdamStep {
        groups: [(0..run.architecture.layout.len(), 1e-3), (0..0, 0.0)],
        step: 5,
        epsilon: 1e-4,
    };
    let mut best = f64::MAX;
    for _ in 0..20 {
        let t = Instant::now();
        device.adam(&mut pack.params, &adam).unwrap();
        best = best.min(t.elapsed().as_secs_f64() * 1e3);
    }
    println!("adam ms: {best:.2}");
}
