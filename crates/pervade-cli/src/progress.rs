//! The observer of a fit: progress bars on a terminal, plain lines elsewhere, a log file, timings, and when to write a
//! checkpoint. The library never reads the clock; this does.

use std::fs::File;
use std::io::{LineWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressFinish, ProgressState, ProgressStyle};
use pervade::Error;
use pervade::config::CheckedSettings;
use pervade::train::{Control, Event, Observer, Stage};
use serde_json::{Value, json};

use crate::console::Console;
use crate::report::picked_line;
use crate::tensorboard::TensorBoard;
use crate::{interrupt, words};

/// Minimum interval between updates of the bar.
const BAR_INTERVAL: Duration = Duration::from_millis(100);
/// Minimum interval between plain lines.
pub(crate) const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// What the observer of a fit needs to know in advance.
pub(crate) struct Plan {
    /// Interval between checkpoints; `None` without a checkpoint folder.
    pub(crate) save_every: Option<Duration>,
    /// Rows per step of pretraining and of joint training.
    batches: [usize; 2],
    restarts: usize,
    starts: usize,
}

impl Plan {
    /// The plan of a fit with these settings.
    pub(crate) fn new(settings: &CheckedSettings, save_every: Option<Duration>) -> Self {
        let batches = [settings.pretrain_batch(), settings.batch()];
        let (restarts, starts) = (settings.settings().restarts, settings.starts());
        Self { save_every, batches, restarts, starts }
    }

    /// The current restart, if there are several.
    fn restart(&self, restart: usize) -> String {
        match self.restarts {
            n if restart == n => "final model: ".to_string(),
            1 => String::new(),
            n => format!("restart {} of {n}: ", restart + 1),
        }
    }

    fn start(&self, start: usize) -> String {
        format!("start {} of {}", start + 1, self.starts)
    }
}

/// The observer of a fit.
pub(crate) struct Progress<'c> {
    console: &'c Console,
    plan: Plan,
    log: Log,
    tensorboard: Option<TensorBoard>,
    started: Instant,
    last_save: Instant,
    last_line: Instant,
    last_move: Instant,
    /// The current trial, if there are several.
    start: Option<usize>,
    stage: Option<Running>,
    bar: Option<ProgressBar>,
    /// Whether the last checkpoint was written; `None` before the first.
    saved: Option<bool>,
    spent: [Duration; 3],
}

/// The current stage.
struct Running {
    stage: Stage,
    title: String,
    since: Instant,
    epochs: usize,
    steps: usize,
    batch: usize,
    /// Epochs done before this run, and now.
    resumed: usize,
    epoch: usize,
    /// Loss or ELBO, and live clusters, as text.
    figure: String,
    clusters: String,
}

impl Running {
    /// Fraction of the stage that is done and the remaining time, from the pace since its start.
    fn left(&self, steps_done: usize) -> Option<Duration> {
        let done = (self.epoch - self.resumed) * self.steps + steps_done;
        let all = (self.epochs - self.resumed) * self.steps;
        (done > 0).then(|| self.since.elapsed().mul_f64(all.saturating_sub(done) as f64 / done as f64))
    }

    fn rows_per_second(&self, steps_done: usize) -> usize {
        let rows = ((self.epoch - self.resumed) * self.steps + steps_done) * self.batch;
        (rows as f64 / self.since.elapsed().as_secs_f64().max(1e-9)) as usize
    }

    fn message(&self) -> String {
        [self.figure.as_str(), self.clusters.as_str()]
            .into_iter()
            .filter(|s| !s.is_empty())
            .collect::<Vec<_>>()
            .join(", ")
    }
}

impl<'c> Progress<'c> {
    /// Creates an observer; the first event creates the log file.
    pub(crate) fn new(console: &'c Console, plan: Plan, log: Option<&Path>, started: Instant) -> Self {
        let now = Instant::now();
        Self {
            console,
            plan,
            log: log.map_or(Log::None, |path| Log::Planned(path.to_path_buf())),
            tensorboard: None,
            started,
            last_save: now,
            last_line: now,
            last_move: now,
            start: None,
            stage: None,
            bar: None,
            saved: None,
            spent: [Duration::ZERO; 3],
        }
    }

    /// Sends the curves of training to TensorBoard, too.
    pub(crate) fn set_tensorboard(&mut self, tensorboard: Option<TensorBoard>) {
        self.tensorboard = tensorboard;
    }

    /// The writer of curves, for what comes after training; none if it failed.
    pub(crate) fn take_tensorboard(&mut self) -> Option<TensorBoard> {
        self.tensorboard.take()
    }

    /// Time spent in pretraining, mixture start and joint training, over all restarts.
    pub(crate) fn spent(&self) -> [Duration; 3] {
        self.spent
    }

    /// Prints a message without disturbing the bar.
    fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| self.console.say(text)),
            None => self.console.say(text),
        }
    }

    fn begin(&mut self, restart: usize, stage: Stage, phase: &str, epochs: usize, done: usize, steps: usize) {
        self.end(false);
        let mut of = self.plan.restart(restart);
        if let Some(start) = self.start {
            of.push_str(&format!("{}: ", self.plan.start(start)));
        }
        let title = match stage {
            Stage::Pretrain if phase != "auto-encoder" => format!("{of}{}, {phase}", stage.name()),
            _ => format!("{of}{}", stage.name()),
        };
        let batch = self.plan.batches[usize::from(stage == Stage::Joint)];
        if done > 0 {
            self.say(&format!("{title}: resuming after epoch {done} of {epochs}"));
        }
        self.last_line = Instant::now();
        if !self.console.quiet && Console::is_terminal() {
            self.bar = Some(new_bar(&title, (epochs * steps * batch) as u64, (done * steps * batch) as u64));
        }
        let (figure, clusters) = (String::new(), String::new());
        let since = Instant::now();
        let running = Running {
            stage,
            title,
            since,
            epochs,
            steps,
            batch,
            resumed: done,
            epoch: done,
            figure,
            clusters,
        };
        self.stage = Some(running);
    }

    fn end(&mut self, tell: bool) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        let Some(running) = self.stage.take() else { return };
        let took = running.since.elapsed();
        self.spent[running.stage as usize] += took;
        if tell {
            let message = running.message();
            let message = if message.is_empty() { message } else { format!(", {message}") };
            self.console.say(&format!("{}: {}{message}", running.title, words::duration(took)));
        }
    }

    /// Updates the progress of the stage.
    fn show(&mut self, steps_done: usize) {
        let Some(running) = &self.stage else { return };
        if let Some(bar) = &self.bar {
            bar.set_position(((running.epoch * running.steps + steps_done) * running.batch) as u64);
            bar.set_message(running.message());
        } else if self.last_line.elapsed() >= LINE_INTERVAL {
            self.last_line = Instant::now();
            if running.epochs == 0 {
                let so_far = words::duration(running.since.elapsed());
                return self.console.say(&format!("{}: {so_far} so far", running.title));
            }
            let left = running
                .left(steps_done)
                .map_or(String::new(), |left| format!(", about {} left", words::duration(left)));
            let message = running.message();
            let comma = if message.is_empty() { "" } else { ", " };
            self.console.say(&format!(
                "{}: epoch {} of {}{comma}{message}, {} rows/s{left}",
                running.title,
                (running.epoch + usize::from(steps_done > 0)).min(running.epochs),
                running.epochs,
                words::count(running.rows_per_second(steps_done)),
            ));
        }
    }

    /// The control to return after an epoch.
    fn after_epoch(&mut self) -> Control {
        if interrupt::asked() {
            return Control::Stop;
        }
        match self.plan.save_every {
            Some(every) if self.last_save.elapsed() >= every => Control::Save,
            _ => Control::Continue,
        }
    }

    /// The control to return within an epoch.
    fn during_epoch() -> Control {
        if interrupt::asked() { Control::Stop } else { Control::Continue }
    }

    /// Whether the checkpoint is up to date.
    pub(crate) fn is_saved(&self) -> bool {
        self.saved == Some(true)
    }

    fn not_saved(&mut self, error: &Error) {
        self.last_save = Instant::now();
        if self.saved.replace(false) != Some(false) {
            let goes_on = if interrupt::asked() { "" } else { "; training continues" };
            self.say(&format!("warning: the checkpoint was not written: {error}{goes_on}"));
        }
    }

    fn write_log(&mut self, event: &Event<'_>) {
        // There are too many step events and heartbeats to log.
        if matches!(self.log, Log::None) || matches!(event, Event::Steps { .. } | Event::Working) {
            return;
        }
        let Value::Object(mut entry) = event.to_json() else { return };
        let seconds = (self.started.elapsed().as_secs_f64() * 1e3).round() / 1e3;
        entry.insert("seconds".to_string(), json!(seconds));
        // A full disk must not end a run of hours because of its log.
        if self.log.write(&Value::Object(entry)).is_err() {
            self.log = Log::None;
            Console::always("warning: the log can no longer be written");
        }
    }
}

impl Progress<'_> {
    fn write_curves(&mut self, event: &Event<'_>) {
        let Some(curves) = &mut self.tensorboard else { return };
        // As for the log.
        if let Err(error) = curves.event(event) {
            self.tensorboard = None;
            Console::always(&format!(
                "warning: the curves for TensorBoard can no longer be written: {error}"
            ));
        }
    }
}

/// The file of events: created by the first event, so that a run that cannot start leaves none.
enum Log {
    None,
    Planned(PathBuf),
    Open(LineWriter<File>),
}

impl Log {
    fn write(&mut self, entry: &Value) -> std::io::Result<()> {
        if let Log::Planned(path) = self {
            *self = Log::Open(LineWriter::new(pervade::files::create(path)?));
        }
        if let Log::Open(file) = self { writeln!(file, "{entry}") } else { Ok(()) }
    }
}

impl Observer for Progress<'_> {
    fn saving(&mut self) {
        interrupt::asked();
    }

    fn stop_flag(&self) -> Arc<AtomicBool> {
        interrupt::flag()
    }

    fn event(&mut self, event: &Event<'_>) -> Control {
        self.write_log(event);
        self.write_curves(event);
        match *event {
            Event::StageStarted { restart, stage, phase, epochs, done, steps } => {
                self.begin(restart, stage, phase, epochs, done, steps);
            }
            Event::StartBegan { start, .. } => self.start = Some(start),
            Event::StartChosen { restart, start, modularity } => {
                self.start = None;
                let (of, start) = (self.plan.restart(restart), self.plan.start(start));
                self.say(&format!("{of}{start} continues, modularity {modularity:.3}"));
            }
            Event::Steps { done } => {
                if self.last_move.elapsed() >= BAR_INTERVAL {
                    self.last_move = Instant::now();
                    self.show(done);
                }
                return Self::during_epoch();
            }
            Event::Working => {
                // A stage without epochs has no other sign of life.
                if self.stage.as_ref().is_some_and(|running| running.epochs == 0) {
                    self.show(0);
                }
                return Self::during_epoch();
            }
            Event::Pretrained(_, epoch) => {
                self.epoch_ended(epoch.epoch, format!("loss {:.3}", epoch.loss));
                return self.after_epoch();
            }
            Event::Trained(_, epoch) => {
                self.epoch_ended(epoch.epoch, format!("elbo {:.3}", epoch.elbo));
                return self.after_epoch();
            }
            Event::Levels(restart, levels) => {
                let line = picked_line(levels);
                self.say(&format!("{}{line}", self.plan.restart(restart)));
            }
            Event::Scored(_, scores) => {
                if let Some(running) = &mut self.stage {
                    running.clusters =
                        format!("{} of {} clusters live", scores.live_clusters, scores.clusters);
                }
                self.show(0);
            }
            Event::StageEnded { .. } => self.end(true),
            Event::Remark(_, remark) => self.say(&format!("note: {remark}")),
            Event::Saved => {
                self.last_save = Instant::now();
                self.saved = Some(true);
                interrupt::set_resumable();
            }
            Event::NotSaved(error) => self.not_saved(error),
            _ => {}
        }
        Control::Continue
    }
}

impl Progress<'_> {
    fn epoch_ended(&mut self, epoch: usize, figure: String) {
        if let Some(running) = &mut self.stage {
            running.epoch = epoch;
            running.figure = figure;
        }
        self.show(0);
    }
}

/// A bar that counts epochs.
pub(crate) fn epoch_bar(title: &str, epochs: u64) -> ProgressBar {
    styled(ProgressBar::new(epochs), title, "{prefix}  {bar:24} {percent:>3}%  {eta} left")
}

/// A bar for the layout of a map, in percent; it disappears when it is dropped.
pub(crate) fn map_bar() -> ProgressBar {
    epoch_bar("map", 100).with_finish(ProgressFinish::AndClear)
}

/// A bar that counts rows; a spinner if their number is unknown.
pub(crate) fn new_bar(title: &str, rows: u64, done: u64) -> ProgressBar {
    match rows {
        0 => styled(ProgressBar::new_spinner(), title, "{prefix}  {spinner} {elapsed}  {msg}"),
        _ => {
            let bar = ProgressBar::new(rows).with_position(done);
            styled(bar, title, "{prefix}  {bar:24} {percent:>3}%  {rate}, {eta} left  {msg}")
        }
    }
}

fn styled(bar: ProgressBar, title: &str, template: &str) -> ProgressBar {
    // The template is our own constant; if it were wrong, the plain bar would do.
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let rate = |state: &ProgressState, text: &mut dyn std::fmt::Write| {
        let _ = write!(text, "{} rows/s", words::count(state.per_sec() as usize));
    };
    bar.set_style(style.with_key("rate", rate).progress_chars("━╸ "));
    bar.set_prefix(title.to_string());
    bar.enable_steady_tick(Duration::from_millis(200));
    bar.reset_eta();
    bar
}
