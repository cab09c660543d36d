//! The function `fit`.

use numpy::PyArray1;
use pervade::config::Settings;
use pervade::{Error, on_device};
use pyo3::prelude::*;
use serde_json::Value;

use crate::compute::{ComputeOptions, compute};
use crate::errors::raised;
use crate::model::{Model, for_each_part};
use crate::table::HeldArray;

/// The result of a fit: the model, the clusters of its rows, the share of restarts that agree on each if the model is
/// their consensus, the mean of the rows' scores, remarks about the fit, and a note about the device, if any.
type Fitted<'py> =
    (Model, Bound<'py, PyArray1<i32>>, Option<Bound<'py, PyArray1<f32>>>, f64, Vec<String>, Option<String>);

/// Fits a model to a table.
///
/// `settings` is a JSON object of settings by name; `image` is height, width and channels of rows that are images, with
/// as many values as the table has columns; `on_event` is called with every event as JSON.
#[pyfunction]
#[pyo3(signature = (table, settings, options, *, column_names=None, image=None, on_event=None))]
pub(crate) fn fit<'py>(
    py: Python<'py>,
    table: HeldArray<'py>,
    settings: &str,
    options: ComputeOptions,
    column_names: Option<Vec<String>>,
    image: Option<[usize; 3]>,
    on_event: Option<Bound<'py, PyAny>>,
) -> PyResult<Fitted<'py>> {
    let settings = match serde_json::from_str(settings) {
        Ok(Value::Object(keys)) => Settings::from_keys(keys).map_err(raised)?,
        _ => return Err(raised(Error::setting("settings", settings, "must be a JSON object"))),
    };
    let table = table.table(column_names)?.with_image(image);
    let ((fit, lower_bound), note) = compute(py, &options, on_event.as_ref(), |device, listener| {
        let data = table.dataset()?;
        let checked = settings.check(&data)?;
        on_device!(device, device => {
            let fit = pervade::fit(&data, &checked, device, listener, None)?;
            let mut sum = 0.0;
            for_each_part(&data, listener, |part| {
                sum += fit.model.score(device, part)?.iter().sum::<f64>();
                Ok(())
            })?;
            Ok((fit, sum / data.n_rows() as f64))
        })
    })?;
    let labels = fit.clusters.iter().map(|&cluster| cluster as i32).collect();
    let (remarks, is_consensus) = (fit.remarks(), fit.is_consensus());
    let vote = fit.vote.filter(|_| is_consensus);
    let agreement = vote.map(|vote| PyArray1::from_vec(py, vote.agreement));
    Ok((Model { vade: fit.model }, PyArray1::from_vec(py, labels), agreement, lower_bound, remarks, note))
}
