//! Stubs for readers that this build leaves out: the same functions, which all return one error.

use crate::Error;

/// The error for a format whose reader was left out: `what` describes the file, `feature` enables its reader.
fn absent(location: &str, what: &str, feature: &str) -> Error {
    Error::data(location, format!("this is {what}, which this build of pervade cannot read")).with_hint(
        format!("build it with the feature `{feature}`, which is on by default, or save the table as .npy"),
    )
}

#[cfg(not(feature = "images"))]
pub(super) mod images {
    use std::path::Path;

    use super::absent;
    use crate::Result;
    use crate::data::{ReadOptions, Table};

    pub(in crate::data) fn read_folder(folder: &Path, _options: &ReadOptions) -> Result<Table> {
        Err(absent(&folder.display().to_string(), "a folder of images or of other files", "images"))
    }
}

#[cfg(not(feature = "matlab"))]
pub(super) mod mat {
    use super::absent;
    use crate::Result;
    use crate::data::{Labels, ReadOptions, Table};

    pub(in crate::data) fn read(_bytes: &[u8], location: &str, _options: &ReadOptions) -> Result<Table> {
        Err(absent(location, "a MATLAB file", "matlab"))
    }

    pub(in crate::data) fn read_labels(_bytes: &[u8], location: &str) -> Result<Labels> {
        Err(absent(location, "a MATLAB file", "matlab"))
    }

    pub(in crate::data) fn has_array(_bytes: &[u8], location: &str, _name: &str) -> Result<bool> {
        Err(absent(location, "a MATLAB file", "matlab"))
    }
}

#[cfg(not(feature = "parquet"))]
pub(super) mod parquet {
    use super::absent;
    use crate::Result;
    use crate::data::bytes::FileBytes;
    use crate::data::{Labels, ReadOptions, Table};

    pub(in crate::data) fn read(_bytes: FileBytes, location: &str, _options: &ReadOptions) -> Result<Table> {
        Err(absent(location, "a Parquet file", "parquet"))
    }

    pub(in crate::data) fn read_labels(_bytes: FileBytes, location: &str) -> Result<Labels> {
        Err(absent(location, "a Parquet file", "parquet"))
    }
}

#[cfg(not(feature = "text"))]
pub(super) mod text {
    use super::absent;
    use crate::Result;
    use crate::data::{Labels, ReadOptions, Table};

    pub(in crate::data) fn read(_bytes: &[u8], location: &str, _options: &ReadOptions) -> Result<Table> {
        Err(absent(location, "a text table (CSV, TSV)", "text"))
    }

    pub(in crate::data) fn read_parts(
        _parts: &[(&[u8], &str)],
        location: &str,
        _options: &ReadOptions,
    ) -> Result<Table> {
        Err(absent(location, "a text table (CSV, TSV)", "text"))
    }

    pub(in crate::data) fn read_numbers(_bytes: &[u8], location: &str) -> Result<Table> {
        Err(absent(location, "a text table (CSV, TSV)", "text"))
    }

    pub(in crate::data) fn read_labels(_bytes: &[u8], location: &str) -> Result<Labels> {
        Err(absent(location, "text", "text"))
    }
}
