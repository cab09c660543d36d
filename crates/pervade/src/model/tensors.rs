//! Named tensors in safetensors files.

use std::collections::HashMap;
use std::path::Path;

use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensors, serialize};

use crate::{Error, Result};

/// A tensor with its name.
pub(crate) struct NamedTensor {
    name: String,
    shape: Vec<usize>,
    dtype: Dtype,
    bytes: Vec<u8>,
}

impl NamedTensor {
    /// A one-dimensional `f32` tensor.
    pub(crate) fn floats(name: impl Into<String>, values: Vec<f32>) -> Self {
        let shape = vec![values.len()];
        Self::shaped(name, shape, &values)
    }

    /// An `f32` tensor of any shape.
    pub(crate) fn shaped(name: impl Into<String>, shape: Vec<usize>, values: &[f32]) -> Self {
        let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        Self { name: name.into(), shape, dtype: Dtype::F32, bytes }
    }

    /// A one-dimensional `u32` tensor.
    pub(crate) fn integers(name: impl Into<String>, values: Vec<u32>) -> Self {
        let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        Self { name: name.into(), shape: vec![values.len()], dtype: Dtype::U32, bytes }
    }
}

/// Serialises tensors to the bytes of a file. The metadata must have exactly one entry: a map of several has no fixed
/// order, and the same run must give the same bytes.
pub(crate) fn serialize_tensors(
    tensors: &[NamedTensor],
    metadata: HashMap<String, String>,
) -> Result<Vec<u8>> {
    debug_assert_eq!(metadata.len(), 1);
    let fail = |e: safetensors::SafeTensorError| Error::model("model file", e.to_string());
    let views = tensors
        .iter()
        .map(|t| {
            TensorView::new(t.dtype, t.shape.clone(), &t.bytes)
                .map(|view| (t.name.as_str(), view))
                .map_err(fail)
        })
        .collect::<Result<Vec<_>>>()?;
    serialize(views, Some(metadata)).map_err(fail)
}

fn view<'t>(path: &Path, tensors: &'t SafeTensors<'_>, name: &str, dtype: Dtype) -> Result<TensorView<'t>> {
    let missing = |_| Error::model(path.display(), format!("`{name}` is missing"));
    let view = tensors.tensor(name).map_err(missing)?;
    if view.dtype() != dtype {
        return Err(Error::model(
            path.display(),
            format!("`{name}` is {:?}, expected {dtype:?}", view.dtype()),
        ));
    }
    Ok(view)
}

/// The values of an `f32` tensor.
pub(crate) fn float_values(path: &Path, tensors: &SafeTensors<'_>, name: &str) -> Result<Vec<f32>> {
    let view = view(path, tensors, name, Dtype::F32)?;
    Ok(view.data().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
}

/// The shape of a tensor.
pub(crate) fn shape_of(path: &Path, tensors: &SafeTensors<'_>, name: &str) -> Result<Vec<usize>> {
    let missing = |_| Error::model(path.display(), format!("`{name}` is missing"));
    Ok(tensors.tensor(name).map_err(missing)?.shape().to_vec())
}

/// The values of a `u32` tensor.
pub(crate) fn integer_values(path: &Path, tensors: &SafeTensors<'_>, name: &str) -> Result<Vec<u32>> {
    let view = view(path, tensors, name, Dtype::U32)?;
    Ok(view.data().chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
}
