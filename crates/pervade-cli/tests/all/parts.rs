//! Tables in parts, and in pieces: the results of a folder are those of its files, whoever computes which, and memory does
//! not grow with the rows.

use std::path::Path;

use crate::common::{QUICK, Ran, Sandbox, finish, two_groups};

/// A folder with a table of three columns in `x.csv`, a model of it, and its rows in three parts in `rows`.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("x.csv", without_labels(&two_groups(300)));
    sandbox.run(&[&["fit", "x.csv", "-k", "2", "--out", "m.pervade"], &QUICK[..]].concat()).done();
    std::fs::create_dir(sandbox.path("rows")).unwrap();
    for (i, part) in parts(&sandbox).iter().enumerate() {
        sandbox.write(&format!("rows/part-{i}.csv"), part);
    }
    sandbox
}

fn without_labels(table: &str) -> String {
    let lines: Vec<&str> = table.lines().map(|line| line.rsplit_once(',').unwrap().0).collect();
    lines.join("\n") + "\n"
}

/// The rows of `x.csv` in three texts of 100, the last with its columns in another order.
fn parts(sandbox: &Sandbox) -> Vec<String> {
    let text = String::from_utf8(sandbox.bytes("x.csv")).unwrap();
    let lines: Vec<&str> = text.lines().skip(1).collect();
    let part = |rows: &[&str]| format!("a,b,c\n{}\n", rows.join("\n"));
    let turned = |line: &&str| {
        let fields: Vec<&str> = line.split(',').collect();
        [fields[2], fields[0], fields[1]].join(",")
    };
    let last: Vec<String> = lines[200..].iter().map(turned).collect();
    vec![part(&lines[..100]), part(&lines[100..200]), format!("c,a,b\n{}\n", last.join("\n"))]
}

fn text(sandbox: &Sandbox, name: &str) -> String {
    String::from_utf8(sandbox.bytes(name)).unwrap()
}

/// The rows of CSV texts under the header of the first.
fn joined(texts: &[String]) -> String {
    let rows = texts.iter().flat_map(|text| text.lines().skip(1)).map(|line| format!("{line}\n"));
    format!("{}\n{}", texts[0].lines().next().unwrap(), rows.collect::<String>())
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[track_caller]
fn refused(ran: &Ran, says: &str) {
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains(says), "{says:?} is not in: {}", ran.stderr);
    assert_eq!(ran.stderr.lines().filter(|line| line.starts_with("error:")).count(), 1, "{}", ran.stderr);
}

#[test]
fn a_folder_is_one_table_for_every_command() {
    let sandbox = sandbox();
    for (command, more) in [
        ("assign", &["--probabilities"][..]),
        ("embed", &[]),
        ("score", &[]),
        ("reconstruct", &[]),
        ("impute", &[]),
    ] {
        let whole = sandbox.run(&[&[command, "m.pervade", "x.csv"], more].concat()).done();
        let of = |data: &str, out: &[&str]| {
            sandbox.run(&[&[command, "m.pervade", data], more, out].concat()).done()
        };
        let folder = of("rows", &[]);
        if command != "impute" {
            // The cells of `impute` are as they are written, in the order of the file.
            assert_eq!(folder.stdout, whole.stdout, "{command}");
            assert_eq!(of("rows/part-?.csv", &[]).stdout, whole.stdout, "{command}");
            of("rows", &["--out", "all.csv"]);
            assert_eq!(text(&sandbox, "all.csv"), whole.stdout, "{command}");
        }
        let out = format!("{command}-out");
        let object = of("rows", &["--out", &out, "--json"]).json();
        assert_eq!((object["rows"].as_u64(), object["parts"].as_u64()), (Some(300), Some(3)), "{object}");
        assert_eq!(
            names_in(&sandbox.path(&out)),
            ["_pervade.json", "part-0.csv", "part-1.csv", "part-2.csv"]
        );
        for i in 0..3 {
            let alone = of(&format!("rows/part-{i}.csv"), &[]);
            assert_eq!(text(&sandbox, &format!("{out}/part-{i}.csv")), alone.stdout, "{command} {i}");
        }
        let _ = of("rows", &["--out", &format!("{command}-parquet"), "--format", "parquet"]);
        assert!(sandbox.path(&format!("{command}-parquet/part-1.parquet")).is_file());
    }
    let evaluated = sandbox.run(&["describe", "m.pervade", "rows", "--json"]).done();
    assert!(evaluated.stdout.contains("300"), "{}", evaluated.stdout);
}

#[test]
fn json_has_totals_but_no_arrays_if_results_are_written() {
    let sandbox = sandbox();
    let object = sandbox.run(&["assign", "m.pervade", "rows", "--out", "o", "--json"]).done().json();
    assert_eq!(object["occupancy"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum::<u64>(), 300);
    assert!(object.get("assignments").is_none(), "{object}");
    let whole = sandbox.run(&["assign", "m.pervade", "rows", "--json"]).done().json();
    assert_eq!(whole["assignments"].as_array().unwrap().len(), 300);
    assert_eq!(whole["occupancy"], object["occupancy"]);
}

#[test]
fn an_interrupted_run_goes_on() {
    let sandbox = sandbox();
    let run = || sandbox.run(&["embed", "m.pervade", "rows", "--out", "o", "--json"]).done().json();
    assert_eq!((run()["skipped"].as_u64(), run()["skipped"].as_u64()), (Some(0), Some(3)));
    let before = sandbox.bytes("o/part-1.csv");
    std::fs::remove_file(sandbox.path("o/part-1.csv")).unwrap();
    let again = run();
    assert_eq!((again["parts"].as_u64(), again["skipped"].as_u64()), (Some(1), Some(2)), "{again}");
    assert_eq!(sandbox.bytes("o/part-1.csv"), before);
    // A part that was added is computed, too.
    sandbox.write("rows/part-3.csv", &parts(&sandbox)[0]);
    assert_eq!(run()["parts"], 1);
    assert_eq!(sandbox.bytes("o/part-3.csv"), sandbox.bytes("o/part-0.csv"));
}

#[test]
fn results_of_different_runs_are_not_mixed() {
    let sandbox = sandbox();
    let run = |args: &[&str]| sandbox.run(&[args, &["--out", "o"]].concat());
    run(&["assign", "m.pervade", "rows"]).done();
    let before: Vec<_> =
        names_in(&sandbox.path("o")).iter().map(|n| sandbox.bytes(&format!("o/{n}"))).collect();
    let other = "holds results of another run";
    refused(&run(&["assign", "m.pervade", "rows", "--probabilities"]), other);
    refused(&run(&["embed", "m.pervade", "rows"]), "the command was assign, and is embed now");
    refused(&run(&["assign", "m.pervade", "rows", "--format", "npy"]), other);
    let fit = ["fit", "x.csv", "-k", "3", "--out", "n.pervade"];
    sandbox.run(&[&fit[..], &QUICK[..]].concat()).done();
    refused(&run(&["assign", "n.pervade", "rows"]), "the model was xxh3");
    let after: Vec<_> =
        names_in(&sandbox.path("o")).iter().map(|n| sandbox.bytes(&format!("o/{n}"))).collect();
    assert!(before == after);
    sandbox.write("rows/part-0.csv", "a,b,c\n1,2,3\n");
    refused(&run(&["assign", "m.pervade", "rows"]), "the part part-0.csv has changed since");
    std::fs::create_dir(sandbox.path("mine")).unwrap();
    sandbox.write("mine/notes.txt", "mine");
    let ran = sandbox.run(&["assign", "m.pervade", "rows", "--out", "mine"]);
    refused(&ran, "such as notes.txt");
    sandbox.write("o/_pervade.json", "{");
    refused(&run(&["assign", "m.pervade", "rows"]), "does not say which run");
}

#[test]
fn runs_share_the_parts() {
    let sandbox = sandbox();
    let start = |part: &str| {
        let args = ["assign", "m.pervade", "rows", "--out", "o", "--part", part, "--quiet"];
        sandbox.command(&args).spawn().unwrap()
    };
    let both = [start("1/2"), start("2/2")];
    both.into_iter().for_each(|mut child| assert!(child.wait().unwrap().success()));
    sandbox.run(&["assign", "m.pervade", "rows", "--out", "whole"]).done();
    for name in names_in(&sandbox.path("whole")) {
        assert_eq!(sandbox.bytes(&format!("o/{name}")), sandbox.bytes(&format!("whole/{name}")), "{name}");
    }
    let idle = sandbox.run(&["assign", "m.pervade", "rows", "--out", "p", "--part", "5/5", "--json"]).done();
    assert_eq!(idle.json()["rows"], 0);
    assert!(idle.stderr.contains("nothing is left") || idle.json()["parts"] == 0, "{}", idle.stderr);
}

#[test]
fn runs_share_the_rows_of_one_file() {
    let sandbox = sandbox();
    sandbox.run(&["reconstruct", "m.pervade", "x.csv", "--out", "r.parquet"]).done();
    sandbox.run(&["reconstruct", "m.pervade", "x.csv", "--out", "r.npy"]).done();
    for data in ["r.parquet", "r.npy"] {
        let run = |more: &[&str]| sandbox.run(&[&["embed", "m.pervade", data], more].concat()).done().stdout;
        let shares: Vec<String> = (1..=7).map(|i| run(&["--part", &format!("{i}/7")])).collect();
        assert_eq!(joined(&shares), run(&[]), "{data}");
    }
    let ran = sandbox.run(&["embed", "m.pervade", "x.csv", "--part", "1/2"]);
    refused(&ran, "only rows of Parquet and .npy files can be divided");
}

/// Draws depend on the number of the row in the whole table.
#[test]
fn draws_are_those_of_the_whole_table() {
    let sandbox = sandbox();
    let gaps = |text: String| -> String {
        let row = |(i, line): (usize, &str)| {
            let fields: Vec<&str> = line.split(',').collect();
            match i % 3 {
                1 => format!("{},,{}\n", fields[0], fields[2]),
                _ => format!("{line}\n"),
            }
        };
        text.lines().enumerate().map(row).collect()
    };
    let table = gaps(text(&sandbox, "x.csv"));
    let lines: Vec<&str> = table.lines().collect();
    sandbox.write("gaps.csv", &table);
    std::fs::create_dir(sandbox.path("gaps")).unwrap();
    for (i, rows) in lines[1..].chunks(120).enumerate() {
        sandbox.write(&format!("gaps/{i}.csv"), format!("a,b,c\n{}\n", rows.join("\n")));
    }
    let run = |data: &str, more: &[&str]| {
        sandbox.run(&[&["impute", "m.pervade", data, "--draw", "--seed", "3"], more].concat()).done().stdout
    };
    let whole = run("gaps.csv", &[]);
    assert_eq!(run("gaps", &[]), whole);
    run("gaps", &["--out", "o", "--part", "2/2"]);
    let rows: Vec<&str> = whole.lines().collect();
    assert_eq!(text(&sandbox, "o/1.csv").lines().skip(1).collect::<Vec<_>>(), rows[121..241]);
}

/// More rows than a piece has: the same results as from smaller files, in every format.
#[test]
fn pieces_make_no_difference() {
    let sandbox = sandbox();
    let row = |i: usize| {
        let x = (i as f64 * 0.37).sin();
        format!("{:.3},{:.3},{:.3}\n", x, -x, (i as f64 * 0.11).cos())
    };
    let rows: Vec<String> = (0..70_000).map(row).collect();
    let table = |rows: &[String]| format!("a,b,c\n{}", rows.concat());
    sandbox.write("long.csv", table(&rows));
    sandbox.write("1.csv", table(&rows[..40_000]));
    sandbox.write("2.csv", table(&rows[40_000..]));
    for command in ["assign", "embed"] {
        let run = |data: &str, more: &[&str]| {
            sandbox.run(&[&[command, "m.pervade", data], more].concat()).done().stdout
        };
        assert_eq!(run("long.csv", &[]), joined(&[run("1.csv", &[]), run("2.csv", &[])]), "{command}");
        for ending in ["npy", "parquet"] {
            run("long.csv", &["--out", &format!("long.{ending}")]);
        }
        if command == "embed" {
            let values = |name: &str| sandbox.bytes(name)[128..].to_vec();
            run("1.csv", &["--out", "1.npy"]);
            run("2.csv", &["--out", "2.npy"]);
            assert!(values("long.npy") == [values("1.npy"), values("2.npy")].concat());
        }
    }
    // Read again as Parquet and as an array, both in pieces.
    sandbox.run(&["reconstruct", "m.pervade", "long.csv", "--out", "again.parquet"]).done();
    sandbox.run(&["reconstruct", "m.pervade", "long.csv", "--out", "again.npy"]).done();
    let scores = |data: &str| sandbox.run(&["embed", "m.pervade", data]).done().stdout;
    let from_parquet = scores("again.parquet");
    assert_eq!(from_parquet.lines().count(), 70_001);
    assert_eq!(from_parquet, scores("again.npy"));
}

#[test]
fn bad_parts_are_named() {
    let sandbox = sandbox();
    let assign = |data: &str| sandbox.run(&["assign", "m.pervade", data, "--out", "o"]);
    refused(&assign("none/*.csv"), "none");
    refused(&assign("rows/*.parquet"), "no file has a name of this pattern");
    sandbox.write("rows/part-1.csv", "a,b,d\n1,2,3\n");
    refused(&assign("rows"), "part-1.csv");
    refused(&sandbox.run(&["assign", "m.pervade", "rows"]), "missing: `c`; unexpected: `d`");
    let fit =
        |data: &str| sandbox.run(&[&["fit", data, "-k", "2", "--out", "f.pervade"], &QUICK[..]].concat());
    refused(&fit("rows"), "its columns are not those of the first part");
    assert!(!sandbox.path("f.pervade").exists());
    sandbox.write("rows/part-1.csv", "");
    refused(&fit("rows"), "part-1.csv");
    refused(&sandbox.run(&["assign", "m.pervade", "rows", "--out", "p"]), "part-1.csv`: the file is empty");
    assert_eq!(names_in(&sandbox.path("p")), ["_pervade.json", "part-0.csv"], "what was done stays");
    std::fs::remove_file(sandbox.path("rows/part-1.csv")).unwrap();
    sandbox.write("rows/part-1.parquet", "PAR1 and then nothing");
    refused(&assign("rows"), "the parts have different formats");
    refused(&sandbox.run(&["assign", "m.pervade", "rows/part-1.*"]), "the Parquet file cannot be read");
    std::fs::remove_file(sandbox.path("rows/part-1.parquet")).unwrap();
    sandbox.write("rows/notes.txt", "mine");
    refused(&assign("rows"), "notes.txt`: this file is no part of a table");
    std::fs::remove_file(sandbox.path("rows/notes.txt")).unwrap();
    std::fs::write(sandbox.path("rows/_SUCCESS"), "").unwrap();
    let ran = sandbox.run(&["assign", "m.pervade", "rows", "--out", "rows/inside"]);
    refused(&ran, "lies in DATA (rows)");
    let ran = sandbox.run(&["assign", "m.pervade", "rows/*.csv", "--out", "rows"]);
    refused(&ran, "which is the folder of the parts");
    refused(&sandbox.run(&["assign", "m.pervade", "rows", "--part", "3/2"]), "must be like 2/8");
    refused(&sandbox.run(&["assign", "m.pervade", "x.csv", "--format", "npy"]), "only for a table in parts");
    sandbox.write("rows/part-0.csv.gz", "");
    refused(&sandbox.run(&["assign", "m.pervade", "rows", "--out", "q"]), "would both be `part-0.csv`");
}

/// A full disk, or a limit on the size of files.
#[cfg(unix)]
#[test]
fn a_part_that_cannot_be_written_leaves_nothing_behind() {
    let sandbox = sandbox();
    let binary = sandbox.command(&[]).get_program().to_os_string().into_string().unwrap();
    let part = text(&sandbox, "rows/part-1.csv");
    let rows = part.strip_prefix("a,b,c\n").unwrap();
    sandbox.write("rows/part-1.csv", format!("a,b,c\n{}", rows.repeat(20)));
    let mut shell = std::process::Command::new("sh");
    let line = format!("ulimit -f 16; exec '{binary}' embed m.pervade rows --out o");
    shell.args(["-c", &line]).current_dir(sandbox.path(""));
    let ran = finish(shell);
    refused(&ran, "cannot write `o/part-1.csv`");
    assert_eq!(names_in(&sandbox.path("o")), ["_pervade.json", "part-0.csv"]);
    let object = sandbox.run(&["embed", "m.pervade", "rows", "--out", "o", "--json"]).done().json();
    assert_eq!((object["parts"].as_u64(), object["skipped"].as_u64()), (Some(2), Some(1)), "{object}");
}

/// A fit of a table in parts is the fit of the whole table, and leaves no file behind but the model.
#[test]
fn parts_are_fitted_as_one_table() {
    let sandbox = sandbox();
    let fit = |data: &str, out: &str, more: &[&str]| {
        sandbox.run(&[&["fit", data, "-k", "2", "--out", out], &QUICK[..], more].concat()).done()
    };
    fit("rows", "parts.pervade", &[]);
    assert_eq!(sandbox.bytes("parts.pervade"), sandbox.bytes("m.pervade"), "text");
    sandbox.run(&["reconstruct", "m.pervade", "x.csv", "--out", "whole.npy"]).done();
    std::fs::create_dir(sandbox.path("arrays")).unwrap();
    std::fs::create_dir(sandbox.path("parquet")).unwrap();
    std::fs::create_dir(sandbox.path("scratch")).unwrap();
    for i in 0..3 {
        let part = format!("rows/part-{i}.csv");
        for out in [format!("arrays/{i}.npy"), format!("parquet/{i}.parquet")] {
            sandbox.run(&["reconstruct", "m.pervade", &part, "--out", &out]).done();
        }
    }
    fit("whole.npy", "whole.pervade", &[]);
    let ran = fit("arrays/*.npy", "arrays.pervade", &["--scratch", "scratch"]);
    assert!(
        ran.stderr.contains("copying 300 rows into a temporary file of 7.2 kB in scratch"),
        "{}",
        ran.stderr
    );
    assert_eq!(sandbox.bytes("arrays.pervade"), sandbox.bytes("whole.pervade"), "arrays");
    fit("parquet", "parquet.pervade", &[]);
    let clusters = |model: &str, data: &str| sandbox.run(&["assign", model, data]).done().stdout;
    assert_eq!(clusters("parquet.pervade", "parquet"), clusters("whole.pervade", "whole.npy"), "Parquet");
    assert!(names_in(&sandbox.path("scratch")).is_empty());
    assert!(sandbox.files().iter().all(|name| !name.contains("tmp")), "{:?}", sandbox.files());
}

#[test]
fn fits_name_the_part_that_does_not_fit() {
    let sandbox = sandbox();
    std::fs::create_dir(sandbox.path("parts")).unwrap();
    let fit = |more: &[&str]| {
        sandbox.run(&[&["fit", "parts", "-k", "2", "--out", "f.pervade"], &QUICK[..], more].concat())
    };
    for i in 0..2 {
        let out = format!("parts/{i}.parquet");
        sandbox.run(&["reconstruct", "m.pervade", "x.csv", "--out", &out]).done();
    }
    refused(&fit(&["--scratch", "none"]), "none");
    sandbox.run(&["embed", "m.pervade", "x.csv", "--out", "parts/2.parquet"]).done();
    refused(&fit(&[]), "parts/2.parquet`: its columns are not those of the first part");
    sandbox.write("parts/2.parquet", "PAR1");
    refused(&fit(&[]), "parts/2.parquet");
    std::fs::remove_dir_all(sandbox.path("parts")).unwrap();
    std::fs::create_dir(sandbox.path("parts")).unwrap();
    sandbox.run(&["reconstruct", "m.pervade", "x.csv", "--out", "parts/0.npy"]).done();
    sandbox.run(&["embed", "m.pervade", "x.csv", "--out", "parts/1.npy"]).done();
    refused(&fit(&[]), "parts/1.npy`: there are 2 columns, but 3 in the first part");
    assert!(!sandbox.path("f.pervade").exists());
}
