//! The library's errors as Python's, with the same words; settings are parameters there.

use pervade::config::{Clusters, Recipe, Settings};
use pervade::{Error, Hint, Term};
use pyo3::PyErr;
use pyo3::exceptions::{PyMemoryError, PyOSError, PyValueError};

/// What the system refused is an `OSError`, what there is no memory for a `MemoryError`, everything else a `ValueError`; the hint is a line of its own.
pub(crate) fn raised(error: Error) -> PyErr {
    let hint = error.hint().and_then(|hint| typed(&hint));
    let hint = hint.map_or(String::new(), |hint| format!("\nhint: {hint}"));
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

/// Settings whose parameter has the name that scikit-learn's users know.
pub(crate) const PARAMETERS: [(&str, &str); 4] = [
    ("clusters", "n_clusters"),
    ("components", "n_components"),
    ("restarts", "n_init"),
    ("seed", "random_state"),
];

/// Advice with settings and commands as they are typed in Python.
fn typed(hint: &Hint) -> Option<String> {
    hint.worded(|term| match term {
        Term::Setting { name, value: None } => Some(format!("`{}`", parameter(name)?)),
        Term::Setting { name, value: Some(value) } => {
            let quote = if value.parse::<f64>().is_ok() { "" } else { "\"" };
            Some(format!("`{}={quote}{value}{quote}`", parameter(name)?))
        }
        Term::Command("score") => Some("`VaDE.score_samples`".to_string()),
        Term::Command(name) => Some(format!("`VaDE.{name}`")),
        _ => None,
    })
}

/// The parameter of `VaDE` that a setting is, if it is one: files of data, for instance, are the command's alone.
fn parameter(setting: &str) -> Option<&str> {
    let renamed = PARAMETERS.iter().find(|(name, _)| *name == setting);
    let settings = || serde_json::to_value(Settings::recipe(Recipe::Robust, Clusters::Auto)).ok();
    let is_setting = || settings().is_some_and(|settings| settings.get(setting).is_some());
    match renamed {
        Some((_, parameter)) => Some(parameter),
        None if ["device", "precision"].contains(&setting) || is_setting() => Some(setting),
        None => None,
    }
}
