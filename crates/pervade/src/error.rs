//! One error type for the crate: what went wrong, where, which value, and what to do about it.

use std::path::Path;

use crate::compute::{self, Advice};
use crate::units::size;

/// The result of everything here that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong. The text says what and where; [`Error::hint`] says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A data or label file that cannot be used.
    #[error("`{place}`: {problem}")]
    Data {
        /// The file, and inside it the array, row or column.
        place: String,
        /// What is wrong there, with the value.
        problem: String,
        /// What to do, or empty.
        hint: String,
    },
    /// A setting out of its range, or one that does not fit the data.
    #[error("`{name}` is {value}, {must}")]
    Setting {
        /// The setting as the user types it.
        name: String,
        /// The value given.
        value: String,
        /// What it must be.
        must: String,
        /// What to do, or empty.
        hint: String,
    },
    /// A model or checkpoint file that cannot be used.
    #[error("`{place}`: {problem}")]
    Model {
        /// The file.
        place: String,
        /// What is wrong with it.
        problem: String,
        /// What to do, or empty.
        hint: String,
    },
    /// The operating system refused.
    #[error("cannot {action} `{place}`: {source}")]
    Io {
        /// What was tried: "read", "write", "create".
        action: &'static str,
        /// On which file.
        place: String,
        /// What the system said.
        source: std::io::Error,
        /// What to do, or empty.
        hint: String,
    },
    /// The compute device cannot do what was asked.
    #[error("{problem}")]
    Device {
        /// What is wrong.
        problem: String,
        /// What to do, or empty.
        hint: String,
    },
    /// The work needs more memory than the machine or a limit leaves.
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
        /// The limit, in words.
        limit: String,
        /// What to lower, or empty.
        hint: String,
    },
    /// The numbers stopped being numbers during training.
    #[error("{stage} diverged in epoch {epoch}: the loss is {loss}")]
    Diverged {
        /// The stage.
        stage: &'static str,
        /// The epoch, counted from one.
        epoch: usize,
        /// The loss that was seen.
        loss: f64,
    },
    /// The observer asked to stop; the checkpoint, if any, holds the state.
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
                format!("must be at most {most} side by side on a CUDA device"),
            ),
            compute::Error::TooManyComponents { components } => {
                let problem = "are more than the CUDA device's kernels have room for";
                Error::setting("components", components, problem).with_hint("use fewer, or `--device cpu`")
            }
            compute::Error::Failed { advice, .. } => {
                Error::Device { problem, hint: device_hint(advice).to_string() }
            }
            compute::Error::OutOfMemory { .. } => {
                let hint = "lower --restarts or --batch, or use --device cpu, which leaves the data in the host's memory";
                Error::Device { problem, hint: hint.to_string() }
            }
            _ => Error::Device { problem, hint: String::new() },
        }
    }
}

fn device_hint(advice: Advice) -> &'static str {
    match advice {
        Advice::BuildWithCuda => "build with the feature `cuda`, or use the CPU",
        Advice::InstallDriver => "install NVIDIA's driver, or use `--device cpu`",
        Advice::InstallCompiler => {
            "install the CUDA toolkit or the package nvidia-cuda-nvrtc, put its folder into LD_LIBRARY_PATH, or use \
             `--device cpu`"
        }
        Advice::UpdateDriver => "the driver is too old for this CUDA: update it",
        Advice::ChooseDevice => "devices are numbered from 0; CUDA_VISIBLE_DEVICES hides some",
        Advice::UpdateCompiler => "a newer NVRTC may know this device; `--device cpu` always works",
        Advice::UseCpu => "use `--device cpu`",
        _ => {
            "`pervade doctor --device cuda` checks the device; the last checkpoint can be resumed with `--resume`"
        }
    }
}

impl Error {
    /// A problem with a data file.
    pub fn data(place: impl ToString, problem: impl Into<String>) -> Self {
        Error::Data { place: place.to_string(), problem: problem.into(), hint: String::new() }
    }

    /// A problem with a setting: name as typed, value given, and what it must be.
    pub fn setting(name: impl ToString, value: impl ToString, must: impl Into<String>) -> Self {
        Error::Setting {
            name: name.to_string(),
            value: value.to_string(),
            must: must.into(),
            hint: String::new(),
        }
    }

    /// A problem with a model or checkpoint file.
    pub fn model(place: impl ToString, problem: impl Into<String>) -> Self {
        Error::Model { place: place.to_string(), problem: problem.into(), hint: String::new() }
    }

    /// An operating-system error on a file.
    pub fn io(action: &'static str, path: &Path, source: std::io::Error) -> Self {
        Error::Io { action, place: path.display().to_string(), source, hint: String::new() }
    }

    /// The same error with a line of advice.
    pub fn with_hint(mut self, advice: impl Into<String>) -> Self {
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

    /// What to do about it, when there is something to say.
    pub fn hint(&self) -> Option<&str> {
        let hint = match self {
            Error::Data { hint, .. }
            | Error::Setting { hint, .. }
            | Error::Model { hint, .. }
            | Error::Io { hint, .. }
            | Error::Memory { hint, .. }
            | Error::Device { hint, .. } => hint.as_str(),
            Error::Diverged { .. } => {
                "lower the learning rate, or prepare the data with `--prepare standardise`"
            }
            Error::Interrupted { .. } => "the same command with `--resume` continues from the checkpoint",
        };
        (!hint.is_empty()).then_some(hint)
    }
}
