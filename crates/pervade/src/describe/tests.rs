use super::ranks::{SortedColumn, quantile};
use crate::data::{Csr, Dataset, Values};

/// Cells with ties, zeros, negative numbers and gaps, and their clusters.
fn cells() -> (Vec<f64>, Vec<u32>) {
    let cell = |i: usize| match i % 7 {
        0 => f64::NAN,
        1 | 2 => 0.0,
        _ => ((i * 37 % 11) as f64 - 4.0) / 2.0,
    };
    ((0..60).map(cell).collect(), (0..60).map(|i| i % 3).collect())
}

/// The definition: the share of pairs in which the row of the cluster is higher, ties counting half.
fn counted(cells: &[f64], clusters: &[u32], cluster: u32) -> f64 {
    let part = |is_own: bool| {
        let chosen = cells.iter().zip(clusters).filter(move |(_, k)| (**k == cluster) == is_own);
        chosen.map(|(&x, _)| x).filter(|x| !x.is_nan()).collect::<Vec<f64>>()
    };
    let (inside, outside) = (part(true), part(false));
    let pairs = inside.iter().flat_map(|a| outside.iter().map(move |b| (a, b)));
    let points = pairs.map(|(a, b)| {
        if a > b {
            1.0
        } else if a == b {
            0.5
        } else {
            0.0
        }
    });
    points.sum::<f64>() / (inside.len() * outside.len()) as f64
}

#[test]
fn auc_equals_a_direct_count() {
    let (cells, clusters) = cells();
    let rows: Vec<u32> = (0..60).collect();
    let schema = crate::data::Schema {
        columns: vec![crate::data::Column::new("a", crate::data::ColumnType::Number)],
        ..Default::default()
    };
    let data = Dataset::typed(cells.clone(), schema.into(), "cells".to_string()).unwrap();
    let column = SortedColumn::of(&data, &rows, &clusters, 3, 0);
    let found = column.auc();
    for cluster in 0..3 {
        let expected = counted(&cells, &clusters, cluster);
        assert!((found[cluster as usize] - expected).abs() < 1e-12, "{found:?}, {expected}");
    }
    assert_eq!(super::ranks::all_auc(&data, &rows, &clusters, 3), found);
    let mut sorted: Vec<f64> = cells.iter().copied().filter(|x| !x.is_nan()).collect();
    sorted.sort_by(f64::total_cmp);
    let values = column.values(|_| true);
    assert_eq!(quantile(&values, 0.5), Some(sorted[(sorted.len() - 1) / 2] + 0.0));
    assert_eq!(quantile(&[], 0.5), None);
}

#[test]
fn sparse_and_dense_columns_have_the_same_auc() {
    let clusters: Vec<u32> = (0..40).map(|i| i % 3).collect();
    let cell = |i: usize, j: usize| if (i * 7 + j * 3) % 5 < 3 { 0.0 } else { ((i * j) % 9) as f32 + 1.0 };
    let (mut starts, mut columns, mut values) = (vec![0], Vec::new(), Vec::new());
    for i in 0..40 {
        for j in (0..100).filter(|&j| cell(i, j) != 0.0) {
            columns.push(j as u32);
            values.push(cell(i, j));
        }
        starts.push(columns.len());
    }
    let csr = Csr::new(starts, columns, values, 100).unwrap();
    let sparse = Dataset::new(40, 100, Values::Csr(csr), "sparse").unwrap();
    let dense = (0..40).flat_map(|i| (0..100).map(move |j| cell(i, j)));
    let dense = Dataset::from_rows(40, 100, dense.collect()).unwrap();
    let rows: Vec<u32> = (0..40).collect();
    let auc = |data: &Dataset| super::ranks::all_auc(data, &rows, &clusters, 3);
    assert_eq!(auc(&sparse), auc(&dense));
    let means = |data: &Dataset| {
        let sums = super::moments::moments(data, &clusters, 3);
        sums.iter().map(|m| (m.sum, m.squares, m.above)).collect::<Vec<_>>()
    };
    assert_eq!(means(&sparse), means(&dense));
}
