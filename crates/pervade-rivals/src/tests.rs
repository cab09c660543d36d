//! The methods' parts against scikit-learn, scipy and numpy; `testdata/oracle/make_rivals.py` wrote the values.

use std::path::Path;

use pervade::graph::Graph;
use pervade::seed::{Key, Stream};
use safetensors::SafeTensors;

use crate::eigen::{Accuracy, smallest};
use crate::gmm::FullMixture;
use crate::sparse::Sparse;
use crate::{ldmgi, spectral};

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
    let start = FullMixture::m_step(&rows, D, &oracle.f64("gamma"), 3, ridge, None).unwrap();
    assert_close(&start.means, &oracle.f64("means_0"), 1e-12, "means");
    assert_close(&start.covariances.concat(), &oracle.f64("covariances_0"), 1e-12, "covariances");
    for iterations in [1, 15] {
        let theirs = |name: &str| oracle.f64(&format!("{name}_{iterations}"));
        let (mixture, log_likelihood) = start.clone().run_em(&rows, iterations, 0.0, ridge).unwrap();
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
