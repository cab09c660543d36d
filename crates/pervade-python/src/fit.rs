//! The functions `fit`, `train_restart` and `check`.

use numpy::{PyArray1, PyArray2};
use pervade::compute::AnyDevice;
use pervade::config::Settings;
use pervade::data::ReadOptions;
use pervade::{Error, Result, TrainedRestart, on_device};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use serde_json::{Value, json};

use crate::compute::{ComputeOptions, compute};
use crate::errors::raised;
use crate::model::{Model, for_each_part, matrix};
use crate::shown::sample;
use crate::table::{ColumnOptions, HeldArray, Read, Table};

/// The result of a fit: the model, the clusters of its rows, the share of restarts that agree on each if the model is
/// their consensus, the mean of the rows' scores, remarks about the fit, what the columns were taken for, if they have
/// types, a note about the device, if any, and of some rows the latents, clusters and confidences.
type Fitted<'py> = (
    Model,
    Bound<'py, PyArray1<i32>>,
    Option<Bound<'py, PyArray1<f32>>>,
    f64,
    Vec<String>,
    Option<String>,
    Option<String>,
    SomeRows<'py>,
);

type SomeRows<'py> = (Bound<'py, PyArray2<f32>>, Bound<'py, PyArray1<i32>>, Bound<'py, PyArray1<f32>>);

/// Fits a model to a table.
///
/// `settings` is a JSON object of settings by name; `columns` is what the user said about columns; `image` is height,
/// width and channels of rows that are images, with as many values as the table has columns; `on_event` is called with
/// every event as JSON; `restarts` are those of `train_restart`, if they were trained apart.
#[pyfunction]
#[pyo3(signature = (table, settings, options, columns, *, image=None, on_event=None, restarts=None))]
#[expect(clippy::too_many_arguments, reason = "Python passes them by name")]
pub(crate) fn fit<'py>(
    py: Python<'py>,
    table: HeldArray<'py>,
    settings: &str,
    options: ComputeOptions,
    columns: ColumnOptions,
    image: Option<[usize; 3]>,
    on_event: Option<Bound<'py, PyAny>>,
    restarts: Option<Vec<PyBackedBytes>>,
) -> PyResult<Fitted<'py>> {
    let input = Input::new(&table, settings, columns, image)?;
    let ((fit, lower_bound, sample, description, notes), note) =
        compute(py, &options, on_event.as_ref(), |device, listener| {
            let (Read { data, description, notes }, settings) = input.read()?;
            // Of restarts that were trained apart, it was said before.
            if let Some(description) = &description
                && restarts.is_none()
            {
                listener.send(json!({"event": "described", "description": description}));
            }
            let checked = settings.check(&data)?;
            on_device!(device, device => {
                let fit = match &restarts {
                    None => pervade::fit(&data, &checked, device, listener, None)?,
                    Some(restarts) => {
                        let restarts = restarts.iter().map(|bytes| TrainedRestart::from_bytes(bytes));
                        let restarts = restarts.collect::<Result<_>>()?;
                        pervade::fit_from_restarts(&data, &checked, device, restarts, listener)?
                    }
                };
                let mut sum = 0.0;
                for_each_part(&data, listener, |part| {
                    sum += fit.model.score(device, part)?.iter().sum::<f64>();
                    Ok(())
                })?;
                let sample = sample(&fit.model, device, &data, listener)?;
                Ok((fit, sum / data.n_rows() as f64, sample, description, notes))
            })
        })?;
    let labels = fit.clusters.iter().map(|&cluster| cluster as i32).collect();
    let remarks = notes.into_iter().chain(fit.remarks()).collect();
    let agreement = fit.agreement().map_err(raised)?.map(|shares| PyArray1::from_vec(py, shares));
    let some_rows = (
        matrix(py, sample.latents, fit.model.n_latents())?,
        PyArray1::from_vec(py, sample.clusters),
        PyArray1::from_vec(py, sample.confidences),
    );
    let (model, labels) = (Model { vade: fit.model }, PyArray1::from_vec(py, labels));
    Ok((model, labels, agreement, lower_bound, remarks, description, note, some_rows))
}

/// Trains one of the restarts of `fit` on its own, perhaps in another process, and returns it as bytes.
#[pyfunction]
#[pyo3(signature = (table, settings, options, columns, restart, *, image=None, on_event=None))]
#[expect(clippy::too_many_arguments, reason = "Python passes them by name")]
pub(crate) fn train_restart<'py>(
    py: Python<'py>,
    table: HeldArray<'py>,
    settings: &str,
    options: ComputeOptions,
    columns: ColumnOptions,
    restart: usize,
    image: Option<[usize; 3]>,
    on_event: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let input = Input::new(&table, settings, columns, image)?;
    let (bytes, _) = compute(py, &options, on_event.as_ref(), |device, listener| {
        let (Read { data, .. }, settings) = input.read()?;
        let checked = settings.check(&data)?;
        let trained = on_device!(device, device => {
            pervade::train_restart(&data, &checked, device, restart, listener)
        });
        trained?.to_bytes()
    })?;
    Ok(PyBytes::new(py, &bytes))
}

/// What can be known before restarts are trained apart: whether a fit would use the CPU (CUDA trains restarts in parallel, in
/// one process), and what the columns were taken for, if they have types.
#[pyfunction]
#[pyo3(signature = (table, settings, options, columns, *, image=None))]
pub(crate) fn check<'py>(
    py: Python<'py>,
    table: HeldArray<'py>,
    settings: &str,
    options: ComputeOptions,
    columns: ColumnOptions,
    image: Option<[usize; 3]>,
) -> PyResult<(bool, Option<String>)> {
    let input = Input::new(&table, settings, columns, image)?;
    let (checked, _) = compute(py, &options, None, |device, _| {
        let (Read { data, description, .. }, settings) = input.read()?;
        settings.check(&data)?;
        Ok((matches!(device, AnyDevice::Cpu(_)), description))
    })?;
    Ok(checked)
}

/// A table that is yet to be read, and the settings of its fit.
struct Input<'a> {
    table: Table<'a>,
    read_options: ReadOptions,
    settings: Settings,
}

impl<'a> Input<'a> {
    fn new(
        array: &'a HeldArray<'_>,
        settings: &str,
        columns: ColumnOptions,
        image: Option<[usize; 3]>,
    ) -> PyResult<Self> {
        let settings = parsed(settings).map_err(raised)?;
        let read_options = columns.read_options().map_err(raised)?;
        Ok(Self { table: array.table(columns.names)?.with_image(image), read_options, settings })
    }

    fn read(self) -> Result<(Read<'a>, Settings)> {
        Ok((self.table.read(&self.read_options)?, self.settings))
    }
}

/// Settings from a JSON object of settings by name.
fn parsed(settings: &str) -> Result<Settings> {
    match serde_json::from_str(settings) {
        Ok(Value::Object(keys)) => Settings::from_keys(keys),
        _ => Err(Error::setting("settings", settings, "must be a JSON object")),
    }
}
