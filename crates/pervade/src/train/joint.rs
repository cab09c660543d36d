//! Joint training: maximise the ELBO over networks and mixture (paper, the detailed ELBO).

use std::ops::Range;

use super::callback::EpochCallback;
use super::neighbours::Neighbours;
use super::observer::{Control, Event, Observer, Stage};
use super::reconstruction::Reconstruction;
use super::run::{Pack, Run, Save, apply_control, run_steps, save_if_interrupted};
use super::score::{keep_best, score_states};
use super::shares::{Share, ShareMean, ShareSums};
use crate::compute::{self, AdamStep, Device, Draw, Likelihood, Params, RowSelection, Terms, Tick, Ticks};
use crate::metrics::Vote;
use crate::nn::Tape;
use crate::record::JointEpoch;
use crate::seed::{Key, Stream};
use crate::{Error, Result};

/// Number of states of a run that are scored, including the mixture start and the end.
const SCORED_STATES: usize = 5;

/// Trains the pack jointly from its current state, scores a few states and keeps the best; the callback is called after
/// every epoch.
pub fn train<D: Device>(
    run: &Run<'_, D>,
    pack: &mut Pack<D>,
    observer: &mut dyn Observer,
    save: Save<'_, D>,
    callback: &mut dyn EpochCallback<D>,
) -> Result<()> {
    maximise_elbo(run, pack, run.settings.epochs, observer, save, |pack, observer| {
        callback.on_epoch_end(run, pack)?;
        if !is_scored(pack.state.epoch, run.settings.epochs) {
            return Ok(());
        }
        let scored = score_states(run, pack, observer)?;
        keep_best(run, pack, scored, observer)
    })
}

/// Trains the pack jointly until `epochs` are done; `after_epoch` is called after each, before a checkpoint may be
/// written.
pub fn maximise_elbo<D: Device>(
    run: &Run<'_, D>,
    pack: &mut Pack<D>,
    epochs: usize,
    observer: &mut dyn Observer,
    save: Save<'_, D>,
    mut after_epoch: impl FnMut(&mut Pack<D>, &mut dyn Observer) -> Result<()>,
) -> Result<()> {
    let restarts = pack.state.restarts.clone();
    let b = run.settings.batch;
    let n_steps = run.data.n_rows() / b;
    observer.event(&Event::StageStarted {
        restart: restarts.start,
        stage: Stage::Joint,
        phase: if pack.vote.is_some() { "training towards the final clusters" } else { "joint training" },
        epochs,
        done: pack.state.epoch,
        steps: n_steps,
    });
    let mut joint = JointStep::of_pack(run, pack)?;
    pack.resume_sums(run, &mut joint.sums)?;
    let mut after_epoch = |pack: &mut Pack<D>, observer: &mut dyn Observer, save: Save<'_, D>| {
        pack.state.unscored = true;
        let result = after_epoch(pack, observer);
        save_if_interrupted(result, pack, observer, save)?;
        pack.state.unscored = false;
        Ok::<(), Error>(())
    };
    if pack.state.unscored {
        after_epoch(pack, observer, save)?;
    }
    while pack.state.epoch < epochs {
        let epoch = pack.state.epoch;
        let rates = learning_rates(run, pack, epoch);
        let steps = pack.state.step..n_steps;
        let stopped = run_steps(steps, run.device.steps_at_once(), observer, |step_indices| {
            joint.steps(run, &mut pack.params, epoch as u64, step_indices, n_steps, rates)
        })?;
        run.data.check_unchanged()?;
        if let Some(done) = stopped {
            return pack.stop_after(done, run, &joint.sums, observer, save);
        }
        (pack.state.epoch, pack.state.step) = (epoch + 1, 0);
        let terms = joint.take_sums(run)?;
        let mut control = Control::Continue;
        for (slot, terms) in terms.iter().enumerate() {
            let terms = terms.scaled(1.0 / (n_steps * b) as f64);
            if !terms.objective().is_finite() {
                return Err(Error::Diverged {
                    stage: "joint training",
                    epoch: epoch + 1,
                    loss: -terms.objective(),
                });
            }
            let entry = JointEpoch {
                epoch: epoch + 1,
                elbo: terms.elbo(),
                terms,
                learning_rate: f64::from(rates[0]),
            };
            control = observer.event(&Event::Trained(restarts.start + slot, &entry));
            pack.state.records[slot].joint.push(entry);
        }
        after_epoch(pack, observer, save)?;
        apply_control(control, pack, observer, save)?;
    }
    observer.event(&Event::StageEnded { restart: restarts.start, stage: Stage::Joint });
    Ok(())
}

/// Whether the state after an epoch is scored: the last one, and others evenly spaced before it.
pub(super) fn is_scored(epoch: usize, epochs: usize) -> bool {
    let n_scored = |e: usize| e * (SCORED_STATES - 1) / epochs;
    epoch == epochs || n_scored(epoch) != n_scored(epoch - 1)
}

/// Factor on the learning rates when a trained model is trained further, towards a vote: at the full rates its first
/// steps, with Adam's moments at zero, can empty a cluster. (UCI HAR, one of three seeds: 79 % instead of 86.)
const VOTE_RATE: f32 = 0.2;

/// Learning rates of networks and mixture: step decay with a floor.
fn learning_rates<D: Device>(run: &Run<'_, D>, pack: &Pack<D>, epoch: usize) -> [f32; 2] {
    let settings = &run.settings.settings;
    let first = if pack.vote.as_ref().is_some_and(Vote::is_of_restarts) { VOTE_RATE } else { 1.0 };
    let factor = first * settings.decay.powi((epoch / run.settings.decay_every) as i32);
    [settings.learning_rate, settings.mixture_learning_rate].map(|rate| match rate {
        0.0 => 0.0,
        rate => (rate * factor).max(settings.learning_rate_floor),
    })
}

/// A step of joint training, with buffers that are allocated once.
pub struct JointStep<D: Device> {
    batch: D::Batch,
    tape: Tape<D::Buffer>,
    scratch: D::Buffer,
    recording: D::Recording,
    sums: ShareSums<D>,
    /// Present if a batch has several shares.
    share_mean: Option<ShareMean<D>>,
    order: Vec<Key>,
    noise: Vec<Key>,
    reconstruction: Reconstruction<D>,
    /// The neighbour term, if it has a weight.
    neighbours: Option<Neighbours<D>>,
}

impl<D: Device> JointStep<D> {
    /// Allocates buffers for the batch and samples in the settings; without the neighbour term.
    pub fn new(run: &Run<'_, D>, restarts: Range<usize>) -> Result<Self> {
        let likelihoods = vec![run.likelihood; restarts.len()];
        Self::with_neighbours(run, restarts, likelihoods, None)
    }

    /// [`JointStep::new`] with made-up neighbours, for tests and benchmarks: row i + 1 is the neighbour of row i, and
    /// component m belongs to cluster m modulo `n_clusters`.
    pub fn with_ring(run: &Run<'_, D>, restarts: Range<usize>, n_clusters: usize) -> Result<Self> {
        let likelihoods = vec![run.likelihood; restarts.len()];
        let n_rows = run.share_rows(run.settings.batch);
        let neighbours = Neighbours::ring(run, restarts.clone(), n_rows, n_clusters)?;
        Self::with_neighbours(run, restarts, likelihoods, Some(neighbours))
    }

    /// The step of a pack whose mixtures have been started: with its likelihoods, random keys and neighbours.
    pub fn of_pack(run: &Run<'_, D>, pack: &Pack<D>) -> Result<Self> {
        let neighbours = Neighbours::new(run, pack, run.share_rows(run.settings.batch))?;
        Self::with_neighbours(run, pack.state.rng_ids(), pack.state.likelihoods.clone(), neighbours)
    }

    fn with_neighbours(
        run: &Run<'_, D>,
        rng_ids: impl Iterator<Item = usize> + Clone,
        likelihoods: Vec<Likelihood>,
        neighbours: Option<(Neighbours<D>, D::Batch)>,
    ) -> Result<Self> {
        let (device, b, r) = (run.device, run.share_rows(run.settings.batch), likelihoods.len());
        let samples = run.settings.settings.samples;
        let (neighbours, batch, tape) = match neighbours {
            Some((neighbours, batch)) => {
                (Some(neighbours), batch, Tape::with_neighbours(device, &run.architecture, r, b, samples)?)
            }
            None => {
                let batch = device.batch(&run.rows, r, b)?;
                (None, batch, Tape::new(device, &run.architecture, r, b, samples)?)
            }
        };
        Ok(Self {
            batch,
            tape,
            scratch: device.prior_scratch(r, b, samples * b, run.architecture.mixture)?,
            recording: D::Recording::default(),
            sums: ShareSums::new(run, r, run.settings.batch, samples)?,
            share_mean: ShareMean::new(run, r)?,
            order: run.keys(Stream::JointOrder, rng_ids.clone()),
            noise: run.keys(Stream::Latent, rng_ids),
            reconstruction: Reconstruction::new(run, likelihoods)?,
            neighbours,
        })
    }

    /// Runs the steps `step_indices` of an epoch that has `n_steps`.
    pub fn steps(
        &mut self,
        run: &Run<'_, D>,
        params: &mut Params<D::Buffer>,
        epoch: u64,
        step_indices: Range<usize>,
        n_steps: usize,
        learning_rates: [f32; 2],
    ) -> Result<()> {
        let ticks = Ticks::new(step_indices, |index| {
            let draw = epoch * n_steps as u64 + index as u64;
            let first = (index * run.settings.batch) as u64;
            Tick { epoch, first, draw, adam: draw + 1, learning_rates }
        });
        let mut recording = std::mem::take(&mut self.recording);
        let done = run.steps(&ticks, &mut recording, params, |params, tick| self.body(run, params, tick));
        self.recording = recording;
        done
    }

    /// Returns the sums of the ELBO terms since they were last taken, one per restart.
    pub fn take_sums(&mut self, run: &Run<'_, D>) -> Result<Vec<Terms>> {
        self.sums.take(run)
    }

    /// Computes gradients and updates by Adam: of one share, the networks layer by layer during the backward pass and the
    /// mixture after it; of several shares, all parameters after their gradients were averaged.
    fn body(&mut self, run: &Run<'_, D>, params: &mut Params<D::Buffer>, tick: &Tick) -> compute::Result<()> {
        let (architecture, epsilon) = (&run.architecture, run.settings.settings.epsilon);
        let networks = tick.adam_step(architecture.network_range(), 0, epsilon);
        let mixture = tick.adam_step(architecture.mixture_range(), 1, epsilon);
        let n_rows = run.share_rows(run.settings.batch);
        let Some(mut mean) = self.share_mean.take() else {
            self.share_gradients(run, params, tick, Share { number: 0, index: 0, n_rows }, Some(&networks))?;
            return run.device.adam(params, &mixture);
        };
        let done = mean.step(
            run,
            n_rows,
            params,
            |params, share| self.share_gradients(run, params, tick, share, None),
            |params| {
                run.device.adam(params, &networks)?;
                run.device.adam(params, &mixture)
            },
        );
        self.share_mean = Some(mean);
        done
    }

    /// Gathers the rows of a share and computes its gradient or, with `update`, updates the networks with it.
    fn share_gradients(
        &mut self,
        run: &Run<'_, D>,
        params: &mut Params<D::Buffer>,
        tick: &Tick,
        share: Share,
        update: Option<&AdamStep>,
    ) -> compute::Result<()> {
        let (keys, epoch, first) = (&self.order[..], tick.epoch, share.first(tick.first as usize));
        let selection = match &self.neighbours {
            Some(Neighbours { keys: neighbour_keys, .. }) => {
                RowSelection::ShuffledPairs { keys, neighbour_keys, epoch, first }
            }
            None => RowSelection::Shuffled { keys, epoch, first },
        };
        run.device.gather(&run.rows, selection, &mut self.batch)?;
        self.gradients(run, params, share.draw(tick.draw), share.index, update)
    }

    /// Computes the gradient of the negative ELBO for the rows in the batch or, with `update`, updates the networks
    /// with it, in the order of the paper.
    fn gradients(
        &mut self,
        run: &Run<'_, D>,
        params: &mut Params<D::Buffer>,
        step: u64,
        share_index: usize,
        update: Option<&AdamStep>,
    ) -> compute::Result<()> {
        let sums = self.sums.of(share_index);
        let (device, architecture, tape) = (run.device, &run.architecture, &mut self.tape);
        // [mu~; log sigma~^2] = g(x), z = mu~ + sigma~ eps, output = f(z)
        tape.encode(device, architecture, params, &run.rows, &self.batch)?;
        let draw = Draw { keys: &self.noise, step };
        device.sample_latents(Some(draw), tape.n_rows, &tape.head, &mut tape.z)?;
        tape.decode(device, architecture, params)?;
        // The terms of the ELBO: log p(x|z), and those of the prior with q(c|x)
        self.reconstruction.add(device, &self.batch, tape, sums)?;
        device.prior(
            run.settings.settings.gamma,
            params,
            architecture.mixture,
            &tape.head,
            &tape.z,
            &mut self.scratch,
            &mut tape.d_head,
            &mut tape.dz_prior,
            sums,
        )?;
        // Neighbours should belong to the same cluster
        if let Some(neighbours) = &self.neighbours {
            device.neighbour_term(
                neighbours.term(),
                params,
                architecture.mixture,
                &tape.head,
                &mut self.scratch,
                &mut tape.d_head,
                sums,
            )?;
        }
        // Backward through f, the samples and g
        tape.decode_backward(device, architecture, params, update)?;
        tape.encode_backward(device, architecture, params, &run.rows, &self.batch, true, update)
    }

    /// Computes the gradient for rows `first..first + B` with the noise of `step`; for tests.
    pub fn gradients_of_rows(
        &mut self,
        run: &Run<'_, D>,
        params: &mut Params<D::Buffer>,
        first: usize,
        step: u64,
    ) -> Result<()> {
        run.device.gather(&run.rows, RowSelection::Range { first }, &mut self.batch)?;
        Ok(self.gradients(run, params, step, 0, None)?)
    }

    /// The buffers of the last step, for tests.
    pub fn tape(&self) -> &Tape<D::Buffer> {
        &self.tape
    }
}
