//! `pervade reproduce` on a small data folder: records, tables, resuming, and errors.

use crate::common::{Sandbox, digits};

const ROWS: &str = r#"
[[data]]
name = "digits"
title = "Digits"
path = "small/digits.csv.gz"
labels = "column:last"
clusters = 10
train_rows = 1500
image = "8x8"
stands_for = "MNIST"
note = "smaller"

[[data]]
name = "nowhere"
title = "Nowhere"
path = "nowhere/x.npy"
labels = "y"
clusters = 3

[[row]]
data = "digits"
method = "k-means"
seeds = 2

[[row]]
data = "digits"
method = "gmm"
seeds = 2
paper = { accuracy = 53.73 }
where = "table 2"

[[row]]
data = "digits"
method = "vade-paper"
seeds = 2
settings = { recipe = "paper" }

[[row]]
data = "digits"
method = "vade"
seeds = 2
settings = { recipe = "robust" }

[[row]]
data = "nowhere"
method = "gmm"
seeds = 2
"#;

/// A sandbox with the rows and a data folder with the digits in it.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("own.toml", ROWS);
    std::fs::create_dir_all(sandbox.path("data/small")).unwrap();
    std::fs::copy(digits(), sandbox.path("data/small/digits.csv.gz")).unwrap();
    sandbox
}

fn reproduce<'a>(what: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["reproduce", what, "--data", "data", "--rows", "own.toml", "--device", "cpu"][..], more].concat()
}

fn text(sandbox: &Sandbox, name: &str) -> String {
    String::from_utf8(sandbox.bytes(name)).unwrap()
}

fn record(sandbox: &Sandbox, name: &str) -> serde_json::Value {
    serde_json::from_str(&text(sandbox, &format!("repro/records/{name}.json"))).unwrap()
}

#[test]
fn rows_are_run_once_and_tables_are_made_from_their_records() {
    let sandbox = sandbox();
    let args = reproduce("table2", &["--only", "digits:k-means,digits:gmm"]);
    let ran = sandbox.run(&args).done();
    for name in ["k-means", "gmm"] {
        let record = record(&sandbox, &format!("table2/digits-{name}"));
        let runs = record["runs"].as_array().unwrap();
        assert_eq!(runs.iter().map(|run| run["seed"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 1]);
        assert!(runs.iter().all(|run| run["scores"]["accuracy"].as_f64().unwrap() > 0.5), "{runs:?}");
        assert_eq!((record["rows"].as_u64(), record["columns"].as_u64()), (Some(1797), Some(64)));
    }
    let markdown = text(&sandbox, "repro/table2.md");
    assert_eq!(markdown.trim_end(), ran.stdout.trim_end());
    assert!(markdown.contains("| method     |") && markdown.contains("| paper: MNIST |"), "{markdown}");
    assert!(markdown.contains("2 seeds") && markdown.contains("53.73"), "{markdown}");
    assert!(markdown.contains("Digits stands for the paper's MNIST: smaller."), "{markdown}");
    let csv = text(&sandbox, "repro/table2.csv");
    assert_eq!(csv.lines().count(), 1 + 5 * 3);
    assert!(csv.lines().all(|line| line.split(',').count() == 16), "{csv}");
    // Nothing is run again, whatever else is asked for.
    let before = sandbox.bytes("repro/records/table2/digits-gmm.json");
    let again = sandbox.run(&args).done();
    assert_eq!(again.stderr.matches("2 seeds in the record already").count(), 2, "{}", again.stderr);
    assert!(!again.stderr.contains("seed 0:"), "{}", again.stderr);
    assert_eq!(sandbox.bytes("repro/records/table2/digits-gmm.json"), before);
    // One more seed is one more run.
    let more = sandbox.run(&reproduce("table2", &["--only", "digits:gmm", "--seeds", "3"])).done();
    assert!(more.stderr.contains("1 seed to run") && more.stderr.contains("seed 2:"), "{}", more.stderr);
    assert_eq!(record(&sandbox, "table2/digits-gmm")["runs"].as_array().unwrap().len(), 3);
    // The tables are made only from the records.
    std::fs::remove_dir_all(sandbox.path("data")).unwrap();
    let args = ["reproduce", "table2", "--redraw", "--rows", "own.toml", "--device", "cpu"];
    assert!(sandbox.run(&args).done().stdout.contains("3 seeds"));
}

#[test]
fn restarts_of_vade_are_seeds_and_do_not_depend_on_their_number() {
    let sandbox = sandbox();
    let quick = ["--only", "digits:vade", "--hidden", "16,16", "--epochs", "1", "--pretrain-epochs", "2"];
    let args = reproduce("table2", &quick);
    sandbox.run(&[&args[..], &["--seeds", "1"]].concat()).done();
    let first = record(&sandbox, "table2/digits-vade")["runs"][0]["scores"].clone();
    let ran = sandbox.run(&args).done();
    assert!(ran.stderr.contains("1 seed to run"), "{}", ran.stderr);
    assert!(
        ran.stdout.contains("† A quick look with epochs 1, hidden 16,16, pretrain_epochs 2: vade on digits.")
    );
    let resumed = record(&sandbox, "table2/digits-vade")["runs"].clone();
    sandbox.run(&[&args[..], &["--out", "fresh"]].concat()).done();
    let fresh = text(&sandbox, "fresh/records/table2/digits-vade.json");
    let fresh: serde_json::Value = serde_json::from_str(&fresh).unwrap();
    assert_eq!(fresh["runs"][0]["scores"], first);
    assert_eq!(fresh["runs"][1]["scores"], resumed[1]["scores"]);
    // Runs with other settings are not mixed with these.
    let other = sandbox.run(&reproduce("table2", &["--only", "digits:vade", "--epochs", "2"]));
    assert_eq!(other.status, 2, "{}", other.stderr);
    assert!(other.stderr.contains("digits-vade.json`: these runs were made with `epochs` 1, which is 2 now"));
}

#[test]
fn statistics_and_neighbours_have_their_tables() {
    let sandbox = sandbox();
    let one = sandbox.run(&reproduce("table1", &["--only", "digits:gmm"])).done();
    assert!(one.stdout.contains("| Digits (for MNIST) | 1,797 |     - |      64 |"), "{}", one.stdout);
    sandbox.write(
        "own.toml",
        ROWS.replace(
            "method = \"gmm\"\nseeds = 2\npaper = { accuracy = 53.73 }",
            "method = \"pixels\"\nseeds = 1\npaper = { k3 = 2.2 }",
        ),
    );
    let three = sandbox.run(&reproduce("table3", &["--only", "digits:pixels"])).done();
    let scores = record(&sandbox, "table3/digits-pixels")["runs"][0]["scores"].clone();
    // scikit-learn's KNeighborsClassifier on the same split: 0.0404, 0.0438, 0.0572.
    for (k, error) in [("k3", 0.0404), ("k5", 0.0438), ("k10", 0.0572)] {
        assert!((scores[k].as_f64().unwrap() - error).abs() < 5e-5, "{k}: {scores}");
    }
    assert!(three.stdout.contains("|  4.04 |  2.20 |  4.38 |     - |   5.72 |"), "{}", three.stdout);
}

#[test]
fn rows_that_cannot_run_are_reported() {
    let sandbox = sandbox();
    for (more, expected) in [
        (&["--only", "digits:dbscan"][..], "`digits:dbscan`, must be DATASET:METHOD"),
        (&["--only", "iris"], "hint: data sets: digits, nowhere; methods: k-means, gmm, vade-paper, vade"),
        (&["--only", "nowhere"], "data/nowhere/x.npy`: there is no such file or folder"),
        (&["--seeds", "0"], "`seeds` is 0"),
        (&["--rows", "none.toml"], "cannot read `none.toml`"),
    ] {
        let mut args = reproduce("table2", more);
        if more[0] == "--rows" {
            args.drain(4..6);
        }
        let ran = sandbox.run(&args);
        assert_eq!(ran.status, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    }
    let listed = sandbox.run(&reproduce("table2", &["--dry-run"])).done();
    assert!(listed.stdout.contains("table2  digits:gmm  0 of 2 seeds done\n"), "{}", listed.stdout);
    assert!(listed.stdout.contains("nowhere:gmm  0 of 2 seeds done; there is no data/nowhere/x.npy"));
    let missing = sandbox.run(&["reproduce", "table2"]);
    assert!(missing.status == 2 && missing.stderr.contains("--data <DIR>"), "{}", missing.stderr);
}

/// Ten clusters cannot be found in five rows: that row fails, the next one is run all the same.
#[test]
fn a_failed_row_is_reported_at_the_end_and_the_others_are_run() {
    let sandbox = sandbox();
    sandbox.write("data/small/few.csv", "1,2,a\n2,3,b\n3,1,a\n4,7,b\n5,0,a\n");
    let few = ROWS.replace("data = \"digits\"\nmethod = \"k-means\"", "data = \"few\"\nmethod = \"k-means\"");
    let set = "[[data]]\nname = \"few\"\ntitle = \"Few\"\npath = \"small/few.csv\"\nlabels = \"column:last\"\nclusters = 10\n";
    // First in the file, so that it is first in the run.
    sandbox.write("own.toml", format!("{set}{few}"));
    let args = reproduce("table2", &["--only", "few,digits:gmm"]);
    let ran = sandbox.run(&args);
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    assert_eq!(record(&sandbox, "table2/digits-gmm")["runs"].as_array().unwrap().len(), 2);
    let problem = record(&sandbox, "table2/few-k-means")["problem"].as_str().unwrap().to_string();
    let end: Vec<&str> = ran.stderr.lines().rev().take(2).collect();
    assert_eq!(end[0], "check failed: 1 row could not be reproduced");
    assert_eq!(end[1], format!("failed: k-means on few (table2): {problem}"));
    let ran = sandbox.run(&[&args[..], &["-q", "--json"]].concat());
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    assert_eq!(ran.json()["failed"][0]["method"], "k-means", "{}", ran.stdout);
    assert_eq!(ran.json()["failed"][0]["error"], *problem);
}

/// The image's width and height, and how many of its pixels are not white.
fn png(sandbox: &Sandbox, name: &str) -> (u32, u32, usize) {
    let bytes = sandbox.bytes(name);
    let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    let inked = pixels.chunks(3).filter(|pixel| *pixel != [255, 255, 255]).count();
    (info.width, info.height, inked)
}

/// Checks that every opened element is closed, in order, and that attributes are quoted.
fn assert_well_formed(svg: &str) {
    let mut open = Vec::new();
    let mut rest = svg;
    while let Some(start) = rest.find('<') {
        let end = start + rest[start..].find('>').expect("a tag ends");
        let tag = &rest[start + 1..end];
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap().to_string();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(name);
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "{open:?} {rest}");
}

#[test]
fn figures_are_made_once_and_drawn_from_their_records() {
    let sandbox = sandbox();
    let quick =
        ["--take", "120", "--hidden", "16,16", "--pretrain-epochs", "2", "--epochs", "2", "--seeds", "2"];
    let figures = ["accuracy", "latents", "samples", "embeddings", "clusters"];
    for figure in figures {
        let what = format!("figure-{figure}");
        let ran = sandbox.run(&[&reproduce(&what, &quick)[..], &["-q", "--json"]].concat()).done();
        assert_eq!(ran.json()["made"][0]["made"], what, "{}", ran.stdout);
        let (width, height, inked) = png(&sandbox, &format!("repro/figures/{figure}.png"));
        assert!(width >= 500 && height >= 500 && inked > 2_000, "{figure}: {width} x {height}, {inked}");
        assert_well_formed(&text(&sandbox, &format!("repro/figures/{figure}.svg")));
    }
    let accuracy = record(&sandbox, "figures/accuracy");
    let restarts = accuracy["numbers"]["restarts"].as_array().unwrap();
    // Both restarts; the mixture start and two epochs.
    assert!(restarts.len() == 2 && restarts.iter().all(|curve| curve.as_array().unwrap().len() == 3));
    assert_eq!(png(&sandbox, "repro/figures/accuracy.png").0, 1560);
    let latents = record(&sandbox, "figures/latents");
    let panels = latents["numbers"]["panels"].as_array().unwrap();
    let names: Vec<&str> = panels.iter().map(|panel| panel["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["start", "epoch 1", "epoch 2"]);
    assert!(panels.iter().all(|panel| panel["points"].as_array().unwrap().len() == 120));
    let pictures = record(&sandbox, "figures/clusters");
    let lines = |panel: usize| pictures["numbers"]["panels"][panel]["lines"].as_array().unwrap().len();
    assert_eq!((lines(0), lines(1)), (7, 14));
    // Redrawing needs no data and gives the same bytes.
    let before: Vec<Vec<u8>> =
        figures.iter().map(|f| sandbox.bytes(&format!("repro/figures/{f}.svg"))).collect();
    std::fs::remove_dir_all(sandbox.path("data")).unwrap();
    std::fs::remove_dir_all(sandbox.path("repro/figures")).unwrap();
    sandbox.run(&["reproduce", "all", "--redraw", "--rows", "own.toml", "--device", "cpu"]).done();
    let after: Vec<Vec<u8>> =
        figures.iter().map(|f| sandbox.bytes(&format!("repro/figures/{f}.svg"))).collect();
    assert!(before == after);
}
