//! How long mixture and graph take at the size of MNIST, on the CPU and on a CUDA device if there is one.
//! Ignored by default; to see the figures:
//! `cargo test --release -p pervade --test all timing_maths -- --ignored --nocapture`

#![expect(clippy::print_stderr, reason = "its purpose is to print")]

use pervade::compute::{Cpu, Cuda, Device, Precision};
use pervade::graph::{Graph, GraphOptions, Parts, Target, group};
use pervade::mixture::{self, DiagonalMixture, EmOptions};
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
        .map(|index| {
            let (row, j) = (index / N_LATENT, (index % N_LATENT) as u32);
            let centre = 4.0 * (key.uniform((row % 10) as u64, j, 9) - 0.5);
            (centre + noise(row, j) + 0.5 * noise(row, 77)) as f32
        })
        .collect()
}

fn timed<T>(work: impl Fn() -> T) -> (T, f64) {
    let start = Instant::now();
    let done = work();
    (done, start.elapsed().as_secs_f64())
}

/// Times every part; returns the mixture and the graph.
fn time<D: Device>(device: &D, latents: &[f32]) -> (DiagonalMixture, Graph) {
    eprintln!("{}", device.name());
    let key = Key::new(1, Stream::Mixture, 0);
    let (_, one) = timed(|| mixture::kmeans(device, latents, N_LATENT, 1, key, 0).unwrap());
    eprintln!("copying, once around: {one:.4} s");
    let sample: Vec<u32> = (0..20_000).map(|i| i * 3).collect();
    let draws: Vec<f64> = (0..N_COMPONENTS).map(|m| key.uniform(9, m as u32, 9)).collect();
    let mut points = device.points(latents, N_LATENT).unwrap();
    device.kmeans_plus_plus(&mut points, &sample, &draws[..2]).unwrap();
    let start = Instant::now();
    device.kmeans_plus_plus(&mut points, &sample, &draws).unwrap();
    eprintln!("start of k-means: {:.4} s", start.elapsed().as_secs_f64());
    let kmeans = || mixture::kmeans(device, latents, N_LATENT, N_COMPONENTS, key, 0).unwrap();
    let (clusters, seconds) = timed(kmeans);
    eprintln!("k-means: {seconds:.4} s, {} iterations", clusters.iterations);
    let options = |max_iterations| {
        EmOptions::default().with(|o| {
            o.components = N_COMPONENTS;
            o.restarts = 1;
            o.max_iterations = max_iterations;
            o.tolerance = 0.0;
        })
    };
    let fit = |iterations| mixture::fit(device, latents, N_LATENT, &options(iterations), key).unwrap();
    let ((_, few), (fit, many)) = (timed(|| fit(1)), timed(|| fit(21)));
    eprintln!("EM: {:.6} s per iteration", (many - few) / 20.0);
    let build = || Graph::build(device, latents, N_LATENT, &GraphOptions::default(), key).unwrap();
    let (graph, seconds) = timed(build);
    eprintln!("graph: {seconds:.4} s");
    let (grouping, seconds) = timed(|| {
        let assignment = fit.mixture.assign(latents).unwrap();
        let parts = Parts::count(&graph, latents, N_LATENT, &assignment, &fit.mixture.means).unwrap();
        group(&parts, Target::Fixed(10)).unwrap()
    });
    eprintln!("grouping: {seconds:.4} s, natural number {}", grouping.natural_number);
    (fit.mixture, graph)
}

#[test]
#[ignore = "prints timings"]
fn timings() {
    let latents = latents();
    let (mixture, graph) = time(&Cpu::new(), &latents);
    if Cuda::is_present() {
        let cuda = Cuda::open(0, Precision::Fp32, None).unwrap();
        let (again, again_graph) = time(&cuda, &latents);
        let differences = mixture.means.iter().zip(&again.means).map(|(a, b)| (a - b).abs());
        eprintln!("means differ by at most {:e}", differences.fold(0.0, f64::max));
        assert_eq!(graph, again_graph);
    }
}
