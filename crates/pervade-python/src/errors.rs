//! The library's errors as Python's, with the same words.

use pervade::Error;
use pyo3::PyErr;
use pyo3::exceptions::{PyOSError, PyValueError};

/// What the system refused is an `OSError`, everything else a `ValueError`; the hint is a line of its own.
pub(crate) fn raised(error: Error) -> PyErr {
    let hint = error.hint().map_or(String::new(), |hint| format!("\nhint: {hint}"));
    let text = format!("{error}{hint}");
    match error {
        // With its number, Python makes it a `FileNotFoundError` or whichever it is.
        Error::Io { source, .. } => match source.raw_os_error() {
            Some(number) => PyOSError::new_err((number, text)),
            None => PyOSError::new_err(text),
        },
        _ => PyValueError::new_err(text),
    }
}
