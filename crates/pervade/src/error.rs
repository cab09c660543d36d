//! One error type for the crate: what went wrong, where, with which value, and what to do about it.

use std::fmt;
use std::path::Path;

use crate::compute::{self, Advice};
use crate::units::size;

/// The result of every fallible function in this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error. Its text says what went wrong and where; [`Error::hint`] says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A data or label file that cannot be used.
    #[error("`{location}`: {problem}")]
    Data {
        /// The file, and in it the array, row or column.
        location: String,
        /// What is wrong there, with the value.
        problem: String,
        /// What to do, or empty.
        hint: Hint,
    },
    /// A setting out of its range, or one that does not fit the data.
    #[error("`{name}` is {value}, {must}")]
    Setting {
        /// The setting as users type it.
        name: String,
        /// The value given.
        value: String,
        /// What it must be.
        must: String,
        /// What to do, or empty.
        hint: Hint,
    },
    /// A model or checkpoint file that cannot be used.
    #[error("`{location}`: {problem}")]
    Model {
        /// The file.
        location: String,
        /// What is wrong with it.
        problem: String,
        /// What to do, or empty.
        hint: Hint,
    },
    /// An operating-system error.
    #[error("cannot {action} `{location}`: {source}")]
    Io {
        /// The attempted action: "read", "write", "create".
        action: &'static str,
        /// The file.
        location: String,
        /// The error of the system.
        source: std::io::Error,
        /// What to do, or empty.
        hint: Hint,
    },
    /// The compute device cannot do what was asked.
    #[error("{problem}")]
    Device {
        /// What is wrong.
        problem: String,
        /// What to do, or empty.
        hint: Hint,
    },
    /// Not enough memory for the work, on this machine or within a limit.
    #[error("{what} needs about {} of memory{parts}, but {limit} leaves {}", size(*need), size(*available))]
    Memory {
        /// What needs it.
        what: String,
        /// Bytes needed.
        need: u64,
        /// What they are for, in brackets, or empty.
        parts: String,
        /// Bytes that are left.
        available: u64,
        /// The limit as text.
        limit: String,
        /// What to lower, or empty.
        hint: Hint,
    },
    /// Training diverged: the loss is not finite.
    #[error("{stage} diverged in epoch {epoch}: the loss is {loss}")]
    Diverged {
        /// The stage.
        stage: &'static str,
        /// The epoch, counted from one.
        epoch: usize,
        /// The loss.
        loss: f64,
    },
    /// The observer asked to stop; the checkpoint, if there is one, holds the state.
    #[error("interrupted in {stage}, epoch {epoch}")]
    Interrupted {
        /// The stage that was running.
        stage: &'static str,
        /// The last epoch that was finished.
        epoch: usize,
    },
}

impl From<compute::Error> for Error {
    fn from(error: compute::Error) -> Self {
        let problem = error.to_string();
        match error {
            compute::Error::UnknownDevice { wanted } => {
                Error::setting("device", wanted, "must be `auto`, `cpu`, `cuda` or `cuda:N`")
            }
            compute::Error::TooManyRestarts { restarts, most } => Error::setting(
                "restarts",
                restarts,
                format!("must be at most {most} in parallel on a CUDA device"),
            ),
            compute::Error::TooManyComponents { components } => {
                let problem = "are more than the CUDA device's kernels have room for";
                Error::setting("components", components, problem)
                    .with_hint(Hint::new("use fewer, or ").setting_to("device", "cpu"))
            }
            compute::Error::Failed { advice, .. } => Error::Device { problem, hint: device_hint(advice) },
            compute::Error::OutOfMemory { .. } => {
                let lower =
                    Hint::new("lower ").setting("restarts").text(" or ").setting("batch").text(", or use ");
                let hint =
                    lower.setting_to("device", "cpu").text(", which leaves the data in the host's memory");
                Error::Device { problem, hint }
            }
            _ => Error::Device { problem, hint: Hint::default() },
        }
    }
}

fn device_hint(advice: Advice) -> Hint {
    let or_cpu = |words: &str| Hint::new(words).setting_to("device", "cpu");
    match advice {
        Advice::BuildWithCuda => "build with the feature `cuda`, or use the CPU".into(),
        Advice::InstallDriver => or_cpu("install NVIDIA's driver, or use "),
        Advice::InstallCompiler => or_cpu(
            "install the CUDA toolkit or the package nvidia-cuda-nvrtc, put its folder into LD_LIBRARY_PATH, or use ",
        ),
        Advice::UpdateDriver => "the driver is too old for this CUDA: update it".into(),
        Advice::ChooseDevice => "devices are numbered from 0; CUDA_VISIBLE_DEVICES hides some".into(),
        Advice::UpdateCompiler => or_cpu("a newer NVRTC may know this device; the CPU always works: "),
        Advice::UseCpu => or_cpu("use "),
        _ => Hint::new("the command `pervade doctor` checks the device")
            .also("the last checkpoint can be resumed with ")
            .setting("resume"),
    }
}

impl Error {
    /// An error about a data file.
    pub fn data(location: impl ToString, problem: impl Into<String>) -> Self {
        Error::Data { location: location.to_string(), problem: problem.into(), hint: Hint::default() }
    }

    /// An error about a setting: its name as typed, the value given, and what it must be.
    pub fn setting(name: impl ToString, value: impl ToString, must: impl Into<String>) -> Self {
        Error::Setting {
            name: name.to_string(),
            value: value.to_string(),
            must: must.into(),
            hint: Hint::default(),
        }
    }

    /// An error about a model or checkpoint file.
    pub fn model(location: impl ToString, problem: impl Into<String>) -> Self {
        Error::Model { location: location.to_string(), problem: problem.into(), hint: Hint::default() }
    }

    /// An operating-system error on a file.
    pub fn io(action: &'static str, path: &Path, source: std::io::Error) -> Self {
        Error::Io { action, location: path.display().to_string(), source, hint: Hint::default() }
    }

    /// An error about the compute device, or a bug in the program.
    pub fn device(problem: impl Into<String>) -> Self {
        Error::Device { problem: problem.into(), hint: Hint::default() }
    }

    /// Adds a hint.
    pub fn with_hint(mut self, advice: impl Into<Hint>) -> Self {
        match &mut self {
            Error::Data { hint, .. }
            | Error::Setting { hint, .. }
            | Error::Model { hint, .. }
            | Error::Io { hint, .. }
            | Error::Memory { hint, .. }
            | Error::Device { hint, .. } => *hint = advice.into(),
            Error::Diverged { .. } | Error::Interrupted { .. } => {}
        }
        self
    }

    /// What to do about the error, if anything.
    pub fn hint(&self) -> Option<Hint> {
        let hint = match self {
            Error::Data { hint, .. }
            | Error::Setting { hint, .. }
            | Error::Model { hint, .. }
            | Error::Io { hint, .. }
            | Error::Memory { hint, .. }
            | Error::Device { hint, .. } => hint.clone(),
            Error::Diverged { .. } => {
                let lower = Hint::new("lower the learning rate, or prepare the data with ");
                lower.setting_to("prepare", "standardise")
            }
            Error::Interrupted { .. } => {
                Hint::new("the same run with ").setting("resume").text(" continues from the checkpoint")
            }
        };
        (!hint.is_empty()).then_some(hint)
    }
}

/// What to do about an error: text with settings and commands in it, which every front end writes as its users type
/// them. The command line says `--prepare unit` where Python says `prepare="unit"`; [`Display`](fmt::Display) writes
/// them as in a configuration file, `prepare = "unit"`.
///
/// ```
/// # use pervade::Hint;
/// let hint = Hint::new("use ").setting_to("prepare", "unit").text(", or more ").setting("restarts");
/// assert_eq!(hint.to_string(), "use `prepare = \"unit\"`, or more `restarts`");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hint {
    sentences: Vec<Vec<Part>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Term(Term),
}

/// A part of a hint that front ends write differently.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Term {
    /// A setting, by its key in a configuration file, with a value if the hint names one.
    Setting {
        /// The key, with `_` between words.
        name: &'static str,
        /// The value, if the hint names one.
        value: Option<String>,
    },
    /// A command of pervade: `fit`, `score`.
    Command(&'static str),
}

impl Hint {
    /// Creates a hint from its first words.
    pub fn new(words: impl Into<String>) -> Self {
        Self::default().also(words)
    }

    /// Adds another sentence, independent of the others: a front end that lacks one of its settings omits it.
    pub fn also(mut self, words: impl Into<String>) -> Self {
        self.sentences.push(Vec::new());
        self.text(words)
    }

    /// Adds text.
    pub fn text(self, words: impl Into<String>) -> Self {
        self.with(Part::Text(words.into()))
    }

    /// Adds a setting.
    pub fn setting(self, name: &'static str) -> Self {
        self.with(Part::Term(Term::Setting { name, value: None }))
    }

    /// Adds a setting with its value.
    pub fn setting_to(self, name: &'static str, value: impl ToString) -> Self {
        self.with(Part::Term(Term::Setting { name, value: Some(value.to_string()) }))
    }

    /// Adds a command.
    pub fn command(self, name: &'static str) -> Self {
        self.with(Part::Term(Term::Command(name)))
    }

    fn with(mut self, part: Part) -> Self {
        match self.sentences.last_mut() {
            Some(sentence) => sentence.push(part),
            None => self.sentences.push(vec![part]),
        }
        self
    }

    /// Whether there is no hint.
    pub fn is_empty(&self) -> bool {
        let is_text = |part: &Part| *part != Part::Text(String::new());
        !self.sentences.iter().flatten().any(is_text)
    }

    /// The hint with every term written by `word`. Sentences with a term for which `word` returns `None`, because the
    /// front end has no such setting, are omitted; `None` if no sentence is left.
    pub fn worded(&self, word: impl Fn(&Term) -> Option<String>) -> Option<String> {
        let part = |part: &Part| match part {
            Part::Text(text) => Some(text.clone()),
            Part::Term(term) => word(term),
        };
        let sentence = |parts: &Vec<Part>| parts.iter().map(part).collect::<Option<String>>();
        let sentences: Vec<String> = self.sentences.iter().filter_map(sentence).collect();
        (!sentences.is_empty()).then(|| sentences.join("; "))
    }
}

impl From<&str> for Hint {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Hint {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.worded(|term| Some(term.to_string())).unwrap_or_default())
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Term::Setting { name, value: None } | Term::Command(name) => write!(f, "`{name}`"),
            Term::Setting { name, value: Some(value) } if value.parse::<f64>().is_ok() => {
                write!(f, "`{name} = {value}`")
            }
            Term::Setting { name, value: Some(value) } => write!(f, "`{name} = \"{value}\"`"),
        }
    }
}
