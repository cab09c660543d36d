//! How long a page of a long table takes, and how large it becomes, before the work begins.

use std::time::Duration;

use pervade::data::Table;
use pervade::model::Vade;

use crate::words;

/// From so many rows on, it is worth a word.
const LONG: usize = 100_000;
/// Seconds of two threads per row of the map, per row, and per row and parameter of the networks. MNIST's page, with 3.4 million
/// parameters, took 19 s; a million rows of five typed columns some minutes, as their scores are means over many samples.
const PER_POINT: f64 = 3e-4;
const PER_ROW: f64 = 1e-5;
const PER_TYPED_ROW: f64 = 1.2e-4;
const PER_PARAMETER: f64 = 5e-11;
/// Bytes of a page without a map, and per row and array of the map.
const BASE: usize = 300_000;
const PER_CELL: f64 = 1.3;
/// Coordinates of two bytes each, cluster, confidence and score.
const ARRAYS: usize = 7;

/// A sentence about time and size, if the table is long.
pub(crate) fn forecast(model: &Vade, table: &Table, points: usize, threads: usize) -> Option<String> {
    let rows = table.data.n_rows();
    if rows < LONG {
        return None;
    }
    let shown = rows.min(points);
    let is_typed = model.schema().is_some();
    let per_row =
        if is_typed { PER_TYPED_ROW } else { PER_ROW } + model.n_parameters() as f64 * PER_PARAMETER;
    let work = shown as f64 * PER_POINT + rows as f64 * per_row;
    let seconds = work * 2.0 / threads.clamp(1, 8) as f64;
    let arrays = ARRAYS + super::map::COLOURS.min(model.n_columns());
    let bytes = BASE + (shown as f64 * arrays as f64 * PER_CELL) as usize;
    Some(format!(
        "{}: the page takes about {} and has about {}",
        words::counted(rows, "row"),
        words::duration(Duration::from_secs_f64(rounded(seconds))),
        words::bytes(rounded(bytes as f64) as u64)
    ))
}

/// To one digit that counts: more would be a promise.
fn rounded(x: f64) -> f64 {
    let unit = 10f64.powf(x.max(1.0).log10().floor());
    (x / unit).ceil() * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forecasts_are_coarse() {
        assert_eq!([0.3, 7.2, 61.0, 1_234_567.0].map(rounded), [1.0, 8.0, 70.0, 2_000_000.0]);
    }
}
