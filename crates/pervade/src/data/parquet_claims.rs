//! Checks what a Parquet file claims about itself before its decoder sees it. Footer and page headers use Thrift's
//! compact protocol, and the decoder trusts their counts: a damaged kilobyte keeps it busy for seconds, or makes it
//! allocate gigabytes.

use parquet::basic::Type;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};

use super::parquet_shapes::{FILE, PAGE, Shape};

/// Bytes at the end of the file: the length of the footer and `PAR1`.
const TAIL: usize = 8;
/// Maximum nesting of structs; Parquet's own nest only a few levels.
const MAX_DEPTH: usize = 64;
/// Writers make pages of a megabyte. A page that claims more than this many bytes must have at least one byte in the
/// file for every [`MAX_COMPRESSION`] of them.
const LARGE_PAGE: u64 = 64 << 20;
const MAX_COMPRESSION: u64 = 1 << 11;

/// Whether the footer has fields of the wrong type, or a list that claims more elements than there are bytes left.
/// Other damage is left to the decoder.
pub(super) fn has_invalid_footer(file: &[u8]) -> bool {
    let footer = || -> Option<&[u8]> {
        let end = file.len().checked_sub(TAIL)?;
        let length = u32::from_le_bytes(file.get(end..end + 4)?.try_into().ok()?) as usize;
        file.get(end.checked_sub(length)?..end)
    };
    footer().is_some_and(|left| matches!(Walk { left }.fields(FILE, &mut |_, _| {}, 0), Err(Stop::Lie)))
}

/// Whether the numbers of rows in the footer contradict each other. The decoder trusts the one and reserves memory by the
/// other.
pub(super) fn has_invalid_counts(metadata: &ParquetMetaData) -> bool {
    let groups = metadata.row_groups();
    let is_wrong = |group: &RowGroupMetaData| {
        // A column without lists has one value per row, missing ones included.
        let mut flat = group.columns().iter().filter(|column| column.column_descr().max_rep_level() == 0);
        group.num_rows() < 0 || flat.any(|column| column.num_values() != group.num_rows())
    };
    let total = groups.iter().try_fold(0i64, |total, group| total.checked_add(group.num_rows()));
    groups.iter().any(is_wrong) || total != Some(metadata.file_metadata().num_rows())
}

/// Whether a page claims to hold more than it can.
pub(super) fn has_invalid_page(file: &[u8], metadata: &ParquetMetaData) -> bool {
    metadata.row_groups().iter().flat_map(|group| group.columns()).any(|column| {
        pages(file, column)
            .is_some_and(|left| Walk { left }.has_invalid_page(min_width(column.column_type())))
    })
}

/// The bytes of a column's pages in a row group.
fn pages<'f>(file: &'f [u8], column: &ColumnChunkMetaData) -> Option<&'f [u8]> {
    let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
    let start = usize::try_from(start).ok()?;
    let length = usize::try_from(column.compressed_size()).ok()?;
    file.get(start..start.checked_add(length)?.min(file.len()))
}

/// Minimum size in bytes of a dictionary value.
fn min_width(kind: Type) -> u64 {
    match kind {
        Type::BOOLEAN | Type::FIXED_LEN_BYTE_ARRAY => 1,
        Type::INT32 | Type::FLOAT | Type::BYTE_ARRAY => 4,
        Type::INT64 | Type::DOUBLE => 8,
        Type::INT96 => 12,
    }
}

/// The header of a page: its bytes in memory and in the file, and the number of dictionary values.
#[derive(Default)]
struct Page {
    uncompressed: u64,
    compressed: u64,
    n_dictionary: u64,
}

/// Why a walk stopped early.
#[derive(Debug, PartialEq)]
enum Stop {
    /// More is claimed than can be there, or the encoding is one that no writer uses and the decoder might misread.
    Lie,
    /// There are no bytes left.
    End,
}

/// The remaining bytes of a footer or of pages.
struct Walk<'b> {
    left: &'b [u8],
}

/// Called with a count and the numbers of the fields that lead to it.
type Visit<'v> = &'v mut dyn FnMut([u64; 2], u64);

impl Walk<'_> {
    fn skip(&mut self, n: usize) -> Result<(), Stop> {
        self.left = self.left.get(n..).ok_or(Stop::End)?;
        Ok(())
    }

    fn byte(&mut self) -> Result<u8, Stop> {
        let byte = *self.left.first().ok_or(Stop::End)?;
        self.skip(1)?;
        Ok(byte)
    }

    fn varint(&mut self) -> Result<u64, Stop> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Stop::Lie)
    }

    /// Walks the fields of a struct up to its end; calls `visit` for each 32-bit number in it and in nested structs.
    fn fields(&mut self, shapes: &[(u64, Shape)], visit: Visit<'_>, depth: usize) -> Result<(), Stop> {
        let mut last = 0;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Ok(());
            }
            let (step, kind) = (u64::from(head >> 4), head & 0x0f);
            // A field number too far from the previous one is stored separately, in zigzag encoding.
            last = if step == 0 { self.varint()? / 2 } else { last + step };
            match shapes.iter().find(|(number, _)| *number == last) {
                Some((_, shape)) if shape.is_kind(kind) => self.field(last, *shape, visit, depth)?,
                Some(_) => return Err(Stop::Lie),
                // Fields added by newer writers are skipped according to their type.
                None if matches!(kind, 1 | 2) => {}
                None => self.unknown(kind, depth)?,
            }
        }
    }

    fn field(&mut self, number: u64, shape: Shape, visit: Visit<'_>, depth: usize) -> Result<(), Stop> {
        match shape {
            Shape::Bool => Ok(()), // in the field header itself
            Shape::I8 => self.skip(1),
            Shape::I32 => {
                let zigzag = self.varint()?;
                // The decoder would truncate a larger number to 32 bits.
                if zigzag > u64::from(u32::MAX) {
                    return Err(Stop::Lie);
                }
                // Negative counts are left to the decoder.
                visit([number, 0], if zigzag % 2 == 0 { zigzag / 2 } else { 0 });
                Ok(())
            }
            Shape::I16 | Shape::I64 => self.varint().map(drop),
            Shape::Double => self.skip(8),
            Shape::Binary => {
                let length = self.varint()?;
                self.skip(usize::try_from(length).map_err(|_| Stop::End)?)
            }
            Shape::List(element) => self.list(*element, depth),
            Shape::Struct(shapes) => {
                self.fields(shapes, &mut |path, count| visit([number, path[0]], count), depth + 1)
            }
        }
    }

    /// The length of a list, whose elements take at least one byte each, and their type.
    fn list_head(&mut self) -> Result<(u64, u8), Stop> {
        let head = self.byte()?;
        let count = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
        if count > self.left.len() as u64 { Err(Stop::Lie) } else { Ok((count, head & 0x0f)) }
    }

    fn list(&mut self, element: Shape, depth: usize) -> Result<(), Stop> {
        let (count, kind) = self.list_head()?;
        if count > 0 && !element.is_kind(kind) {
            return Err(Stop::Lie);
        }
        (0..count).try_for_each(|_| self.field(0, element, &mut |_, _| {}, depth + 1))
    }

    /// Skips a value of an unknown field. Lists of booleans take no bytes for the decoder, whatever their length;
    /// Parquet does not use sets and maps.
    fn unknown(&mut self, kind: u8, depth: usize) -> Result<(), Stop> {
        let shape = match kind {
            3 => Shape::I8,
            4..=6 => Shape::I64,
            7 => Shape::Double,
            8 => Shape::Binary,
            12 if depth < MAX_DEPTH => Shape::Struct(&[]),
            9 if depth < MAX_DEPTH => {
                let (count, kind) = self.list_head()?;
                if count > 0 && matches!(kind, 1 | 2) {
                    return Err(Stop::Lie);
                }
                return (0..count).try_for_each(|_| self.unknown(kind, depth + 1));
            }
            _ => return Err(Stop::Lie),
        };
        self.field(0, shape, &mut |_, _| {}, depth)
    }

    /// Walks the pages, of which only the headers are read.
    fn has_invalid_page(&mut self, min_width: u64) -> bool {
        loop {
            let mut page = Page::default();
            let read = self.fields(
                PAGE,
                &mut |path, count| match path {
                    [2, 0] => page.uncompressed = count,
                    [3, 0] => page.compressed = count,
                    [7, 1] => page.n_dictionary = count,
                    _ => {}
                },
                0,
            );
            if let Err(stop) = read {
                return stop == Stop::Lie;
            }
            let large = page.uncompressed > LARGE_PAGE.max(page.compressed.saturating_mul(MAX_COMPRESSION));
            if large || page.n_dictionary.saturating_mul(min_width) > page.uncompressed {
                return true;
            }
            if self.skip(usize::try_from(page.compressed).unwrap_or(usize::MAX)).is_err() {
                return false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use parquet::file::metadata::ParquetMetaDataReader;

    use super::*;

    fn file(footer: &[u8]) -> Vec<u8> {
        [b"PAR1", footer, &(footer.len() as u32).to_le_bytes(), b"PAR1"].concat()
    }

    #[test]
    fn a_list_longer_than_the_bytes_left_is_rejected() {
        // Field 1: a number; field 2: a list of one empty struct; the end.
        assert!(!has_invalid_footer(&file(&[0x15, 2, 0x19, 0x1c, 0, 0])));
        // Field 1 is a struct; the same list claims 2^31 - 1 elements; the list has numbers.
        assert!(has_invalid_footer(&file(&[0x1c, 0, 0x19, 0x1c, 0, 0])));
        assert!(has_invalid_footer(&file(&[0x15, 2, 0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07, 0, 0])));
        assert!(has_invalid_footer(&file(&[0x15, 2, 0x19, 0x15, 2, 0])));
        // Field 15, which is unknown: a struct with a list of numbers; of booleans; a map.
        assert!(!has_invalid_footer(&file(&[0xfc, 0x19, 0x25, 2, 4, 0, 0])));
        assert!(has_invalid_footer(&file(&[0xfc, 0x19, 0x22, 0, 0])));
        assert!(has_invalid_footer(&file(&[0xfc, 0x1b, 1, 0x55, 2, 2, 0, 0])));
        for cut in [&[][..], &[0x15], &[0x15, 2, 0x19, 0x1c, 0x15]] {
            assert!(!has_invalid_footer(&file(cut)));
        }
        assert!(!has_invalid_footer(b"PAR1") && !has_invalid_footer(&[0xff; 9]));
    }

    #[test]
    fn valid_files_are_accepted() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/readers");
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let files: Vec<_> = files.filter(|path| path.extension().is_some_and(|e| e == "parquet")).collect();
        assert!(files.len() > 2);
        for path in files {
            let bytes = std::fs::read(&path).unwrap();
            let metadata =
                ParquetMetaDataReader::new().parse_and_finish(&bytes::Bytes::from(bytes.clone())).unwrap();
            assert!(
                !has_invalid_footer(&bytes) && !has_invalid_page(&bytes, &metadata),
                "{}",
                path.display()
            );
        }
    }

    /// A dictionary page of `compressed` bytes, then its body.
    fn dictionary(uncompressed: u32, compressed: u32, n_values: u32) -> Vec<u8> {
        let varint = |mut x: u64| {
            let mut bytes = Vec::new();
            while x >= 0x80 {
                bytes.push(x as u8 | 0x80);
                x >>= 7;
            }
            bytes.push(x as u8);
            bytes
        };
        let number = |x: u32| varint(2 * u64::from(x));
        let head = [vec![0x15], number(2), vec![0x15], number(uncompressed), vec![0x15], number(compressed)];
        let inner = [vec![0x4c, 0x15], number(n_values), vec![0x15], number(0), vec![0, 0]];
        let body = vec![7; compressed as usize];
        [head.concat(), inner.concat(), body].concat()
    }

    #[test]
    fn a_dictionary_larger_than_its_page_is_rejected() {
        let is_invalid = |pages: &[u8], width| Walk { left: pages }.has_invalid_page(width);
        assert!(!is_invalid(&dictionary(800, 800, 100), 8));
        assert!(is_invalid(&dictionary(800, 800, 101), 8));
        assert!(is_invalid(&dictionary(1 << 30, 500, 100), 8), "a gigabyte from 500 bytes");
        assert!(!is_invalid(&dictionary(60 << 20, 500, 100), 8));
        let second = [dictionary(80, 80, 10), dictionary(80, 80, 11)].concat();
        assert!(is_invalid(&second, 8) && !is_invalid(&second, 4));
        // -0x8800_0000, whose lower 32 bits are positive; a number of eleven bytes; a list.
        let count =
            |bytes: &[u8]| [&[0x15, 4, 0x15, 0x40, 0x15, 0x40, 0x4c, 0x15], bytes, &[0x15, 0, 0, 0]].concat();
        assert!(is_invalid(&count(&[0xff, 0xff, 0xff, 0xff, 0x10]), 4));
        assert!(is_invalid(&count(&[&[0x8c; 10][..], &[6]].concat()), 4) && !is_invalid(&count(&[8]), 4));
        assert!(is_invalid(&[0x15, 4, 0x19, 0xf1, 0xff, 0xff, 0xff, 0xff, 0x07, 0], 4));
        for cut in [&[][..], &[0x15], &[0x15, 0xff, 0xff], &[0x15, 4, 0x15, 2, 0x15, 2, 0x2c, 0x15]] {
            assert!(!is_invalid(cut, 8));
        }
    }
}
