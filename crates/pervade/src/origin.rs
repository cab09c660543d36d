//! What a part of a run was computed from: the version, the settings and the rows. Parts that several processes compute
//! belong together only if all of it is the same.

use serde_json::{Map, Value};

use crate::config::CheckedSettings;

/// The version of this library.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The entry for the version.
pub(crate) const VERSION_ENTRY: &str = "version of pervade";

/// All settings by name, and the entries for the version and the checksum of the rows.
pub(crate) fn origin(settings: &CheckedSettings, checksum: &str) -> Map<String, Value> {
    let mut origin = settings.settings.to_keys();
    origin.insert(VERSION_ENTRY.to_string(), VERSION.into());
    origin.insert("checksum of the rows".to_string(), checksum.into());
    origin
}

/// The first entry of `one` that differs in `other`: its name as users write it, and both values.
pub(crate) fn first_difference<'m>(
    one: &'m Map<String, Value>,
    other: &'m Map<String, Value>,
) -> Option<(String, &'m Value, &'m Value)> {
    let (key, value) = one.iter().find(|(key, value)| other.get(*key) != Some(value))?;
    Some((key.replace('_', "-"), value, other.get(key).unwrap_or(&Value::Null)))
}
