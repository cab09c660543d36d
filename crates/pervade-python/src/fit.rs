//! The function `fit`.

use numpy::PyArray1;
use pervade::config::Settings;
use pervade::{Error, on_device};
use pyo3::prelude::*;
use serde_json::Value;

use crate::errors::raised;
use crate::model::Model;
use crate::table::Held;
use crate::work::{Place, compute};

/// Fits a model to a table: the model, the clusters of its rows, and a note about the device if there is one.
///
/// `settings` is a JSON object of settings by name; `hear` is called with every event as JSON.
#[pyfunction]
#[pyo3(signature = (table, settings, place, *, column_names=None, hear=None))]
pub(crate) fn fit<'py>(
    py: Python<'py>,
    table: Held<'py>,
    settings: &str,
    place: Place,
    column_names: Option<Vec<String>>,
    hear: Option<Bound<'py, PyAny>>,
) -> PyResult<(Model, Bound<'py, PyArray1<i32>>, Option<String>)> {
    let settings = match serde_json::from_str(settings) {
        Ok(Value::Object(keys)) => Settings::from_keys(keys).map_err(raised)?,
        _ => return Err(raised(Error::setting("settings", settings, "must be a JSON object"))),
    };
    let table = table.table(column_names)?;
    let (fit, note) = compute(py, &place, hear.as_ref(), |device, listener| {
        let data = table.dataset()?;
        let checked = settings.check(&data)?;
        on_device!(device, device => pervade::fit(&data, &checked, device, listener, None))
    })?;
    let labels = fit.assignments[fit.chosen].iter().map(|&cluster| cluster as i32).collect();
    Ok((Model { vade: fit.model }, PyArray1::from_vec(py, labels), note))
}
