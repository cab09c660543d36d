//! Training steps as CUDA graphs: recorded once, then replayed with other clocks.
//!
//! Within a recorded step, work whose results the chain of layers does not need soon runs on side streams: the prior and
//! the weight updates. The recording tracks which memory that work writes; an operation that needs it calls
//! [`Cuda::sync_pending`] first, and the end of the step waits for everything.

use std::ops::Range;
use std::sync::MutexGuard;

use cudarc::driver::CudaGraph;

use super::driver::{Clock, Driver, HeldMemory, Keys, StreamId};
use super::layers::DeferredUpdates;
use super::{Cuda, CudaBuffer};
use crate::{MAX_STEPS, Params, Recording, Result, Tick};

/// A step that is being recorded.
#[derive(Default)]
pub(super) struct Recorded {
    pub(super) tick: Tick,
    /// The step's index among those replayed at once.
    pub(super) step: usize,
    /// Work on side streams that the main stream has not waited for.
    side_work: Vec<SideWork>,
    /// Weight updates submitted to side streams since all were last joined.
    n_weight_updates: usize,
    pub(super) shuffles: Vec<Shuffle>,
    /// Weight updates deferred to the end of the step.
    pub(super) deferred: DeferredUpdates,
}

/// Work on a side stream.
struct SideWork {
    stream: StreamId,
    /// The addresses that it writes for the first restart.
    writes: Range<u64>,
}

/// The order of all rows, which a recorded step reads and each epoch computes anew.
pub(super) struct Shuffle {
    /// Address of the row indices.
    pub(super) row_indices: u64,
    pub(super) keys: Keys,
    pub(super) n_rows: usize,
    pub(super) restarts: usize,
    /// For batches with neighbours, which are drawn along with the order.
    pub(super) neighbours: Option<DrawnNeighbours>,
}

/// Where the neighbours of rows are, and where those that are drawn go.
#[derive(Clone)]
pub(super) struct DrawnNeighbours {
    /// Address of the neighbours of all rows, [R, N, k].
    pub(super) lists: u64,
    /// k.
    pub(super) n_neighbours: usize,
    /// Address of the drawn neighbours, in the order of the row indices.
    pub(super) drawn: u64,
    pub(super) keys: Keys,
}

/// Recorded steps, which share ownership of the memory that they use.
#[derive(Default)]
pub struct CudaRecording {
    /// Graphs of a single step and of [`MAX_STEPS`] steps.
    graphs: [Option<RecordedGraph>; 2],
    /// Address of the parameters that they update.
    params: u64,
    shuffles: Vec<Shuffle>,
    /// The epoch whose shuffles are current.
    epoch: Option<u64>,
}

/// A graph, and the memory that its kernels use, which must live as long.
struct RecordedGraph {
    graph: CudaGraph,
    _memory: HeldMemory,
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

impl Cuda {
    /// The step that is being recorded, if any.
    pub(super) fn state(&self) -> MutexGuard<'_, Option<Recorded>> {
        self.recorded.lock().expect("no thread died while recording")
    }

    pub(super) fn is_recording(&self) -> bool {
        self.state().is_some()
    }

    /// The clock's address while a step is recorded (else null), and the step's tick.
    pub(super) fn clock(&self) -> (u64, Tick) {
        let recorded = self.state();
        match &*recorded {
            Some(recorded) => (self.driver.clock_address(recorded.step), recorded.tick),
            None => (0, Tick::default()),
        }
    }

    /// Forks a side stream for an update that writes the weights or gradients at `writes`; the same weights get the same
    /// stream. Outside a recorded step, this is the main stream.
    pub(super) fn fork_update(&self, writes: Range<u64>) -> Result<StreamId> {
        let mut recorded = self.state();
        let Some(recorded) = &mut *recorded else { return Ok(StreamId::Main) };
        let known = recorded.side_work.iter().find(|work| work.writes.start == writes.start);
        let stream = match known {
            Some(work) => work.stream,
            None => {
                recorded.n_weight_updates += 1;
                StreamId::weights(recorded.n_weight_updates - 1)
            }
        };
        recorded.side_work.push(SideWork { stream, writes });
        self.driver.fork(stream)?;
        Ok(stream)
    }

    /// Forks the side stream of the prior from the point where the latents were sampled.
    pub(super) fn fork_prior(&self, writes: [Range<u64>; 3]) -> Result<StreamId> {
        let mut recorded = self.state();
        let Some(recorded) = &mut *recorded else { return Ok(StreamId::Main) };
        let work = |writes| SideWork { stream: StreamId::Prior, writes };
        recorded.side_work.extend(writes.map(work));
        self.driver.fork_after_sampling(StreamId::Prior)?;
        Ok(StreamId::Prior)
    }

    /// The stream of the prior if it has work that the main stream has not waited for, else the main stream.
    pub(super) fn prior_stream(&self) -> StreamId {
        let is_pending =
            |recorded: &Recorded| recorded.side_work.iter().any(|work| work.stream == StreamId::Prior);
        if self.state().as_ref().is_some_and(is_pending) { StreamId::Prior } else { StreamId::Main }
    }

    /// Makes later work wait for pending work that writes within `needed`.
    ///
    /// An operation that needs weights whose update is pending uses a layer for the second time in the step: it and its
    /// successors overwrite inputs of other pending updates, so that all of them must complete first.
    pub(super) fn sync_pending(&self, needed: &Range<u64>) -> Result<()> {
        // A separate statement, which releases the lock.
        let is_update = self.state().as_ref().is_some_and(|recorded| {
            let updates = recorded.side_work.iter().filter(|work| work.stream != StreamId::Prior);
            updates
                .map(|work| work.writes.clone())
                .chain(recorded.deferred.writes())
                .any(|w| overlap(&w, needed))
        });
        if is_update {
            return self.sync_all_pending();
        }
        self.join(|work| overlap(&work.writes, needed))
    }

    /// Launches deferred updates, and makes later work wait for all side streams.
    pub(super) fn sync_all_pending(&self) -> Result<()> {
        if !self.is_recording() {
            return Ok(());
        }
        self.launch_deferred()?;
        self.join(|_| true)?;
        if let Some(recorded) = &mut *self.state() {
            recorded.n_weight_updates = 0;
        }
        // The weights have changed.
        self.driver.disable_early_launch();
        Ok(())
    }

    /// Makes the main stream wait for the side streams that have work for which `is_needed` holds.
    fn join(&self, is_needed: impl Fn(&SideWork) -> bool) -> Result<()> {
        let mut recorded = self.state();
        let Some(recorded) = &mut *recorded else { return Ok(()) };
        for stream in StreamId::SIDE {
            if recorded.side_work.iter().any(|work| work.stream == stream && is_needed(work)) {
                recorded.side_work.retain(|work| work.stream != stream);
                self.driver.join(stream)?;
            }
        }
        Ok(())
    }

    /// Records consecutive steps as one graph, each with its own clock.
    fn record(
        &self,
        ticks: &[Tick],
        params: &mut Params<CudaBuffer>,
        body: &mut impl FnMut(&mut Params<CudaBuffer>, &Tick) -> Result<()>,
    ) -> Result<(RecordedGraph, Vec<Shuffle>)> {
        self.driver.begin_recording()?;
        *self.state() = Some(Recorded::default());
        let done = ticks.iter().enumerate().try_for_each(|(step, tick)| {
            if let Some(recorded) = &mut *self.state() {
                (recorded.step, recorded.tick) = (step, *tick);
            }
            body(params, tick)?;
            self.sync_all_pending()
        });
        // Even after an error: a stream that is still recording would refuse all other work.
        let joined = self.join(|_| true);
        let recorded = self.state().take().unwrap_or_default();
        let ended = self.driver.end_recording();
        done.and(joined)?;
        let (graph, memory) = ended?;
        Ok((RecordedGraph { graph, _memory: memory }, recorded.shuffles))
    }

    fn replay_graph(
        &self,
        ticks: &[Tick],
        is_full: bool,
        recording: &mut CudaRecording,
        params: &mut Params<CudaBuffer>,
        body: &mut impl FnMut(&mut Params<CudaBuffer>, &Tick) -> Result<()>,
    ) -> Result<()> {
        let which = usize::from(is_full);
        if recording.graphs[which].is_none() {
            let (graph, shuffles) = self.record(ticks, params, body)?;
            recording.graphs[which] = Some(graph);
            (recording.shuffles, recording.epoch) = (shuffles, None);
        }
        if recording.epoch != Some(ticks[0].epoch) {
            for shuffle in &recording.shuffles {
                let n = shuffle.n_rows;
                self.shuffle(shuffle, ticks[0].epoch, 0..n)?;
            }
            recording.epoch = Some(ticks[0].epoch);
        }
        self.driver.set_clocks(ticks.iter().map(|tick| Clock::at(tick, params.beta1)))?;
        recording.graphs[which].as_ref().map_or(Ok(()), |recorded| Driver::replay(&recorded.graph))
    }
}

impl Recording for Cuda {
    type Recording = CudaRecording;

    fn steps_at_once(&self) -> usize {
        MAX_STEPS
    }

    /// Replays steps, [`MAX_STEPS`] at once if possible, else one by one; records each graph when it is first needed.
    fn steps(
        &self,
        ticks: &[Tick],
        recording: &mut CudaRecording,
        params: &mut Params<CudaBuffer>,
        mut body: impl FnMut(&mut Params<CudaBuffer>, &Tick) -> Result<()>,
    ) -> Result<()> {
        // Other parameters need a new recording. It co-owns its parameters, so that their address is not reused.
        if recording.params != params.values.address(0) {
            *recording = CudaRecording { params: params.values.address(0), ..CudaRecording::default() };
        }
        for ticks in ticks.chunks(MAX_STEPS) {
            // The order of rows changes between epochs.
            let is_full = ticks.len() == MAX_STEPS && ticks.iter().all(|tick| tick.epoch == ticks[0].epoch);
            for ticks in ticks.chunks(if is_full { MAX_STEPS } else { 1 }) {
                self.replay_graph(ticks, is_full, recording, params, &mut body)?;
            }
        }
        Ok(())
    }
}
