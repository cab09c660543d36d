//! NumPy's `.npy`: one array, mapped if the file allows it.

use std::sync::Arc;

use super::bytes::Source;
use super::dataset::{Array, Values};
use super::elements::{Element, Items, NdArray};
use super::mapped::{FileMap, Mapped};
use crate::{Error, Result};

/// The first bytes of every `.npy` file.
pub(super) const MAGIC: &[u8] = b"\x93NUMPY";

/// Headers are a line of text; anything longer is not a header.
const MAX_HEADER_BYTES: usize = 1 << 16;

/// The header of an array.
#[derive(Debug)]
pub(super) struct Header {
    kind: Kind,
    big_endian: bool,
    fortran: bool,
    pub(super) shape: Vec<usize>,
    n_bytes: usize,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Number(Element),
    /// Bytes per string.
    Latin(usize),
    /// UTF-32 characters per string.
    Unicode(usize),
}

impl Header {
    /// Whether the numbers are integers of more than a byte, which tables store as floating-point numbers.
    pub(super) fn is_integer(&self) -> bool {
        use Element::{F16, F32, F64, U8};
        matches!(self.kind, Kind::Number(element) if !matches!(element, U8 | F16 | F32 | F64))
    }
}

/// Reads an array from a stream.
pub(super) fn read(source: &mut Source) -> Result<NdArray> {
    let header = read_header(source)?;
    let n = NdArray::count(&header.shape, source.location())?;
    let items = match header.kind {
        Kind::Number(element) => element.read(source, n, header.big_endian)?,
        Kind::Latin(width) => Items::Text(words(source, n, width, 1, false)?),
        Kind::Unicode(width) => Items::Text(words(source, n, width, 4, header.big_endian)?),
    };
    source.finish()?;
    if header.fortran {
        return NdArray::from_fortran(header.shape, items, source.location());
    }
    Ok(NdArray { shape: header.shape, items })
}

/// The array of a mapped file, in place, if the layout of its numbers in the file suits memory; otherwise `None`.
pub(super) fn in_place(file: &Arc<FileMap>, location: &str) -> Result<Option<NdArray>> {
    let header = read_header(&mut Source::plain(file.bytes(), location))?;
    let n = NdArray::count(&header.shape, location)?;
    if header.fortran || header.big_endian || cfg!(target_endian = "big") || n == 0 {
        return Ok(None);
    }
    let at = header.n_bytes;
    // A file that is too long is left to `read`, which reports what is wrong.
    let ends_at =
        |size: usize| n.checked_mul(size).and_then(|b| b.checked_add(at)) == Some(file.bytes().len());
    fn array<T: bytemuck::Pod>(file: &Arc<FileMap>, at: usize, n: usize) -> Option<Array<'static, T>> {
        Mapped::new(file.clone(), at, n).map(Array::Mapped)
    }
    let values = match header.kind {
        Kind::Number(Element::U8) if ends_at(1) => array(file, at, n).map(Values::U8),
        Kind::Number(Element::F16) if ends_at(2) => array(file, at, n).map(Values::F16),
        Kind::Number(Element::F32) if ends_at(4) => array(file, at, n).map(Values::F32),
        Kind::Number(Element::F64) if ends_at(8) => array(file, at, n).map(Values::F64),
        _ => None,
    };
    Ok(values.map(|values| NdArray { shape: header.shape, items: Items::Values(values) }))
}

/// Reads the header and leaves the stream at the first number.
pub(super) fn read_header(source: &mut Source) -> Result<Header> {
    let location = source.location().to_string();
    let [magic @ .., major, _minor] = source.take::<8>()?;
    if magic != MAGIC {
        return Err(Error::data(location, "this is not an .npy array: it does not start with `\\x93NUMPY`"));
    }
    let (length, fixed) = match major {
        1 => (u16::from_le_bytes(source.take()?) as usize, 10),
        2 | 3 => (u32::from_le_bytes(source.take()?) as usize, 12),
        _ => return Err(Error::data(location, format!("version {major} of the .npy format is unknown"))),
    };
    if length > MAX_HEADER_BYTES {
        return Err(Error::data(location, format!("the header claims to be {length} bytes long")));
    }
    let mut text = Vec::new();
    source.append(length, &mut text)?;
    let text = String::from_utf8_lossy(&text);
    let bad = |what: &str| Error::data(&location, format!("the .npy header `{}` {what}", text.trim()));
    let descr = field(&text, "descr").ok_or_else(|| bad("has no element type"))?;
    let (kind, big_endian) = element(descr).map_err(|problem| {
        Error::data(&location, problem)
            .with_hint("save it as numbers: `np.save(file, array.astype('float32'))`")
    })?;
    let fortran = match field(&text, "fortran_order") {
        Some(t) if t.starts_with("True") => true,
        Some(t) if t.starts_with("False") => false,
        _ => return Err(bad("has no order")),
    };
    let shape = field(&text, "shape").and_then(shape).ok_or_else(|| bad("has no shape"))?;
    Ok(Header { kind, big_endian, fortran, shape, n_bytes: fixed + length })
}

/// The text after `'key':` of a Python dict.
fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let at = text.find(&format!("'{key}'"))? + key.len() + 2;
    text[at..].trim_start().strip_prefix(':').map(str::trim_start)
}

/// `(3, 4)` as numbers.
fn shape(text: &str) -> Option<Vec<usize>> {
    let inside = text.strip_prefix('(')?.split_once(')')?.0;
    inside.split(',').map(str::trim).filter(|t| !t.is_empty()).map(|t| t.parse().ok()).collect()
}

/// Element type and byte order of a NumPy type such as `'<f4'`.
fn element(descr: &str) -> std::result::Result<(Kind, bool), String> {
    let quoted = descr.strip_prefix('\'').and_then(|t| t.split_once('\'')).map(|t| t.0);
    let Some(name) = quoted else {
        return Err("the array has named fields (a structured type), which is not a table".into());
    };
    let big_endian = name.starts_with('>');
    let code = name.trim_start_matches(['<', '>', '|', '=']);
    let width = |code: &str| code[1..].parse::<usize>().ok();
    let kind = match code {
        "u1" | "b1" => Kind::Number(Element::U8),
        "i1" => Kind::Number(Element::I8),
        "i2" => Kind::Number(Element::I16),
        "u2" => Kind::Number(Element::U16),
        "i4" => Kind::Number(Element::I32),
        "u4" => Kind::Number(Element::U32),
        "i8" => Kind::Number(Element::I64),
        "u8" => Kind::Number(Element::U64),
        "f2" => Kind::Number(Element::F16),
        "f4" => Kind::Number(Element::F32),
        "f8" => Kind::Number(Element::F64),
        _ if code.starts_with('S') => Kind::Latin(width(code).ok_or("bad text type")?),
        _ if code.starts_with('U') => Kind::Unicode(width(code).ok_or("bad text type")?),
        "O" => {
            return Err(
                "the array holds Python objects; loading those would run code, so it is refused".into()
            );
        }
        _ => return Err(format!("elements of type `{name}` are not supported")),
    };
    Ok((kind, big_endian))
}

/// Strings of a fixed width, padded with zeros.
fn words(source: &mut Source, n: usize, width: usize, size: usize, big_endian: bool) -> Result<Vec<String>> {
    let too_long =
        || Error::data(source.location(), format!("the header claims {n} words of {width} characters"));
    if width == 0 && n > 1 << 20 {
        return Err(too_long());
    }
    let n_bytes = n.checked_mul(width).and_then(|b| b.checked_mul(size)).ok_or_else(too_long)?;
    let mut bytes = Vec::new();
    source.append(n_bytes, &mut bytes)?;
    let word = |chunk: &[u8]| -> String {
        let letter = |c: &[u8]| match (c.len(), big_endian) {
            (1, _) => u32::from(c[0]),
            (_, true) => u32::from_be_bytes([c[0], c[1], c[2], c[3]]),
            (_, false) => u32::from_le_bytes([c[0], c[1], c[2], c[3]]),
        };
        chunk
            .chunks_exact(size)
            .map(letter)
            .take_while(|&c| c != 0)
            .map(|c| char::from_u32(c).unwrap_or('?'))
            .collect()
    };
    if width == 0 {
        return Ok(vec![String::new(); n]);
    }
    Ok(bytes.chunks_exact(width * size).map(word).collect())
}
