//! The rivals without networks: planted clusters, new rows, independence of the number of threads, and too few rows.

use pervade::compute::Cpu;
use pervade::data::Dataset;
use pervade::metrics::{accuracy, ari};
use pervade::seed::{Key, Stream};
use pervade::train::Silent;
use pervade::{Clusterer, Clustering, Result};
use pervade_rivals::{GowerWard, method};

const METHODS: [&str; 7] = ["k-means", "k-prototypes", "gower-ward", "gmm", "gmm-full", "spectral", "ldmgi"];

fn noise(row: usize, column: usize) -> f64 {
    let key = Key::new(11, Stream::Generate, 0);
    (0..6).map(|draw| key.uniform(row as u64, column as u32, draw) - 0.5).sum()
}

/// Rows `first..first + n` of four round clusters in five columns. All columns tell clusters apart: each is standardised, and
/// with columns of noise among them ten starts of k-means often miss the best partition.
fn blobs(first: usize, n: usize) -> (Dataset<'static>, Vec<u32>) {
    let labels: Vec<u32> = (first..first + n).map(|row| row as u32 % 4).collect();
    let value = |i: usize| {
        let (row, column) = (first + i / 5, i % 5);
        let corner = [[0, 0], [1, 0], [0, 1], [1, 1]][row % 4];
        (6.0 * f64::from(corner[column % 2]) + noise(row, column)) as f32
    };
    (Dataset::from_rows(n, 5, (0..n * 5).map(value).collect()).unwrap(), labels)
}

/// Two concentric rings, which neither centres nor Gaussians can separate.
fn rings(n: usize) -> (Dataset<'static>, Vec<u32>) {
    let mut rows = Vec::new();
    for row in 0..n {
        let angle = std::f64::consts::TAU * row as f64 / n as f64;
        let radius = if row % 2 == 0 { 1.0 } else { 3.0 } + 0.1 * noise(row, 0);
        rows.extend([(radius * angle.cos()) as f32, (radius * angle.sin()) as f32]);
    }
    (Dataset::from_rows(n, 2, rows).unwrap(), (0..n as u32).map(|row| row % 2).collect())
}

fn clustered(name: &str, data: &Dataset, k: usize, seed: u64) -> Result<Box<dyn Clustering<Cpu>>> {
    method::<Cpu>(name).unwrap().with_clusters(k).cluster(data, &Cpu::new(), seed, &mut Silent)
}

#[test]
fn every_method_finds_planted_clusters_and_assigns_new_rows() {
    let ((known, labels), (new, new_labels)) = (blobs(0, 400), blobs(400, 80));
    for name in METHODS {
        let found = clustered(name, &known, 4, 0).unwrap();
        assert_eq!(found.n_clusters(), 4, "{name}");
        let clusters = found.assign(&Cpu::new(), &known).unwrap();
        assert!(accuracy(&clusters, &labels).unwrap() > 0.99, "{name}");
        let assigned = found.assign(&Cpu::new(), &new).unwrap();
        assert!(accuracy(&assigned, &new_labels).unwrap() > 0.98, "{name}");
        let both = [clusters, assigned].concat();
        assert!(ari(&both, &[labels.clone(), new_labels.clone()].concat()).unwrap() > 0.97, "{name}");
    }
}

#[test]
fn spectral_clustering_separates_rings_and_k_means_does_not() {
    let (data, labels) = rings(600);
    let score = |name: &str| {
        let clusters = clustered(name, &data, 2, 1).unwrap().assign(&Cpu::new(), &data).unwrap();
        accuracy(&clusters, &labels).unwrap()
    };
    assert_eq!(score("spectral"), 1.0);
    assert!(score("k-means") < 0.7);
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let (data, _) = blobs(0, 1500);
    for name in METHODS {
        let on = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| clustered(name, &data, 7, 2).unwrap().assign(&Cpu::new(), &data).unwrap())
        };
        let one = on(1);
        assert_eq!(one, on(3), "{name}");
        assert_eq!(one, on(3), "{name}");
    }
}

#[test]
fn too_few_rows_are_an_error_and_duplicate_rows_are_not() {
    let few = Dataset::from_rows(3, 2, vec![0.0, 1.0, 2.0, 3.0, 5.0, 4.0]).unwrap();
    // Half of the rows are duplicates: cliques and components without variance.
    let repeated = (0..120).flat_map(|i| if i % 2 == 0 { [0.0, 0.0] } else { [1.0, (i as f32).sin()] });
    let repeated = Dataset::from_rows(120, 2, repeated.collect()).unwrap();
    for name in METHODS {
        let error = clustered(name, &few, 5, 0).err().unwrap_or_else(|| panic!("{name}")).to_string();
        assert!(error.contains("between 1 and 3"), "{name}: {error}");
        let found = clustered(name, &repeated, 2, 0).unwrap_or_else(|error| panic!("{name}: {error}"));
        let clusters = found.assign(&Cpu::new(), &repeated).unwrap();
        assert!(clusters.iter().all(|&cluster| cluster < 2), "{name}");
    }
}

#[test]
fn several_seeds_at_once_give_the_same_as_each_alone() {
    // Seven clusters for four planted ones: the result depends on the start of k-means or of the rotation.
    let (data, _) = blobs(0, 300);
    for name in METHODS {
        let mut together = Vec::new();
        let built = method::<Cpu>(name).unwrap().with_clusters(7);
        built
            .cluster_each(&data, &Cpu::new(), &[3, 1], &mut Silent, &mut |seed, found| {
                together.push((seed, found.assign(&Cpu::new(), &data)?));
                Ok(())
            })
            .unwrap();
        let alone =
            |seed| (seed, clustered(name, &data, 7, seed).unwrap().assign(&Cpu::new(), &data).unwrap());
        assert_eq!(together, [alone(3), alone(1)], "{name}");
    }
}

#[test]
fn above_its_number_of_rows_wards_tree_is_of_a_sample() {
    let (data, labels) = blobs(0, 400);
    let sampled = GowerWard { n_clusters: 4, max_rows: 60 };
    let assigned = |seed| {
        let found = sampled.cluster(&data, &Cpu::new(), seed, &mut Silent).unwrap();
        found.assign(&Cpu::new(), &data).unwrap()
    };
    assert!(accuracy(&assigned(0), &labels).unwrap() > 0.98);
    assert_eq!(assigned(0), assigned(0));
    // Clusters are numbered in the order of the sample, which is another one.
    assert_ne!(assigned(0), assigned(1));
}

/// Without categories k-prototypes minimises what k-means does.
#[test]
fn k_prototypes_of_numbers_is_as_good_as_k_means() {
    let (data, _) = blobs(0, 300);
    let rows = pervade_rivals::prepared_rows(&data).unwrap();
    let inertia = |name: &str| {
        let clusters = clustered(name, &data, 6, 0).unwrap().assign(&Cpu::new(), &data).unwrap();
        let mut total = 0.0;
        for cluster in 0..6 {
            let members: Vec<&[f32]> = rows
                .chunks_exact(5)
                .zip(&clusters)
                .filter(|(_, c)| **c == cluster)
                .map(|(row, _)| row)
                .collect();
            for j in 0..5 {
                let values = || members.iter().map(|row| f64::from(row[j]));
                let mean = values().sum::<f64>() / members.len() as f64;
                total += values().map(|x| (x - mean).powi(2)).sum::<f64>();
            }
        }
        total
    };
    let (ours, theirs) = (inertia("k-prototypes"), inertia("k-means"));
    assert!((ours / theirs - 1.0).abs() < 0.01, "{ours} is not near {theirs}");
}
