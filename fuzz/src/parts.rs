//! Tables in several files, and files in pieces.

use std::fs;
use std::path::Path;

use pervade::data::{Parts, Pieces, ReadOptions, Table, read};

use super::{divided, scratch};

/// A folder of parts. The first byte selects their format, and whether the last column has labels.
pub fn read_parts(bytes: &[u8]) {
    const ENDINGS: [&str; 5] = ["csv", "parquet", "npy", "tsv", "csv.gz"];
    let Some((&first, content)) = bytes.split_first() else { return };
    let ending = ENDINGS[usize::from(first & 0x7f) % ENDINGS.len()];
    let root = scratch("parts");
    fs::remove_dir_all(&root).unwrap();
    fs::create_dir_all(&root).unwrap();
    for (i, file) in divided(content, 4).into_iter().enumerate() {
        fs::write(root.join(format!("part-{i}.{ending}")), file).unwrap();
    }
    let labels = if first & 0x80 == 0 { None } else { Some("column:last".parse().unwrap()) };
    let options = ReadOptions::default().with(|options| options.labels = labels);
    let whole = read(&root, &options);
    let _ = read(&root.join("part-*"), &options);
    let Ok(Some(parts)) = Parts::find(&root) else { return };
    if let Ok(Some(spool)) = parts.spool(&options) {
        let n_rows = spool.n_rows();
        if let Ok(copied) = spool.write(&root, |_| ()) {
            assert_eq!(copied.data.n_rows(), n_rows, "all rows are copied");
            if let Ok(whole) = &whole {
                assert_same(whole, &copied);
            }
        }
    }
    let schema = whole.ok().and_then(|table| table.data.schema().cloned());
    for file in parts.files() {
        read_pieces(file, &options);
        let of_whole = options.clone().with(|o| (o.schema, o.original) = (schema.clone(), true));
        read_pieces(file, &of_whole);
    }
}

/// Reads a file in pieces, twice, and as two halves: the rows are those of the whole.
fn read_pieces(file: &Path, options: &ReadOptions) {
    let Ok(mut pieces) = Pieces::open(file, options) else { return };
    let counted = pieces.count_rows();
    let Some(n) = rows_of(&mut pieces) else { return };
    assert_eq!(counted.unwrap(), n, "the rows that were counted are read");
    assert!(pieces.rewind().is_ok() && rows_of(&mut pieces) == Some(n), "a second time");
    if let Ok(whole) = read(file, options) {
        assert_eq!(whole.data.n_rows(), n, "the rows of the whole");
    }
    let half = |i: usize| Pieces::open(file, options).and_then(|pieces| pieces.share(i, 2));
    if let (Ok(mut first), Ok(mut second)) = (half(0), half(1))
        && let (Some(a), Some(b)) = (rows_of(&mut first), rows_of(&mut second))
    {
        assert_eq!(a + b, n, "two halves");
    }
}

fn rows_of(pieces: &mut Pieces) -> Option<usize> {
    let mut n = 0;
    while let Some(piece) = pieces.next_piece().ok()? {
        n += piece.data.n_rows();
    }
    Some(n)
}

/// Panics unless two tables have the same cells.
fn assert_same(a: &Table, b: &Table) {
    assert_eq!((a.data.n_rows(), a.data.n_columns()), (b.data.n_rows(), b.data.n_columns()));
    for i in 0..a.data.n_rows().min(1000) {
        for j in 0..a.data.n_columns().min(100) {
            let (a, b) = (a.data.cell(i, j), b.data.cell(i, j));
            assert!(
                a.to_bits() == b.to_bits() || a == b || a.is_nan() && b.is_nan(),
                "{a} and {b} at {i}, {j}"
            );
        }
    }
}
