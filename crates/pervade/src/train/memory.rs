//! The memory that training needs, estimated before anything is allocated.

use super::run::graph_rows;
use crate::compute::Device;
use crate::config::{CheckedSettings, Choice};
use crate::data::Dataset;
use crate::graph::n_prepared;
use crate::infer::pass_len;
use crate::memory::{Need, product, require};
use crate::mixture::bytes_needed;
use crate::nn::Architecture;
use crate::{Hint, Result};

/// Bytes of an `f32`.
const SINGLE: usize = size_of::<f32>();
/// Bytes of an `f64`.
const DOUBLE: usize = size_of::<f64>();
/// Buffers of [`crate::compute::Params`]: values, gradients and Adam's two moments.
const PARAMETER_BUFFERS: usize = 4;
/// Buffers of a restart in a checkpoint: values, both moments, the best values.
const CHECKPOINT_BUFFERS: usize = 4;
/// A checkpoint is first collected, then serialised to one file in memory.
const CHECKPOINT_COPIES: usize = 2;
/// Rows of a batch per partial gradient of the mixture.
const PRIOR_ROWS: usize = 25;
/// Copies of the edges between components while they are grouped.
const GROUPING_COPIES: usize = 3;

const PARAMETERS: &str = "parameters and Adam's moments";
const COPIES: &str = "copies of the best parameters";
const CHECKPOINT: &str = "the checkpoint";
const ACTIVATIONS: &str = "activations of a batch";
const LATENTS: &str = "latents and clusters of all rows";
const GRAPH: &str = "the neighbour graph";
const PREPARED: &str = "the neighbour graph of the rows";
const MIXTURE: &str = "the components of the mixture";

/// Returns an error if training needs more memory than is available.
///
/// Restarts are trained one after the other or in parallel, depending on the device; `saved` says whether checkpoints
/// are written.
pub fn require_memory<D: Device>(
    device: &D,
    data: &Dataset,
    settings: &CheckedSettings,
    restarts: usize,
    saved: bool,
) -> Result<()> {
    let need = needed(device, data, settings, restarts, saved);
    require("training", &need, hint(need.largest()))
}

/// Which settings to lower.
fn hint(largest: &str) -> Hint {
    let lower = |name| Hint::new("lower ").setting(name);
    match largest {
        ACTIVATIONS => lower("batch").text(", ").setting("samples").text(" or ").setting("hidden"),
        LATENTS => lower("latents").text(", or give fewer rows"),
        PREPARED => Hint::new("give a table with fewer columns, or use ").setting_to("choose", "elbo"),
        GRAPH => lower("neighbours").text(" or ").setting("graph_rows"),
        MIXTURE => lower("components").text(" or ").setting("latents"),
        CHECKPOINT => {
            let lower =
                lower("hidden").text(", give a table with fewer columns, or do without checkpoints (");
            lower.setting_to("checkpoint", "none").text(")")
        }
        _ => lower("hidden").text(", or give a table with fewer columns"),
    }
}

fn needed<D: Device>(
    device: &D,
    data: &Dataset,
    settings: &CheckedSettings,
    restarts: usize,
    saved: bool,
) -> Need {
    let given = &settings.settings;
    let (n, d, j, c) = (data.n_rows(), data.n_columns(), given.latents(), settings.n_components);
    let architecture = settings.architecture(data);
    let r = device.restarts_at_once(restarts).clamp(1, restarts.max(1));
    let one = product(&[architecture.layout.len(), SINGLE]);
    // The best trial so far is kept next to the current one.
    let packs = if settings.starts > 1 { 2 } else { 1 };
    let (in_pack, finished) = ((r * packs) as u64, (restarts - r.min(restarts)) as u64);
    let times = |factor: u64| one.saturating_mul(factor);
    // Gradients of shares that wait to be averaged, and copies that are exchanged with other ranks.
    let waiting = if given.shares > 1 { 2 + u64::from(given.shares.ilog2()) } else { 0 };
    let parameters = times(in_pack * PARAMETER_BUFFERS as u64 + r as u64 * waiting);
    let copies = times(in_pack + finished + 1);
    let checkpoint = times((in_pack * CHECKPOINT_BUFFERS as u64 + finished) * CHECKPOINT_COPIES as u64);
    let nodes = graph_rows(given, n);
    let neighbours = given.neighbours.min(nodes);
    let clusters = settings.n_clusters.unwrap_or(c);
    // The neighbours, and two copies of the nodes' latents during the search.
    let graph = product(&[2 * r * packs, nodes, neighbours, size_of::<u32>()])
        .saturating_add(product(&[2, nodes, j, SINGLE]));
    let has_pairs = settings.neighbour_weight > 0.0 || given.choose != Choice::Elbo;
    let lists = if has_pairs { 2 } else { 0 };
    let graph = graph.saturating_add(product(&[lists, r, n, neighbours, size_of::<u32>()]));
    let latents = product(&[r, n, j + 1, SINGLE]);
    let rows =
        latents.max(product(&[n, clusters + 1, SINGLE])).saturating_add(product(&[restarts, n, SINGLE]));
    // With an unknown number of clusters, each thread refines the grouping for another number.
    let threads = if settings.n_clusters.is_none() { rayon::current_num_threads() } else { 0 };
    let edges = product(&[(GROUPING_COPIES * r).max(1 + threads), c, c, DOUBLE]);
    let mixture = bytes_needed(n, j, c).saturating_add(edges);
    // Three copies of the prepared rows during the search.
    let distances = settings.preparation.n_distance_columns();
    let is_judged = given.choose != Choice::Elbo;
    let prepared = if is_judged { product(&[3, n_prepared(n, distances), distances, SINGLE]) } else { 0 };
    let need = Need::of(COPIES, copies)
        .and(PREPARED, prepared)
        .and(LATENTS, rows)
        .and(GRAPH, graph)
        .and(MIXTURE, mixture);
    let need = if saved { need.and(CHECKPOINT, checkpoint) } else { need };
    if device.is_host() {
        need.and(PARAMETERS, parameters).and(ACTIVATIONS, activations(settings, &architecture, r, d))
    } else {
        need
    }
}

/// Bytes of the buffers of a step, in pretraining or joint training, and of a pass over all rows.
fn activations(settings: &CheckedSettings, architecture: &Architecture, r: usize, d: usize) -> u64 {
    let (b, given) = (settings.pretrain_batch, &settings.settings);
    let (j, c) = (architecture.n_latents(), settings.n_components);
    let widest = given.hidden().into_iter().chain([d]).max().unwrap_or(d);
    // A layer that is trained on its own has an input, an output, two copies of it and a reconstruction.
    let pretrain = step_len(architecture, b, 1, d).saturating_add(product(&[5, b, widest]));
    let b = settings.batch;
    let prior = product(&[1 + b.div_ceil(PRIOR_ROWS), c, 2 * j + 5]);
    let joint = step_len(architecture, b, given.samples, d).saturating_add(prior);
    // A neighbour of each row is encoded as well.
    let n_neighbours = if settings.neighbour_weight > 0.0 { b } else { 0 };
    let joint = joint.saturating_add(step_len(architecture, n_neighbours, 0, d));
    let elements = pretrain.max(joint).saturating_add(pass_len(architecture));
    elements.saturating_mul(product(&[r, SINGLE]))
}

/// Elements in the buffers of a step: rows, activations, gradients, and sums of the ELBO terms.
fn step_len(architecture: &Architecture, batch: usize, samples: usize, d: usize) -> u64 {
    let (j, outputs) = (architecture.n_latents(), architecture.n_outputs());
    let (encoder, decoder) = (architecture.encoder.activations_len(), architecture.decoder.activations_len());
    let encoder = product(&[batch, d + 2 * encoder + 2 * architecture.n_head()]);
    let decoder = product(&[batch, samples, 2 * decoder + 3 * j + outputs + 6]);
    encoder.saturating_add(decoder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compute::Cpu;
    use crate::config::{Clusters, Recipe, Settings};

    fn need(change: impl Fn(&mut Settings)) -> (Need, u64) {
        let rows = (0..2000).flat_map(|i| [(i as f32 * 0.7).sin(), (i as f32 * 0.3).cos()]).collect();
        let data = Dataset::from_rows(2000, 2, rows).unwrap();
        let mut settings = Settings::recipe(Recipe::Robust, Clusters::Fixed(3));
        change(&mut settings);
        let checked = settings.check(&data).unwrap();
        let need = needed(&Cpu::new(), &data, &checked, 1, false);
        let saved = needed(&Cpu::new(), &data, &checked, 1, true);
        assert!(saved.bytes() > need.bytes());
        (need.clone(), need.bytes())
    }

    /// The networks need more memory than any machine has.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_fit_is_refused_before_it_allocates() {
        let rows = (0..200).map(|i| (i as f32 * 0.7).sin()).collect();
        let data = Dataset::from_rows(100, 2, rows).unwrap();
        let hidden = vec![1 << 16; 64];
        let settings =
            Settings { hidden: Some(hidden), ..Settings::recipe(Recipe::Robust, Clusters::Fixed(3)) };
        let refused =
            crate::fit(&data, &settings.check(&data).unwrap(), &Cpu::new(), &mut crate::train::Silent, None);
        let refused = refused.unwrap_err();
        assert!(matches!(refused, crate::Error::Memory { .. }), "{refused}");
        assert!(refused.hint().unwrap().to_string().contains("lower `hidden`"));
    }

    #[test]
    fn the_networks_of_the_paper_need_little() {
        let (_, bytes) = need(|settings| settings.hidden = Some(vec![500, 500, 2000]));
        // 3.1 million parameters in six copies, and a batch of 256.
        assert!((60_000_000..150_000_000).contains(&bytes), "{bytes}");
    }

    #[test]
    fn each_setting_increases_its_part() {
        let cases: [(&str, &dyn Fn(&mut Settings)); 4] = [
            (PARAMETERS, &|s| s.hidden = Some(vec![65536, 65536])),
            (ACTIVATIONS, &|s| s.samples = 65536),
            (GRAPH, &|s| s.neighbours = 1_000_000),
            (MIXTURE, &|s| s.components = Some(2000)),
        ];
        for (part, change) in cases {
            let (need, bytes) = need(|settings| {
                settings.hidden = Some(vec![10]);
                change(settings);
            });
            assert_eq!(need.largest(), part);
            assert!(bytes > 30_000_000, "{part}: {bytes}");
        }
        // Two matrices of 65536 x 65536 in four buffers and two copies.
        let (_, bytes) = need(|settings| settings.hidden = Some(vec![65536, 65536]));
        assert!(bytes > 6 * 2 * (1 << 34) && bytes < 7 * 2 * (1 << 34), "{bytes}");
    }
}
