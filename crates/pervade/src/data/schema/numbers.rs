//! Which type a column of numbers has.

use std::collections::HashSet;

use super::names::{IdName, looks_like_id};
use super::{Column, ColumnType, LevelKind, number_text};

/// Fewer cells than this say nothing about the shape of a column.
const MIN_CELLS: usize = 20;
/// Different values are only counted up to here: a column with more is no rating.
const MANY_VALUES: usize = 20;
/// Whole numbers with at most so many different values are grades or ratings, not counts.
const FEW_VALUES: usize = 5;
/// Counts have at least this skewness; symmetric ones are numbers like any other.
const COUNT_SKEWNESS: f64 = 0.5;
/// Larger counts are amounts.
const MAX_COUNT: f64 = 1e5;
/// Amounts have a larger skewness than this, and the logarithm removes at least a quarter of it.
const POSITIVE_SKEWNESS: f64 = 2.0;
const LEFT_AFTER_LOG: f64 = 0.75;
/// Share of different values above which nearly every one differs.
pub(super) const NEARLY_ALL: f64 = 0.9;

/// What the cells of a column of numbers have in common.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Summary {
    /// Cells that are not missing.
    pub(super) n_cells: usize,
    /// Cells that are missing.
    pub(super) n_missing: usize,
    pub(super) low: f64,
    pub(super) high: f64,
    /// Whether all numbers are whole.
    pub(super) whole: bool,
    /// The different values in ascending order, up to one more than [`MANY_VALUES`].
    pub(super) values: Vec<f64>,
    /// Third standardised moment.
    skewness: f64,
}

impl Summary {
    /// Of the cells of a column; NaN where missing.
    pub(super) fn of(cells: impl Iterator<Item = f64> + Clone) -> Self {
        let mut summing = Summing::default();
        cells.clone().for_each(|x| summing.add(x));
        let mut moments = summing.moments();
        cells.for_each(|x| moments.add(x));
        summing.finish(&moments)
    }

    /// The only value, or none: such a column says nothing about its rows.
    pub(super) fn is_constant(&self) -> bool {
        self.values.len() < 2
    }

    /// The type of the column; `cells` are those that the summary is of.
    ///
    /// - yes/no: 0 and 1, 1 and 2, or two other such neighbours;
    /// - count: whole numbers from zero on with more than five values, a skewness above 0.5 and a maximum of at most 1e5;
    /// - positive: above zero (or a count with a larger maximum) with more than twenty values and a skewness above 2, of
    ///   which the logarithm leaves less than three quarters;
    /// - number: all others, such as ratings from 1 to 10, and if there are fewer than twenty cells.
    pub(super) fn kind(&self, cells: impl Iterator<Item = f64> + Clone) -> ColumnType {
        if self.values == [0.0, 1.0] {
            return ColumnType::YesNo;
        }
        if self.n_cells < MIN_CELLS {
            return ColumnType::Number;
        }
        if self.whole && self.low >= 0.0 && self.values.len() == 2 && self.high == self.low + 1.0 {
            return ColumnType::YesNo;
        }
        if self.low < 0.0 {
            return ColumnType::Number;
        }
        let counts = self.whole && self.low == 0.0 && self.values.len() > FEW_VALUES;
        if counts && self.skewness > COUNT_SKEWNESS && self.high <= MAX_COUNT {
            return ColumnType::Count;
        }
        let amounts = self.low > 0.0 || counts && self.high > MAX_COUNT;
        if amounts && self.values.len() > MANY_VALUES && self.skewness > POSITIVE_SKEWNESS {
            let logs = cells.filter(|x| !x.is_nan()).map(f64::ln_1p);
            let mean = logs.clone().sum::<f64>() / self.n_cells as f64;
            let mut moments = Moments { mean, second: 0.0, third: 0.0 };
            logs.for_each(|x| moments.add(x));
            if moments.skewness(self.n_cells) < LEFT_AFTER_LOG * self.skewness {
                return ColumnType::Positive;
            }
        }
        ColumnType::Number
    }

    /// The column with this name and type.
    pub(super) fn column(&self, name: &str, kind: ColumnType) -> Column {
        let mut column = Column::new(name, kind);
        column.whole = self.whole;
        column.has_gaps = self.n_missing > 0;
        if kind == ColumnType::YesNo {
            column.levels = self.values.iter().map(|&value| number_text(value, true)).collect();
            column.level_kind = LevelKind::Numbers;
        }
        column
    }
}

/// The cells of a column that were looked at so far.
#[derive(Debug, Clone)]
pub(super) struct Summing {
    n_cells: usize,
    n_missing: usize,
    sum: f64,
    low: f64,
    high: f64,
    whole: bool,
    values: Vec<f64>,
    last: f64,
}

impl Default for Summing {
    fn default() -> Self {
        let (low, high) = (f64::INFINITY, f64::NEG_INFINITY);
        Self {
            n_cells: 0,
            n_missing: 0,
            sum: 0.0,
            low,
            high,
            whole: true,
            values: Vec::new(),
            last: f64::NAN,
        }
    }
}

impl Summing {
    /// Adds a cell; NaN if it is missing.
    pub(super) fn add(&mut self, x: f64) {
        if x.is_nan() {
            self.n_missing += 1;
            return;
        }
        self.n_cells += 1;
        self.sum += x;
        (self.low, self.high) = (self.low.min(x), self.high.max(x));
        self.whole &= x == x.trunc();
        if x != self.last && self.values.len() <= MANY_VALUES {
            let at = self.values.partition_point(|&value| value < x);
            if self.values.get(at) != Some(&x) {
                self.values.insert(at, x);
            }
        }
        self.last = x;
    }

    /// For a second pass over the same cells.
    pub(super) fn moments(&self) -> Moments {
        Moments { mean: self.sum / self.n_cells as f64, second: 0.0, third: 0.0 }
    }

    /// The summary, after both passes.
    pub(super) fn finish(self, moments: &Moments) -> Summary {
        let skewness = moments.skewness(self.n_cells);
        let Self { n_cells, n_missing, low, high, whole, values, .. } = self;
        Summary { n_cells, n_missing, low, high, whole, values, skewness }
    }
}

/// Sums of the second and third powers of deviations from the mean.
#[derive(Debug, Clone)]
pub(super) struct Moments {
    mean: f64,
    second: f64,
    third: f64,
}

impl Moments {
    /// Adds a cell; NaN if it is missing.
    pub(super) fn add(&mut self, x: f64) {
        if !x.is_nan() {
            let square = (x - self.mean) * (x - self.mean);
            self.second += square;
            self.third += square * (x - self.mean);
        }
    }

    fn skewness(&self, n: usize) -> f64 {
        let (second, third) = (self.second / n as f64, self.third / n as f64);
        // Of a constant it is not defined, and rounding may leave a deviation of about 1e-16 of the mean.
        if second.sqrt() > 1e-12 * self.mean.abs() { third / second.powf(1.5) } else { 0.0 }
    }
}

/// Why a column of numbers is an id or row numbers, if it is: by its name and its values.
pub(super) fn id_reason(name: &str, cells: &[f64], summary: &Summary) -> Option<String> {
    let kind = looks_like_id(name)?;
    if !summary.whole || summary.values.len() <= 2 {
        return None;
    }
    let different: HashSet<u64> = cells.iter().filter(|x| !x.is_nan()).map(|x| x.to_bits()).collect();
    let reason = differing(different.len(), summary.n_cells);
    match kind {
        _ if is_counting(cells) => Some("row numbers".to_string()),
        IdName::Id => {
            Some(reason.map_or("an id, by its name".to_string(), |reason| format!("an id: {reason}")))
        }
        IdName::Index => reason.map(|reason| format!("an id: {reason}")),
        IdName::Unnamed => None,
    }
}

/// How many of the cells differ, if it is nearly all of them.
pub(super) fn differing(n_different: usize, n_cells: usize) -> Option<&'static str> {
    if n_different == n_cells {
        Some("every value differs")
    } else if n_different as f64 >= NEARLY_ALL * n_cells as f64 {
        Some("nearly every value differs")
    } else {
        None
    }
}

/// Whether the cells are row numbers: they count from 0 or 1 upwards, and may start again.
fn is_counting(cells: &[f64]) -> bool {
    let first = cells.first().copied().unwrap_or(f64::NAN);
    (first == 0.0 || first == 1.0)
        && cells.windows(2).all(|pair| pair[1] == pair[0] + 1.0 || pair[1] == first)
        && cells.iter().filter(|&&x| x == first).count() * 3 <= cells.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(cells: &[f64]) -> ColumnType {
        Summary::of(cells.iter().copied()).kind(cells.iter().copied())
    }

    /// Third standardised moment by its definition, as `scipy.stats.skew` has it: 1.0182... for 0, 0, 0, 1, 2, 9.
    #[test]
    fn skewness_is_the_third_standardised_moment() {
        let cells = [0.0, 0.0, 0.0, 1.0, 2.0, 9.0];
        let mean = cells.iter().sum::<f64>() / 6.0;
        let moment = |power: i32| cells.iter().map(|x: &f64| (x - mean).powi(power)).sum::<f64>() / 6.0;
        let summary = Summary::of(cells.iter().copied().chain([f64::NAN]));
        assert!((summary.skewness - moment(3) / moment(2).powf(1.5)).abs() < 1e-12);
        assert_eq!((summary.n_cells, summary.n_missing, summary.values.len()), (6, 1, 4));
        assert_eq!(Summary::of([0.1; 30].into_iter()).skewness, 0.0);
    }

    #[test]
    fn shapes_of_numbers_decide_their_type() {
        let many = |f: &dyn Fn(usize) -> f64| (0..300).map(f).collect::<Vec<f64>>();
        let skewed = |i: usize| ((i * 7919 % 300) as f64 / 30.0).exp();
        assert_eq!(kind(&many(&skewed)), ColumnType::Positive);
        assert_eq!(kind(&many(&|i| -skewed(i))), ColumnType::Number);
        assert_eq!(kind(&many(&|i| skewed(i).floor() - 1.0)), ColumnType::Count);
        assert_eq!(
            kind(&many(&|i| (skewed(i) * 1000.0).floor() - 1000.0)),
            ColumnType::Positive,
            "large counts"
        );
        assert_eq!(kind(&many(&|i| (i % 97) as f64)), ColumnType::Number, "not skewed");
        assert_eq!(
            kind(&many(&|i| 1.0 + skewed(i).ln().floor().exp2().min(10.0))),
            ColumnType::Number,
            "a rating"
        );
        assert_eq!(kind(&many(&|i| skewed(i) / 1e5)), ColumnType::Number, "the logarithm changes nothing");
        assert_eq!(kind(&many(&|i| (i % 2 + 1) as f64)), ColumnType::YesNo);
        assert_eq!(kind(&many(&|i| (i % 2) as f64 / 2.0)), ColumnType::Number);
        assert_eq!(kind(&many(&skewed)[..10]), ColumnType::Number, "too few cells");
    }

    #[test]
    fn ids_are_whole_numbers_under_such_a_name() {
        let id = |name: &str, cells: &[f64]| id_reason(name, cells, &Summary::of(cells.iter().copied()));
        let counting: Vec<f64> = (0..200).map(|i| f64::from(i % 50 + 1)).collect();
        assert_eq!(id("index", &counting).unwrap(), "row numbers");
        assert_eq!(id("", &counting).unwrap(), "row numbers");
        assert_eq!(id("width", &counting), None);
        let different: Vec<f64> = (0..100).map(|i| f64::from(i * 7919 % 1000)).collect();
        assert_eq!(id("ID", &different).unwrap(), "an id: every value differs");
        assert_eq!(id("", &different), None);
        let repeated: Vec<f64> = (0..100).map(|i| f64::from(i * 7919 % 10)).collect();
        assert_eq!(id("store_id", &repeated).unwrap(), "an id, by its name");
        assert_eq!(id("index", &repeated), None, "a score that is called index");
        let fractions: Vec<f64> = different.iter().map(|x| x + 0.5).collect();
        assert_eq!(id("ID", &fractions), None);
        assert_eq!(id("has_id", &[0.0, 1.0, 0.0]), None);
    }
}
