//! Formats that are recognised, but not read: what to do with such a file.

/// What a file is, and what to do with it.
type Advice = (&'static str, &'static str);

const SPREADSHEET: &str = "save the sheet as CSV, in Excel as \"CSV UTF-8\"";
const UTF_16: Advice = ("this is text in UTF-16", "save it as UTF-8");
const HDF5: Advice = (
    "this is an HDF5 file (MATLAB v7.3, .h5ad), which is not read here",
    "in MATLAB, save it with `save('data.mat', 'x', '-v7')`; `pervade.anndata` in Python takes what anndata reads from an .h5ad file; other \
     arrays can be saved as .npy with h5py",
);
const STATISTICS: &str = "save the table as CSV, or from Python as Parquet: `pandas` reads such files";
const PACKED: &str = "unpack it, or pack it by gzip";

/// How files begin.
const STARTS: [(&[u8], Advice); 19] = [
    (b"\x89HDF", HDF5),
    (b"MATLAB 7.3", HDF5),
    (b"\xff\xfe", UTF_16),
    (b"\xfe\xff", UTF_16),
    (b"\x1f\x8b", ("the file is packed by gzip twice", "unpack it once")),
    (b"BZh", ("the file is packed by bzip2", PACKED)),
    (b"\xfd7zXZ", ("the file is packed by xz", PACKED)),
    (b"\x28\xb5\x2f\xfd", ("the file is packed by Zstandard", PACKED)),
    (b"7z\xbc\xaf", ("this is a 7-Zip archive", "unpack it")),
    (
        b"\xd0\xcf\x11\xe0",
        ("this is a file of Excel or another Office program, which is not read here", SPREADSHEET),
    ),
    (b"ARROW1", ("this is an Arrow (Feather) file, which is not read here", "save it as Parquet")),
    (b"ORC", ("this is an ORC file, which is not read here", "save it as Parquet")),
    (b"Obj\x01", ("this is an Avro file, which is not read here", "save it as Parquet")),
    (b"SQLite format 3", ("this is an SQLite database, which is not read here", "save the table as CSV")),
    (b"$FL2", ("this is an SPSS file, which is not read here", STATISTICS)),
    (b"$FL3", ("this is an SPSS file, which is not read here", STATISTICS)),
    (b"<stata_dta>", ("this is a Stata file, which is not read here", STATISTICS)),
    (b"RDX", R),
    (b"X\n\0\0", R),
];
const R: Advice = (
    "this is an R file, which is not read here",
    "save the table from R with `write.csv(x, \"table.csv\", row.names = FALSE)`",
);

/// What a file is that starts with these bytes, if it must be converted first.
pub(super) fn advice(head: &[u8], extension: &str) -> Option<Advice> {
    // Letters could begin a text, too.
    let is_it = |start: &[u8]| head.starts_with(start) && !(start.is_ascii() && is_text(head));
    let known = STARTS.iter().find(|(start, _)| is_it(start));
    if let Some((_, advice)) = known {
        return Some(*advice);
    }
    if is_image(head) {
        return Some(("this is a single image", "give the folder of images"));
    }
    if is_json(head) {
        return Some(("this is JSON, which is not read here", "save the table as CSV or Parquet"));
    }
    let first = first_in_zip(head).filter(|name| !name.ends_with(b".npy") && extension != "npz")?;
    let is_office =
        [&b"[Content_Types]"[..], b"_rels/", b"docProps/", b"xl/"].iter().any(|s| first.starts_with(s));
    Some(if is_office {
        ("this is a file of Excel or another Office program, which is not read here", SPREADSHEET)
    } else if first == b"mimetype" {
        ("this is an OpenDocument file, which is not read here", "save the sheet as CSV")
    } else {
        ("this is a zip archive, but not one of arrays (.npz)", "unpack it, and give the table inside")
    })
}

/// Whether the bytes start like a PNG, JPEG, BMP or PGM/PPM file.
fn is_image(head: &[u8]) -> bool {
    // "BM" and "P5" could start a text, so a byte that text cannot have must follow.
    let netpbm = matches!(head, [b'P', b'2' | b'3' | b'5' | b'6', b' ' | b'\n' | b'\r' | b'\t', ..]);
    head.starts_with(b"\x89PNG\r\n")
        || head.starts_with(b"\xff\xd8\xff")
        || netpbm
        || (head.starts_with(b"BM") && head.contains(&0))
}

/// Text has no control characters except those that end lines and cells, whatever its encoding.
pub(super) fn is_text(head: &[u8]) -> bool {
    !head.iter().any(|b| b.is_ascii_control() && !b"\t\n\r\x0c".contains(b))
}

/// Whether the first two characters are those of an object or a list.
fn is_json(head: &[u8]) -> bool {
    let mut characters = head.iter().filter(|b| !b.is_ascii_whitespace());
    match (characters.next(), characters.next()) {
        (Some(b'{'), Some(second)) => b"\"}".contains(second),
        (Some(b'['), Some(second)) => b"[{\"".contains(second) || second.is_ascii_digit(),
        _ => false,
    }
}

/// The name of the first file in a zip archive.
fn first_in_zip(head: &[u8]) -> Option<&[u8]> {
    let name_length = head.starts_with(b"PK\x03\x04").then(|| head.get(26..28))??;
    head.get(30..)?.get(..usize::from(u16::from_le_bytes([name_length[0], name_length[1]])))
}
