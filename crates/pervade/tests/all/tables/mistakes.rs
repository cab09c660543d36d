//! Tables that cannot be read as they are, and what is said about them.

use super::*;

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
         whole column as categories; `keep_columns = \"height\"` leaves it out"
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

/// In a table of a few rows, one word is a large share of the cells.
#[test]
fn stray_words_are_named_in_short_tables_too() {
    for (text, wanted) in [
        (
            "a,b\n2,1\nx,5\n5,2\n7,9\n",
            "column `a` holds numbers, but 1 of its 4 cells is a word: `x` in row 2",
        ),
        ("a,b\n2,1\nx,5\n5,2\n", "column `a` holds numbers, but 1 of its 3 cells is a word: `x` in row 2"),
        (
            "a,b\n2024-01-02,1\n2024-01-05,5\nsoon,2\n2024-02-01,9\n",
            "column `a` holds dates, but 1 of its 4 cells is a word: `soon` in row 3",
        ),
    ] {
        let (message, hint) = refusal(text, &ReadOptions::default());
        assert_eq!(message, wanted);
        assert!(hint.contains("takes them as missing") && hint.contains("as categories"), "{hint}");
    }
    // Words that are no exception, and names of ids.
    for text in ["a,b\n2,1\nx,5\ny,2\n7,9\n", "order_id,b\n2,1\nA17,5\n5,2\n7,9\n"] {
        assert!(table(text).kept.is_some_and(|kept| kept.names.len() == 1), "{text}");
    }
    let given = options(|o| o.missing = vec!["x".into()]);
    assert!(cells(&table_with("a,b\n2,1\nx,5\n5,2\n7,9\n", &given), "a")[1].is_nan());
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
    assert!(
        hint.contains("a decimal point, as in 3.14") && hint.starts_with("`decimal_comma` reads"),
        "{hint}"
    );
}

/// As Excel in Western Europe writes CSV.
#[test]
fn texts_that_are_not_utf8_are_read_as_windows_1252() {
    let text = with("gr\u{f6}\u{df}e", 40, &|i| ["M\u{fc}nchen", "K\u{f6}ln"][noise(i, 2)].to_string());
    let bytes: Vec<u8> = text.chars().map(|c| u8::try_from(c).unwrap()).collect();
    let read = read_bytes(&bytes, "csv", &ReadOptions::default()).unwrap();
    assert_eq!(written(&read), written(&table(&text)));
    assert_eq!(read.notes, ["the text is not UTF-8: it is read as Windows-1252 (Western Europe)"]);
    assert!(table(&text).notes.is_empty());
}

#[test]
fn decimal_commas_are_read_if_asked_for() {
    let rows = |number: &dyn Fn(f64) -> String| {
        let row = |i: usize| {
            let x = 1000.5 + noise(i, 9000) as f64 / 8.0;
            format!("{};{};2024-03-{:02}\n", number(x), number(0.5 - 0.25 * (i % 7) as f64), 1 + i % 28)
        };
        "mass;change;seen\n".to_string() + &(0..60).map(row).collect::<String>()
    };
    let points = rows(&|x| format!("{x:.3}"));
    let european = |x: f64| {
        let (whole, fraction) = (x.abs() as u64, (x.abs().fract() * 1000.0).round() as u64);
        let sign = if x < 0.0 { "-" } else { "" };
        let whole =
            if whole < 1000 { whole.to_string() } else { format!("{}.{:03}", whole / 1000, whole % 1000) };
        format!("{sign}{whole},{fraction:03}")
    };
    let (text, given) = (rows(&european), options(|o| o.decimal_comma = true));
    assert!(text.contains("\n1.") && text.contains(";-0,"), "{text}");
    let (plain, read) = (table(&points), table_with(&text, &given));
    assert_eq!(written(&plain), written(&read));
    assert_eq!(plain.description, read.description);
    // New rows are refused by the same message, and read in the same way.
    let schema = schema(&plain).clone();
    let new = options(|o| o.schema = Some(schema.clone()));
    assert!(
        refusal(&text, &new).0.starts_with("column `mass` has numbers with a decimal comma, such as `1.")
    );
    assert_eq!(written(&table_with(&text, &new.with(|o| o.decimal_comma = true))), written(&plain));
    let (message, hint) = refusal("a;b\n1,5;2\n1.234;3\n", &given);
    assert_eq!(message, "line 3 has `1.234`, which has a decimal point and no comma");
    assert!(hint.starts_with("`decimal_comma` is for tables"), "{hint}");
    let error = read_bytes(b"\x93NUMPY\x01\0", "npy", &given).expect_err("not a text");
    assert!(error.to_string().contains("possible in text tables only"), "{error}");
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
    // Spreadsheets may write more separators than there are columns.
    let row = |i: usize| format!("{},{},\n", noise(i, 50), noise(i, 9));
    let trailing = "a,,\n".to_string() + &(0..40).map(row).collect::<String>();
    let read = table_with(&trailing, &ReadOptions::default());
    assert_eq!(kinds(&read).iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["a", "Unnamed: 1"]);
    assert!(read.description.unwrap().ends_with("left out: Unnamed: 2 (no values)"));
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
    let recorded = table_of(&|i| format!("2024-03-01T00:{i:02}:00"));
    assert!(recorded.notes[0].starts_with("`seen` goes up from row to row"), "{:?}", recorded.notes);
    let other = table_of(&|i| format!("{}/12/2023", 1 + i % 28));
    assert!(
        other.description.unwrap().ends_with("left out: seen (dates that are not written like 2024-12-31)")
    );
}
