//! Pretraining of VaDE's networks as an auto-encoder (paper, experimental setup).

use std::ops::Range;

use super::observer::{Event, Observer, Stage};
use super::reconstruction::Reconstruction;
use super::run::{Pack, Run, Save, State, apply_control, run_steps};
use super::scales::fit_scales;
use super::shares::{Share, ShareMean, ShareSums};
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

/// A phase of pretraining: one encoder layer with its mirror in the decoder, or the whole auto-encoder.
#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Layer(usize),
    Whole,
}

impl Phase {
    /// Its name in records.
    fn name(self) -> String {
        match self {
            Phase::Layer(i) => format!("layer {}", i + 1),
            Phase::Whole => "auto-encoder".to_string(),
        }
    }
}

/// The phases of a run, with the epochs of each.
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

/// The names of a run's phases, with the epochs of each.
pub(super) fn named_phases<D: Device>(run: &Run<'_, D>) -> Vec<(String, usize)> {
    phases(run).into_iter().map(|(phase, epochs)| (phase.name(), epochs)).collect()
}

/// Trains the pack's networks as auto-encoders, from its current state.
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
    fit_scales(run, pack)?;
    observer.event(&Event::StageEnded { restart: pack.state.restarts.start, stage: Stage::Pretrain });
    pack.state.stage = Stage::Mixture;
    pack.state.phase = 0;
    Ok(())
}

/// The likelihood with the noise variance of the auto-encoder's residual, if the settings do not give one.
///
/// A constant variance weights the reconstruction too little or too much, depending on the scale of the data: with 1/2
/// on data in [-1, 1], the latents collapse to the prior.
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

/// The learning rate: constant, then linear to zero over the last steps; `step` is counted from one.
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
    let mut buffers = PhaseBuffers::new(run, phase, &pack.state)?;
    // Dropped before the buffers that it uses.
    let mut recording = D::Recording::default();
    pack.resume_sums(run, &mut buffers.sums)?;
    while pack.state.epoch < epochs {
        let (epoch, phase_index) = (pack.state.epoch, pack.state.phase as u64);
        let steps = pack.state.step..n_steps;
        let stopped = run_steps(steps, run.device.steps_at_once(), observer, |step_indices| {
            let ticks = Ticks::new(step_indices, |index| {
                let step = (epoch * n_steps + index) as u64 + 1;
                Tick {
                    epoch: phase_index << 32 | epoch as u64,
                    first: (index * b) as u64,
                    // Two draws per step: dropout of a layer's input and of its output.
                    draw: (phase_index << 32 | step) << 1,
                    adam: step,
                    learning_rates: [learning_rate(run, step, epochs * n_steps), 0.0],
                }
            });
            let body = |params: &mut _, tick: &_| buffers.step(run, params, phase, tick);
            run.steps(&ticks, &mut recording, &mut pack.params, body)
        })?;
        run.data.check_unchanged()?;
        if let Some(done) = stopped {
            return pack.stop_after(done, run, &buffers.sums, observer, save);
        }
        (pack.state.epoch, pack.state.step) = (epoch + 1, 0);
        let mut control = super::Control::Continue;
        for (slot, terms) in buffers.sums.take(run)?.iter().enumerate() {
            let loss = -terms.reconstruction / (n_steps * b) as f64;
            if !loss.is_finite() {
                return Err(Error::Diverged { stage: "pretraining", epoch: epoch + 1, loss });
            }
            let entry = PretrainEpoch { phase: name.clone(), epoch: epoch + 1, loss };
            control = observer.event(&Event::Pretrained(restarts.start + slot, &entry));
            pack.state.records[slot].pretrain.push(entry);
        }
        apply_control(control, pack, observer, save)?;
    }
    Ok(())
}

/// Buffers of a phase.
struct PhaseBuffers<D: Device> {
    batch: D::Batch,
    tape: Tape<D::Buffer>,
    layer: Option<LayerBuffers<D::Buffer>>,
    sums: ShareSums<D>,
    /// Present if a batch has several shares.
    share_mean: Option<ShareMean<D>>,
    order: Vec<Key>,
    dropout_keys: Vec<Key>,
    reconstruction: Reconstruction<D>,
    /// The likelihood of the data, or squared error for hidden activations; one per restart.
    likelihoods: Vec<Likelihood>,
}

/// Additional buffers to train one layer.
struct LayerBuffers<B> {
    /// The layer's input with dropout.
    input: Matrix<B>,
    /// The layer's output, and the same with dropout.
    code: Matrix<B>,
    dropped: Matrix<B>,
    d_code: Matrix<B>,
    /// The reconstruction of the input, then its gradient.
    output: Matrix<B>,
    mirror: Affine,
}

impl<D: Device> PhaseBuffers<D> {
    fn new(run: &Run<'_, D>, phase: Phase, state: &State) -> Result<Self> {
        let (device, b) = (run.device, run.share_rows(run.settings.pretrain_batch));
        let [order, dropout_keys] =
            [Stream::PretrainOrder, Stream::Dropout].map(|stream| run.keys(stream, state.rng_ids()));
        let restarts = state.restarts.len();
        let likelihood = match phase {
            Phase::Layer(i) if i > 0 => Likelihood::GaussianFixed { variance: 0.5 },
            _ => run.likelihood,
        };
        let layer = match phase {
            Phase::Layer(i) => Some(LayerBuffers::new(run, i, restarts)?),
            Phase::Whole => None,
        };
        Ok(Self {
            batch: device.batch(&run.rows, restarts, b)?,
            tape: Tape::new(device, &run.architecture, restarts, b, 1)?,
            layer,
            sums: ShareSums::new(run, restarts, run.settings.pretrain_batch, 1)?,
            share_mean: ShareMean::new(run, restarts)?,
            order,
            dropout_keys,
            reconstruction: Reconstruction::new(run, vec![likelihood; restarts])?,
            likelihoods: vec![likelihood; restarts],
        })
    }

    /// Updates by Adam: with one share during the backward pass, with several after their gradients were averaged.
    fn step(
        &mut self,
        run: &Run<'_, D>,
        params: &mut Params<D::Buffer>,
        phase: Phase,
        tick: &Tick,
    ) -> compute::Result<()> {
        let adam = |range| tick.adam_step(range, 0, EPSILON);
        let n_rows = run.share_rows(run.settings.pretrain_batch);
        let Some(mut mean) = self.share_mean.take() else {
            let whole = Share { number: 0, index: 0, n_rows };
            let update = adam(run.architecture.network_range());
            return self.share_gradients(run, params, phase, tick, whole, Some(&update));
        };
        let ranges = self.trained_ranges(run, phase);
        let done = mean.step(
            run,
            n_rows,
            params,
            |params, share| self.share_gradients(run, params, phase, tick, share, None),
            |params| {
                ranges.iter().flatten().try_for_each(|range| run.device.adam(params, &adam(range.clone())))
            },
        );
        self.share_mean = Some(mean);
        done
    }

    /// The parameters that a phase trains: all of the networks, or a layer and its mirror.
    fn trained_ranges(&self, run: &Run<'_, D>, phase: Phase) -> [Option<Range<usize>>; 2] {
        let of_layer = |layer: Affine| Some(layer.weight.offset..layer.bias.range().end);
        match (phase, &self.layer) {
            (Phase::Layer(i), Some(buffers)) => {
                [of_layer(run.architecture.encoder.layers[i].weights()), of_layer(buffers.mirror)]
            }
            _ => [Some(run.architecture.network_range()), None],
        }
    }

    /// Gathers the rows of a share and computes its gradient or, with `update`, updates the networks with it.
    fn share_gradients(
        &mut self,
        run: &Run<'_, D>,
        params: &mut Params<D::Buffer>,
        phase: Phase,
        tick: &Tick,
        share: Share,
        update: Option<&AdamStep>,
    ) -> compute::Result<()> {
        let (epoch, first, draw) = (tick.epoch, share.first(tick.first as usize), share.draw(tick.draw));
        let pick = RowSelection::Shuffled { keys: &self.order, epoch, first };
        run.device.gather(&run.rows, pick, &mut self.batch)?;
        let hidden_share = run.settings.hidden_share;
        if hidden_share > 0.0 {
            let draw = Draw { keys: &self.dropout_keys, step: draw };
            run.device.hide_cells(&run.rows, draw, hidden_share, &mut self.batch)?;
        }
        match phase {
            Phase::Whole => self.whole_step(run, params, share.index, update),
            Phase::Layer(i) => self.layer_step(run, params, i, draw, share.index, update),
        }
    }

    /// Trains the whole auto-encoder, x - head - z = mean - output.
    fn whole_step(
        &mut self,
        run: &Run<'_, D>,
        params: &mut Params<D::Buffer>,
        share_index: usize,
        update: Option<&AdamStep>,
    ) -> compute::Result<()> {
        let (device, architecture, tape) = (run.device, &run.architecture, &mut self.tape);
        tape.encode(device, architecture, params, &run.rows, &self.batch)?;
        device.sample_latents(None, tape.n_rows, &tape.head, &mut tape.z)?;
        tape.decode(device, architecture, params)?;
        self.reconstruction.add(device, &self.batch, tape, self.sums.of(share_index))?;
        tape.decode_backward(device, architecture, params, update)?;
        device.clear(&mut tape.d_head.data)?;
        tape.encode_backward(device, architecture, params, &run.rows, &self.batch, false, update)
    }

    /// Trains layer i and its mirror in the decoder on the activations of the layer before.
    ///
    /// DEVIATION(stacked-output): hidden activations are reconstructed by a linear layer, where DEC uses a ReLU; the
    /// ReLU is there again when the whole auto-encoder is fine-tuned.
    fn layer_step(
        &mut self,
        run: &Run<'_, D>,
        params: &mut Params<D::Buffer>,
        i: usize,
        first_draw: u64,
        share_index: usize,
        update: Option<&AdamStep>,
    ) -> compute::Result<()> {
        let (device, architecture, tape) = (run.device, &run.architecture, &mut self.tape);
        let buffers = self.layer.as_mut().expect("allocated for this phase");
        let last = i + 1 == architecture.encoder.layers.len();
        let rate = run.settings.settings.dropout;
        let draw = |offset: u64| Draw { keys: &self.dropout_keys, step: first_draw + offset };
        tape.encode(device, architecture, params, &run.rows, &self.batch)?;
        let layer = architecture.encoder.layers[i].weights();
        // Forward. There is no dropout of the data, so sparse rows stay sparse.
        if i > 0 {
            device.dropout(draw(0), rate, &tape.encoder.hidden[i - 1], &mut buffers.input)?;
        }
        if last {
            device.affine(params, layer, &buffers.input, Activation::Linear, &mut tape.head)?;
            device.sample_latents(None, tape.n_rows, &tape.head, &mut buffers.dropped)?;
        } else {
            if i == 0 {
                device.input_affine(
                    params,
                    layer,
                    &run.rows,
                    &self.batch,
                    Activation::Relu,
                    &mut buffers.code,
                )?;
            } else {
                device.affine(params, layer, &buffers.input, Activation::Relu, &mut buffers.code)?;
            }
            device.dropout(draw(1), rate, &buffers.code, &mut buffers.dropped)?;
        }
        device.affine(params, buffers.mirror, &buffers.dropped, Activation::Linear, &mut buffers.output)?;
        let target = if i == 0 { device.batch_rows(&self.batch) } else { &tape.encoder.hidden[i - 1] };
        device.likelihood(&self.likelihoods, target, &mut buffers.output, self.sums.of(share_index))?;
        // Backward. Other layers are not updated.
        let mask = (!last).then_some(&buffers.code);
        device.affine_backward_input(params, buffers.mirror, &buffers.output, mask, &mut buffers.d_code)?;
        device.affine_backward_weights(params, buffers.mirror, &buffers.dropped, &buffers.output, update)?;
        if last {
            device.clear(&mut tape.d_head.data)?;
            device.sample_latents_backward(
                tape.n_rows,
                &tape.head,
                &buffers.dropped,
                &buffers.d_code,
                None,
                &mut tape.d_head,
            )?;
            return device.affine_backward_weights(params, layer, &buffers.input, &tape.d_head, update);
        }
        device.dropout_backward(draw(1), rate, &mut buffers.d_code)?;
        if i == 0 {
            device.input_affine_backward(params, layer, &run.rows, &self.batch, &buffers.d_code, update)
        } else {
            device.affine_backward_weights(params, layer, &buffers.input, &buffers.d_code, update)
        }
    }
}

impl<B> LayerBuffers<B> {
    fn new<D: Device<Buffer = B>>(run: &Run<'_, D>, i: usize, restarts: usize) -> Result<Self> {
        let mirrors = &run.architecture.decoder.layers;
        let mirror = mirrors[mirrors.len() - 1 - i].weights();
        let n_rows = run.share_rows(run.settings.pretrain_batch);
        let matrix = |columns| Matrix::zeros(run.device, restarts, n_rows, columns);
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
