//! The neighbour graph and merging, on graphs with known solutions.

use crate::common::{planted, same_on_any_number_of_threads};
use pervade::compute::Cpu;
use pervade::graph::{Graph, GraphOptions, PartGraph, Parts, Target, group, modularity};
use pervade::metrics::{
    ari, live_clusters, mean_entropy, occupancy, occupancy_entropy, silhouette, stability,
};
use pervade::mixture::kmeans;
use pervade::seed::{Key, Stream};

fn key() -> Key {
    Key::new(2, Stream::Sample, 0)
}

fn options(neighbours: usize) -> GraphOptions {
    GraphOptions::default().with(|o| o.neighbours = neighbours)
}

/// Parts in cliques on a ring, one edge from each clique to the next; `means` are on a line.
fn ring_of_cliques(n_cliques: usize, clique: usize, means: impl Fn(usize) -> f64) -> Parts {
    let n_parts = n_cliques * clique;
    let mut edges = vec![0.0; n_parts * n_parts];
    let mut join = |a: usize, b: usize| {
        edges[a * n_parts + b] += 1.0;
        edges[b * n_parts + a] += 1.0;
    };
    for part in 0..n_parts {
        let first = part / clique * clique;
        (part + 1..first + clique).for_each(|other| join(part, other));
        if part == first {
            join(part, (part + clique + 1) % n_parts);
        }
    }
    let means = (0..n_parts).map(|part| means(part / clique)).collect();
    Parts { graph: PartGraph { n_parts, edges }, sizes: vec![10.0; n_parts], means, n_latent: 1 }
}

#[test]
fn auto_finds_the_cliques_of_a_ring() {
    let parts = ring_of_cliques(6, 5, |_| 0.0);
    let grouping = group(&parts, Target::Auto).unwrap();
    assert_eq!((grouping.n_groups, grouping.natural_number), (6, 6));
    let expected: Vec<u32> = (0..30).map(|part| part / 5).collect();
    assert_eq!(grouping.groups, expected, "groups of equal size are numbered by their first part");
    // 10 + 1 edges per clique, 10 of them inside, each with two ends.
    assert!((grouping.modularity - (10.0 / 11.0 - 1.0 / 6.0)).abs() < 1e-12);
}

/// Cliques 0, 2, 4 are close together and so are 1, 3, 5, but the ring's edges join neighbours: far below the natural
/// number means decide, near it edges do.
#[test]
fn ward_takes_over_far_below_the_natural_number() {
    let parts = ring_of_cliques(6, 5, |clique| if clique % 2 == 0 { 0.0 } else { 100.0 } + clique as f64);
    let two = group(&parts, Target::Fixed(2)).unwrap();
    let parity: Vec<u32> = (0..30).map(|part| part / 5 % 2).collect();
    assert_eq!(two.groups, parity);
    let five = group(&parts, Target::Fixed(5)).unwrap();
    let merged: Vec<u32> =
        (0..30).map(|part| part / 5).filter(|c| five.groups[*c as usize * 5] == 0).collect();
    assert_eq!((five.n_groups, merged.len()), (5, 10), "one pair was merged and is the largest group");
    assert_ne!(merged[0] % 2, merged[9] % 2, "neighbours on the ring, not neighbours by mean");
    let more = group(&parts, Target::Fixed(9)).unwrap();
    assert_eq!((more.n_groups, more.natural_number), (9, 6), "stops on the way to the natural number");
}

#[test]
fn groups_are_numbered_by_size_and_empty_parts_join_the_nearest() {
    let mut parts = ring_of_cliques(4, 4, |clique| clique as f64);
    parts.sizes = (0..16).map(|part| [5.0, 20.0, 10.0, 40.0][part / 4]).collect();
    for edges in parts.graph.edges.iter_mut().skip(15).step_by(16) {
        *edges = 0.0;
    }
    parts.graph.edges[15 * 16..].fill(0.0);
    parts.sizes[15] = 0.0;
    parts.means[15] = 0.9; // nearest to clique 1
    let grouping = group(&parts, Target::Fixed(4)).unwrap();
    let expected = [3, 3, 3, 3, 1, 1, 1, 1, 2, 2, 2, 2, 0, 0, 0, 1];
    assert_eq!(grouping.groups, expected);
    let error = group(&parts, Target::Fixed(16)).unwrap_err().to_string();
    assert_eq!(error, "`clusters` is 16, must be between 1 and 15, the number of components that hold rows");
    assert!(group(&parts, Target::Fixed(0)).is_err());
}

#[test]
fn neighbours_equal_a_full_sort() {
    for (n_rows, n_latent, neighbours) in [(2, 1, 10), (17, 3, 5), (203, 7, 10), (130, 64, 12)] {
        // Rounded, so that equal distances are common and their order is tested.
        let latents: Vec<f32> = planted(n_rows, n_latent, 3).0.iter().map(|z| z.round()).collect();
        let graph = Graph::build(&Cpu::new(), &latents, n_latent, &options(neighbours), key()).unwrap();
        let row = |i: usize| &latents[i * n_latent..(i + 1) * n_latent];
        let square = |i, j| row(i).iter().zip(row(j)).map(|(a, b)| (a - b) * (a - b)).sum::<f32>();
        assert_eq!(graph.n_neighbours, neighbours.min(n_rows - 1));
        for node in 0..n_rows {
            let mut others: Vec<usize> = (0..n_rows).filter(|&other| other != node).collect();
            others.sort_by(|&a, &b| square(node, a).total_cmp(&square(node, b)).then(a.cmp(&b)));
            let expected: Vec<u32> = others[..graph.n_neighbours].iter().map(|&other| other as u32).collect();
            let ours = &graph.neighbours[node * graph.n_neighbours..][..graph.n_neighbours];
            assert_eq!(ours, expected, "node {node} of {n_rows}");
        }
    }
}

#[test]
fn the_graph_is_built_on_a_sample_if_there_are_many_rows() {
    let (latents, labels) = planted(2000, 3, 4);
    let options = options(5).with(|o| o.max_rows = 300);
    let graph = Graph::build(&Cpu::new(), &latents, 3, &options, key()).unwrap();
    assert_eq!((graph.rows.len(), graph.neighbours.len()), (300, 1500));
    assert!(graph.rows.is_sorted() && graph.rows.windows(2).all(|pair| pair[0] < pair[1]));
    assert!(graph.rows[299] > 1900, "drawn from all rows");
    let score = modularity(&graph, &labels).unwrap();
    assert!(score > 0.7, "{score}");
    assert!(Graph::build(&Cpu::new(), &[1e30, 0.0], 1, &options, key()).is_err(), "distances would overflow");
    assert!(modularity(&graph, &labels[..50]).is_err());
}

#[test]
fn many_parts_are_grouped_into_the_planted_clusters_on_any_number_of_threads() {
    let (latents, labels) = planted(3000, 4, 6);
    let (groups, clusters) = same_on_any_number_of_threads(|| {
        let parts = kmeans(&Cpu::new(), &latents, 4, 40, key(), 0).unwrap();
        let graph = Graph::build(&Cpu::new(), &latents, 4, &options(10), key()).unwrap();
        let parts_of = Parts::count(&graph, &latents, 4, &parts.assignment, &parts.centres).unwrap();
        let grouping = group(&parts_of, Target::Auto).unwrap();
        let clusters: Vec<u32> =
            parts.assignment.iter().map(|&part| grouping.groups[part as usize]).collect();
        let score = silhouette(&latents, 4, &clusters, 500, key()).unwrap().unwrap();
        assert!(score > 0.6, "{score}");
        (grouping, clusters)
    });
    assert_eq!(groups.n_groups, 6);
    assert!(ari(&clusters, &labels).unwrap() > 0.999);
    let shuffled: Vec<u32> = (0..3000).map(|row| clusters[(row * 7 + 1) % 3000]).collect();
    assert!(ari(&shuffled, &labels).unwrap() < 0.05, "negative control");
    assert!(silhouette(&latents, 4, &shuffled, 500, key()).unwrap().unwrap() < 0.0);
    assert!(stability(&[&clusters, &labels, &shuffled]).unwrap().unwrap() < 0.4);
}

#[test]
fn label_free_scores() {
    let counts = occupancy(&[0, 0, 2, 2], 4).unwrap();
    assert_eq!(counts, [2, 0, 2, 0]);
    assert!((occupancy_entropy(&counts) - 2f64.ln()).abs() < 1e-15);
    assert_eq!(live_clusters(&[1000, 5, 4, 0]), 1);
    assert_eq!(live_clusters(&[990, 6, 4, 0]), 2);
    assert!(occupancy(&[4], 4).is_err());
    let entropy = mean_entropy(&[0.5f32, 0.5, 1.0, 0.0], 2).unwrap();
    assert!((entropy - 0.5 * 2f64.ln()).abs() < 1e-15);
    assert_eq!(stability(&[vec![0, 1]]).unwrap(), None);
    assert_eq!(silhouette(&[0.0, 1.0], 1, &[3, 3], 10, key()).unwrap(), None, "one cluster");
    assert!(ari(&[], &[]).is_err() && ari(&[1], &[1, 2]).is_err());
}

/// Ward's tree of three groups on a line, and its ends: one point, and points that are all the same.
#[test]
fn wards_tree_cuts_into_the_nearest_groups() {
    use pervade::graph::{SquareDistances, cut, ward};
    let rows = [0.0f32, 0.1, 10.0, 10.2, 0.2, 30.0];
    let tree = ward(SquareDistances::euclidean(&rows, 1));
    assert_eq!(tree.len(), 5);
    assert_eq!(cut(&tree, 6, 3).0, [0, 0, 1, 1, 0, 2]);
    assert_eq!(cut(&tree, 6, 2).0, [0, 0, 0, 0, 0, 1]);
    // The first merge: half the squared distance of two points, times two.
    assert!((tree[0].square - 0.01).abs() < 1e-6, "{}", tree[0].square);
    assert!(ward(SquareDistances::euclidean(&rows[..1], 1)).is_empty());
    assert_eq!(cut(&ward(SquareDistances::euclidean(&[2.0; 4], 1)), 4, 4).0, [0, 1, 2, 3]);
}
