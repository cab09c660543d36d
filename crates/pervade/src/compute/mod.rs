//! The compute door: a device and the short list of operations that training is made of.
//!
//! Everything above this module is written against [`Device`]; everything unsafe lives below it.
//! All operations work on R models side by side (the restart axis): matrices are [R, rows, columns],
//! parameters [R, P], and restart r of a pack sees exactly what it would see alone.

mod allocator;
mod any;
#[cfg(unix)]
mod bus_error;
mod components;
pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
pub(crate) mod host_simd;
mod images;
mod mapped;
#[cfg(not(feature = "cuda"))]
mod no_cuda;
mod params;
mod sticks;
mod tick;

use std::ops::Range;

pub use allocator::{LastWord, limit_arenas};
pub use any::AnyDevice;
pub use components::{Components, Moments};
pub use cpu::Cpu;
#[cfg(feature = "cuda")]
pub use cuda::{Cuda, Precision};
pub use images::{Curve, NormSlots, Windows};
pub use mapped::{FileMap, Mapped};
#[cfg(not(feature = "cuda"))]
pub use no_cuda::{Cuda, Precision};
pub use params::{Affine, Layout, Matrix, MixtureSlots, Params, Slot};
pub(crate) use sticks::{DRAWN_FRACTION, KUMARASWAMY_LIMITS, SERIES_TERMS};
pub use sticks::{MOST_STICKS, PosteriorMixture, StickPrior};
pub use tick::{AdamStep, MOST_STEPS, Tick, Ticks};
use tick::{BETA2, inverse_root, step_size};

use crate::Result;
use crate::data::{Dataset, Preparation};
use crate::seed::Key;

/// Bound on the log variances of q(z|x) and of the components: one row beyond it would turn every
/// gradient of its batch into infinities.
pub const LOG_VARIANCE_LIMIT: f32 = 20.0;

/// Bound on the log variance that a Gaussian decoder emits: a constant column would otherwise send
/// the likelihood to infinity.
pub const DECODER_LOG_VARIANCE_LIMIT: f32 = 10.0;

/// What follows an affine layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// Nothing.
    Linear,
    /// max(x, 0).
    Relu,
}

/// log p(x|z) from the decoder's output.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Likelihood {
    /// Data in [0, 1]; the output o is a logit: sum of x o - softplus(o).
    Bernoulli,
    /// The output is D means followed by D log variances.
    Gaussian,
    /// The output is D means; one variance for all.
    GaussianFixed {
        /// The noise variance.
        variance: f32,
    },
}

impl Likelihood {
    /// Columns of the decoder's output for D columns of data.
    pub fn n_outputs(self, n_columns: usize) -> usize {
        if self == Likelihood::Gaussian { 2 * n_columns } else { n_columns }
    }
}

/// How q(c|x) is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gamma {
    /// The optimum for a factorised q, in closed form.
    Exact,
    /// p(c|z) at the sampled z, as the paper does.
    Sampled,
}

/// Which rows of the data make a batch.
#[derive(Clone, Copy, Debug)]
pub enum Pick<'a> {
    /// Places `first..first + B` of each restart's shuffle of this epoch.
    Shuffled {
        /// One key a restart.
        keys: &'a [Key],
        /// The shuffle's number.
        epoch: u64,
        /// The first place.
        first: usize,
    },
    /// Rows `first..first + B`, the same for all restarts.
    Range {
        /// The first row.
        first: usize,
    },
}

/// A place in the random numbers of a step: one key a restart and the step's number.
#[derive(Clone, Copy, Debug)]
pub struct Draw<'a> {
    /// One key a restart.
    pub keys: &'a [Key],
    /// The step, counted over the whole stage.
    pub step: u64,
}

/// Sums over rows of the terms of the ELBO (paper, the detailed ELBO), in nats.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Terms {
    /// E log p(x|z).
    pub reconstruction: f64,
    /// Sum over c of gamma_c E log p(z|c).
    pub latent: f64,
    /// Sum over c of gamma_c log(pi_c / gamma_c).
    pub cluster: f64,
    /// Entropy of q(z|x).
    pub entropy: f64,
}

impl Terms {
    /// The ELBO: the sum of the terms.
    pub fn elbo(&self) -> f64 {
        self.reconstruction + self.latent + self.cluster + self.entropy
    }

    /// The terms added up over groups of four values.
    pub(crate) fn total(values: &[f64]) -> Self {
        let total = |term: usize| values.iter().skip(term).step_by(4).sum();
        Self { reconstruction: total(0), latent: total(1), cluster: total(2), entropy: total(3) }
    }

    /// The four terms.
    pub(crate) fn values(&self) -> [f64; 4] {
        [self.reconstruction, self.latent, self.cluster, self.entropy]
    }

    /// Every term multiplied by `factor`.
    pub fn scaled(&self, factor: f64) -> Self {
        Self {
            reconstruction: self.reconstruction * factor,
            latent: self.latent * factor,
            cluster: self.cluster * factor,
            entropy: self.entropy * factor,
        }
    }
}

/// A place where the arithmetic happens.
///
/// Letters: R restarts, B rows of a batch, L samples a row, D columns, J latents, C components.
pub trait Device: Sync + 'static {
    /// Single-precision numbers on the device.
    type Buffer: Send + Sync;
    /// The data set on the device, in its own type.
    type Rows<'a>: Sync;
    /// Rows picked for a step: their numbers and, prepared, their values.
    type Batch: Send;
    /// Running sums of the ELBO terms, one set a restart.
    type Sums: Send;
    /// A step that the device remembers so as to repeat it; empty at first.
    type Recording: Default;
    /// Latents of all rows of one restart, and where [`Device::assign`] last put them.
    type Points<'a>;

    /// What it is called.
    fn name(&self) -> String;
    /// How far a matrix product may be off, relative to its largest entry.
    fn product_error(&self) -> f64;
    /// Whether its buffers lie in the memory of the host.
    fn is_host(&self) -> bool;

    /// How many of `wanted` restarts to train side by side.
    fn restarts_at_once(&self, wanted: usize) -> usize;
    /// `len` zeros.
    fn zeros(&self, len: usize) -> Result<Self::Buffer>;
    /// Sets every number to zero.
    fn clear(&self, buffer: &mut Self::Buffer) -> Result<()>;
    /// Copies host numbers to the device.
    fn write(&self, to: &mut Self::Buffer, offset: usize, values: &[f32]) -> Result<()>;
    /// Copies numbers to the host.
    fn read(&self, from: &Self::Buffer, offset: usize, into: &mut [f32]) -> Result<()>;

    /// Moments of `weights` that steps taken as gradients were made have left may lie in an order of the device's own: what
    /// `read` gave, `stride` numbers a restart, is brought into rows.
    fn moments_to_rows(&self, _weights: &[Slot], _stride: usize, _moments: &mut [f32]) {}
    /// The other way, for `write`.
    fn moments_from_rows(&self, _weights: &[Slot], _stride: usize, _moments: &mut [f32]) {}

    /// How many steps to hand to [`Device::steps`] at once, [`MOST_STEPS`] at the most: a device that replays
    /// them saves the time between them.
    fn steps_at_once(&self) -> usize;
    /// Runs steps one after the other: `body` for each tick, or a recording of it with the tick's numbers in place
    /// of its own.
    ///
    /// A recording belongs to the buffers that `body` used when it was made; they must outlive it, and
    /// `body` must do the same every time but for what the tick says.
    fn steps(
        &self,
        ticks: &[Tick],
        recording: &mut Self::Recording,
        params: &mut Params<Self::Buffer>,
        body: impl FnMut(&mut Params<Self::Buffer>, &Tick) -> Result<()>,
    ) -> Result<()>;

    /// Makes the data set available to `gather`.
    fn rows<'a>(&self, data: &'a Dataset<'a>, preparation: &'a Preparation) -> Result<Self::Rows<'a>>;
    /// Room for `n_rows` rows a restart.
    fn batch(&self, rows: &Self::Rows<'_>, restarts: usize, n_rows: usize) -> Result<Self::Batch>;
    /// Picks rows, prepares them and leaves them in `batch`.
    fn gather(&self, rows: &Self::Rows<'_>, pick: Pick<'_>, batch: &mut Self::Batch) -> Result<()>;
    /// The picked rows, dense: [R, B, D].
    fn picked<'b>(&self, batch: &'b Self::Batch) -> &'b Matrix<Self::Buffer>;

    /// y = activation(x W + b), with x the picked rows; sparse rows are multiplied as such.
    fn input_affine(
        &self,
        params: &Params<Self::Buffer>,
        layer: Affine,
        rows: &Self::Rows<'_>,
        batch: &Self::Batch,
        activation: Activation,
        y: &mut Matrix<Self::Buffer>,
    ) -> Result<()>;
    /// Gradients of `input_affine`'s weights and bias from that of its output, or the update by them.
    fn input_affine_backward(
        &self,
        params: &mut Params<Self::Buffer>,
        layer: Affine,
        rows: &Self::Rows<'_>,
        batch: &Self::Batch,
        dy: &Matrix<Self::Buffer>,
        update: Option<&AdamStep>,
    ) -> Result<()>;
    /// y = activation(x W + b).
    fn affine(
        &self,
        params: &Params<Self::Buffer>,
        layer: Affine,
        x: &Matrix<Self::Buffer>,
        activation: Activation,
        y: &mut Matrix<Self::Buffer>,
    ) -> Result<()>;
    /// dW = x^T dy and db = sum of dy's rows. With an update (of a part that holds the layer), the layer
    /// takes Adam's step at once and what is left in the gradients is unspecified: dW need not go to
    /// memory and back.
    fn affine_backward_weights(
        &self,
        params: &mut Params<Self::Buffer>,
        layer: Affine,
        x: &Matrix<Self::Buffer>,
        dy: &Matrix<Self::Buffer>,
        update: Option<&AdamStep>,
    ) -> Result<()>;
    /// dx = dy W^T, zero where the ReLU that made `relu_output` was off.
    fn affine_backward_input(
        &self,
        params: &Params<Self::Buffer>,
        layer: Affine,
        dy: &Matrix<Self::Buffer>,
        relu_output: Option<&Matrix<Self::Buffer>>,
        dx: &mut Matrix<Self::Buffer>,
    ) -> Result<()>;
    /// y = x with each number dropped with probability `rate`, the others scaled by 1/(1 - rate).
    fn dropout(
        &self,
        draw: Draw<'_>,
        rate: f32,
        x: &Matrix<Self::Buffer>,
        y: &mut Matrix<Self::Buffer>,
    ) -> Result<()>;
    /// The gradient of `dropout`, in place: the same numbers are dropped and scaled.
    fn dropout_backward(&self, draw: Draw<'_>, rate: f32, dy: &mut Matrix<Self::Buffer>) -> Result<()>;

    /// z = mu + sigma eps for L samples a row (the reparameterisation); head is [R, B, 2J], z [R, L B, J].
    /// Without a draw z = mu.
    fn sample_latents(
        &self,
        draw: Option<Draw<'_>>,
        head: &Matrix<Self::Buffer>,
        z: &mut Matrix<Self::Buffer>,
    ) -> Result<()>;
    /// Adds dz's share to the gradient of the head; dz may come in two parts.
    fn sample_latents_backward(
        &self,
        head: &Matrix<Self::Buffer>,
        z: &Matrix<Self::Buffer>,
        dz: &Matrix<Self::Buffer>,
        dz_too: Option<&Matrix<Self::Buffer>>,
        d_head: &mut Matrix<Self::Buffer>,
    ) -> Result<()>;
    /// Adds log p(x|z) to the sums and replaces the decoder's output by the gradient of the loss,
    /// the mean of -log p(x|z) over B and L. One family a restart.
    fn likelihood(
        &self,
        families: &[Likelihood],
        x: &Matrix<Self::Buffer>,
        output: &mut Matrix<Self::Buffer>,
        sums: &mut Self::Sums,
    ) -> Result<()>;
    /// Room that `prior` needs for B rows and their L B samples.
    fn prior_scratch(
        &self,
        restarts: usize,
        n_rows: usize,
        n_samples: usize,
        mixture: MixtureSlots,
    ) -> Result<Self::Buffer>;
    /// Adds the terms of the prior and of the entropy to the sums; gradients of the loss go to the
    /// mixture's parameters, to `d_head` and to `dz` (both overwritten).
    fn prior(
        &self,
        gamma: Gamma,
        params: &mut Params<Self::Buffer>,
        mixture: MixtureSlots,
        head: &Matrix<Self::Buffer>,
        z: &Matrix<Self::Buffer>,
        scratch: &mut Self::Buffer,
        d_head: &mut Matrix<Self::Buffer>,
        dz: &mut Matrix<Self::Buffer>,
        sums: &mut Self::Sums,
    ) -> Result<()>;
    /// Log joint of each component for each row, [R, B, C]: the expectation under q(z|x) for
    /// `Gamma::Exact`, the density at the latent mean for `Gamma::Sampled`.
    fn log_joint(
        &self,
        gamma: Gamma,
        params: &Params<Self::Buffer>,
        mixture: MixtureSlots,
        head: &Matrix<Self::Buffer>,
        out: &mut Matrix<Self::Buffer>,
    ) -> Result<()>;
    /// Soft clusters around the mixture's means (DEC; Xie, Girshick and Farhadi, 2016): q_m in proportion to
    /// 1 / (1 + |z - mu_m|^2). Adds minus KL(P || Q) of each row to the sums, as the cluster term; the
    /// gradient of its mean over rows goes to the means and to `dz` (overwritten). `targets` is P, and `pulls`
    /// is left with how strongly each mean and each row pull at each other; both are [R, B, C].
    fn soft_clusters(
        &self,
        params: &mut Params<Self::Buffer>,
        mixture: MixtureSlots,
        targets: &Matrix<Self::Buffer>,
        z: &Matrix<Self::Buffer>,
        pulls: &mut Matrix<Self::Buffer>,
        dz: &mut Matrix<Self::Buffer>,
        sums: &mut Self::Sums,
    ) -> Result<()>;
    /// The first `n` columns of every row become their softmax; the others stay.
    fn softmax(&self, n: usize, x: &mut Matrix<Self::Buffer>) -> Result<()>;
    /// The gradient of `softmax`, in place, from what it left in `y`.
    fn softmax_backward(
        &self,
        n: usize,
        y: &Matrix<Self::Buffer>,
        dy: &mut Matrix<Self::Buffer>,
    ) -> Result<()>;
    /// Copies columns `from` of all rows of `x` to rows `to[0]..` and columns `to[1]..` of `y`.
    fn copy_columns(
        &self,
        x: &Matrix<Self::Buffer>,
        from: Range<usize>,
        y: &mut Matrix<Self::Buffer>,
        to: [usize; 2],
    ) -> Result<()> {
        self.copy_block(x, 0..x.rows, from, y, to)
    }
    /// Copies these rows and columns of `x` to rows `to[0]..` and columns `to[1]..` of `y`.
    fn copy_block(
        &self,
        x: &Matrix<Self::Buffer>,
        rows: Range<usize>,
        columns: Range<usize>,
        y: &mut Matrix<Self::Buffer>,
        to: [usize; 2],
    ) -> Result<()>;
    /// Weights that sum to one, [R, B, J], by breaking a stick J - 1 times (Nalisnick and Smyth, 2017). The head,
    /// [R, B, 2J], is J numbers whose softplus is a and J whose softplus is b, the last of each unused; a fraction of
    /// what is left is drawn from Kumaraswamy(a, b) and, without a draw, its mean. At most [`MOST_STICKS`] weights.
    fn stick_breaking(
        &self,
        draw: Option<Draw<'_>>,
        head: &Matrix<Self::Buffer>,
        weights: &mut Matrix<Self::Buffer>,
    ) -> Result<()>;
    /// Adds the weights' gradient to that of the head; the same fractions are drawn again.
    fn stick_breaking_backward(
        &self,
        draw: Option<Draw<'_>>,
        head: &Matrix<Self::Buffer>,
        d_weights: &Matrix<Self::Buffer>,
        d_head: &mut Matrix<Self::Buffer>,
    ) -> Result<()>;
    /// Adds minus KL(q || prior) of each row's fractions to the sums, as the cluster term; the gradient of its mean
    /// over rows goes to `d_head` (overwritten).
    fn stick_prior(
        &self,
        prior: StickPrior,
        head: &Matrix<Self::Buffer>,
        d_head: &mut Matrix<Self::Buffer>,
        sums: &mut Self::Sums,
    ) -> Result<()>;
    /// As `likelihood`, with each row's samples counted by its shares, [R, B, L]: adds the sum of share_l log p(x|z_l)
    /// to the sums; the output becomes the gradient of minus its mean over rows, which is added to `d_shares`, too.
    fn shared_likelihood(
        &self,
        families: &[Likelihood],
        x: &Matrix<Self::Buffer>,
        shares: &Matrix<Self::Buffer>,
        output: &mut Matrix<Self::Buffer>,
        d_shares: &mut Matrix<Self::Buffer>,
        sums: &mut Self::Sums,
    ) -> Result<()>;
    /// Adds, for each row's mixture of Gaussians, the sum of share_k E ln N(z; m_k, I) under component k to the sums, as
    /// the latent term, and -ln of the sum of drawn_k N(z_k; component k), as the entropy; m_k has -`spread` to
    /// `spread` in all its columns, in even steps. Gradients of minus the mean over rows go to the components' heads,
    /// to the shares and to the drawn weights (all overwritten); none goes to z, which moves with its component.
    fn posterior_mixture(
        &self,
        spread: f32,
        posterior: PosteriorMixture<'_, Self::Buffer>,
        d_head: &mut Matrix<Self::Buffer>,
        d_shares: &mut Matrix<Self::Buffer>,
        d_drawn: &mut Matrix<Self::Buffer>,
        sums: &mut Self::Sums,
    ) -> Result<()>;
    /// One step of Adam over its part of the flat buffers.
    fn adam(&self, params: &mut Params<Self::Buffer>, step: &AdamStep) -> Result<()>;

    /// Sums at zero, for steps with L B samples.
    fn sums(&self, restarts: usize, n_samples: usize) -> Result<Self::Sums>;
    /// The sums so far, one a restart; they start again at zero.
    fn take_sums(&self, sums: &mut Self::Sums) -> Result<Vec<Terms>>;
    /// The sums as they stand in the middle of an epoch, for a checkpoint: for each restart the same number of
    /// groups, each with the four terms in the order of [`Terms`].
    fn read_sums(&self, sums: &Self::Sums) -> Result<Vec<f64>>;
    /// Goes on from what `read_sums` gave. Values of another device are added up first.
    fn write_sums(&self, sums: &mut Self::Sums, values: &[f64]) -> Result<()>;

    /// Every window of every image as a row, [places, k k C], zeros beyond the edges: with the layer that follows, a
    /// convolution. The matrices' rows may be cut as they like: images lie one behind the other.
    fn unfold(&self, windows: &Windows, x: &Matrix<Self::Buffer>, y: &mut Matrix<Self::Buffer>)
    -> Result<()>;
    /// The adjoint of `unfold`: every pixel becomes the sum of its places in the windows of `x`. With the layer
    /// before it, a transposed convolution; and the gradient of `unfold`, as that is of this.
    fn fold(&self, windows: &Windows, x: &Matrix<Self::Buffer>, y: &mut Matrix<Self::Buffer>) -> Result<()>;
    /// Every number bent, in place.
    fn bend(&self, curve: Curve, x: &mut Matrix<Self::Buffer>) -> Result<()>;
    /// The gradient of `bend`, in place, from what it left in `y`.
    fn bend_backward(
        &self,
        curve: Curve,
        y: &Matrix<Self::Buffer>,
        dy: &mut Matrix<Self::Buffer>,
    ) -> Result<()>;
    /// y = gain (x - mean) / deviation + shift with mean and deviation of each column (Ioffe and Szegedy, 2015). The
    /// rows fall into as many equal groups as `statistics`, [R, 4 groups, C], has room for, each by itself; what the
    /// way back needs is left there. `y` may be cut into other rows than `x`.
    fn batch_norm(
        &self,
        params: &Params<Self::Buffer>,
        layer: NormSlots,
        x: &Matrix<Self::Buffer>,
        statistics: &mut Matrix<Self::Buffer>,
        y: &mut Matrix<Self::Buffer>,
    ) -> Result<()>;
    /// The same with the kept means and variances: a row's result does not depend on the others.
    fn batch_norm_kept(
        &self,
        params: &Params<Self::Buffer>,
        layer: NormSlots,
        x: &Matrix<Self::Buffer>,
        y: &mut Matrix<Self::Buffer>,
    ) -> Result<()>;
    /// dx of `batch_norm`; the sums that the gradients of gain and shift are made of are left in `statistics`.
    fn batch_norm_backward_input(
        &self,
        params: &Params<Self::Buffer>,
        layer: NormSlots,
        x: &Matrix<Self::Buffer>,
        dy: &Matrix<Self::Buffer>,
        statistics: &mut Matrix<Self::Buffer>,
        dx: &mut Matrix<Self::Buffer>,
    ) -> Result<()>;
    /// Gradients of gain and shift, and with an update Adam's step by them; the kept means and variances move a tenth
    /// of the way to the groups' average.
    fn batch_norm_backward_weights(
        &self,
        params: &mut Params<Self::Buffer>,
        layer: NormSlots,
        statistics: &Matrix<Self::Buffer>,
        update: Option<&AdamStep>,
    ) -> Result<()>;
    /// Draws codes: of the first `n_choices` columns of each row one is 1, the others 0; all further columns are
    /// uniform in [-1, 1).
    fn draw_codes(&self, draw: Draw<'_>, n_choices: usize, z: &mut Matrix<Self::Buffer>) -> Result<()>;
    /// log q(code | output), for codes as `draw_codes` makes them; `sizes` are its choices and how many of the numbers count. The output's
    /// first columns are logits of the choice, then come the numbers' means and, if there are as many columns more,
    /// their log variances; else their variance is 1. Adds the choice's part to the sums' cluster term and the numbers'
    /// part to the latent term, and replaces the output by the gradient of -`weight` log q, summed over rows and divided
    /// by their number. Rows of the output beyond those of `codes` have no code, and a gradient of zero.
    fn code_likelihood(
        &self,
        sizes: (usize, usize),
        weight: f32,
        codes: &Matrix<Self::Buffer>,
        output: &mut Matrix<Self::Buffer>,
        sums: &mut Self::Sums,
    ) -> Result<()>;

    /// Takes the latents of all rows, [N, J], for the operations below.
    fn points<'a>(&self, latents: &'a [f32], n_latent: usize) -> Result<Self::Points<'a>>;
    /// Rows far from each other (k-means++): the first of `sample`, then one a draw but the last, each with
    /// probability in proportion to its squared distance from those before. A draw is uniform in [0, 1) and
    /// picks the place in the sample where the running sum passes its share of the whole.
    fn spread(&self, points: &mut Self::Points<'_>, sample: &[u32], draws: &[f64]) -> Result<Vec<u32>>;
    /// Expectation step: moments under the responsibilities, and the sum of the rows' log densities.
    fn expect(&self, points: &mut Self::Points<'_>, components: &Components) -> Result<(Moments, f64)>;
    /// The same with each row wholly its most probable component's, the first of equals; and whether any row
    /// is now another's than after the call before.
    fn assign(&self, points: &mut Self::Points<'_>, components: &Components) -> Result<(Moments, bool)>;
    /// What `assign` left: the component of each row, and minus twice the log joint with it (the squared
    /// distance where variances are one and constants zero).
    fn assigned(&self, points: &Self::Points<'_>) -> Result<(Vec<u32>, Vec<f64>)>;
    /// For each of `rows` the `n_neighbours` others (places in `rows`) at the least Euclidean distance, nearest
    /// first; of equally near ones the smaller first. Sums of squared differences in single precision,
    /// column after column, without fused operations: the same on every device. [n, k], with k < n.
    /// An error of `ask`, which long work calls several times a second, ends it.
    fn neighbours(
        &self,
        points: &Self::Points<'_>,
        rows: &[u32],
        n_neighbours: usize,
        ask: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Vec<u32>>;
}
