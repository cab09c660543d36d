//! Scores and graphs against scipy, scikit-learn and networkx; `testdata/oracle/make_metrics.py`
//! wrote the values.

use crate::common::{Oracle, assert_close};
use pervade::compute::Cpu;
use pervade::graph::{Graph, GraphOptions, Parts, Target, group, modularity};
use pervade::metrics::{self, Contingency};
use pervade::seed::{Key, Stream};

const N_LATENT: usize = 5;

fn key() -> Key {
    Key::new(1, Stream::Sample, 0)
}

fn graph(oracle: &Oracle) -> Graph {
    Graph::build(&Cpu::new(), &oracle.f32("latents"), N_LATENT, &GraphOptions::default(), key()).unwrap()
}

/// Most rows in a matching that preserves the order of labels and clusters. Never above the accuracy, and equal to it
/// only if the table is in the order of a best matching.
fn best_in_order(table: &Contingency) -> u64 {
    let n_clusters = table.second_values.len();
    let mut best = vec![0; n_clusters + 1];
    for counts in table.counts.chunks_exact(n_clusters) {
        let above = best.clone();
        for cluster in 0..n_clusters {
            best[cluster + 1] = above[cluster + 1].max(best[cluster]).max(above[cluster] + counts[cluster]);
        }
    }
    best[n_clusters]
}

#[test]
fn agreement_of_partitions() {
    let oracle = Oracle::open("metrics.safetensors");
    let cases = oracle.cases();
    assert_eq!(cases.len(), 10);
    for case in cases {
        let clusters = oracle.u32(&format!("case_{case}_clusters"));
        let labels = oracle.u32(&format!("case_{case}_labels"));
        let ours =
            [metrics::accuracy, metrics::nmi, metrics::ari].map(|score| score(&clusters, &labels).unwrap());
        assert_close(&ours, &oracle.f64(&format!("case_{case}_scores")), 1e-12, &case);
        let table = metrics::confusion(&clusters, &labels).unwrap();
        let (n_labels, n_clusters) = (table.first_values.len(), table.second_values.len());
        assert_close(&[table.accuracy()], &ours[..1], 1e-12, "the reordered table");
        let in_order = best_in_order(&table) as f64 / table.n_rows as f64;
        assert_close(&[in_order], &ours[..1], 1e-12, "clusters in the order of their labels");
        if n_clusters >= n_labels {
            let diagonal: u64 = (0..n_labels).map(|i| table.counts[i * n_clusters + i]).sum();
            assert_close(&[diagonal as f64 / table.n_rows as f64], &ours[..1], 1e-12, "the diagonal");
        }
    }
}

#[test]
fn neighbours() {
    let oracle = Oracle::open("metrics.safetensors");
    assert_eq!(graph(&oracle).neighbours, oracle.u32("neighbours"));
}

#[test]
fn modularity_of_partitions() {
    let oracle = Oracle::open("metrics.safetensors");
    let graph = graph(&oracle);
    for name in ["parts", "shuffled", "grouped"] {
        let ours = modularity(&graph, &oracle.u32(name)).unwrap();
        assert_close(&[ours], &oracle.f64(&format!("modularity_{name}")), 1e-12, name);
    }
}

/// `testdata/oracle/make_knn.py` wrote the values; many votes are tied.
#[test]
fn labels_of_nearest_neighbours() {
    let oracle = Oracle::open("knn.safetensors");
    for (case, n_columns) in [("few_columns", 4), ("many_columns", 70)] {
        let get = |name: &str| format!("{case}/{name}");
        let (known, known_labels) = (oracle.f32(&get("known")), oracle.u32(&get("known_labels")));
        let (rows, labels) = (oracle.f32(&get("rows")), oracle.u32(&get("labels")));
        let (known, ks) = (metrics::Labelled { rows: &known, labels: &known_labels }, [1, 3, 5, 10]);
        let found = crate::common::same_on_any_number_of_threads(|| {
            metrics::knn_labels(known, &rows, n_columns, &ks).unwrap()
        });
        let test = metrics::Labelled { rows: &rows, labels: &labels };
        let errors = metrics::knn_errors(known, test, n_columns, &ks).unwrap();
        for ((k, found), error) in ks.iter().zip(found).zip(errors) {
            assert_eq!(found, oracle.u32(&get(&format!("found_{k}"))), "{case}, k = {k}");
            assert_close(&[error], &oracle.f64(&get(&format!("error_{k}"))), 1e-12, case);
        }
    }
}

#[test]
fn invalid_input_of_the_neighbour_classifier_is_refused() {
    let known = metrics::Labelled { rows: &[0.0, 1.0, 2.0, 3.0], labels: &[0, 1] };
    let one = metrics::Labelled { rows: &[0.0, 1.0], labels: &[1] };
    let problem = |known, test, columns, k| match metrics::knn_errors(known, test, columns, &[k]) {
        Ok(errors) => panic!("{errors:?}"),
        Err(error) => error.to_string(),
    };
    assert_eq!(metrics::knn_errors(known, one, 2, &[1, 2]).unwrap(), [1.0, 1.0]);
    assert!(problem(known, one, 2, 3).contains("between 1 and 2"));
    assert!(problem(known, one, 2, 0).contains("between 1 and 2"));
    assert!(problem(known, one, 3, 1).contains("4 values do not make rows of 3 columns"));
    assert!(problem(metrics::Labelled { labels: &[0], ..known }, one, 2, 1).contains("1 labels for 2 rows"));
    assert!(problem(known, metrics::Labelled { labels: &[0, 1], ..one }, 2, 1).contains("2 labels"));
    let far = metrics::Labelled { rows: &[1e20, 1.0], ..one };
    assert!(problem(known, far, 2, 1).contains("too large for a distance"));
}

/// The reference tries every pair and computes the modularity of the whole graph each time.
#[test]
fn greedy_merging() {
    let oracle = Oracle::open("metrics.safetensors");
    let (latents, assignment) = (oracle.f32("latents"), oracle.u32("parts"));
    let n_parts = *assignment.iter().max().unwrap() as usize + 1;
    let means = vec![0.0; n_parts * N_LATENT];
    let parts = Parts::count(&graph(&oracle), &latents, N_LATENT, &assignment, &means).unwrap();
    let grouping = group(&parts, Target::Fixed(4)).unwrap();
    let ours: Vec<u32> = assignment.iter().map(|&part| grouping.groups[part as usize]).collect();
    assert_eq!(metrics::ari(&ours, &oracle.u32("grouped")).unwrap(), 1.0);
    assert_close(&[grouping.modularity], &oracle.f64("modularity_grouped"), 1e-12, "modularity");
    assert_eq!(grouping.natural_number, oracle.u32("natural_number")[0] as usize);
    assert_eq!(group(&parts, Target::Auto).unwrap().n_groups, grouping.natural_number);
}

#[test]
fn silhouette() {
    let oracle = Oracle::open("metrics.safetensors");
    let ours =
        metrics::silhouette(&oracle.f32("latents"), N_LATENT, &oracle.u32("parts"), 1000, key()).unwrap();
    assert_close(&[ours.unwrap()], &oracle.f64("silhouette"), 1e-12, "silhouette");
}
