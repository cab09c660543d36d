//! The noise that pretraining leaves open: variances of Gaussian columns, and of q(z|x).

use super::run::{Pack, Run};
use crate::Result;
use crate::compute::{ColumnFamily, ColumnTable, Device, LEAST_LOG_VARIANCE, Params, TypedColumn};
use crate::infer::{BLOCK, blocks, outputs, scales};
use crate::nn::Layer;

/// Rows whose residuals are measured, about.
const SAMPLE_ROWS: usize = 20_000;

/// Sets the variance of every Gaussian column to that of the auto-encoder's residual. In the few steps of pretraining
/// Adam cannot move them that far.
pub(super) fn fit_scales<D: Device>(run: &Run<'_, D>, pack: &mut Pack<D>) -> Result<()> {
    let table = run.settings.preparation.column_table(run.likelihood);
    let (Some(layer), Some(ColumnTable::Typed(columns))) = (run.architecture.scales, table) else {
        return Ok(());
    };
    for slot in 0..pack.state.records.len() {
        let mut values = pack.values_of(run.device, slot)?;
        let variances = residual_variances(run, &values, columns)?;
        for (column, variance) in columns.iter().zip(variances) {
            if let (ColumnFamily::Gaussian, Some(scale)) = (column.family, column.scale) {
                values[layer.weight.offset + scale as usize] = 0.0;
                values[layer.bias.offset + scale as usize] = variance.ln() as f32;
            }
        }
        run.device.write(&mut pack.params.values, slot * pack.params.stride, &values)?;
    }
    Ok(())
}

/// Mean squared residual of each column over its observed cells, with the latents at their means.
fn residual_variances<D: Device>(
    run: &Run<'_, D>,
    values: &[f32],
    columns: &[TypedColumn],
) -> Result<Vec<f64>> {
    let (device, n, j) = (run.device, run.data.n_rows(), run.architecture.n_latents());
    let params = Params::fixed(device, values)?;
    let stride = n.div_ceil(SAMPLE_ROWS);
    let (mut sums, mut counts) = (vec![0.0f64; columns.len()], vec![0usize; columns.len()]);
    let (mut x, mut latents) = (vec![0.0; run.data.n_columns()], Vec::new());
    blocks(device, run.ranks, &run.rows, n, &run.architecture, None, &params, |pass| {
        if !(pass.first / BLOCK).is_multiple_of(stride) {
            return Ok(());
        }
        latents.clear();
        latents.extend(pass.heads.chunks_exact(2 * j).flat_map(|head| &head[..j]));
        let all = outputs(device, &run.architecture, &params, &latents)?;
        for (i, output) in all.chunks_exact(run.architecture.n_outputs()).enumerate() {
            run.settings.preparation.prepared_row_into(run.data, pass.first + i, &mut x);
            for (index, (column, &x)) in columns.iter().zip(&x).enumerate() {
                if column.is_observed(x) {
                    sums[index] += f64::from(x - output[column.output as usize]).powi(2);
                    counts[index] += 1;
                }
            }
        }
        Ok(())
    })?;
    let least = f64::from(LEAST_LOG_VARIANCE).exp();
    let variance = |(sum, count): (f64, usize)| (sum / count.max(1) as f64).max(least);
    Ok(sums.into_iter().zip(counts).map(variance).collect())
}

/// Rows at which the decoder's slopes are measured, about.
const SLOPE_ROWS: usize = 512;
/// The step for slopes, as a share of a latent column's standard deviation.
const SLOPE_STEP: f32 = 0.05;

/// Sets the variances of q(z|x) at the mixture start to those that suit decoder and mixture, the same for all rows.
///
/// Pretraining has no noise and leaves them as they were drawn. By Laplace's method the precision of a latent is that of
/// its component plus the information that the columns have about it: the sum of squared slopes over variances.
pub(super) fn fit_posterior<D: Device>(run: &Run<'_, D>, pack: &mut Pack<D>) -> Result<()> {
    let table = run.settings.preparation.column_table(run.likelihood);
    let Some(ColumnTable::Typed(columns)) = table else { return Ok(()) };
    let (j, head) = (run.architecture.n_latents(), run.architecture.encoder.layers.last());
    let Some(head) = head.map(Layer::weights) else { return Ok(()) };
    for slot in 0..pack.state.records.len() {
        let mut values = pack.values_of(run.device, slot)?;
        let information = information(run, &values, columns)?;
        let slots = run.architecture.mixture;
        let prior = prior_precisions(&values[slots.logits.range()], &values[slots.log_variances.range()], j);
        for (column, (information, prior)) in information.into_iter().zip(prior).enumerate() {
            for row in 0..head.weight.rows {
                values[head.weight.offset + row * head.weight.columns + j + column] = 0.0;
            }
            values[head.bias.offset + j + column] = -(information + prior).ln() as f32;
        }
        run.device.write(&mut pack.params.values, slot * pack.params.stride, &values)?;
    }
    Ok(())
}

/// The mean precision of the components in each latent column, by their weights.
fn prior_precisions(logits: &[f32], log_variances: &[f32], j: usize) -> Vec<f64> {
    let greatest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weights: Vec<f64> = logits.iter().map(|&l| f64::from(l - greatest).exp()).collect();
    let total: f64 = weights.iter().sum();
    let mean = |column: usize| {
        let each = weights.iter().zip(log_variances.chunks_exact(j));
        each.map(|(weight, logs)| weight / total * f64::from(-logs[column]).exp()).sum()
    };
    (0..j).map(mean).collect()
}

/// Mean information of a row's cells about each latent column, at the latent means of some rows.
fn information<D: Device>(run: &Run<'_, D>, values: &[f32], columns: &[TypedColumn]) -> Result<Vec<f64>> {
    let (device, architecture, j) = (run.device, &run.architecture, run.architecture.n_latents());
    let params = Params::fixed(device, values)?;
    let stride = run.data.n_rows().div_ceil(SLOPE_ROWS);
    let mut latents = Vec::new();
    blocks(device, run.ranks, &run.rows, run.data.n_rows(), architecture, None, &params, |pass| {
        let rows = pass.heads.chunks_exact(2 * j).enumerate();
        let sampled = rows.filter(|(i, _)| (pass.first + i).is_multiple_of(stride));
        latents.extend(sampled.flat_map(|(_, head)| &head[..j]));
        Ok(())
    })?;
    let at = outputs(device, architecture, &params, &latents)?;
    let scales = scales(architecture, values);
    let n = latents.len() / j;
    let mut information = Vec::with_capacity(j);
    for column in 0..j {
        let step = SLOPE_STEP * deviation(latents.iter().skip(column).step_by(j)).max(1e-3);
        let mut moved = latents.clone();
        moved.iter_mut().skip(column).step_by(j).for_each(|z| *z += step);
        let moved = outputs(device, architecture, &params, &moved)?;
        let width = architecture.n_outputs();
        let of_row = |(at, moved): (&[f32], &[f32])| -> f64 {
            columns.iter().map(|column| column.information(at, moved, &scales)).sum()
        };
        let total: f64 = at.chunks_exact(width).zip(moved.chunks_exact(width)).map(of_row).sum();
        information.push(total / n as f64 / f64::from(step).powi(2));
    }
    Ok(information)
}

fn deviation<'a>(values: impl Iterator<Item = &'a f32> + Clone) -> f32 {
    let n = values.clone().count().max(1) as f64;
    let mean = values.clone().map(|&x| f64::from(x)).sum::<f64>() / n;
    (values.map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / n).sqrt() as f32
}
