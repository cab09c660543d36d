//! Columns are matched by name: any order is accepted, other names are refused, by every command that reads rows.

use crate::common::Sandbox;

/// A table of 60 rows whose columns have very different scales; the label is the sign of the first.
fn columns() -> Vec<(&'static str, Vec<f64>)> {
    let side = |i: usize| if i.is_multiple_of(3) { 1.0 } else { -1.0 };
    let column = |scale: f64, turn: usize| {
        (0..60).map(|i| scale * side(i + turn) + (i * 7 % 11) as f64 * 0.02 * scale).collect::<Vec<f64>>()
    };
    vec![
        ("width", column(1.0, 0)),
        ("height", column(50.0, 1)),
        ("depth", column(0.1, 2)),
        ("mass", column(7.0, 0)),
    ]
}

/// The columns in this order as CSV, with names optionally changed.
fn csv(order: &[usize], rename: impl Fn(&str) -> String) -> String {
    let all = columns();
    let header: Vec<String> = order.iter().map(|&j| rename(all[j].0)).collect();
    let row = |i: usize| order.iter().map(|&j| all[j].1[i].to_string()).collect::<Vec<_>>().join(",");
    format!("{}\n{}\n", header.join(","), (0..60).map(row).collect::<Vec<_>>().join("\n"))
}

fn same(name: &str) -> String {
    name.to_string()
}

/// A folder with a model and several tables.
fn fitted() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("t.csv", csv(&[0, 1, 2, 3], same));
    sandbox.write("turned.csv", csv(&[2, 0, 3, 1], same));
    sandbox.write("labels.txt", "0\n0\n1\n".repeat(20));
    let fit = ["fit", "t.csv", "-k", "2", "--device", "cpu", "--out", "m.pervade", "--hidden", "16,16"];
    let short = ["--latents", "2", "--pretrain-epochs", "20", "--epochs", "2", "--pretrain-batch", "20"];
    sandbox.run(&[&fit[..], &short].concat()).done();
    sandbox
}

const COMMANDS: [&str; 5] = ["assign", "embed", "reconstruct", "score", "evaluate"];

fn args<'a>(command: &'a str, data: &'a str) -> Vec<&'a str> {
    let mut args = vec![command, "m.pervade", data, "--device", "cpu"];
    if command == "evaluate" {
        args.extend(["--labels", "labels.txt"]);
    }
    args
}

#[test]
fn another_order_gives_the_same_result() {
    let sandbox = fitted();
    for command in COMMANDS {
        let (plain, turned) =
            (sandbox.run(&args(command, "t.csv")).done(), sandbox.run(&args(command, "turned.csv")).done());
        assert_eq!(plain.stdout, turned.stdout, "{command}");
        assert!(turned.stderr.contains("note: columns were matched by name"), "{command}: {}", turned.stderr);
        assert!(!plain.stderr.contains("matched by name"), "{command}: {}", plain.stderr);
    }
    let quiet = sandbox.run(&[&args("assign", "turned.csv")[..], &["--quiet"]].concat()).done();
    assert_eq!(quiet.stderr, "");
    // Reconstructions have the model's columns.
    let rows = sandbox.run(&args("reconstruct", "turned.csv")).done();
    assert_eq!(rows.stdout.lines().next(), Some("width,height,depth,mass"));
}

#[test]
fn other_names_are_refused_with_an_error_that_names_them() {
    let sandbox = fitted();
    sandbox.write(
        "renamed.csv",
        csv(&[0, 1, 2, 3], |name| if name == "depth" { "length".into() } else { same(name) }),
    );
    sandbox.write("fewer.csv", csv(&[3, 0, 2], same));
    sandbox.write("more.csv", csv(&[0, 1, 2, 3], same).replace('\n', ",1\n").replacen(",1\n", ",class\n", 1));
    sandbox.write(
        "twice.csv",
        csv(&[1, 0, 2, 3], |name| if name == "mass" { "width".into() } else { same(name) }),
    );
    for command in COMMANDS {
        let refused = |data: &str, words: &[&str]| {
            let ran = sandbox.run(
                &[&args(command, data)[..], if command == "evaluate" { &[] } else { &["--out", "o.csv"] }]
                    .concat(),
            );
            assert_eq!(ran.status, 2, "{command} {data}: {}", ran.stderr);
            for word in words {
                assert!(ran.stderr.contains(word), "{command} {data}: {}", ran.stderr);
            }
            assert!(ran.stdout.is_empty() && !sandbox.path("o.csv").exists(), "{command} {data}");
        };
        refused("renamed.csv", &["renamed.csv", "missing: `depth`", "unexpected: `length`", "hint:"]);
        refused("fewer.csv", &["missing: `height`", "hint:"]);
        refused("more.csv", &["unexpected: `class`", "`--labels column:NAME` leaves a column of labels out"]);
        refused("twice.csv", &["two columns are named `width`"]);
    }
    sandbox.run(&["assign", "m.pervade", "more.csv", "--labels", "column:class", "--device", "cpu"]).done();
}

#[test]
fn without_names_columns_are_matched_by_position() {
    let sandbox = fitted();
    let (_, body) =
        csv(&[0, 1, 2, 3], same).split_once('\n').map(|(a, b)| (a.to_string(), b.to_string())).unwrap();
    sandbox.write("bare.csv", body);
    let (named, bare) =
        (sandbox.run(&args("embed", "t.csv")).done(), sandbox.run(&args("embed", "bare.csv")).done());
    assert_eq!(named.stdout, bare.stdout);
    assert!(!bare.stderr.contains("matched by name"));
    // A model of rows without names accepts any names.
    let fit = ["fit", "bare.csv", "-k", "2", "--device", "cpu", "--out", "m.pervade", "--hidden", "8,8"];
    sandbox.run(&[&fit[..], &["--pretrain-epochs", "2", "--epochs", "1"]].concat()).done();
    let (plain, turned) =
        (sandbox.run(&args("assign", "t.csv")).done(), sandbox.run(&args("assign", "turned.csv")).done());
    assert!(!turned.stderr.contains("matched by name"));
    assert_eq!(plain.stdout.lines().count(), turned.stdout.lines().count());
}

/// Columns with types are matched by name, so that every one needs its own.
#[test]
fn names_that_occur_twice_are_refused() {
    let sandbox = Sandbox::new();
    let doubled = |name: &str| if name == "mass" { "width".to_string() } else { same(name) };
    sandbox.write("t.csv", csv(&[0, 1, 2, 3], doubled));
    let ran = sandbox.run(&["fit", "t.csv", "-k", "2", "--device", "cpu", "--out", "m.pervade"]);
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("two columns are named `width`"), "{}", ran.stderr);
}

#[test]
fn a_table_without_names_can_be_given_some() {
    let sandbox = Sandbox::new();
    let numbers = csv(&[0, 1, 2, 3], same);
    let numbers = numbers.split_once('\n').unwrap().1.to_string();
    sandbox.write("x.csv", numbers);
    sandbox.write("t.csv", csv(&[0, 1, 2, 3], same));
    sandbox.write("names.txt", "\u{feff}Breite\r\nHöhe\r\n<b>\r\nmass 🐧");
    let fit = |data: &str, names: &str, out: &str| {
        let fit = ["fit", data, "-k", "2", "--column-names", names, "--out", out];
        sandbox.run(&[&fit[..], &crate::common::QUICK].concat())
    };
    fit("x.csv", "names.txt", "m.pervade").done();
    let found = sandbox.run(&["describe", "m.pervade", "x.csv", "--json"]).done().json();
    let columns = found["clusters"][0]["columns"].as_array().unwrap().iter();
    let mut names: Vec<&str> = columns.map(|column| column["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["<b>", "Breite", "Höhe", "mass 🐧"]);
    let refused = |data: &str, names: &str, what: &str| {
        let ran = fit(data, names, "other.pervade");
        assert!(ran.status == 2 && ran.stderr.contains(what), "{names}: {}", ran.stderr);
    };
    sandbox.write("few.txt", "a\nb\nc\n");
    sandbox.write("gap.txt", "a\n\nc\nd\n");
    sandbox.write("long.txt", "x".repeat(5000));
    sandbox.write("latin.txt", [b'a', b'\n', 0xe4, b'\n', b'c', b'\n', b'd']);
    refused("x.csv", "few.txt", "has 3 lines, but the table has 4 columns");
    refused("x.csv", "gap.txt", "no name in line 2");
    refused("x.csv", "long.txt", "too long");
    refused("x.csv", "latin.txt", "UTF-8");
    refused("x.csv", "missing.txt", "missing.txt");
    refused("x.csv", "/dev/zero", "too long");
    refused("t.csv", "names.txt", "has column names of its own");
    refused("x.csv", "other.pervade", "other.pervade");
    assert!(!sandbox.files().contains(&"other.pervade".to_string()));
}
