//! To come.
use super::options::{ReadOptions, Table};
use crate::{Error, Result};
pub(super) fn read(_bytes: &[u8], place: &str, _options: &ReadOptions) -> Result<Table> {
    Err(Error::data(place, "svmlight is not read yet"))
}
pub(super) fn is_svmlight(_bytes: &[u8]) -> bool {
    false
}
