//! Pretrain: an auto-encoder with the networks that VaDE will use (paper, experimental setup).

use super::observer::{Event, Observer, Stage};
use super::run::{Pack, Run, Save, State, apply_control, run_steps};
use crate::compute::{
    self, Activation, AdamStep, Affine, Device, Draw, Likelihood, Matrix, Params, RowSelection, Tick, Ticks,
};
use crate::config::PretrainKind;
use crate::nn::Tape;
use crate::record::{PretrainEpoch, RestartRecord};
use crate::seed::{Key, Stream};
use crate::{Error, Result};

/// Adam's epsilon in pretraining.
const EPSILON: f32 = 1e-8;

/// A part of pretraining: one layer with its mirror, or the whole.
#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Layer(usize),
    Whole,
}

impl Phase {
    /// As records name it.
    fn name(self) -> String {
        match self {
            Phase::Layer(i) => format!("layer {}", i + 1),
            Phase::Whole => "auto-encoder".to_string(),
        }
    }
}

/// The phases of a run and the epochs of each.
fn phases<D: Device>(run: &Run<'_, D>) -> Vec<(Phase, usize)> {
    let settings = &run.settings.settings;
    let mut phases = Vec::new();
    if settings.pretrain == PretrainKind::Stacked {
        let layers = 0..run.architecture.encoder.layers.len();
        phases.extend(layers.map(|layer| (Phase::Layer(layer), settings.layer_epochs)));
    }
    phases.push((Phase::Whole, run.settings.pretrain_epochs));
    phases
}

/// The phases of a run by name, with the epochs of each.
pub(super) fn named_phases<D: Device>(run: &Run<'_, D>) -> Vec<(String, usize)> {
    phases(run).into_iter().map(|(phase, epochs)| (phase.name(), epochs)).collect()
}

/// Trains the pack's networks as auto-encoders, from wherever the pack stands.
pub fn pretrain<D: Device>(
    run: &Run<'_, D>,
    pack: &mut Pack<D>,
    observer: &mut dyn Observer,
    save: Save<'_, D>,
) -> Result<()> {
    let phases = phases(run);
    while pack.state.phase < phases.len() {
        let (phase, epochs) = phases[pack.state.phase];
        train_phase(run, pack, phase, epochs, observer, save)?;
        pack.state.phase += 1;
        pack.state.epoch = 0;
        pack.reset_moments(run.device)?;
    }
    let likelihoods = pack.state.records.iter().map(|record| refit_likelihood(run, record));
    pack.state.likelihoods = likelihoods.collect::<Result<_>>()?;
    observer.event(&Event::StageEnded { restart: pack.state.restarts.start, stage: Stage::Pretrain });
    pack.state.stage = Stage::Mixture;
    pack.state.phase = 0;
    Ok(())
}

/// The likelihood whose noise variance suits the auto-encoder's residual, where the settings leave it open.
///
/// A fixed variance is too weak or too strong a pull on data of another scale: with 1/2 on data in [-1, 1] the
/// prior swallows the latents.
fn refit_likelihood<D: Device>(run: &Run<'_, D>, record: &RestartRecord) -> Result<Likelihood> {
    let Some(last) = record.pretrain.last().filter(|_| run.settings.settings.noise_variance.is_none()) else {
        return Ok(run.likelihood);
    };
    let refitted = run.likelihood.refitted(-last.loss, run.data.n_columns());
    if refitted.is_valid() {
        Ok(refitted)
    } else {
        Err(Error::Diverged { stage: "pretraining", epoch: last.epoch, loss: last.loss })
    }
}

/// Constant, then falling to zero over the last steps; `step` is counted from one.
fn learning_rate<D: Device>(run: &Run<'_, D>, step: u64, n_steps: usize) -> f32 {
    let settings = &run.settings.settings;
    let left = n_steps as u64 + 1 - step;
    let share = left as f32 / settings.cool_down.min(n_steps).max(1) as f32;
    settings.pretrain_learning_rate * share.min(1.0)
}

fn train_phase<D: Device>(
    run: &Run<'_, D>,
    pack: &mut Pack<D>,
    phase: Phase,
    epochs: usize,
    observer: &mut dyn Observer,
    save: Save<'_, D>,
) -> Result<()> {
    let (b, restarts) = (run.settings.pretrain_batch, pack.state.restarts.clone());
    let n_steps = run.data.n_rows() / b;
    let name = phase.name();
    observer.event(&Event::StageStarted {
        restart: restarts.start,
        stage: Stage::Pretrain,
        phase: &name,
        epochs,
        done: pack.state.epoch,
        steps: n_steps,
    });
    let mut work = Work::new(run, phase, &pack.state)?;
    // Dropped before the buffers that it works on.
    let mut recording = D::Recording::default();
    pack.resume_sums(run.device, &mut work.sums)?;
    while pack.state.epoch < epochs {
        let (epoch, phase_number) = (pack.state.epoch, pack.state.phase as u64);
        let steps = pack.state.step..n_steps;
        let stopped = run_steps(steps, run.device.steps_at_once(), observer, |numbers| {
            let ticks = Ticks::new(numbers, |number| {
                let step = (epoch * n_steps + number) as u64 + 1;
                Tick {
                    epoch: phase_number << 32 | epoch as u64,
                    first: (number * b) as u64,
                    // Two draws a step: what goes into a layer and what comes out of it.
                    draw: (phase_number << 32 | step) << 1,
                    adam: step,
                    learning_rates: [learning_rate(run, step, epochs * n_steps), 0.0],
                }
            });
            let body = |params: &mut _, tick: &_| work.step(run, params, phase, tick);
            Ok(run.device.steps(&ticks, &mut recording, &mut pack.params, body)?)
        })?;
        run.data.check_unchanged()?;
        if let Some(done) = stopped {
            return pack.stop_after(done, run.device, &work.sums, observer, save);
        }
        (pack.state.epoch, pack.state.step) = (epoch + 1, 0);
        let mut control = super::Control::Continue;
        for (place, terms) in run.device.take_sums(&mut work.sums)?.iter().enumerate() {
            let loss = -terms.reconstruction / (n_steps * b) as f64;
            if !loss.is_finite() {
                return Err(Error::Diverged { stage: "pretraining", epoch: epoch + 1, loss });
            }
            let entry = PretrainEpoch { phase: name.clone(), epoch: epoch + 1, loss };
            control = observer.event(&Event::Pretrained(restarts.start + place, &entry));
            pack.state.records[place].pretrain.push(entry);
        }
        apply_control(control, pack, observer, save)?;
    }
    Ok(())
}

/// Buffers of a phase.
struct Work<D: Device> {
    batch: D::Batch,
    tape: Tape<D::Buffer>,
    layer: Option<LayerWork<D::Buffer>>,
    sums: D::Sums,
    order: Vec<Key>,
    dropout_keys: Vec<Key>,
    /// The data's likelihood, or squared error for hidden activations; one a restart.
    families: Vec<Likelihood>,
}

/// Extra buffers of a layer's phase.
struct LayerWork<B> {
    /// The layer's input with dropout.
    input: Matrix<B>,
    /// Its code, and the code with dropout.
    code: Matrix<B>,
    dropped: Matrix<B>,
    d_code: Matrix<B>,
    /// The reconstruction of the input, then its gradient.
    output: Matrix<B>,
    mirror: Affine,
}

impl<D: Device> Work<D> {
    fn new(run: &Run<'_, D>, phase: Phase, state: &State) -> Result<Self> {
        let (device, b) = (run.device, run.settings.pretrain_batch);
        let [order, dropout_keys] =
            [Stream::PretrainOrder, Stream::Dropout].map(|stream| run.keys(stream, state.numbers()));
        let restarts = state.restarts.len();
        let family = match phase {
            Phase::Layer(i) if i > 0 => Likelihood::GaussianFixed { variance: 0.5 },
            _ => run.likelihood,
        };
        let layer = match phase {
            Phase::Layer(i) => Some(LayerWork::new(run, i, restarts)?),
            Phase::Whole => None,
        };
        Ok(Self {
            batch: device.batch(&run.rows, restarts, b)?,
            tape: Tape::new(device, &run.architecture, restarts, b, 1)?,
            layer,
            sums: device.sums(restarts, b)?,
            order,
            dropout_keys,
            families: vec![family; restarts],
        })
    }

    fn step(
        &mut self,
        run: &Run<'_, D>,
        params: &mut Params<D::Buffer>,
        phase: Phase,
        tick: &Tick,
    ) -> compute::Result<()> {
        let pick =
            RowSelection::Shuffled { keys: &self.order, epoch: tick.epoch, first: tick.first as usize };
        run.device.gather(&run.rows, pick, &mut self.batch)?;
        let adam = tick.adam_step(run.architecture.network_range(), 0, EPSILON);
        match phase {
            Phase::Whole => self.whole_step(run, params, &adam),
            Phase::Layer(i) => self.layer_step(run, params, i, tick.draw, &adam),
        }
    }

    /// x - head - z = mean - output, and back.
    fn whole_step(
        &mut self,
        run: &Run<'_, D>,
        params: &mut Params<D::Buffer>,
        adam: &AdamStep,
    ) -> compute::Result<()> {
        let (device, architecture, tape) = (run.device, &run.architecture, &mut self.tape);
        tape.encode(device, architecture, params, &run.rows, &self.batch)?;
        device.sample_latents(None, &tape.head, &mut tape.z)?;
        tape.decode(device, architecture, params)?;
        device.likelihood(
            &self.families,
            device.batch_rows(&self.batch),
            &mut tape.output,
            &mut self.sums,
        )?;
        tape.decode_backward(device, architecture, params, Some(adam))?;
        device.clear(&mut tape.d_head.data)?;
        tape.encode_backward(device, architecture, params, &run.rows, &self.batch, false, Some(adam))
    }

    /// Layer i and its mirror in the decoder, on the activations below it.
    ///
    /// DEVIATION(stacked-output): hidden activations are reconstructed by a linear layer, where DEC
    /// puts a ReLU; the ReLU comes back when the whole is fine-tuned.
    fn layer_step(
        &mut self,
        run: &Run<'_, D>,
        params: &mut Params<D::Buffer>,
        i: usize,
        first_draw: u64,
        adam: &AdamStep,
    ) -> compute::Result<()> {
        let (device, architecture, tape) = (run.device, &run.architecture, &mut self.tape);
        let work = self.layer.as_mut().expect("made for this phase");
        let last = i + 1 == architecture.encoder.layers.len();
        let rate = run.settings.settings.dropout;
        let draw = |what: u64| Draw { keys: &self.dropout_keys, step: first_draw + what };
        tape.encode(device, architecture, params, &run.rows, &self.batch)?;
        let layer = architecture.encoder.layers[i].weights();
        // Forward. The data themselves are never dropped, so sparse rows stay sparse.
        if i > 0 {
            device.dropout(draw(0), rate, &tape.encoder.hidden[i - 1], &mut work.input)?;
        }
        if last {
            device.affine(params, layer, &work.input, Activation::Linear, &mut tape.head)?;
            device.sample_latents(None, &tape.head, &mut work.dropped)?;
        } else {
            if i == 0 {
                device.input_affine(
                    params,
                    layer,
                    &run.rows,
                    &self.batch,
                    Activation::Relu,
                    &mut work.code,
                )?;
            } else {
                device.affine(params, layer, &work.input, Activation::Relu, &mut work.code)?;
            }
            device.dropout(draw(1), rate, &work.code, &mut work.dropped)?;
        }
        device.affine(params, work.mirror, &work.dropped, Activation::Linear, &mut work.output)?;
        let target = if i == 0 { device.batch_rows(&self.batch) } else { &tape.encoder.hidden[i - 1] };
        device.likelihood(&self.families, target, &mut work.output, &mut self.sums)?;
        // Backward. Layers without a gradient here take no step.
        let update = Some(adam);
        let mask = (!last).then_some(&work.code);
        device.affine_backward_input(params, work.mirror, &work.output, mask, &mut work.d_code)?;
        device.affine_backward_weights(params, work.mirror, &work.dropped, &work.output, update)?;
        if last {
            device.clear(&mut tape.d_head.data)?;
            device.sample_latents_backward(
                &tape.head,
                &work.dropped,
                &work.d_code,
                None,
                &mut tape.d_head,
            )?;
            return device.affine_backward_weights(params, layer, &work.input, &tape.d_head, update);
        }
        device.dropout_backward(draw(1), rate, &mut work.d_code)?;
        if i == 0 {
            device.input_affine_backward(params, layer, &run.rows, &self.batch, &work.d_code, update)
        } else {
            device.affine_backward_weights(params, layer, &work.input, &work.d_code, update)
        }
    }
}

impl<B> LayerWork<B> {
    fn new<D: Device<Buffer = B>>(run: &Run<'_, D>, i: usize, restarts: usize) -> Result<Self> {
        let mirrors = &run.architecture.decoder.layers;
        let mirror = mirrors[mirrors.len() - 1 - i].weights();
        let matrix = |columns| Matrix::zeros(run.device, restarts, run.settings.pretrain_batch, columns);
        let inputs = if i == 0 { 0 } else { mirror.weight.columns };
        Ok(Self {
            input: matrix(inputs)?,
            code: matrix(mirror.weight.rows)?,
            dropped: matrix(mirror.weight.rows)?,
            d_code: matrix(mirror.weight.rows)?,
            output: matrix(mirror.weight.columns)?,
            mirror,
        })
    }
}
