//! A training step as one graph: what it launches is recorded once and replayed with another clock.

use std::sync::MutexGuard;

use super::driver::{Clock, Driver, Keys};
use super::{Cuda, CudaBuffer, Params, Result, Tick, affine};

/// A step that is being recorded.
pub(super) struct Recorded {
    pub(super) tick: Tick,
    pub(super) forked: bool,
    /// The prior is at work on the second stream.
    pub(super) prior_beside: bool,
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

/// A step as it was recorded, and the parameters that it works on.
#[derive(Default)]
pub struct CudaRecording {
    graph: Option<cudarc::driver::CudaGraph>,
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
            Some(recorded) => (self.driver.clock_address(), recorded.tick),
            None => (0, Tick::default()),
        }
    }

    /// Lets what follows on the second stream run beside the first, from this point of the step on. Only
    /// while a step is recorded: its end brings both together again.
    pub(super) fn fork(&self) -> Result<bool> {
        let mut recorded = self.state();
        let Some(recorded) = &mut *recorded else { return Ok(false) };
        recorded.forked = true;
        self.driver.side_after_main()?;
        Ok(true)
    }

    /// Lets the prior run on the second stream from the moment the latents were there.
    pub(super) fn fork_prior(&self) -> Result<bool> {
        let mut recorded = self.state();
        let Some(recorded) = &mut *recorded else { return Ok(false) };
        (recorded.forked, recorded.prior_beside) = (true, true);
        self.driver.side_after_sampled()?;
        Ok(true)
    }

    /// What follows needs the prior's gradients.
    pub(super) fn join_prior(&self) -> Result<()> {
        let mut recorded = self.state();
        let pending = recorded.as_mut().is_some_and(|recorded| std::mem::take(&mut recorded.prior_beside));
        if pending { self.driver.main_after_prior() } else { Ok(()) }
    }

    fn record(
        &self,
        tick: &Tick,
        params: &mut Params<CudaBuffer>,
        body: impl FnOnce(&mut Params<CudaBuffer>) -> Result<()>,
    ) -> Result<CudaRecording> {
        let at = params.values.at;
        self.driver.begin_recording()?;
        *self.state() = Some(Recorded {
            tick: *tick,
            forked: false,
            prior_beside: false,
            shuffles: Vec::new(),
            late: affine::Late::default(),
        });
        let done = body(params).and_then(|()| self.launch_late());
        let recorded = self.state().take();
        let joined = match &recorded {
            Some(Recorded { forked: true, .. }) => self.driver.main_after_side(),
            _ => Ok(()),
        };
        // Ended in any case: a stream left recording would refuse all other work.
        let graph = self.driver.end_recording();
        done.and(joined)?;
        let shuffles = recorded.map_or_else(Vec::new, |recorded| recorded.shuffles);
        Ok(CudaRecording { graph: Some(graph?), params: at, shuffles, epoch: None })
    }

    /// Records the step if that was not done yet, sets the clock and replays it.
    pub(super) fn replay(
        &self,
        tick: &Tick,
        recording: &mut CudaRecording,
        params: &mut Params<CudaBuffer>,
        body: impl FnOnce(&mut Params<CudaBuffer>) -> Result<()>,
    ) -> Result<()> {
        // Parameters that moved are a new step: what was recorded points elsewhere.
        if recording.graph.is_none() || recording.params != params.values.at {
            *recording = self.record(tick, params, body)?;
        }
        if recording.epoch != Some(tick.epoch) {
            for shuffle in &recording.shuffles {
                let n = shuffle.n_rows;
                self.shuffle(shuffle.ids, &shuffle.keys, shuffle.restarts, tick.epoch, 0..n, n)?;
            }
            recording.epoch = Some(tick.epoch);
        }
        self.driver.set_clock(Clock::at(tick, params.beta1))?;
        recording.graph.as_ref().map_or(Ok(()), Driver::replay)
    }
}
