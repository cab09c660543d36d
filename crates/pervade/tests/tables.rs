//! Tables as people have them: types of columns, gaps, new rows, and mistakes.

use std::path::PathBuf;
use std::sync::Arc;

use pervade::Error;
use pervade::data::{
    Coded, Column, ColumnSpec, ColumnType, Dataset, OutputCells, OutputFormat, OutputTable, RawCells,
    RawColumn, ReadOptions, Schema, Table, Values, read, read_bytes,
};

fn options(change: impl FnOnce(&mut ReadOptions)) -> ReadOptions {
    ReadOptions::default().with(change)
}

fn spec(column: &str, text: &str) -> (String, ColumnSpec) {
    (column.to_string(), text.parse().unwrap())
}

fn table(text: &str) -> Table {
    table_with(text, &ReadOptions::default())
}

fn table_with(text: &str, options: &ReadOptions) -> Table {
    read_bytes(text.as_bytes(), "csv", options).unwrap_or_else(|e| panic!("{e}"))
}

/// The message and the hint of a table that cannot be read.
fn refusal(text: &str, options: &ReadOptions) -> (String, String) {
    let error: Error = read_bytes(text.as_bytes(), "csv", options).expect_err("must not be read");
    let message = error.to_string();
    let message = message.strip_prefix("`bytes in memory`: ").unwrap_or(&message).to_string();
    (message, error.hint().unwrap_or_default().to_string())
}

fn schema(table: &Table) -> &Arc<Schema> {
    table.data.schema().expect("typed columns")
}

fn kinds(table: &Table) -> Vec<(String, ColumnType)> {
    schema(table).columns.iter().map(|column| (column.name.clone(), column.kind)).collect()
}

fn column<'a>(table: &'a Table, name: &str) -> (usize, &'a Column) {
    let found = schema(table).columns.iter().enumerate().find(|(_, column)| column.name == name);
    found.unwrap_or_else(|| panic!("no column {name}"))
}

fn cells(table: &Table, name: &str) -> Vec<f64> {
    let (j, _) = column(table, name);
    (0..table.data.n_rows()).map(|i| table.data.cell(i, j)).collect()
}

/// The table with its cells as text, without kept columns.
fn written(table: &Table) -> String {
    let d = table.data.n_columns();
    let cells: Vec<f64> = (0..table.data.n_rows() * d).map(|at| table.data.cell(at / d, at % d)).collect();
    let output = OutputCells { schema: schema(table), cells: &cells, pooled: &table.pooled };
    let mut out = Vec::new();
    let output = OutputTable { cells: Some(output), ..OutputTable::default() };
    output.write_to(&mut out, OutputFormat::Csv).unwrap();
    String::from_utf8(out).unwrap()
}

/// A pseudo-random number from 0 to `n`.
fn noise(i: usize, n: usize) -> usize {
    (i.wrapping_mul(2_654_435_761) >> 7) % n
}

/// Sixty rows with a column of every type.
fn people() -> String {
    let mut text = "id,name,height,income,visits,smoker,town,born,constant,grade\n".to_string();
    for i in 0..60 {
        let smoker = ["yes", "no"][noise(i, 2)];
        let town = ["Bath", "York", "Leeds"][noise(i + 7, 3)];
        let height = if i == 3 { "NA".to_string() } else { format!("{}.5", 150 + noise(i, 50)) };
        let income = (noise(i, 1000) as f64 / 100.0).exp();
        let visits = (noise(i, 600) as f64 / 100.0 - 2.0).exp().floor();
        let born = if i == 9 {
            String::new()
        } else {
            format!("19{:02}-0{}-1{}", noise(i, 80) + 10, 1 + noise(i, 9), noise(i, 9))
        };
        text.push_str(&format!(
            "{},person {i},{height},{income:.2},{visits},{smoker},{town},{born},7,{}\n",
            1000 + i * 3,
            1 + noise(i, 5)
        ));
    }
    text
}

const PEOPLE: [(&str, ColumnType); 7] = [
    ("height", ColumnType::Number),
    ("income", ColumnType::Positive),
    ("visits", ColumnType::Count),
    ("smoker", ColumnType::YesNo),
    ("town", ColumnType::Category),
    ("born", ColumnType::Date),
    ("grade", ColumnType::Number),
];

#[test]
fn every_type_is_inferred_and_said() {
    let table = table(&people());
    let wanted: Vec<(String, ColumnType)> =
        PEOPLE.iter().map(|(name, kind)| (name.to_string(), *kind)).collect();
    assert_eq!(kinds(&table), wanted);
    assert_eq!(
        table.description.as_deref().unwrap(),
        "numbers: height, grade; amounts, on a logarithmic scale: income; counts: visits; yes/no: smoker (no or yes); \
         categories: town (3 levels); dates: born; left out: id (an id: every value differs), name (text: every value \
         differs), constant (always 7); 2 cells are missing in 2 columns"
    );
    let kept = table.kept.as_ref().unwrap();
    assert_eq!(kept.names, ["id", "name"]);
    assert_eq!((kept.columns[0][1].as_str(), kept.columns[1][59].as_str()), ("1003", "person 59"));
    assert!(cells(&table, "height")[3].is_nan() && column(&table, "height").1.has_gaps);
    assert!(column(&table, "visits").1.whole && !column(&table, "height").1.whole);
    assert_eq!(column(&table, "town").1.levels, ["Bath", "Leeds", "York"]);
    assert_eq!(schema(&table).left_out, ["constant"]);
    assert!(matches!(table.data.values(), Values::F64(_)));
}

/// What is read is what is written: levels by name, dates as they were, whole numbers without decimals, gaps empty.
#[test]
fn rows_are_written_as_they_were_read() {
    let text = people();
    let table = table(&text);
    let columns = [2, 3, 4, 5, 6, 7, 9];
    let expected: String = text
        .lines()
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            let number = |field: &str| field.parse::<f64>().map_or(field.to_string(), |x| x.to_string());
            columns.map(|j| number(fields[j]).replace("NA", "")).join(",") + "\n"
        })
        .collect();
    assert_eq!(written(&table), expected);
}

#[test]
fn penguins_are_what_a_biologist_expects() {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/readers/penguins.csv"));
    let table = read(&path, &ReadOptions::with_labels("column:species").unwrap()).unwrap();
    assert_eq!(
        table.description.as_deref().unwrap(),
        "numbers: bill_length_mm, bill_depth_mm, flipper_length_mm, body_mass_g, year; yes/no: sex (female or male); \
         categories: island (3 levels); 19 cells are missing in 5 columns"
    );
    assert_eq!((table.data.n_rows(), table.data.n_columns()), (344, 7));
    assert_eq!(table.labels.as_ref().unwrap().names(), ["Adelie", "Chinstrap", "Gentoo"]);
    assert_eq!(&cells(&table, "body_mass_g")[..3], [3750.0, 3800.0, 3250.0]);
    assert!(cells(&table, "sex")[3].is_nan());
    assert_eq!(written(&table).lines().nth(1).unwrap(), "Torgersen,39.1,18.7,181,3750,male,2007");
    assert_eq!(written(&table).lines().nth(4).unwrap(), "Torgersen,,,,,,2007");
}

/// Wide numbers, grey levels and zeros and ones are read as ever: single precision, no types, no column left out.
#[test]
fn plain_numbers_share_one_type() {
    let rows = |n: usize, d: usize, cell: &dyn Fn(usize, usize) -> String| -> String {
        (0..n).map(|i| (0..d).map(|j| cell(i, j)).collect::<Vec<_>>().join(",") + "\n").collect()
    };
    let names = |d: usize| (0..d).map(|j| format!("c{j}")).collect::<Vec<_>>().join(",") + "\n";
    let real = |i: usize, j: usize| format!("0.{}", noise(i * 31 + j, 9999));
    let grey = |i: usize, j: usize| if j == 0 { "0".into() } else { noise(i * 31 + j, 17).to_string() };
    let binary = |i: usize, j: usize| noise(i * 31 + j, 2).to_string();
    let is_plain = |text: String, n_columns: usize| {
        let table = table(&text);
        assert!(table.data.schema().is_none() && table.description.is_none());
        assert_eq!(table.data.n_columns(), n_columns);
        assert!(matches!(table.data.values(), Values::F32(_)));
        assert!(table.data.typed_schema(false).unwrap().is_none());
    };
    is_plain(names(201) + &rows(40, 201, &real), 201);
    is_plain(rows(40, 31, &real), 31);
    is_plain(rows(200, 40, &grey), 40);
    is_plain(names(40) + &rows(200, 40, &grey), 40);
    is_plain(names(3) + &rows(40, 3, &binary), 3);
    for (text, d) in [(names(200) + &rows(40, 200, &real), 200), (rows(40, 30, &real), 30)] {
        let table = table(&text);
        assert_eq!(kinds(&table).len(), d);
        assert!(table.data.typed_schema(false).unwrap().is_some());
        assert!(table.data.typed_schema(true).unwrap().is_none(), "a preparation was chosen");
    }
    // A gap or a word makes any table typed; a kept column does not.
    let wide = names(201) + &rows(40, 201, &real);
    let (header, cells) = wide.split_once('\n').unwrap();
    let gap = format!("{header}\n{}", &cells[cells.find(',').unwrap()..]);
    assert!(table(&gap).data.schema().unwrap().columns[0].has_gaps);
    let with_id: Vec<String> =
        wide.lines().enumerate().map(|(i, line)| format!("cell-{i},{line}\n")).collect();
    let with_id = with_id.concat();
    let table = table(&with_id);
    assert!(table.data.schema().is_none() && table.data.n_columns() == 201);
    assert_eq!(table.kept.unwrap().columns[0][0], "cell-1");
}

#[test]
fn arrays_get_types_for_a_fit_without_a_copy() {
    let cells = |j: usize| {
        (0..50).map(move |i| if j == 1 { (noise(i, 2)) as f32 } else { noise(i, 900) as f32 / 7.0 })
    };
    let values: Vec<f32> = cells(0).zip(cells(1)).flat_map(|(a, b)| [a, b]).collect();
    let data = Dataset::from_rows(50, 2, values.clone()).unwrap();
    assert!(data.schema().is_none());
    let schema = data.typed_schema(false).unwrap().unwrap();
    assert_eq!(
        schema.columns.iter().map(|c| c.kind).collect::<Vec<_>>(),
        [ColumnType::Number, ColumnType::YesNo]
    );
    assert_eq!((schema.columns[0].name.as_str(), schema.is_named), ("column_1", false));
    assert!(data.typed_schema(true).unwrap().is_none());
    // NaN is a gap, in any number of columns, and gives the table types at once.
    let mut gap = values.clone();
    gap[4] = f32::NAN;
    let data = Dataset::from_rows(50, 2, gap.clone()).unwrap();
    assert!(data.schema().unwrap().columns[0].has_gaps && data.typed_schema(true).unwrap().is_some());
    let named = data.with_column_names(vec!["a".into(), "b".into()]);
    assert_eq!(named.schema().unwrap().names(), ["a", "b"]);
    gap[5] = f32::NAN;
    let error = Dataset::from_rows(50, 2, gap).unwrap().typed_schema(false).unwrap_err();
    assert_eq!(error.to_string(), "`rows in memory`: row 3 has no values");
    let bytes = Dataset::new(25, 2, Values::U8(vec![3; 50].into()), "bytes").unwrap();
    assert!(bytes.typed_schema(false).unwrap().is_some(), "the same numbers, whatever their type");
    assert!(bytes.typed_schema(true).unwrap().is_none(), "unless a preparation is given");
}

fn rows_of(columns: &[(&str, &dyn Fn(usize) -> String)], n: usize) -> String {
    let line = |cells: Vec<String>| cells.join(",") + "\n";
    let header = line(columns.iter().map(|(name, _)| (*name).to_string()).collect());
    header + &(0..n).map(|i| line(columns.iter().map(|(_, cell)| cell(i)).collect())).collect::<String>()
}

/// A column of a given text, beside one of numbers.
fn with(name: &str, n: usize, cell: &dyn Fn(usize) -> String) -> String {
    rows_of(&[("x", &|i| format!("{}.25", noise(i, 100))), (name, cell)], n)
}

#[test]
fn ids_are_kept_and_numbers_are_not() {
    let kept = |name: &str, cell: &dyn Fn(usize) -> String| {
        let table = table(&with(name, 200, cell));
        table.kept.map(|kept| kept.columns[0][1].clone())
    };
    assert!(kept("ID", &|i| (1_000_000 + noise(i, 185) * 7).to_string()).is_some(), "with repeats");
    assert_eq!(kept("index", &|i| (i % 50 + 1).to_string()).unwrap(), "2", "counts four times");
    assert_eq!(kept("", &|i| i.to_string()).unwrap(), "1", "the row numbers of a data frame");
    assert_eq!(
        kept("sample_id", &|i| format!("{:020}", i + 7)).unwrap(),
        "00000000000000000008",
        "every digit"
    );
    assert_eq!(kept("code", &|i| format!("AB{i}")).unwrap(), "AB1");
    assert_eq!(kept("weight", &|i| format!("{}.5", i * 3)), None, "floats that all differ are numbers");
    assert_eq!(kept("weight", &|i| (i * 3).to_string()), None);
    assert_eq!(kept("index", &|i| noise(i, 9).to_string()), None, "a score");
    assert_eq!(kept("comment", &|i| format!("\"seen at {i}, then gone\"")).unwrap(), "seen at 1, then gone");
}

#[test]
fn codes_with_leading_zeros_are_no_numbers() {
    let codes = table(&with("post", 200, &|i| format!("0{}", 1000 + noise(i, 4))));
    assert_eq!(column(&codes, "post").1.levels, ["01000", "01001", "01002", "01003"]);
    let numbers = table(&with("post", 200, &|i| format!("0{}.5", noise(i, 400))));
    assert_eq!(column(&numbers, "post").1.kind, ColumnType::Number);
}

#[test]
fn rare_levels_become_one_and_are_written_as_they_were() {
    let word =
        |i: usize| if i % 40 == 7 { format!("rare {}", i / 40) } else { ["a", "b"][noise(i, 2)].to_string() };
    let table = table(&with("kind", 400, &word));
    let (_, kind) = column(&table, "kind");
    assert_eq!(kind.levels, ["a", "b", "(other)"]);
    assert_eq!(table.pooled.len(), 10);
    assert_eq!(cells(&table, "kind")[47], 2.0);
    assert!(written(&table).contains(",rare 1\n") && !written(&table).contains("other"));
    assert!(table.description.unwrap().contains("kind (3 levels, rare ones as one)"));
    // In a small table nothing would be left; a single rare level gains nothing by another name.
    let few = crate::table(&with("kind", 40, &|i| ["a", "b", "c", "d", "e"][i % 5].to_string()));
    assert_eq!(column(&few, "kind").1.levels.len(), 5);
    let single = |i: usize| if i == 7 { "c" } else { ["a", "b"][noise(i, 2)] }.to_string();
    assert_eq!(column(&crate::table(&with("kind", 400, &single)), "kind").1.levels, ["a", "b", "c"]);
}

#[test]
fn given_types_are_used() {
    let text = people();
    let given = options(|o| {
        o.types = vec![
            spec("grade", "ordered"),
            spec("town", "ordered: York < Bath < Leeds"),
            spec("visits", "category"),
            spec("visits", "number"),
            spec("height", "keep"),
        ];
        o.keep = vec!["income".to_string()];
    });
    let table = table_with(&text, &given);
    assert_eq!(column(&table, "grade").1.levels, ["1", "2", "3", "4", "5"]);
    assert_eq!(column(&table, "town").1.levels, ["York", "Bath", "Leeds"]);
    assert_eq!(column(&table, "visits").1.kind, ColumnType::Number, "the last one counts");
    let kept = table.kept.as_ref().unwrap();
    assert_eq!(kept.names, ["id", "name", "height", "income"]);
    assert_eq!(kept.columns[2][3], "NA", "as it was");
    let levels = options(|o| o.types = vec![spec("grade", "category")]);
    assert_eq!(column(&table_with(&text, &levels), "grade").1.kind, ColumnType::Category);
}

#[test]
fn other_words_can_be_missing() {
    let cell = |i: usize| if i % 10 == 3 { "-999".into() } else { format!("{}.5", noise(i, 50)) };
    let text = with("depth", 60, &cell);
    assert!(cells(&table(&text), "depth")[3] == -999.0);
    let given = options(|o| o.missing = vec!["-999".to_string()]);
    let table = table_with(&text, &given);
    assert!(cells(&table, "depth")[3].is_nan());
    assert!(table.description.as_ref().unwrap().ends_with("6 cells are missing, all in depth"));
    assert_eq!(schema(&table).missing, ["-999"]);
    let usual = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?", ".", "-"];
    let text = with("depth", 60, &|i| usual.get(i).map_or(format!("{i}.5"), |word| (*word).to_string()));
    assert_eq!(cells(&crate::table(&text), "depth").iter().filter(|x| x.is_nan()).count(), usual.len());
}

#[test]
fn a_first_line_of_data_is_no_header() {
    let iris =
        "5.1,3.5,setosa\n4.9,3.0,setosa\n7.0,3.2,other\n6.4,3.1,other\n5.0,3.3,setosa\n6.9,2.9,other\n";
    let bare = table(iris);
    assert_eq!(bare.data.n_rows(), 6);
    assert_eq!(bare.data.column_names(), None);
    assert_eq!(schema(&bare).names(), ["column_1", "column_2", "column_3"]);
    // Names may be numbers, such as years.
    let years = table("town,2019,2020\nBath,3.5,4\nYork,2.5,1\nBath,7.5,2\n");
    assert_eq!(years.data.n_rows(), 3);
    assert_eq!(table("1.5,NA\n2.5,7\n3.5,8\n").data.n_rows(), 3, "a gap is no name");
}

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
    let unnamed = crate::table(&bare(60));
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

#[test]
fn data_frames_say_what_their_columns_are() {
    let truth: Vec<Option<bool>> = (0..30).map(|i| (i != 4).then_some(i % 3 == 0)).collect();
    let codes = (0..30u32).map(|i| (i != 5).then_some(i % 3));
    let sizes = vec!["small".to_string(), "medium".to_string(), "large".to_string()];
    let coded = Coded::new(sizes.clone(), codes).unwrap();
    let columns = vec![
        RawColumn { name: "alive".into(), cells: RawCells::Truth(truth) },
        RawColumn {
            name: "size".into(),
            cells: RawCells::Categories { coded: coded.clone(), ordered: true },
        },
        RawColumn { name: "colour".into(), cells: RawCells::Categories { coded, ordered: false } },
        RawColumn::words("note", (0..30).map(|i| Some(if i % 2 == 0 { "on" } else { "off" }))),
        RawColumn::numbers("x", (0..30).map(f64::from).collect()),
    ];
    let table = Table::from_columns(columns, &ReadOptions::default(), "frame").unwrap();
    let types: Vec<ColumnType> = kinds(&table).into_iter().map(|(_, kind)| kind).collect();
    use ColumnType::{Category, Number, Ordered, YesNo};
    assert_eq!(types, [YesNo, Ordered, Category, YesNo, Number]);
    assert_eq!(column(&table, "size").1.levels, sizes);
    assert_eq!(cells(&table, "alive")[..2], [1.0, 0.0]);
    assert_eq!(written(&table).lines().nth(1).unwrap(), "true,small,small,on,0");
    assert_eq!(written(&table).lines().nth(5).unwrap(), ",medium,medium,on,4");
    assert!(Coded::new(sizes, [Some(3)]).is_err());
    let uneven = vec![RawColumn::numbers("a", vec![1.0]), RawColumn::numbers("b", vec![1.0, 2.0])];
    let error = Table::from_columns(uneven, &ReadOptions::default(), "frame").unwrap_err().to_string();
    assert_eq!(error, "`frame`: column `b` has 2 cells, the first column 1");
}

#[test]
fn stray_words_among_numbers_are_named_with_their_rows() {
    let cell = |i: usize| match i {
        4 | 30 => "tall".to_string(),
        11 => "?!".to_string(),
        _ => noise(i, 90).to_string(),
    };
    let text = with("height", 60, &cell);
    let (message, hint) = refusal(&text, &ReadOptions::default());
    assert_eq!(
        message,
        "column `height` holds numbers, but 3 of its 60 cells are words: `tall` in rows 5 and 31, `?!` in row 12"
    );
    assert_eq!(
        hint,
        "correct those cells; `missing = \"tall,?!\"` takes them as missing; `type = \"height=category\"` takes the \
         whole column as categories"
    );
    let given = options(|o| o.missing = vec!["tall".into(), "?!".into()]);
    assert_eq!(cells(&table_with(&text, &given), "height").iter().filter(|x| x.is_nan()).count(), 3);
    let given = options(|o| o.types = vec![spec("height", "category")]);
    assert!(column(&table_with(&text, &given), "height").1.levels.contains(&"tall".to_string()));
    let (message, _) = refusal(
        &with("height", 60, &|i| if i == 2 { "inf".into() } else { i.to_string() }),
        &ReadOptions::default(),
    );
    assert!(message.contains("`inf` in row 3"), "{message}");
}

#[test]
fn numbers_in_other_forms_are_named() {
    let thousands = with("mass", 40, &|i| format!("\"{},{:03}\"", 1 + i, noise(i, 1000)));
    let (message, hint) = refusal(&thousands, &ReadOptions::default());
    assert_eq!(message, "column `mass` has numbers with thousands separators, such as `1,000` in row 1");
    assert!(hint.contains("only digits and a decimal point"), "{hint}");
    let commas = with("mass", 40, &|i| format!("{},{:02}", 1 + i, noise(i, 100))).replace(",mass", ";mass");
    let commas: String =
        commas.lines().map(|line| line.replacen(',', ";", usize::from(!line.contains(';'))) + "\n").collect();
    let (message, hint) = refusal(&commas, &ReadOptions::default());
    assert!(message.starts_with("column `mass` has numbers with a decimal comma, such as `1,"), "{message}");
    assert!(hint.contains("a decimal point, as in 3.14"), "{hint}");
}

#[test]
fn empty_rows_and_columns() {
    let text = with("note", 40, &|_| String::new()) + ",\n,\n";
    let (message, hint) = refusal(&text, &ReadOptions::default());
    assert_eq!(message, "2 rows have no values; the first is row 41");
    assert!(hint.contains("spreadsheets"), "{hint}");
    let table = table(&with("note", 40, &|_| String::new()));
    assert!(table.description.as_ref().unwrap().ends_with("left out: note (no values)"));
    assert_eq!(kinds(&table), [("x".to_string(), ColumnType::Number)]);
    let (message, _) = refusal("a,b\n1,x\n1,x\n1,x\n", &ReadOptions::default());
    assert_eq!(message, "there is nothing to cluster; left out: a (always 1), b (always x)");
}

#[test]
fn too_many_levels() {
    let text = with("city", 2000, &|i| format!("city {}", noise(i, 500)));
    let table = table(&text);
    let kept = table.kept.as_ref().unwrap();
    assert_eq!(kept.names, ["city"]);
    let description = table.description.as_ref().unwrap();
    assert!(description.contains("different values, more than 255 levels"), "{description}");
    let given = options(|o| o.types = vec![spec("city", "category")]);
    let (message, hint) = refusal(&with("city", 100_000, &|i| format!("city {i}")), &given);
    assert_eq!(
        message,
        "column `city` cannot be of type category: it has 100000 different values, all of them rare; at most 255 are \
         possible"
    );
    assert!(hint.contains("keep_columns = \"city\""), "{hint}");
}

#[test]
fn wrong_types_are_refused() {
    let refused = |name: &str, kind: &str, cell: &dyn Fn(usize) -> String| {
        refusal(&with(name, 40, cell), &options(|o| o.types = vec![spec(name, kind)])).0
    };
    let number = |i: usize| format!("{}.5", i + 2);
    assert_eq!(
        refused("n", "count", &number),
        "column `n` cannot be of type count: counts are whole numbers from 0 on, but it is 2.5 in rows 1, 2, 3 and 37 more"
    );
    let negative = |i: usize| (i as i64 - 1).to_string();
    assert!(refused("n", "count", &negative).ends_with("but it is -1 in row 1"));
    assert!(refused("n", "positive", &negative).contains("never negative, but it is -1 in row 1"));
    assert!(refused("n", "yes/no", &number).contains("it has 40 different values"));
    assert!(refused("n", "date", &number).contains("dates are written like 2024-12-31"));
    assert!(
        refused("n", "number", &|i| format!("w{i}"))
            .contains("holds number as asked, but 40 of its 40 cells are words")
    );
    let size = |i: usize| ["small", "large"][i % 2].to_string();
    let given = options(|o| o.types = vec![spec("n", "ordered")]);
    let (message, hint) = refusal(&with("n", 40, &size), &given);
    assert_eq!(message, "column `n` cannot be of type ordered: the order of its levels is not known");
    assert!(hint.contains("n=ordered: large < small"), "{hint}");
    assert!(refused("n", "ordered: small < medium", &size).contains("but it is `large` in row 2"));
}

#[test]
fn unknown_and_double_names() {
    let text = with("mass", 40, &|i| i.to_string());
    let (message, _) = refusal(&text, &options(|o| o.types = vec![spec("mas", "count")]));
    assert_eq!(message, "`type` is `mas=count`, but no column is named `mas`; the columns are `x`, `mass`");
    let (message, _) = refusal(&text, &options(|o| o.keep = vec!["ID".into()]));
    assert_eq!(message, "`keep-columns` is `ID`, but no column is named `ID`; the columns are `x`, `mass`");
    let (message, _) = refusal(&text.replacen("mass", "x", 1), &ReadOptions::default());
    assert_eq!(message, "two columns are named `x`");
}

#[test]
fn dates_and_time_zones() {
    let stamp = |zone: fn(usize) -> &'static str| {
        move |i: usize| format!("2024-03-{:02}T{:02}:30:00{}", 1 + i % 28, i % 24, zone(i))
    };
    let table_of = |cell: &dyn Fn(usize) -> String| table(&with("seen", 60, cell));
    let plain = table_of(&stamp(|_| ""));
    assert_eq!(written(&plain).lines().nth(2).unwrap().split(',').nth(1).unwrap(), "2024-03-02T01:30:00");
    let zoned = table_of(&stamp(|_| "+02:00"));
    assert_eq!(
        written(&zoned).lines().nth(2).unwrap().split(',').nth(1).unwrap(),
        "2024-03-02T01:30:00+02:00"
    );
    // Summer time: instants are the same in any zone, so they are written in UTC.
    let mixed = table_of(&stamp(|i| if i % 2 == 0 { "+01:00" } else { "+02:00" }));
    assert_eq!(written(&mixed).lines().nth(2).unwrap().split(',').nth(1).unwrap(), "2024-03-01T23:30:00Z");
    let (message, _) =
        refusal(&with("seen", 60, &stamp(|i| if i == 5 { "Z" } else { "" })), &ReadOptions::default());
    assert_eq!(
        message,
        "column `seen` mixes timestamps with a time zone (`2024-03-06T05:30:00Z` in row 6) and without one \
         (`2024-03-01T00:30:00` in row 1)"
    );
    let never =
        table_of(&|i| if i == 3 { "9999-12-31".into() } else { format!("2024-03-{:02}", 1 + i % 28) });
    assert!(cells(&never, "seen")[3].is_nan());
    assert_eq!(
        never.notes,
        ["1 date of `seen`, such as 9999-12-31, is outside of the years 1000 to 3000: taken as missing"]
    );
    let (message, _) = refusal(
        &with("seen", 60, &|i| {
            if i == 3 { "2024-02-30".into() } else { format!("2024-03-{:02}", 1 + i % 28) }
        }),
        &ReadOptions::default(),
    );
    assert_eq!(message, "column `seen` holds dates, but 1 of its 60 cells is a word: `2024-02-30` in row 4");
    let other = table_of(&|i| format!("{}/12/2023", 1 + i % 28));
    assert!(
        other.description.unwrap().ends_with("left out: seen (dates that are not written like 2024-12-31)")
    );
}
