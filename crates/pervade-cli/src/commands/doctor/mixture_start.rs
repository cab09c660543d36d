//! The mixture's start and the neighbour graph on a device against the CPU's.

use pervade::Result;
use pervade::compute::Cpu;
use pervade::compute::conformance::{Check, numbers};
use pervade::graph::{Graph, GraphOptions};
use pervade::mixture::{EmOptions, fit, kmeans};
use pervade::seed::{Key, Stream};
use pervade_rivals::RivalDevice;

/// Latents around a few centres, away from the origin.
fn latents(n: usize, j: usize) -> Vec<f32> {
    let (noise, centres) = (numbers(n * j, 60), numbers(7 * j, 61));
    (0..n * j).map(|i| 5.0 + 3.0 * centres[i / j % 7 * j + i % j] + noise[i]).collect()
}

/// A whole start: k-means++, k-means, EM; and a graph.
pub(super) fn against_cpu<D: RivalDevice>(device: &D) -> Result<Vec<Check>> {
    let (n, j, c) = (20_000, 10, 60);
    let (latents, key, cpu) = (latents(n, j), Key::new(7, Stream::Mixture, 0), Cpu::new());
    let ours = kmeans(device, &latents, j, c, key, 0)?;
    let theirs = kmeans(&cpu, &latents, j, c, key, 0)?;
    let options = EmOptions::default().with(|o| {
        o.components = c;
        o.restarts = 2;
        o.max_iterations = 40;
        o.tolerance = 1e-7;
    });
    let our_fit = fit(device, &latents, j, &options, key)?;
    let their_fit = fit(&cpu, &latents, j, &options, key)?;
    let graph = GraphOptions::default();
    let our_graph = Graph::build(device, &latents, j, &graph, key)?.neighbours;
    let their_graph = Graph::build(&cpu, &latents, j, &graph, key)?.neighbours;
    let wide = |ids: &[u32]| ids.iter().map(|&id| f64::from(id)).collect::<Vec<f64>>();
    Ok(vec![
        Check::new("k-means against the CPU, centres", 1e-9, &ours.centres, &theirs.centres),
        Check::new("k-means against the CPU, clusters", 0.0, &ours.assignment, &wide(&theirs.assignment)),
        Check::new("EM against the CPU, log likelihoods", 1e-9, &our_fit.trace, &their_fit.trace),
        Check::new("EM against the CPU, means", 1e-6, &our_fit.mixture.means, &their_fit.mixture.means),
        Check::new("graph of 20,000 rows against the CPU", 0.0, &our_graph, &wide(&their_graph)),
    ])
}
