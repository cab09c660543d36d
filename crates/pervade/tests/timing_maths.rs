//! How long mixture and graph take at the size of MNIST. Ignored by default; to see the figures:
//! `cargo test --release -p pervade --test timing_maths -- --ignored --nocapture`

#![expect(clippy::print_stderr, reason = "printing is what it is for")]

use pervade::graph::{Graph, GraphOptions, Parts, Target, group};
use pervade::mixture::{self, EmOptions};
use pervade::seed::{Key, Stream};
use std::time::Instant;

const N_ROWS: usize = 70_000;
const N_LATENT: usize = 10;
const N_COMPONENTS: usize = 150;

/// Ten overlapping clusters of correlated columns.
fn latents() -> Vec<f32> {
    let key = Key::new(1, Stream::Generate, 0);
    let noise = |row: usize, column: u32| {
        (0..4).map(|draw| key.uniform(row as u64, column, draw) - 0.5).sum::<f64>() * 1.7
    };
    (0..N_ROWS * N_LATENT)
        .map(|place| {
            let (row, j) = (place / N_LATENT, (place % N_LATENT) as u32);
            let centre = 4.0 * (key.uniform((row % 10) as u64, j, 9) - 0.5);
            (centre + noise(row, j) + 0.5 * noise(row, 77)) as f32
        })
        .collect()
}

#[test]
#[ignore = "prints timings"]
fn timings() {
    let latents = latents();
    let key = Key::new(1, Stream::Mixture, 0);
    let start = Instant::now();
    let clusters = mixture::kmeans(&latents, N_LATENT, N_COMPONENTS, key, 0).unwrap();
    let seconds = start.elapsed().as_secs_f64();
    eprintln!("k-means: {seconds:.2} s, {} iterations", clusters.iterations);

    let options = EmOptions { components: N_COMPONENTS, restarts: 1, max_iterations: 20, tolerance: 0.0 };
    let start = Instant::now();
    let fit = mixture::fit(&latents, N_LATENT, &options, key).unwrap();
    let per_iteration = (start.elapsed().as_secs_f64() - seconds) / fit.trace.len() as f64;
    eprintln!("EM: {per_iteration:.4} s an iteration");

    let start = Instant::now();
    let graph = Graph::build(&latents, N_LATENT, &GraphOptions::default(), key).unwrap();
    eprintln!("graph: {:.2} s", start.elapsed().as_secs_f64());

    let start = Instant::now();
    let assignment = fit.mixture.assign(&latents).unwrap();
    let parts = Parts::count(&graph, &latents, N_LATENT, &assignment, &fit.mixture.means).unwrap();
    let grouping = group(&parts, Target::Fixed(10)).unwrap();
    let seconds = start.elapsed().as_secs_f64();
    eprintln!("grouping: {seconds:.2} s, natural number {}", grouping.natural_number);
}
