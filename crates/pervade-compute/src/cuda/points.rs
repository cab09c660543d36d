//! Passes over the latents of all rows: the E-steps of EM and k-means, and k-means++.

use std::ops::Range;

use super::driver::{Arg, DeviceMemory, Driver, Kernel, Launch, MAX_SHARED};
use super::{Cuda, blocks};
use crate::{Components, Error, Moments, Points, Result};

/// Rows per block of `responsibilities`, as in `kernels/points.cu`.
const BLOCK_ROWS: usize = 32;
/// Components and columns per block of `moments`, as in `kernels/points.cu`.
const TILE: (usize, usize) = (64, 12);
/// The maximum number of parts into which rows are split and whose moments are added up; fixed, so that the sums do not
/// depend on the device.
const MAX_PARTS: usize = 1024;
/// The minimum number of rows per part: with 70,000 rows and 150 components the blocks of `moments` fit on an H200 at once.
const MIN_PART_ROWS: usize = 160;
/// The maximum number of elements of all parts' moments, and of the responsibilities in memory at once.
const MAX_PARTS_LEN: usize = 1 << 25;
const MAX_GAMMA_LEN: usize = 1 << 26;
/// Shared memory of `responsibilities` besides the log joints.
const ROW_BYTES: usize = 8 * BLOCK_ROWS * (32 + 2);
/// Threads per block of the k-means++ kernels: positions whose masses are summed together.
const CHOICE_THREADS: u32 = 256;

/// Latents of all rows on the device.
pub struct CudaPoints {
    pub(super) latents: DeviceMemory<f32>,
    pub(super) n_rows: usize,
    pub(super) n_latent: usize,
    scratch: Option<EStepScratch>,
    assigned: Option<CudaAssignment>,
}

/// Buffers of an E-step for mixtures of one size.
struct EStepScratch {
    n_padded: usize,
    part_rows: usize,
    /// Rows whose responsibilities are in memory at once: a whole number of parts.
    chunk_rows: usize,
    components: DeviceMemory<f64>,
    gamma: DeviceMemory<f64>,
    /// Two sums per block of rows.
    sums: DeviceMemory<f64>,
    /// Moments and two sums per part.
    parts: DeviceMemory<f64>,
    total: DeviceMemory<f64>,
}

/// The component of each row, and minus twice its log joint.
struct CudaAssignment {
    components: DeviceMemory<u32>,
    squares: DeviceMemory<f64>,
}

/// Elements in the record of a part: first and second moments, each with the mass as its last column, and two sums.
fn record_len(n_latent: usize, n_padded: usize) -> usize {
    2 * (n_latent + 1) * n_padded + 2
}

/// Threads per block of `responsibilities`, each of which takes eight rows and one component at a time: chosen so that
/// few are idle in the last round.
fn row_threads(n_padded: usize) -> u32 {
    let items = BLOCK_ROWS / 8 * n_padded;
    let rounds = items.div_ceil(512);
    (items.div_ceil(rounds).next_multiple_of(32) as u32).max(128)
}

impl EStepScratch {
    fn new(driver: &Driver, n_rows: usize, n_latent: usize, n_padded: usize) -> Result<Self> {
        let record = record_len(n_latent, n_padded);
        let max_parts = (MAX_PARTS_LEN / record).clamp(1, MAX_PARTS);
        let part_rows = n_rows.div_ceil(max_parts).max(MIN_PART_ROWS).next_multiple_of(BLOCK_ROWS);
        let n_parts = n_rows.div_ceil(part_rows);
        let chunk_parts = (MAX_GAMMA_LEN / (part_rows * n_padded)).clamp(1, n_parts);
        Ok(Self {
            n_padded,
            part_rows,
            chunk_rows: chunk_parts * part_rows,
            components: driver.zeros(n_latent + n_padded + 2 * n_latent * n_padded)?,
            gamma: driver.zeros(n_rows.min(chunk_parts * part_rows) * n_padded)?,
            sums: driver.zeros(2 * n_rows.div_ceil(BLOCK_ROWS))?,
            parts: driver.zeros(n_parts * record)?,
            total: driver.zeros(record)?,
        })
    }
}

impl CudaPoints {
    /// Allocates the buffers for an E-step with `n_padded` components and, if needed, for an assignment.
    fn prepare(&mut self, driver: &Driver, n_padded: usize, assign: bool) -> Result<()> {
        if self.scratch.as_ref().is_none_or(|scratch| scratch.n_padded != n_padded) {
            self.scratch = None; // frees the old one before the new one is allocated
            self.scratch = Some(EStepScratch::new(driver, self.n_rows, self.n_latent, n_padded)?);
        }
        if assign && self.assigned.is_none() {
            let (components, squares) = (driver.zeros(self.n_rows)?, driver.zeros(self.n_rows)?);
            self.assigned = Some(CudaAssignment { components, squares });
        }
        Ok(())
    }
}

impl Cuda {
    /// Moments and the sum of log densities; or, if each row is assigned to one component, moments, the sum of minus twice
    /// the log joints, and the number of rows whose assignment changed.
    fn run_e_step(
        &self,
        points: &mut CudaPoints,
        components: &Components,
        assign: bool,
    ) -> Result<(Moments, [f64; 2])> {
        let Components { n_latent: j, n_padded: c, .. } = *components;
        assert!(j == points.n_latent, "components for these latents");
        points.prepare(&self.driver, c, assign)?;
        let scratch = points.scratch.as_mut().expect("prepared above");
        let all =
            [&components.centre, &components.log_constants, &components.means, &components.inverse_variances];
        let all: Vec<f64> = all.into_iter().flatten().copied().collect();
        self.driver.write(&mut scratch.components, 0, &all)?;
        let (assignment, squares) = match &points.assigned {
            Some(assigned) if assign => (assigned.components.address(0), assigned.squares.address(0)),
            _ => (0, 0),
        };
        for first in (0..points.n_rows).step_by(scratch.chunk_rows) {
            let count = scratch.chunk_rows.min(points.n_rows - first);
            let sizes = |sizes: &[usize]| sizes.iter().map(|&n| Arg::from(n)).collect::<Vec<_>>();
            let joints_bytes = 8 * BLOCK_ROWS * c;
            let in_shared = joints_bytes + ROW_BYTES <= MAX_SHARED as usize;
            let launch = Launch {
                kernel: Kernel::Responsibilities,
                grid: (blocks(count, BLOCK_ROWS as u32), 1, 1),
                threads: row_threads(c),
                shared: (ROW_BYTES + if in_shared { joints_bytes } else { 0 }) as u32,
            };
            let addresses = [
                points.latents.address(0),
                scratch.components.address(0),
                scratch.gamma.address(0),
                scratch.sums.address(0),
                assignment,
                squares,
            ];
            let mut args: Vec<Arg> = addresses.map(Arg::from).into();
            args.extend(sizes(&[first, count, j, c]));
            args.push(in_shared.into());
            self.driver.launch(launch, &args)?;
            let launch = Launch {
                kernel: Kernel::Moments,
                grid: (
                    count.div_ceil(scratch.part_rows) as u32,
                    c.div_ceil(TILE.0) as u32,
                    (j + 1).div_ceil(TILE.1) as u32,
                ),
                threads: 8 * TILE.1 as u32,
                shared: 0,
            };
            let addresses = [
                points.latents.address(0),
                scratch.components.address(0),
                scratch.gamma.address(0),
                scratch.sums.address(0),
                scratch.parts.address(0),
            ];
            let mut args: Vec<Arg> = addresses.map(Arg::from).into();
            args.extend(sizes(&[first, count, scratch.part_rows, j, c]));
            self.driver.launch(launch, &args)?;
        }
        self.add_parts(scratch, points.n_rows.div_ceil(scratch.part_rows), j)
    }

    fn add_parts(&self, scratch: &EStepScratch, n_parts: usize, j: usize) -> Result<(Moments, [f64; 2])> {
        let (c, record) = (scratch.n_padded, record_len(j, scratch.n_padded));
        let launch =
            Launch { kernel: Kernel::AddParts, grid: (blocks(record, 32), 1, 1), threads: 1024, shared: 0 };
        let args = [
            scratch.parts.address(0).into(),
            scratch.total.address(0).into(),
            n_parts.into(),
            Arg::from(record),
        ];
        self.driver.launch(launch, &args)?;
        let mut total = vec![0.0; record];
        self.driver.read(&scratch.total, 0, &mut total)?;
        let (first, second) = total[..record - 2].split_at((j + 1) * c);
        let moments = Moments {
            mass: first[j * c..].to_vec(),
            first: first[..j * c].to_vec(),
            second: second[..j * c].to_vec(),
        };
        Ok((moments, [total[record - 2], total[record - 1]]))
    }
}

impl Points for Cuda {
    type Points<'a> = CudaPoints;

    fn points(&self, latents: &[f32], n_latent: usize) -> Result<CudaPoints> {
        let n_rows = latents.len() / n_latent;
        let latents = self.driver.upload(latents)?;
        Ok(CudaPoints { latents, n_rows, n_latent, scratch: None, assigned: None })
    }

    fn kmeans_plus_plus(&self, points: &mut CudaPoints, sample: &[u32], draws: &[f64]) -> Result<Vec<u32>> {
        let n = sample.len();
        let exists = |&row: &u32| (row as usize) < points.n_rows;
        assert!(n > 0 && !draws.is_empty() && sample.iter().all(exists), "a sample of these rows");
        let n_blocks = blocks(n, CHOICE_THREADS);
        let rows = self.driver.upload(sample)?;
        let squares = self.driver.zeros::<f64>(n)?;
        let masses = self.driver.zeros::<f64>(n_blocks as usize)?;
        let mut chosen = vec![0; draws.len()];
        chosen[0] = sample[0];
        let choices = self.driver.upload(&chosen)?;
        let [squares_at, masses_at] = [&squares, &masses].map(|memory| memory.address(0));
        let (rows_at, choices_at) = (rows.address(0), choices.address(0));
        // The last draw is not used.
        for (m, draw) in draws[..draws.len() - 1].iter().enumerate() {
            let threads = CHOICE_THREADS;
            let launch = Launch { kernel: Kernel::KmeansSquares, grid: (n_blocks, 1, 1), threads, shared: 0 };
            let addresses =
                [points.latents.address(0), rows_at, choices_at, squares_at, masses_at].map(Arg::from);
            let sizes = [n, m, points.n_latent].map(Arg::from);
            self.driver.launch(launch, &addresses.into_iter().chain(sizes).collect::<Vec<_>>())?;
            let launch =
                Launch { kernel: Kernel::KmeansChoose, grid: (1, 1, 1), threads, shared: 8 * threads };
            let addresses = [rows_at, squares_at, masses_at, choices_at].map(Arg::from);
            let scalars = [Arg::from(draw.to_bits()), n.into(), m.into()];
            self.driver.launch(launch, &addresses.into_iter().chain(scalars).collect::<Vec<_>>())?;
        }
        self.driver.read(&choices, 0, &mut chosen)?;
        Ok(chosen)
    }

    fn e_step(&self, points: &mut CudaPoints, components: &Components) -> Result<(Moments, f64)> {
        let (moments, [log_density, _]) = self.run_e_step(points, components, false)?;
        Ok((moments, log_density))
    }

    fn assign(&self, points: &mut CudaPoints, components: &Components) -> Result<(Moments, bool)> {
        let (moments, [_, moved]) = self.run_e_step(points, components, true)?;
        Ok((moments, moved > 0.0))
    }

    fn assigned(&self, points: &CudaPoints) -> Result<(Vec<u32>, Vec<f64>)> {
        let Some(assigned) = &points.assigned else { return Ok((Vec::new(), Vec::new())) };
        let (mut components, mut squares) = (vec![0; points.n_rows], vec![0.0; points.n_rows]);
        self.driver.read(&assigned.components, 0, &mut components)?;
        self.driver.read(&assigned.squares, 0, &mut squares)?;
        Ok((components, squares))
    }

    fn neighbours(
        &self,
        points: &CudaPoints,
        rows: &[u32],
        queries: Range<usize>,
        n_neighbours: usize,
        keep_going: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<u32>> {
        if keep_going() { self.nearest(points, rows, queries, n_neighbours) } else { Err(Error::Interrupted) }
    }
}
