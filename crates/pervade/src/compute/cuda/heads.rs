//! Between the networks: the sampled latent, dropout, log p(x|z); and Adam over flat ranges.

use super::driver::{Arg, Kernel, Launch, MOST_RESTARTS};
use super::{
    AdamStep, Cuda, CudaBuffer, CudaSums, Draw, Keys, Likelihood, M, Params, Result, blocks, inverse_root,
    step_size,
};

/// What `kernels/heads.cu` calls by the same name.
#[repr(C)]
struct Families {
    kind: [u32; MOST_RESTARTS],
    variance: [f32; MOST_RESTARTS],
}

impl Families {
    fn new(families: &[Likelihood]) -> Self {
        let mut all = Self { kind: [0; MOST_RESTARTS], variance: [1.0; MOST_RESTARTS] };
        for (i, family) in families.iter().enumerate() {
            (all.kind[i], all.variance[i]) = match *family {
                Likelihood::Bernoulli => (0, 1.0),
                Likelihood::Gaussian => (1, 1.0),
                Likelihood::GaussianFixed { variance } => (2, variance),
            };
        }
        all
    }
}

/// Threads of a block where each works for itself.
const THREADS: u32 = 128;

impl Cuda {
    /// The clock's address and the draw's number relative to it.
    pub(super) fn drawn(&self, draw: Draw<'_>) -> (Keys, u64, u64) {
        let (clock, tick) = self.clock();
        (Keys::new(draw.keys), clock, draw.step.wrapping_sub(tick.draw))
    }

    pub(super) fn sample(&self, draw: Option<Draw<'_>>, head: &M, z: &mut M) -> Result<()> {
        let noisy = draw.is_some();
        let (keys, clock, step) = draw.map_or((Keys::new(&[]), 0, 0), |draw| self.drawn(draw));
        let n = z.rows * z.columns.div_ceil(4);
        let launch = Launch {
            kernel: Kernel::SampleLatents,
            grid: (blocks(n, THREADS), z.restarts as u32, 1),
            threads: THREADS,
            shared: 0,
        };
        let (from, to) = (head.data.address(0), z.data.address(0));
        let args = [Arg::of(&keys), noisy.into(), clock.into(), step.into(), from.into(), to.into()];
        let sizes = [head.rows.into(), z.rows.into(), z.columns.into()];
        self.driver.launch(launch, &args.into_iter().chain(sizes).collect::<Vec<_>>())
    }

    pub(super) fn sample_backward(
        &self,
        head: &M,
        z: &M,
        dz: &M,
        dz_too: Option<&M>,
        d_head: &mut M,
    ) -> Result<()> {
        let launch = Launch {
            kernel: Kernel::SampleLatentsBackward,
            grid: (blocks(head.rows * z.columns, THREADS), z.restarts as u32, 1),
            threads: THREADS,
            shared: 0,
        };
        let at = |matrix: &M| matrix.data.address(0);
        let matrices = [at(head), at(z), at(dz), dz_too.map_or(0, at), at(d_head)].map(Arg::from);
        let sizes = [head.rows, z.rows, z.columns].map(Arg::from);
        self.driver.launch(launch, &matrices.into_iter().chain(sizes).collect::<Vec<_>>())
    }

    pub(super) fn drop_numbers(&self, draw: Draw<'_>, rate: f32, from: u64, y: &mut M) -> Result<()> {
        let (keys, clock, step) = self.drawn(draw);
        let threshold = (f64::from(rate) * 4_294_967_296.0) as u32;
        let launch = Launch {
            kernel: Kernel::Dropout,
            grid: (blocks(y.rows * y.columns.div_ceil(4), THREADS), y.restarts as u32, 1),
            threads: THREADS,
            shared: 0,
        };
        let args = [
            Arg::of(&keys),
            clock.into(),
            step.into(),
            threshold.into(),
            (1.0 / (1.0 - rate)).into(),
            from.into(),
            y.data.address(0).into(),
            y.rows.into(),
            y.columns.into(),
        ];
        self.driver.launch(launch, &args)
    }

    pub(super) fn log_likelihood(
        &self,
        families: &[Likelihood],
        x: &M,
        shares: Option<(&M, &mut M)>,
        output: &mut M,
        sums: &mut CudaSums,
    ) -> Result<()> {
        assert!(output.rows == sums.n_places, "sums made for batches of this size");
        let fits = |(shares, d): &(&M, &mut M)| shares.stride() == output.rows && d.stride() == output.rows;
        assert!(shares.as_ref().is_none_or(fits), "a share for each sample of each row");
        let (shares, d_shares) =
            shares.map_or((0, 0), |(shares, d)| (shares.data.address(0), d.data.address(0)));
        let families = Families::new(families);
        let launch = Launch {
            kernel: Kernel::Likelihood,
            grid: (output.rows as u32, output.restarts as u32, 1),
            threads: if x.columns > 128 { 128 } else { 64 },
            shared: 0,
        };
        let args = [
            Arg::of(&families),
            x.data.address(0).into(),
            shares.into(),
            d_shares.into(),
            output.data.address(0).into(),
            sums.at.into(),
            x.rows.into(),
            output.rows.into(),
            x.columns.into(),
            output.columns.into(),
        ];
        self.driver.launch(launch, &args)
    }

    pub(super) fn adam_range(&self, params: &mut Params<CudaBuffer>, step: &AdamStep) -> Result<()> {
        let range = &step.range;
        if range.is_empty() || step.learning_rate == 0.0 {
            return Ok(());
        }
        let gradients = [range.start, range.end].map(|at| params.gradients.address(at));
        self.settle(|at| (gradients[0]..gradients[1]).contains(&at))?;
        let (clock, _) = self.clock();
        let launch = Launch {
            kernel: Kernel::Adam,
            grid: (blocks(range.len(), 256), params.restarts as u32, 1),
            threads: 256,
            shared: 0,
        };
        let buffers = [&params.values, &params.gradients, &params.first_moments, &params.second_moments]
            .map(|buffer| Arg::from(buffer.address(range.start)));
        let numbers = [
            Arg::from(params.stride),
            range.len().into(),
            clock.into(),
            step.group.into(),
            step_size(step.step, step.learning_rate, params.beta1).into(),
            inverse_root(step.step).into(),
            step.epsilon.into(),
            params.beta1.into(),
        ];
        self.driver.launch(launch, &buffers.into_iter().chain(numbers).collect::<Vec<_>>())?;
        // These may be weights.
        self.driver.next_not_early();
        Ok(())
    }
}
