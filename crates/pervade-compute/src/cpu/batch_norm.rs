//! Batch normalisation (Ioffe and Szegedy, 2015). A task takes a stripe of columns and sums over rows in order, in
//! double precision.

use super::adam::{Rates, adam_range};
use super::shared::Shared;
use super::team::for_each_task;
use super::{Cpu, M};
use crate::{AdamStep, BatchNorm, NORM_EPSILON, NORM_MOMENTUM, NORM_ROWS, NormSlots, Params, Result, Slot};

/// Columns per task: one cache line.
const STRIPE: usize = 16;

type Sums = [f64; STRIPE];

/// A group of rows of one restart, restricted to the columns of one task.
#[derive(Clone, Copy)]
struct Part {
    /// The group's first row.
    first_row: usize,
    n_rows: usize,
    columns: usize,
    first: usize,
    width: usize,
    /// Offset of the group's statistics.
    statistics: usize,
}

impl Part {
    /// The offset of the part's columns in each row.
    fn rows(self) -> impl Iterator<Item = usize> {
        (self.first_row..self.first_row + self.n_rows).map(move |row| row * self.columns + self.first)
    }

    /// The offset of the part's columns in statistic `which`.
    fn statistic(self, which: usize) -> usize {
        self.statistics + which * self.columns + self.first
    }

    fn columns_at(self, values: &[f32], at: usize) -> &[f32] {
        &values[at..at + self.width]
    }

    /// The part's columns of a parameter slot.
    fn slot(self, values: &[f32], slot: Slot) -> &[f32] {
        self.columns_at(values, slot.offset + self.first)
    }
}

/// Calls `work(restart, part)` for every stripe of columns in parallel, the groups of a stripe in order.
fn for_each_part(x: &M, groups: usize, statistics_stride: usize, work: impl Fn(usize, Part) + Sync) {
    let (n_rows, columns) = (x.rows / groups, x.columns);
    let stripes = columns.div_ceil(STRIPE);
    for_each_task(x.restarts * stripes, |index| {
        let (restart, first) = (index / stripes, index % stripes * STRIPE);
        for group in 0..groups {
            let part = Part {
                first_row: restart * x.rows + group * n_rows,
                n_rows,
                columns,
                first,
                width: STRIPE.min(columns - first),
                statistics: restart * statistics_stride + group * NORM_ROWS * columns,
            };
            work(restart, part);
        }
    });
}

fn inverse_deviation(variance: f32) -> f32 {
    1.0 / (variance + NORM_EPSILON).sqrt()
}

impl BatchNorm for Cpu {
    fn batch_norm(
        &self,
        params: &Params<Vec<f32>>,
        layer: NormSlots,
        x: &M,
        statistics: &mut M,
        y: &mut M,
    ) -> Result<()> {
        let (groups, _) = layer.groups(x, statistics);
        assert_eq!(x.data.len(), y.data.len(), "an output of the same size");
        let (stride, to, saved) =
            (statistics.stride(), Shared::new(&mut y.data), Shared::new(&mut statistics.data));
        for_each_part(x, groups, stride, |restart, part| {
            let (mut mean, mut square): (Sums, Sums) = ([0.0; STRIPE], [0.0; STRIPE]);
            let n = part.n_rows as f64;
            for at in part.rows() {
                part.columns_at(&x.data, at).iter().zip(&mut mean).for_each(|(&x, sum)| *sum += f64::from(x));
            }
            mean.iter_mut().for_each(|sum| *sum /= n);
            for at in part.rows() {
                let lines = part.columns_at(&x.data, at).iter().zip(&mean).zip(&mut square);
                lines.for_each(|((&x, mean), sum)| *sum += (f64::from(x) - mean).powi(2));
            }
            // SAFETY: these columns of this group belong to this task alone, in both buffers, here and below.
            let [means, variances] =
                [0, 1].map(|which| unsafe { saved.slice(part.statistic(which), part.width) });
            means.iter_mut().zip(&mean).for_each(|(to, &mean)| *to = mean as f32);
            variances.iter_mut().zip(&square).for_each(|(to, square)| *to = (square / n) as f32);
            let values = &params.values[restart * params.stride..];
            // SAFETY: as above.
            unsafe { normalise(part, values, layer, [means, variances], x, to) };
        });
        Ok(())
    }

    fn batch_norm_inference(
        &self,
        params: &Params<Vec<f32>>,
        layer: NormSlots,
        x: &M,
        y: &mut M,
    ) -> Result<()> {
        assert_eq!(x.columns, layer.n_columns(), "columns");
        assert_eq!(x.data.len(), y.data.len(), "an output of the same size");
        let to = Shared::new(&mut y.data);
        for_each_part(x, 1, 0, |restart, part| {
            let values = &params.values[restart * params.stride..];
            let running = [part.slot(values, layer.mean), part.slot(values, layer.variance)];
            // SAFETY: these columns of these rows belong to this task alone.
            unsafe { normalise(part, values, layer, running, x, to) };
        });
        Ok(())
    }

    // With u = (x - mean) / deviation, dx = gain / deviation (dy - mean of dy - u mean of (u dy)); means over the group.
    fn batch_norm_backward_input(
        &self,
        params: &Params<Vec<f32>>,
        layer: NormSlots,
        x: &M,
        dy: &M,
        statistics: &mut M,
        dx: &mut M,
    ) -> Result<()> {
        let (groups, _) = layer.groups(x, statistics);
        assert!(x.data.len() == dy.data.len() && x.data.len() == dx.data.len(), "gradients of the same size");
        let (stride, to, saved) =
            (statistics.stride(), Shared::new(&mut dx.data), Shared::new(&mut statistics.data));
        for_each_part(x, groups, stride, |restart, part| {
            // SAFETY: these columns of this group belong to this task alone, in both buffers, here and below.
            let [means, variances, sums, products] =
                [0, 1, 2, 3].map(|which| unsafe { saved.slice(part.statistic(which), part.width) });
            let inverses: [f32; STRIPE] = std::array::from_fn(|i| {
                variances.get(i).map_or(0.0, |&variance| inverse_deviation(variance))
            });
            let unit = |at: usize, i: usize| (x.data[at + i] - means[i]) * inverses[i];
            let (mut sum, mut product): (Sums, Sums) = ([0.0; STRIPE], [0.0; STRIPE]);
            for at in part.rows() {
                for (i, &dy) in part.columns_at(&dy.data, at).iter().enumerate() {
                    sum[i] += f64::from(dy);
                    product[i] += f64::from(dy * unit(at, i));
                }
            }
            sums.iter_mut().zip(&sum).for_each(|(to, &sum)| *to = sum as f32);
            products.iter_mut().zip(&product).for_each(|(to, &sum)| *to = sum as f32);
            let gains = part.slot(&params.values[restart * params.stride..], layer.gain);
            let per_row = 1.0 / part.n_rows as f32;
            for at in part.rows() {
                // SAFETY: as above.
                let dx = unsafe { to.slice(at, part.width) };
                for (i, &dy) in part.columns_at(&dy.data, at).iter().enumerate() {
                    let common = unit(at, i) * products[i] + sums[i];
                    dx[i] = gains[i] * inverses[i] * (dy - per_row * common);
                }
            }
        });
        Ok(())
    }

    fn batch_norm_backward_weights(
        &self,
        params: &mut Params<Vec<f32>>,
        layer: NormSlots,
        statistics: &M,
        update: Option<&AdamStep>,
    ) -> Result<()> {
        let (groups, columns) = (statistics.rows / NORM_ROWS, layer.n_columns());
        assert_eq!(statistics.columns, columns, "columns");
        for restart in 0..params.restarts {
            let base = restart * params.stride;
            for column in 0..columns {
                let total = |which: usize| {
                    let at = |group: usize| {
                        restart * statistics.stride() + (group * NORM_ROWS + which) * columns + column
                    };
                    (0..groups).fold(0.0, |sum, group| sum + statistics.data[at(group)])
                };
                for (slot, which) in [(layer.mean, 0), (layer.variance, 1)] {
                    let running = &mut params.values[base + slot.offset + column];
                    *running = NORM_MOMENTUM
                        .mul_add(*running, (1.0 - NORM_MOMENTUM) * (total(which) / groups as f32));
                }
                params.gradients[base + layer.shift.offset + column] = total(2);
                params.gradients[base + layer.gain.offset + column] = total(3);
            }
            if let Some(rates) = update.map(|step| Rates::new(step, params.beta1)) {
                [layer.gain, layer.shift]
                    .iter()
                    .for_each(|slot| adam_range(self.isa, params, restart, slot.range(), rates));
            }
        }
        Ok(())
    }
}

/// y = gain (x - mean) / deviation + shift.
///
/// # Safety
/// No other task accesses the part in `y` at the same time.
unsafe fn normalise(
    part: Part,
    values: &[f32],
    layer: NormSlots,
    [means, variances]: [&[f32]; 2],
    x: &M,
    y: Shared<'_>,
) {
    let (gains, shifts) = (part.slot(values, layer.gain), part.slot(values, layer.shift));
    let mut scales = [0.0; STRIPE];
    for (i, scale) in scales[..part.width].iter_mut().enumerate() {
        *scale = gains[i] * inverse_deviation(variances[i]);
    }
    for at in part.rows() {
        // SAFETY: guaranteed by the caller.
        let y = unsafe { y.slice(at, part.width) };
        for (i, (&x, y)) in part.columns_at(&x.data, at).iter().zip(y).enumerate() {
            // Not fused: this is compiled for the baseline target, where a fused multiply-add is a function call.
            *y = (x - means[i]) * scales[i] + shifts[i];
        }
    }
}
