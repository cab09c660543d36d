//! Killed or stopped runs resume to the same bytes; threads leave no trace.
#![cfg(unix)]

use std::fs::File;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::{Sandbox, digits, finish};

/// A fit that saves after every epoch; long enough to be interrupted in every stage. Of a third of the digits, because
/// there are many such runs.
fn command(sandbox: &Sandbox, model: &str, more: &[&str]) -> Command {
    if !sandbox.path("digits.csv").exists() {
        let mut all = String::new();
        flate2::read::GzDecoder::new(File::open(digits()).unwrap()).read_to_string(&mut all).unwrap();
        sandbox.write("digits.csv", all.lines().take(600).collect::<Vec<_>>().join("\n"));
    }
    let fit = ["fit", "digits.csv", "--labels", "column:last", "-k", "10", "--out", model];
    let tiny = "--hidden 32,64 --pretrain-epochs 8 --mixture-starts 2 --epochs 8 --checkpoint-seconds 0";
    let tiny: Vec<&str> = tiny.split(' ').collect();
    sandbox.command(&[&fit[..], &tiny, more].concat())
}

fn start(mut command: Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

fn interrupt(child: &Child) {
    signal(child, "-INT");
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

/// Waits until the log contains the word.
fn wait_for(sandbox: &Sandbox, log: &str, word: &str) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while !std::fs::read_to_string(sandbox.path(log)).is_ok_and(|log| log.contains(word)) {
        assert!(Instant::now() < deadline, "`{word}` never came");
        sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_run_killed_at_any_moment_resumes_to_the_same_bytes() {
    let sandbox = Sandbox::new();
    let started = Instant::now();
    finish(command(&sandbox, "whole.pervade", &[])).done();
    let (took, expected) = (started.elapsed(), sandbox.bytes("whole.pervade"));
    let mut resumed = 0;
    for moment in 0..10 {
        let model = format!("killed-{moment}.pervade");
        let mut child = start(command(&sandbox, &model, &[]));
        sleep(took.mul_f64((f64::from(moment) + 0.5) / 11.0));
        child.kill().unwrap();
        child.wait().unwrap();
        if sandbox.path(&model).exists() {
            continue;
        }
        let ran = finish(command(&sandbox, &model, &["--resume"])).done();
        resumed += usize::from(ran.stderr.contains("resuming from"));
        assert!(sandbox.bytes(&model) == expected, "killed at moment {moment}: other bytes");
        assert!(!sandbox.path(&format!("{model}.checkpoint")).exists(), "the checkpoint is removed");
    }
    assert!(resumed >= 3, "only {resumed} of 10 kills left a checkpoint");
}

#[test]
fn ctrl_c_leaves_a_checkpoint_that_resumes() {
    let sandbox = Sandbox::new();
    finish(command(&sandbox, "whole.pervade", &[])).done();
    let child = start(command(&sandbox, "m.pervade", &["--log", "log.jsonl"]));
    let deadline = Instant::now() + Duration::from_secs(30);
    while !std::fs::read_to_string(sandbox.path("log.jsonl")).is_ok_and(|log| log.contains("pretrained")) {
        assert!(Instant::now() < deadline, "training never began");
        sleep(Duration::from_millis(2));
    }
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    let talk = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{talk}");
    assert!(talk.contains("error: interrupted in") && talk.contains("--resume"), "{talk}");
    assert_eq!(sandbox.files(), ["digits.csv", "log.jsonl", "m.pervade.checkpoint", "whole.pervade"]);
    let ran = finish(command(&sandbox, "m.pervade", &["--resume"])).done();
    assert!(ran.stderr.contains("resuming from m.pervade.checkpoint"), "{}", ran.stderr);
    assert!(sandbox.bytes("m.pervade") == sandbox.bytes("whole.pervade"), "other bytes");
    assert_eq!(sandbox.files(), ["digits.csv", "log.jsonl", "m.pervade", "whole.pervade"]);
}

#[test]
fn a_checkpoint_of_another_run_is_refused() {
    let sandbox = Sandbox::new();
    let child = start(command(&sandbox, "m.pervade", &["--checkpoint", "kept", "--log", "log.jsonl"]));
    let deadline = Instant::now() + Duration::from_secs(30);
    while !std::fs::read_to_string(sandbox.path("log.jsonl")).is_ok_and(|log| log.contains("saved")) {
        assert!(Instant::now() < deadline, "nothing was saved");
        sleep(Duration::from_millis(2));
    }
    interrupt(&child);
    child.wait_with_output().unwrap();
    let ran = finish(command(&sandbox, "m.pervade", &["--checkpoint", "kept", "--resume", "--seed", "1"]));
    assert!(ran.status == 2 && ran.stderr.contains("`seed` was 0, now 1"), "{}", ran.stderr);
    assert!(sandbox.path("kept").exists(), "the checkpoint is still there");
}

/// A fit in which the only epoch of each stage, and the mixture start, take many seconds.
fn slow(sandbox: &Sandbox, model: &str, more: &[&str]) -> Command {
    let digits = digits();
    let fit = ["fit", digits.to_str().unwrap(), "--labels", "column:last", "-k", "10", "--out", model];
    let settings = [
        "--hidden",
        "400,400",
        "--batch",
        "3",
        "--pretrain-batch",
        "3",
        "--pretrain-epochs",
        "1",
        "--epochs",
        "1",
    ];
    sandbox.command(&[&fit[..], &settings, more].concat())
}

/// Whether this process, and so every program it starts, ignores SIGHUP: under `nohup`.
fn hang_up_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).unwrap() & 1 != 0)
}

#[test]
fn every_signal_saves_in_the_middle_of_an_epoch() {
    let sandbox = Sandbox::new();
    finish(slow(&sandbox, "whole.pervade", &[])).done();
    for (name, status) in [("-INT", 130), ("-TERM", 143), ("-HUP", 129)] {
        if name == "-HUP" && hang_up_is_ignored() {
            continue;
        }
        let mut resume = &[][..];
        for moment in [1, 2] {
            let log = format!("log{name}{moment}.jsonl");
            let child = start(slow(&sandbox, "m.pervade", &[&["--log", &log], resume].concat()));
            wait_for(&sandbox, &log, "stage-started");
            sleep(Duration::from_millis(400));
            signal(&child, name);
            let since = Instant::now();
            let output = child.wait_with_output().unwrap();
            let talk = String::from_utf8(output.stderr).unwrap();
            assert!(since.elapsed() < Duration::from_secs(2), "{name} took {:?}", since.elapsed());
            assert_eq!(output.status.code(), Some(status), "{talk}");
            assert!(talk.contains("`--resume` continues"), "{talk}");
            resume = &["--resume"];
        }
        finish(slow(&sandbox, "m.pervade", &["--resume"])).done();
        assert!(sandbox.bytes("m.pervade") == sandbox.bytes("whole.pervade"), "{name}: other bytes");
    }
}

#[test]
fn a_stop_in_the_mixture_start_keeps_the_pretraining() {
    let sandbox = Sandbox::new();
    let more = ["--components", "600", "--mixture-starts", "4", "--hidden", "16", "--pretrain-epochs", "2"];
    let fit = |model: &str, more: &[&str]| {
        let digits = digits();
        let fit = ["fit", digits.to_str().unwrap(), "--labels", "column:last", "-k", "10", "--epochs", "1"];
        sandbox.command(&[&fit[..], &["--out", model], more].concat())
    };
    finish(fit("whole.pervade", &more)).done();
    let child = start(fit("m.pervade", &[&more[..], &["--log", "log.jsonl"]].concat()));
    wait_for(&sandbox, "log.jsonl", "\"stage\":\"mixture\"");
    interrupt(&child);
    let since = Instant::now();
    let output = child.wait_with_output().unwrap();
    assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
    let talk = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(130) && talk.contains("`--resume` continues"), "{talk}");
    finish(fit("m.pervade", &[&more[..], &["--resume", "--log", "again.jsonl"]].concat())).done();
    let log = std::fs::read_to_string(sandbox.path("again.jsonl")).unwrap();
    assert!(!log.contains("pretrained"), "pretraining was kept: {log}");
    assert!(sandbox.bytes("m.pervade") == sandbox.bytes("whole.pervade"), "other bytes");
}

#[test]
fn a_signal_leaves_no_unfinished_files_in_commands_that_do_not_train() {
    let sandbox = Sandbox::new();
    sandbox.fit_digits("m.pervade", &[]).done();
    let many = ["generate", "m.pervade", "-n", "3000000", "--out", "g.csv"];
    let child = start(sandbox.command(&many));
    let deadline = Instant::now() + Duration::from_mins(1);
    while !sandbox.files().iter().any(|name| name.ends_with("pervade-tmp")) {
        assert!(Instant::now() < deadline, "nothing was written");
        sleep(Duration::from_millis(2));
    }
    signal(&child, "-TERM");
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(143));
    assert_eq!(sandbox.files(), ["m.pervade"]);
}

#[test]
fn signals_ignored_on_purpose_stay_ignored() {
    let sandbox = Sandbox::new();
    let fit = command(&sandbox, "m.pervade", &["--log", "log.jsonl"]);
    let mut nohup = Command::new("nohup");
    nohup.arg(fit.get_program()).args(fit.get_args()).current_dir(sandbox.path(""));
    let child = start(nohup);
    wait_for(&sandbox, "log.jsonl", "pretrained");
    signal(&child, "-HUP");
    assert!(child.wait_with_output().unwrap().status.success());
    assert!(sandbox.path("m.pervade").exists());
}

#[test]
fn threads_leave_no_trace() {
    let sandbox = Sandbox::new();
    for threads in ["1", "2", "3"] {
        sandbox.fit_digits(&format!("{threads}.pervade"), &["--threads", threads]).done();
    }
    assert!(sandbox.bytes("1.pervade") == sandbox.bytes("2.pervade"), "2 threads: other bytes");
    assert!(sandbox.bytes("1.pervade") == sandbox.bytes("3.pervade"), "3 threads: other bytes");
}
