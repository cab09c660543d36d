//! AAE: an adversarial auto-encoder whose code is a cluster and a style.
//!
//! Paper: Makhzani, Shlens, Jaitly, Goodfellow and Frey, "Adversarial autoencoders" (2015), the variant for unsupervised
//! clustering (section 5). The encoder outputs K logits, whose softmax is y, and J columns z; the decoder takes both.
//! Each batch has three phases: encoder and decoder learn to reconstruct the rows; one discriminator per code learns to
//! tell y from one-hot rows, and z from N(0, I), by logistic losses; the encoder learns to fool both.
//! The cluster of a row is its largest logit.
//! As in public ports of that experiment, every layer of the encoder is batch-normalised, also the last one: otherwise all
//! rows of UCI HAR move together and share a cluster (docs/paper.md has the figures).
//! Departures: VaDE's networks instead of 3000-3000, no dropout; Adam with separate moments for each phase instead of
//! gradient descent with momentum; K is the number of clusters, where the paper takes 16 or 30 and maps several to one
//! label.
//! Expected on MNIST: Jiang et al. (2017) report 0.83 with K = 10; repro/table2.md has ours, docs/paper.md what was tried.

use pervade::compute::{self, BatchNorm, Codes, Device, Draw, Layout, Matrix, Params, RowSelection, Tick};
use pervade::config::{Clusters, Recipe, Settings};
use pervade::data::{Dataset, Preparation, PrepareKind};
use pervade::nn::Tape;
use pervade::record::JointEpoch;
use pervade::seed::{Key, Stream};
use pervade::train::{Control, Event, Observer, Pack, Run, Stage};
use pervade::{Clusterer, Clustering, Error, Result};

use crate::adversarial::{AdversarialCode, CodeDiscriminator};
use crate::encoded::{EncodedRows, unscaled};
use crate::latents::{TrainedNetworks, begin, settings_of};
use crate::normed_encoder::{NormedEncoder, NormedTape};
use crate::rows::check_rows;

/// AAE with its settings.
#[derive(Clone, Debug)]
pub struct Aae {
    /// The number of clusters, K.
    pub n_clusters: usize,
    /// Networks, batch, epochs, and the learning rate of the reconstruction; `latents` is the number of columns of z.
    /// K and the seed are overridden.
    pub settings: Settings,
    /// Widths of the discriminators' hidden layers.
    pub discriminator: Vec<usize>,
    /// Standard deviation of the noise that is added to the discriminators' inputs.
    pub noise: f32,
    /// Learning rate of the discriminators, and of the encoder in the adversarial phase.
    pub adversarial_learning_rate: f32,
}

impl Default for Aae {
    fn default() -> Self {
        let settings = Settings::recipe(Recipe::Paper, Clusters::Auto);
        Self {
            n_clusters: 10,
            settings: settings.with(|s| s.learning_rate = 1e-3),
            discriminator: vec![500, 500],
            noise: 0.3,
            adversarial_learning_rate: 1e-3,
        }
    }
}

/// Adam's epsilon.
const EPSILON: f32 = 1e-8;
/// Random draws per step: z, and the noise of both codes in both adversarial phases.
const DRAWS: u64 = 5;

/// The operations that training needs.
pub(crate) trait AaeDevice: Device + Codes + BatchNorm {}

impl<D: Device + Codes + BatchNorm> AaeDevice for D {}

impl<D: AaeDevice> Clusterer<D> for Aae {
    fn name(&self) -> &'static str {
        "aae"
    }

    fn cluster(
        &self,
        data: &Dataset,
        device: &D,
        seed: u64,
        observer: &mut dyn Observer,
    ) -> Result<Box<dyn Clustering<D>>> {
        let k = self.n_clusters;
        let latents = k + self.settings.latents();
        check_rows(data, k, 1)?;
        // There is no mixture, but the library's layout needs at least one component.
        let settings =
            settings_of(&self.settings, 1, seed).with(|s| s.latents = Some(latents)).check(data)?;
        if let Some(rows) = EncodedRows::of(data, &settings)? {
            let method = Self { settings: unscaled(&self.settings), ..self.clone() };
            return rows.cluster(&method, device, seed, observer);
        }
        let mut run = begin(device, data, &settings)?;
        let encoder = NormedEncoder::new(&mut run.architecture).ok_or_else(|| {
            Error::setting("network", settings.settings().network, "must be dense: AAE has no convolutions")
        })?;
        let mut pack = Pack::new(&run, 0..1)?;
        let mut values = pack.values_of(device, 0)?;
        encoder.initialise(&mut values);
        device.write(&mut pack.params.values, 0, &values)?;
        let stage = Stage::Joint;
        let (epochs, steps) = (settings.epochs(), data.n_rows() / settings.batch());
        let phase = "adversarial training";
        observer.event(&Event::StageStarted { restart: 0, stage, phase, epochs, done: 0, steps });
        let one_hot = one_hot(data.n_rows(), k)?;
        let unscaled = Preparation::fit(PrepareKind::None, &one_hot)?;
        let (mut training, mut discriminators) =
            AaeTraining::new(self, &run, encoder, device.rows(one_hot.view(&unscaled))?)?;
        for epoch in 1..=epochs {
            for step in 0..steps {
                let epoch = epoch as u64 - 1;
                training.train_batch(&run, &mut pack.params, &mut discriminators, epoch, step, steps)?;
            }
            data.check_unchanged()?;
            let terms =
                device.take_sums(&mut training.sums)?[0].scaled(1.0 / (steps * settings.batch()) as f64);
            if !terms.elbo().is_finite() {
                return Err(Error::Diverged { stage: phase, epoch, loss: -terms.elbo() });
            }
            let learning_rate = f64::from(settings.settings().learning_rate);
            let entry = JointEpoch { epoch, elbo: terms.elbo(), terms, learning_rate };
            if observer.event(&Event::Trained(0, &entry)) == Control::Stop {
                return Err(Error::Interrupted { stage: phase, epoch });
            }
        }
        observer.event(&Event::StageEnded { restart: 0, stage });
        let mut values = pack.values_of(device, 0)?;
        training.encoder.fold(&mut values);
        device.write(&mut pack.params.values, 0, &values)?;
        Ok(Box::new(TrainedAae { encoder: TrainedNetworks::new(&run, &pack)?, n_clusters: k }))
    }
}

/// One-hot rows of K columns, as many as the data have: real samples of y.
fn one_hot(n_rows: usize, k: usize) -> Result<Dataset<'static>> {
    let value = |i: usize| if i / k % k == i % k { 1.0 } else { 0.0 };
    Dataset::from_rows(n_rows, k, (0..n_rows * k).map(value).collect())
}

/// Buffers of training.
struct AaeTraining<'r, D: AaeDevice> {
    /// The recorded phases; the first field, so that they are dropped before the buffers that they use.
    recordings: [D::Recording; 3],
    batch: D::Batch,
    encoder: NormedEncoder,
    encoder_tape: NormedTape<D::Buffer>,
    /// Of the decoder.
    tape: Tape<D::Buffer>,
    /// y and z of the batch: [1, B, K + J].
    code: Matrix<D::Buffer>,
    /// The parts of the code: y and z.
    parts: [AdversarialCode<D>; 2],
    /// One-hot rows, and a batch of them.
    one_hot: D::Rows<'r>,
    one_hot_batch: D::Batch,
    /// Mean 0 and log variance 0, and samples from them.
    normal: Matrix<D::Buffer>,
    noise: Matrix<D::Buffer>,
    /// Adam's moments of the encoder in the adversarial phase; swapped with those of the reconstruction.
    first_moments: D::Buffer,
    second_moments: D::Buffer,
    /// Log likelihoods of the rows.
    sums: D::Sums,
    /// For the order of the rows, one-hot rows, and noise.
    keys: [Vec<Key>; 3],
    adversarial_learning_rate: f32,
}

impl<'r, D: AaeDevice> AaeTraining<'r, D> {
    /// Buffers, and the initial parameters of the discriminators.
    fn new(
        aae: &Aae,
        run: &Run<'_, D>,
        encoder: NormedEncoder,
        one_hot: D::Rows<'r>,
    ) -> Result<(Self, Params<D::Buffer>)> {
        let (device, b, k) = (run.device, run.settings.batch(), aae.n_clusters);
        let (all, style) = (run.architecture.n_latents(), aae.settings.latents());
        let mut layout = Layout::default();
        let discriminators = [("y", k), ("z", style)]
            .map(|(name, n)| CodeDiscriminator::new(&mut layout, name, n, &aae.discriminator));
        let mut values = vec![0.0; layout.len()];
        let key = Key::new(run.settings.settings().seed, Stream::Weights, 1);
        discriminators.iter().for_each(|discriminator| discriminator.initialise(&mut values, key));
        let mut params = Params::zeros(device, 1, layout.len())?;
        device.write(&mut params.values, 0, &values)?;
        let [y, z] = discriminators;
        let n = run.architecture.layout.len();
        let part =
            |discriminator, columns| AdversarialCode::new(device, discriminator, columns, b, aae.noise);
        let training = Self {
            recordings: Default::default(),
            batch: device.batch(&run.rows, 1, b)?,
            encoder_tape: encoder.tape(device, b)?,
            encoder,
            tape: Tape::new(device, &run.architecture, 1, b, 1)?,
            code: Matrix::zeros(device, 1, b, all)?,
            parts: [part(y, 0..k)?, part(z, k..all)?],
            one_hot_batch: device.batch(&one_hot, 1, b)?,
            one_hot,
            normal: Matrix::zeros(device, 1, b, 2 * style)?,
            noise: Matrix::zeros(device, 1, b, style)?,
            first_moments: device.zeros(n)?,
            second_moments: device.zeros(n)?,
            sums: device.sums(1, b, 1)?,
            keys: [Stream::JointOrder, Stream::Generate, Stream::Latent].map(|s| run.keys(s, 0..1)),
            adversarial_learning_rate: aae.adversarial_learning_rate,
        };
        Ok((training, params))
    }

    /// The three phases of a batch. Each is a separate step, because it uses weights that the one before has changed.
    fn train_batch(
        &mut self,
        run: &Run<'_, D>,
        params: &mut Params<D::Buffer>,
        discriminators: &mut Params<D::Buffer>,
        epoch: u64,
        index: usize,
        n_steps: usize,
    ) -> Result<()> {
        let step = epoch * n_steps as u64 + index as u64;
        let learning_rates = [run.settings.settings().learning_rate, self.adversarial_learning_rate];
        let first = (index * run.settings.batch()) as u64;
        let tick = Tick { epoch, first, draw: step * DRAWS, adam: step + 1, learning_rates };
        let [mut first, mut second, mut third] = std::mem::take(&mut self.recordings);
        let ticks = [tick];
        let body = |params: &mut _, tick: &_| self.reconstruction_step(run, params, tick);
        run.device.steps(&ticks, &mut first, params, body)?;
        let body =
            |discriminators: &mut _, tick: &_| self.discriminator_step(run, params, discriminators, tick);
        run.device.steps(&ticks, &mut second, discriminators, body)?;
        self.swap_moments(params);
        let body = |params: &mut _, tick: &_| self.generator_step(run, params, discriminators, tick);
        run.device.steps(&ticks, &mut third, params, body)?;
        self.swap_moments(params);
        self.recordings = [first, second, third];
        Ok(())
    }

    fn swap_moments(&mut self, params: &mut Params<D::Buffer>) {
        std::mem::swap(&mut params.first_moments, &mut self.first_moments);
        std::mem::swap(&mut params.second_moments, &mut self.second_moments);
    }

    /// Encodes rows: y and z in `code`.
    fn encode(&mut self, run: &Run<'_, D>, params: &Params<D::Buffer>) -> compute::Result<()> {
        let (device, tape) = (run.device, &mut self.encoder_tape);
        self.encoder.forward(device, params, &run.rows, &self.batch, tape)?;
        // The encoder's other outputs, log variances, are not used: the code is deterministic.
        device.copy_columns(tape.output(), 0..self.code.columns, &mut self.code, [0, 0])?;
        device.softmax(self.parts[0].columns.end, &mut self.code)
    }

    /// The backward pass from the gradient of the code, in the tape's dz, through softmax and encoder.
    fn encode_backward(
        &mut self,
        run: &Run<'_, D>,
        params: &mut Params<D::Buffer>,
        tick: &Tick,
        group: usize,
    ) -> compute::Result<()> {
        let (device, d_code, tape) = (run.device, &mut self.tape.dz, &mut self.encoder_tape);
        device.softmax_backward(self.parts[0].columns.end, &self.code, d_code)?;
        device.copy_columns(d_code, 0..d_code.columns, tape.output_gradient(), [0, 0])?;
        let adam = tick.adam_step(0..params.stride, group, EPSILON);
        self.encoder.backward(device, params, &run.rows, &self.batch, tape, Some(&adam))
    }

    fn reconstruction_step(
        &mut self,
        run: &Run<'_, D>,
        params: &mut Params<D::Buffer>,
        tick: &Tick,
    ) -> compute::Result<()> {
        let (device, architecture) = (run.device, &run.architecture);
        let selection =
            RowSelection::Shuffled { keys: &self.keys[0], epoch: tick.epoch, first: tick.first as usize };
        device.gather(&run.rows, selection, &mut self.batch)?;
        self.encode(run, params)?;
        // The decoder reads the code as its latents; swapped back after it.
        std::mem::swap(&mut self.tape.z, &mut self.code);
        let tape = &mut self.tape;
        tape.decode(device, architecture, params)?;
        let rows = device.batch_rows(&self.batch);
        device.likelihood(&[run.likelihood], rows, &mut tape.output, &mut self.sums)?;
        let adam = tick.adam_step(architecture.network_range(), 0, EPSILON);
        tape.decode_backward(device, architecture, params, Some(&adam))?;
        std::mem::swap(&mut self.tape.z, &mut self.code);
        self.encode_backward(run, params, tick, 0)
    }

    fn discriminator_step(
        &mut self,
        run: &Run<'_, D>,
        params: &Params<D::Buffer>,
        discriminators: &mut Params<D::Buffer>,
        tick: &Tick,
    ) -> compute::Result<()> {
        let device = run.device;
        self.encode(run, params)?;
        let selection =
            RowSelection::Shuffled { keys: &self.keys[1], epoch: tick.epoch, first: tick.first as usize };
        device.gather(&self.one_hot, selection, &mut self.one_hot_batch)?;
        let draw = |what: u64| Draw { keys: &self.keys[2], step: tick.draw + what };
        device.sample_latents(Some(draw(0)), self.normal.rows, &self.normal, &mut self.noise)?;
        let adam = tick.adam_step(0..discriminators.stride, 1, EPSILON);
        let [y, z] = &mut self.parts;
        let one_hot = device.batch_rows(&self.one_hot_batch);
        y.discriminator_step(device, discriminators, &self.code, one_hot, draw(1), &adam)?;
        z.discriminator_step(device, discriminators, &self.code, &self.noise, draw(2), &adam)
    }

    /// Trains the encoder to fool the discriminators. The codes are those of the phase before: the encoder has not
    /// changed since.
    fn generator_step(
        &mut self,
        run: &Run<'_, D>,
        params: &mut Params<D::Buffer>,
        discriminators: &Params<D::Buffer>,
        tick: &Tick,
    ) -> compute::Result<()> {
        let device = run.device;
        let draw = |what: u64| Draw { keys: &self.keys[2], step: tick.draw + what };
        let [y, z] = &mut self.parts;
        y.generator_gradient(device, discriminators, &self.code, draw(3), &mut self.tape.dz)?;
        z.generator_gradient(device, discriminators, &self.code, draw(4), &mut self.tape.dz)?;
        self.encode_backward(run, params, tick, 1)
    }
}

/// The trained encoder, whose first columns are the clusters' logits.
struct TrainedAae {
    encoder: TrainedNetworks,
    n_clusters: usize,
}

impl<D: AaeDevice> Clustering<D> for TrainedAae {
    fn n_clusters(&self) -> usize {
        self.n_clusters
    }

    fn assign(&self, device: &D, data: &Dataset) -> Result<Vec<u32>> {
        let latents = self.encoder.latents(device, data)?;
        let rows = latents.chunks_exact(latents.len() / data.n_rows());
        let argmax =
            |row: &[f32]| (1..self.n_clusters).fold(0, |best, m| if row[m] > row[best] { m } else { best });
        Ok(rows.map(|row| argmax(row) as u32).collect())
    }

    fn embed(&self, device: &D, data: &Dataset) -> Result<Option<Vec<f32>>> {
        self.encoder.latents(device, data).map(Some)
    }
}
