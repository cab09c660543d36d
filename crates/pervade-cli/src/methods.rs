//! VaDE among its rivals: names, recipes, and who listens to a run.

use std::time::Instant;

use pervade::config::{CheckedSettings, Recipe};
use pervade::train::{Control, Event, Observer};

use crate::console::Console;
use crate::interrupt;
use crate::progress::{Plan, Progress};

/// VaDE's names in a comparison.
pub(crate) const VADE: [(&str, Recipe, &str); 2] = [
    ("vade", Recipe::Robust, "Variational Deep Embedding (Jiang et al., 2017), recipe robust"),
    ("vade-paper", Recipe::Paper, "the same as its paper has it"),
];

/// Who listens: VaDE's stages (`vade` are its settings) are shown; all that trains stops at Ctrl-C, what does not is
/// asked between runs.
pub(crate) fn observer<'c>(vade: Option<&CheckedSettings>, console: &'c Console) -> Box<dyn Observer + 'c> {
    match vade {
        Some(checked) => Box::new(Progress::new(console, Plan::new(checked, None), None, Instant::now())),
        None => Box::new(Interruptible),
    }
}

/// Shows nothing, and stops at Ctrl-C.
struct Interruptible;

impl Observer for Interruptible {
    fn event(&mut self, _event: &Event<'_>) -> Control {
        if interrupt::asked() { Control::Stop } else { Control::Continue }
    }
}
