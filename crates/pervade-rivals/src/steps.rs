//! The training loop for methods that define their own steps.

use pervade::compute::{self, Device, Params, Tick, Ticks};
use pervade::record::JointEpoch;
use pervade::train::{Control, Event, Observer, Pack, Run, Stage, run_steps};
use pervade::{Error, Result};

/// A training step with its running sums.
pub(crate) trait Step<D: Device> {
    /// Random draws per step.
    const DRAWS: u64;

    /// Gathers rows, computes gradients and updates weights; must not depend on anything that changes except `tick`.
    fn step(&mut self, run: &Run<'_, D>, params: &mut Params<D::Buffer>, tick: &Tick) -> compute::Result<()>;

    /// Terms of the ELBO since the last `take_sums`.
    fn sums(&mut self) -> &mut D::Sums;
}

/// Maximises the ELBO from the pack's current parameters, with the epochs, batch size and learning rates of the
/// settings.
pub(crate) fn train<D: Device, S: Step<D>>(
    run: &Run<'_, D>,
    pack: &mut Pack<D>,
    step: &mut S,
    observer: &mut dyn Observer,
) -> Result<()> {
    let (b, epochs, phase) = (run.settings.batch(), run.settings.epochs(), "maximising the ELBO");
    let (stage, steps) = (Stage::Joint, run.data.n_rows() / b);
    pack.state.stage = stage;
    observer.event(&Event::StageStarted { restart: 0, stage, phase, epochs, done: 0, steps });
    let mut recording = D::Recording::default();
    for epoch in 0..epochs {
        let rate = learning_rate(run, epoch);
        let stopped = run_steps(0..steps, run.device.steps_at_once(), observer, |step_indices| {
            let ticks = Ticks::new(step_indices, |index| {
                let total = (epoch * steps + index) as u64;
                Tick {
                    epoch: epoch as u64,
                    first: (index * b) as u64,
                    draw: total * S::DRAWS,
                    adam: total + 1,
                    learning_rates: [rate; 2],
                }
            });
            let body = |params: &mut _, tick: &_| step.step(run, params, tick);
            Ok(run.device.steps(&ticks, &mut recording, &mut pack.params, body)?)
        })?;
        run.data.check_unchanged()?;
        if stopped.is_some() {
            return Err(Error::Interrupted { stage: phase, epoch });
        }
        let (epoch, terms) = (epoch + 1, run.device.take_sums(step.sums())?[0]);
        let terms = terms.scaled(1.0 / (steps * b) as f64);
        if !terms.elbo().is_finite() {
            return Err(Error::Diverged { stage: phase, epoch, loss: -terms.elbo() });
        }
        let entry = JointEpoch { epoch, elbo: terms.elbo(), terms, learning_rate: f64::from(rate) };
        if observer.event(&Event::Trained(0, &entry)) == Control::Stop {
            return Err(Error::Interrupted { stage: phase, epoch });
        }
    }
    observer.event(&Event::StageEnded { restart: 0, stage });
    Ok(())
}

/// Step decay with a floor, as in joint training.
fn learning_rate<D: Device>(run: &Run<'_, D>, epoch: usize) -> f32 {
    let settings = run.settings.settings();
    let factor = settings.decay.powi((epoch / run.settings.decay_every()) as i32);
    (settings.learning_rate * factor).max(settings.learning_rate_floor)
}
