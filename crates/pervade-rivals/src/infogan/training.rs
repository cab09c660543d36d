//! The two phases of an update, and their buffers.

use crate::ImageDevice;
use pervade::Result;
use pervade::compute::{self, Draw, Likelihood, Matrix, Params, RowSelection, Terms, Tick};
use pervade::seed::{Key, Stream};

use super::{Discriminator, DiscriminatorTape, Generator, GeneratorTape, InfoGan, Sizes, initial_values};

/// Adam's epsilon.
const EPSILON: f32 = 1e-8;
/// Random draws per update: the codes of each phase.
const DRAWS: u64 = 2;

/// Networks, their parameters, and the buffers of an update.
pub(crate) struct Training<'r, D: ImageDevice> {
    /// The recorded phases; the first field, so that they are dropped before the buffers that they use.
    recordings: [D::Recording; 2],
    pub(crate) generator: Generator,
    pub(crate) discriminator: Discriminator,
    /// Parameters of G, and of D and Q.
    pub(crate) generator_params: Params<D::Buffer>,
    pub(crate) discriminator_params: Params<D::Buffer>,
    pub(crate) state: UpdateState<'r, D>,
}

/// The buffers and settings of an update.
pub(crate) struct UpdateState<'r, D: ImageDevice> {
    rows: D::Rows<'r>,
    batch: D::Batch,
    /// Fake images, then real ones.
    pub(crate) both: DiscriminatorTape<D::Buffer>,
    /// Discriminator targets: zeros for fake images, then ones for real ones.
    targets: Matrix<D::Buffer>,
    pub(crate) both_sums: D::Sums,
    pub(crate) fake: GeneratorTape<D::Buffer>,
    /// The discriminator on fake images alone.
    pub(crate) fake_tape: DiscriminatorTape<D::Buffer>,
    /// Generator targets: all ones.
    real_targets: Matrix<D::Buffer>,
    pub(crate) fake_sums: D::Sums,
    /// For the order of the rows, and the codes.
    keys: [Vec<Key>; 2],
    /// The numbers of categories and of continuous codes.
    code: (usize, usize),
    information_weight: f32,
    learning_rates: [f32; 2],
    /// Updates per pass over all rows.
    updates_per_pass: u64,
}

impl<'r, D: ImageDevice> Training<'r, D> {
    pub(crate) fn new(
        method: &InfoGan,
        sizes: Sizes,
        device: &D,
        rows: D::Rows<'r>,
        n_rows: usize,
        seed: u64,
    ) -> Result<Self> {
        let (generator, discriminator) = (Generator::new(&sizes), Discriminator::new(&sizes));
        let params = |values: Vec<f32>| {
            let mut params = Params::zeros(device, 1, values.len())?;
            params.beta1 = method.beta1;
            device.write(&mut params.values, 0, &values)?;
            Ok::<_, compute::Error>(params)
        };
        let (g, d) = (&generator, &discriminator);
        let generator_params = params(initial_values(g.layout.len(), &g.layers(), &g.norms(), seed, 0))?;
        let discriminator_params = params(initial_values(d.layout.len(), &d.layers(), &d.norms(), seed, 1))?;
        let state = UpdateState::new(method, &sizes, device, rows, n_rows, seed)?;
        Ok(Self {
            recordings: Default::default(),
            generator,
            discriminator,
            generator_params,
            discriminator_params,
            state,
        })
    }

    /// Runs update `step`. Each phase is a separate step, because it uses weights that the one before has changed.
    pub(crate) fn update(&mut self, device: &D, step: u64) -> compute::Result<()> {
        let Self { recordings, generator, discriminator, generator_params, discriminator_params, state } =
            self;
        let [first, second] = recordings;
        let ticks = [state.tick(step)];
        device.steps(&ticks, first, discriminator_params, |discriminator_params, tick| {
            state.draw(device, tick.draw)?;
            let discriminator = (discriminator as &_, discriminator_params);
            state.discriminator_step(device, (generator, generator_params), discriminator, tick, true)
        })?;
        device.steps(&ticks, second, generator_params, |generator_params, tick| {
            state.draw(device, tick.draw + 1)?;
            let discriminator = (discriminator as &_, discriminator_params as &_);
            state.generator_step(device, (generator, generator_params), discriminator, tick, true)
        })
    }

    /// The mean log likelihoods per row since the last call: of D's targets, and of the codes under Q.
    pub(crate) fn take_terms(&mut self, device: &D) -> Result<Terms> {
        device.take_sums(&mut self.state.fake_sums)?;
        let terms = device.take_sums(&mut self.state.both_sums)?[0];
        Ok(terms.scaled(1.0 / self.state.fake.images.rows as f64))
    }
}

impl<'r, D: ImageDevice> UpdateState<'r, D> {
    pub(crate) fn new(
        method: &InfoGan,
        sizes: &Sizes,
        device: &D,
        rows: D::Rows<'r>,
        n_rows: usize,
        seed: u64,
    ) -> Result<Self> {
        let b = method.batch.min(n_rows);
        let zeros_then_ones = |n_zeros: usize| {
            let mut targets = Matrix::zeros(device, 1, n_zeros + b, 1)?;
            device.write(&mut targets.data, n_zeros, &vec![1.0; b])?;
            Ok::<_, compute::Error>(targets)
        };
        Ok(Self {
            batch: device.batch(&rows, 1, b)?,
            rows,
            both: DiscriminatorTape::new(device, sizes, 2 * b, 2, true)?,
            targets: zeros_then_ones(b)?,
            both_sums: device.sums(1, 2 * b, 1)?,
            fake: GeneratorTape::new(device, sizes, b, true)?,
            fake_tape: DiscriminatorTape::new(device, sizes, b, 1, true)?,
            real_targets: zeros_then_ones(0)?,
            fake_sums: device.sums(1, b, 1)?,
            keys: [Stream::JointOrder, Stream::Latent].map(|stream| vec![Key::new(seed, stream, 0)]),
            code: (method.n_clusters, method.n_codes),
            information_weight: method.information_weight,
            learning_rates: method.learning_rates,
            updates_per_pass: (n_rows / b) as u64,
        })
    }

    /// The tick of update `step`.
    pub(crate) fn tick(&self, step: u64) -> Tick {
        let first = step % self.updates_per_pass * self.fake.images.rows as u64;
        let (epoch, learning_rates) = (step / self.updates_per_pass, self.learning_rates);
        Tick { epoch, first, draw: step * DRAWS, adam: step + 1, learning_rates }
    }

    /// Draws new codes for the next phase.
    fn draw(&mut self, device: &D, step: u64) -> compute::Result<()> {
        device.draw_codes(Draw { keys: &self.keys[1], step }, self.code.0, &mut self.fake.z)
    }

    /// Trains D to tell fake images from real ones, and Q to predict the codes. Without `update`, only computes the
    /// gradients.
    pub(crate) fn discriminator_step(
        &mut self,
        device: &D,
        (generator, generator_params): (&Generator, &Params<D::Buffer>),
        (discriminator, discriminator_params): (&Discriminator, &mut Params<D::Buffer>),
        tick: &Tick,
        update: bool,
    ) -> compute::Result<()> {
        generator.forward(device, generator_params, false, &mut self.fake)?;
        let selection =
            RowSelection::Shuffled { keys: &self.keys[0], epoch: tick.epoch, first: tick.first as usize };
        device.gather(&self.rows, selection, &mut self.batch)?;
        let (fake, real, both) = (&self.fake.images, device.batch_rows(&self.batch), &mut self.both);
        device.copy_columns(fake, 0..fake.columns, &mut both.images, [0, 0])?;
        device.copy_columns(real, 0..real.columns, &mut both.images, [fake.rows, 0])?;
        discriminator.forward(device, discriminator_params, false, both)?;
        let (z, sums) = (&self.fake.z, &mut self.both_sums);
        device.likelihood(&[Likelihood::Bernoulli], &self.targets, &mut both.logits, sums)?;
        device.code_likelihood(self.code, self.information_weight, z, &mut both.output, sums)?;
        discriminator.backward(device, discriminator_params, both, false)?;
        let adam = tick.adam_step(0..discriminator_params.stride, 0, EPSILON);
        discriminator.backward_weights(device, discriminator_params, both, update.then_some(&adam))
    }

    /// Trains G to fool D and to let Q predict its codes.
    pub(crate) fn generator_step(
        &mut self,
        device: &D,
        (generator, generator_params): (&Generator, &mut Params<D::Buffer>),
        (discriminator, discriminator_params): (&Discriminator, &Params<D::Buffer>),
        tick: &Tick,
        update: bool,
    ) -> compute::Result<()> {
        let (fake, tape) = (&mut self.fake, &mut self.fake_tape);
        generator.forward(device, generator_params, false, fake)?;
        device.copy_columns(&fake.images, 0..fake.images.columns, &mut tape.images, [0, 0])?;
        discriminator.forward(device, discriminator_params, false, tape)?;
        let sums = &mut self.fake_sums;
        device.likelihood(&[Likelihood::Bernoulli], &self.real_targets, &mut tape.logits, sums)?;
        device.code_likelihood(self.code, self.information_weight, &fake.z, &mut tape.output, sums)?;
        discriminator.backward(device, discriminator_params, tape, true)?;
        generator.backward(device, generator_params, fake, &mut tape.d_images)?;
        let adam = tick.adam_step(0..generator_params.stride, 1, EPSILON);
        generator.backward_weights(device, generator_params, fake, update.then_some(&adam))
    }
}
