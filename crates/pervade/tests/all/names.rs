//! Names and merges of clusters, and groups of rows against each other.

use crate::common::{planted, tiny};
use pervade::compute::Cpu;
use pervade::config::{Clusters, Recipe};
use pervade::data::Dataset;
use pervade::describe::{DescribeOptions, compare_groups, describe};
use pervade::model::{Cells, Vade};
use pervade::names::{ClusterNames, LONGEST_NAME, NamedCluster};

fn fitted() -> (Dataset<'static>, Vade) {
    let data = Dataset::from_rows(240, 5, planted(240, 5, 3).0).unwrap();
    let model = crate::common::fit(&data, tiny(Recipe::Robust, Clusters::Fixed(3))).model;
    (data, model)
}

fn entry(cluster: usize, name: Option<&str>, merged_into: Option<usize>) -> NamedCluster {
    NamedCluster { cluster, name: name.map(String::from), merged_into }
}

#[test]
fn merging_sums_probabilities_and_moves_rows() {
    let (data, model) = fitted();
    let cpu = Cpu::new();
    let before = model.assign(&cpu, &data).unwrap();
    let merged = model.merged(&[0, 0, 2]).unwrap();
    let after = merged.assign(&cpu, &data).unwrap();
    for (row, (p, q)) in before.probabilities.chunks(3).zip(after.probabilities.chunks(3)).enumerate() {
        assert!(
            (p[0] + p[1] - q[0]).abs() < 1e-5 && q[1] == 0.0 && (p[2] - q[2]).abs() < 1e-5,
            "{p:?} {q:?}"
        );
        assert_eq!(after.clusters[row], if q[0] >= q[2] { 0 } else { 2 });
    }
    assert!(merged.has_components(0) && !merged.has_components(1));
    assert!(merged.generate(&cpu, Some(1), 3, 0, Cells::Auto).unwrap_err().to_string().contains("merged"));
    let made = merged.generate(&cpu, None, 50, 0, Cells::Auto).unwrap();
    assert!(made.clusters.iter().all(|&k| k != 1));
    let options = DescribeOptions::default().with(|o| o.generated = 20);
    let found = describe(&merged, &cpu, &data, &options).unwrap();
    assert_eq!(found.clusters[1].n_rows, 0);
    assert!(merged.to_bytes().unwrap_err().to_string().contains("merged"), "a file holds no merges");
    assert!(model.merged(&[0, 1]).is_err() && model.merged(&[0, 1, 3]).is_err());
}

#[test]
fn a_group_against_the_rest_is_what_describe_says_about_a_cluster() {
    let (data, model) = fitted();
    let cpu = Cpu::new();
    let clusters = model.assign(&cpu, &data).unwrap().clusters;
    let found = describe(&model, &cpu, &data, &DescribeOptions::default()).unwrap();
    for k in 0..3 {
        let groups: Vec<u32> = clusters.iter().map(|&c| u32::from(c as usize != k)).collect();
        let compared = compare_groups(&model, &data, &groups, 12).unwrap();
        assert_eq!(compared.sizes[0], found.clusters[k].n_rows);
        assert_eq!(compared.columns.len(), found.clusters[k].columns.len());
        for (one, other) in compared.columns.iter().zip(&found.clusters[k].columns) {
            // The other rows are summed cluster by cluster there, and all at once here.
            assert!((one.difference - other.difference).abs() < 1e-9);
            let mut same = one.clone();
            same.difference = other.difference;
            assert_eq!(same, *other);
        }
    }
    // Rows of neither group do not count.
    let left_out = compare_groups(&model, &data, &clusters, 12).unwrap();
    let rows: Vec<usize> = (0..data.n_rows()).filter(|&row| clusters[row] < 2).collect();
    let mut row = vec![0.0; 5];
    let values: Vec<f32> = rows.iter().flat_map(|&i| (data.row_into(i, &mut row), row.clone()).1).collect();
    let alone = Dataset::from_rows(rows.len(), 5, values).unwrap();
    let groups: Vec<u32> = rows.iter().map(|&row| clusters[row]).collect();
    assert_eq!(left_out, compare_groups(&model, &alone, &groups, 12).unwrap());
    assert!(compare_groups(&model, &data, &groups, 12).is_err());
    let nobody = compare_groups(&model, &data, &vec![1; 240], 12).unwrap();
    assert_eq!((nobody.sizes, nobody.columns.len()), ([0, 240], 0));
}

#[test]
fn names_survive_a_file_and_wrong_ones_are_refused() {
    let (_, model) = fitted();
    let none = ClusterNames::none(&model);
    let named = none
        .with_clusters(vec![entry(2, Some(" Ä \u{202e}🐧\"<b> "), None), entry(0, Some("  "), Some(2))], "x");
    let named = named.unwrap();
    assert_eq!((named.name(0), named.name(2)), (None, Some("Ä \u{202e}🐧\"<b>")));
    assert_eq!((named.merged_into(), named.has_merges()), (vec![2, 1, 2], true));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("n.json");
    named.save(&path).unwrap();
    assert_eq!(ClusterNames::load(&path, &model).unwrap(), named);
    let chain = none.with_clusters(vec![entry(0, None, Some(1)), entry(1, None, Some(2))], "x").unwrap();
    assert_eq!(chain.merged_into(), [2, 2, 2], "merges of merges end at the last one");
    let long = "x".repeat(LONGEST_NAME + 1);
    for bad in [
        vec![entry(3, None, None)],
        vec![entry(0, Some(&long), None)],
        vec![entry(0, Some("a\nb"), None)],
        vec![entry(0, Some("\u{1b}[2J"), None)],
        vec![entry(0, None, Some(0))],
        vec![entry(0, None, Some(1)), entry(1, None, Some(0))],
        vec![entry(1, None, None), entry(1, None, None)],
    ] {
        assert!(none.with_clusters(bad.clone(), "x").is_err(), "{bad:?}");
    }
    assert!(none.with_clusters(vec![entry(0, Some(&long[1..]), None)], "x").is_ok());
}
