//! The library's errors as Python exceptions, with the same message; settings are called parameters.

use pervade::config::{Clusters, Recipe, Settings};
use pervade::{Error, Hint, Term};
use pyo3::PyErr;
use pyo3::exceptions::{PyMemoryError, PyOSError, PyValueError};

/// The exception for an error: `OSError` for I/O, `MemoryError` for lack of memory, else `ValueError`; a hint is on a
/// separate line.
pub(crate) fn raised(error: Error) -> PyErr {
    let hint = error.hint().and_then(|hint| worded(&hint));
    let hint = hint.map_or(String::new(), |hint| format!("\nhint: {hint}"));
    let problem = match &error {
        Error::Setting { name, value, must, .. } => {
            let key = name.replace('-', "_");
            format!("`{}` is {value}, {must}", parameter(&key).unwrap_or(name))
        }
        _ => error.to_string(),
    };
    let text = format!("{problem}{hint}");
    match error {
        // With the error number, Python chooses the subclass, such as `FileNotFoundError`.
        Error::Io { source, .. } => match source.raw_os_error() {
            Some(number) => PyOSError::new_err((number, text)),
            None => PyOSError::new_err(text),
        },
        Error::Memory { .. } => PyMemoryError::new_err(text),
        _ => PyValueError::new_err(text),
    }
}

/// Settings whose parameter has scikit-learn's name.
pub(crate) const PARAMETERS: [(&str, &str); 4] = [
    ("clusters", "n_clusters"),
    ("components", "n_components"),
    ("restarts", "n_init"),
    ("seed", "random_state"),
];

/// Parameters with the names of options of the command that are not settings.
const AROUND: [&str; 4] = ["device", "precision", "keep_columns", "missing"];

/// A hint with settings and commands written as in Python.
fn worded(hint: &Hint) -> Option<String> {
    hint.worded(|term| match term {
        Term::Setting { name, value: None } => Some(format!("`{}`", parameter(name)?)),
        Term::Setting { name: "type", value: Some(value) } => {
            let (column, kind) = value.split_once('=')?;
            Some(format!("`column_types={{\"{column}\": \"{kind}\"}}`"))
        }
        Term::Setting { name: "keep_columns", value: Some(value) } => {
            Some(format!("`keep_columns=[\"{value}\"]`"))
        }
        Term::Setting { name, value: Some(value) } => {
            let quote = if value.parse::<f64>().is_ok() { "" } else { "\"" };
            Some(format!("`{}={quote}{value}{quote}`", parameter(name)?))
        }
        Term::Command("score") => Some("`VaDE.score_samples`".to_string()),
        Term::Command(name) => Some(format!("`VaDE.{name}`")),
        _ => None,
    })
}

/// The parameter of `VaDE` for a setting, if there is one: data files, for instance, exist only for the command.
fn parameter(setting: &str) -> Option<&str> {
    let renamed = PARAMETERS.iter().find(|(name, _)| *name == setting);
    let is_setting = || Settings::recipe(Recipe::Robust, Clusters::Auto).to_keys().contains_key(setting);
    match renamed {
        Some((_, parameter)) => Some(parameter),
        None if setting == "image" => Some("image_shape"),
        None if setting == "type" => Some("column_types"),
        None if AROUND.contains(&setting) || is_setting() => Some(setting),
        None => None,
    }
}
