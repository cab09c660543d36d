//! log p(x|z) of tables with trained scales, with its gradients.

use super::driver::{Arg, DeviceMemory, Driver, Kernel, Launch};
use super::{Cuda, CudaSums, M};
use crate::{ColumnFamily, ColumnTable, Result, TypedColumn, TypedLikelihood};

/// `TypedColumn` in `kernels/typed.cu`: words of 32 bits.
fn words(column: &TypedColumn) -> [u32; 9] {
    let family = match column.family {
        ColumnFamily::Gaussian => 0,
        ColumnFamily::Count => 1,
        ColumnFamily::Bernoulli => 2,
        ColumnFamily::Categorical { .. } => 3,
    };
    let [shift, factor, weight] = [column.shift, column.factor, column.weight].map(f32::to_bits);
    let [scale, gap] = [column.scale, column.gap].map(|index| index.unwrap_or(u32::MAX));
    let levels = column.n_outputs() as u32;
    [family, levels, column.input, column.output, scale, gap, shift, factor, weight]
}

/// Typed columns in device memory.
pub(super) fn upload_columns(driver: &Driver, columns: &[TypedColumn]) -> Result<DeviceMemory<u32>> {
    assert!(ColumnTable::Typed(columns).is_valid(), "every input, output and scale belongs to one column");
    driver.upload(&columns.iter().flat_map(words).collect::<Vec<u32>>())
}

/// The columns of a table with trained scales.
pub struct CudaColumns {
    /// None for counts.
    typed: Option<DeviceMemory<u32>>,
    n_columns: usize,
    n_outputs: usize,
    n_scales: usize,
}

impl TypedLikelihood for Cuda {
    type Columns = CudaColumns;

    fn columns(&self, table: ColumnTable<'_>) -> Result<CudaColumns> {
        let typed = match table {
            ColumnTable::Typed(columns) => Some(upload_columns(&self.driver, columns)?),
            ColumnTable::Counts { .. } => None,
        };
        let (n_columns, n_outputs, n_scales) = (table.n_columns(), table.n_outputs(), table.n_scales());
        Ok(CudaColumns { typed, n_columns, n_outputs, n_scales })
    }

    fn typed_likelihood(
        &self,
        columns: &CudaColumns,
        x: &M,
        output: &mut M,
        scales: &mut M,
        sums: &mut CudaSums,
    ) -> Result<()> {
        let CudaColumns { typed, n_columns, n_outputs, n_scales } = columns;
        let (b, n_samples) = (sums.n_rows, output.rows);
        assert!(n_samples == sums.n_samples && x.rows >= b, "sums made for batches of this size");
        assert!([x.columns, output.columns] == [*n_columns, *n_outputs], "columns of the table");
        assert!([scales.rows, scales.columns] == [n_samples, *n_scales], "a scale for each row");
        let kernel = if typed.is_some() { Kernel::TypedLikelihood } else { Kernel::CountLikelihood };
        let grid = (n_samples as u32, output.restarts as u32, 1);
        let launch = Launch { kernel, grid, threads: if *n_columns > 128 { 256 } else { 64 }, shared: 0 };
        let buffers = [x, &*output, &*scales].map(|matrix| Arg::from(matrix.data.address(0)));
        let sizes = [b, x.rows, n_samples, *n_columns].map(Arg::from);
        let mut args: Vec<Arg<'_>> = typed.iter().map(|columns| columns.address(0).into()).collect();
        args.extend(buffers.into_iter().chain([sums.address().into()]).chain(sizes));
        if typed.is_some() {
            args.extend([*n_outputs, *n_scales].map(Arg::from));
        }
        self.driver.launch(launch, &args)
    }
}
