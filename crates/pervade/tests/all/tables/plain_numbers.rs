//! Tables of numbers that share one type, and arrays.

use super::*;

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

/// New rows that need no change are read in place: the checksum of the same file is that of the fit.
#[test]
fn arrays_of_a_fit_are_read_again_as_they_are() {
    let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    bytes
        .extend(format!("{:<117}\n", "{'descr': '<f4', 'fortran_order': False, 'shape': (40, 2), }").bytes());
    let cells: Vec<f32> = (0..40).flat_map(|i| [noise(i, 50) as f32 / 7.0, (i % 2) as f32]).collect();
    bytes.extend(cells.iter().flat_map(|x| x.to_le_bytes()));
    let fitted = read_bytes(&bytes, "npy", &ReadOptions::default()).unwrap().data;
    let schema = fitted.typed_schema(false).unwrap();
    assert_eq!(schema.as_ref().map(|schema| schema.columns[1].kind), Some(ColumnType::YesNo));
    let given = options(|o| o.schema = schema.clone());
    assert_eq!(read_bytes(&bytes, "npy", &given).unwrap().data.checksum(), fitted.checksum());
    // A level that the fit did not have is missing.
    let at = bytes.len() - 4;
    bytes[at..].copy_from_slice(&2.0f32.to_le_bytes());
    let changed = read_bytes(&bytes, "npy", &given).unwrap();
    assert!(changed.data.cell(39, 1).is_nan() && changed.notes[0].contains("1 cell"), "{:?}", changed.notes);
}
