//! log p(x|z) of tables with trained scales, with its gradients.

use rayon::iter::Either;
use rayon::prelude::*;

use super::simd::{Isa, for_isa};
use super::team::TeamForEach;
use super::{Cpu, CpuSums, M};
use crate::math::double::{exp_lanes, ln};
use crate::ops::density::{Explained, count_slope, count_without_coefficient};
use crate::{ColumnTable, Result, TypedColumn, TypedLikelihood};

/// Columns computed together; sums over columns are kept in this many lanes.
const LANES: usize = 16;

/// The columns of a table with trained scales.
#[derive(Debug)]
pub enum CpuColumns {
    /// Columns with types of their own.
    Typed(Vec<TypedColumn>),
    /// Counts.
    Counts {
        /// The number of columns, D.
        n_columns: usize,
    },
}

impl CpuColumns {
    fn table(&self) -> ColumnTable<'_> {
        match self {
            CpuColumns::Typed(columns) => ColumnTable::Typed(columns),
            CpuColumns::Counts { n_columns } => ColumnTable::Counts { n_columns: *n_columns },
        }
    }

    /// log p(x|z) of one row; output and scales are replaced by the gradient of that times `factor`.
    fn explain(&self, isa: Isa, x: &[f32], factor: f64, output: &mut [f32], scales: &mut [f32]) -> f64 {
        match self {
            CpuColumns::Typed(columns) => {
                columns.iter().zip(x).map(|(column, &x)| column.explain(x, factor, output, scales)).sum()
            }
            CpuColumns::Counts { .. } => {
                let mut total = 0.0;
                explain_counts(isa, x, factor, output, scales, &mut total);
                total
            }
        }
    }
}

impl TypedLikelihood for Cpu {
    type Columns = CpuColumns;

    fn columns(&self, table: ColumnTable<'_>) -> Result<CpuColumns> {
        assert!(table.is_valid(), "every input, output and scale belongs to one column");
        Ok(match table {
            ColumnTable::Typed(columns) => CpuColumns::Typed(columns.to_vec()),
            ColumnTable::Counts { n_columns } => CpuColumns::Counts { n_columns },
        })
    }

    fn typed_likelihood(
        &self,
        columns: &CpuColumns,
        x: &M,
        output: &mut M,
        scales: &mut M,
        sums: &mut CpuSums,
    ) -> Result<()> {
        let (table, b, n_samples) = (columns.table(), sums.n_rows, output.rows);
        let (n_outputs, n_scales) = (table.n_outputs(), table.n_scales());
        assert_eq!((x.columns, output.columns), (table.n_columns(), n_outputs), "columns of the table");
        assert_eq!((scales.rows, scales.columns), (n_samples, n_scales), "a scale for each row");
        let n = output.restarts * n_samples;
        let per_row = sums.rows(n);
        let scales = match n_scales {
            0 => Either::Left((0..n).into_par_iter().map(|_| Default::default())),
            _ => Either::Right(scales.data.par_chunks_mut(n_scales)),
        };
        let rows = output.data.par_chunks_mut(n_outputs).zip(scales).zip(per_row.par_iter_mut());
        rows.with_min_len(4).enumerate().team_for_each(|(sample, ((output, scales), row_sums))| {
            let (restart, i) = (sample / n_samples, sample % n_samples % b);
            let target = &x.data[restart * x.stride() + i * x.columns..][..x.columns];
            row_sums[0] = columns.explain(self.isa, target, -1.0 / n_samples as f64, output, scales);
        });
        sums.add_reconstruction(n_samples);
        Ok(())
    }
}

for_isa! {
    /// log p(x|z) of a row of counts with the means (sum of the row) softmax(o); output and scales are replaced by the gradient of
    /// that times `factor`. With g_j the derivative for the logarithm of the mean of column j, that for output j is
    /// g_j - softmax(o)_j sum of g.
    fn explain_counts(x: &[f32], factor: f64, output: &mut [f32], scales: &mut [f32], total: &mut f64) {
        let (mut sums, mut largest) = ([0.0f64; LANES], [f32::NEG_INFINITY; LANES]);
        for (x, output) in x.chunks(LANES).zip(output.chunks(LANES)) {
            for (((sum, most), &x), &o) in sums.iter_mut().zip(&mut largest).zip(x).zip(output) {
                *sum += f64::from(x);
                *most = if o > *most { o } else { *most };
            }
        }
        let sum: f64 = sums.iter().sum();
        if sum.is_nan() || sum <= 0.0 {
            output.fill(0.0);
            scales.fill(0.0);
            return;
        }
        let largest = f64::from(largest.into_iter().fold(f32::NEG_INFINITY, f32::max));
        let mut powers = [0.0f64; LANES];
        for output in output.chunks(LANES) {
            powers.iter_mut().zip(output).for_each(|(power, &o)| *power += exp_lanes(f64::from(o) - largest));
        }
        let log_factor = ln(sum) - (largest + ln(powers.iter().sum()));
        let mut slopes = [0.0f64; LANES];
        for ((x, output), scales) in x.chunks(LANES).zip(output.chunks(LANES)).zip(scales.chunks(LANES)) {
            for (((slope, &x), &o), &scale) in slopes.iter_mut().zip(x).zip(output).zip(scales) {
                *slope += count_slope(x, f64::from(o) + log_factor, scale);
            }
        }
        let shared = slopes.iter().sum::<f64>() / sum;
        let cells = x.chunks(LANES).zip(output.chunks_mut(LANES)).zip(scales.chunks_mut(LANES));
        for ((x, output), scales) in cells {
            let mut explained = [Explained::default(); LANES];
            for (((found, &x), o), &scale) in explained.iter_mut().zip(x).zip(&mut *output).zip(&*scales) {
                let log_mean = f64::from(*o) + log_factor;
                *found = count_without_coefficient(x, log_mean, scale);
                *o = (factor * (found.for_output - exp_lanes(log_mean) * shared)) as f32;
            }
            for ((found, &x), scale) in explained.iter_mut().zip(x).zip(scales) {
                found.add_coefficient(x, *scale);
                *scale = (factor * found.for_scale) as f32;
                *total += found.log_density;
            }
        }
    }
}
