//! Arrays of any element type, as `.npy`, IDX and `.mat` files hold them.

use bytemuck::Pod;
use half::f16;

use super::bytes::Source;
use super::dataset::{Dataset, ImageShape, Values};
use super::labels::Labels;
use crate::{Error, Result};

/// NumPy allows no more axes than this either.
const MOST_AXES: usize = 64;

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

/// Numbers or words of an array.
#[derive(Debug)]
pub(super) enum Items {
    /// Types that tables keep.
    Values(Values<'static>),
    /// Every other whole-number type: labels, indices, counts.
    Integers(Vec<i64>),
    /// Words; labels only.
    Text(Vec<String>),
}

/// An array of any shape, in C order.
#[derive(Debug)]
pub(super) struct NdArray {
    pub(super) shape: Vec<usize>,
    pub(super) items: Items,
}

/// A number whose bytes can be turned round.
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
            Element::I8 => whole(source, n, swap, |x: i8| x.into())?,
            Element::I16 => whole(source, n, swap, |x: i16| x.into())?,
            Element::U16 => whole(source, n, swap, |x: u16| x.into())?,
            Element::I32 => whole(source, n, swap, |x: i32| x.into())?,
            Element::U32 => whole(source, n, swap, |x: u32| x.into())?,
            Element::I64 => whole(source, n, swap, |x: i64| x)?,
            Element::U64 => {
                let values: Vec<u64> = plain(source, n, swap)?;
                match values.iter().map(|&x| i64::try_from(x).ok()).collect() {
                    Some(integers) => Items::Integers(integers),
                    None => Items::Values(Values::F64(
                        values.into_iter().map(|x| x as f64).collect::<Vec<_>>().into(),
                    )),
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

fn whole<T: Swap>(source: &mut Source, n: usize, swap: bool, widen: fn(T) -> i64) -> Result<Items> {
    Ok(Items::Integers(plain(source, n, swap)?.into_iter().map(widen).collect()))
}

impl Items {
    /// Numbers of a type that tables keep: whole numbers become f32, or f64 where f32 would round.
    pub(super) fn into_values(self, place: &str) -> Result<Values<'static>> {
        match self {
            Items::Values(values) => Ok(values),
            Items::Integers(v) if v.iter().all(|&x| x as f32 as i64 == x && x != i64::MAX) => {
                Ok(Values::F32(v.into_iter().map(|x| x as f32).collect::<Vec<_>>().into()))
            }
            Items::Integers(v) => Ok(Values::F64(v.into_iter().map(|x| x as f64).collect::<Vec<_>>().into())),
            Items::Text(_) => {
                Err(Error::data(place, "the array holds text, not numbers")
                    .with_hint("text can be labels only"))
            }
        }
    }

    /// Single-precision numbers, such as the entries of sparse rows.
    pub(super) fn into_f32(self, place: &str) -> Result<Vec<f32>> {
        Ok(match self.into_values(place)? {
            Values::U8(v) => v.iter().map(|&x| x.into()).collect(),
            Values::F16(v) => v.iter().map(|x| x.to_f32()).collect(),
            Values::F32(super::Array::Owned(v)) => v,
            Values::F32(v) => v.to_vec(),
            Values::F64(v) => v.iter().map(|&x| x as f32).collect(),
            Values::Csr(csr) => csr.values().to_vec(),
        })
    }

    /// Whole numbers that must lie in the range of `T`, such as column indices.
    pub(super) fn into_indices<T: TryFrom<i64>>(self, place: &str) -> Result<Vec<T>> {
        let wrong = |x: &dyn std::fmt::Display| Error::data(place, format!("{x} is not a valid index"));
        match self {
            Items::Integers(v) => {
                v.into_iter().map(|x| T::try_from(x).map_err(|_| wrong(&x))).collect::<Result<_>>()
            }
            Items::Values(Values::U8(v)) => {
                v.iter().map(|&x| T::try_from(x.into()).map_err(|_| wrong(&x))).collect()
            }
            _ => Err(Error::data(place, "the indices are not whole numbers")),
        }
    }
}

impl NdArray {
    /// Number of items a shape holds, if that is a number at all.
    pub(super) fn count(shape: &[usize], place: &str) -> Result<usize> {
        let count = shape.iter().try_fold(1usize, |n, &s| n.checked_mul(s));
        count.filter(|_| shape.len() <= MOST_AXES).ok_or_else(|| {
            Error::data(place, format!("the header claims the impossible shape {shape:?}"))
                .with_hint("the file is cut short or damaged")
        })
    }

    /// The same array from items that were stored in Fortran order.
    pub(super) fn from_fortran(shape: Vec<usize>, items: Items) -> Self {
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
        let items = if is_flat { items } else { items.gather(&shape, &strides) };
        Self { shape, items }
    }

    /// Rows of a table: one row for every step of the first axis. Three axes are grey pictures;
    /// four are pictures whose channels come last or second.
    pub(super) fn into_dataset(self, place: &str) -> Result<Dataset<'static>> {
        let Self { shape, items } = self;
        if shape.contains(&0) {
            return Err(Error::data(place, format!("the array of shape {shape:?} is empty")));
        }
        let (image, items) = match *shape.as_slice() {
            [_, _] => (None, items),
            [_, height, width] => (Some(ImageShape { height, width, channels: 1 }), items),
            [_, height, width, channels @ (1 | 3)] => (Some(ImageShape { height, width, channels }), items),
            [n, channels @ (1 | 3), height, width] => {
                let strides = [channels * height * width, width, 1, height * width];
                let items = items.gather(&[n, height, width, channels], &strides);
                (Some(ImageShape { height, width, channels }), items)
            }
            [_, _, _, _] => (None, items),
            _ => {
                return Err(Error::data(
                    place,
                    format!(
                        "an array of shape {shape:?} is no table: it needs 2 axes, or 3 or 4 for pictures"
                    ),
                )
                .with_hint("one row of the table is one step along the first axis"));
            }
        };
        let n_columns = Self::count(&shape[1..], place)?;
        let data = Dataset::new(shape[0], n_columns, items.into_values(place)?, place)?;
        Ok(match image {
            Some(image) => data.with_image(image),
            None => data,
        })
    }

    /// One label an item; all axes but one must have length 1.
    pub(super) fn into_labels(self, place: &str) -> Result<Labels> {
        if self.shape.iter().filter(|&&s| s != 1).count() > 1 {
            return Err(Error::data(
                place,
                format!("an array of shape {:?} cannot be labels: it needs one axis", self.shape),
            ));
        }
        match self.items {
            Items::Text(words) => Labels::from_text(&words, place),
            Items::Integers(v) => Ok(Labels::from_integers(&v)),
            Items::Values(values) => {
                let v: Vec<f64> = match values {
                    Values::U8(v) => v.iter().map(|&x| x.into()).collect(),
                    Values::F16(v) => v.iter().map(|x| x.to_f64()).collect(),
                    Values::F32(v) => v.iter().map(|&x| x.into()).collect(),
                    Values::F64(v) => v.to_vec(),
                    Values::Csr(_) => return Err(Error::data(place, "sparse rows cannot be labels")),
                };
                Labels::from_numbers(&v, place)
            }
        }
    }
}

impl Items {
    /// Items in C order of `shape`, taken from steps of `strides` along its axes.
    fn gather(self, shape: &[usize], strides: &[usize]) -> Self {
        match self {
            Items::Values(Values::U8(v)) => Items::Values(Values::U8(gather(&v, shape, strides).into())),
            Items::Values(Values::F16(v)) => Items::Values(Values::F16(gather(&v, shape, strides).into())),
            Items::Values(Values::F32(v)) => Items::Values(Values::F32(gather(&v, shape, strides).into())),
            Items::Values(Values::F64(v)) => Items::Values(Values::F64(gather(&v, shape, strides).into())),
            Items::Values(sparse) => Items::Values(sparse),
            Items::Integers(v) => Items::Integers(gather(&v, shape, strides)),
            Items::Text(v) => Items::Text(gather(&v, shape, strides)),
        }
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
        return out; // one axis may be empty and another claim any length
    }
    walk(from, shape, strides, 0, &mut out);
    out
}
