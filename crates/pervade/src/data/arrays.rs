//! Choosing among the named arrays of an `.npz` or `.mat` file.

use super::options::{LabelSource, not_offered};
use crate::{Error, Hint, Result};

/// Name and shape of an array in a file, dense or sparse.
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) shape: Vec<usize>,
}

/// The index of the table: the array asked for, else `x` or `X`, else the only possible one.
pub(super) fn pick_table(entries: &[Entry], wanted: Option<&str>, location: &str) -> Result<usize> {
    let named = |name: &str| entries.iter().position(|e| e.name == name);
    if let Some(name) = wanted {
        return named(name)
            .ok_or_else(|| Error::data(location, format!("there is no array `{name}`; {}", list(entries))));
    }
    if let Some(found) = named("x").or_else(|| named("X")) {
        return Ok(found);
    }
    let is_table = |e: &Entry| (2..=4).contains(&e.shape.len()) && e.shape[..2].iter().all(|&s| s > 1);
    let mut tables = (0..entries.len()).filter(|&i| is_table(&entries[i]));
    match (tables.next(), tables.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => Err(Error::data(location, format!("no array here can be a table; {}", list(entries)))
            .with_hint("a table has one row for every step of its first axis, and at least two axes")),
        _ => Err(Error::data(location, format!("several arrays could be the table; {}", list(entries)))
            .with_hint(Hint::new("say which with ").setting_to("array", "NAME"))),
    }
}

/// The index of the requested label array.
pub(super) fn pick_labels(entries: &[Entry], wanted: &LabelSource, location: &str) -> Result<usize> {
    let found = match wanted {
        LabelSource::Named(name) => entries.iter().position(|e| &e.name == name),
        _ => None,
    };
    found.ok_or_else(|| not_offered(location, wanted, &list(entries)))
}

/// The index of the array in a label file: `y`, `Y`, `labels`, or the only one with a single axis.
pub(super) fn pick_only_labels(entries: &[Entry], location: &str) -> Result<usize> {
    let named = |name: &str| entries.iter().position(|e| e.name == name);
    if let Some(found) = ["y", "Y", "labels"].into_iter().find_map(named) {
        return Ok(found);
    }
    let is_flat = |e: &Entry| e.shape.iter().filter(|&&s| s != 1).count() <= 1;
    let mut flat = (0..entries.len()).filter(|&i| is_flat(&entries[i]));
    match (flat.next(), flat.next()) {
        (Some(only), None) => Ok(only),
        _ => Err(Error::data(location, format!("no array is named `y`, `Y` or `labels`; {}", list(entries)))),
    }
}

fn list(entries: &[Entry]) -> String {
    let mut names: Vec<String> =
        entries.iter().take(20).map(|e| format!("`{}` {:?}", e.name, e.shape)).collect();
    if entries.len() > names.len() {
        names.push("...".into());
    }
    if names.is_empty() { "there are no arrays".into() } else { format!("there are {}", names.join(", ")) }
}
