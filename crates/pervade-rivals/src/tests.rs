//! The methods' parts against scikit-learn, scipy, numpy and kmodes; `make_rivals.py` and `make_mixed.py` in
//! `testdata/oracle` wrote the values.

use std::path::Path;

use pervade::graph::Graph;
use pervade::metrics::ari;
use pervade::seed::{Key, Stream};
use safetensors::SafeTensors;

use crate::eigen::{Accuracy, smallest};
use pervade::graph::{cut, ward};

use crate::gower_ward::{Gower, WardClusters, square_distances};
use crate::k_prototypes::{KPrototypes, Prototypes, default_gamma, filled};
use crate::mixed::{MISSING, MixedRows};
use crate::sparse::Sparse;
use crate::{ldmgi, spectral};
use pervade::mixture::{Covariance, FullMixture};

const N: usize = 120;
const D: usize = 5;
const EXACT: Accuracy = Accuracy { residual: 1e-11, max_passes: 100 };

pub(crate) struct Oracle(Vec<u8>);

impl Oracle {
    fn open() -> Self {
        Self::named("rivals.safetensors")
    }

    pub(crate) fn named(file: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/oracle").join(file);
        Self(std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
    }

    fn values<const B: usize, T>(&self, name: &str, from: fn([u8; B]) -> T) -> Vec<T> {
        let tensors = SafeTensors::deserialize(&self.0).unwrap();
        tensors.tensor(name).unwrap().data().chunks_exact(B).map(|b| from(b.try_into().unwrap())).collect()
    }

    pub(crate) fn f64(&self, name: &str) -> Vec<f64> {
        self.values(name, f64::from_le_bytes)
    }

    pub(crate) fn f32(&self, name: &str) -> Vec<f32> {
        self.values(name, f32::from_le_bytes)
    }

    fn u32(&self, name: &str) -> Vec<u32> {
        self.values(name, u32::from_le_bytes)
    }

    fn mixed(&self, numbers: &str, codes: &str) -> MixedRows {
        let (numbers, codes) = (self.f32(numbers), self.u32(codes));
        let (n_numbers, n_categories) = (4, 3);
        MixedRows { n_rows: numbers.len() / n_numbers, n_numbers, numbers, n_categories, codes }
    }

    fn graph(&self) -> Graph {
        let neighbours = self.u32("neighbours");
        Graph {
            rows: (0..N as u32).collect(),
            n_neighbours: neighbours.len() / N,
            neighbours,
            others: vec![],
        }
    }
}

fn key() -> Key {
    Key::new(3, Stream::Sample, 0)
}

#[track_caller]
fn assert_close(ours: &[f64], theirs: &[f64], tolerance: f64, what: &str) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    for (i, (a, b)) in ours.iter().zip(theirs).enumerate() {
        assert!((a - b).abs() <= tolerance * b.abs().max(1.0), "{what}[{i}] is {a}, expected {b}");
    }
}

fn full(matrix: &Sparse) -> Vec<f64> {
    let n = matrix.len();
    let mut dense = vec![0.0; n * n];
    for i in 0..n {
        matrix.row(i).for_each(|(j, value)| dense[i * n + j] = value);
    }
    dense
}

/// Σ v vᵀ: the same for any signs and any rotation inside the subspace.
fn projector(vectors: &[f64], k: usize) -> Vec<f64> {
    let n = vectors.len() / k;
    let entry = |i: usize, j: usize| (0..k).map(|c| vectors[i * k + c] * vectors[j * k + c]).sum();
    (0..n * n).map(|i| entry(i / n, i % n)).collect()
}

#[test]
fn full_mixtures_agree_with_scikit_learn() {
    let oracle = Oracle::open();
    let (rows, ridge) = (oracle.f32("rows"), 1e-3);
    let start =
        FullMixture::m_step(&rows, D, &oracle.f64("gamma"), 3, Covariance::Full, ridge, None).unwrap();
    assert_close(&start.means, &oracle.f64("means_0"), 1e-12, "means");
    assert_close(&start.covariances.concat(), &oracle.f64("covariances_0"), 1e-12, "covariances");
    for iterations in [1, 15] {
        let theirs = |name: &str| oracle.f64(&format!("{name}_{iterations}"));
        let (mixture, log_likelihood) =
            start.clone().run_em(&rows, iterations, 0.0, Covariance::Full, ridge).unwrap();
        assert_close(&mixture.log_weights, &theirs("log_weights"), 1e-9, "log weights");
        assert_close(&mixture.means, &theirs("means"), 1e-9, "means");
        assert_close(&mixture.covariances.concat(), &theirs("covariances"), 1e-9, "covariances");
        assert_close(&mixture.log_joint(&rows), &theirs("log_joint"), 1e-9, "log joint");
        assert_close(&[log_likelihood], &theirs("log_likelihood"), 1e-10, "log likelihood");
    }
}

#[test]
fn the_normalised_laplacian_and_its_eigenvectors_agree_with_scipy() {
    let oracle = Oracle::open();
    let graph = oracle.graph();
    assert_close(&full(&spectral::laplacian(&graph)), &oracle.f64("laplacian"), 1e-14, "Laplacian");
    let found = spectral::embedding(&graph, 4, key(), EXACT).unwrap();
    assert_close(&found.values, &oracle.f64("eigenvalues"), 1e-9, "eigenvalues");
    let theirs = projector(&oracle.f64("eigenvectors"), 4);
    assert_close(&projector(&found.vectors, 4), &theirs, 1e-7, "eigenvectors");
}

#[test]
fn ldmgi_agrees_with_the_dense_formula() {
    let oracle = Oracle::open();
    let laplacian = ldmgi::laplacian(&oracle.graph(), &oracle.f32("rows"), D, 1e-3);
    let theirs = oracle.f64("ldmgi");
    let largest = theirs.iter().fold(0.0, |largest: f64, x| largest.max(x.abs()));
    let scaled = |values: &[f64]| values.iter().map(|x| x / largest).collect::<Vec<f64>>();
    assert_close(&scaled(&full(&laplacian)), &scaled(&theirs), 1e-10, "Laplacian");
    let found = smallest(&laplacian, 5, laplacian.eigenvalue_bound(), key(), EXACT).unwrap();
    assert_close(&found.values, &oracle.f64("ldmgi_eigenvalues"), 1e-6, "eigenvalues");
    // The remaining vectors are orthogonal to the constant vector, and still orthonormal.
    let left = ldmgi::without_constant(&found.vectors, 5);
    for a in 0..4 {
        let sum: f64 = (0..N).map(|i| left[i * 4 + a]).sum();
        assert!(sum.abs() < 1e-6, "column {a} sums to {sum}");
        for b in 0..4 {
            let dot: f64 = (0..N).map(|i| left[i * 4 + a] * left[i * 4 + b]).sum();
            assert!((dot - f64::from(u8::from(a == b))).abs() < 1e-6);
        }
    }
}

#[test]
fn spectral_rotation_agrees_with_numpy() {
    let oracle = Oracle::open();
    let (objective, clusters) = ldmgi::rotate_from(&oracle.f32("lines"), 4, 7);
    assert_eq!(clusters, oracle.u32("clusters"));
    assert_close(&[objective], &oracle.f64("objective"), 1e-9, "objective");
}

/// A graph with several connected components has as many zero eigenvalues: single-vector iteration would find one.
#[test]
fn multiple_eigenvalues_are_all_found() {
    let ring = |start: u32, len: u32| {
        (0..len).flat_map(move |i| {
            let (a, b) = (start + i, start + (i + 1) % len);
            [(a, a, 1.0), (b, b, 1.0), (a, b, -1.0), (b, a, -1.0)]
        })
    };
    let entries = ring(0, 40).chain(ring(40, 50)).chain(ring(90, 60)).collect();
    let found = smallest(&Sparse::from_entries(150, entries), 4, 4.0, key(), EXACT).unwrap();
    let next = 2.0 - 2.0 * (std::f64::consts::TAU / 60.0).cos();
    assert_close(&found.values, &[0.0, 0.0, 0.0, next], 1e-9, "eigenvalues");
}

/// A chain with one very stiff edge: the wanted eigenvalues are tiny relative to the largest, and the dense solver is
/// used.
#[test]
fn a_small_matrix_with_a_wide_spectrum_is_solved() {
    let edge = |i: u32, w: f64| [(i, i, w), (i + 1, i + 1, w), (i, i + 1, -w), (i + 1, i, -w)];
    let entries = (0..99).flat_map(|i| edge(i, if i == 50 { 1e9 } else { 1.0 })).collect();
    let matrix = Sparse::from_entries(100, entries);
    let found = smallest(&matrix, 3, matrix.eigenvalue_bound(), key(), Accuracy::default()).unwrap();
    // The stiff edge makes its two ends move as one heavier node: close to a chain of 100.
    let chain = |k: f64| 2.0 - 2.0 * (std::f64::consts::PI * k / 100.0).cos();
    assert!((found.values[1] / chain(1.0) - 1.0).abs() < 0.05, "{:?}", found.values);
    assert!((found.values[2] / chain(2.0) - 1.0).abs() < 0.05, "{:?}", found.values);
}

#[test]
fn k_prototypes_agrees_with_kmodes() {
    let oracle = Oracle::named("mixed.safetensors");
    let rows = oracle.mixed("numbers", "codes");
    let gamma = default_gamma(&rows);
    assert_close(&[gamma], &oracle.f64("gamma"), 1e-12, "gamma");
    let theirs =
        Prototypes { n_clusters: 4, gamma, numbers: oracle.f64("means"), codes: oracle.u32("modes") };
    let (clusters, distances): (Vec<u32>, Vec<f64>) = theirs.nearest(&rows).into_iter().unzip();
    assert_eq!(clusters, oracle.u32("prototype_clusters"));
    assert_close(&[distances.iter().sum()], &oracle.f64("cost"), 1e-12, "cost");
    // Their result is one of ours, too, and the best of our starts is at least as good.
    let (means, modes) = (theirs.numbers.clone(), theirs.codes.clone());
    let continued = theirs.run(&rows, 100).prototypes;
    assert_close(&continued.numbers, &means, 1e-12, "means");
    assert_eq!(continued.codes, modes);
    let ours = KPrototypes { n_clusters: 4, ..KPrototypes::default() }.fit(&rows, 0);
    assert!(
        ours.cost <= oracle.f64("cost")[0] * 1.000_001,
        "{} is above {:?}",
        ours.cost,
        oracle.f64("cost")
    );
}

#[test]
fn wards_tree_of_gowers_distances_agrees_with_scipy() {
    let oracle = Oracle::named("mixed.safetensors");
    let rows = oracle.mixed("gap_numbers", "gap_codes");
    let gower = Gower::new(&rows);
    let pairs = (0..rows.n_rows).flat_map(|i| (i + 1..rows.n_rows).map(move |j| (i, j)));
    let distances: Vec<f64> = pairs.map(|(i, j)| gower.distance(rows.row(i), rows.row(j))).collect();
    assert_close(&distances, &oracle.f64("distances"), 1e-12, "distances");
    let merges = ward(square_distances(&gower, &rows).0);
    let heights: Vec<f64> = merges.iter().map(|merge| merge.square.sqrt()).collect();
    assert_close(&heights, &oracle.f64("heights"), 1e-12, "heights");
    for k in [2, 4, 9] {
        let (ours, within) = cut(&merges, rows.n_rows, k);
        let theirs = oracle.u32(&format!("tree_clusters_{k}"));
        // The same partition under other names.
        for (i, j) in (0..rows.n_rows).flat_map(|i| (0..i).map(move |j| (i, j))) {
            assert_eq!(ours[i] == ours[j], theirs[i] == theirs[j], "rows {i} and {j} of {k} clusters");
        }
        for m in 0..k as u32 {
            let members: Vec<usize> = (0..rows.n_rows).filter(|&i| ours[i] == m).collect();
            let square = |&i: &usize, &j: &usize| gower.distance(rows.row(i), rows.row(j)).powi(2);
            let sum: f64 = members.iter().flat_map(|i| members.iter().map(move |j| square(i, j))).sum();
            let mean = sum / (members.len() as f64).powi(2);
            assert_close(&[within[m as usize]], &[mean / 2.0], 1e-12, "half the mean squared distance");
        }
    }
}

/// Four groups: numbers tell two pairs of them apart, categories the two of each pair; a
/// twentieth of the cells is missing.
fn planted(n: usize) -> (MixedRows, Vec<u32>) {
    let labels: Vec<u32> = (0..n as u32).map(|i| i % 4).collect();
    let (mut numbers, mut codes) = (Vec::new(), Vec::new());
    for (i, &label) in labels.iter().enumerate() {
        let uniform = |column| key().uniform(i as u64, column, 0);
        let is_missing = |column| key().uniform(i as u64, column, 1) < 0.05;
        for column in 0..2 {
            let x = f64::from(label / 2) * 2.0 - 1.0 + 0.6 * (uniform(column) - 0.5);
            numbers.push(if is_missing(column) { f32::NAN } else { x as f32 });
        }
        for column in 2..5 {
            let level = if uniform(column) < 0.97 { label % 2 } else { 2 };
            codes.push(if is_missing(column) { MISSING } else { level });
        }
    }
    (MixedRows { n_rows: n, n_numbers: 2, numbers, n_categories: 3, codes }, labels)
}

#[test]
fn numbers_and_categories_together_find_planted_clusters_despite_gaps() {
    let (rows, labels) = planted(400);
    let prototypes = |rows: &MixedRows| {
        let method = KPrototypes { n_clusters: 4, ..KPrototypes::default() };
        let rows = filled(rows.clone());
        let found = method.fit(&rows, 0).prototypes.nearest(&rows);
        ari(&found.into_iter().map(|near| near.0).collect::<Vec<_>>(), &labels).unwrap()
    };
    let tree = |rows: &MixedRows| {
        let gower = Gower::new(rows);
        ari(&WardClusters::fit(&gower, rows.clone(), 4).clusters, &labels).unwrap()
    };
    let half = MixedRows { n_categories: 0, codes: vec![], ..rows.clone() };
    for (name, score) in [("k-prototypes", &prototypes as &dyn Fn(&MixedRows) -> f64), ("tree", &tree)] {
        assert!(score(&rows) > 0.85, "{name}: {}", score(&rows));
        // The categories are needed.
        assert!(score(&half) < 0.6, "{name} without categories: {}", score(&half));
    }
}
