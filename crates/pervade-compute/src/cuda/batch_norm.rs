//! Batch normalisation: a kernel that sums columns, then an elementwise one.

use super::driver::{Arg, Kernel, Launch};
use super::{Cuda, CudaBuffer, M, blocks, elementwise};
use crate::{AdamStep, BatchNorm, NORM_ROWS, NormSlots, Params, Result};

/// The struct of the same name in `kernels/batch_norm.cu`.
#[repr(C)]
struct Norm {
    stride: u64,
    gain: u32,
    shift: u32,
    mean: u32,
    variance: u32,
}

impl Norm {
    fn new(params: &Params<CudaBuffer>, layer: NormSlots) -> Self {
        let [gain, shift, mean, variance] =
            [layer.gain, layer.shift, layer.mean, layer.variance].map(|slot| slot.offset as u32);
        assert!(layer.variance.range().end <= params.stride, "a layer of these parameters");
        Self { stride: params.stride as u64, gain, shift, mean, variance }
    }
}

/// Columns per block that sums, and threads per column, as in `kernels/batch_norm.cu`.
const COLUMNS: u32 = 8;
const LANES: u32 = 64;

impl Cuda {
    /// Launches one block for every eight columns of every group.
    fn sum_columns(&self, kernel: Kernel, x: &M, groups: usize, addresses: &[u64]) -> Result<()> {
        let launch = Launch {
            kernel,
            grid: (blocks(x.columns, COLUMNS), (x.restarts * groups) as u32, 1),
            threads: COLUMNS * LANES,
            shared: 0,
        };
        let sizes = [x.rows / groups, x.columns].map(Arg::from);
        let args: Vec<Arg<'_>> = addresses.iter().map(|&at| Arg::from(at)).chain(sizes).collect();
        self.driver.launch(launch, &args)
    }

    /// Launches one thread per element of `x`.
    fn for_each_element(
        &self,
        kernel: Kernel,
        params: &Params<CudaBuffer>,
        layer: NormSlots,
        x: &M,
        groups: usize,
        addresses: &[u64],
    ) -> Result<()> {
        let (norm, n) = (Norm::new(params, layer), x.restarts * x.stride());
        let sizes = [n, groups, x.rows / groups, x.columns].map(Arg::from);
        let first = [Arg::of(&norm), params.values.address(0).into()];
        let addresses = addresses.iter().map(|&at| Arg::from(at));
        let args: Vec<Arg<'_>> = first.into_iter().chain(addresses).chain(sizes).collect();
        self.driver.launch(elementwise(kernel, n), &args)
    }
}

impl BatchNorm for Cuda {
    fn batch_norm(
        &self,
        params: &Params<CudaBuffer>,
        layer: NormSlots,
        x: &M,
        statistics: &mut M,
        y: &mut M,
    ) -> Result<()> {
        let (groups, _) = layer.groups(x, statistics);
        assert!(x.stride() == y.stride() && x.restarts == statistics.restarts, "an output of the same size");
        let [x_at, of_x, y_at] = [x.data.address(0), statistics.data.address(0), y.data.address(0)];
        self.sum_columns(Kernel::NormStatistics, x, groups, &[x_at, of_x])?;
        self.for_each_element(Kernel::NormApply, params, layer, x, groups, &[of_x, x_at, y_at])
    }

    fn batch_norm_inference(
        &self,
        params: &Params<CudaBuffer>,
        layer: NormSlots,
        x: &M,
        y: &mut M,
    ) -> Result<()> {
        assert!(x.stride() == y.stride() && x.columns == layer.n_columns(), "an output of the same size");
        let addresses = [0, x.data.address(0), y.data.address(0)];
        self.for_each_element(Kernel::NormApply, params, layer, x, 1, &addresses)
    }

    fn batch_norm_backward_input(
        &self,
        params: &Params<CudaBuffer>,
        layer: NormSlots,
        x: &M,
        dy: &M,
        statistics: &mut M,
        dx: &mut M,
    ) -> Result<()> {
        let (groups, _) = layer.groups(x, statistics);
        assert!(x.stride() == dy.stride() && x.stride() == dx.stride(), "gradients of the same size");
        let [x_at, of_x] = [x.data.address(0), statistics.data.address(0)];
        let [dy_at, dx_at] = [dy.data.address(0), dx.data.address(0)];
        self.sum_columns(Kernel::NormSums, x, groups, &[x_at, dy_at, of_x])?;
        self.for_each_element(Kernel::NormBackward, params, layer, x, groups, &[of_x, x_at, dy_at, dx_at])
    }

    fn batch_norm_backward_weights(
        &self,
        params: &mut Params<CudaBuffer>,
        layer: NormSlots,
        statistics: &M,
        update: Option<&AdamStep>,
    ) -> Result<()> {
        let (norm, columns) = (Norm::new(params, layer), layer.n_columns());
        assert!(statistics.columns == columns && statistics.restarts == params.restarts, "columns");
        let launch = Launch {
            kernel: Kernel::NormWeights,
            grid: (blocks(columns, 128), params.restarts as u32, 1),
            threads: 128,
            shared: 0,
        };
        let buffers = [&params.values, &params.gradients, &params.first_moments, &params.second_moments]
            .map(|buffer| Arg::from(buffer.address(0)));
        let of_x = [statistics.data.address(0).into(), (statistics.rows / NORM_ROWS).into(), columns.into()];
        let adam = update.map(|step| self.adam_arguments(step, params.beta1));
        let adam = adam.unwrap_or_else(|| std::array::from_fn(|_| Arg::from(0u64)));
        let adam = [Arg::from(update.is_some())].into_iter().chain(adam);
        let args: Vec<Arg<'_>> =
            [Arg::of(&norm)].into_iter().chain(buffers).chain(of_x).chain(adam).collect();
        self.driver.launch(launch, &args)
    }
}
