//! Training steps as a graph: what they launch is recorded once and replayed with other clocks.

use std::sync::MutexGuard;

use cudarc::driver::CudaGraph;

use super::driver::{Clock, Driver, Keys, Lane};
use super::{Cuda, CudaBuffer, MOST_STEPS, Params, Result, Tick, affine};

/// A step that is being recorded.
#[derive(Default)]
pub(super) struct Recorded {
    pub(super) tick: Tick,
    /// Its place among those that are replayed at once.
    pub(super) place: usize,
    /// Where the weights lie, or their gradients, that were given to lanes beside the first.
    pub(super) beside: Vec<u64>,
    /// The prior was given to its lane.
    pub(super) prior_beside: bool,
    /// What follows has not waited for its gradients yet.
    pub(super) prior_awaited: bool,
    pub(super) shuffles: Vec<Shuffle>,
    /// Weight gradients of its end.
    pub(super) late: affine::Late,
}

/// The order of all rows, which a recorded step looks up and each epoch makes anew.
pub(super) struct Shuffle {
    pub(super) ids: u64,
    pub(super) keys: Keys,
    pub(super) n_rows: usize,
    pub(super) restarts: usize,
}

/// Steps as they were recorded, and the parameters that they work on.
#[derive(Default)]
pub struct CudaRecording {
    /// A single step, and [`MOST_STEPS`] of them.
    graphs: [Option<CudaGraph>; 2],
    params: u64,
    shuffles: Vec<Shuffle>,
    /// The epoch that the shuffles are of.
    epoch: Option<u64>,
}

impl Cuda {
    /// What is being recorded.
    pub(super) fn state(&self) -> MutexGuard<'_, Option<Recorded>> {
        self.recorded.lock().expect("no thread died while recording")
    }

    /// The clock's address while a step is recorded (else null), and the step's numbers.
    pub(super) fn clock(&self) -> (u64, Tick) {
        let recorded = self.state();
        match &*recorded {
            Some(recorded) => (self.driver.clock_address(recorded.place), recorded.tick),
            None => (0, Tick::default()),
        }
    }

    /// A lane for the step of the weights at this address, from this point on; the same for the same weights. Only while a
    /// step is recorded: its end brings all lanes together again.
    pub(super) fn fork(&self, weights: u64) -> Result<Lane> {
        let mut recorded = self.state();
        let Some(recorded) = &mut *recorded else { return Ok(Lane::Main) };
        let known = recorded.beside.iter().position(|&at| at == weights);
        let layer = known.unwrap_or(recorded.beside.len());
        if known.is_none() {
            recorded.beside.push(weights);
        }
        self.driver.beside_after_main(Lane::Weights(layer))?;
        Ok(Lane::Weights(layer))
    }

    /// Lets the prior run on its lane from the moment the latents were there.
    pub(super) fn fork_prior(&self) -> Result<Lane> {
        let mut recorded = self.state();
        let Some(recorded) = &mut *recorded else { return Ok(Lane::Main) };
        (recorded.prior_beside, recorded.prior_awaited) = (true, true);
        self.driver.prior_after_sampled()?;
        Ok(Lane::Prior)
    }

    /// What follows needs the prior's gradients.
    pub(super) fn join_prior(&self) -> Result<()> {
        let mut recorded = self.state();
        let pending = recorded.as_mut().is_some_and(|recorded| std::mem::take(&mut recorded.prior_awaited));
        if pending { self.driver.main_after_prior() } else { Ok(()) }
    }

    /// Lets what follows wait for all that the step has begun or left for later, if there are weights (or gradients) of
    /// which `concerns` is true among it: a second way through a layer sees its new weights, and may overwrite what the
    /// first one left.
    pub(super) fn settle(&self, concerns: impl Fn(u64) -> bool) -> Result<()> {
        // In a statement of its own: the lock is free again after it.
        let settles = self.state().as_ref().is_some_and(|recorded| {
            recorded.beside.iter().copied().chain(recorded.late.weights()).any(concerns)
        });
        if settles { self.finish_begun() } else { Ok(()) }
    }

    /// Launches what was left for later, and brings all lanes together.
    fn finish_begun(&self) -> Result<()> {
        self.launch_late()?;
        self.join()?;
        // Weights are new.
        self.driver.next_not_early();
        Ok(())
    }

    fn join(&self) -> Result<()> {
        let mut recorded = self.state();
        let Some(recorded) = &mut *recorded else { return Ok(()) };
        let prior = std::mem::take(&mut recorded.prior_beside);
        let n_layers = std::mem::take(&mut recorded.beside).len();
        if prior || n_layers > 0 { self.driver.main_after_beside(prior, n_layers) } else { Ok(()) }
    }

    /// Steps one after the other as one graph, each with a clock of its own.
    fn record(
        &self,
        ticks: &[Tick],
        params: &mut Params<CudaBuffer>,
        body: &mut impl FnMut(&mut Params<CudaBuffer>, &Tick) -> Result<()>,
    ) -> Result<(CudaGraph, Vec<Shuffle>)> {
        self.driver.begin_recording()?;
        *self.state() = Some(Recorded::default());
        let done = ticks.iter().enumerate().try_for_each(|(place, tick)| {
            if let Some(recorded) = &mut *self.state() {
                (recorded.place, recorded.tick) = (place, *tick);
            }
            body(params, tick)?;
            self.finish_begun()
        });
        // Joined and ended in any case: a stream left recording would refuse all other work.
        let joined = self.join();
        let recorded = self.state().take().unwrap_or_default();
        let graph = self.driver.end_recording();
        done.and(joined)?;
        Ok((graph?, recorded.shuffles))
    }

    /// Replays steps, those that fill a graph at once and others one by one; records what was not yet.
    pub(super) fn replay(
        &self,
        ticks: &[Tick],
        recording: &mut CudaRecording,
        params: &mut Params<CudaBuffer>,
        mut body: impl FnMut(&mut Params<CudaBuffer>, &Tick) -> Result<()>,
    ) -> Result<()> {
        // Parameters that moved are a new step: what was recorded points elsewhere.
        if recording.params != params.values.at {
            *recording = CudaRecording { params: params.values.at, ..CudaRecording::default() };
        }
        for ticks in ticks.chunks(MOST_STEPS) {
            // The order of rows changes between epochs.
            let fills = ticks.len() == MOST_STEPS && ticks.iter().all(|tick| tick.epoch == ticks[0].epoch);
            for ticks in ticks.chunks(if fills { MOST_STEPS } else { 1 }) {
                self.replay_graph(ticks, fills, recording, params, &mut body)?;
            }
        }
        Ok(())
    }

    fn replay_graph(
        &self,
        ticks: &[Tick],
        fills: bool,
        recording: &mut CudaRecording,
        params: &mut Params<CudaBuffer>,
        body: &mut impl FnMut(&mut Params<CudaBuffer>, &Tick) -> Result<()>,
    ) -> Result<()> {
        let place = usize::from(fills);
        if recording.graphs[place].is_none() {
            let (graph, shuffles) = self.record(ticks, params, body)?;
            recording.graphs[place] = Some(graph);
            (recording.shuffles, recording.epoch) = (shuffles, None);
        }
        if recording.epoch != Some(ticks[0].epoch) {
            for shuffle in &recording.shuffles {
                let n = shuffle.n_rows;
                self.shuffle(shuffle.ids, &shuffle.keys, shuffle.restarts, ticks[0].epoch, 0..n, n)?;
            }
            recording.epoch = Some(ticks[0].epoch);
        }
        self.driver.set_clocks(ticks.iter().map(|tick| Clock::at(tick, params.beta1)))?;
        recording.graphs[place].as_ref().map_or(Ok(()), Driver::replay)
    }
}
