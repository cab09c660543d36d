//! The CPU: the reference of every operation, and fast.
//!
//! Threads come from the caller's rayon pool. Work is cut into pieces of a fixed size and sums are
//! taken in a fixed order, so neither the number of threads nor the instruction set shows in a result.

mod adam;
mod affine;
mod batch;
mod batch_norm;
pub(crate) mod block;
mod codes;
mod curves;
mod drawn_codes;
mod gamma;
mod heads;
mod images;
pub mod math;
pub(crate) mod neighbours;
mod pages;
mod points;
mod posterior;
mod prior;
pub mod product;
mod shared;
pub mod simd;
mod soft_clusters;
mod sticks;

pub use batch::{CpuBatch, CpuRows};
pub use points::CpuPoints;

use self::simd::Isa;
use super::*;

/// The CPU with the best instructions it has.
#[derive(Clone, Copy, Debug)]
pub struct Cpu {
    isa: Isa,
}

impl Default for Cpu {
    fn default() -> Self {
        Self::new()
    }
}

impl Cpu {
    /// The CPU, its instruction set detected.
    pub fn new() -> Self {
        Self { isa: Isa::detect() }
    }

    /// The CPU with a given instruction set, which must be one of [`Isa::available`].
    pub fn with_isa(isa: Isa) -> Option<Self> {
        Isa::available().contains(&isa).then_some(Self { isa })
    }

    /// The instruction set in use.
    pub fn isa(&self) -> Isa {
        self.isa
    }
}

/// Running sums of the terms, and room for one value a row.
#[derive(Debug)]
pub struct CpuSums {
    totals: Vec<Terms>,
    per_row: Vec<[f64; 3]>,
}

impl CpuSums {
    /// One entry a row, to be filled by tasks and summed in order.
    fn rows(&mut self, n: usize) -> &mut [[f64; 3]] {
        &mut self.per_row[..n]
    }
}

type M = Matrix<Vec<f32>>;

/// What the system calls the processor.
fn processor_name() -> String {
    let about = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let named = |line: &str| Some(line.strip_prefix("model name")?.split_once(':')?.1.trim().to_string());
    about.lines().find_map(named).unwrap_or_else(|| "CPU".to_string())
}

impl Device for Cpu {
    type Buffer = Vec<f32>;
    type Rows<'a> = CpuRows<'a>;
    type Batch = CpuBatch;
    type Sums = CpuSums;
    type Recording = ();
    type Points<'a> = CpuPoints<'a>;

    fn name(&self) -> String {
        format!("{} ({:?})", processor_name(), self.isa)
    }

    fn product_error(&self) -> f64 {
        // Single precision over sums of a few hundred terms.
        2e-6
    }

    fn is_host(&self) -> bool {
        true
    }

    fn restarts_at_once(&self, _wanted: usize) -> usize {
        // One model fills the cores; a second would only push its weights out of the cache.
        1
    }

    fn zeros(&self, len: usize) -> Result<Vec<f32>> {
        Ok(pages::zeros(len))
    }

    fn clear(&self, buffer: &mut Vec<f32>) -> Result<()> {
        buffer.fill(0.0);
        Ok(())
    }

    fn write(&self, to: &mut Vec<f32>, offset: usize, values: &[f32]) -> Result<()> {
        to[offset..offset + values.len()].copy_from_slice(values);
        Ok(())
    }

    fn read(&self, from: &Vec<f32>, offset: usize, into: &mut [f32]) -> Result<()> {
        into.copy_from_slice(&from[offset..offset + into.len()]);
        Ok(())
    }

    fn steps_at_once(&self) -> usize {
        1
    }

    fn steps(
        &self,
        ticks: &[Tick],
        _recording: &mut (),
        params: &mut Params<Vec<f32>>,
        mut body: impl FnMut(&mut Params<Vec<f32>>, &Tick) -> Result<()>,
    ) -> Result<()> {
        ticks.iter().try_for_each(|tick| body(params, tick))
    }

    fn rows<'a>(&self, data: &'a Dataset<'a>, preparation: &'a Preparation) -> Result<CpuRows<'a>> {
        Ok(CpuRows::new(data, preparation))
    }

    fn batch(&self, rows: &CpuRows<'_>, restarts: usize, n_rows: usize) -> Result<CpuBatch> {
        Ok(CpuBatch::new(rows, restarts, n_rows))
    }

    fn gather(&self, rows: &CpuRows<'_>, pick: Pick<'_>, batch: &mut CpuBatch) -> Result<()> {
        batch.fill(rows, pick);
        Ok(())
    }

    fn picked<'b>(&self, batch: &'b CpuBatch) -> &'b M {
        &batch.x
    }

    fn input_affine(
        &self,
        params: &Params<Vec<f32>>,
        layer: Affine,
        rows: &CpuRows<'_>,
        batch: &CpuBatch,
        activation: Activation,
        y: &mut M,
    ) -> Result<()> {
        if rows.is_sparse() {
            batch.sparse_affine(self.isa, params, layer, activation, y);
        } else {
            affine::forward(self.isa, params, layer, &batch.x, activation, y);
        }
        Ok(())
    }

    fn input_affine_backward(
        &self,
        params: &mut Params<Vec<f32>>,
        layer: Affine,
        rows: &CpuRows<'_>,
        batch: &CpuBatch,
        dy: &M,
        update: Option<&AdamStep>,
    ) -> Result<()> {
        if rows.is_sparse() {
            batch.sparse_affine_backward(self.isa, params, layer, dy);
            update.into_iter().for_each(|step| adam::adam_layer(self.isa, params, layer, step));
        } else {
            affine::backward_weights(self.isa, params, layer, &batch.x, dy, update);
        }
        Ok(())
    }

    fn affine(
        &self,
        params: &Params<Vec<f32>>,
        layer: Affine,
        x: &M,
        activation: Activation,
        y: &mut M,
    ) -> Result<()> {
        affine::forward(self.isa, params, layer, x, activation, y);
        Ok(())
    }

    fn affine_backward_weights(
        &self,
        params: &mut Params<Vec<f32>>,
        layer: Affine,
        x: &M,
        dy: &M,
        update: Option<&AdamStep>,
    ) -> Result<()> {
        affine::backward_weights(self.isa, params, layer, x, dy, update);
        Ok(())
    }

    fn affine_backward_input(
        &self,
        params: &Params<Vec<f32>>,
        layer: Affine,
        dy: &M,
        relu_output: Option<&M>,
        dx: &mut M,
    ) -> Result<()> {
        affine::backward_input(self.isa, params, layer, dy, relu_output, dx);
        Ok(())
    }

    fn dropout(&self, draw: Draw<'_>, rate: f32, x: &M, y: &mut M) -> Result<()> {
        y.data.copy_from_slice(&x.data);
        heads::dropout(draw, rate, y);
        Ok(())
    }

    fn dropout_backward(&self, draw: Draw<'_>, rate: f32, dy: &mut M) -> Result<()> {
        heads::dropout(draw, rate, dy);
        Ok(())
    }

    fn sample_latents(&self, draw: Option<Draw<'_>>, head: &M, z: &mut M) -> Result<()> {
        heads::sample_latents(draw, head, z);
        Ok(())
    }

    fn sample_latents_backward(
        &self,
        head: &M,
        z: &M,
        dz: &M,
        dz_too: Option<&M>,
        d_head: &mut M,
    ) -> Result<()> {
        [Some(dz), dz_too]
            .into_iter()
            .flatten()
            .for_each(|dz| heads::sample_latents_backward(head, z, dz, d_head));
        Ok(())
    }

    fn likelihood(&self, families: &[Likelihood], x: &M, output: &mut M, sums: &mut CpuSums) -> Result<()> {
        heads::likelihood(self.isa, families, x, output, sums);
        Ok(())
    }

    fn prior_scratch(
        &self,
        restarts: usize,
        n_rows: usize,
        _n_samples: usize,
        mixture: MixtureSlots,
    ) -> Result<Vec<f32>> {
        Ok(vec![0.0; prior::scratch_len(restarts, n_rows, mixture)])
    }

    fn prior(
        &self,
        gamma: Gamma,
        params: &mut Params<Vec<f32>>,
        mixture: MixtureSlots,
        head: &M,
        z: &M,
        scratch: &mut Vec<f32>,
        d_head: &mut M,
        dz: &mut M,
        sums: &mut CpuSums,
    ) -> Result<()> {
        prior::prior(self.isa, gamma, params, mixture, head, z, scratch, d_head, dz, sums);
        Ok(())
    }

    fn log_joint(
        &self,
        gamma: Gamma,
        params: &Params<Vec<f32>>,
        mixture: MixtureSlots,
        head: &M,
        out: &mut M,
    ) -> Result<()> {
        prior::log_joint(self.isa, gamma, params, mixture, head, out);
        Ok(())
    }

    fn soft_clusters(
        &self,
        params: &mut Params<Vec<f32>>,
        mixture: MixtureSlots,
        targets: &M,
        z: &M,
        pulls: &mut M,
        dz: &mut M,
        sums: &mut CpuSums,
    ) -> Result<()> {
        soft_clusters::soft_clusters(params, mixture, targets, z, pulls, dz, sums);
        Ok(())
    }

    fn softmax(&self, n: usize, x: &mut M) -> Result<()> {
        codes::softmax(n, x);
        Ok(())
    }

    fn softmax_backward(&self, n: usize, y: &M, dy: &mut M) -> Result<()> {
        codes::softmax_backward(n, y, dy);
        Ok(())
    }

    fn copy_block(
        &self,
        x: &M,
        rows: Range<usize>,
        columns: Range<usize>,
        y: &mut M,
        to: [usize; 2],
    ) -> Result<()> {
        codes::copy_block(x, rows, columns, y, to);
        Ok(())
    }

    fn stick_breaking(&self, draw: Option<Draw<'_>>, head: &M, weights: &mut M) -> Result<()> {
        sticks::stick_breaking(draw, head, weights);
        Ok(())
    }

    fn stick_breaking_backward(
        &self,
        draw: Option<Draw<'_>>,
        head: &M,
        d_weights: &M,
        d_head: &mut M,
    ) -> Result<()> {
        sticks::stick_breaking_backward(draw, head, d_weights, d_head);
        Ok(())
    }

    fn stick_prior(&self, prior: StickPrior, head: &M, d_head: &mut M, sums: &mut CpuSums) -> Result<()> {
        sticks::stick_prior(prior, head, d_head, sums);
        Ok(())
    }

    fn shared_likelihood(
        &self,
        families: &[Likelihood],
        x: &M,
        shares: &M,
        output: &mut M,
        d_shares: &mut M,
        sums: &mut CpuSums,
    ) -> Result<()> {
        heads::shared_likelihood(self.isa, families, x, shares, output, d_shares, sums);
        Ok(())
    }

    fn posterior_mixture(
        &self,
        spread: f32,
        posterior: PosteriorMixture<'_, Vec<f32>>,
        d_head: &mut M,
        d_shares: &mut M,
        d_drawn: &mut M,
        sums: &mut CpuSums,
    ) -> Result<()> {
        posterior::posterior_mixture(spread, posterior, d_head, d_shares, d_drawn, sums);
        Ok(())
    }

    fn adam(&self, params: &mut Params<Vec<f32>>, step: &AdamStep) -> Result<()> {
        adam::adam(self.isa, params, step);
        Ok(())
    }

    fn sums(&self, restarts: usize, n_samples: usize) -> Result<CpuSums> {
        let per_row = vec![[0.0; 3]; restarts * n_samples];
        Ok(CpuSums { totals: vec![Terms::default(); restarts], per_row })
    }

    fn take_sums(&self, sums: &mut CpuSums) -> Result<Vec<Terms>> {
        let fresh = vec![Terms::default(); sums.totals.len()];
        Ok(std::mem::replace(&mut sums.totals, fresh))
    }

    fn read_sums(&self, sums: &CpuSums) -> Result<Vec<f64>> {
        Ok(sums.totals.iter().flat_map(Terms::values).collect())
    }

    fn write_sums(&self, sums: &mut CpuSums, values: &[f64]) -> Result<()> {
        let per_restart = values.len() / sums.totals.len();
        sums.totals.iter_mut().zip(values.chunks_exact(per_restart)).for_each(|(total, values)| {
            *total = Terms::total(values);
        });
        Ok(())
    }

    fn unfold(&self, windows: &Windows, x: &M, y: &mut M) -> Result<()> {
        images::unfold(windows, x, y);
        Ok(())
    }

    fn fold(&self, windows: &Windows, x: &M, y: &mut M) -> Result<()> {
        images::fold(windows, x, y);
        Ok(())
    }

    fn bend(&self, curve: Curve, x: &mut M) -> Result<()> {
        curves::bend(self.isa, curve, x);
        Ok(())
    }

    fn bend_backward(&self, curve: Curve, y: &M, dy: &mut M) -> Result<()> {
        curves::bend_backward(self.isa, curve, y, dy);
        Ok(())
    }

    fn batch_norm(
        &self,
        params: &Params<Vec<f32>>,
        layer: NormSlots,
        x: &M,
        statistics: &mut M,
        y: &mut M,
    ) -> Result<()> {
        batch_norm::forward(params, layer, x, statistics, y);
        Ok(())
    }

    fn batch_norm_kept(&self, params: &Params<Vec<f32>>, layer: NormSlots, x: &M, y: &mut M) -> Result<()> {
        batch_norm::forward_kept(params, layer, x, y);
        Ok(())
    }

    fn batch_norm_backward_input(
        &self,
        params: &Params<Vec<f32>>,
        layer: NormSlots,
        x: &M,
        dy: &M,
        statistics: &mut M,
        dx: &mut M,
    ) -> Result<()> {
        batch_norm::backward_input(params, layer, x, dy, statistics, dx);
        Ok(())
    }

    fn batch_norm_backward_weights(
        &self,
        params: &mut Params<Vec<f32>>,
        layer: NormSlots,
        statistics: &M,
        update: Option<&AdamStep>,
    ) -> Result<()> {
        batch_norm::backward_weights(self.isa, params, layer, statistics, update);
        Ok(())
    }

    fn draw_codes(&self, draw: Draw<'_>, n_choices: usize, z: &mut M) -> Result<()> {
        drawn_codes::draw_codes(draw, n_choices, z);
        Ok(())
    }

    fn code_likelihood(
        &self,
        sizes: (usize, usize),
        weight: f32,
        codes: &M,
        output: &mut M,
        sums: &mut CpuSums,
    ) -> Result<()> {
        drawn_codes::code_likelihood(sizes, weight, codes, output, sums);
        Ok(())
    }

    fn points<'a>(&self, latents: &'a [f32], n_latent: usize) -> Result<CpuPoints<'a>> {
        Ok(CpuPoints::new(latents, n_latent))
    }

    fn spread(&self, points: &mut CpuPoints<'_>, sample: &[u32], draws: &[f64]) -> Result<Vec<u32>> {
        Ok(points.spread(sample, draws))
    }

    fn expect(&self, points: &mut CpuPoints<'_>, components: &Components) -> Result<(Moments, f64)> {
        Ok(points.expect(components))
    }

    fn assign(&self, points: &mut CpuPoints<'_>, components: &Components) -> Result<(Moments, bool)> {
        Ok(points.assign(components))
    }

    fn assigned(&self, points: &CpuPoints<'_>) -> Result<(Vec<u32>, Vec<f64>)> {
        Ok((points.assignment.clone(), points.squares.clone()))
    }

    fn neighbours(
        &self,
        points: &CpuPoints<'_>,
        rows: &[u32],
        n_neighbours: usize,
        ask: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Vec<u32>> {
        neighbours::neighbours(points.latents, points.n_latent, rows, n_neighbours, ask)
    }
}
