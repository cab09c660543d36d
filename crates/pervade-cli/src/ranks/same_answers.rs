//! One observer for all ranks.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use pervade::compute::Ranks;
use pervade::train::{Control, Event, Observer};

use super::{Job, Spent};

/// An observer whose answers after steps and epochs are the same on all ranks: to stop if any of them was asked to, else
/// the first rank's. Work without steps is not interrupted, as ranks have done different parts of it.
pub(crate) struct SameAnswers<'o> {
    inner: &'o mut dyn Observer,
    ranks: &'o Job,
    /// When the last steps of this epoch ended, how many there were, and what had been spent until then.
    last_step: Option<(Instant, usize, Spent)>,
    /// Answers of all ranks.
    codes: Vec<u8>,
}

impl<'o> SameAnswers<'o> {
    pub(super) fn new(inner: &'o mut dyn Observer, ranks: &'o Job) -> Self {
        Self { inner, ranks, last_step: None, codes: vec![0; ranks.size()] }
    }

    /// Measures the steps that ended; the first of an epoch are not measured, as other work may come before them.
    fn steps_ended(&mut self, done: usize) {
        let (now, after) = (Instant::now(), self.ranks.spent());
        if let Some((then, done_before, before)) = self.last_step.replace((now, done, after)) {
            self.ranks.add(|spent| {
                spent.in_steps[0] += after.exchange.saturating_sub(before.exchange);
                spent.in_steps[1] += after.wait.saturating_sub(before.wait);
                spent.steps += now - then;
                spent.n_steps += (done - done_before) as u32;
            });
        }
    }
}

const ANSWERS: [Control; 3] = [Control::Continue, Control::Save, Control::Stop];

impl Observer for SameAnswers<'_> {
    fn event(&mut self, event: &Event<'_>) -> Control {
        let own = self.inner.event(event);
        match event {
            Event::Steps { done } => self.steps_ended(*done),
            _ => self.last_step = None,
        }
        match event {
            _ if self.ranks.size() == 1 => own,
            Event::Steps { .. } | Event::Pretrained(..) | Event::Trained(..) => {
                let code = ANSWERS.iter().position(|&answer| answer == own).unwrap_or(0) as u8;
                if self.ranks.transport().all_gather(&[code], &mut self.codes).is_err() {
                    return Control::Stop;
                }
                let is_stopped = self.codes.iter().any(|&code| ANSWERS[usize::from(code)] == Control::Stop);
                if is_stopped { Control::Stop } else { ANSWERS[usize::from(self.codes[0])] }
            }
            _ => Control::Continue,
        }
    }

    fn saving(&mut self) {
        self.inner.saving();
    }

    fn stop_flag(&self) -> Arc<AtomicBool> {
        if self.ranks.size() == 1 { self.inner.stop_flag() } else { Arc::default() }
    }
}
