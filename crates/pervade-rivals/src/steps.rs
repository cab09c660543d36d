//! Epochs of training for methods that make their own steps.

use pervade::compute::{self, Device, Params, Tick, Ticks};
use pervade::record::JointEpoch;
use pervade::train::{Control, Event, Observer, Pack, Run, Stage, run_steps};
use pervade::{Error, Result};

/// A step of training and what it adds up.
pub(crate) trait Step<D: Device> {
    /// Draws of random numbers that a step counts.
    const DRAWS: u64;

    /// Gathers rows, computes gradients, updates weights: the same every time but for what `tick` says.
    fn step(&mut self, run: &Run<'_, D>, params: &mut Params<D::Buffer>, tick: &Tick) -> compute::Result<()>;

    /// Terms of the ELBO since they were last taken.
    fn sums(&mut self) -> &mut D::Sums;
}

/// Maximises the ELBO from wherever the pack stands, with the settings' epochs, batch and learning rates.
pub(crate) fn train<D: Device, S: Step<D>>(
    run: &Run<'_, D>,
    pack: &mut Pack<D>,
    work: &mut S,
    observer: &mut dyn Observer,
) -> Result<()> {
    let (b, epochs, phase) = (run.settings.batch(), run.settings.epochs(), "maximising the ELBO");
    let (stage, steps) = (Stage::Joint, run.data.n_rows() / b);
    pack.state.stage = stage;
    observer.event(&Event::StageStarted { restart: 0, stage, phase, epochs, done: 0, steps });
    let mut recording = D::Recording::default();
    for epoch in 0..epochs {
        let rate = learning_rate(run, epoch);
        let stopped = run_steps(0..steps, run.device.steps_at_once(), observer, |numbers| {
            let ticks = Ticks::new(numbers, |number| {
                let step = (epoch * steps + number) as u64;
                Tick {
                    epoch: epoch as u64,
                    first: (number * b) as u64,
                    draw: step * S::DRAWS,
                    adam: step + 1,
                    learning_rates: [rate; 2],
                }
            });
            let body = |params: &mut _, tick: &_| work.step(run, params, tick);
            Ok(run.device.steps(&ticks, &mut recording, &mut pack.params, body)?)
        })?;
        run.data.check_unchanged()?;
        if stopped.is_some() {
            return Err(Error::Interrupted { stage: phase, epoch });
        }
        let (epoch, terms) = (epoch + 1, run.device.take_sums(work.sums())?[0]);
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
