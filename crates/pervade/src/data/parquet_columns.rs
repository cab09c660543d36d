//! Columns of a Parquet file in the types that it gives them.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array as _, ArrayRef};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, TimeUnit};

use super::parquet::{column_names, flatten, list_element, uneven};
use super::parquet_file::damaged;
use super::schema::{Coder, DateFormat, RawCells, RawColumn, Zone};
use crate::memory::grow;
use crate::{Error, Hint, Result};

/// A column whose blocks of rows are read one after the other.
pub(super) enum Builder {
    Numbers(Vec<f64>),
    Truth(Vec<Option<bool>>),
    Words(Coder),
    /// Categories; their order, if it means something.
    Categories(Coder, Option<Vec<String>>),
    /// Ticks since 1970, how many there are per second, and whether there is a time zone.
    Dates {
        ticks: Vec<Option<i64>>,
        per_second: i64,
        has_zone: bool,
    },
    /// One list of numbers per element.
    Lists(Vec<Vec<f64>>),
}

impl Builder {
    /// For a field; numbers as text if asked for.
    pub(super) fn new(field: &Field, as_text: bool, location: &str) -> Result<Self> {
        let dates =
            |per_second: i64, has_zone: bool| Builder::Dates { ticks: Vec::new(), per_second, has_zone };
        Ok(match field.data_type() {
            DataType::Boolean => Builder::Truth(Vec::new()),
            kind if kind.is_numeric() && as_text => Builder::Words(Coder::default()),
            kind if kind.is_numeric() || *kind == DataType::Null => Builder::Numbers(Vec::new()),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Builder::Words(Coder::default()),
            DataType::Dictionary(_, value) if value.is_numeric() => Builder::Numbers(Vec::new()),
            DataType::Dictionary(..) => {
                let is_ordered = field.dict_is_ordered() == Some(true);
                Builder::Categories(Coder::default(), is_ordered.then(Vec::new))
            }
            DataType::Date32 | DataType::Date64 => dates(1, false),
            DataType::Timestamp(unit, zone) => dates(per_second(unit), zone.is_some()),
            kind if list_element(kind).is_some_and(|element| element.is_numeric()) => {
                Builder::Lists(Vec::new())
            }
            other => {
                let problem = format!(
                    "column `{}` holds {other}, which is neither numbers nor text nor dates",
                    field.name()
                );
                let hint = Hint::new("remove it, or name it with ").setting_to("labels", "column:NAME");
                return Err(Error::data(location, problem).with_hint(hint.text(" if it is the label")));
            }
        })
    }

    /// Adds a block; `first_row` is the number of its first row, for messages.
    pub(super) fn add(
        &mut self,
        column: &ArrayRef,
        first_row: usize,
        name: &str,
        location: &str,
    ) -> Result<()> {
        let cast = |kind: &DataType| cast(column, kind).map_err(|e| damaged(location, &e));
        let what = format_args!("the table in `{location}`");
        const FEWER: &str = "give fewer rows or columns";
        match self {
            Builder::Numbers(values) => {
                grow(values, column.len(), &what, FEWER)?;
                let numbers = cast(&DataType::Float64)?;
                values.extend(numbers.as_primitive::<Float64Type>().iter().map(|x| x.unwrap_or(f64::NAN)));
            }
            Builder::Truth(values) => values.extend(column.as_boolean().iter()),
            Builder::Words(coder) => {
                let text = cast(&DataType::Utf8)?;
                text.as_string::<i32>().iter().for_each(|word| coder.push(word.map(str::trim)));
            }
            Builder::Categories(coder, order) => {
                if let Some(order) = order {
                    let levels = column.as_any_dictionary().values().clone();
                    let levels =
                        arrow_cast::cast(&levels, &DataType::Utf8).map_err(|e| damaged(location, &e))?;
                    for level in levels.as_string::<i32>().iter().flatten() {
                        if !order.iter().any(|known| known == level) {
                            order.push(level.to_string());
                        }
                    }
                }
                let text = cast(&DataType::Utf8)?;
                text.as_string::<i32>().iter().for_each(|word| coder.push(word));
            }
            Builder::Dates { ticks, per_second, .. } => {
                let kind = match column.data_type() {
                    DataType::Timestamp(..) => column.data_type().clone(),
                    _ => DataType::Timestamp(TimeUnit::Second, None),
                };
                *per_second =
                    if let DataType::Timestamp(unit, _) = &kind { self::per_second(unit) } else { 1 };
                let whole =
                    arrow_cast::cast(&cast(&kind)?, &DataType::Int64).map_err(|e| damaged(location, &e))?;
                ticks.extend(whole.as_primitive::<Int64Type>().iter());
            }
            Builder::Lists(columns) => {
                let (values, width, _) = flatten(column, first_row, name, location)?;
                if columns.is_empty() {
                    columns.resize(width, Vec::new());
                } else if columns.len() != width && !column.is_empty() {
                    return Err(uneven(location, first_row, name, width, columns.len()));
                }
                let numbers =
                    arrow_cast::cast(&values, &DataType::Float64).map_err(|e| damaged(location, &e))?;
                let numbers = numbers.as_primitive::<Float64Type>().values().clone();
                for (k, column) in columns.iter_mut().enumerate() {
                    grow(column, numbers.len() / width.max(1), &what, FEWER)?;
                    column.extend(numbers.iter().skip(k).step_by(width.max(1)));
                }
            }
        }
        Ok(())
    }

    /// The column, or the columns of a list.
    pub(super) fn finish(self, name: &str) -> Vec<RawColumn> {
        let one = |cells: RawCells| vec![RawColumn { name: name.to_string(), cells }];
        match self {
            Builder::Numbers(values) => one(RawCells::Numbers(values)),
            Builder::Truth(values) => one(RawCells::Truth(values)),
            Builder::Words(coder) => one(RawCells::Words(coder.finish())),
            Builder::Categories(coder, order) => {
                let coded = coder.finish();
                let ordered = order.is_some();
                let coded = order.map_or(coded.clone(), |order| coded.in_order(&order));
                one(RawCells::Categories { coded, ordered })
            }
            Builder::Dates { ticks, per_second, has_zone } => one(dates(&ticks, per_second, has_zone)),
            Builder::Lists(columns) => {
                let names = column_names(name, columns.len(), true);
                let column = |(name, values)| RawColumn::numbers(name, values);
                names.into_iter().zip(columns).map(column).collect()
            }
        }
    }
}

fn per_second(unit: &TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// Ticks as seconds, with no more decimals than they have; dates if all are midnights without a zone.
fn dates(ticks: &[Option<i64>], per_second: i64, has_zone: bool) -> RawCells {
    let seconds = |tick: &Option<i64>| tick.map_or(f64::NAN, |tick| tick as f64 / per_second as f64);
    let divides = |unit: i64| ticks.iter().flatten().all(|tick| tick % unit == 0);
    let decimals = (0..=9u8).find(|&decimals| {
        let unit = per_second / 10i64.pow(u32::from(decimals)).min(per_second);
        divides(unit.max(1))
    });
    let format = if !has_zone && divides(per_second.saturating_mul(86_400)) {
        DateFormat::DAYS
    } else {
        DateFormat::timestamps(if has_zone { Zone::Utc } else { Zone::Local }, decimals.unwrap_or(9))
    };
    RawCells::Dates { seconds: ticks.iter().map(seconds).collect(), format }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_have_the_decimals_that_they_need() {
        let format = |ticks: &[i64], per_second: i64, has_zone: bool| {
            let ticks: Vec<Option<i64>> = ticks.iter().map(|&tick| Some(tick)).collect();
            match dates(&ticks, per_second, has_zone) {
                RawCells::Dates { format, seconds } => (format.time.map(|time| time.decimals), seconds[0]),
                _ => unreachable!(),
            }
        };
        assert_eq!(format(&[86_400_000, 0], 1_000, false), (None, 86_400.0));
        assert_eq!(format(&[86_400_000, 0], 1_000, true), (Some(0), 86_400.0));
        assert_eq!(format(&[1_500, 0], 1_000, false), (Some(1), 1.5));
        assert_eq!(format(&[-1, 0], 1_000_000, false), (Some(6), -1e-6));
        assert_eq!(format(&[7], 1, false), (Some(0), 7.0));
    }
}
