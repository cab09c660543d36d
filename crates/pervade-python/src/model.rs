//! The class `Model`: a fitted VaDE.

use std::ffi::CString;
use std::path::{Path, PathBuf};

use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2};
use pervade::data::Dataset;
use pervade::model::{Cells, Vade};
use pervade::train::{Control, Event, Observer};
use pervade::{Error, Result, on_device};
use pervade_cli::PART;
use pervade_export::onnx::{OnnxOptions, onnx, write_onnx};
use pyo3::exceptions::{PyIndexError, PyUserWarning};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::compute::{ComputeOptions, Listener, compute};
use crate::errors::raised;
use crate::shown::{self, Forwarded, ReportOptions};
use crate::table::{HeldArray, Read};

/// A fitted model. `Model(bytes)` reads the bytes of a model file.
#[pyclass(frozen, module = "pervade._core")]
pub(crate) struct Model {
    pub(crate) vade: Vade,
}

type Array2<'py, T> = Bound<'py, PyArray2<T>>;

#[pymethods]
impl Model {
    #[new]
    fn new(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        let vade = py.detach(|| Vade::from_bytes(bytes, Path::new("model"))).map_err(raised)?;
        Ok(Self { vade })
    }

    /// Reads a model file.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        Ok(Self { vade: py.detach(|| Vade::load(&path)).map_err(raised)? })
    }

    /// Writes a model file atomically.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| self.vade.save(&path)).map_err(raised)
    }

    /// The bytes of the model file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| self.vade.to_bytes()).map_err(raised)?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// The bytes of an ONNX file, with or without the output `score`.
    fn to_onnx<'py>(&self, py: Python<'py>, score: bool) -> PyResult<Bound<'py, PyBytes>> {
        let options = OnnxOptions::default().with(|o| o.score = score);
        let bytes = py.detach(|| onnx(&self.vade, &options)).map_err(raised)?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Writes an ONNX file atomically, with or without the output `score`.
    fn write_onnx(&self, py: Python<'_>, path: PathBuf, score: bool) -> PyResult<()> {
        let options = OnnxOptions::default().with(|o| o.score = score);
        py.detach(|| write_onnx(&self.vade, &options, &path)).map_err(raised)?;
        Ok(())
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        Ok((py.get_type::<Self>().into_any(), (self.to_bytes(py)?,)))
    }

    /// The metadata of the model file, as JSON: settings, and the record of the fit.
    fn info(&self) -> String {
        serde_json::to_string(self.vade.metadata()).expect("metadata are plain values")
    }

    /// Remarks about the file from which the model was loaded.
    #[getter]
    fn remarks(&self) -> Vec<String> {
        self.vade.remarks().to_vec()
    }

    /// The number of latent columns.
    #[getter]
    fn n_latents(&self) -> usize {
        self.vade.n_latents()
    }

    /// Weights, means and variances of the components, and the cluster of each.
    fn components<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyArray1<f64>>, Array2<'py, f64>, Array2<'py, f64>, Bound<'py, PyArray1<i32>>)>
    {
        let (weights, means, variances) = self.vade.components();
        let groups = self.vade.groups().iter().map(|&group| group as i32).collect();
        let j = self.vade.n_latents();
        Ok((
            PyArray1::from_vec(py, weights),
            matrix(py, means, j)?,
            matrix(py, variances, j)?,
            PyArray1::from_vec(py, groups),
        ))
    }

    /// The cluster of each row, and the probability of every cluster. Here and below, columns are matched by name if both
    /// `column_names` and the model have names.
    #[pyo3(signature = (table, options, *, column_names=None))]
    fn assign<'py>(
        &self,
        py: Python<'py>,
        table: HeldArray<'py>,
        options: ComputeOptions,
        column_names: Option<Vec<String>>,
    ) -> PyResult<(Bound<'py, PyArray1<i32>>, Array2<'py, f32>)> {
        let table = table.table(column_names)?;
        let ((clusters, probabilities, notes), _) = compute(py, &options, None, |device, listener| {
            let Read { data, notes, .. } = table.for_model(&self.vade)?;
            let (mut clusters, mut probabilities) = (Vec::new(), Vec::new());
            for_each_part(&data, listener, |data| {
                let found = on_device!(device, device => self.vade.assign(device, data)?);
                clusters.extend(found.clusters.iter().map(|&cluster| cluster as i32));
                probabilities.extend(found.probabilities);
                Ok(())
            })?;
            Ok((clusters, probabilities, notes))
        })?;
        warn(py, notes)?;
        Ok((PyArray1::from_vec(py, clusters), matrix(py, probabilities, self.vade.n_clusters())?))
    }

    /// The latent mean of each row.
    #[pyo3(signature = (table, options, *, column_names=None))]
    fn embed<'py>(
        &self,
        py: Python<'py>,
        table: HeldArray<'py>,
        options: ComputeOptions,
        column_names: Option<Vec<String>>,
    ) -> PyResult<Array2<'py, f32>> {
        let table = table.table(column_names)?;
        let ((latents, notes), _) = compute(py, &options, None, |device, listener| {
            let Read { data, notes, .. } = table.for_model(&self.vade)?;
            let mut latents = Vec::new();
            for_each_part(&data, listener, |data| {
                latents.extend(on_device!(device, device => self.vade.embed(device, data)?));
                Ok(())
            })?;
            Ok((latents, notes))
        })?;
        warn(py, notes)?;
        matrix(py, latents, self.vade.n_latents())
    }

    /// A score of each row, in nats. `kind` is `score`, its log density or ELBO, `network`, the same by the networks alone, or
    /// `anomaly`, how unusual it is.
    #[pyo3(signature = (table, options, *, kind="score", column_names=None))]
    fn score<'py>(
        &self,
        py: Python<'py>,
        table: HeldArray<'py>,
        options: ComputeOptions,
        kind: &str,
        column_names: Option<Vec<String>>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let table = table.table(column_names)?;
        let ((scores, notes), _) = compute(py, &options, None, |device, listener| {
            let Read { data, notes, .. } = table.for_model(&self.vade)?;
            let mut scores = Vec::new();
            for_each_part(&data, listener, |data| {
                scores.extend(on_device!(device, device => {
                    match kind {
                        "anomaly" => self.vade.anomaly(device, data, &self.vade.score(device, data)?)?,
                        "network" => self.vade.network_score(device, data)?,
                        _ => self.vade.score(device, data)?,
                    }
                }));
                Ok(())
            })?;
            Ok((scores, notes))
        })?;
        warn(py, notes)?;
        Ok(PyArray1::from_vec(py, scores))
    }

    /// The cells of the model's columns with the gaps filled in, and which were missing: by the mean of p(x|z) or the most
    /// likely level, or by a sample of it.
    #[pyo3(signature = (table, options, *, draw, seed, first_row=0))]
    fn impute<'py>(
        &self,
        py: Python<'py>,
        table: HeldArray<'py>,
        options: ComputeOptions,
        draw: bool,
        seed: u64,
        first_row: usize,
    ) -> PyResult<(Array2<'py, f64>, Array2<'py, bool>)> {
        let table = table.table(None)?;
        let cells = if draw { Cells::Draw } else { Cells::Mean };
        let ((filled, is_missing, notes), _) = compute(py, &options, None, |device, listener| {
            let Read { data, notes, .. } = table.for_model(&self.vade)?;
            let data = data.with_first_row(first_row);
            let (n, d) = (data.n_rows(), data.n_columns());
            let is_missing: Vec<bool> = (0..n * d).map(|i| data.cell(i / d, i % d).is_nan()).collect();
            let mut filled = Vec::new();
            for_each_part(&data, listener, |data| {
                filled.extend(on_device!(device, device => self.vade.impute(device, data, cells, seed)?));
                Ok(())
            })?;
            Ok((filled, is_missing, notes))
        })?;
        warn(py, notes)?;
        let d = self.vade.n_columns();
        Ok((matrix(py, filled, d)?, matrix(py, is_missing, d)?))
    }

    /// The position of each row in the plane. `on_event` is called with the progress.
    #[pyo3(signature = (table, options, *, column_names=None, on_event=None))]
    fn map<'py>(
        &self,
        py: Python<'py>,
        table: HeldArray<'py>,
        options: ComputeOptions,
        column_names: Option<Vec<String>>,
        on_event: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Array2<'py, f32>> {
        let table = table.table(column_names)?;
        let ((points, notes), _) = compute(py, &options, on_event.as_ref(), |device, listener| {
            let Read { data, notes, .. } = table.for_model(&self.vade)?;
            let points = on_device!(device, device => shown::map(&self.vade, device, &data, listener)?);
            Ok((points, notes))
        })?;
        warn(py, notes)?;
        matrix(py, points, 2)
    }

    /// What is in each cluster, as JSON: this many columns, typical and doubtful rows per cluster.
    #[pyo3(signature = (table, options, *, columns, rows, column_names=None))]
    fn describe<'py>(
        &self,
        py: Python<'py>,
        table: HeldArray<'py>,
        options: ComputeOptions,
        columns: usize,
        rows: usize,
        column_names: Option<Vec<String>>,
    ) -> PyResult<String> {
        let table = table.table(column_names)?;
        let ((found, notes), _) = compute(py, &options, None, |device, listener| {
            let Read { data, notes, .. } = table.for_model(&self.vade)?;
            let limits = (columns, rows);
            let found =
                on_device!(device, device => shown::describe(&self.vade, device, &data, limits, listener)?);
            Ok((found, notes))
        })?;
        warn(py, notes)?;
        Ok(found)
    }

    /// The page about the clusters, as HTML. `on_event` is called with the progress of the map.
    #[pyo3(signature = (table, options, report, *, column_names=None, on_event=None))]
    fn report<'py>(
        &self,
        py: Python<'py>,
        table: HeldArray<'py>,
        options: ComputeOptions,
        report: ReportOptions<'py>,
        column_names: Option<Vec<String>>,
        on_event: Option<Bound<'py, PyAny>>,
    ) -> PyResult<String> {
        let (table, heading) = (table.table(column_names)?, report.heading()?);
        let ((page, notes), _) = compute(py, &options, on_event.as_ref(), |device, listener| {
            let Read { data, mut notes, .. } = table.for_model(&self.vade)?;
            let feedback = Forwarded::new(listener);
            let page = on_device!(device, device => {
                shown::report(&self.vade, device, &data, heading, &feedback)?
            });
            notes.extend(feedback.into_notes());
            Ok((page, notes))
        })?;
        warn(py, notes)?;
        Ok(page)
    }

    /// Cells of a column as the table writes them; the model must have column types.
    fn text(&self, column: usize, cells: PyReadonlyArray1<'_, f64>) -> PyResult<Vec<String>> {
        let schema = self.vade.schema().filter(|schema| column < schema.columns.len());
        let schema = schema.ok_or_else(|| PyIndexError::new_err(format!("column {column} has no type")))?;
        Ok(cells.as_slice()?.iter().map(|&cell| schema.cell_to_text(column, cell)).collect())
    }

    /// Decodes latents to rows.
    fn decode<'py>(
        &self,
        py: Python<'py>,
        latents: PyReadonlyArray2<'py, f32>,
        options: ComputeOptions,
    ) -> PyResult<Array2<'py, f32>> {
        let latents = latents.as_slice()?;
        let (rows, _) = compute(
            py,
            &options,
            None,
            |device, _| on_device!(device, device => self.vade.decode(device, latents)),
        )?;
        self.source_matrix(py, rows)
    }

    /// Generates rows of one cluster, or of all, and returns them with their clusters: means of p(x|z) instead of samples
    /// if `mean`.
    #[pyo3(signature = (cluster, count, seed, options, *, mean))]
    fn generate<'py>(
        &self,
        py: Python<'py>,
        cluster: Option<usize>,
        count: usize,
        seed: u64,
        options: ComputeOptions,
        mean: bool,
    ) -> PyResult<(Array2<'py, f32>, Bound<'py, PyArray1<i32>>)> {
        let cells = if mean { Cells::Mean } else { Cells::Auto };
        let (generated, _) = compute(
            py,
            &options,
            None,
            |device, _| on_device!(device, device => self.vade.generate(device, cluster, count, seed, cells)),
        )?;
        let clusters = generated.clusters.iter().map(|&cluster| cluster as i32).collect();
        Ok((self.source_matrix(py, generated.rows)?, PyArray1::from_vec(py, clusters)))
    }
}

impl Model {
    /// Rows of the model as an array of the columns that the table itself has.
    fn source_matrix<'py>(&self, py: Python<'py>, rows: Vec<f32>) -> PyResult<Array2<'py, f32>> {
        match self.vade.schema() {
            Some(schema) => matrix(py, schema.source_cells(&rows), schema.source_columns().len()),
            None => matrix(py, rows, self.vade.n_columns()),
        }
    }
}

/// Calls `work` with one part of the rows after another, until the listener stops it. A row's result does not depend
/// on the other rows.
pub(crate) fn for_each_part(
    data: &Dataset<'_>,
    listener: &mut Listener,
    mut work: impl FnMut(&Dataset<'_>) -> Result<()>,
) -> Result<()> {
    for first in (0..data.n_rows()).step_by(PART) {
        if listener.event(&Event::Working) == Control::Stop {
            return Err(Error::Interrupted { stage: "using the model", epoch: 0 });
        }
        work(&data.slice(first..data.n_rows().min(first + PART)))?;
    }
    Ok(())
}

/// Issues remarks about rows as warnings, in the name of the caller of the estimator's method.
fn warn(py: Python<'_>, notes: Vec<String>) -> PyResult<()> {
    notes.into_iter().try_for_each(|note| {
        let note = CString::new(note.replace('\0', " "))?;
        PyErr::warn(py, &py.get_type::<PyUserWarning>(), &note, 2)
    })
}

/// Values as an array of `n_columns` columns that owns them.
pub(crate) fn matrix<T: numpy::Element>(
    py: Python<'_>,
    values: Vec<T>,
    n_columns: usize,
) -> PyResult<Array2<'_, T>> {
    let n_rows = values.len() / n_columns;
    PyArray1::from_vec(py, values).reshape([n_rows, n_columns])
}
