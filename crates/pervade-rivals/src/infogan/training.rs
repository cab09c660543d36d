//! The two phases of an update, and what they work on.

use crate::ImageDevice;
use pervade::Result;
use pervade::compute::{self, Draw, Likelihood, Matrix, Params, RowSelection, Terms, Tick};
use pervade::seed::{Key, Stream};

use super::{Discriminator, Generator, InfoGan, Judged, Made, Sizes, start_values};

/// Adam's epsilon.
const EPSILON: f32 = 1e-8;
/// Draws an update: the codes of each phase.
const DRAWS: u64 = 2;

/// Networks, their numbers, and buffers made once.
pub(crate) struct Training<'r, D: ImageDevice> {
    /// The phases as steps that a device may repeat; first, so that they go before what they work on.
    recordings: [D::Recording; 2],
    pub(crate) generator: Generator,
    pub(crate) discriminator: Discriminator,
    /// Numbers of G, and of D and Q.
    pub(crate) made_by: Params<D::Buffer>,
    pub(crate) judged_by: Params<D::Buffer>,
    pub(crate) work: Work<'r, D>,
}

/// What changes from update to update, and the settings of an update.
pub(crate) struct Work<'r, D: ImageDevice> {
    rows: D::Rows<'r>,
    batch: D::Batch,
    /// Made images, then real ones.
    pub(crate) both: Judged<D::Buffer>,
    /// The verdicts wanted of them: no, then yes.
    verdicts: Matrix<D::Buffer>,
    pub(crate) both_sums: D::Sums,
    pub(crate) made: Made<D::Buffer>,
    pub(crate) made_judged: Judged<D::Buffer>,
    /// What G wants to hear: yes.
    yes: Matrix<D::Buffer>,
    pub(crate) made_sums: D::Sums,
    /// For the order of the rows, and the codes.
    keys: [Vec<Key>; 2],
    /// Choices, and numbers that Q finds.
    code: (usize, usize),
    information_weight: f32,
    learning_rates: [f32; 2],
    /// Updates until every row was seen.
    pass: u64,
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
        let params = |start: Vec<f32>| {
            let mut params = Params::zeros(device, 1, start.len())?;
            params.beta1 = method.beta1;
            device.write(&mut params.values, 0, &start)?;
            Ok::<_, compute::Error>(params)
        };
        let (g, d) = (&generator, &discriminator);
        let made_by = params(start_values(g.layout.len(), &g.layers(), &g.norms(), seed, 0))?;
        let judged_by = params(start_values(d.layout.len(), &d.layers(), &d.norms(), seed, 1))?;
        let work = Work::new(method, &sizes, device, rows, n_rows, seed)?;
        Ok(Self { recordings: Default::default(), generator, discriminator, made_by, judged_by, work })
    }

    /// Update number `step`. Each phase is a step of its own, because it uses weights that the one before has changed.
    pub(crate) fn update(&mut self, device: &D, step: u64) -> compute::Result<()> {
        let Self { recordings, generator, discriminator, made_by, judged_by, work } = self;
        let [first, second] = recordings;
        let ticks = [work.tick(step)];
        device.steps(&ticks, first, judged_by, |judged_by, tick| {
            work.draw(device, tick.draw)?;
            work.discriminate(device, (generator, made_by), (discriminator, judged_by), tick, true)
        })?;
        device.steps(&ticks, second, made_by, |made_by, tick| {
            work.draw(device, tick.draw + 1)?;
            work.deceive(device, (generator, made_by), (discriminator, judged_by), tick, true)
        })
    }

    /// What D and Q made of the images since the last call, a row of the batch: log likelihoods of the verdicts, and
    /// of the codes.
    pub(crate) fn take_terms(&mut self, device: &D) -> Result<Terms> {
        device.take_sums(&mut self.work.made_sums)?;
        let terms = device.take_sums(&mut self.work.both_sums)?[0];
        Ok(terms.scaled(1.0 / self.work.made.images.rows as f64))
    }
}

impl<'r, D: ImageDevice> Work<'r, D> {
    pub(crate) fn new(
        method: &InfoGan,
        sizes: &Sizes,
        device: &D,
        rows: D::Rows<'r>,
        n_rows: usize,
        seed: u64,
    ) -> Result<Self> {
        let b = method.batch.min(n_rows);
        let verdicts = |no: usize| {
            let mut verdicts = Matrix::zeros(device, 1, no + b, 1)?;
            device.write(&mut verdicts.data, no, &vec![1.0; b])?;
            Ok::<_, compute::Error>(verdicts)
        };
        Ok(Self {
            batch: device.batch(&rows, 1, b)?,
            rows,
            both: Judged::new(device, sizes, 2 * b, 2, true)?,
            verdicts: verdicts(b)?,
            both_sums: device.sums(1, 2 * b)?,
            made: Made::new(device, sizes, b, true)?,
            made_judged: Judged::new(device, sizes, b, 1, true)?,
            yes: verdicts(0)?,
            made_sums: device.sums(1, b)?,
            keys: [Stream::JointOrder, Stream::Latent].map(|stream| vec![Key::new(seed, stream, 0)]),
            code: (method.n_clusters, method.n_codes),
            information_weight: method.information_weight,
            learning_rates: method.learning_rates,
            pass: (n_rows / b) as u64,
        })
    }

    /// The numbers of update `step`.
    pub(crate) fn tick(&self, step: u64) -> Tick {
        let first = step % self.pass * self.made.images.rows as u64;
        let (epoch, learning_rates) = (step / self.pass, self.learning_rates);
        Tick { epoch, first, draw: step * DRAWS, adam: step + 1, learning_rates }
    }

    /// New codes, for the phase that follows.
    fn draw(&mut self, device: &D, step: u64) -> compute::Result<()> {
        device.draw_codes(Draw { keys: &self.keys[1], step }, self.code.0, &mut self.made.z)
    }

    /// D learns to tell images made of the codes from real ones, and Q to find the codes. Without `update` the
    /// gradients are left with the parameters.
    pub(crate) fn discriminate(
        &mut self,
        device: &D,
        (generator, made_by): (&Generator, &Params<D::Buffer>),
        (discriminator, judged_by): (&Discriminator, &mut Params<D::Buffer>),
        tick: &Tick,
        update: bool,
    ) -> compute::Result<()> {
        generator.forward(device, made_by, false, &mut self.made)?;
        let pick =
            RowSelection::Shuffled { keys: &self.keys[0], epoch: tick.epoch, first: tick.first as usize };
        device.gather(&self.rows, pick, &mut self.batch)?;
        let (made, real, both) = (&self.made.images, device.batch_rows(&self.batch), &mut self.both);
        device.copy_columns(made, 0..made.columns, &mut both.images, [0, 0])?;
        device.copy_columns(real, 0..real.columns, &mut both.images, [made.rows, 0])?;
        discriminator.forward(device, judged_by, false, both)?;
        let (z, sums) = (&self.made.z, &mut self.both_sums);
        device.likelihood(&[Likelihood::Bernoulli], &self.verdicts, &mut both.logits, sums)?;
        device.code_likelihood(self.code, self.information_weight, z, &mut both.output, sums)?;
        discriminator.backward(device, judged_by, both, false)?;
        let adam = tick.adam_step(0..judged_by.stride, 0, EPSILON);
        discriminator.learn(device, judged_by, both, update.then_some(&adam))
    }

    /// G learns to be taken for real, and to be read.
    pub(crate) fn deceive(
        &mut self,
        device: &D,
        (generator, made_by): (&Generator, &mut Params<D::Buffer>),
        (discriminator, judged_by): (&Discriminator, &Params<D::Buffer>),
        tick: &Tick,
        update: bool,
    ) -> compute::Result<()> {
        let (made, judged) = (&mut self.made, &mut self.made_judged);
        generator.forward(device, made_by, false, made)?;
        device.copy_columns(&made.images, 0..made.images.columns, &mut judged.images, [0, 0])?;
        discriminator.forward(device, judged_by, false, judged)?;
        let sums = &mut self.made_sums;
        device.likelihood(&[Likelihood::Bernoulli], &self.yes, &mut judged.logits, sums)?;
        device.code_likelihood(self.code, self.information_weight, &made.z, &mut judged.output, sums)?;
        discriminator.backward(device, judged_by, judged, true)?;
        generator.backward(device, made_by, made, &mut judged.d_images)?;
        let adam = tick.adam_step(0..made_by.stride, 1, EPSILON);
        generator.learn(device, made_by, made, update.then_some(&adam))
    }
}
