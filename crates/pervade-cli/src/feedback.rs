//! What long work tells its caller while it goes on: the console of a command, or a Python program.

use crate::console::Console;
use crate::{progress, words};

/// The receiver of notes and of the progress of a layout.
pub trait Feedback {
    /// A note for the user.
    fn note(&self, text: &str);

    /// Is called before rows are laid out. The result is called with the share that is done, and returns whether to go on.
    fn layout_started(&self, n_rows: usize) -> Box<dyn FnMut(f64) -> bool + '_>;

    /// Whether to go on; asked now and then in passes over all rows.
    fn goes_on(&self) -> bool {
        true
    }
}

/// Rows for which a word about progress is due even without a terminal.
const NOTABLE_ROWS: usize = 20_000;

/// A signal ends a command at once: nothing is written before the end of the layout.
impl Feedback for Console {
    fn note(&self, text: &str) {
        self.say(&format!("note: {text}"));
    }

    fn layout_started(&self, n_rows: usize) -> Box<dyn FnMut(f64) -> bool + '_> {
        let bar = (!self.quiet && Console::is_terminal()).then(progress::map_bar);
        if bar.is_none() && n_rows >= NOTABLE_ROWS {
            self.say(&format!("laying out {}", words::counted(n_rows, "row")));
        }
        Box::new(move |share| {
            bar.iter().for_each(|bar| bar.set_position((100.0 * share) as u64));
            true
        })
    }
}
