//! New rows for a fitted model.

use super::*;

#[test]
fn new_rows_are_read_as_in_the_fit() {
    let fitted = table(&people());
    let model = options(|o| o.schema = Some(schema(&fitted).clone()));
    // Another order, no id, an unknown level, a gap where the fit had none, one row only.
    let text = "town,grade,constant,smoker,born,visits,income,height\nParis,3,9,no,1990-01-02,,-5,171\n";
    let new = table_with(text, &model);
    assert_eq!(new.data.schema(), fitted.data.schema());
    assert_eq!(new.data.column_names().unwrap(), PEOPLE.map(|(name, _)| name));
    assert_eq!(written(&new).lines().nth(1).unwrap(), "171,,,no,,1990-01-02,3");
    assert_eq!(
        new.notes,
        [
            "columns were matched by name",
            "1 cell of `income` is negative: taken as missing",
            "1 cell of `town` has a level that the fit did not have (such as `Paris`): taken as missing",
        ]
    );
    assert!(new.kept.is_none());
    // The same rows give the same cells, and ids go along.
    let again = table_with(&people(), &model);
    assert_eq!(written(&again), written(&fitted));
    assert_eq!(again.kept, fitted.kept);
    assert_eq!(again.data.checksum(), fitted.data.checksum());
    // Without names in the fit, new rows have all of its columns.
    let bare = |rows: usize| {
        (0..rows)
            .map(|i| format!("7,{}.5,{}\n", noise(i, 90), ["a", "b"][noise(i, 2)]))
            .collect::<Vec<_>>()
            .concat()
    };
    let unnamed = super::table(&bare(60));
    let by_position = options(|o| o.schema = Some(schema(&unnamed).clone()));
    assert_eq!(schema(&unnamed).left_out, ["column_1"]);
    let clustered = bare(2).replace("7,", "");
    let expected = format!("column_2,column_3\n{clustered}");
    assert_eq!(written(&table_with(&bare(2), &by_position)), expected);
    // Without names in the rows alone, columns go by position.
    let bare = "171,20,3,no,York,1990-01-02,3\n172,30,0,yes,Bath,1991-01-02,4\n";
    let bare = table_with(bare, &model);
    assert_eq!(written(&bare).lines().nth(1).unwrap(), "171,20,3,no,York,1990-01-02,3");
}

#[test]
fn new_rows_with_other_columns_are_refused_by_name() {
    let fitted = table(&people());
    let model = options(|o| o.schema = Some(schema(&fitted).clone()));
    let refused = |text: &str| refusal(text, &model);
    let header = "height,income,visits,smoker,town,born,grade";
    let row = "171,20,3,no,York,1990-01-02,3";
    let (message, _) = refused(&format!("{}\n{row}\n", header.replace("town", "city")));
    assert_eq!(
        message,
        "its columns are not those that the model was fitted on (missing: `town`; unexpected: `city`)"
    );
    let (message, hint) = refused(&format!("{header},class\n{row},a\n"));
    assert_eq!(message, "its columns are not those that the model was fitted on (unexpected: `class`)");
    assert!(hint.contains("labels = \"column:NAME\""), "{hint}");
    let keep = model.clone().with(|o| o.keep = vec!["class".to_string()]);
    assert_eq!(table_with(&format!("{header},class\n{row},a\n"), &keep).kept.unwrap().columns, [["a"]]);
    let (message, _) = refused(&format!("{header}\n{}\n", row.replace("171", "tall")));
    assert_eq!(message, "column `height` holds numbers, but 1 of its 1 cells is a word: `tall` in row 1");
    let (message, _) = refused(&format!("{header}\n{}\n", row.replace("1990-01-02", "1990")));
    assert!(
        message.starts_with("column `born` holds dates, but 1 of its 1 cells is a word: `1990`"),
        "{message}"
    );
    let (message, _) = refused(&format!("{header},town\n{row},York\n"));
    assert_eq!(message, "two columns are named `town`");
    let (message, _) = refused("1,2,3\n4,5,6\n");
    assert_eq!(message, "the table has 3 columns, the model was fitted on 7");
    // A row without values can be read, and it is said.
    let empty = table_with(&format!("{header}\n,,,,,,\n{row}\n"), &model);
    assert_eq!(empty.notes, ["row 1 has no values: what is said about such rows is a guess"]);
}

/// A level that was rare in the fit, or that it never had, is one of the others.
#[test]
fn new_rare_levels_are_the_others() {
    let word =
        |i: usize| if i % 40 == 7 { format!("rare {}", i / 40) } else { ["a", "b"][noise(i, 2)].to_string() };
    let fitted = table(&with("kind", 400, &word));
    let model = options(|o| o.schema = Some(schema(&fitted).clone()));
    let new = table_with("x,kind\n1,rare 3\n2,unseen\n3,b\n", &model);
    assert_eq!(cells(&new, "kind"), [2.0, 2.0, 1.0]);
    assert_eq!(written(&new), "x,kind\n1,rare 3\n2,unseen\n3,b\n");
    assert!(new.notes.is_empty());
}

#[test]
fn numbers_that_are_levels_match_however_they_are_written() {
    let fitted = table(&with("arm", 80, &|i| format!("{}.0", 1 + noise(i, 2))));
    let (_, arm) = column(&fitted, "arm");
    assert_eq!((arm.kind, arm.levels.clone()), (ColumnType::YesNo, vec!["1".to_string(), "2".to_string()]));
    assert!(fitted.description.as_ref().unwrap().contains("yes/no: arm (1 or 2)"));
    let model = options(|o| o.schema = Some(schema(&fitted).clone()));
    let new = table_with("x,arm\n1,1\n2,2.0\n3,7\n", &model);
    assert_eq!(&cells(&new, "arm")[..2], [0.0, 1.0]);
    assert!(cells(&new, "arm")[2].is_nan() && new.notes.len() == 1);
    // The same for rows of an array.
    let array = Table::from_columns(
        vec![RawColumn::numbers("", vec![0.5, 1.5]), RawColumn::numbers("", vec![2.0, 1.0])],
        &model,
        "array",
    );
    assert_eq!(cells(&array.unwrap(), "arm"), [1.0, 0.0]);
}
