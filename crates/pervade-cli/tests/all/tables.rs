//! A table as people have it, from `fit` to rows out: types, gaps, ids, new rows.

use std::collections::BTreeSet;

use crate::common::{QUICK, Ran, Sandbox, sample};

/// The penguins with an id in front, fitted quickly; the species are labels.
fn fitted(flags: &[&str]) -> (Sandbox, Ran) {
    let sandbox = Sandbox::new();
    let text = std::fs::read_to_string(sample("penguins.csv")).unwrap();
    let with_id = |(i, line): (usize, &str)| {
        let id = if i == 0 { "id".to_string() } else { format!("{:04}", i * 7 % 1000) };
        format!("{id},{line}\n")
    };
    sandbox.write("p.csv", text.lines().enumerate().map(with_id).collect::<String>());
    let fit = ["fit", "p.csv", "-k", "3", "--labels", "column:species", "--out", "m.pervade"];
    let ran = sandbox.run(&[&fit[..], &QUICK, flags].concat()).done();
    (sandbox, ran)
}

#[test]
fn a_table_with_decimal_commas_and_a_name_with_spaces() {
    let sandbox = Sandbox::new();
    let row = |i: usize| format!("{},{};{},5;{}\n", i % 2 * 50 + i % 7, i % 10, i % 5, ["a", "b"][i % 2]);
    let text = "price €;size;kind\n".to_string() + &(0..80).map(row).collect::<String>();
    sandbox.write("my table.csv", text.clone());
    let refused = sandbox.run(&["fit", "my table.csv", "-k", "2"]);
    assert_eq!(refused.status, 2);
    assert!(refused.stderr.contains("hint: `--decimal-comma` reads such numbers"), "{}", refused.stderr);
    assert!(refused.stderr.contains("`--keep-columns 'price €'`"), "{}", refused.stderr);
    let ran =
        sandbox.run(&[&["fit", "my table.csv", "-k", "2", "--decimal-comma"], &QUICK[..]].concat()).done();
    let next = "pervade assign 'my table.pervade' 'my table.csv' --decimal-comma > clusters.csv";
    assert!(ran.stderr.contains("numbers: price €, size") && ran.stderr.contains(next), "{}", ran.stderr);
    let assigned = sandbox.run(&["assign", "my table.pervade", "my table.csv", "--decimal-comma"]).done();
    assert_eq!(assigned.stdout.lines().count(), 81);
    // The same rows with points give the same clusters.
    sandbox.write("points.csv", text.replace(',', "."));
    assert_eq!(sandbox.run(&["assign", "my table.pervade", "points.csv"]).done().stdout, assigned.stdout);
    let refused = sandbox.run(&["assign", "my table.pervade", "points.csv", "--decimal-comma"]);
    assert!(refused.status == 2 && refused.stderr.contains("line 2 has `0.0`"), "{}", refused.stderr);
}

fn lines(text: &str) -> Vec<Vec<String>> {
    text.lines().map(|line| line.split(',').map(String::from).collect()).collect()
}

#[test]
fn penguins_are_fitted_and_assigned_as_they_are() {
    let (sandbox, ran) = fitted(&["--assignments", "a.csv"]);
    assert!(
        ran.stderr.contains(
            "columns: numbers: bill_length_mm, bill_depth_mm, flipper_length_mm, body_mass_g, year; yes/no: sex (female \
             or male); categories: island (3 levels); left out: id (an id: every value differs); 19 cells are missing in 5 \
             columns"
        ),
        "{}",
        ran.stderr
    );
    let assigned = sandbox.run(&["assign", "m.pervade", "p.csv", "--labels", "column:species"]).done();
    assert_eq!(assigned.stdout, String::from_utf8(sandbox.bytes("a.csv")).unwrap());
    let rows = lines(&assigned.stdout);
    assert_eq!((rows[0].join(","), rows.len()), ("id,cluster".to_string(), 345));
    assert_eq!((rows[1][0].as_str(), rows[344][0].as_str()), ("0007", "0408"), "as written");
    // Another order of columns, an unknown island, more gaps; the species is a column too many.
    let new = "sex,year,island,id,bill_depth_mm,body_mass_g,bill_length_mm,flipper_length_mm\n\
               male,2008,Ross,17,18.5,,39.0,190\n,,Dream,18,,,,\n";
    sandbox.write("new.csv", new);
    let assigned = sandbox.run(&["assign", "m.pervade", "new.csv", "--probabilities"]).done();
    assert!(assigned.stderr.contains("note: columns were matched by name"), "{}", assigned.stderr);
    let note =
        "note: 1 cell of `island` has a level that the fit did not have (such as `Ross`): taken as missing";
    assert!(assigned.stderr.contains(note), "{}", assigned.stderr);
    assert!(
        assigned.stdout.starts_with("id,cluster,probability,cluster_0,cluster_1,cluster_2\n17,"),
        "{}",
        assigned.stdout
    );
    let refused = sandbox.run(&["assign", "m.pervade", "p.csv"]);
    assert!(refused.status == 2 && refused.stderr.contains("unexpected: `species`"), "{}", refused.stderr);
    for (command, header) in [("score", "id,log_density,anomaly"), ("embed", "id,latent_0,latent_1")] {
        let ran = sandbox.run(&[command, "m.pervade", "new.csv"]).done();
        assert_eq!(ran.stdout.lines().next(), Some(header), "{command}");
    }
}

#[test]
fn generated_rows_have_the_types_of_the_table() {
    let (sandbox, _) = fitted(&[]);
    let made = sandbox.run(&["generate", "m.pervade", "--count", "40", "--cluster", "1"]).done();
    let rows = lines(&made.stdout);
    let names = "cluster,island,bill_length_mm,bill_depth_mm,flipper_length_mm,body_mass_g,sex,year";
    assert_eq!((rows[0].join(","), rows.len()), (names.to_string(), 41));
    let column = |j: usize| rows[1..].iter().map(|row| row[j].as_str()).collect::<BTreeSet<&str>>();
    assert!(column(1).is_subset(&BTreeSet::from(["Biscoe", "Dream", "Torgersen"])), "{:?}", column(1));
    assert!(column(6).is_subset(&BTreeSet::from(["female", "male"])), "{:?}", column(6));
    assert!(column(5).iter().all(|mass| mass.parse::<i64>().is_ok()), "{:?}", column(5));
    assert_eq!(column(0), BTreeSet::from(["1"]));
    let json =
        sandbox.run(&["generate", "m.pervade", "--count", "40", "--cluster", "1", "--json"]).done().json();
    assert_eq!(json["generated"][0][0], rows[1][1].as_str());
    assert_eq!(json["generated"][0][4].to_string(), rows[1][5]);
    let refused = sandbox.run(&["generate", "m.pervade", "--out", "new.npy"]);
    let wanted = "column `island` is of type category, and .npy files hold numbers";
    assert!(refused.status == 2 && refused.stderr.contains(wanted), "{}", refused.stderr);
    // Parquet has the same rows, in types that are read as such.
    sandbox.run(&["generate", "m.pervade", "--count", "40", "--cluster", "1", "--out", "new.parquet"]).done();
    sandbox.run(&["assign", "m.pervade", "new.parquet", "--labels", "column:cluster"]).done();
}

#[test]
fn gaps_are_filled_and_nothing_else_changes() {
    let (sandbox, _) = fitted(&[]);
    let impute = ["impute", "m.pervade", "p.csv", "--labels", "column:species"];
    let ran = sandbox.run(&impute).done();
    assert!(ran.stderr.contains("filled 19 cells of 344 rows"), "{}", ran.stderr);
    let before = String::from_utf8(sandbox.bytes("p.csv")).unwrap();
    let (before, after) = (lines(&before), lines(&ran.stdout));
    assert_eq!(before.len(), after.len());
    let mut n_filled = 0;
    for (old, new) in before.iter().zip(&after) {
        assert_eq!(old.len(), new.len());
        for (old, new) in old.iter().zip(new) {
            let is_gap = ["", "NA"].contains(&old.as_str());
            assert!(is_gap || old == new, "{old} became {new}");
            assert!(!new.is_empty());
            n_filled += usize::from(is_gap);
        }
    }
    assert_eq!(n_filled, 19);
    let drawn = |seed: &str| sandbox.run(&[&impute[..], &["--draw", "--seed", seed]].concat()).done().stdout;
    assert!(drawn("1") == drawn("1") && drawn("1") != drawn("2") && drawn("1") != ran.stdout);
    // The same as Parquet, which can be imputed again: there is nothing left to fill.
    sandbox.run(&[&impute[..], &["--out", "full.parquet"]].concat()).done();
    let again = sandbox.run(&["impute", "m.pervade", "full.parquet", "--labels", "column:species"]).done();
    assert!(again.stderr.contains("filled 0 cells"), "{}", again.stderr);
    let numbers =
        |text: &str| lines(text).concat().iter().filter_map(|cell| cell.parse::<f64>().ok()).sum::<f64>();
    assert_eq!(numbers(&again.stdout), numbers(&ran.stdout));
}

#[test]
fn types_come_from_flags_and_from_the_file() {
    let sandbox = Sandbox::new();
    let penguins = sample("penguins.csv");
    let penguins = penguins.to_str().unwrap();
    sandbox.write("run.toml", "clusters = 3\n[columns]\nyear = \"category\"\nsex = \"keep\"\n");
    let fit = ["fit", penguins, "--config", "run.toml", "--out", "m.pervade"];
    let flags = [
        "--type",
        "year=ordered,flipper_length_mm=positive",
        "--keep-columns",
        "species",
        "--missing",
        "3250.0,-1",
    ];
    let ran = sandbox.run(&[&fit[..], &flags, &QUICK].concat()).done();
    for wanted in [
        "amounts, on a logarithmic scale: flipper_length_mm;",
        "ordered: year (2007 < 2008 < 2009);",
        "left out: species (as asked), sex (as asked);",
    ] {
        assert!(ran.stderr.contains(wanted), "{wanted}: {}", ran.stderr);
    }
    let assigned = sandbox.run(&["assign", "m.pervade", penguins]).done();
    assert!(assigned.stdout.starts_with("species,sex,cluster\nAdelie,male,"), "{}", assigned.stdout);
    let imputed = sandbox.run(&["impute", "m.pervade", penguins]).done();
    assert!(!imputed.stdout.contains(",3250.0,"), "a word for missing cells is kept in the model");
    // A preparation for all columns alike: numbers without types, the others go along.
    let keep = ["--keep-columns", "species,island,sex", "--prepare", "standardise"];
    let text = std::fs::read_to_string(penguins).unwrap();
    let full: Vec<&str> = text.lines().filter(|line| !line.contains(",,") && !line.contains("NA")).collect();
    let full = full.join("\n") + "\n";
    sandbox.write("full.csv", full);
    let fit = ["fit", "full.csv", "-k", "3", "--out", "plain.pervade"];
    sandbox.run(&[&fit[..], &keep, &QUICK].concat()).done();
    let assigned = sandbox.run(&["assign", "plain.pervade", "full.csv"]).done();
    assert!(
        assigned.stdout.starts_with("species,island,sex,cluster\nAdelie,Torgersen,male,"),
        "{}",
        assigned.stdout
    );
    let refused = sandbox.run(&["impute", "plain.pervade", "full.csv"]);
    assert!(refused.stderr.contains("its columns have no types"), "{}", refused.stderr);
}

#[test]
fn gaps_that_mean_something_count_from_fit_to_rows_out() {
    let (sandbox, ran) = fitted(&["--missing-informative"]);
    let words = "that a cell is missing counts as a value of its own in 5 columns";
    assert!(ran.stderr.contains(words) && ran.stderr.contains("344 rows x 7 columns"), "{}", ran.stderr);
    let inspected = sandbox.run(&["inspect", "m.pervade"]).done().stdout;
    assert!(
        inspected.contains("  sex is missing") && inspected.contains("344 rows x 7 columns"),
        "{inspected}"
    );
    let labels = ["--labels", "column:species"];
    let described =
        sandbox.run(&[&["describe", "m.pervade", "p.csv", "--columns", "12"][..], &labels].concat());
    assert!(described.done().stdout.contains("is missing"));
    let names = "cluster,island,bill_length_mm,bill_depth_mm,flipper_length_mm,body_mass_g,sex,year";
    for (command, header) in [("generate", names), ("reconstruct", names.trim_start_matches("cluster,"))] {
        let data: &[&str] =
            if command == "generate" { &[] } else { &["p.csv", "--labels", "column:species"] };
        let made = sandbox.run(&[&[command, "m.pervade"][..], data].concat()).done().stdout;
        assert_eq!(made.lines().next().map(|line| line.trim_start_matches("id,")), Some(header), "{command}");
    }
    let filled = sandbox.run(&[&["impute", "m.pervade", "p.csv"][..], &labels].concat()).done();
    assert!(filled.stderr.contains("filled 19 cells of 344 rows"), "{}", filled.stderr);
    assert_eq!(filled.stdout.lines().next().map(|line| line.split(',').count()), Some(9));
    sandbox.run(&[&["report", "m.pervade", "p.csv", "--out", "r.html"][..], &labels].concat()).done();
    sandbox.run(&["export", "m.pervade", "--onnx", "m.onnx"]).done();
    assert!(sandbox.run(&["card", "m.pervade"]).done().stdout.contains("| sex is missing | yes/no |"));
    // From a settings file; a table without gaps is fitted with a note.
    sandbox.write("run.toml", "clusters = 2\nmissing_informative = true\n");
    let row = |i: usize| format!("{},{}\n", i % 2 * 9 + i % 5, i % 7);
    let rows: String = (0..60).map(row).collect();
    sandbox.write("full.csv", format!("x,y\n{rows}"));
    let fit = ["fit", "full.csv", "--config", "run.toml", "--out", "full.pervade"];
    let ran = sandbox.run(&[&fit[..], &QUICK].concat()).done();
    assert!(ran.stderr.contains("note: no cell is missing: there are no gaps"), "{}", ran.stderr);
}
