//! How long a page of a long table takes, and how large it becomes, before the work begins.

use std::time::{Duration, Instant};

use pervade::Result;
use pervade::compute::Device;
use pervade::data::Dataset;
use pervade::describe::RowResults;
use pervade::model::Vade;

use super::Subject;
use crate::words;

/// From so many rows on, it is worth a word.
const LONG: usize = 100_000;
/// Rows that are timed, and more of them if these take too little time to say much.
const TIMED_ROWS: [usize; 2] = [1024, 8192];
const TOO_SHORT: Duration = Duration::from_millis(100);
/// Seconds of one thread per row on the map (100,000 rows took 13 s, 20,000 rows 3 s), and per cell for the descriptions of the
/// clusters (2.3 s for 20 million cells).
const PER_POINT: f64 = 1.5e-4;
const PER_CELL: f64 = 1.2e-7;
/// Bytes of a page without a map, and per row and array of the map.
const BASE: usize = 300_000;
const BYTES_PER_VALUE: f64 = 1.3;
/// Coordinates of two bytes each, cluster, confidence and score.
const ARRAYS: usize = 7;

/// A sentence about time and size, if the table is long. What is found out about each row depends on the model most: some rows
/// are timed.
pub(crate) fn forecast<D: Device>(
    subject: &Subject<'_>,
    device: &D,
    threads: usize,
) -> Result<Option<String>> {
    let (model, data) = (subject.model, subject.table.data);
    let (rows, shown) = (data.n_rows(), data.n_rows().min(subject.points));
    if rows < LONG {
        return Ok(None);
    }
    let cells = rows as f64 * data.n_columns() as f64;
    let of_threads = (shown as f64 * PER_POINT + cells * PER_CELL) / threads.clamp(1, 8) as f64;
    let seconds = rows as f64 * seconds_per_row(model, device, data)? + of_threads;
    let arrays = ARRAYS + super::map::COLOURS.min(model.n_columns());
    let bytes = BASE + (shown as f64 * arrays as f64 * BYTES_PER_VALUE) as usize;
    Ok(Some(format!(
        "{}: the page takes about {} and has about {}",
        words::counted(rows, "row"),
        in_words(seconds),
        words::bytes(rounded(bytes as f64) as u64)
    )))
}

/// The time that assigning, scoring and embedding some rows takes, for each of them.
fn seconds_per_row<D: Device>(model: &Vade, device: &D, data: &Dataset<'_>) -> Result<f64> {
    let mut per_row = 0.0;
    for n in TIMED_ROWS {
        let some = data.slice(0..n.min(data.n_rows()));
        let start = Instant::now();
        RowResults::new(model, device, &some)?;
        model.embed(device, &some)?;
        let spent = start.elapsed();
        per_row = spent.as_secs_f64() / some.n_rows() as f64;
        if spent >= TOO_SHORT {
            break;
        }
    }
    Ok(per_row)
}

/// Seconds to one digit that counts, or whole minutes: more would be a promise.
fn in_words(seconds: f64) -> String {
    match seconds {
        ..=60.0 => format!("{:.0} s", rounded(seconds)),
        _ => format!("{:.0} min", (seconds / 60.0).ceil()),
    }
}

/// Up to the next number with one digit that counts.
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
        assert_eq!([0.3, 7.2, 41.0, 61.0, 400.0].map(in_words), ["1 s", "8 s", "50 s", "2 min", "7 min"]);
    }
}
