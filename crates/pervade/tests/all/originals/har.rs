//! UCI HAR: the folder that its archive unpacks to.

use std::fs;

use pervade::data::{ReadOptions, read};

use super::{copy_of, expected, label_words, originals, problem, refusal, rows_of, with_labels};

#[derive(serde::Deserialize)]
struct Expected {
    rows: Vec<Vec<f32>>,
    activities: Vec<String>,
}

#[test]
fn training_rows_come_first_with_names_of_columns_and_activities() {
    let expected: Expected = expected("har.json");
    let table = with_labels(&originals().join("har"), "y");
    assert_eq!(rows_of(&table.data), expected.rows);
    assert_eq!(label_words(&table), expected.activities);
    assert_eq!(
        table.data.column_names().unwrap(),
        [
            "tBodyAcc-mean()-X",
            "fBodyAcc-bandsEnergy()-1,8",
            "angle(X,gravityMean)",
            "fBodyAcc-bandsEnergy()-1,8 (4)"
        ]
    );
}

#[test]
fn names_are_optional_and_labels_needed_only_if_wanted() {
    let folder = copy_of("har");
    for name in ["features.txt", "activity_labels.txt"] {
        fs::remove_file(folder.path().join(name)).unwrap();
    }
    let table = with_labels(folder.path(), "y");
    assert_eq!(label_words(&table), ["1", "3", "3", "1", "2", "2", "2", "1"]);
    assert_eq!(table.data.column_names(), None);
    fs::remove_file(folder.path().join("test/y_test.txt")).unwrap();
    assert_eq!(read(folder.path(), &ReadOptions::default()).unwrap().data.n_rows(), 8);
    assert_eq!(
        problem(folder.path()),
        "`FOLDER`: there is neither `test/y_test.txt` nor `test/y_test.txt.gz` in the folder"
    );
}

#[test]
fn missing_parts_and_wrong_lengths_are_named() {
    let folder = copy_of("har");
    fs::write(folder.path().join("train/y_train.txt"), "1\n3\n").unwrap();
    assert_eq!(
        problem(folder.path()),
        "`train/y_train.txt`: there are 2 labels for the 5 rows of `train/X_train.txt`"
    );
    fs::remove_file(folder.path().join("test/X_test.txt.gz")).unwrap();
    let (text, hint) = refusal(folder.path(), folder.path(), None);
    assert_eq!(text, "`FOLDER`: there is neither `test/X_test.txt` nor `test/X_test.txt.gz` in the folder");
    assert!(hint.contains("`UCI HAR Dataset` has train/X_train.txt"), "{hint}");
}

#[test]
fn rows_with_wrong_columns_are_named() {
    let folder = copy_of("har");
    fs::remove_file(folder.path().join("test/X_test.txt.gz")).unwrap();
    let test = folder.path().join("test/X_test.txt");
    for (rows, expected) in [
        ("1 2 3\n4 5 6\n7 8 9\n", "the rows have 3 columns, those of `train/X_train.txt` have 4"),
        ("1 2 3 4\n1 2 3\n", "line 2 has 3 fields, expected 4 as in the first line"),
        ("1 2 3 4\n1 2 3 4 5\n", "line 2 has 5 fields, expected 4 as in the first line"),
        ("1 2 3 4\n1 2 x 4\n", "line 2, column 3 is `x`, not a finite number"),
        ("1 2 3 nan\n", "line 1, column 4 is `nan`, not a finite number"),
        ("1 2 three 4\n1 2 3 4\n", "line 1 has `three`, which is not a number"),
        ("", "the table is empty: 0 rows x 0 columns"),
    ] {
        fs::write(&test, rows).unwrap();
        assert_eq!(problem(folder.path()), format!("`test/X_test.txt`: {expected}"));
    }
    fs::write(&test, "1 2 3 4\n1 2 3 4\n1 2 3 4\n").unwrap();
    fs::write(folder.path().join("features.txt"), "1 a\n2 b\n3 c\n").unwrap();
    assert_eq!(problem(folder.path()), "`features.txt`: there are names for 3 columns, the rows have 4");
    fs::write(folder.path().join("features.txt"), "1 a\nb\n").unwrap();
    assert_eq!(problem(folder.path()), "`features.txt`: line 2: `b` is not a number and a name");
}

#[test]
fn labels_out_of_range_are_named() {
    let folder = copy_of("har");
    let labels = folder.path().join("test/y_test.txt");
    for wrong in ["4", "0", "-1", "walking", "1 2", "99999999999"] {
        fs::write(&labels, format!("2\n{wrong}\n1\n")).unwrap();
        assert_eq!(
            problem(folder.path()),
            format!(
                "`test/y_test.txt`: line 2: the label is `{wrong}`, which is not one of the 3 activities in \
                 activity_labels.txt"
            )
        );
    }
    fs::write(folder.path().join("activity_labels.txt"), "1 A\n1 B\n").unwrap();
    assert_eq!(problem(folder.path()), "`activity_labels.txt`: activity 1 is named twice");
    fs::remove_file(folder.path().join("activity_labels.txt")).unwrap();
    fs::write(&labels, "7\n1\n1\n").unwrap();
    assert_eq!(problem(folder.path()), "`test/y_test.txt`: line 1: the label is `7`, must be 1 to 6");
}
