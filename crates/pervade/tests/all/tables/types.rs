//! Types of columns as they are inferred, given and written.

use super::*;

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
    let few = super::table(&with("kind", 40, &|i| ["a", "b", "c", "d", "e"][i % 5].to_string()));
    assert_eq!(column(&few, "kind").1.levels.len(), 5);
    let single = |i: usize| if i == 7 { "c" } else { ["a", "b"][noise(i, 2)] }.to_string();
    assert_eq!(column(&super::table(&with("kind", 400, &single)), "kind").1.levels, ["a", "b", "c"]);
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
    assert_eq!(cells(&super::table(&text), "depth").iter().filter(|x| x.is_nan()).count(), usual.len());
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
