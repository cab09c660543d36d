//! Tables whose columns have types of their own: what the network sees of a row, and log p(x|z) with trained scales.

use crate::math::double::{exp, ln};
use crate::math::ln_1p;
use crate::ops::density::{self, Explained};
use crate::ops::sample::CellRandom;
use crate::random::Key;
use crate::{Matrix, Result, Sums};

/// The largest number of levels of a category: far more than are useful, few enough to be exact in single precision.
const MAX_LEVELS: usize = 1 << 16;

/// The distribution of a column given z.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ColumnFamily {
    /// The output is the mean, the scale the log variance, which counts as [`LEAST_LOG_VARIANCE`](crate::LEAST_LOG_VARIANCE)
    /// where it is below.
    Gaussian,
    /// Negative binomial: the output gives the logarithm of the mean, the scale is the logarithm of the dispersion.
    Count,
    /// Values 0 and 1; the output is a logit.
    Bernoulli,
    /// Values 0, 1, ... below the number of levels; the outputs are the logits of the levels.
    Categorical {
        /// How many levels there are.
        levels: u32,
    },
}

/// A column of a typed table. A cell that is NaN is missing.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TypedColumn {
    /// Its distribution.
    pub family: ColumnFamily,
    /// First column of the encoder's input.
    pub input: u32,
    /// First column of the decoder's output.
    pub output: u32,
    /// Index of its log scale: Gaussian and count columns have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<u32>,
    /// The input that is one where the cell is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<u32>,
    /// For counts: the input is (log1p(x) - shift) factor.
    pub shift: f32,
    /// For counts: the mean is exp(output / factor + shift). Not zero.
    pub factor: f32,
    /// The weight of its log likelihood, usually one.
    pub weight: f32,
}

impl TypedColumn {
    /// Columns of the encoder's input for its values; the input for gaps is not among them.
    pub fn n_inputs(&self) -> usize {
        self.n_outputs()
    }

    /// Columns of the decoder's output.
    pub fn n_outputs(&self) -> usize {
        match self.family {
            ColumnFamily::Categorical { levels } => levels as usize,
            _ => 1,
        }
    }

    /// Whether the cell has a value that the column can have: NaN and unknown levels are missing.
    #[inline]
    pub fn is_observed(&self, x: f32) -> bool {
        match self.family {
            ColumnFamily::Categorical { levels } => x >= 0.0 && x < levels as f32,
            _ => !x.is_nan(),
        }
    }

    /// Writes what the encoder sees of the cell `x` to its columns of a row of the encoder's input.
    #[inline]
    pub fn write_input(&self, x: f32, input: &mut [f32]) {
        let is_observed = self.is_observed(x);
        if let Some(gap) = self.gap {
            input[gap as usize] = f32::from(!is_observed);
        }
        let values = &mut input[self.input as usize..][..self.n_inputs()];
        values.fill(0.0);
        if is_observed {
            match self.family {
                ColumnFamily::Gaussian | ColumnFamily::Bernoulli => values[0] = x,
                ColumnFamily::Count => values[0] = (ln_1p(x.max(0.0)) - self.shift) * self.factor,
                ColumnFamily::Categorical { .. } => values[x as usize] = 1.0,
            }
        }
    }

    /// The columns that it has in a row of the decoder's output.
    fn outputs<'o>(&self, output: &'o [f32]) -> &'o [f32] {
        &output[self.output as usize..][..self.n_outputs()]
    }

    /// Its log scale; zero if it has none.
    fn log_scale(&self, scales: &[f32]) -> f32 {
        self.scale.map_or(0.0, |scale| scales[scale as usize])
    }

    /// The logarithm of a count's mean.
    fn log_mean(&self, output: f32) -> f64 {
        f64::from(output) / f64::from(self.factor) + f64::from(self.shift)
    }

    /// log p(x|z) of an observed cell of a column with one output, and its derivatives.
    fn explained(&self, x: f32, output: f32, scale: f32) -> Explained {
        match self.family {
            ColumnFamily::Gaussian => density::gaussian(x, output, scale),
            ColumnFamily::Count => {
                let explained = density::count(x, self.log_mean(output), scale);
                Explained { for_output: explained.for_output / f64::from(self.factor), ..explained }
            }
            ColumnFamily::Bernoulli | ColumnFamily::Categorical { .. } => density::bernoulli(x, output),
        }
    }

    /// log p(x|z) of the cell `x`, without its weight, in double precision; none if it is missing.
    pub fn log_density(&self, x: f32, output: &[f32], scales: &[f32]) -> Option<f64> {
        let output = self.outputs(output);
        self.is_observed(x).then(|| match self.family {
            ColumnFamily::Categorical { .. } => f64::from(output[x as usize]) - density::log_sum_exp(output),
            _ => self.explained(x, output[0], self.log_scale(scales)).log_density,
        })
    }

    /// log p(x|z) of the cell `x` times its weight; its outputs and its scale are replaced by the gradient of that times
    /// `factor`.
    #[inline]
    pub(crate) fn explain(&self, x: f32, factor: f64, output: &mut [f32], scales: &mut [f32]) -> f64 {
        let (weight, scale) = (f64::from(self.weight), self.log_scale(scales));
        let factor = factor * weight;
        let output = &mut output[self.output as usize..][..self.n_outputs()];
        let mut for_scale = 0.0;
        let log_density = if !self.is_observed(x) {
            output.fill(0.0);
            0.0
        } else if let ColumnFamily::Categorical { .. } = self.family {
            let log_sum = density::log_sum_exp(output);
            let log_density = f64::from(output[x as usize]) - log_sum;
            for (level, o) in output.iter_mut().enumerate() {
                let chance = exp(f64::from(*o) - log_sum);
                *o = (factor * (f64::from(u8::from(level == x as usize)) - chance)) as f32;
            }
            log_density
        } else {
            let explained = self.explained(x, output[0], scale);
            output[0] = (factor * explained.for_output) as f32;
            for_scale = factor * explained.for_scale;
            explained.log_density
        };
        if let Some(scale) = self.scale {
            scales[scale as usize] = for_scale as f32;
        }
        weight * log_density
    }

    /// The information about a step from `at` to `moved` in the decoder's output that one cell has: the expected square of the
    /// log density's change, to second order.
    pub fn information(&self, at: &[f32], moved: &[f32], scales: &[f32]) -> f64 {
        let (at, moved) = (self.outputs(at), self.outputs(moved));
        let change = |o: usize| f64::from(moved[o]) - f64::from(at[o]);
        let weight = f64::from(self.weight);
        weight
            * match self.family {
                ColumnFamily::Gaussian => {
                    change(0).powi(2) / exp(density::log_variance(self.log_scale(scales)))
                }
                ColumnFamily::Count => {
                    let (mean, dispersion) =
                        density::count_parameters(self.log_mean(at[0]), self.log_scale(scales));
                    (change(0) / f64::from(self.factor)).powi(2) * mean / (1.0 + mean / dispersion)
                }
                ColumnFamily::Bernoulli => {
                    let chance = density::logistic(f64::from(at[0]));
                    change(0).powi(2) * chance * (1.0 - chance)
                }
                ColumnFamily::Categorical { .. } => {
                    let log_sum = density::log_sum_exp(at);
                    let chances = || at.iter().map(|&o| exp(f64::from(o) - log_sum)).enumerate();
                    let mean: f64 = chances().map(|(o, chance)| chance * change(o)).sum();
                    chances().map(|(o, chance)| chance * (change(o) - mean).powi(2)).sum()
                }
            }
    }

    /// The mean of a cell; of a category, its most likely level (ties go to the first).
    fn mean(&self, output: &[f32]) -> f32 {
        let output = self.outputs(output);
        match self.family {
            ColumnFamily::Gaussian => output[0],
            ColumnFamily::Count => density::count_parameters(self.log_mean(output[0]), 0.0).0 as f32,
            ColumnFamily::Bernoulli => density::logistic(f64::from(output[0])) as f32,
            ColumnFamily::Categorical { .. } => {
                let better =
                    |best: usize, level: usize| if output[level] > output[best] { level } else { best };
                (1..output.len()).fold(0, better) as f32
            }
        }
    }

    /// Its part of the decoder's output as expected values: the mean of a number, the probability of a one, or that of each level.
    pub fn expected(&self, output: &[f32]) -> Vec<f64> {
        match self.family {
            ColumnFamily::Categorical { .. } => {
                let logits = self.outputs(output);
                let log_sum = density::log_sum_exp(logits);
                logits.iter().map(|&o| exp(f64::from(o) - log_sum)).collect()
            }
            _ => vec![f64::from(self.mean(output))],
        }
    }

    /// The variance of a Gaussian column.
    pub fn variance(&self, scales: &[f32]) -> f64 {
        exp(density::log_variance(self.log_scale(scales)))
    }

    fn draw(&self, output: &[f32], scales: &[f32], mut random: CellRandom) -> f32 {
        let (output, scale) = (self.outputs(output), self.log_scale(scales));
        match self.family {
            ColumnFamily::Gaussian => {
                let deviation = exp(0.5 * density::log_variance(scale));
                (f64::from(output[0]) + deviation * random.normal()) as f32
            }
            ColumnFamily::Count => {
                let (mean, dispersion) = density::count_parameters(self.log_mean(output[0]), scale);
                random.count(mean, dispersion) as f32
            }
            ColumnFamily::Bernoulli => random.chance(density::logistic(f64::from(output[0]))),
            ColumnFamily::Categorical { .. } => random.category(output, density::log_sum_exp(output)) as f32,
        }
    }

    /// Whether its own numbers are ones that it may have.
    fn is_valid(&self) -> bool {
        let has_scale = matches!(self.family, ColumnFamily::Gaussian | ColumnFamily::Count);
        let numbers = [self.shift, self.factor, self.weight];
        (1..=MAX_LEVELS).contains(&self.n_outputs())
            && self.scale.is_some() == has_scale
            && numbers.iter().all(|x| x.is_finite())
            && self.factor.is_normal()
            && self.weight >= 0.0
    }
}

/// What p(x|z) of a row consists of when it has trained scales.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ColumnTable<'a> {
    /// Columns with types of their own.
    Typed(&'a [TypedColumn]),
    /// All columns are counts: negative binomial with the mean (sum of the row) softmax(output)_j and a dispersion per
    /// column. A row of zeros adds nothing.
    Counts {
        /// The number of columns, D.
        n_columns: usize,
    },
}

impl ColumnTable<'_> {
    /// The number of columns, D.
    pub fn n_columns(&self) -> usize {
        match self {
            ColumnTable::Typed(columns) => columns.len(),
            ColumnTable::Counts { n_columns } => *n_columns,
        }
    }

    /// Columns of the encoder's input.
    pub fn n_inputs(&self) -> usize {
        match self {
            ColumnTable::Typed(columns) => {
                columns.iter().map(|column| column.n_inputs() + usize::from(column.gap.is_some())).sum()
            }
            ColumnTable::Counts { n_columns } => *n_columns,
        }
    }

    /// Columns of the decoder's output.
    pub fn n_outputs(&self) -> usize {
        match self {
            ColumnTable::Typed(columns) => columns.iter().map(TypedColumn::n_outputs).sum(),
            ColumnTable::Counts { n_columns } => *n_columns,
        }
    }

    /// The number of log scales.
    pub fn n_scales(&self) -> usize {
        match self {
            ColumnTable::Typed(columns) => columns.iter().filter(|column| column.scale.is_some()).count(),
            ColumnTable::Counts { n_columns } => *n_columns,
        }
    }

    /// Whether the columns' numbers are ones that they may have, and whether every input, output and scale belongs to exactly
    /// one column; what is read from a file may be anything.
    pub fn is_valid(&self) -> bool {
        let ColumnTable::Typed(columns) = self else { return true };
        // Each with its length; one after the other without a gap they must fill the range from zero.
        let fills = |mut ranges: Vec<(u64, u64)>| {
            ranges.sort_unstable();
            let mut end = 0;
            ranges.into_iter().all(|(first, len)| {
                let follows = first == end;
                end = first + len;
                follows
            })
        };
        let one = |index: Option<u32>| index.map(|index| (u64::from(index), 1));
        let inputs = |c: &TypedColumn| [Some((u64::from(c.input), c.n_inputs() as u64)), one(c.gap)];
        let outputs = |c: &TypedColumn| (u64::from(c.output), c.n_outputs() as u64);
        columns.iter().all(TypedColumn::is_valid)
            && fills(columns.iter().flat_map(inputs).flatten().collect())
            && fills(columns.iter().map(outputs).collect())
            && fills(columns.iter().filter_map(|column| one(column.scale)).collect())
    }

    /// log p(x|z) of one row, summed over observed cells with their weights, in double precision.
    pub fn log_density(&self, x: &[f32], output: &[f32], scales: &[f32]) -> f64 {
        let weight = |j: usize| match self {
            ColumnTable::Typed(columns) => f64::from(columns[j].weight),
            ColumnTable::Counts { .. } => 1.0,
        };
        let mut cells = Vec::with_capacity(x.len());
        self.append_log_densities(x, output, scales, &mut cells);
        let observed = cells.iter().enumerate().filter(|(_, value)| !value.is_nan());
        observed.map(|(j, value)| weight(j) * value).sum()
    }

    /// log p(x|z) of each cell of a row without its weight, appended to `cells`; NaN for missing ones.
    pub fn append_log_densities(&self, x: &[f32], output: &[f32], scales: &[f32], cells: &mut Vec<f64>) {
        match self {
            ColumnTable::Typed(columns) => {
                let value = |(column, &x): (&TypedColumn, &f32)| column.log_density(x, output, scales);
                cells.extend(columns.iter().zip(x).map(|cell| value(cell).unwrap_or(f64::NAN)));
            }
            ColumnTable::Counts { n_columns } => match log_factor(x, output) {
                Some(factor) => cells.extend(
                    (0..*n_columns)
                        .map(|j| density::count(x[j], f64::from(output[j]) + factor, scales[j]).log_density),
                ),
                None => cells.extend((0..*n_columns).map(|_| 0.0)),
            },
        }
    }

    /// The mean of p(x|z) of one row, appended to `mean`: the probability of a one, the most likely level of a category.
    /// `row_sum` is the sum of a row of counts, and unused for typed columns.
    pub fn append_mean(&self, output: &[f32], row_sum: f32, mean: &mut Vec<f32>) {
        match self {
            ColumnTable::Typed(columns) => mean.extend(columns.iter().map(|column| column.mean(output))),
            ColumnTable::Counts { .. } => {
                let log_sum = density::log_sum_exp(output);
                mean.extend(
                    output.iter().map(|&o| (f64::from(row_sum) * exp(f64::from(o) - log_sum)) as f32),
                );
            }
        }
    }

    /// A sample of p(x|z) of one row, appended to `cells`; it depends only on the key and the index of the row. `row_sum` as
    /// in [`append_mean`](Self::append_mean).
    pub fn append_draw(
        &self,
        output: &[f32],
        scales: &[f32],
        row_sum: f32,
        (key, row): (Key, u64),
        cells: &mut Vec<f32>,
    ) {
        let random = |j: usize| CellRandom::new(key, row, j);
        match self {
            ColumnTable::Typed(columns) => {
                let columns = columns.iter().enumerate();
                cells.extend(columns.map(|(j, column)| column.draw(output, scales, random(j))));
            }
            ColumnTable::Counts { .. } => {
                let factor = ln(f64::from(row_sum)) - density::log_sum_exp(output);
                cells.extend(output.iter().zip(scales).enumerate().map(|(j, (&o, &scale))| {
                    let (mean, dispersion) = density::count_parameters(f64::from(o) + factor, scale);
                    random(j).count(mean, dispersion) as f32
                }));
            }
        }
    }
}

/// What is added to an output of a table of counts to give the logarithm of the mean: ln(sum of the row) - ln(sum of e^o); none
/// for a row of zeros.
fn log_factor(x: &[f32], output: &[f32]) -> Option<f64> {
    let sum = density::row_sum(x.iter().copied());
    (sum > 0.0).then(|| ln(sum) - density::log_sum_exp(output))
}

/// log p(x|z) of tables with trained scales, and its gradient.
pub trait TypedLikelihood: Sums {
    /// The table's columns on the device.
    type Columns: Send + Sync;

    /// Makes a valid table of columns available to `typed_likelihood`.
    fn columns(&self, table: ColumnTable<'_>) -> Result<Self::Columns>;

    /// Adds log p(x|z) of the first B rows of each restart's `x`, summed over observed cells with their weights, to the sums,
    /// which were made for B rows. Output [R, L B, O] and log scales [R, L B, S] are replaced by the gradients of the loss, the
    /// mean of -log p(x|z) over B and L.
    ///
    /// Scales are given per row because they are the output of an affine layer whose only input is one: the gradient of its
    /// bias is theirs.
    fn typed_likelihood(
        &self,
        columns: &Self::Columns,
        x: &Matrix<Self::Buffer>,
        output: &mut Matrix<Self::Buffer>,
        scales: &mut Matrix<Self::Buffer>,
        sums: &mut Self::Sums,
    ) -> Result<()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(family: ColumnFamily, at: u32, scale: Option<u32>) -> TypedColumn {
        TypedColumn { family, input: at, output: at, scale, gap: None, shift: 0.5, factor: 2.0, weight: 1.0 }
    }

    /// One column of each family; the gap of the first is the last input.
    fn one_of_each() -> [TypedColumn; 4] {
        [
            TypedColumn { gap: Some(6), ..column(ColumnFamily::Gaussian, 0, Some(0)) },
            column(ColumnFamily::Count, 1, Some(1)),
            column(ColumnFamily::Categorical { levels: 3 }, 2, None),
            column(ColumnFamily::Bernoulli, 5, None),
        ]
    }

    #[test]
    fn columns_that_overlap_or_leave_holes_are_invalid() {
        let columns = one_of_each();
        let table = ColumnTable::Typed(&columns);
        assert!(table.is_valid());
        let sizes = [table.n_columns(), table.n_inputs(), table.n_outputs(), table.n_scales()];
        assert_eq!(sizes, [4, 7, 6, 2]);
        let breaks: [fn(&mut [TypedColumn]); 11] = [
            |c| c[3].input = 4,
            |c| c[3].input = 7,
            |c| c[3].output = u32::MAX,
            |c| c[0].gap = Some(2),
            |c| c[1].scale = Some(0),
            |c| c[1].scale = None,
            |c| c[3].scale = Some(2),
            |c| c[2].family = ColumnFamily::Categorical { levels: u32::MAX },
            |c| c[2].family = ColumnFamily::Categorical { levels: 0 },
            |c| c[1].factor = 0.0,
            |c| c[1].weight = f32::NAN,
        ];
        for (i, break_one) in breaks.into_iter().enumerate() {
            let mut columns = one_of_each();
            break_one(&mut columns);
            assert!(!ColumnTable::Typed(&columns).is_valid(), "{i}");
        }
    }

    const OUTPUT: [f32; 6] = [0.7, 1.0, 0.1, 2.0, 2.0, -0.4];

    #[test]
    fn means_are_in_the_units_of_the_cells() {
        let (columns, mut mean) = (one_of_each(), Vec::new());
        ColumnTable::Typed(&columns).append_mean(&OUTPUT, f32::NAN, &mut mean);
        let expected = [0.7, 1f32.exp(), 1.0, 1.0 / (1.0 + 0.4f32.exp())];
        assert!(mean.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{mean:?}");
        mean.clear();
        ColumnTable::Counts { n_columns: 3 }.append_mean(&[0.0, 0.0, 2f32.ln()], 8.0, &mut mean);
        assert!(mean.iter().zip([2.0, 2.0, 4.0]).all(|(a, b)| (a - b).abs() < 1e-5), "{mean:?}");
    }

    /// The average log density of samples is minus the entropy of the distributions that they come from.
    #[test]
    fn draws_follow_the_density() {
        let (columns, scales, n) = (one_of_each(), [-0.3f32, 0.8], 20_000u64);
        let table = ColumnTable::Typed(&columns);
        let key = Key::new(5, 12u32, 0);
        let mut sums = [[0.0; 3]; 4];
        let (mut x, mut densities) = (Vec::new(), Vec::new());
        for row in 0..n {
            x.clear();
            densities.clear();
            table.append_draw(&OUTPUT, &scales, f32::NAN, (key, row), &mut x);
            table.append_log_densities(&x, &OUTPUT, &scales, &mut densities);
            for ((sums, x), density) in sums.iter_mut().zip(&x).zip(&densities) {
                let x = f64::from(*x);
                sums.iter_mut().zip([x, x * x, *density]).for_each(|(sum, value)| *sum += value / n as f64);
            }
        }
        let close = |ours: f64, expected: f64, error: f64| {
            assert!((ours - expected).abs() < 5.0 * error, "{ours}, {expected}");
        };
        let root = (n as f64).sqrt();
        // Gaussian: mean, second moment, entropy.
        let variance = f64::from(scales[0]).exp();
        close(sums[0][0], 0.7, variance.sqrt() / root);
        close(sums[0][1], 0.49 + variance, 2.0 * variance / root + 1.4 * variance.sqrt() / root);
        close(sums[0][2], -0.5 * (std::f64::consts::TAU * variance).ln() - 0.5, 1.0 / root);
        let (mean, r) = (1f64.exp(), f64::from(scales[1]).exp());
        let variance = mean + mean * mean / r;
        close(sums[1][0], mean, variance.sqrt() / root);
        close(sums[1][1] - sums[1][0].powi(2), variance, 4.0 * variance / root);
        // The chances of a category and of a one.
        let powers = [0.1f64, 2.0, 2.0].map(f64::exp);
        let total: f64 = powers.iter().sum();
        close(sums[2][0], (powers[1] + 2.0 * powers[2]) / total, 1.0 / root);
        close(sums[2][2], powers.iter().map(|p| p / total * (p / total).ln()).sum(), 1.0 / root);
        close(sums[3][0], 1.0 / (1.0 + 0.4f64.exp()), 0.5 / root);
    }

    #[test]
    fn rows_of_counts_are_drawn_with_their_sum() {
        let (mut x, n) = (Vec::new(), 4000u64);
        let table = ColumnTable::Counts { n_columns: 2 };
        (0..n).for_each(|row| {
            table.append_draw(&[0.0, 3f32.ln()], &[5.0, 5.0], 40.0, (Key::new(2, 1u32, 0), row), &mut x);
        });
        let mean = |j: usize| x.iter().skip(j).step_by(2).map(|&k| f64::from(k)).sum::<f64>() / n as f64;
        assert!((mean(0) - 10.0).abs() < 0.3 && (mean(1) - 30.0).abs() < 0.5, "{} {}", mean(0), mean(1));
    }

    #[test]
    fn rows_without_a_count_and_cells_without_a_value_add_nothing() {
        let columns = one_of_each();
        let table = ColumnTable::Typed(&columns);
        let scales = [0.2, 0.3];
        let mut densities = Vec::new();
        // The level does not exist.
        table.append_log_densities(&[f32::NAN, 3.0, 3.0, 1.0], &OUTPUT, &scales, &mut densities);
        assert!(densities[0].is_nan() && densities[2].is_nan() && densities[1] < 0.0 && densities[3] < 0.0);
        let total = table.log_density(&[f32::NAN, 3.0, 3.0, 1.0], &OUTPUT, &scales);
        assert_eq!(total, densities[1] + densities[3]);
        assert_eq!(table.log_density(&[f32::NAN; 4], &OUTPUT, &scales), 0.0);
        let counts = ColumnTable::Counts { n_columns: 2 };
        assert_eq!(counts.log_density(&[0.0; 2], &OUTPUT[..2], &scales), 0.0);
    }
}
