//! The library's errors as Python's, with the same words.

use pervade::Error;
use pyo3::PyErr;
use pyo3::exceptions::{PyMemoryError, PyOSError, PyValueError};

/// What the system refused is an `OSError`, what there is no memory for a `MemoryError`, everything else a `ValueError`; the hint is a line of its own.
pub(crate) fn raised(error: Error) -> PyErr {
    let hint = error.hint().map_or(String::new(), |hint| format!("\nhint: {hint}"));
    let text = format!("{error}{hint}");
    match error {
        // With its number, Python makes it a `FileNotFoundError` or whichever it is.
        Error::Io { source, .. } => match source.raw_os_error() {
            Some(number) => PyOSError::new_err((number, text)),
            None => PyOSError::new_err(text),
        },
        Error::Memory { .. } => PyMemoryError::new_err(text),
        _ => PyValueError::new_err(text),
    }
}
