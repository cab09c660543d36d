//! IDX, the format of MNIST: a header of big-endian numbers, then the array.

use super::bytes::Source;
use super::dataset::Values;
use super::elements::{Element, Items, NdArray};
use crate::{Error, Result};

/// The header of an IDX file.
pub(super) struct Header {
    element: Element,
    pub(super) shape: Vec<usize>,
}

/// Whether the bytes start like an IDX file.
pub(super) fn is_idx(bytes: &[u8]) -> bool {
    matches!(bytes, [0, 0, code, 1..=8, ..] if element(*code).is_some())
}

/// Reads an array.
pub(super) fn read(source: &mut Source) -> Result<NdArray> {
    let header = read_header(source)?;
    let n = NdArray::count(&header.shape, source.location())?;
    let items = header.element.read(source, n, true)?;
    source.finish()?;
    Ok(NdArray { shape: header.shape, items })
}

/// Reads several arrays whose rows have the same shape and concatenates them.
pub(super) fn read_concatenated(mut sources: Vec<Source>) -> Result<NdArray> {
    if let [only] = sources.as_mut_slice() {
        return read(only);
    }
    let headers = sources.iter_mut().map(read_header).collect::<Result<Vec<_>>>()?;
    let mut total = 0usize;
    for (source, header) in sources.iter().zip(&headers) {
        if header.element != Element::U8 || header.shape[1..] != headers[0].shape[1..] {
            return Err(Error::data(
                source.location(),
                format!("shape {:?} differs from the {:?} of the first file", header.shape, headers[0].shape),
            )
            .with_hint("read the files one at a time"));
        }
        total = total.saturating_add(NdArray::count(&header.shape, source.location())?);
        source.check_room::<u8>(NdArray::count(&header.shape, source.location())?)?;
    }
    let mut values: Vec<u8> = Vec::new();
    values
        .try_reserve_exact(total)
        .map_err(|_| Error::data(sources[0].location(), "no memory for the rows"))?;
    for (source, header) in sources.iter_mut().zip(&headers) {
        source.append(NdArray::count(&header.shape, source.location())?, &mut values)?;
        source.finish()?;
    }
    let mut shape = headers[0].shape.clone();
    shape[0] = headers.iter().map(|h| h.shape[0]).sum();
    Ok(NdArray { shape, items: Items::Values(Values::U8(values.into())) })
}

/// Reads the header and leaves the stream at the first value.
pub(super) fn read_header(source: &mut Source) -> Result<Header> {
    let magic: [u8; 4] = source.take()?;
    let Some(element) = element(magic[2]).filter(|_| is_idx(&magic)) else {
        return Err(Error::data(
            source.location(),
            format!("this is not an IDX file: it starts with {magic:02x?}"),
        ));
    };
    let shape =
        (0..magic[3]).map(|_| Ok(u32::from_be_bytes(source.take()?) as usize)).collect::<Result<Vec<_>>>()?;
    Ok(Header { element, shape })
}

fn element(code: u8) -> Option<Element> {
    Some(match code {
        0x08 => Element::U8,
        0x09 => Element::I8,
        0x0b => Element::I16,
        0x0c => Element::I32,
        0x0d => Element::F32,
        0x0e => Element::F64,
        _ => return None,
    })
}
