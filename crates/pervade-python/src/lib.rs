//! The extension module of the Python package, which wraps the library's functions for arrays. The public
//! API, with scikit-learn's conventions, is written in Python (`python/pervade`).

mod compute;
mod errors;
mod fit;
mod model;
mod shown;
mod table;

use pyo3::prelude::*;

/// The module `pervade._core`.
#[pymodule]
mod _core {
    use std::ffi::OsString;
    use std::io::Write;
    use std::path::PathBuf;

    use numpy::{
        PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods,
    };
    use pervade::config::{Clusters, Recipe, Settings};
    use pervade::files::write_atomically;
    use pyo3::prelude::*;

    use super::compute::{ComputeOptions, compute};
    use super::errors::{PARAMETERS, raised};
    #[pymodule_export]
    use super::fit::{check, fit, train_restart};
    #[pymodule_export]
    use super::model::Model;
    use super::shown::Forwarded;

    /// The version of pervade.
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's conventional name")]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    /// Runs the command line interface with `arguments`, starting with the program's name, and returns its exit status.
    #[pyfunction]
    fn run(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
        py.detach(|| {
            let status = pervade_cli::run(arguments);
            // A Rust program flushes at its end; Python does not know this buffer.
            let _ = std::io::stdout().flush();
            status
        })
    }

    /// The settings of a recipe, as JSON; those that depend on the data are null.
    #[pyfunction]
    fn settings(recipe: &str) -> PyResult<String> {
        let recipe: Recipe = recipe.parse().map_err(raised)?;
        Ok(serde_json::Value::Object(Settings::recipe(recipe, Clusters::Auto).to_keys()).to_string())
    }

    /// Writes a text file atomically.
    #[pyfunction]
    fn write_text(py: Python<'_>, path: PathBuf, text: &str) -> PyResult<()> {
        py.detach(|| write_atomically(&path, |out| out.write_all(text.as_bytes()))).map_err(raised)
    }

    /// The position of each row of latents in the plane. Rows of one cluster start together.
    #[pyfunction]
    fn lay_out<'py>(
        py: Python<'py>,
        latents: PyReadonlyArray2<'py, f32>,
        clusters: PyReadonlyArray1<'py, i32>,
        options: ComputeOptions,
    ) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let (n_latents, latents) = (latents.shape()[1], latents.as_slice()?);
        let clusters: Vec<u32> = clusters.as_slice()?.iter().map(|&cluster| cluster as u32).collect();
        let (points, _) = compute(py, &options, None, |_, listener| {
            pervade_cli::lay_out(latents, n_latents, &clusters, &Forwarded::new(listener))
        })?;
        let n = points.len();
        PyArray1::from_vec(py, points.into_flattened()).reshape([n, 2])
    }

    /// Pairs of setting and parameter, where their names differ.
    #[pyfunction]
    fn parameters() -> Vec<(&'static str, &'static str)> {
        PARAMETERS.to_vec()
    }

    /// The bundled digits data set: rows of 64 pixels, and labels.
    #[pyfunction]
    fn digits(py: Python<'_>) -> PyResult<(Bound<'_, PyArray2<f32>>, Bound<'_, PyArray1<i64>>)> {
        let (data, labels) = pervade_cli::digits().map_err(raised)?;
        let (n, d) = (data.n_rows(), data.n_columns());
        let mut pixels = vec![0.0f32; n * d];
        pixels.chunks_exact_mut(d).enumerate().for_each(|(i, row)| data.row_into(i, row));
        // Labels are numbered in ascending order, which for the ten digits gives the digits themselves.
        let labels = labels.ids().iter().map(|&digit| i64::from(digit)).collect();
        Ok((PyArray1::from_vec(py, pixels).reshape([n, d])?, PyArray1::from_vec(py, labels)))
    }
}
