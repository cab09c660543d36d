//! Fit, inspect, assign, embed, generate, evaluate, score on the digits; the schema of every JSON output.

use crate::common::{Sandbox, TINY, digits, sample, two_groups};
use serde_json::Value;

fn numbers(value: &Value, keys: &[&str]) {
    keys.iter().for_each(|key| assert!(value[*key].is_number(), "`{key}` is {}", value[*key]));
}

#[test]
fn fit_reports_everything_documented() {
    let sandbox = Sandbox::new();
    let more = ["--json", "--restarts", "2", "--record", "run.json", "--log", "run.jsonl", "--image", "8x8"];
    let report = sandbox.fit_digits("m.pervade", &more).done().json();
    assert_eq!(report["model"], "m.pervade");
    numbers(&report, &["last_epoch_elbo", "clusters", "stability", "accuracy", "nmi", "ari"]);
    numbers(&report["seconds"], &["read", "pretrain", "init", "train", "total"]);
    numbers(&report["scores"], &["modularity", "silhouette", "live_clusters"]);
    assert_eq!(
        report["occupancy"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum::<u64>(),
        1797
    );
    assert_eq!(report["restarts"].as_array().unwrap().len(), 2);
    numbers(&report["restarts"][1], &["last_epoch_elbo", "accuracy", "nmi", "ari"]);
    if cfg!(target_os = "linux") {
        numbers(&report, &["peak_memory_bytes"]);
    }
    assert_eq!(sandbox.files(), ["m.pervade", "run.json", "run.jsonl"], "no checkpoint is left");
    let record: Value = serde_json::from_slice(&sandbox.bytes("run.json")).unwrap();
    assert_eq!(record["data"], "digits.csv.gz");
    assert!(
        record["command"].as_str().unwrap().starts_with("pervade fit digits.csv.gz --labels column:last")
    );
    assert!(!String::from_utf8(sandbox.bytes("run.json")).unwrap().contains(env!("CARGO_MANIFEST_DIR")));
    assert_eq!(record["history"][0]["pretrain"].as_array().unwrap().len(), 3);
    assert_eq!(record["history"][1]["joint"].as_array().unwrap().len(), 2);
    assert_eq!(record["settings"]["hidden"], serde_json::json!([32, 64]));
    numbers(&record["result"], &["accuracy"]);
    for line in String::from_utf8(sandbox.bytes("run.jsonl")).unwrap().lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        assert!(event["event"].is_string() && event["seconds"].is_number(), "{line}");
    }
}

/// The folder that UCI HAR unpacks to, as the argument of fit, assign and evaluate.
#[test]
fn a_data_set_in_its_original_folder_is_fitted_and_scored() {
    let sandbox = Sandbox::new();
    let row = |i: usize| {
        format!("  {:.7e} {:.7e}\n", (i % 2) as f64 + (i % 7) as f64 * 0.01, (i % 11) as f64 * 0.01)
    };
    for (part, rows) in [("train", 0..140), ("test", 140..200)] {
        std::fs::create_dir_all(sandbox.path(&format!("UCI HAR Dataset/{part}"))).unwrap();
        let text: String = rows.clone().map(row).collect();
        sandbox.write(&format!("UCI HAR Dataset/{part}/X_{part}.txt"), text);
        let labels: String = rows.map(|i| ["1\n", "2\n"][i % 2]).collect();
        sandbox.write(&format!("UCI HAR Dataset/{part}/y_{part}.txt"), labels);
    }
    let data = ["UCI HAR Dataset", "--labels", "y"];
    let fit = [&["fit"], &data[..], &["-k", "2", "--out", "m.pervade", "--json"], &TINY].concat();
    numbers(&sandbox.run(&fit).done().json(), &["accuracy", "nmi"]);
    let csv = sandbox.run(&["assign", "m.pervade", "UCI HAR Dataset"]).done().stdout;
    assert_eq!(csv.lines().count(), 201);
    let scores = sandbox.run(&[&["evaluate", "m.pervade"], &data[..], &["--json"]].concat()).done().json();
    numbers(&scores, &["accuracy", "nmi", "ari"]);
}

#[test]
fn a_model_works_with_every_command() {
    let (sandbox, digits) = (Sandbox::new(), digits());
    let data = [digits.to_str().unwrap(), "--labels", "column:last"];
    let talk = sandbox.fit_digits("m.pervade", &["--image", "8x8"]).done();
    assert!(talk.stdout.is_empty() && talk.stderr.contains("Found 10 clusters"), "{}", talk.stderr);
    let with = |command: &str, more: &[&str]| {
        sandbox.run(&[&[command, "m.pervade"], &data[..], more].concat()).done()
    };

    let page = sandbox.run(&["inspect", "m.pervade"]).done().stdout;
    assert!(page.contains("1,797 rows x 64 columns, pictures of 8 x 8 pixels"), "{page}");
    assert_eq!(sandbox.run(&["inspect", "m.pervade", "--json"]).done().json()["n_columns"], 64);

    let csv = with("assign", &[]).stdout;
    assert_eq!((csv.lines().count(), csv.lines().next()), (1798, Some("cluster")));
    let assigned = with("assign", &["--json"]).json();
    assert_eq!(assigned["assignments"].as_array().unwrap().len(), 1797);
    let probabilities = with("assign", &["--probabilities"]).stdout;
    let first: Vec<f64> =
        probabilities.lines().nth(1).unwrap().split(',').map(|x| x.parse().unwrap()).collect();
    assert_eq!(first.len(), 12);
    assert!((first[2..].iter().sum::<f64>() - 1.0).abs() < 1e-5);
    for out in ["a.csv", "a.npy", "a.parquet"] {
        let object = with("assign", &["--out", out, "--json"]).json();
        assert_eq!((&object["rows"], &object["out"]), (&1797.into(), &out.into()));
    }
    assert_eq!(sandbox.bytes("a.npy").len(), 128 + 4 * 1797);

    assert_eq!(with("embed", &["--out", "z.npy", "--json"]).json()["columns"], 12);
    assert!(sandbox.bytes("z.npy").starts_with(b"\x93NUMPY"));
    assert_eq!(with("reconstruct", &["--json", "--out", "r.parquet"]).json()["columns"], 64);
    let scores = with("score", &["--json"]).json();
    assert_eq!(scores["scores"].as_array().unwrap().len(), 1797);
    numbers(&scores, &["mean_elbo"]);

    let evaluation = with("evaluate", &["--json"]).json();
    numbers(&evaluation, &["accuracy", "nmi", "ari", "clusters", "rows"]);
    let rows = evaluation["confusion"].as_array().unwrap();
    let all = rows.iter().flat_map(|row| row.as_array().unwrap()).map(|n| n.as_u64().unwrap()).sum::<u64>();
    assert_eq!((rows.len(), all), (10, 1797));
    assert!(with("evaluate", &["--at-least", "0.05"]).stdout.contains("accuracy"));
    let failed = sandbox.run(&[&["evaluate", "m.pervade"], &data[..], &["--at-least", "1"]].concat());
    assert_eq!(failed.status, 1);
    assert!(failed.stderr.starts_with("check failed: the accuracy is 0."), "{}", failed.stderr);
}

#[test]
fn rows_and_pictures_are_generated() {
    let sandbox = Sandbox::new();
    sandbox.fit_digits("m.pervade", &["--image", "8x8"]).done();
    let generate = |more: &[&str]| sandbox.run(&[&["generate", "m.pervade"], more].concat());
    let csv = generate(&["--cluster", "3", "--count", "5"]).done().stdout;
    assert_eq!(csv.lines().count(), 6);
    assert!(csv.lines().skip(1).all(|line| line.starts_with("3,") && line.split(',').count() == 65), "{csv}");
    assert_eq!(
        csv,
        generate(&["--cluster", "3", "--count", "5"]).done().stdout,
        "the same seed, the same rows"
    );
    assert_ne!(csv, generate(&["--cluster", "3", "--count", "5", "--seed", "1"]).done().stdout);
    assert_eq!(generate(&["--out", "g.npy", "--count", "7", "--json"]).done().json()["rows"], 7);
    assert_eq!(generate(&["--out", "g.png", "--json"]).done().json()["rows"], 100);
    assert!(sandbox.bytes("g.png").starts_with(b"\x89PNG"));
    for (more, wanted) in [
        (["--cluster", "10"], "`cluster` is 10, must be below 10"),
        (["--count", "0"], "`count` is 0, must be between 1"),
        (["--count", "18446744073709551615"], "must be between 1"),
        (["--out", "g.jpg"], "must end in .csv, .npy or .parquet"),
    ] {
        let ran = generate(&more);
        assert!(ran.status == 2 && ran.stderr.contains(wanted), "{}", ran.stderr);
    }
    sandbox.fit_digits("flat.pervade", &["--quiet"]).done();
    let ran = sandbox.run(&["generate", "flat.pervade", "--out", "flat.png"]);
    assert!(ran.status == 2 && ran.stderr.contains("the model's data are not images"), "{}", ran.stderr);
}

#[test]
fn settings_come_from_a_file_and_flags_override_it() {
    let sandbox = Sandbox::new();
    sandbox.write("run.toml", "clusters = 4\nhidden = [16]\nepochs = 1\npretrain_epochs = 1\nseed = 3\n");
    let digits = digits();
    let fit =
        ["fit", digits.to_str().unwrap(), "--labels", "column:last", "--config", "run.toml", "--seed", "5"];
    let report = sandbox.run(&[&fit[..], &["--json", "--quiet"]].concat()).done();
    assert_eq!(report.stderr, "");
    assert_eq!(report.json()["model"], "digits.pervade", "named after the data");
    let settings = &sandbox.run(&["inspect", "digits.pervade", "--json"]).done().json()["settings"];
    assert_eq!((&settings["clusters"], &settings["seed"]), (&4.into(), &5.into()));
    sandbox.write("run.toml", "clusters = 4\ncolour = 1\n");
    let ran = sandbox.run(&fit);
    assert!(ran.status == 2 && ran.stderr.contains("key `colour` is 1, unknown field"), "{}", ran.stderr);
}

#[test]
fn the_number_of_clusters_can_be_found() {
    let (sandbox, digits) = (Sandbox::new(), digits());
    let fit = [
        "fit",
        digits.to_str().unwrap(),
        "--labels",
        "column:last",
        "-k",
        "auto",
        "--json",
        "--hidden",
        "64,64",
    ];
    let report =
        sandbox.run(&[&fit[..], &["--pretrain-epochs", "30", "--epochs", "2"]].concat()).done().json();
    assert!((3..=40).contains(&report["clusters"].as_u64().unwrap()), "{}", report["clusters"]);
    let levels = report["levels"].as_array().unwrap();
    levels.iter().for_each(|level| numbers(level, &["clusters", "stability", "modularity"]));
    let picked: Vec<&Value> = levels.iter().filter(|level| level["picked"] == true).collect();
    assert_eq!(picked.len(), 1, "{levels:?}");
    assert_eq!(picked[0]["clusters"], report["clusters"]);
    assert_eq!(report["restarts"][0]["levels"], report["levels"]);
    let page = sandbox.run(&["inspect", report["model"].as_str().unwrap()]).done().stdout;
    assert!(page.contains("  clusters  stability  modularity\n") && page.contains("  <- picked\n"), "{page}");
}

#[test]
fn the_demo_writes_all_its_files() {
    let sandbox = Sandbox::new();
    let shown = sandbox.run(&["demo", "--json"]).done();
    assert!(shown.stderr.contains("It never saw a label"), "{}", shown.stderr);
    let report = shown.json();
    assert!(report["accuracy"].as_f64().unwrap() > 0.75, "{report}");
    for file in report["files"].as_array().unwrap() {
        assert!(sandbox.path("pervade-demo").join(file.as_str().unwrap()).is_file(), "{file}");
    }
}

/// `y` is the table's own array, whatever files there are; a file of that name is read if the table has no such array.
#[test]
fn labels_of_the_table_take_precedence_over_a_file_of_the_same_name() {
    let sandbox = Sandbox::new();
    let compare = |data: &str, labels: &str| {
        let args = ["compare", data, "--labels", labels, "-k", "2", "--methods", "k-means", "--seeds", "1"];
        sandbox.run(&[&args[..], &["--device", "cpu"]].concat())
    };
    for name in ["stored.npz", "plain.mat", "one.svm"] {
        std::fs::copy(sample(name), sandbox.path(name)).unwrap();
    }
    sandbox.write("y", "one\n");
    for name in ["stored.npz", "plain.mat", "one.svm"] {
        let ran = compare(name, "y").done();
        let note = format!(
            "note: the labels are `y` in {name}, not the file of that name (for that, `--labels ./y`)"
        );
        assert!(ran.stderr.contains(&note), "{}", ran.stderr);
        let ran = compare(name, "./y");
        assert!(
            ran.status == 2 && ran.stderr.contains("`./y`: there are 1 labels for 6 rows"),
            "{}",
            ran.stderr
        );
    }
    sandbox.write("truth", "0\n1\n".repeat(20));
    sandbox.write("x.csv", two_groups(40));
    assert!(!compare("x.csv", "truth").done().stderr.contains("note: the labels"));
    let ran = compare("x.csv", "falsehood");
    assert!(ran.status == 2 && ran.stderr.contains("there are no labels `falsehood` here"), "{}", ran.stderr);
}
