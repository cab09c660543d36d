//! VaDE among its rivals: names, recipes, and the observer of a run.

use std::time::Instant;

use indicatif::ProgressBar;
use pervade::config::{CheckedSettings, Recipe};
use pervade::train::{Control, Event, Observer};

use crate::console::Console;
use crate::progress::{self, Plan, Progress};
use crate::{interrupt, words};

/// VaDE's names in a comparison.
pub(crate) const VADE: [(&str, Recipe, &str); 2] = [
    ("vade", Recipe::Robust, "Variational Deep Embedding (Jiang et al., 2017), recipe robust"),
    ("vade-paper", Recipe::Paper, "the same with the settings of its paper"),
];

/// An observer that shows VaDE's stages (with the settings `vade`) as `fit` does and the epochs of other methods; all
/// training stops at Ctrl-C, other methods are interrupted between runs.
pub(crate) fn observer<'c>(
    name: &str,
    vade: Option<&CheckedSettings>,
    console: &'c Console,
) -> Box<dyn Observer + 'c> {
    match vade {
        Some(checked) => Box::new(Progress::new(console, Plan::new(checked, None), None, Instant::now())),
        None => Box::new(Epochs { console, name: name.to_string(), phase: None, last_line: Instant::now() }),
    }
}

/// Shows how many epochs of a phase are done: a bar on a terminal, occasional lines elsewhere.
struct Epochs<'c> {
    console: &'c Console,
    name: String,
    phase: Option<Phase>,
    last_line: Instant,
}

/// The current phase of a method.
struct Phase {
    title: String,
    epochs: usize,
    since: Instant,
    bar: Option<ProgressBar>,
}

impl Epochs<'_> {
    fn begin(&mut self, phase: &str, epochs: usize) {
        self.end();
        let title = format!("{}: {phase}", self.name);
        let shown = !self.console.quiet && Console::is_terminal();
        let bar = shown.then(|| progress::epoch_bar(&title, epochs as u64));
        self.phase = Some(Phase { title, epochs, since: Instant::now(), bar });
        self.last_line = Instant::now();
    }

    fn show(&mut self, epoch: usize) {
        let Some(phase) = &self.phase else { return };
        if let Some(bar) = &phase.bar {
            bar.set_position(epoch as u64);
        } else if self.last_line.elapsed() >= progress::LINE_INTERVAL {
            self.last_line = Instant::now();
            let (title, epochs) = (&phase.title, phase.epochs);
            let took = words::duration(phase.since.elapsed());
            self.console.say(&format!("{title}: epoch {epoch} of {epochs}, {took}"));
        }
    }

    fn end(&mut self) {
        if let Some(bar) = self.phase.take().and_then(|phase| phase.bar) {
            bar.finish_and_clear();
        }
    }
}

impl Observer for Epochs<'_> {
    fn event(&mut self, event: &Event<'_>) -> Control {
        match *event {
            Event::StageStarted { phase, epochs, .. } => self.begin(phase, epochs),
            Event::Pretrained(_, entry) => self.show(entry.epoch),
            Event::Trained(_, entry) => self.show(entry.epoch),
            Event::StageEnded { .. } => self.end(),
            _ => {}
        }
        if interrupt::asked() { Control::Stop } else { Control::Continue }
    }
}
