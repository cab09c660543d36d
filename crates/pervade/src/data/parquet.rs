//! To come.
use super::labels::Labels;
use super::options::{ReadOptions, Table};
use crate::{Error, Result};
pub(super) fn read(_bytes: Vec<u8>, place: &str, _options: &ReadOptions) -> Result<Table> {
    Err(Error::data(place, "Parquet is not read yet"))
}
pub(super) fn read_labels(_bytes: Vec<u8>, place: &str) -> Result<Labels> {
    Err(Error::data(place, "Parquet is not read yet"))
}
