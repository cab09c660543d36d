//! Names and merges of clusters: written by `explore`, applied by `assign`, `describe`, `map` and `report`.
#![cfg(unix)]

use crate::common::server::Served;
use crate::common::{QUICK, Sandbox, sample};
use serde_json::{Value, json};

const BOTH: [&str; 4] = ["m.pervade", "p.csv", "--labels", "column:species"];

fn fit(sandbox: &Sandbox, clusters: &str, model: &str) {
    let fit = ["fit", "p.csv", "-k", clusters, "--labels", "column:species", "--out", model];
    sandbox.run(&[&fit[..], &QUICK].concat()).done();
}

fn penguins() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("p.csv", std::fs::read(sample("penguins.csv")).unwrap());
    fit(&sandbox, "4", "m.pervade");
    sandbox
}

fn named(cluster: usize, name: &str) -> Value {
    json!({"cluster": cluster, "name": name, "merged_into": null})
}

/// The checksum of the model, as a names file has it.
fn checksum(sandbox: &Sandbox, model: &str) -> Value {
    sandbox.run(&["inspect", model, "--json"]).done().json()["checksum"].clone()
}

fn write_names(sandbox: &Sandbox, clusters: Value) {
    let file = json!({"format": 1, "model": checksum(sandbox, "m.pervade"), "clusters": clusters});
    sandbox.write("n.json", file.to_string());
}

#[test]
fn names_are_saved_and_read_again() {
    let sandbox = penguins();
    let served = Served::start(&sandbox, &BOTH);
    assert!(served.started["names"].as_str().unwrap().ends_with("m.names.json"));
    let hostile = "</script><script>alert(1)</script> \"'& \u{202e}abc 🐧";
    let merged = json!({"cluster": 2, "name": null, "merged_into": 1});
    let answer = served.ask("names", &json!({"clusters": [named(0, "  Adelie  "), named(1, hostile)]})).ok();
    assert_eq!(answer["reload"], false);
    let page = served.page().body;
    assert!(page.contains("Adelie") && !page.contains(hostile) && page.contains("\\u003c/script\\u003e"));
    let answer =
        served.ask("names", &json!({"clusters": [named(0, "Adelie"), named(1, hostile), merged]})).ok();
    assert_eq!((&answer["reload"], &answer["names"][2]["merged_into"]), (&json!(true), &json!(1)));
    assert!(served.page().body.contains("Merged by hand: cluster 2 into 1"));
    let walk = served.ask("walk", &json!({"from": 0, "to": 2, "steps": 3}));
    assert!(walk.status == 400 && walk.body.contains("merged"), "{walk:?}");
    let stored: Value = serde_json::from_slice(&sandbox.bytes("m.names.json")).unwrap();
    assert_eq!((&stored["format"], &stored["model"]), (&json!(1), &checksum(&sandbox, "m.pervade")));
    assert_eq!(stored["clusters"][0]["name"], "Adelie");
    for (bad, word) in [
        (json!([named(0, &"x".repeat(10_000))]), "10000 characters"),
        (json!([named(0, "two\nlines")]), "control character"),
        (json!([named(4, "x")]), "4 clusters"),
        (json!([named(0, "x"), named(0, "y")]), "twice"),
        (json!([{"cluster": 0, "merged_into": 0}]), "into itself"),
        (json!([{"cluster": 0, "merged_into": 1}, {"cluster": 1, "merged_into": 0}]), "into itself"),
        (json!([{"cluster": 0, "merged_into": 9}]), "into 9"),
    ] {
        let got = served.ask("names", &json!({"clusters": bad}));
        assert!(got.status == 400 && got.body.contains(word), "{word}: {got:?}");
    }
    assert_eq!(served.end("-INT"), 0);
    let again: Value = serde_json::from_slice(&sandbox.bytes("m.names.json")).unwrap();
    assert_eq!(again, stored, "refused names change nothing");
    let reopened = Served::start(&sandbox, &BOTH);
    let page = reopened.page().body;
    assert!(page.contains("Adelie") && page.contains("Merged by hand"));
}

#[test]
fn assign_writes_names_and_sums_merged_clusters() {
    let sandbox = penguins();
    write_names(
        &sandbox,
        json!([named(0, "one, \"two\""), named(3, "three"), {"cluster": 1, "merged_into": 3}]),
    );
    let assign = |more: &[&str]| sandbox.run(&[&["assign"], &BOTH[..], more].concat());
    let plain = assign(&["--probabilities", "--json"]).done().json();
    let merged = assign(&["--names", "n.json", "--probabilities", "--json"]).done().json();
    assert_eq!(merged["names"][1]["merged_into"], 3);
    let rows = |found: &Value| found["probabilities"].as_array().unwrap().clone();
    for (row, (before, after)) in rows(&plain).iter().zip(rows(&merged)).enumerate() {
        let p = |of: &Value, k: usize| of[k].as_f64().unwrap();
        assert!((p(before, 1) + p(before, 3) - p(&after, 3)).abs() < 1e-6 && p(&after, 1) == 0.0);
        let best = (0..4).max_by(|&a, &b| p(&after, a).total_cmp(&p(&after, b)).then(b.cmp(&a))).unwrap();
        assert_eq!(merged["assignments"][row], best);
    }
    let text = assign(&["--names", "n.json", "--probabilities"]).done().stdout;
    let mut lines = text.lines();
    assert_eq!(lines.next().unwrap(), "cluster,name,probability,cluster_0,cluster_2,cluster_3");
    for line in lines {
        let expected = match line.split(',').next().unwrap() {
            "0" => ",\"one, \"\"two\"\"\",",
            "3" => ",three,",
            "2" => "2,,",
            other => panic!("cluster {other}"),
        };
        assert!(line.contains(expected), "{line}");
    }
    let npy = assign(&["--names", "n.json", "--out", "c.npy"]);
    assert!(npy.status == 2 && npy.stderr.contains("names"), "{}", npy.stderr);
    assign(&["--names", "n.json", "--out", "c.parquet"]).done();
    assert!(sandbox.bytes("c.parquet").starts_with(b"PAR1"));
    let without = assign(&[]).done().stdout;
    assert!(without.starts_with("cluster\n"), "without names nothing changes");
}

#[test]
fn describe_map_and_report_use_names() {
    let sandbox = penguins();
    write_names(&sandbox, json!([named(0, "Gentoo <b>"), {"cluster": 1, "merged_into": 0}]));
    let run = |command: &str, more: &[&str]| {
        sandbox.run(&[&[command], &BOTH[..], &["--names", "n.json"], more].concat()).done()
    };
    let text = run("describe", &[]).stdout;
    assert!(
        text.contains("Cluster 0 (Gentoo <b>): ") && text.contains("Cluster 1: merged into cluster 0."),
        "{text}"
    );
    run("describe", &["--out", "d.csv"]);
    let lines = String::from_utf8(sandbox.bytes("d.csv")).unwrap();
    assert!(
        lines.starts_with("cluster,column,difference,auc,inside,outside,name\n0,")
            && lines.contains(",Gentoo <b>\n")
    );
    assert_eq!(run("describe", &["--json"]).json()["names"][0]["name"], "Gentoo <b>");
    run("map", &["--out", "map.csv"]);
    assert!(String::from_utf8(sandbox.bytes("map.csv")).unwrap().starts_with("cluster,name,x,y\n"));
    run("map", &["--out", "map.svg"]);
    assert!(!String::from_utf8(sandbox.bytes("map.svg")).unwrap().contains("<b>"));
    run("report", &["--out", "r.html"]);
    let page = String::from_utf8(sandbox.bytes("r.html")).unwrap();
    assert!(page.contains("Gentoo \\u003cb\\u003e") && page.contains("Merged by hand: cluster 1 into 0"));
}

#[test]
fn names_of_another_model_and_broken_files_are_refused() {
    let sandbox = penguins();
    write_names(&sandbox, json!([named(0, "x")]));
    fit(&sandbox, "3", "other.pervade");
    let data = ["p.csv", "--labels", "column:species", "--names"];
    let other = sandbox.run(&[&["assign", "other.pervade"], &data[..], &["n.json"]].concat());
    assert!(other.status == 2 && other.stderr.contains("another model"), "{}", other.stderr);
    let sum = checksum(&sandbox, "m.pervade");
    for (bytes, word) in [
        (String::new(), "not a file of cluster names"),
        ("my notes".to_string(), "not a file of cluster names"),
        ("{}".to_string(), "missing field `format`"),
        (json!({"format": 2, "else": 1}).to_string(), "format 2"),
        (json!({"format": 1, "model": sum, "clusters": [], "more": 1}).to_string(), "unknown field"),
        (json!({"format": 1, "model": sum, "clusters": [named(7, "x")]}).to_string(), "cluster 7"),
        ("[".repeat(10_000), "not a file of cluster names"),
    ] {
        sandbox.write("bad.json", &bytes);
        let ran = sandbox.run(&[&["assign", "m.pervade"], &data[..], &["bad.json"]].concat());
        assert!(ran.status == 2 && ran.stderr.contains(word), "{bytes:.60}: {}", ran.stderr);
        let explored = [&["explore", "m.pervade"], &data[..], &["bad.json", "--no-open"]].concat();
        let ran = sandbox.run(&explored);
        assert_eq!(ran.status, 2, "{bytes:.60}: {}", ran.stderr);
        assert_eq!(sandbox.bytes("bad.json"), bytes.as_bytes(), "nothing was overwritten");
    }
    let missing = sandbox.run(&[&["assign", "m.pervade"], &data[..], &["none.json"]].concat());
    assert!(missing.status == 2 && missing.stderr.contains("none.json"), "{}", missing.stderr);
    let same = sandbox.run(&[&["explore", "m.pervade"], &data[..], &["m.pervade", "--no-open"]].concat());
    assert_eq!(same.status, 2, "the model is no file of names: {}", same.stderr);
}
