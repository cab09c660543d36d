//! log p(x|z) of tables with trained scales: densities as sums and products, gradients as central differences of them.

use super::gradient::{CURVED, Step, Tensor, central_differences, gradient_cases};
use super::inputs::*;
use super::{Case, EveryOperation, Tolerance};
use crate::{
    ColumnFamily, ColumnTable, LEAST_LOG_VARIANCE, LOG_DISPERSION_LIMIT, LOG_MEAN_LIMIT, Result, TypedColumn,
};

/// Restarts, rows, samples per row, columns.
type Shape = [usize; 4];

pub(super) fn cases<D: EveryOperation>() -> Vec<Case<D>> {
    let mut cases = Vec::new();
    for kind in [Kind::Typed, Kind::Counts, Kind::Categories] {
        // 301 columns: more than a CUDA block has threads.
        for (shape, step) in [
            ([1, 4, 2, 11], Some(CURVED)),
            ([1, 1, 1, 1], None),
            ([2, 5, 1, 17], None),
            ([1, 3, 2, 301], None),
        ] {
            cases.extend(of_shape(kind, shape, step));
        }
        cases.push(of_restarts(kind));
    }
    cases.push(extreme_counts());
    cases.extend(extreme_slopes());
    cases.push(beyond_bounds());
    cases
}

/// Tables with trained scales.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// Columns of all families, with cells that are missing.
    Typed,
    /// Counts, with a row of zeros.
    Counts,
    /// Categories alone, which have no scales.
    Categories,
}

/// The families in turn. Outputs are in the reverse order of the columns, inputs of gaps after those of values.
pub(super) fn columns(n_columns: usize) -> Vec<TypedColumn> {
    let family = |j: usize| match j % 5 {
        0 => ColumnFamily::Gaussian,
        1 => ColumnFamily::Count,
        2 => ColumnFamily::Categorical { levels: 3 },
        3 => ColumnFamily::Bernoulli,
        _ => ColumnFamily::Categorical { levels: 1 + (j % 40) as u32 },
    };
    laid_out((0..n_columns).map(family).collect())
}

fn laid_out(families: Vec<ColumnFamily>) -> Vec<TypedColumn> {
    let column = |(j, family): (usize, ColumnFamily)| TypedColumn {
        family,
        input: 0,
        output: 0,
        scale: None,
        gap: None,
        shift: 0.4,
        factor: 0.8,
        weight: 0.5 + 0.25 * (j % 3) as f32,
    };
    let mut columns: Vec<TypedColumn> = families.into_iter().enumerate().map(column).collect();
    let (mut inputs, mut scales, mut outputs) = (0, 0, 0);
    for column in &mut columns {
        column.input = inputs;
        inputs += column.n_inputs() as u32;
        if matches!(column.family, ColumnFamily::Gaussian | ColumnFamily::Count) {
            column.scale = Some(scales);
            scales += 1;
        }
    }
    for column in columns.iter_mut().step_by(2) {
        column.gap = Some(inputs);
        inputs += 1;
    }
    for column in columns.iter_mut().rev() {
        column.output = outputs;
        outputs += column.n_outputs() as u32;
    }
    columns
}

/// A cell of each column in turn; every ninth is missing, and a category's may be of a level that is unknown.
pub(super) fn cells(columns: &[TypedColumn], n_rows: usize, salt: u32) -> Vec<f32> {
    let uniform = fractions(n_rows * columns.len(), salt);
    let cell = |(i, &u): (usize, &f32)| {
        if i % 9 == 4 {
            return f32::NAN;
        }
        match columns[i % columns.len()].family {
            ColumnFamily::Gaussian => 3.0 * u - 1.0,
            // Some of them beyond the counts whose densities are products.
            ColumnFamily::Count => (40.0 * u * u).floor(),
            ColumnFamily::Bernoulli => u.round(),
            ColumnFamily::Categorical { levels } => ((levels as f32 + 0.1) * u).floor(),
        }
    };
    uniform.iter().enumerate().map(cell).collect()
}

impl Kind {
    fn columns(self, n_columns: usize) -> Vec<TypedColumn> {
        match self {
            Kind::Typed => columns(n_columns),
            Kind::Categories => {
                let levels = |j: usize| ColumnFamily::Categorical { levels: 2 + (j % 5) as u32 };
                laid_out((0..n_columns).map(levels).collect())
            }
            Kind::Counts => Vec::new(),
        }
    }

    fn table(self, n_columns: usize, columns: &[TypedColumn]) -> ColumnTable<'_> {
        if self == Kind::Counts { ColumnTable::Counts { n_columns } } else { ColumnTable::Typed(columns) }
    }

    fn x(self, n_rows: usize, n_columns: usize) -> Vec<f32> {
        if self != Kind::Counts {
            return cells(&self.columns(n_columns), n_rows, 80);
        }
        let mut x: Vec<f32> =
            fractions(n_rows * n_columns, 80).iter().map(|u| (30.0 * u * u * u).floor()).collect();
        if n_rows > 2 {
            x[2 * n_columns..3 * n_columns].fill(0.0);
        }
        x
    }

    /// log p(x|z) of one row.
    fn log_density(self, columns: &[TypedColumn], x: &[f64], output: &[f64], scales: &[f64]) -> f64 {
        if self == Kind::Counts {
            let (log_sum, sum) = (log_sum_exp(output), x.iter().sum::<f64>());
            let cell = |j: usize| negative_binomial(x[j], sum * (output[j] - log_sum).exp(), scales[j].exp());
            return if sum > 0.0 { (0..x.len()).map(cell).sum() } else { 0.0 };
        }
        let value = |(column, &x): (&TypedColumn, &f64)| {
            let o = &output[column.output as usize..][..column.n_outputs()];
            let scale = column.scale.map_or(0.0, |scale| scales[scale as usize]);
            f64::from(column.weight) * log_density_of_cell(column, x, o, scale)
        };
        columns.iter().zip(x).map(value).sum()
    }
}

/// Sum over i < k of ln((r + i) / (i + 1)), and powers of the two chances.
fn negative_binomial(k: f64, mean: f64, r: f64) -> f64 {
    let ways: f64 = (0..k as u32).map(|i| ((r + f64::from(i)) / (f64::from(i) + 1.0)).ln()).sum();
    ways + k * (mean / (r + mean)).ln() - r * (mean / r).ln_1p()
}

/// log p of a cell, zero if it is missing.
fn log_density_of_cell(column: &TypedColumn, x: f64, output: &[f64], scale: f64) -> f64 {
    match column.family {
        _ if x.is_nan() => 0.0,
        ColumnFamily::Gaussian => {
            -0.5 * (std::f64::consts::TAU.ln() + scale + (x - output[0]).powi(2) / scale.exp())
        }
        ColumnFamily::Count => {
            let mean = (output[0] / f64::from(column.factor) + f64::from(column.shift)).exp();
            negative_binomial(x, mean, scale.exp())
        }
        ColumnFamily::Bernoulli => {
            let chance = 1.0 / (1.0 + (-output[0]).exp());
            (x * chance + (1.0 - x) * (1.0 - chance)).ln()
        }
        ColumnFamily::Categorical { .. } => output.get(x as usize).map_or(0.0, |o| o - log_sum_exp(output)),
    }
}

/// The device's sums of each restart, and the gradients for output and scales.
fn run<D: EveryOperation>(
    device: &D,
    table: ColumnTable<'_>,
    [r, b, samples, d]: Shape,
    x: &[f32],
    [output, scales]: [&[f32]; 2],
) -> Result<(Vec<f64>, [Vec<f32>; 2])> {
    // A batch may have more rows than those that count.
    let x_rows = x.len() / (r * d);
    let x = upload(device, [r, x_rows, d], x)?;
    let mut output = upload(device, [r, samples * b, table.n_outputs()], output)?;
    let mut scales = upload(device, [r, samples * b, table.n_scales()], scales)?;
    let mut sums = device.sums(r, b, samples)?;
    let columns = device.columns(table)?;
    device.typed_likelihood(&columns, &x, &mut output, &mut scales, &mut sums)?;
    let terms = device.take_sums(&mut sums)?;
    let gradients = [download(device, &output)?, download(device, &scales)?];
    Ok((terms.iter().map(|terms| terms.reconstruction).collect(), gradients))
}

/// Output and log scales, different for each row.
fn parameters(table: ColumnTable<'_>, [r, b, samples, _]: Shape) -> [Vec<f32>; 2] {
    let n = r * b * samples;
    [scaled(n * table.n_outputs(), 81, 1.5), scaled(n * table.n_scales(), 82, 1.5)]
}

/// The sum over rows of the means over samples, and its gradients.
fn of_shape<D: EveryOperation>(kind: Kind, shape: Shape, step: Option<Step>) -> Vec<Case<D>> {
    let [r, b, samples, d] = shape;
    let columns = kind.columns(d);
    let x = kind.x(r * b, d);
    let table = kind.table(d, &columns);
    let (n_outputs, n_scales) = (table.n_outputs(), table.n_scales());
    let [output, scales] = parameters(table, shape);
    let (wide_x, of_definition) = (wide(&x), columns.clone());
    // Of sample `i` among all.
    let row = move |i: usize, output: &[f64], scales: &[f64]| {
        let row = i / (b * samples) * b + i % b;
        kind.log_density(&of_definition, &wide_x[row * d..][..d], output, scales) / samples as f64
    };
    let part = move |at: &[Vec<f64>], i: usize| {
        [at[0][i * n_outputs..][..n_outputs].to_vec(), at[1][i * n_scales..][..n_scales].to_vec()]
    };
    let run = move |device: &D, at: &[Vec<f32>]| {
        let (totals, gradients) = run(device, kind.table(d, &columns), shape, &x, [&at[0], &at[1]])?;
        Ok((totals.iter().sum::<f64>(), gradients.to_vec()))
    };
    let name = format!("likelihood {kind:?} {shape:?}");
    let n = r * b * samples;
    let (value, value_of_device, at) = (row.clone(), run.clone(), vec![output.clone(), scales.clone()]);
    let wide_at: Vec<Vec<f64>> = at.iter().map(|values| wide(values)).collect();
    let of_row = move |i: usize| {
        let [output, scales] = part(&wide_at, i);
        value(i, &output, &scales)
    };
    let mut cases = vec![Case::against(
        name.clone(),
        Tolerance::Fixed(2e-6),
        move |_| Ok(vec![(0..n).map(&of_row).sum()]),
        move |device: &D| Ok(vec![value_of_device(device, &at)?.0]),
    )];
    let mut tensors = vec![Tensor::new("output", output, step)];
    // A tensor without numbers has no gradient to check.
    tensors.push(Tensor::new("scales", scales, step.filter(|_| n_scales > 0)));
    cases.extend(gradient_cases(
        &name,
        Tolerance::Fixed(5e-6),
        tensors,
        move |at| {
            let mut gradients = vec![Vec::new(), Vec::new()];
            for i in 0..n {
                let slopes = central_differences(&part(at, i), |at| -row(i, &at[0], &at[1]) / b as f64);
                gradients.iter_mut().zip(slopes).for_each(|(all, slopes)| all.extend(slopes));
            }
            gradients
        },
        move |device: &D, at| {
            let (total, gradients) = run(device, at)?;
            Ok((-total / b as f64, gradients))
        },
    ));
    cases
}

/// Restarts side by side give what each gives alone; of a batch with more rows the first count.
fn of_restarts<D: EveryOperation>(kind: Kind) -> Case<D> {
    let shape @ [r, b, samples, d] = [3, 5, 2, 13];
    let x_rows = b + 4;
    let alone = [1, b, samples, d];
    let list = |totals: Vec<f64>, gradients: [Vec<f32>; 2]| [totals, wide(&gradients.concat())].concat();
    let inputs = move || {
        let columns = kind.columns(d);
        let [output, scales] = parameters(kind.table(d, &columns), shape);
        (columns, kind.x(r * x_rows, d), output, scales)
    };
    Case::against(
        format!("likelihood {kind:?}, three restarts against each alone"),
        Tolerance::Fixed(0.0),
        move |device: &D| {
            let (columns, x, output, scales) = inputs();
            let (mut totals, mut gradients) = (Vec::new(), [Vec::new(), Vec::new()]);
            let part = |values: &[f32], i: usize| {
                let n = values.len() / r;
                values[i * n..(i + 1) * n].to_vec()
            };
            for i in 0..r {
                let (output, scales) = (part(&output, i), part(&scales, i));
                let table = kind.table(d, &columns);
                let x = part(&x, i)[..b * d].to_vec();
                let one = run(device, table, alone, &x, [&output, &scales])?;
                totals.extend(one.0);
                gradients.iter_mut().zip(one.1).for_each(|(all, one)| all.extend(one));
            }
            Ok(list(totals, gradients))
        },
        move |device: &D| {
            let (columns, x, output, scales) = inputs();
            let (totals, gradients) = run(device, kind.table(d, &columns), shape, &x, [&output, &scales])?;
            Ok(list(totals, gradients))
        },
    )
}

/// Counts from zero to a million, dispersions from near zero to nearly Poisson, means from small to large: (k, r, ln m).
fn extremes() -> Vec<(f32, f64, f32)> {
    let counts = [0.0, 1.0, 16.0, 17.0, 1000.0, 1e6];
    let dispersions: [f64; 3] = [1e-3, 2.5, 1e4];
    let log_means = [-4.0, 3.0, 12.0];
    let of_count = |k| dispersions.map(|r| log_means.map(|log_mean| (k, r, log_mean)));
    counts.into_iter().flat_map(of_count).flatten().collect()
}

/// One restart for each of the extremes, of one row and one column: values, and slopes for ln m and ln r.
fn run_extremes<D: EveryOperation>(device: &D) -> Result<(Vec<f64>, [Vec<f32>; 2])> {
    let column =
        TypedColumn { shift: 0.0, factor: 1.0, weight: 1.0, ..laid_out(vec![ColumnFamily::Count])[0] };
    let x: Vec<f32> = extremes().iter().map(|extreme| extreme.0).collect();
    let scales: Vec<f32> = extremes().iter().map(|extreme| extreme.1.ln() as f32).collect();
    let output: Vec<f32> = extremes().iter().map(|extreme| extreme.2).collect();
    run(device, ColumnTable::Typed(&[column]), [x.len(), 1, 1, 1], &x, [&output, &scales])
}

/// The dispersion as the device gets it: its logarithm in single precision.
fn rounded(r: f64) -> f64 {
    f64::from(r.ln() as f32).exp()
}

/// Each value relative to its own expected value.
fn extreme_counts<D: EveryOperation>() -> Case<D> {
    let expected = |&(k, r, log_mean): &(f32, f64, f32)| {
        negative_binomial(f64::from(k), f64::from(log_mean).exp(), rounded(r))
    };
    let name = "likelihood of counts up to a million, relative to each value";
    Case::against(
        name,
        Tolerance::Fixed(1e-5),
        |_| Ok(vec![1.0; extremes().len()]),
        move |device: &D| {
            let totals = run_extremes(device)?.0;
            Ok(totals.iter().zip(extremes()).map(|(total, extreme)| total / expected(&extreme)).collect())
        },
    )
}

/// The slopes for ln m and ln r; each relative to the larger of one and its own expected value.
fn extreme_slopes<D: EveryOperation>() -> [Case<D>; 2] {
    let slopes = |&(k, r, log_mean): &(f32, f64, f32)| {
        let (k, r, mean) = (f64::from(k), rounded(r), f64::from(log_mean).exp());
        let inverses: f64 = (0..k as u32).map(|i| 1.0 / (r + f64::from(i))).sum();
        let for_dispersion = r * (inverses - (mean / r).ln_1p() + (mean - k) / (r + mean));
        [(k - mean) * r / (r + mean), for_dispersion]
    };
    let relative =
        move |index: usize, x: f64, extreme: &(f32, f64, f32)| x / slopes(extreme)[index].abs().max(1.0);
    [(0, "means"), (1, "dispersions")].map(|(index, what)| {
        Case::against(
            format!("likelihood of counts up to a million, gradient for {what}"),
            Tolerance::Fixed(1e-5),
            move |_| Ok(extremes().iter().map(|e| relative(index, slopes(e)[index], e)).collect()),
            move |device: &D| {
                let gradient = &run_extremes(device)?.1[index];
                let each = gradient.iter().zip(extremes());
                Ok(each.map(|(&slope, e)| relative(index, -f64::from(slope), &e)).collect())
            },
        )
    })
}

/// Beyond the bounds of variances, means and dispersions values are numbers and no gradient passes.
fn beyond_bounds<D: EveryOperation>() -> Case<D> {
    let families = vec![ColumnFamily::Gaussian, ColumnFamily::Count, ColumnFamily::Count];
    let expected = || {
        let variance = f64::from(LEAST_LOG_VARIANCE);
        let gaussian = -0.5 * (std::f64::consts::TAU.ln() + variance + 0.25 / variance.exp());
        let r = (-f64::from(LOG_DISPERSION_LIMIT)).exp();
        let counts = [LOG_MEAN_LIMIT, -LOG_MEAN_LIMIT].map(|l| negative_binomial(3.0, l.exp(), r));
        vec![gaussian + counts[0] + counts[1], 0.0, 0.0, 0.0, 0.0, 0.0]
    };
    Case::against(
        "likelihood Typed, beyond the bounds of its parameters",
        Tolerance::Fixed(1e-6),
        move |_| Ok(expected()),
        move |device: &D| {
            let columns: Vec<TypedColumn> = laid_out(families.clone())
                .iter()
                .map(|column| TypedColumn { weight: 1.0, ..*column })
                .collect();
            // The outputs are in reverse order.
            let (output, scales) = ([-100.0, 100.0, 0.5], [-5.0, -12.0, -12.0]);
            let table = ColumnTable::Typed(&columns);
            let (totals, [output, scales]) =
                run(device, table, [1, 1, 1, 3], &[1.0, 3.0, 3.0], [&output, &scales])?;
            Ok([totals, wide(&output[..2]), wide(&scales)].concat())
        },
    )
}
