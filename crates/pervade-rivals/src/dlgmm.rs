//! DLGMM: a variational auto-encoder whose posterior is a Gaussian mixture.
//!
//! Paper: Nalisnick, Hertel and Smyth, "Approximate inference for deep latent Gaussian mixtures" (2016). The encoder
//! outputs K Gaussians and the fractions of a stick, whose weights are the mixture's; a latent is drawn from each
//! Gaussian and decoded. With shares w, the weights at the fractions' means, and drawn weights p, the ELBO is
//! sum of w_k (log p(x|z_k) + E log N(z; m_k, I)) - KL(fractions || Dirichlet) - log of the sum of p_k N(z_k; mu_k, sigma_k):
//! [`MixturePosterior::weighted_likelihood`], [`MixturePosterior::posterior_mixture`], [`StickBreaking::stick_prior`].
//! K = 5, J = 5, two hidden layers of 500, Adam at 3e-4, batches of 100, Dirichlet(1), as in the authors' script for
//! nearest neighbours; prior means evenly spaced from -0.5 to 0.5, one of the settings in their logs. The representation
//! of a row is, as in that script, from the Gaussian with the largest share: its mean, where they draw a sample. The
//! row's cluster is that Gaussian.
//! Departures: a and b by softplus and u in (0.01, 0.99), as in SB-VAE, where the authors' code has an exponential and
//! (0, 1); ten terms of the series instead of eleven; rows not binarised; 200 epochs instead of 500 with early stopping.
//! Tried: the mean over components weighted by shares, and all means concatenated, have errors within 0.6 points of the
//! largest share's mean (5,000 rows of MNIST, one hidden layer of 200, 30 epochs): the Gaussians of a row are close to
//! each other.
//! Expected on MNIST: test errors of k-nearest neighbours of 9.14, 8.38 and 8.42 % (k = 3, 5, 10) in the paper.

use pervade::compute::{
    self, Codes, Device, Draw, Matrix, MixturePosterior, Params, PosteriorMixture, RowSelection,
    StickBreaking, StickPrior, Tick,
};
use pervade::config::{Clusters, Recipe, Settings};
use pervade::data::Dataset;
use pervade::mixture::DiagonalMixture;
use pervade::nn::{Architecture, Sizes, Tape};
use pervade::seed::{Key, Stream};
use pervade::train::{Observer, Pack, Run, heads};
use pervade::{Clusterer, Clustering, Error, Result};

use crate::encoded::{EncodedRows, unscaled};
use crate::latents::{TrainedNetworks, begin, settings_of};
use crate::sb_vae::{argmax, check_sticks, mean_weights};
use crate::steps::{Step, train};

/// DLGMM with its settings.
#[derive(Clone, Debug)]
pub struct Dlgmm {
    /// The number of Gaussians per row, K.
    pub n_components: usize,
    /// Networks and training; `latents` is J. The seed is overridden.
    pub settings: Settings,
    /// c of the Dirichlet prior of the weights.
    pub concentration: f32,
    /// The components' prior means are evenly spaced from `-spread` to `spread`.
    pub spread: f32,
}

impl Default for Dlgmm {
    fn default() -> Self {
        let settings = Settings::recipe(Recipe::Paper, Clusters::Auto);
        let settings = settings.with(|s| {
            s.hidden = Some(vec![500, 500]);
            s.latents = Some(5);
            s.epochs = Some(200);
            s.learning_rate = 3e-4;
            s.decay = 1.0;
        });
        Self { n_components: 5, settings, concentration: 1.0, spread: 0.5 }
    }
}

/// Adam's epsilon.
const EPSILON: f32 = 1e-8;

impl<D: Device + StickBreaking + MixturePosterior + Codes> Clusterer<D> for Dlgmm {
    fn name(&self) -> &'static str {
        "dlgmm"
    }

    fn cluster(
        &self,
        data: &Dataset,
        device: &D,
        seed: u64,
        observer: &mut dyn Observer,
    ) -> Result<Box<dyn Clustering<D>>> {
        let k = self.n_components;
        check_sticks("components", k, self.concentration)?;
        if !(0.0..=100.0).contains(&self.spread) {
            return Err(Error::setting("spread", self.spread, "must be between 0 and 100"));
        }
        // The prior's components have no parameters, but the library's layout needs at least one component.
        let settings = settings_of(&self.settings, 1, seed).check(data)?;
        if let Some(rows) = EncodedRows::of(data, &settings)? {
            let method = Self { settings: unscaled(&self.settings), ..self.clone() };
            return rows.cluster(&method, device, seed, observer);
        }
        let mut run = begin(device, data, &settings)?;
        run.architecture = self.architecture(&run);
        let mut pack = Pack::new(&run, 0..1)?;
        train(&run, &mut pack, &mut DlgmmStep::new(self, &run)?, observer)?;
        let networks = TrainedNetworks::new(&run, &pack)?;
        Ok(Box::new(TrainedDlgmm { networks, n_components: k, spread: f64::from(self.spread) }))
    }
}

impl Dlgmm {
    /// The head holds mean and log variance of each Gaussian, then the stick's parameters: [.., 2 K J + 2 K].
    fn architecture<D: Device + StickBreaking + MixturePosterior + Codes>(
        &self,
        run: &Run<'_, D>,
    ) -> Architecture {
        let given = run.settings.settings();
        let (n_columns, n_latents, k) = (run.data.n_columns(), given.latents(), self.n_components);
        Architecture::new(&Sizes {
            n_inputs: n_columns,
            hidden: &given.hidden(),
            image: None,
            n_head: 2 * k * (n_latents + 1),
            n_latents,
            n_outputs: run.likelihood.n_outputs(n_columns),
            n_scales: 0,
            n_components: 1,
        })
    }
}

/// Buffers of a training step. Component k of row i is stored in row k B + i.
struct DlgmmStep<D: Device + StickBreaking + MixturePosterior + Codes> {
    batch: D::Batch,
    tape: Tape<D::Buffer>,
    /// Means and log variances, [1, K B, 2J], and their gradient.
    components: [Matrix<D::Buffer>; 2],
    /// Raw a and b of the stick's fractions, [1, B, 2K], and their gradient.
    sticks: [Matrix<D::Buffer>; 2],
    /// Weights at the fractions' means, [1, B, K], and their gradient.
    shares: [Matrix<D::Buffer>; 2],
    /// Drawn weights, and their gradient.
    drawn: [Matrix<D::Buffer>; 2],
    prior: StickPrior,
    spread: f32,
    sums: D::Sums,
    order: Vec<Key>,
    noise: Vec<Key>,
}

impl<D: Device + StickBreaking + MixturePosterior + Codes> DlgmmStep<D> {
    fn new(dlgmm: &Dlgmm, run: &Run<'_, D>) -> Result<Self> {
        let (device, b, k) = (run.device, run.settings.batch(), dlgmm.n_components);
        let j = run.architecture.n_latents();
        let pair = |rows: usize, columns: usize| -> Result<[Matrix<D::Buffer>; 2]> {
            Ok([Matrix::zeros(device, 1, rows, columns)?, Matrix::zeros(device, 1, rows, columns)?])
        };
        Ok(Self {
            batch: device.batch(&run.rows, 1, b)?,
            tape: Tape::new(device, &run.architecture, 1, b, k)?,
            components: pair(k * b, 2 * j)?,
            sticks: pair(b, 2 * k)?,
            shares: pair(b, k)?,
            drawn: pair(b, k)?,
            prior: StickPrior::Dirichlet { concentration: dlgmm.concentration },
            spread: dlgmm.spread,
            sums: device.sums(1, b, k)?,
            order: run.keys(Stream::JointOrder, 0..1),
            noise: run.keys(Stream::Latent, 0..1),
        })
    }

    /// Copies the head's columns to components and sticks.
    fn split_head(&mut self, device: &D) -> compute::Result<()> {
        let (b, k) = (self.sticks[0].rows, self.shares[0].columns);
        let width = self.components[0].columns;
        for m in 0..k {
            let from = m * width..(m + 1) * width;
            device.copy_columns(&self.tape.head, from, &mut self.components[0], [m * b, 0])?;
        }
        device.copy_columns(&self.tape.head, k * width..k * width + 2 * k, &mut self.sticks[0], [0, 0])
    }
}

impl<D: Device + StickBreaking + MixturePosterior + Codes> Step<D> for DlgmmStep<D> {
    /// Latents and weights.
    const DRAWS: u64 = 2;

    fn step(&mut self, run: &Run<'_, D>, params: &mut Params<D::Buffer>, tick: &Tick) -> compute::Result<()> {
        let (device, architecture) = (run.device, &run.architecture);
        let selection =
            RowSelection::Shuffled { keys: &self.order, epoch: tick.epoch, first: tick.first as usize };
        device.gather(&run.rows, selection, &mut self.batch)?;
        self.tape.encode(device, architecture, params, &run.rows, &self.batch)?;
        self.split_head(device)?;
        let draw = |which: u64| Some(Draw { keys: &self.noise, step: tick.draw + which });
        let tape = &mut self.tape;
        let [components, d_components] = &mut self.components;
        let [sticks, d_sticks] = &mut self.sticks;
        let ([shares, d_shares], [drawn, d_drawn]) = (&mut self.shares, &mut self.drawn);
        // z_k = mu_k + sigma_k eps, mean and drawn weights, outputs = f(z_k)
        device.sample_latents(draw(0), components.rows, components, &mut tape.z)?;
        device.stick_breaking(None, sticks, shares)?;
        device.stick_breaking(draw(1), sticks, drawn)?;
        tape.decode(device, architecture, params)?;
        // The ELBO
        let posterior = PosteriorMixture { head: components, z: &tape.z, shares, drawn };
        let sums = &mut self.sums;
        device.posterior_mixture(self.spread, posterior, d_components, d_shares, d_drawn, sums)?;
        let (families, rows) = ([run.likelihood], device.batch_rows(&self.batch));
        device.weighted_likelihood(&families, rows, shares, &mut tape.output, d_shares, sums)?;
        device.stick_prior(self.prior, sticks, d_sticks, sums)?;
        // Backward through f, latents and sticks, and g
        let adam = tick.adam_step(architecture.network_range(), 0, EPSILON);
        tape.decode_backward(device, architecture, params, Some(&adam))?;
        device.sample_latents_backward(components.rows, components, &tape.z, &tape.dz, None, d_components)?;
        device.stick_breaking_backward(None, sticks, d_shares, d_sticks)?;
        device.stick_breaking_backward(draw(1), sticks, d_drawn, d_sticks)?;
        gather_head(device, d_components, d_sticks, &mut tape.d_head)?;
        tape.head_backward(device, architecture, params, &run.rows, &self.batch, Some(&adam))
    }

    fn sums(&mut self) -> &mut D::Sums {
        &mut self.sums
    }
}

/// Copies the gradients of components and sticks to the head's columns.
fn gather_head<D: Device + StickBreaking + MixturePosterior + Codes>(
    device: &D,
    components: &Matrix<D::Buffer>,
    sticks: &Matrix<D::Buffer>,
    head: &mut Matrix<D::Buffer>,
) -> compute::Result<()> {
    let (b, k, width) = (sticks.rows, sticks.columns / 2, components.columns);
    for m in 0..k {
        device.copy_block(components, m * b..(m + 1) * b, 0..width, head, [0, m * width])?;
    }
    device.copy_columns(sticks, 0..2 * k, head, [0, k * width])
}

/// The trained networks, which map every row to a mixture.
struct TrainedDlgmm {
    networks: TrainedNetworks,
    n_components: usize,
    spread: f64,
}

impl TrainedDlgmm {
    /// The head of each row, [N, 2 K J + 2 K], and the component with the largest share.
    fn heads<D: Device + StickBreaking + MixturePosterior + Codes>(
        &self,
        device: &D,
        data: &Dataset,
    ) -> Result<(Vec<f32>, Vec<usize>)> {
        let (k, width) = (self.n_components, self.networks.architecture.n_head());
        let run = self.networks.run(device, data)?;
        let heads = heads(&run, &Params::fixed(device, &self.networks.values)?)?;
        let sticks: Vec<f32> =
            heads.chunks_exact(width).flat_map(|head| &head[width - 2 * k..]).copied().collect();
        let shares = mean_weights(device, &sticks, k)?;
        Ok((heads, shares.chunks_exact(k).map(argmax).collect()))
    }
}

impl<D: Device + StickBreaking + MixturePosterior + Codes> Clustering<D> for TrainedDlgmm {
    fn n_clusters(&self) -> usize {
        self.n_components
    }

    fn assign(&self, device: &D, data: &Dataset) -> Result<Vec<u32>> {
        Ok(self.heads(device, data)?.1.into_iter().map(|component| component as u32).collect())
    }

    fn embed(&self, device: &D, data: &Dataset) -> Result<Option<Vec<f32>>> {
        let j = self.networks.architecture.n_latents();
        let (heads, chosen) = self.heads(device, data)?;
        let rows = heads.chunks_exact(heads.len() / chosen.len()).zip(chosen);
        Ok(Some(rows.flat_map(|(head, m)| &head[m * 2 * j..m * 2 * j + j]).copied().collect()))
    }

    fn generate(&self, device: &D, cluster: usize, count: usize, seed: u64) -> Result<Option<Vec<f32>>> {
        let (k, j) = (self.n_components, self.networks.architecture.n_latents());
        let mean = |i: usize| self.spread * (2.0 * (i / j) as f64 / (k - 1) as f64 - 1.0);
        let means = (0..k * j).map(mean).collect();
        let prior = DiagonalMixture::new(vec![0.0; k], means, vec![1.0; k * j], j)?;
        let latents = prior.draw(cluster, count, Key::new(seed, Stream::Generate, cluster))?;
        self.networks.rows(device, &latents).map(Some)
    }
}
