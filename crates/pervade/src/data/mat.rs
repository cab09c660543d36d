//! MATLAB v5 `.mat` files (v4 and v7.3 are different formats): full and sparse matrices.
//!
//! A file is a header of 128 bytes and a chain of elements, each with a type, a length and bytes; a matrix is an
//! element made of elements, possibly compressed by zlib.

use std::borrow::Cow;

use flate2::read::ZlibDecoder;

use super::arrays::{self, Entry};
use super::bytes::Source;
use super::dataset::{Dataset, Values};
use super::elements::{Element, Integers, Items, NdArray};
use super::labels::Labels;
use super::options::{ReadOptions, Table};
use super::sparse::{self, SparseParts};
use crate::{Error, Result};

const HEADER_BYTES: usize = 128;
/// Enough bytes of a packed matrix to read its name and shape.
const HEAD: usize = 4096;

const MATRIX: u32 = 14;
const PACKED: u32 = 15;

const CLASS_SPARSE: u32 = 5;
const CLASS_U8: u32 = 9;
const FLAG_LOGICAL: u32 = 0x0200;
const FLAG_COMPLEX: u32 = 0x0800;

/// Reads the table and the requested labels; other matrices are not unpacked.
pub(super) fn read(bytes: &[u8], location: &str, options: &ReadOptions) -> Result<Table> {
    let file = Mat::open(bytes, location)?;
    let data = file.table(arrays::pick_table(&file.entries, options.array.as_deref(), location)?)?;
    let labels = match &options.labels {
        Some(wanted) => Some(file.labels(arrays::pick_labels(&file.entries, wanted, location)?)?),
        None => None,
    };
    Ok(Table::new(data, labels))
}

/// Whether there is an array `name`.
pub(super) fn has_array(bytes: &[u8], location: &str, name: &str) -> Result<bool> {
    Ok(Mat::open(bytes, location)?.entries.iter().any(|entry| entry.name == name))
}

/// Reads a label file.
pub(super) fn read_labels(bytes: &[u8], location: &str) -> Result<Labels> {
    let file = Mat::open(bytes, location)?;
    file.labels(arrays::pick_only_labels(&file.entries, location)?)
}

struct Mat<'a> {
    entries: Vec<Entry>,
    /// Type and bytes of the element of each entry.
    elements: Vec<(u32, &'a [u8])>,
    big_endian: bool,
    location: &'a str,
}

/// The header of a matrix.
struct Head {
    class: u32,
    flags: u32,
    entry: Entry,
}

/// The consecutive elements in some bytes.
#[derive(Clone, Copy)]
struct Elements<'a> {
    bytes: &'a [u8],
    big_endian: bool,
}

impl<'a> Mat<'a> {
    fn open(bytes: &'a [u8], location: &'a str) -> Result<Self> {
        let big_endian = match bytes.get(HEADER_BYTES - 2..HEADER_BYTES) {
            Some(b"IM") => false,
            Some(b"MI") => true,
            _ => return Err(damaged(location, "the header of 128 bytes is not complete")),
        };
        let mut file = Self { entries: Vec::new(), elements: Vec::new(), big_endian, location };
        let mut chain = Elements { bytes: &bytes[HEADER_BYTES..], big_endian };
        while !chain.bytes.is_empty() {
            let element = chain.next().ok_or_else(|| damaged(location, "a matrix ends early"))?;
            let head = match element.0 {
                MATRIX => Head::read(&mut Elements { bytes: element.1, big_endian }),
                PACKED => {
                    let start = packed(element.1, location).head(HEAD)?;
                    // The inner element is longer than the part read here, so only its tag is skipped.
                    Head::read(&mut Elements { bytes: start.get(8..).unwrap_or(&[]), big_endian })
                }
                _ => continue,
            };
            // Cells, structs and text cannot be rows of a table and are skipped.
            if let Some(head) = head.filter(Head::is_numeric) {
                file.entries.push(head.entry);
                file.elements.push(element);
            }
        }
        Ok(file)
    }

    fn location_of(&self, index: usize) -> String {
        format!("{}, array {}", self.location, self.entries[index].name)
    }

    /// The elements of a matrix, unpacked.
    fn body(&self, index: usize) -> Result<Cow<'a, [u8]>> {
        let (kind, bytes) = self.elements[index];
        if kind == MATRIX {
            return Ok(Cow::Borrowed(bytes));
        }
        let unpacked = packed(bytes, &self.location_of(index)).rest()?;
        let inner = Elements { bytes: &unpacked, big_endian: self.big_endian }.next();
        match inner {
            Some((MATRIX, inner)) => Ok(Cow::Owned(inner.to_vec())),
            _ => Err(damaged(&self.location_of(index), "the packed matrix ends early")),
        }
    }

    fn table(&self, index: usize) -> Result<Dataset<'static>> {
        let location = self.location_of(index);
        let body = self.body(index)?;
        let mut parts = Elements { bytes: &body, big_endian: self.big_endian };
        let head = Head::read(&mut parts).ok_or_else(|| damaged(&location, "the matrix has no header"))?;
        if head.class == CLASS_SPARSE {
            head.sparse(parts, &location)
        } else {
            head.full(parts, &location)?.into_dataset(&location)
        }
    }

    fn labels(&self, index: usize) -> Result<Labels> {
        let location = self.location_of(index);
        let body = self.body(index)?;
        let mut parts = Elements { bytes: &body, big_endian: self.big_endian };
        let head = Head::read(&mut parts).ok_or_else(|| damaged(&location, "the matrix has no header"))?;
        if head.class == CLASS_SPARSE {
            return Err(Error::data(location, "a sparse matrix cannot be labels"));
        }
        head.full(parts, &location)?.into_labels(&location)
    }
}

impl Head {
    fn read(parts: &mut Elements) -> Option<Self> {
        let flag_bytes = parts.next_bytes()?;
        let flags = parts.u32_at(flag_bytes, 0)?;
        let shape_bytes = parts.next_bytes()?;
        let shape = (0..shape_bytes.len() / 4)
            .map(|i| parts.u32_at(shape_bytes, i).map(|s| s as usize))
            .collect::<Option<_>>()?;
        let name = String::from_utf8_lossy(parts.next_bytes()?).into_owned();
        Some(Self { class: flags & 0xff, flags, entry: Entry { name, shape } })
    }

    fn is_numeric(&self) -> bool {
        (CLASS_SPARSE..=15).contains(&self.class)
    }

    fn full(&self, mut parts: Elements, location: &str) -> Result<NdArray> {
        self.refuse_complex(location)?;
        let shape = self.entry.shape.clone();
        let n = NdArray::count(&shape, location)?;
        let items = parts.numbers(Some(n), location)?;
        // MATLAB stores doubles that are small integers as bytes; only a uint8 matrix really holds bytes.
        let items = match items {
            Items::Values(Values::U8(v)) if self.class != CLASS_U8 && self.flags & FLAG_LOGICAL == 0 => {
                Items::Integers(Integers::U8(v.to_vec()))
            }
            other => other,
        };
        NdArray::from_fortran(shape, items, location)
    }

    fn sparse(&self, mut parts: Elements, location: &str) -> Result<Dataset<'static>> {
        self.refuse_complex(location)?;
        let &[n_rows, n_columns] = self.entry.shape.as_slice() else {
            return Err(Error::data(
                location,
                format!("a table has two axes, this shape is {:?}", self.entry.shape),
            ));
        };
        sparse::check_columns(n_columns, location)?;
        let mut indices: Vec<u32> = parts.numbers(None, location)?.into_indices(location)?;
        let starts: Vec<usize> = parts.numbers(None, location)?.into_indices(location)?;
        let mut values = parts.numbers(None, location)?.into_f32(location)?;
        // Capacity for more entries may be reserved than is used.
        let used = starts.last().copied().unwrap_or(0);
        indices.truncate(used);
        values.truncate(used);
        let csr = SparseParts { starts, indices, values }.transposed(n_rows, n_columns, location)?;
        Dataset::new(n_rows, n_columns, Values::Csr(csr), location)
    }

    fn refuse_complex(&self, location: &str) -> Result<()> {
        if self.flags & FLAG_COMPLEX == 0 {
            return Ok(());
        }
        Err(Error::data(location, "the matrix has complex numbers")
            .with_hint("save its real part or its magnitude"))
    }
}

impl<'a> Elements<'a> {
    /// Type and bytes of the next element; short elements have both in their first word.
    fn next(&mut self) -> Option<(u32, &'a [u8])> {
        let tag = self.u32_at(self.bytes, 0)?;
        let (kind, n, at): (u32, usize, usize) = match tag >> 16 {
            0 => (tag, self.u32_at(self.bytes, 1)? as usize, 8),
            n => (tag & 0xffff, n as usize, 4),
        };
        let data = self.bytes.get(at..at.checked_add(n)?)?;
        let end = if kind == PACKED { at + n } else { (at + n).next_multiple_of(8) };
        // The padding of the last element may be missing.
        self.bytes = &self.bytes[end.min(self.bytes.len())..];
        Some((kind, data))
    }

    fn next_bytes(&mut self) -> Option<&'a [u8]> {
        self.next().map(|(_, bytes)| bytes)
    }

    fn u32_at(&self, bytes: &[u8], index: usize) -> Option<u32> {
        let word: [u8; 4] = bytes.get(index * 4..index * 4 + 4)?.try_into().ok()?;
        Some(if self.big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) })
    }

    /// The numbers of the next element: `n` of them, or all.
    fn numbers(&mut self, n: Option<usize>, location: &str) -> Result<Items> {
        let (kind, bytes) = self.next().ok_or_else(|| damaged(location, "the numbers end early"))?;
        let (element, size) = match kind {
            1 => (Element::I8, 1),
            2 => (Element::U8, 1),
            3 => (Element::I16, 2),
            4 => (Element::U16, 2),
            5 => (Element::I32, 4),
            6 => (Element::U32, 4),
            7 => (Element::F32, 4),
            9 => (Element::F64, 8),
            12 => (Element::I64, 8),
            13 => (Element::U64, 8),
            _ => return Err(damaged(location, &format!("number type {kind} is unknown"))),
        };
        element.read(&mut Source::plain(bytes, location), n.unwrap_or(bytes.len() / size), self.big_endian)
    }
}

fn packed<'a>(bytes: &'a [u8], location: &str) -> Source<'a> {
    Source::packed(ZlibDecoder::new(bytes), bytes.len() as u64, location)
}

fn damaged(location: &str, what: &str) -> Error {
    Error::data(location, what).with_hint("the file is cut short or damaged")
}
