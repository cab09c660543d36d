//! Help, usage errors and commands that need no data.

use crate::common::Sandbox;

const COMMANDS: [&str; 18] = [
    "demo",
    "fit",
    "assign",
    "describe",
    "map",
    "report",
    "embed",
    "generate",
    "reconstruct",
    "score",
    "evaluate",
    "compare",
    "inspect",
    "export",
    "card",
    "bench",
    "doctor",
    "completions",
];

#[test]
fn every_command_has_help_with_an_example() {
    let sandbox = Sandbox::new();
    let all = sandbox.run(&["--help"]).done();
    for command in COMMANDS {
        assert!(all.stdout.contains(&format!("\n  {command} ")), "{command} is not listed");
        let help = sandbox.run(&[command, "--help"]).done();
        assert!(help.stdout.contains("Example"), "{command} has no example");
        assert!(help.stdout.contains("--json") && help.stderr.is_empty());
        assert_eq!(help.stdout, sandbox.run(&["help", command]).done().stdout);
    }
    assert!(sandbox.files().is_empty());
}

#[test]
fn help_states_the_defaults_of_both_recipes() {
    let help = Sandbox::new().run(&["fit", "--help"]).done().stdout;
    let words: Vec<&str> = help.split_whitespace().collect();
    let help = words.join(" ");
    assert!(help.contains("[default: exact; paper: sampled]"), "{help}");
    assert!(help.contains("[default: from the data; paper: 500,500,2000]"), "{help}");
    assert!(help.contains("[default: from the data; paper: K]"), "{help}");
}

#[test]
fn inspect_help_reads_as_expected() {
    let expected = "Show a model's architecture, settings and history

Usage: pervade inspect [OPTIONS] <MODEL>

Arguments:
  <MODEL>  A model that `pervade fit` wrote

Options:
  -h, --help     Print help
  -V, --version  Print version

Everywhere:
      --json             Print one JSON object on stdout
  -q, --quiet            Print nothing on stderr but errors
      --force            Overwrite an output file even if it exists and is of another kind
      --threads <T>      Threads to use; the result does not depend on it [default: all cores]
      --device <DEVICE>  Device to compute on: auto, cpu, cuda, or cuda:N for the N-th device from 0
                         [default: auto]
      --precision <P>    Rounding of the factors of matrix products on CUDA: tf32 is faster and less
                         precise [default: fp32] [possible values: fp32, tf32]
      --rows-on <WHERE>  Where CUDA keeps the rows: auto leaves tables that are too large for the
                         device in the host's memory [default: auto] [possible values: auto, device,
                         host]

Example:
  pervade inspect digits.pervade
";
    assert_eq!(Sandbox::new().run(&["inspect", "--help"]).done().stdout, expected);
}

#[test]
fn version_is_one_line() {
    let version = Sandbox::new().run(&["--version"]).done().stdout;
    assert_eq!(version, format!("pervade {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn usage_errors_are_named() {
    let sandbox = Sandbox::new();
    let cases: [(&[&str], &str); 8] = [
        (&[], "Usage:"),
        (&["fitt"], "a similar subcommand exists: 'fit'"),
        (&["fit", "x.npy", "--cluster", "3"], "'--clusters'"),
        (&["fit", "x.npy", "--recipe", "papre"], "'paper'"),
        (&["fit", "x.npy", "-k", "many"], "`clusters` is `many`, must be a whole number"),
        (&["generate"], "<MODEL>"),
        (&["completions", "tcsh"], "[possible values: bash"),
        (&["bench"], "step"),
    ];
    for (args, wanted) in cases {
        let ran = sandbox.run(args);
        assert_eq!(ran.status, 2, "{args:?}");
        assert!(ran.stderr.contains(wanted), "{args:?}: {}", ran.stderr);
        assert!(ran.stdout.is_empty());
    }
}

#[test]
fn impossible_settings_are_refused_before_the_data_are_read() {
    let sandbox = Sandbox::new();
    let cases: [(&[&str], &str); 7] = [
        (&["fit", "x.npy"], "error: `clusters` is missing"),
        (&["doctor", "--threads", "0"], "error: `threads` is 0, must be between 1 and 4096"),
        (&["doctor", "--device", "gpu"], "error: `device` is gpu, must be `auto`, `cpu`, `cuda` or `cuda:N`"),
        (&["doctor", "--device", "cuda:4711"], "CUDA d"),
        (&["fit", "x.npy", "-k", "3", "--image", "8by8"], "error: `image` is `8by8`, must be like 28x28"),
        (&["evaluate", "m.pervade", "x.npy"], "error: `labels` is missing"),
        (
            &["evaluate", "m.pervade", "x.npy", "--labels", "y", "--at-least", "95"],
            "must be a fraction between 0 and 1",
        ),
    ];
    for (args, wanted) in cases {
        let ran = sandbox.run(args);
        assert_eq!(ran.status, 2, "{args:?}");
        assert!(ran.stderr.contains(wanted), "{args:?}: {}", ran.stderr);
    }
}

#[test]
fn completions_know_the_flags() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = sandbox.run(&["completions", shell]).done().stdout;
        assert!(script.contains("pretrain-epochs"), "{shell}");
    }
    assert_eq!(sandbox.run(&["completions", "bash", "--json"]).done().json()["shell"], "bash");
}

#[test]
fn bench_step_reports_its_speed() {
    let args =
        ["bench", "step", "--columns", "20", "--batch", "32", "--seconds", "0", "--threads", "1", "--json"];
    let times = Sandbox::new().run(&args).done().json();
    assert!(times["ms_per_step"].as_f64().unwrap() > 0.0 && times["rows_per_second"].as_f64().unwrap() > 0.0);
    assert_eq!((&times["batch"], &times["threads"]), (&32.into(), &1.into()));
}

#[test]
fn doctor_passes_on_this_machine() {
    let found = Sandbox::new().run(&["doctor", "--seconds", "0", "--json"]).done().json();
    assert_eq!(found["passed"], true);
    assert!(found["checks"].as_array().unwrap().len() >= 10);
}
