//! Files are not lost: no output is an input, nothing of another kind is overwritten, only one run at a time writes a
//! file, and a failed write leaves a way to continue. For every command that writes.
#![cfg(unix)]

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{QUICK, Ran, Sandbox, finish, two_groups};

/// A folder with a table, a label file, a configuration and a model of the table.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("x.csv", two_groups(60));
    sandbox.write("y.csv", "0\n1\n".repeat(30));
    sandbox.write("run.toml", "hidden = [8]\n");
    fit(&sandbox, &["--out", "m.pervade"]).done();
    sandbox
}

fn fit(sandbox: &Sandbox, more: &[&str]) -> Ran {
    sandbox.run(&[&["fit", "x.csv", "--labels", "column:y", "-k", "2"], &QUICK[..], more].concat())
}

/// Everything in a folder: names and bytes.
fn contents(sandbox: &Sandbox) -> Vec<(String, Vec<u8>)> {
    let is_file = |name: &String| sandbox.path(name).is_file();
    sandbox.files().into_iter().filter(is_file).map(|name| (name.clone(), sandbox.bytes(&name))).collect()
}

/// The command must exit with status 2 and one error, and change nothing.
#[track_caller]
fn refused(sandbox: &Sandbox, args: &[&str], says: &str) {
    let before = contents(sandbox);
    let ran = sandbox.run(args);
    assert_eq!(ran.status, 2, "{args:?}: {}", ran.stderr);
    assert_eq!(ran.stderr.matches("error:").count(), 1, "{args:?}: {}", ran.stderr);
    assert!(ran.stderr.contains(says), "{args:?}: {}", ran.stderr);
    assert!(contents(sandbox) == before, "{args:?} changed a file");
}

const SAME: &str = "is the same file as";

#[test]
fn no_output_of_fit_is_an_input() {
    let sandbox = sandbox();
    let start = ["fit", "x.csv", "--labels", "y.csv", "-k", "2", "--config", "run.toml"];
    let fit = |more: &[&str]| refused(&sandbox, &[&start[..], &QUICK[2..], more].concat(), SAME);
    for flag in ["--out", "--record", "--log"] {
        for input in ["x.csv", "y.csv", "run.toml", "./x.csv"] {
            fit(&[flag, input, "--force"]);
        }
    }
    symlink("x.csv", sandbox.path("link.csv")).unwrap();
    std::fs::hard_link(sandbox.path("x.csv"), sandbox.path("twin.csv")).unwrap();
    std::fs::create_dir(sandbox.path("folder")).unwrap();
    symlink("..", sandbox.path("folder/up")).unwrap();
    for other in ["link.csv", "twin.csv", "folder/up/x.csv"] {
        fit(&["--out", other, "--force"]);
    }
    // Outputs that are the same file.
    fit(&["--out", "n", "--record", "n"]);
    fit(&["--out", "n", "--log", "./n"]);
    fit(&["--out", "n", "--record", "r", "--log", "r"]);
    fit(&["--out", "n", "--checkpoint", "n"]);
    fit(&["--out", "c/checkpoint.safetensors", "--checkpoint", "c"]);
}

#[test]
fn no_output_of_another_command_is_an_input() {
    let sandbox = sandbox();
    std::fs::rename(sandbox.path("m.pervade"), sandbox.path("m.csv")).unwrap();
    for command in ["assign", "embed", "reconstruct", "score"] {
        let start = [command, "m.csv", "x.csv", "--labels", "y.csv", "--force"];
        for input in ["m.csv", "x.csv", "y.csv"] {
            refused(&sandbox, &[&start[..], &["--out", input]].concat(), SAME);
        }
    }
    refused(&sandbox, &["generate", "m.csv", "--out", "m.csv", "--force"], SAME);
    for input in ["x.csv", "y.csv"] {
        let start =
            ["compare", "x.csv", "--labels", "y.csv", "-k", "2", "--methods", "k-means", "--seeds", "1"];
        refused(&sandbox, &[&start[..], &["--force", "--out", input]].concat(), SAME);
    }
    // A file that the shell opened for appending is detected too.
    let mut command = sandbox.command(&["assign", "m.csv", "x.csv", "--labels", "column:y"]);
    let before = sandbox.bytes("x.csv");
    let file = std::fs::File::options().append(true).open(sandbox.path("x.csv")).unwrap();
    assert_eq!(command.stdout(Stdio::from(file)).stderr(Stdio::null()).status().unwrap().code(), Some(2));
    assert!(sandbox.bytes("x.csv") == before);
}

#[test]
fn files_in_a_folder_of_data_are_not_overwritten() {
    let sandbox = sandbox();
    std::fs::create_dir(sandbox.path("pictures")).unwrap();
    let grid = ["generate", "digits.pervade", "-n", "1", "--out"];
    sandbox.fit_digits("digits.pervade", &["--image", "8x8"]).done();
    for i in 0..12 {
        sandbox.run(&[&grid[..], &[&format!("pictures/{i}.png"), "--seed", &i.to_string()]].concat()).done();
    }
    let before: Vec<_> = (0..12).map(|i| sandbox.bytes(&format!("pictures/{i}.png"))).collect();
    let out = ["--out", "pictures/3.png", "--force"];
    let ran = sandbox.run(&[&["fit", "pictures", "-k", "2"], &QUICK[..], &out].concat());
    assert!(ran.status == 2 && ran.stderr.contains("lies in DATA (pictures)"), "{}", ran.stderr);
    let after: Vec<_> = (0..12).map(|i| sandbox.bytes(&format!("pictures/{i}.png"))).collect();
    assert!(after == before);
    let ran =
        sandbox.run(&[&["fit", "pictures", "-k", "2"], &QUICK[..], &["--checkpoint", "pictures"]].concat());
    assert!(ran.status == 2 && ran.stderr.contains("lies in DATA (pictures)"), "{}", ran.stderr);
}

#[test]
fn files_of_another_kind_are_overwritten_only_with_force() {
    let sandbox = sandbox();
    let other = "is not";
    let cases: [&[&str]; 9] = [
        &["fit", "x.csv", "--labels", "column:y", "-k", "2", "--out"],
        &["fit", "x.csv", "--labels", "column:y", "-k", "2", "--record"],
        &["fit", "x.csv", "--labels", "column:y", "-k", "2", "--log"],
        &["assign", "m.pervade", "x.csv", "--labels", "column:y", "--out"],
        &["embed", "m.pervade", "x.csv", "--labels", "column:y", "--out"],
        &["reconstruct", "m.pervade", "x.csv", "--labels", "column:y", "--out"],
        &["score", "m.pervade", "x.csv", "--labels", "column:y", "--out"],
        &["generate", "m.pervade", "--out"],
        &[
            "compare",
            "x.csv",
            "--labels",
            "column:y",
            "-k",
            "2",
            "--methods",
            "k-means",
            "--seeds",
            "1",
            "--out",
        ],
    ];
    for case in cases {
        let is_compare = case[0] == "compare";
        let ending = if is_compare { "json" } else { "npy" };
        let name = format!("mine.{ending}");
        let mut args = [case, &[name.as_str()]].concat();
        if case[0] == "fit" {
            args.extend(QUICK);
        }
        sandbox.write(&name, "my own notes, and no array");
        refused(&sandbox, &args, other);
        // Overwriting an empty file, or one of the same kind, loses nothing.
        sandbox.write(&name, "");
        sandbox.run(&args).done();
        let again = sandbox.run(&args).done();
        assert!(
            again.stderr.contains(&format!("note: {name} exists and will be replaced")),
            "{}",
            again.stderr
        );
        sandbox.write(&name, "my own notes, and no array");
        args.push("--force");
        sandbox.run(&args).done();
        assert!(!sandbox.bytes(&name).starts_with(b"my own"));
        std::fs::remove_file(sandbox.path(&name)).unwrap();
    }
    std::fs::create_dir(sandbox.path("demo")).unwrap();
    for name in ["digits.pervade", "assignments.csv", "clusters.png", "latents.png", "report.html"] {
        sandbox.write(&format!("demo/{name}"), b"\0mine");
        refused(&sandbox, &["demo", "--out", "demo"], other);
        std::fs::remove_file(sandbox.path("demo").join(name)).unwrap();
    }
    std::fs::create_dir(sandbox.path("repro")).unwrap();
    sandbox.write("repro/table1.csv", b"\0mine");
    refused(&sandbox, &["reproduce", "table1", "--data", "demo", "--out", "repro"], other);
}

/// Holds the lock on a file as another run would, until the result is dropped.
fn hold(sandbox: &Sandbox, name: &str) -> pervade::files::Lock {
    pervade::files::Lock::take(&sandbox.path(name), "process 4711 (pervade fit)").unwrap().unwrap()
}

#[test]
fn a_file_being_written_by_another_run_is_refused() {
    let sandbox = sandbox();
    let fit: &[&str] = &[&["fit", "x.csv", "--labels", "column:y", "-k", "2"], &QUICK[..]].concat();
    let model = ["m.pervade", "x.csv", "--labels", "column:y", "--out", "o.npy"];
    let cases: Vec<(Vec<&str>, &str)> = vec![
        ([fit, &["--out", "o.npy"]].concat(), "o.npy"),
        ([fit, &["--out", "o", "--record", "o.json"]].concat(), "o.json"),
        ([fit, &["--out", "o", "--log", "o.jsonl"]].concat(), "o.jsonl"),
        ([fit, &["--out", "o", "--checkpoint", "c"]].concat(), "c/checkpoint.safetensors"),
        ([&["assign"], &model[..]].concat(), "o.npy"),
        ([&["embed"], &model[..]].concat(), "o.npy"),
        ([&["reconstruct"], &model[..]].concat(), "o.npy"),
        ([&["score"], &model[..]].concat(), "o.npy"),
        (vec!["generate", "m.pervade", "--out", "o.npy"], "o.npy"),
        (vec!["compare", "x.csv", "-k", "2", "--methods", "k-means", "--out", "o.md"], "o.md"),
        (vec!["demo", "--out", "c"], "c/latents.png"),
        (vec!["reproduce", "table1", "--data", ".", "--out", "c"], "c/records"),
    ];
    std::fs::create_dir(sandbox.path("c")).unwrap();
    for (args, name) in cases {
        let lock = hold(&sandbox, name);
        refused(&sandbox, &args, "process 4711 (pervade fit) is writing it");
        drop(lock);
    }
}

/// Even if they start at the same time: refused runs do not remove the folder of the one that continues.
#[test]
fn of_runs_started_together_one_continues() {
    let sandbox = Sandbox::new();
    sandbox.write("x.csv", two_groups(60));
    for _ in 0..8 {
        let args =
            [&["fit", "x.csv", "--labels", "column:y", "-k", "2", "--out", "m.pervade"], &QUICK[..]].concat();
        let ended: Vec<Ran> = std::thread::scope(|scope| {
            let runs: Vec<_> = (0..4).map(|_| scope.spawn(|| sandbox.run(&args))).collect();
            runs.into_iter().map(|run| run.join().unwrap()).collect()
        });
        assert!(ended.iter().any(|ran| ran.status == 0), "{}", ended[0].stderr);
        for ran in ended.iter().filter(|ran| ran.status != 0) {
            assert_eq!(ran.status, 2, "{}", ran.stderr);
            assert!(ran.stderr.contains("(pervade fit) is writing it"), "{}", ran.stderr);
        }
        assert_eq!(sandbox.files(), ["m.pervade", "x.csv"]);
    }
}

#[test]
fn two_runs_with_one_checkpoint_do_not_interfere() {
    let sandbox = sandbox();
    sandbox.write("x.csv", two_groups(3000));
    let long =
        ["--pretrain-epochs", "40", "--epochs", "40", "--checkpoint-seconds", "0", "--checkpoint", "c"];
    let fit = |out: &str| {
        let quick = ["--hidden", "16", "--latents", "2", "--device", "cpu", "--out", out];
        sandbox.command(&[&["fit", "x.csv", "--labels", "column:y", "-k", "2"][..], &quick, &long].concat())
    };
    let mut first = fit("1.pervade").stderr(Stdio::null()).spawn().unwrap();
    wait_for(&sandbox.path("c/checkpoint.safetensors"));
    let second = finish(fit("2.pervade"));
    assert_eq!(second.status, 2, "{}", second.stderr);
    assert!(second.stderr.contains(&format!("process {} (pervade fit)", first.id())), "{}", second.stderr);
    assert!(first.try_wait().unwrap().is_none(), "the first run is still going");
    assert!(sandbox.path("c/checkpoint.safetensors").exists(), "and its checkpoint is there");
    assert!(first.wait().unwrap().success());
    assert!(sandbox.path("1.pervade").exists() && !sandbox.path("2.pervade").exists());
    assert!(!sandbox.path("c").exists(), "the folder goes with its checkpoint");
    finish(fit("2.pervade")).done();
    assert!(sandbox.bytes("1.pervade") == sandbox.bytes("2.pervade"));
}

fn wait_for(path: &Path) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while !path.exists() {
        assert!(Instant::now() < deadline, "{} never appeared", path.display());
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn skipped(why: &str) {
    eprintln!("skipped: {why}");
}

/// A small file system, if this user may mount one.
struct Small<'p> {
    sandbox: &'p Sandbox,
}

impl<'p> Small<'p> {
    fn mount(sandbox: &'p Sandbox, bytes: usize) -> Option<Self> {
        std::fs::create_dir(sandbox.path("small")).unwrap();
        let options = format!("size={bytes}");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "none"])
            .arg(sandbox.path("small"))
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        if !mounted {
            skipped("this user cannot mount a small file system");
        }
        mounted.then_some(Self { sandbox })
    }
}

impl Drop for Small<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.sandbox.path("small")).status();
    }
}

#[test]
fn a_finished_fit_survives_a_full_disk() {
    let sandbox = sandbox();
    let Some(_small) = Small::mount(&sandbox, 4096) else { return };
    fit(&sandbox, &["--out", "whole.pervade"]).done();
    let ran = fit(&sandbox, &["--out", "small/m.pervade", "--checkpoint", "c", "--checkpoint-seconds", "0"]);
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("--resume --checkpoint c --out ELSEWHERE"), "{}", ran.stderr);
    assert_eq!(std::fs::read_dir(sandbox.path("small")).unwrap().count(), 0, "no half model, no lock");
    let again =
        fit(&sandbox, &["--out", "m2.pervade", "--checkpoint", "c", "--resume", "--log", "log.jsonl"]).done();
    assert!(again.stderr.contains("resuming from c"), "{}", again.stderr);
    let log = std::fs::read_to_string(sandbox.path("log.jsonl")).unwrap_or_default();
    assert!(!log.contains("trained"), "nothing was trained again: {log}");
    assert!(sandbox.bytes("m2.pervade") == sandbox.bytes("whole.pervade"));
    assert!(!sandbox.path("c").exists());
}

#[test]
fn a_checkpoint_that_does_not_fit_is_not_fatal_and_the_last_good_one_stays() {
    let sandbox = sandbox();
    let Some(_small) = Small::mount(&sandbox, 4096) else { return };
    fit(&sandbox, &["--out", "whole.pervade"]).done();
    let ran = fit(&sandbox, &["--out", "m2.pervade", "--checkpoint", "small/c", "--checkpoint-seconds", "0"])
        .done();
    assert!(ran.stderr.contains("warning: the checkpoint was not written"), "{}", ran.stderr);
    assert!(sandbox.bytes("m2.pervade") == sandbox.bytes("whole.pervade"));
    // Neither the checkpoint nor the model can be written: the model goes elsewhere.
    let ran = fit(&sandbox, &["--out", "small/m.pervade", "--checkpoint-seconds", "0"]);
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    let elsewhere = ran.stderr.split("the model is in `").nth(1).and_then(|rest| rest.split('`').next());
    let elsewhere = Path::new(elsewhere.unwrap_or_else(|| panic!("{}", ran.stderr)));
    assert!(std::fs::read(elsewhere).unwrap() == sandbox.bytes("whole.pervade"));
    std::fs::remove_dir_all(elsewhere.parent().unwrap()).unwrap();
    // A good checkpoint, then a full disk: the checkpoint stays as it was.
    let Ran { stderr, .. } = fit(&sandbox, &["--out", "n/m.pervade", "--checkpoint", "kept"]);
    assert!(stderr.contains("cannot write `n/m.pervade`"), "{stderr}");
    assert!(!sandbox.path("kept").exists(), "refused before the work, nothing is left");
}

#[test]
fn a_fit_survives_the_loss_of_its_folder() {
    let sandbox = sandbox();
    sandbox.write("x.csv", two_groups(3000));
    std::fs::create_dir(sandbox.path("gone")).unwrap();
    let settings =
        ["--hidden", "16", "--latents", "2", "--device", "cpu", "--pretrain-epochs", "30", "--epochs", "30"];
    let rest = ["--checkpoint", "c", "--checkpoint-seconds", "0", "--out", "gone/m.pervade"];
    let args = [&["fit", "x.csv", "--labels", "column:y", "-k", "2"][..], &settings, &rest].concat();
    let child = sandbox.command(&args).stderr(Stdio::piped()).spawn().unwrap();
    wait_for(&sandbox.path("c/checkpoint.safetensors"));
    std::fs::remove_dir_all(sandbox.path("gone")).unwrap();
    let output = child.wait_with_output().unwrap();
    let talk = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{talk}");
    assert!(talk.contains("--resume --checkpoint c --out ELSEWHERE"), "{talk}");
    let rest = ["--checkpoint", "c", "--resume", "--out", "here.pervade"];
    sandbox
        .run(&[&["fit", "x.csv", "--labels", "column:y", "-k", "2"][..], &settings, &rest].concat())
        .done();
    sandbox.run(&["inspect", "here.pervade"]).done();
}

#[test]
fn a_failed_write_leaves_the_old_file_for_every_command() {
    let sandbox = sandbox();
    let Some(_small) = Small::mount(&sandbox, 4096) else { return };
    sandbox.write("x.csv", two_groups(2000));
    let model = ["m.pervade", "x.csv", "--labels", "column:y", "--out"];
    for (command, name) in [
        ("assign", "o.npy"),
        ("embed", "o.npy"),
        ("reconstruct", "o.csv"),
        ("score", "o.npy"),
        ("assign", "o.parquet"),
    ] {
        let old = sandbox.path("small").join(name);
        sandbox.run(&[&[command][..], &model, &[name]].concat()).done();
        let few: Vec<u8> = sandbox.bytes(name).into_iter().take(100).collect();
        std::fs::write(&old, &few).unwrap();
        let ran = sandbox.run(&[&[command][..], &model, &[old.to_str().unwrap()]].concat());
        assert!(ran.status == 2 && ran.stderr.contains("No space left"), "{command}: {}", ran.stderr);
        assert!(std::fs::read(&old).unwrap() == few, "{command}: the old file is as it was");
        assert_eq!(
            std::fs::read_dir(sandbox.path("small")).unwrap().count(),
            1,
            "{command}: nothing else is left"
        );
        std::fs::remove_file(&old).unwrap();
    }
    let generate = &["generate", "m.pervade", "-n", "5000", "--out", "small/g.csv"][..];
    // The demo says so before it trains.
    let demo = &["demo", "--out", "small"][..];
    for (args, problem) in [(generate, "No space left"), (demo, "there is no room for the demo's files")] {
        let ran = sandbox.run(args);
        assert!(ran.status == 2 && ran.stderr.contains(problem), "{args:?}: {}", ran.stderr);
        assert_eq!(std::fs::read_dir(sandbox.path("small")).unwrap().count(), 0, "{args:?}: nothing is left");
    }
}

#[test]
fn a_file_too_large_is_an_error_and_leaves_nothing() {
    let sandbox = sandbox();
    sandbox.write("x.csv", two_groups(2000));
    let binary = assert_cmd::cargo::cargo_bin!("pervade");
    let script = format!(
        "ulimit -f 4; exec '{}' embed m.pervade x.csv --labels column:y --out o.csv",
        binary.display()
    );
    let output = Command::new("bash").args(["-c", &script]).current_dir(sandbox.path("")).output().unwrap();
    let talk = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{talk}");
    assert!(talk.contains("File too large"), "{talk}");
    assert!(
        !sandbox.files().iter().any(|name| name.starts_with('.') || name == "o.csv"),
        "{:?}",
        sandbox.files()
    );
}

#[test]
fn links_of_other_users_are_not_followed_and_modes_are_kept() {
    let sandbox = sandbox();
    sandbox.write("target", "precious");
    let cases: [(&[&str], &str); 4] = [
        (&["--out", "link"], "link"),
        (&["--out", "o", "--record", "link"], "link"),
        (&["--out", "o", "--log", "link"], "link"),
        (&["--out", "o", "--checkpoint", "linked-folder"], "linked-folder"),
    ];
    symlink("target", sandbox.path("link")).unwrap();
    std::fs::create_dir(sandbox.path("folder")).unwrap();
    symlink("folder", sandbox.path("linked-folder")).unwrap();
    let lchown = |name: &str| std::os::unix::fs::lchown(sandbox.path(name), Some(12345), None);
    if lchown("link").and_then(|()| lchown("linked-folder")).is_ok() {
        for (more, name) in cases {
            let ran = fit(&sandbox, &[more, &["--force"]].concat());
            assert_eq!(ran.status, 2, "{more:?}: {}", ran.stderr);
            assert!(ran.stderr.contains(&format!("`{name}` is a link that another user")), "{}", ran.stderr);
        }
        assert_eq!(sandbox.bytes("target"), b"precious");
    } else {
        skipped("only root can give a link to another user");
    }
    for mode in [0o600, 0o640, 0o644] {
        let path = sandbox.path("m.pervade");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        fit(&sandbox, &["--out", "m.pervade", "--log", "log.jsonl"]).done();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, mode);
        let log = sandbox.path("log.jsonl");
        std::fs::set_permissions(&log, std::fs::Permissions::from_mode(mode)).unwrap();
        fit(&sandbox, &["--out", "m.pervade", "--log", "log.jsonl"]).done();
        assert_eq!(std::fs::metadata(&log).unwrap().mode() & 0o777, mode);
    }
    // A new file has the mode given by the umask.
    let binary = assert_cmd::cargo::cargo_bin!("pervade");
    let script = format!("umask 027; exec '{}' generate m.pervade --out new.csv", binary.display());
    assert!(
        Command::new("bash").args(["-c", &script]).current_dir(sandbox.path("")).status().unwrap().success()
    );
    assert_eq!(std::fs::metadata(sandbox.path("new.csv")).unwrap().mode() & 0o777, 0o640);
}
