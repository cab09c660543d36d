//! Latents of all rows on the device: the expectation steps of EM and k-means, and the start of k-means.

use cudarc::driver::CudaSlice;

use super::driver::{Arg, Driver, Kernel, Launch, MOST_SHARED};
use super::{Components, Cuda, Moments, Result, blocks};

/// Rows of a block of `responsibilities`, as in `kernels/points.cu`.
const BLOCK_ROWS: usize = 32;
/// Components and columns of a block of `moments`, as there.
const TILE: (usize, usize) = (64, 12);
/// Rows are cut into at most this many parts whose moments are added up; fixed, so that the sums do not
/// depend on the device.
const MOST_PARTS: usize = 1024;
/// Rows of a part at the least: with 70,000 rows and 150 components the blocks of `moments` fit on an H200 at once.
const LEAST_PART_ROWS: usize = 160;
/// Numbers in the moments of all parts, and in the responsibilities that are held at once, at the most.
const MOST_IN_PARTS: usize = 1 << 25;
const MOST_GAMMA: usize = 1 << 26;
/// Shared memory of `responsibilities` besides the log joints.
const ROW_BYTES: usize = 8 * BLOCK_ROWS * (32 + 2);
/// Threads of the kernels of k-means++: places whose masses are summed together.
const SPREAD_THREADS: u32 = 256;

/// Latents of all rows on the device.
pub struct CudaPoints {
    pub(super) latents: u64,
    _latents: CudaSlice<f32>,
    pub(super) n_rows: usize,
    pub(super) n_latent: usize,
    room: Option<Room>,
    assigned: Option<Assigned>,
}

/// What an expectation step needs for mixtures of one size.
struct Room {
    n_padded: usize,
    part_rows: usize,
    /// Rows whose responsibilities are held at once: whole parts.
    chunk_rows: usize,
    components: (CudaSlice<f64>, u64),
    gamma: (CudaSlice<f64>, u64),
    /// Two for each block of rows.
    sums: (CudaSlice<f64>, u64),
    /// Moments and two sums of each part.
    parts: (CudaSlice<f64>, u64),
    total: (CudaSlice<f64>, u64),
}

/// Component of each row, and minus twice its log joint.
struct Assigned {
    components: (CudaSlice<u32>, u64),
    squares: (CudaSlice<f64>, u64),
}

/// Numbers in the moments of a part, the mass as the last column of the first and the second, and two sums.
fn record_len(n_latent: usize, n_padded: usize) -> usize {
    2 * (n_latent + 1) * n_padded + 2
}

/// Threads of a block of `responsibilities`: each has eight rows and one component at a time; as many as leave
/// few of them idle in the last round.
fn row_threads(n_padded: usize) -> u32 {
    let items = BLOCK_ROWS / 8 * n_padded;
    let rounds = items.div_ceil(512);
    (items.div_ceil(rounds).next_multiple_of(32) as u32).max(128)
}

impl Room {
    fn new(driver: &Driver, n_rows: usize, n_latent: usize, n_padded: usize) -> Result<Self> {
        let record = record_len(n_latent, n_padded);
        let most_parts = (MOST_IN_PARTS / record).clamp(1, MOST_PARTS);
        let part_rows = n_rows.div_ceil(most_parts).max(LEAST_PART_ROWS).next_multiple_of(BLOCK_ROWS);
        let n_parts = n_rows.div_ceil(part_rows);
        let chunk_parts = (MOST_GAMMA / (part_rows * n_padded)).clamp(1, n_parts);
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
    pub(super) fn upload(driver: &Driver, latents: &[f32], n_latent: usize) -> Result<Self> {
        let (slice, at) = driver.upload(latents)?;
        let n_rows = latents.len() / n_latent;
        Ok(Self { latents: at, _latents: slice, n_rows, n_latent, room: None, assigned: None })
    }

    /// Makes room for a step with so many components, and for an assignment if there is to be one.
    fn prepare(&mut self, driver: &Driver, n_padded: usize, assign: bool) -> Result<()> {
        if self.room.as_ref().is_none_or(|room| room.n_padded != n_padded) {
            self.room = None; // before the new one is taken
            self.room = Some(Room::new(driver, self.n_rows, self.n_latent, n_padded)?);
        }
        if assign && self.assigned.is_none() {
            let (components, squares) = (driver.zeros(self.n_rows)?, driver.zeros(self.n_rows)?);
            self.assigned = Some(Assigned { components, squares });
        }
        Ok(())
    }

    pub(super) fn assigned(&self, driver: &Driver) -> Result<(Vec<u32>, Vec<f64>)> {
        let Some(assigned) = &self.assigned else { return Ok((Vec::new(), Vec::new())) };
        let (mut components, mut squares) = (vec![0; self.n_rows], vec![0.0; self.n_rows]);
        driver.read(&assigned.components.0.as_view(), &mut components)?;
        driver.read(&assigned.squares.0.as_view(), &mut squares)?;
        Ok((components, squares))
    }
}

impl Cuda {
    /// Moments, then the sum of log densities; or, to assign each row to one component, the sum of minus twice
    /// the log joints and the number of rows that moved.
    pub(super) fn expectation(
        &self,
        points: &mut CudaPoints,
        components: &Components,
        assign: bool,
    ) -> Result<(Moments, [f64; 2])> {
        let Components { n_latent: j, n_padded: c, .. } = *components;
        assert!(j == points.n_latent, "components for these latents");
        points.prepare(&self.driver, c, assign)?;
        let room = points.room.as_mut().expect("just made");
        let all =
            [&components.centre, &components.log_constants, &components.means, &components.inverse_variances];
        let all: Vec<f64> = all.into_iter().flatten().copied().collect();
        self.driver.write(&mut room.components.0.slice_mut(..), &all)?;
        let (assignment, squares) = match &points.assigned {
            Some(assigned) if assign => (assigned.components.1, assigned.squares.1),
            _ => (0, 0),
        };
        for first in (0..points.n_rows).step_by(room.chunk_rows) {
            let count = room.chunk_rows.min(points.n_rows - first);
            let numbers = |numbers: &[usize]| numbers.iter().map(|&n| Arg::from(n)).collect::<Vec<_>>();
            let joints_bytes = 8 * BLOCK_ROWS * c;
            let in_shared = joints_bytes + ROW_BYTES <= MOST_SHARED as usize;
            let launch = Launch {
                kernel: Kernel::Responsibilities,
                grid: (blocks(count, BLOCK_ROWS as u32), 1, 1),
                threads: row_threads(c),
                shared: (ROW_BYTES + if in_shared { joints_bytes } else { 0 }) as u32,
            };
            let addresses =
                [points.latents, room.components.1, room.gamma.1, room.sums.1, assignment, squares];
            let mut args: Vec<Arg> = addresses.map(Arg::from).into();
            args.extend(numbers(&[first, count, j, c]));
            args.push(in_shared.into());
            self.driver.launch(launch, &args)?;
            let launch = Launch {
                kernel: Kernel::Moments,
                grid: (
                    count.div_ceil(room.part_rows) as u32,
                    c.div_ceil(TILE.0) as u32,
                    (j + 1).div_ceil(TILE.1) as u32,
                ),
                threads: 8 * TILE.1 as u32,
                shared: 0,
            };
            let addresses = [points.latents, room.components.1, room.gamma.1, room.sums.1, room.parts.1];
            let mut args: Vec<Arg> = addresses.map(Arg::from).into();
            args.extend(numbers(&[first, count, room.part_rows, j, c]));
            self.driver.launch(launch, &args)?;
        }
        self.add_parts(room, points.n_rows.div_ceil(room.part_rows), j)
    }

    fn add_parts(&self, room: &Room, n_parts: usize, j: usize) -> Result<(Moments, [f64; 2])> {
        let (c, record) = (room.n_padded, record_len(j, room.n_padded));
        let launch =
            Launch { kernel: Kernel::AddParts, grid: (blocks(record, 32), 1, 1), threads: 1024, shared: 0 };
        let args = [room.parts.1.into(), room.total.1.into(), n_parts.into(), Arg::from(record)];
        self.driver.launch(launch, &args)?;
        let mut total = vec![0.0; record];
        self.driver.read(&room.total.0.as_view(), &mut total)?;
        let (first, second) = total[..record - 2].split_at((j + 1) * c);
        let moments = Moments {
            mass: first[j * c..].to_vec(),
            first: first[..j * c].to_vec(),
            second: second[..j * c].to_vec(),
        };
        Ok((moments, [total[record - 2], total[record - 1]]))
    }

    pub(super) fn spread_rows(&self, points: &CudaPoints, sample: &[u32], draws: &[f64]) -> Result<Vec<u32>> {
        let n = sample.len();
        let there = |&row: &u32| (row as usize) < points.n_rows;
        assert!(n > 0 && !draws.is_empty() && sample.iter().all(there), "a sample of these rows");
        let n_blocks = blocks(n, SPREAD_THREADS);
        let (_rows, rows) = self.driver.upload(sample)?;
        let (_squares, squares) = self.driver.zeros::<f64>(n)?;
        let (_masses, masses) = self.driver.zeros::<f64>(n_blocks as usize)?;
        let mut picked = vec![0; draws.len()];
        picked[0] = sample[0];
        let (picks, picks_at) = self.driver.upload(&picked)?;
        // The last draw has nothing left to pick.
        for (m, draw) in draws[..draws.len() - 1].iter().enumerate() {
            let threads = SPREAD_THREADS;
            let launch = Launch { kernel: Kernel::SpreadSquares, grid: (n_blocks, 1, 1), threads, shared: 0 };
            let addresses = [points.latents, rows, picks_at, squares, masses].map(Arg::from);
            let numbers = [n, m, points.n_latent].map(Arg::from);
            self.driver.launch(launch, &addresses.into_iter().chain(numbers).collect::<Vec<_>>())?;
            let launch = Launch { kernel: Kernel::SpreadPick, grid: (1, 1, 1), threads, shared: 8 * threads };
            let addresses = [rows, squares, masses, picks_at].map(Arg::from);
            let numbers = [Arg::from(draw.to_bits()), n.into(), m.into()];
            self.driver.launch(launch, &addresses.into_iter().chain(numbers).collect::<Vec<_>>())?;
        }
        self.driver.read(&picks.as_view(), &mut picked)?;
        Ok(picked)
    }
}
