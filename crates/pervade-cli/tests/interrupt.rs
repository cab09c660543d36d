//! Killed or stopped runs resume to the same bytes; threads leave no trace.
#![cfg(unix)]

mod common;

use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::{Place, digits, finish};

/// A fit that saves after every epoch; long enough to be hit in every stage.
fn command(place: &Place, model: &str, more: &[&str]) -> Command {
    let digits = digits();
    let fit = ["fit", digits.to_str().unwrap(), "--labels", "column:last", "-k", "10", "--out", model];
    let tiny = ["--hidden", "32,64", "--pretrain-epochs", "8", "--epochs", "8", "--checkpoint-seconds", "0"];
    place.command(&[&fit[..], &tiny, more].concat())
}

fn start(mut command: Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

fn interrupt(child: &Child) {
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn a_run_killed_at_any_moment_resumes_to_the_same_bytes() {
    let place = Place::new();
    let started = Instant::now();
    finish(command(&place, "whole.pervade", &[])).done();
    let (took, expected) = (started.elapsed(), place.bytes("whole.pervade"));
    let mut resumed = 0;
    for moment in 0..10 {
        let model = format!("killed-{moment}.pervade");
        let mut child = start(command(&place, &model, &[]));
        sleep(took.mul_f64((f64::from(moment) + 0.5) / 11.0));
        child.kill().unwrap();
        child.wait().unwrap();
        if place.path(&model).exists() {
            continue;
        }
        let ran = finish(command(&place, &model, &["--resume"])).done();
        resumed += usize::from(ran.stderr.contains("resuming from"));
        assert!(place.bytes(&model) == expected, "killed at moment {moment}: other bytes");
        assert!(!place.path(&format!("{model}.checkpoint")).exists(), "the checkpoint is removed");
    }
    assert!(resumed >= 3, "only {resumed} of 10 kills left a checkpoint");
}

#[test]
fn ctrl_c_leaves_a_checkpoint_that_resumes() {
    let place = Place::new();
    finish(command(&place, "whole.pervade", &[])).done();
    let child = start(command(&place, "m.pervade", &["--log", "log.jsonl"]));
    let deadline = Instant::now() + Duration::from_secs(30);
    while !std::fs::read_to_string(place.path("log.jsonl")).is_ok_and(|log| log.contains("pretrained")) {
        assert!(Instant::now() < deadline, "training never began");
        sleep(Duration::from_millis(2));
    }
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    let talk = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{talk}");
    assert!(talk.contains("error: interrupted in") && talk.contains("--resume"), "{talk}");
    assert_eq!(place.files(), ["log.jsonl", "m.pervade.checkpoint", "whole.pervade"]);
    let ran = finish(command(&place, "m.pervade", &["--resume"])).done();
    assert!(ran.stderr.contains("resuming from m.pervade.checkpoint"), "{}", ran.stderr);
    assert!(place.bytes("m.pervade") == place.bytes("whole.pervade"), "other bytes");
    assert_eq!(place.files(), ["log.jsonl", "m.pervade", "whole.pervade"]);
}

#[test]
fn a_checkpoint_of_another_run_is_refused() {
    let place = Place::new();
    let child = start(command(&place, "m.pervade", &["--checkpoint", "kept", "--log", "log.jsonl"]));
    let deadline = Instant::now() + Duration::from_secs(30);
    while !std::fs::read_to_string(place.path("log.jsonl")).is_ok_and(|log| log.contains("saved")) {
        assert!(Instant::now() < deadline, "nothing was saved");
        sleep(Duration::from_millis(2));
    }
    interrupt(&child);
    child.wait_with_output().unwrap();
    let ran = finish(command(&place, "m.pervade", &["--checkpoint", "kept", "--resume", "--seed", "1"]));
    assert!(ran.status == 2 && ran.stderr.contains("`seed` was 0, now 1"), "{}", ran.stderr);
    assert!(place.path("kept").exists(), "the checkpoint is still there");
}

#[test]
fn threads_leave_no_trace() {
    let place = Place::new();
    for threads in ["1", "2", "3"] {
        place.fit_digits(&format!("{threads}.pervade"), &["--threads", threads]).done();
    }
    assert!(place.bytes("1.pervade") == place.bytes("2.pervade"), "2 threads: other bytes");
    assert!(place.bytes("1.pervade") == place.bytes("3.pervade"), "3 threads: other bytes");
}
