//! Every value is used exactly as typed, or refused by name.

use crate::common::{Ran, Sandbox};
use serde_json::{Value, json};

const SINGLE: [&str; 8] = [
    "noise-variance",
    "dropout",
    "pretrain-learning-rate",
    "learning-rate",
    "mixture-learning-rate",
    "decay",
    "learning-rate-floor",
    "epsilon",
];

fn table(sandbox: &Sandbox) -> String {
    let rows: Vec<String> = (0..40)
        .map(|i| {
            let side = if i % 2 == 0 { 5.0 } else { -5.0 };
            format!("{},{},{}", side + f64::from(i % 7) * 0.1, side, f64::from(i % 5) - side)
        })
        .collect();
    sandbox.write("t.csv", format!("a,b,c\n{}\n", rows.join("\n"))).to_str().unwrap().to_string()
}

fn assert_refused(ran: &Ran, named: &[&str]) {
    assert_eq!(ran.status, 2, "{named:?}: {} {}", ran.stdout, ran.stderr);
    for word in named {
        assert!(ran.stderr.contains(word), "`{word}` is not in: {}", ran.stderr);
    }
}

#[test]
fn flags_that_are_not_finite_numbers_are_refused() {
    let sandbox = Sandbox::new();
    let data = table(&sandbox);
    for flag in SINGLE {
        for value in
            ["nan", "NaN", "inf", "-inf", "infinity", "1e39", "-1e39", "1e400", "1e-60", "1e-400", "x"]
        {
            let typed = format!("--{flag}={value}");
            let ran =
                sandbox.run(&["fit", &data, "-k", "2", "--device", "cpu", "--out", "m.pervade", &typed]);
            assert_refused(&ran, &[&format!("--{flag}"), value]);
        }
    }
    for value in ["nan", "inf", "-inf", "1e400"] {
        let seconds = format!("--checkpoint-seconds={value}");
        let ran = sandbox.run(&["fit", &data, "-k", "2", "--device", "cpu", "--out", "m.pervade", &seconds]);
        assert_refused(&ran, &["--checkpoint-seconds", value]);
        let ran = sandbox.run(&["bench", "step", "--device", "cpu", &format!("--seconds={value}")]);
        assert_refused(&ran, &["--seconds", value]);
        let least = format!("--at-least={value}");
        let ran = sandbox.run(&["evaluate", "m.pervade", &data, "--labels", "column:c", &least]);
        assert_refused(&ran, &["--at-least", value]);
    }
    assert_eq!(sandbox.files(), ["t.csv"]);
}

#[test]
fn configuration_files_have_the_same_limits() {
    let sandbox = Sandbox::new();
    let data = table(&sandbox);
    for flag in SINGLE {
        let key = flag.replace('-', "_");
        for (value, expected) in
            [("nan", "nan"), ("+inf", "inf"), ("-inf", "-inf"), ("1e39", "1e39"), ("1e-60", "1e-60")]
        {
            sandbox.write("run.toml", format!("clusters = 2\n{key} = {value}\n"));
            let ran =
                sandbox.run(&["fit", &data, "--config", "run.toml", "--device", "cpu", "--out", "m.pervade"]);
            assert_refused(&ran, &[&key, expected, "run.toml"]);
        }
    }
    sandbox.write("run.toml", "clusters = 2\nhidden = [4, nan]\n");
    let ran = sandbox.run(&["fit", &data, "--config", "run.toml", "--device", "cpu", "--out", "m.pervade"]);
    assert_refused(&ran, &["hidden", "nan"]);
    assert_eq!(sandbox.files(), ["run.toml", "t.csv"]);
}

/// Every flag of a setting with a value other than the default, and the value in the model.
fn values() -> Vec<(&'static str, &'static str, Value)> {
    vec![
        ("clusters", "3", json!(3)),
        ("recipe", "paper", json!("paper")),
        ("components", "4", json!(4)),
        ("prepare", "standardise", json!("standardise")),
        ("likelihood", "gaussian-fixed", json!("gaussian-fixed")),
        ("gamma", "exact", json!("exact")),
        ("pretrain-epochs", "2", json!(2)),
        ("epochs", "1", json!(1)),
        ("restarts", "2", json!(2)),
        ("starts", "2", json!(2)),
        ("seed", "18446744073709551615", json!(u64::MAX)),
        ("latents", "3", json!(3)),
        ("hidden", "5,6", json!([5, 6])),
        ("batch", "7", json!(7)),
        ("samples", "2", json!(2)),
        ("noise-variance", "0.25", json!(0.25)),
        ("pretrain", "stacked", json!("stacked")),
        ("layer-epochs", "1", json!(1)),
        ("dropout", "0.125", json!(0.125)),
        ("pretrain-batch", "9", json!(9)),
        ("pretrain-learning-rate", "0.0078125", json!(0.0078125)),
        ("cool-down", "3", json!(3)),
        ("mixture-starts", "2", json!(2)),
        ("neighbours", "4", json!(4)),
        ("graph-rows", "30", json!(30)),
        ("learning-rate", "0.015625", json!(0.015625)),
        ("mixture-learning-rate", "0", json!(0.0)),
        ("decay", "0.5", json!(0.5)),
        ("decay-every", "2", json!(2)),
        ("learning-rate-floor", "0.00048828125", json!(0.00048828125)),
        ("epsilon", "0.0009765625", json!(0.0009765625)),
        ("choose", "modularity", json!("modularity")),
        ("keep", "best", json!("best")),
    ]
}

#[test]
fn every_flag_reaches_the_model() {
    let sandbox = Sandbox::new();
    let data = table(&sandbox);
    let typed: Vec<String> = values().iter().map(|(flag, value, _)| format!("--{flag}={value}")).collect();
    let flags: Vec<&str> = typed.iter().map(String::as_str).collect();
    sandbox.run(&[&["fit", &data, "--device", "cpu", "--out", "m.pervade"][..], &flags].concat()).done();
    let settings = sandbox.run(&["inspect", "m.pervade", "--json"]).done().json()["settings"].clone();
    for (flag, _, expected) in values() {
        assert_eq!(settings[flag.replace('-', "_")], expected, "--{flag}");
    }
    let named: Vec<String> = values().iter().map(|(flag, ..)| flag.replace('-', "_")).collect();
    let unnamed: Vec<&String> =
        settings.as_object().unwrap().keys().filter(|key| !named.contains(key)).collect();
    assert_eq!(unnamed, Vec::<&String>::new(), "settings that this test does not type");
    // The same values from a file.
    let lines: Vec<String> = values()
        .iter()
        .filter(|(flag, ..)| *flag != "seed")
        .map(|(flag, _, value)| format!("{flag} = {value}\n"))
        .collect();
    sandbox.write("run.toml", lines.concat());
    sandbox.run(&["fit", &data, "--config", "run.toml", "--device", "cpu", "--out", "c.pervade"]).done();
    let from_file = sandbox.run(&["inspect", "c.pervade", "--json"]).done().json()["settings"].clone();
    for (flag, _, expected) in values().into_iter().filter(|(flag, ..)| *flag != "seed") {
        assert_eq!(from_file[flag.replace('-', "_")], expected, "{flag} in the file");
    }
}

/// A fit on numbers at the edge of single precision: an error that names them, no files written.
#[test]
fn rows_that_overflow_are_named() {
    let sandbox = Sandbox::new();
    let data = table(&sandbox);
    let fit = ["fit", &data, "-k", "2", "--device", "cpu", "--out", "m.pervade", "--hidden", "8,8"];
    let short = ["--latents", "2", "--pretrain-epochs", "2", "--epochs", "1", "--prepare", "none"];
    sandbox.run(&[&fit[..], &short].concat()).done();
    let far = sandbox.write("far.csv", "a,b,c\n1,2,3\n-5,-5,5\n3e38,3e38,-3e38\n1,1,1\n");
    let far = far.to_str().unwrap();
    for command in ["assign", "embed", "reconstruct"] {
        let ran = sandbox.run(&[command, "m.pervade", far, "--device", "cpu", "--out", "out.csv"]);
        assert_refused(&ran, &["far.csv", "row 3", "3e38", "column `a`", "hint:"]);
        assert!(!sandbox.path("out.csv").exists());
        let ran = sandbox.run(&[command, "m.pervade", far, "--device", "cpu"]);
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""));
    }
    // The score is minus infinity there, and the row as anomalous as can be, by design.
    let scores = sandbox.run(&["score", "m.pervade", far, "--device", "cpu"]).done();
    assert_eq!(scores.stdout.lines().nth(3), Some("-inf,inf"), "{}", scores.stdout);
    let rows: Vec<String> = (0..40).map(|i| format!("{},{}", f64::from(i % 2) * 3e38, i % 3)).collect();
    sandbox.write("huge.csv", format!("a,b\n{}\n", rows.join("\n")));
    for prepare in ["none", "unit", "standardise", "row-norm"] {
        let args =
            ["fit", "huge.csv", "-k", "2", "--device", "cpu", "--out", "h.pervade", "--prepare", prepare];
        let ran = sandbox
            .run(&[&args[..], &["--epochs", "1", "--pretrain-epochs", "1", "--hidden", "8,8"]].concat());
        if ran.status == 0 {
            sandbox.run(&["inspect", "h.pervade"]).done();
            std::fs::remove_file(sandbox.path("h.pervade")).unwrap();
        } else {
            assert_refused(&ran, &["error:", "hint:"]);
            assert!(!sandbox.path("h.pervade").exists());
        }
    }
}

#[test]
fn the_elbo_is_that_of_the_kept_state() {
    let sandbox = Sandbox::new();
    let data = table(&sandbox);
    let run = |keep: &str| {
        let args =
            ["fit", &data, "-k", "2", "--device", "cpu", "--out", "m.pervade", "--json", "--keep", keep];
        sandbox
            .run(&[&args[..], &["--hidden", "8,8", "--pretrain-epochs", "3", "--epochs", "4"]].concat())
            .done()
            .json()
    };
    let last = run("last");
    assert!(last["elbo"].is_number() && last["elbo"] == last["last_epoch_elbo"], "{last}");
    let best = run("best");
    let history = sandbox.run(&["inspect", "m.pervade", "--json"]).done().json()["record"].clone();
    let kept = history["states"][history["kept"].as_u64().unwrap() as usize]["epoch"].as_u64().unwrap();
    let expected = if kept == 0 { Value::Null } else { history["joint"][kept as usize - 1]["elbo"].clone() };
    assert_eq!(best["elbo"], expected);
    assert_eq!(best["restarts"][0]["elbo"], expected);
    assert_eq!(best["last_epoch_elbo"], history["joint"][3]["elbo"]);
}
