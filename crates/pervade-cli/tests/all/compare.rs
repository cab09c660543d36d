//! `pervade compare` on the digits: the table, its files, and what goes wrong.

use crate::common::{Sandbox, TINY, digits};

#[test]
fn every_method_has_a_line_and_the_saved_table_is_the_printed_one() {
    let sandbox = Sandbox::new();
    let digits = digits();
    let start = ["compare", digits.to_str().unwrap(), "--labels", "column:last", "-k", "10", "--seeds", "2"];
    let names = [
        "vade",
        "vade-paper",
        "k-means",
        "spectral",
        "k-prototypes",
        "gower-ward",
        "gmm",
        "gmm-full",
        "ldmgi",
    ];
    let methods = names.join(",");
    let more = ["--methods", &methods, "--out", "table.md"];
    // `compare` has all of them but the last.
    let ran = sandbox.run(&[&start[..], &TINY[..6], &more].concat()).done();
    for name in names {
        assert!(ran.stdout.contains(&format!("\n| {name} ")), "{name} is missing:\n{}", ran.stdout);
        assert!(ran.stderr.contains(&format!("{name}, seed 1: ")), "{}", ran.stderr);
    }
    assert_eq!(sandbox.bytes("table.md"), ran.stdout.as_bytes());
    let json = sandbox.run(&[&start[..], &["--methods", "spectral,k-means", "--json", "-q"]].concat()).done();
    assert!(json.stderr.is_empty(), "{}", json.stderr);
    let methods = json.json()["methods"].as_array().unwrap().clone();
    // In the order of the list, whatever the order typed.
    assert_eq!(
        methods.iter().map(|m| m["name"].as_str().unwrap()).collect::<Vec<_>>(),
        ["k-means", "spectral"]
    );
    let accuracy = |method: usize| methods[method]["runs"][0]["accuracy"].as_f64().unwrap();
    assert!(accuracy(0) > 0.7 && accuracy(1) > 0.85, "{methods:?}");
    assert!(methods[1]["stability"].as_f64().unwrap() > 0.9);
}

#[test]
fn without_labels_only_label_free_scores_are_shown_and_failures_are_lines() {
    let sandbox = Sandbox::new();
    // More columns than full covariances support: that method fails, the other continues.
    let row = |i: usize| (0..1100).map(|j| ((i * j) % 7).to_string()).collect::<Vec<_>>().join(",");
    sandbox.write("wide.csv", (1..40).map(|i| row(i) + "\n").collect::<String>());
    let args = ["compare", "wide.csv", "-k", "2", "--methods", "k-means,gmm-full", "--out", "table.csv"];
    let ran = sandbox.run(&args).done();
    assert!(!ran.stdout.contains("ACC") && ran.stdout.contains("best modularity"), "{}", ran.stdout);
    assert!(ran.stdout.contains("gmm-full stopped after 0 of 3 seeds: `data`: 1100 columns are too many"));
    let csv = String::from_utf8(sandbox.bytes("table.csv")).unwrap();
    assert!(csv.starts_with("method,runs,modularity_mean,") && csv.lines().count() == 3, "{csv}");
}

#[test]
fn usage_errors_are_reported_before_any_work() {
    let sandbox = Sandbox::new();
    let digits = digits();
    for (more, expected) in [
        (
            &["-k", "10", "--methods", "kmeans"][..],
            "`kmeans`, must be `all` or some of: vade, vade-paper, k-means",
        ),
        (&[], "`clusters` is missing"),
        (&["-k", "1"], "must be between 2 and 1797"),
        (&["-k", "10", "--seeds", "0"], "`seeds` is 0"),
        (&["-k", "10", "--hidden", "0"], "`hidden` is 0"),
        (&["-k", "10", "--out", "table.txt"], "must end in .md, .csv or .json"),
    ] {
        let ran = sandbox.run(&[&["compare", digits.to_str().unwrap()][..], more].concat());
        assert_eq!(ran.status, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    }
    assert!(sandbox.files().is_empty());
}
