//! Arrays of any element type, as `.npy`, IDX and `.mat` files hold them.

use std::ops::Range;

use bytemuck::Pod;
use half::f16;

use super::bytes::Source;
use super::dataset::{Array, Dataset, ImageShape, Values};
use super::labels::Labels;
use crate::memory::{Need, product, require};
use crate::{Error, Result};

/// The most axes that NumPy allows, too.
const MAX_AXES: usize = 64;

/// The type of one number in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Element {
    U8,
    I8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F16,
    F32,
    F64,
}

/// The numbers or strings of an array.
#[derive(Debug)]
pub(super) enum Items {
    /// Types that tables store.
    Values(Values<'static>),
    /// All other integer types: labels, indices, counts.
    Integers(Integers),
    /// Strings; only as labels.
    Text(Vec<String>),
}

/// Integers in their stored type: none is widened before its use is known.
#[derive(Debug)]
pub(super) enum Integers {
    #[cfg_attr(
        not(feature = "matlab"),
        expect(dead_code, reason = "bytes that are not grey levels come only from MATLAB files")
    )]
    U8(Vec<u8>),
    I8(Vec<i8>),
    I16(Vec<i16>),
    U16(Vec<u16>),
    I32(Vec<i32>),
    U32(Vec<u32>),
    I64(Vec<i64>),
}

/// Evaluates an expression for the integers of any type.
macro_rules! of_integers {
    ($integers:expr, $v:ident => $body:expr) => {
        match $integers {
            Integers::U8($v) => $body,
            Integers::I8($v) => $body,
            Integers::I16($v) => $body,
            Integers::U16($v) => $body,
            Integers::I32($v) => $body,
            Integers::U32($v) => $body,
            Integers::I64($v) => $body,
        }
    };
}

/// An array of any shape, in C order.
#[derive(Debug)]
pub(super) struct NdArray {
    pub(super) shape: Vec<usize>,
    pub(super) items: Items,
}

/// A number whose byte order can be reversed.
trait Swap: Pod {
    fn swapped(self) -> Self;
}

macro_rules! swap {
    ($($type:ty),*) => {$(
        impl Swap for $type {
            fn swapped(self) -> Self { let mut b = self.to_ne_bytes(); b.reverse(); Self::from_ne_bytes(b) }
        }
    )*};
}
swap!(u8, i8, i16, u16, i32, u32, i64, u64, f16, f32, f64);

impl Element {
    /// Reads `n` numbers of this type.
    pub(super) fn read(self, source: &mut Source, n: usize, big_endian: bool) -> Result<Items> {
        let swap = big_endian != cfg!(target_endian = "big");
        Ok(match self {
            Element::U8 => Items::Values(Values::U8(plain(source, n, false)?.into())),
            Element::F16 => Items::Values(Values::F16(plain(source, n, swap)?.into())),
            Element::F32 => Items::Values(Values::F32(plain(source, n, swap)?.into())),
            Element::F64 => Items::Values(Values::F64(plain(source, n, swap)?.into())),
            Element::I8 => Items::Integers(Integers::I8(plain(source, n, false)?)),
            Element::I16 => Items::Integers(Integers::I16(plain(source, n, swap)?)),
            Element::U16 => Items::Integers(Integers::U16(plain(source, n, swap)?)),
            Element::I32 => Items::Integers(Integers::I32(plain(source, n, swap)?)),
            Element::U32 => Items::Integers(Integers::U32(plain(source, n, swap)?)),
            Element::I64 => Items::Integers(Integers::I64(plain(source, n, swap)?)),
            Element::U64 => {
                let values: Vec<u64> = plain(source, n, swap)?;
                // Vectors of numbers of the same size are collected in place.
                if values.iter().all(|&x| i64::try_from(x).is_ok()) {
                    Items::Integers(Integers::I64(values.into_iter().map(|x| x as i64).collect()))
                } else {
                    Items::Values(Values::F64(
                        values.into_iter().map(|x| x as f64).collect::<Vec<_>>().into(),
                    ))
                }
            }
        })
    }
}

fn plain<T: Swap>(source: &mut Source, n: usize, swap: bool) -> Result<Vec<T>> {
    let mut out: Vec<T> = Vec::new();
    source.append(n, &mut out)?;
    if swap {
        for x in &mut out {
            *x = x.swapped();
        }
    }
    Ok(out)
}

/// Whether `f32` represents the number exactly.
fn is_single(x: i64) -> bool {
    x as f32 as i64 == x && x != i64::MAX
}

/// Integers that were decoded as doubles, in the type that tables store.
#[cfg(feature = "parquet")]
pub(super) fn whole_numbers(values: Vec<f64>, location: &str) -> Result<Values<'static>> {
    // As in `is_single`, the largest i64, decoded as 2^63, stays in double precision.
    let is_single = |&x: &f64| f64::from(x as f32) == x && x < (1u64 << 63) as f64;
    if !values.iter().all(is_single) {
        return Ok(Values::F64(values.into()));
    }
    require_widened(values.len(), size_of::<f32>(), location)?;
    Ok(Values::F32(values.into_iter().map(|x| x as f32).collect::<Vec<_>>().into()))
}

/// Returns an error if the memory cannot hold `n` numbers of `bytes` bytes each.
fn require_widened(n: usize, bytes: usize, location: &str) -> Result<()> {
    let what = format!("`{location}` as numbers of {bytes} bytes each");
    require(&what, &Need::of("", product(&[n, bytes])), "give fewer rows, or save it as float16 or uint8")
}

impl Integers {
    #[expect(clippy::useless_conversion, reason = "one of the types is i64 already")]
    fn into_values(self, location: &str) -> Result<Values<'static>> {
        of_integers!(self, v => {
            if v.iter().all(|&x| is_single(i64::from(x))) {
                require_widened(v.len(), size_of::<f32>(), location)?;
                return Ok(Values::F32(v.into_iter().map(|x| x as f32).collect::<Vec<_>>().into()));
            }
            require_widened(v.len(), size_of::<f64>(), location)?;
            Ok(Values::F64(v.into_iter().map(|x| x as f64).collect::<Vec<_>>().into()))
        })
    }

    fn gather(self, shape: &[usize], strides: &[usize]) -> Self {
        match self {
            Integers::U8(v) => Integers::U8(gather(&v, shape, strides)),
            Integers::I8(v) => Integers::I8(gather(&v, shape, strides)),
            Integers::I16(v) => Integers::I16(gather(&v, shape, strides)),
            Integers::U16(v) => Integers::U16(gather(&v, shape, strides)),
            Integers::I32(v) => Integers::I32(gather(&v, shape, strides)),
            Integers::U32(v) => Integers::U32(gather(&v, shape, strides)),
            Integers::I64(v) => Integers::I64(gather(&v, shape, strides)),
        }
    }
}

impl Items {
    /// Numbers in a type that tables store: integers become f32, or f64 if f32 would round.
    pub(super) fn into_values(self, location: &str) -> Result<Values<'static>> {
        match self {
            Items::Values(values) => Ok(values),
            Items::Integers(integers) => integers.into_values(location),
            Items::Text(_) => Err(Error::data(location, "the array holds text, not numbers")
                .with_hint("text can be labels only")),
        }
    }

    /// Single-precision numbers, such as the entries of sparse rows.
    pub(super) fn into_f32(self, location: &str) -> Result<Vec<f32>> {
        Ok(match self.into_values(location)? {
            Values::U8(v) => v.iter().map(|&x| x.into()).collect(),
            Values::F16(v) => v.iter().map(|x| x.to_f32()).collect(),
            Values::F32(Array::Owned(v)) => v,
            Values::F32(v) => v.to_vec(),
            Values::F64(v) => v.iter().map(|&x| x as f32).collect(),
            Values::Csr(csr) => csr.values().to_vec(),
        })
    }

    /// Integers that must lie in the range of `T`, such as column indices.
    #[expect(clippy::useless_conversion, reason = "one of the types is i64 already")]
    pub(super) fn into_indices<T: TryFrom<i64>>(self, location: &str) -> Result<Vec<T>> {
        let wrong = |x: &dyn std::fmt::Display| Error::data(location, format!("{x} is not a valid index"));
        match self {
            Items::Integers(integers) => of_integers!(integers, v => {
                v.into_iter().map(|x| T::try_from(i64::from(x)).map_err(|_| wrong(&x))).collect::<Result<_>>()
            }),
            Items::Values(Values::U8(v)) => {
                v.iter().map(|&x| T::try_from(x.into()).map_err(|_| wrong(&x))).collect()
            }
            _ => Err(Error::data(location, "the indices are not whole numbers")),
        }
    }
}

impl NdArray {
    /// Number of items in an array of this shape; an error if it overflows.
    pub(super) fn count(shape: &[usize], location: &str) -> Result<usize> {
        let count = shape.iter().try_fold(1usize, |n, &s| n.checked_mul(s));
        count.filter(|_| shape.len() <= MAX_AXES).ok_or_else(|| {
            Error::data(location, format!("the header claims the impossible shape {shape:?}"))
                .with_hint("the file is cut short or damaged")
        })
    }

    /// The same array from items that were stored in Fortran order.
    pub(super) fn from_fortran(shape: Vec<usize>, items: Items, location: &str) -> Result<Self> {
        let mut stride = 1;
        let strides: Vec<usize> = shape
            .iter()
            .map(|&s| {
                let this = stride;
                stride *= s;
                this
            })
            .collect();
        let is_flat = shape.iter().filter(|&&s| s != 1).count() <= 1;
        let items = if is_flat { items } else { items.gather(&shape, &strides, location)? };
        Ok(Self { shape, items })
    }

    /// A table with one row per step along the first axis. Three axes are grey images; four are images whose channels
    /// come last or second.
    pub(super) fn into_dataset(self, location: &str) -> Result<Dataset<'static>> {
        self.into_dataset_from(location, 0)
    }

    /// Like [`NdArray::into_dataset`], for rows of a larger array, whose row `first_row` is the first of these.
    pub(super) fn into_dataset_from(self, location: &str, first_row: usize) -> Result<Dataset<'static>> {
        let Self { shape, items } = self;
        if shape.contains(&0) {
            return Err(Error::data(location, format!("the array of shape {shape:?} is empty")));
        }
        let (image, items) = match *shape.as_slice() {
            [_, _] => (None, items),
            [_, height, width] => (Some(ImageShape { height, width, channels: 1 }), items),
            [_, height, width, channels @ (1 | 3)] => (Some(ImageShape { height, width, channels }), items),
            [n, channels @ (1 | 3), height, width] => {
                let strides = [channels * height * width, width, 1, height * width];
                let items = items.gather(&[n, height, width, channels], &strides, location)?;
                (Some(ImageShape { height, width, channels }), items)
            }
            [_, _, _, _] => (None, items),
            _ => {
                return Err(Error::data(
                    location,
                    format!(
                        "an array of shape {shape:?} is not a table: it needs 2 axes, or 3 or 4 for images"
                    ),
                )
                .with_hint("one row of the table is one step along the first axis"));
            }
        };
        let n_columns = Self::count(&shape[1..], location)?;
        let values = items.into_values(location)?;
        let data = Dataset::numbered(shape[0], n_columns, values, location.to_string(), None, first_row)?;
        Ok(match image {
            Some(image) => data.with_image(image),
            None => data,
        })
    }

    /// Some steps along the first axis of an array in a mapped file; `None` for another.
    pub(super) fn mapped_rows(&self, rows: Range<usize>) -> Option<Self> {
        fn part<T: Pod>(array: &Array<'static, T>, range: Range<usize>) -> Option<Array<'static, T>> {
            match array {
                Array::Mapped(mapped) => Some(Array::Mapped(mapped.slice(range))),
                _ => None,
            }
        }
        let (n_rows, rest) = self.shape.split_first()?;
        let width: usize = rest.iter().product();
        let range = rows.start * width..rows.end * width;
        let values = match &self.items {
            Items::Values(_) if rows.end > *n_rows => None,
            Items::Values(Values::U8(v)) => part(v, range).map(Values::U8),
            Items::Values(Values::F16(v)) => part(v, range).map(Values::F16),
            Items::Values(Values::F32(v)) => part(v, range).map(Values::F32),
            Items::Values(Values::F64(v)) => part(v, range).map(Values::F64),
            _ => None,
        };
        let shape = [&[rows.len()], rest].concat();
        Some(Self { shape, items: Items::Values(values?) })
    }

    /// One label per item; all axes but one must have length 1.
    #[expect(clippy::useless_conversion, reason = "one of the types is i64 already")]
    pub(super) fn into_labels(self, location: &str) -> Result<Labels> {
        if self.shape.iter().filter(|&&s| s != 1).count() > 1 {
            return Err(Error::data(
                location,
                format!("an array of shape {:?} cannot be labels: it needs one axis", self.shape),
            ));
        }
        match self.items {
            Items::Text(words) => Labels::from_text(&words, location),
            Items::Integers(integers) => of_integers!(integers, v => {
                Ok(Labels::from_integers(&v.into_iter().map(i64::from).collect::<Vec<i64>>()))
            }),
            Items::Values(values) => {
                let v: Vec<f64> = match values {
                    Values::U8(v) => v.iter().map(|&x| x.into()).collect(),
                    Values::F16(v) => v.iter().map(|x| x.to_f64()).collect(),
                    Values::F32(v) => v.iter().map(|&x| x.into()).collect(),
                    Values::F64(v) => v.to_vec(),
                    Values::Csr(_) => return Err(Error::data(location, "sparse rows cannot be labels")),
                };
                Labels::from_numbers(&v, location)
            }
        }
    }
}

impl Items {
    /// Items in C order of `shape`, read with the given `strides`.
    fn gather(self, shape: &[usize], strides: &[usize], location: &str) -> Result<Self> {
        let bytes = match &self {
            Items::Values(Values::U8(v)) => size_of_val(&v[..]),
            Items::Values(Values::F16(v)) => size_of_val(&v[..]),
            Items::Values(Values::F32(v)) => size_of_val(&v[..]),
            Items::Values(Values::F64(v)) => size_of_val(&v[..]),
            Items::Values(Values::Csr(_)) => 0,
            Items::Integers(integers) => of_integers!(integers, v => size_of_val(&v[..])),
            Items::Text(v) => size_of_val(&v[..]),
        };
        let what = format!("`{location}` in another order of its axes");
        require(&what, &Need::of("", bytes as u64), "give fewer rows, or save the array in C order")?;
        Ok(match self {
            Items::Values(Values::U8(v)) => Items::Values(Values::U8(gather(&v, shape, strides).into())),
            Items::Values(Values::F16(v)) => Items::Values(Values::F16(gather(&v, shape, strides).into())),
            Items::Values(Values::F32(v)) => Items::Values(Values::F32(gather(&v, shape, strides).into())),
            Items::Values(Values::F64(v)) => Items::Values(Values::F64(gather(&v, shape, strides).into())),
            Items::Values(sparse) => Items::Values(sparse),
            Items::Integers(integers) => Items::Integers(integers.gather(shape, strides)),
            Items::Text(v) => Items::Text(gather(&v, shape, strides)),
        })
    }
}

fn gather<T: Clone>(from: &[T], shape: &[usize], strides: &[usize]) -> Vec<T> {
    fn walk<T: Clone>(from: &[T], shape: &[usize], strides: &[usize], base: usize, out: &mut Vec<T>) {
        match (shape, strides) {
            ([n, shape @ ..], [step, strides @ ..]) => {
                (0..*n).for_each(|i| walk(from, shape, strides, base + i * step, out));
            }
            _ => out.push(from[base].clone()),
        }
    }
    let mut out = Vec::with_capacity(from.len());
    if from.is_empty() {
        return out; // one axis may be empty while another claims any length
    }
    walk(from, shape, strides, 0, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(integers: Integers) -> Values<'static> {
        Items::Integers(integers).into_values("test").unwrap()
    }

    #[test]
    fn integers_are_stored_exactly_in_the_narrowest_float() {
        assert!(matches!(of(Integers::I8(vec![-128, 127])), Values::F32(v) if v[..] == [-128.0, 127.0]));
        assert!(matches!(of(Integers::U16(vec![65535])), Values::F32(v) if v[..] == [65535.0]));
        assert!(matches!(of(Integers::I32(vec![1 << 24])), Values::F32(v) if v[..] == [16777216.0]));
        let odd = (1 << 24) + 1;
        assert!(matches!(of(Integers::I32(vec![odd])), Values::F64(v) if v[..] == [f64::from(odd)]));
        assert!(matches!(of(Integers::I64(vec![i64::MAX])), Values::F64(_)));
    }

    /// Regression: fractions were cut off if other columns were integers.
    #[test]
    fn fractions_survive_among_columns_of_integers() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/readers/free_lists.parquet");
        let table = crate::data::read(path.as_ref(), &crate::data::ReadOptions::default()).unwrap();
        let mut row = [0.0; 5];
        table.data.row_into(0, &mut row);
        assert_eq!(row, [0.001, 0.299, -0.274, -0.891, 3.0]);
        assert!(
            matches!(whole_numbers(vec![0.5, 3.0], "test").unwrap(), Values::F32(v) if v[..] == [0.5, 3.0])
        );
        let large = (1u64 << 63) as f64;
        assert!(matches!(whole_numbers(vec![large], "test").unwrap(), Values::F64(v) if v[..] == [large]));
    }
}
