//! Latents of all rows on the device: the expectation steps of EM and k-means, and the start of k-means.

use super::driver::{Arg, DeviceMemory, Driver, Kernel, Launch, MOST_SHARED};
use super::{Cuda, blocks};
use crate::{Components, Error, Moments, Points, Result};

/// Rows of a block of `responsibilities`, as in `kernels/points.cu`.
const BLOCK_ROWS: usize = 32;
/// Components and columns of a block of `moments`, as there.
const TILE: (usize, usize) = (64, 12);
/// Rows are cut into at most this many parts whose moments are added up; fixed, so that the sums do not
/// depend on the device.
const MOST_PARTS: usize = 1024;
/// The fewest rows of a part: with 70,000 rows and 150 components the blocks of `moments` fit on an H200 at once.
const LEAST_PART_ROWS: usize = 160;
/// The most numbers in the moments of all parts, and in the responsibilities that are held at once.
const MOST_IN_PARTS: usize = 1 << 25;
const MOST_GAMMA: usize = 1 << 26;
/// Shared memory of `responsibilities` besides the log joints.
const ROW_BYTES: usize = 8 * BLOCK_ROWS * (32 + 2);
/// Threads of the kernels of k-means++: positions whose masses are summed together.
const CHOICE_THREADS: u32 = 256;

/// Latents of all rows on the device.
pub struct CudaPoints {
    pub(super) latents: DeviceMemory<f32>,
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
    components: DeviceMemory<f64>,
    gamma: DeviceMemory<f64>,
    /// Two for each block of rows.
    sums: DeviceMemory<f64>,
    /// Moments and two sums of each part.
    parts: DeviceMemory<f64>,
    total: DeviceMemory<f64>,
}

/// Component of each row, and minus twice its log joint.
struct Assigned {
    components: DeviceMemory<u32>,
    squares: DeviceMemory<f64>,
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
}

impl Cuda {
    /// Moments, then the sum of log densities; or, to assign each row to one component, the sum of minus twice
    /// the log joints and the number of rows that moved.
    fn expectation(
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
        self.driver.write(&mut room.components, 0, &all)?;
        let (assignment, squares) = match &points.assigned {
            Some(assigned) if assign => (assigned.components.address(0), assigned.squares.address(0)),
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
            let addresses = [
                points.latents.address(0),
                room.components.address(0),
                room.gamma.address(0),
                room.sums.address(0),
                assignment,
                squares,
            ];
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
            let addresses = [
                points.latents.address(0),
                room.components.address(0),
                room.gamma.address(0),
                room.sums.address(0),
                room.parts.address(0),
            ];
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
        let args =
            [room.parts.address(0).into(), room.total.address(0).into(), n_parts.into(), Arg::from(record)];
        self.driver.launch(launch, &args)?;
        let mut total = vec![0.0; record];
        self.driver.read(&room.total, 0, &mut total)?;
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
        Ok(CudaPoints { latents, n_rows, n_latent, room: None, assigned: None })
    }

    fn kmeans_plus_plus(&self, points: &mut CudaPoints, sample: &[u32], draws: &[f64]) -> Result<Vec<u32>> {
        let n = sample.len();
        let there = |&row: &u32| (row as usize) < points.n_rows;
        assert!(n > 0 && !draws.is_empty() && sample.iter().all(there), "a sample of these rows");
        let n_blocks = blocks(n, CHOICE_THREADS);
        let rows = self.driver.upload(sample)?;
        let squares = self.driver.zeros::<f64>(n)?;
        let masses = self.driver.zeros::<f64>(n_blocks as usize)?;
        let mut chosen = vec![0; draws.len()];
        chosen[0] = sample[0];
        let choices = self.driver.upload(&chosen)?;
        let [squares_at, masses_at] = [&squares, &masses].map(|memory| memory.address(0));
        let (rows_at, choices_at) = (rows.address(0), choices.address(0));
        // The last draw has nothing left to choose.
        for (m, draw) in draws[..draws.len() - 1].iter().enumerate() {
            let threads = CHOICE_THREADS;
            let launch = Launch { kernel: Kernel::KmeansSquares, grid: (n_blocks, 1, 1), threads, shared: 0 };
            let addresses =
                [points.latents.address(0), rows_at, choices_at, squares_at, masses_at].map(Arg::from);
            let numbers = [n, m, points.n_latent].map(Arg::from);
            self.driver.launch(launch, &addresses.into_iter().chain(numbers).collect::<Vec<_>>())?;
            let launch =
                Launch { kernel: Kernel::KmeansChoose, grid: (1, 1, 1), threads, shared: 8 * threads };
            let addresses = [rows_at, squares_at, masses_at, choices_at].map(Arg::from);
            let numbers = [Arg::from(draw.to_bits()), n.into(), m.into()];
            self.driver.launch(launch, &addresses.into_iter().chain(numbers).collect::<Vec<_>>())?;
        }
        self.driver.read(&choices, 0, &mut chosen)?;
        Ok(chosen)
    }

    fn e_step(&self, points: &mut CudaPoints, components: &Components) -> Result<(Moments, f64)> {
        let (moments, [log_density, _]) = self.expectation(points, components, false)?;
        Ok((moments, log_density))
    }

    fn assign(&self, points: &mut CudaPoints, components: &Components) -> Result<(Moments, bool)> {
        let (moments, [_, moved]) = self.expectation(points, components, true)?;
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
        n_neighbours: usize,
        keep_going: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<u32>> {
        if keep_going() { self.nearest(points, rows, n_neighbours) } else { Err(Error::Interrupted) }
    }
}
