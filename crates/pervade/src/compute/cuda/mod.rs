//! CUDA: every operation as a kernel, a whole step as one recorded graph, all restarts in each launch.
//!
//! Nothing of CUDA is needed to build: the driver and NVRTC are opened when a device is. Kernels are
//! compiled for the card at hand from the sources in `kernels`. Numbers stay on the device; the host sets
//! the clock of a step, replays the graph and reads sums once an epoch.

mod affine;
mod batch;
mod batch_norm;
mod codes;
mod compile;
mod drawn_codes;
mod driver;
mod heads;
mod images;
mod mixture;
mod moments;
mod neighbours;
mod points;
mod recording;
mod soft_clusters;
mod sticks;

use std::path::Path;
use std::sync::Mutex;

use cudarc::driver::CudaSlice;

pub use batch::{CudaBatch, CudaRows};
pub use compile::{compile_image, kept_image};
pub use points::CudaPoints;
pub use recording::CudaRecording;

use self::driver::{Driver, Keys, Lane};
use self::recording::{Recorded, Shuffle};
use super::*;

/// How the factors of a matrix product are rounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// Single precision, from three products of split factors.
    #[default]
    Fp32,
    /// One product of factors rounded to TF32 (10 bits): faster, and coarser.
    Tf32,
}

/// A CUDA device.
pub struct Cuda {
    driver: Driver,
    precision: Precision,
    /// The step that is being recorded, and what of it runs beside the chain.
    recorded: Mutex<Option<Recorded>>,
}

/// Numbers on the device.
#[derive(Debug)]
pub struct CudaBuffer {
    slice: CudaSlice<f32>,
    /// The address of the first.
    at: u64,
    len: usize,
}

impl CudaBuffer {
    /// The address of number `i`.
    fn address(&self, i: usize) -> u64 {
        assert!(i <= self.len, "an address inside the buffer");
        self.at + 4 * i as u64
    }
}

/// Running sums: four terms for every place of a batch, added up on the host when they are taken.
pub struct CudaSums {
    slots: CudaSlice<f64>,
    at: u64,
    restarts: usize,
    n_places: usize,
}

impl Cuda {
    /// The device numbered `ordinal`. Its kernels are compiled, unless the folder `kernels` keeps them from an
    /// earlier time.
    pub fn open(ordinal: usize, precision: Precision, kernels: Option<&Path>) -> Result<Self> {
        let driver = Driver::open(ordinal, precision, kernels)?;
        Ok(Self { driver, precision, recorded: Mutex::new(None) })
    }

    /// Whether a driver is there and finds a device.
    pub fn is_present() -> bool {
        driver::is_present()
    }

    /// Versions, memory and the like, for a person.
    pub fn describe(&self) -> Result<Vec<(&'static str, String)>> {
        self.driver.describe()
    }

    /// Milliseconds that so many single-precision operations and bytes take at the device's rates.
    pub fn floor_ms(&self, flop: f64, bytes: f64) -> Result<f64> {
        let (flop_per_second, bytes_per_second) = self.driver.rates()?;
        Ok(1e3 * (flop / flop_per_second + bytes / bytes_per_second))
    }
}

impl std::fmt::Debug for Cuda {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cuda").field("name", &self.driver.name()).finish_non_exhaustive()
    }
}

type M = Matrix<CudaBuffer>;

impl Device for Cuda {
    type Buffer = CudaBuffer;
    type Rows<'a> = CudaRows;
    type Batch = CudaBatch;
    type Sums = CudaSums;
    type Recording = CudaRecording;
    type Points<'a> = CudaPoints;

    fn name(&self) -> String {
        self.driver.name().to_string()
    }

    fn product_error(&self) -> f64 {
        match self.precision {
            Precision::Fp32 => 1e-5,
            Precision::Tf32 => 2e-3,
        }
    }

    fn is_host(&self) -> bool {
        false
    }

    fn restarts_at_once(&self, wanted: usize) -> usize {
        wanted.min(driver::MOST_RESTARTS)
    }

    fn zeros(&self, len: usize) -> Result<CudaBuffer> {
        let (slice, at) = self.driver.zeros(len.max(1))?;
        Ok(CudaBuffer { slice, at, len })
    }

    fn clear(&self, buffer: &mut CudaBuffer) -> Result<()> {
        self.driver.clear(&mut buffer.slice)
    }

    fn write(&self, to: &mut CudaBuffer, offset: usize, values: &[f32]) -> Result<()> {
        if values.is_empty() {
            return Ok(());
        }
        self.driver.write(&mut to.slice.slice_mut(offset..offset + values.len()), values)
    }

    fn moments_to_rows(&self, weights: &[Slot], stride: usize, moments: &mut [f32]) {
        moments::reorder(weights, stride, moments, true);
    }

    fn moments_from_rows(&self, weights: &[Slot], stride: usize, moments: &mut [f32]) {
        moments::reorder(weights, stride, moments, false);
    }

    fn read(&self, from: &CudaBuffer, offset: usize, into: &mut [f32]) -> Result<()> {
        if into.is_empty() {
            return Ok(());
        }
        self.driver.read(&from.slice.slice(offset..offset + into.len()), into)
    }

    fn steps_at_once(&self) -> usize {
        MOST_STEPS
    }

    fn steps(
        &self,
        ticks: &[Tick],
        recording: &mut CudaRecording,
        params: &mut Params<CudaBuffer>,
        body: impl FnMut(&mut Params<CudaBuffer>, &Tick) -> Result<()>,
    ) -> Result<()> {
        self.replay(ticks, recording, params, body)
    }

    fn rows<'a>(&self, data: &'a Dataset<'a>, preparation: &'a Preparation) -> Result<CudaRows> {
        batch::upload(&self.driver, data, preparation)
    }

    fn batch(&self, rows: &CudaRows, restarts: usize, n_rows: usize) -> Result<CudaBatch> {
        if restarts > driver::MOST_RESTARTS {
            let problem = format!("must be at most {} side by side on a CUDA device", driver::MOST_RESTARTS);
            return Err(crate::Error::setting("restarts", restarts, problem));
        }
        let (ids, at) = self.driver.zeros(restarts * rows.n_rows().max(n_rows))?;
        Ok(CudaBatch { x: Matrix::zeros(self, restarts, n_rows, rows.n_columns())?, ids: at, _ids: ids })
    }

    fn gather(&self, rows: &CudaRows, pick: Pick<'_>, batch: &mut CudaBatch) -> Result<()> {
        self.gather_rows(rows, pick, batch)
    }

    fn picked<'b>(&self, batch: &'b CudaBatch) -> &'b M {
        &batch.x
    }

    fn input_affine(
        &self,
        params: &Params<CudaBuffer>,
        layer: Affine,
        _rows: &CudaRows,
        batch: &CudaBatch,
        activation: Activation,
        y: &mut M,
    ) -> Result<()> {
        // Sparse rows were spread out when they were gathered: a product on the tensor cores takes less
        // time than walking the entries.
        self.affine(params, layer, &batch.x, activation, y)
    }

    fn input_affine_backward(
        &self,
        params: &mut Params<CudaBuffer>,
        layer: Affine,
        _rows: &CudaRows,
        batch: &CudaBatch,
        dy: &M,
        update: Option<&AdamStep>,
    ) -> Result<()> {
        self.affine_backward_weights(params, layer, &batch.x, dy, update)
    }

    fn affine(
        &self,
        params: &Params<CudaBuffer>,
        layer: Affine,
        x: &M,
        activation: Activation,
        y: &mut M,
    ) -> Result<()> {
        self.forward(params, layer, x, activation, y)
    }

    fn affine_backward_weights(
        &self,
        params: &mut Params<CudaBuffer>,
        layer: Affine,
        x: &M,
        dy: &M,
        update: Option<&AdamStep>,
    ) -> Result<()> {
        self.backward_weights(params, layer, x, dy, update)
    }

    fn affine_backward_input(
        &self,
        params: &Params<CudaBuffer>,
        layer: Affine,
        dy: &M,
        relu_output: Option<&M>,
        dx: &mut M,
    ) -> Result<()> {
        self.backward_input(params, layer, dy, relu_output, dx)
    }

    fn dropout(&self, draw: Draw<'_>, rate: f32, x: &M, y: &mut M) -> Result<()> {
        self.drop_numbers(draw, rate, x.data.at, y)
    }

    fn dropout_backward(&self, draw: Draw<'_>, rate: f32, dy: &mut M) -> Result<()> {
        self.drop_numbers(draw, rate, dy.data.at, dy)
    }

    fn sample_latents(&self, draw: Option<Draw<'_>>, head: &M, z: &mut M) -> Result<()> {
        self.sample(draw, head, z)?;
        let recording = self.state().is_some();
        if recording { self.driver.mark_sampled() } else { Ok(()) }
    }

    fn sample_latents_backward(
        &self,
        head: &M,
        z: &M,
        dz: &M,
        dz_too: Option<&M>,
        d_head: &mut M,
    ) -> Result<()> {
        self.join_prior()?;
        self.sample_backward(head, z, dz, dz_too, d_head)
    }

    fn likelihood(&self, families: &[Likelihood], x: &M, output: &mut M, sums: &mut CudaSums) -> Result<()> {
        self.log_likelihood(families, x, None, output, sums)
    }

    fn prior_scratch(
        &self,
        restarts: usize,
        n_rows: usize,
        n_places: usize,
        mixture: MixtureSlots,
    ) -> Result<CudaBuffer> {
        self.scratch(restarts, n_rows, n_places, mixture)
    }

    fn prior(
        &self,
        gamma: Gamma,
        params: &mut Params<CudaBuffer>,
        mixture: MixtureSlots,
        head: &M,
        z: &M,
        scratch: &mut CudaBuffer,
        d_head: &mut M,
        dz: &mut M,
        sums: &mut CudaSums,
    ) -> Result<()> {
        // The prior needs nothing of the decoder: within a recorded step both run side by side.
        let lane = self.fork_prior()?;
        self.prior_terms(gamma, params, mixture, head, z, scratch, d_head, dz, sums, lane)?;
        if lane == Lane::Prior { self.driver.mark_prior_done() } else { Ok(()) }
    }

    fn log_joint(
        &self,
        gamma: Gamma,
        params: &Params<CudaBuffer>,
        mixture: MixtureSlots,
        head: &M,
        out: &mut M,
    ) -> Result<()> {
        self.log_joints(gamma, params, mixture, head, out)
    }

    fn soft_clusters(
        &self,
        params: &mut Params<CudaBuffer>,
        mixture: MixtureSlots,
        targets: &M,
        z: &M,
        pulls: &mut M,
        dz: &mut M,
        sums: &mut CudaSums,
    ) -> Result<()> {
        self.soft_cluster_terms(params, mixture, targets, z, pulls, dz, sums)
    }

    fn softmax(&self, n: usize, x: &mut M) -> Result<()> {
        self.softmax_rows(n, x)
    }

    fn softmax_backward(&self, n: usize, y: &M, dy: &mut M) -> Result<()> {
        self.softmax_rows_backward(n, y, dy)
    }

    fn copy_block(
        &self,
        x: &M,
        rows: Range<usize>,
        columns: Range<usize>,
        y: &mut M,
        to: [usize; 2],
    ) -> Result<()> {
        self.copy_part(x, rows, columns, y, to)
    }

    fn stick_breaking(&self, draw: Option<Draw<'_>>, head: &M, weights: &mut M) -> Result<()> {
        self.break_stick(draw, head, weights)
    }

    fn stick_breaking_backward(
        &self,
        draw: Option<Draw<'_>>,
        head: &M,
        d_weights: &M,
        d_head: &mut M,
    ) -> Result<()> {
        self.break_stick_backward(draw, head, d_weights, d_head)
    }

    fn stick_prior(&self, prior: StickPrior, head: &M, d_head: &mut M, sums: &mut CudaSums) -> Result<()> {
        self.stick_divergence(prior, head, d_head, sums)
    }

    fn shared_likelihood(
        &self,
        families: &[Likelihood],
        x: &M,
        shares: &M,
        output: &mut M,
        d_shares: &mut M,
        sums: &mut CudaSums,
    ) -> Result<()> {
        self.log_likelihood(families, x, Some((shares, d_shares)), output, sums)
    }

    fn posterior_mixture(
        &self,
        spread: f32,
        posterior: PosteriorMixture<'_, CudaBuffer>,
        d_head: &mut M,
        d_shares: &mut M,
        d_drawn: &mut M,
        sums: &mut CudaSums,
    ) -> Result<()> {
        self.posterior_terms(spread, posterior, d_head, d_shares, d_drawn, sums)
    }

    fn adam(&self, params: &mut Params<CudaBuffer>, step: &AdamStep) -> Result<()> {
        self.adam_range(params, step)
    }

    fn sums(&self, restarts: usize, n_places: usize) -> Result<CudaSums> {
        let (slots, at) = self.driver.zeros(restarts * n_places.max(1) * 4)?;
        Ok(CudaSums { slots, at, restarts, n_places })
    }

    fn take_sums(&self, sums: &mut CudaSums) -> Result<Vec<Terms>> {
        let slots = self.read_sums(sums)?;
        self.driver.clear(&mut sums.slots)?;
        Ok(slots.chunks_exact(sums.n_places.max(1) * 4).map(Terms::total).collect())
    }

    fn read_sums(&self, sums: &CudaSums) -> Result<Vec<f64>> {
        let mut slots = vec![0.0f64; sums.restarts * sums.n_places.max(1) * 4];
        self.driver.read(&sums.slots.as_view(), &mut slots)?;
        Ok(slots)
    }

    fn write_sums(&self, sums: &mut CudaSums, values: &[f64]) -> Result<()> {
        let per_restart = sums.n_places.max(1) * 4;
        let mut slots = vec![0.0f64; sums.restarts * per_restart];
        if values.len() == slots.len() {
            slots.copy_from_slice(values);
        } else {
            let of_restart = values.chunks_exact(values.len() / sums.restarts);
            for (slots, values) in slots.chunks_exact_mut(per_restart).zip(of_restart) {
                slots[..4].copy_from_slice(&Terms::total(values).values());
            }
        }
        self.driver.write(&mut sums.slots.as_view_mut(), &slots)
    }

    fn unfold(&self, windows: &Windows, x: &M, y: &mut M) -> Result<()> {
        self.unfold_images(windows, x, y)
    }

    fn fold(&self, windows: &Windows, x: &M, y: &mut M) -> Result<()> {
        self.fold_images(windows, x, y)
    }

    fn bend(&self, curve: Curve, x: &mut M) -> Result<()> {
        self.bend_numbers(curve, x)
    }

    fn bend_backward(&self, curve: Curve, y: &M, dy: &mut M) -> Result<()> {
        self.bend_numbers_backward(curve, y, dy)
    }

    fn batch_norm(
        &self,
        params: &Params<CudaBuffer>,
        layer: NormSlots,
        x: &M,
        statistics: &mut M,
        y: &mut M,
    ) -> Result<()> {
        self.normalise(params, layer, x, statistics, y)
    }

    fn batch_norm_kept(&self, params: &Params<CudaBuffer>, layer: NormSlots, x: &M, y: &mut M) -> Result<()> {
        self.normalise_kept(params, layer, x, y)
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
        self.normalise_backward_input(params, layer, x, dy, statistics, dx)
    }

    fn batch_norm_backward_weights(
        &self,
        params: &mut Params<CudaBuffer>,
        layer: NormSlots,
        statistics: &M,
        update: Option<&AdamStep>,
    ) -> Result<()> {
        self.normalise_backward_weights(params, layer, statistics, update)
    }

    fn draw_codes(&self, draw: Draw<'_>, n_choices: usize, z: &mut M) -> Result<()> {
        self.draw_code_rows(draw, n_choices, z)
    }

    fn code_likelihood(
        &self,
        sizes: (usize, usize),
        weight: f32,
        codes: &M,
        output: &mut M,
        sums: &mut CudaSums,
    ) -> Result<()> {
        self.code_log_likelihood(sizes, weight, codes, output, sums)
    }

    fn points(&self, latents: &[f32], n_latent: usize) -> Result<CudaPoints> {
        CudaPoints::upload(&self.driver, latents, n_latent)
    }

    fn spread(&self, points: &mut CudaPoints, sample: &[u32], draws: &[f64]) -> Result<Vec<u32>> {
        self.spread_rows(points, sample, draws)
    }

    fn expect(&self, points: &mut CudaPoints, components: &Components) -> Result<(Moments, f64)> {
        let (moments, [log_density, _]) = self.expectation(points, components, false)?;
        Ok((moments, log_density))
    }

    fn assign(&self, points: &mut CudaPoints, components: &Components) -> Result<(Moments, bool)> {
        let (moments, [_, moved]) = self.expectation(points, components, true)?;
        Ok((moments, moved > 0.0))
    }

    fn assigned(&self, points: &CudaPoints) -> Result<(Vec<u32>, Vec<f64>)> {
        points.assigned(&self.driver)
    }

    fn neighbours(
        &self,
        points: &CudaPoints,
        rows: &[u32],
        n_neighbours: usize,
        ask: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Vec<u32>> {
        ask()?;
        self.nearest(points, rows, n_neighbours)
    }
}

/// Blocks of `threads` that cover `n`.
fn blocks(n: usize, threads: u32) -> u32 {
    n.div_ceil(threads as usize) as u32
}
