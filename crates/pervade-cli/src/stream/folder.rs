//! A folder of results, one file per part. A file in it says which run they are from: an interrupted run goes on where it
//! stopped, several runs can divide the parts, and results of different runs are never mixed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use pervade::data::OutputFormat;
use pervade::files::{Lock, resolve};
use pervade::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Job;
use crate::files::holder;
use crate::outputs;

/// Not a part, because of its first letter.
const MANIFEST: &str = "_pervade.json";

/// What the results in a folder are from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Manifest {
    command: String,
    version: String,
    /// The checksum of the model file.
    model: Option<String>,
    flags: Map<String, Value>,
    format: String,
    /// The parts by the names of their results.
    parts: BTreeMap<String, Part>,
}

/// A part, as far as it can be told from another without reading it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Part {
    name: String,
    bytes: u64,
    /// Nanoseconds since 1970.
    modified: Option<u64>,
}

/// The folder of a run.
pub(super) struct PartFolder {
    folder: PathBuf,
    format: &'static str,
}

/// A file that will be written, locked against other runs.
pub(super) struct PartTarget {
    pub(super) path: PathBuf,
    _lock: Option<Lock>,
}

impl PartFolder {
    /// Makes the folder, or checks that it holds results of the same run.
    pub(super) fn open(
        folder: &Path,
        format: OutputFormat,
        job: &Job<'_>,
        parts: &[PathBuf],
    ) -> Result<Self> {
        let format = ending(format);
        let mut now = Manifest {
            command: job.command.to_string(),
            version: env!("CARGO_PKG_VERSION").to_string(),
            model: job.model.metadata().checksum.clone(),
            flags: job.flags.clone(),
            format: format.to_string(),
            parts: described(parts, format)?,
        };
        let real = resolve(folder).map_err(|e| Error::io("create", folder, e))?;
        fs::create_dir_all(&real).map_err(|e| Error::io("create", folder, e))?;
        let path = folder.join(MANIFEST);
        match fs::read(&path) {
            Ok(bytes) => {
                let known: Manifest = serde_json::from_slice(&bytes).map_err(|e| {
                    Error::data(path.display(), format!("does not say which run the results are from: {e}"))
                        .with_hint("write to another folder")
                })?;
                if let Some(difference) = difference(&known, &now) {
                    return Err(Error::setting(
                        "out",
                        folder.display(),
                        format!("but it holds results of another run: {difference}"),
                    )
                    .with_hint("write to another folder, or remove this one first"));
                }
                // Parts that were added since.
                let mut all = known.parts.clone();
                all.append(&mut now.parts);
                now.parts = all;
                if now != known {
                    outputs::json(&now, &path)?;
                }
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                refuse_other_files(folder)?;
                outputs::json(&now, &path)?;
            }
            Err(e) => return Err(Error::io("read", &path, e)),
        }
        Ok(Self { folder: folder.to_path_buf(), format })
    }

    /// The file for the results of a part; `None` if they are already there.
    pub(super) fn begin(&self, part: &Path) -> Result<Option<PartTarget>> {
        let path = self.folder.join(result_name(part, self.format));
        if path.exists() {
            return Ok(None);
        }
        let lock = Lock::take(&path, &holder())?;
        // Another run may have written it before this one had the lock.
        Ok((!path.exists()).then_some(PartTarget { path, _lock: lock }))
    }
}

/// Returns an error if a folder of no run has files in it.
fn refuse_other_files(folder: &Path) -> Result<()> {
    let is_visible = |entry: &fs::DirEntry| !entry.file_name().to_string_lossy().starts_with(['.', '_']);
    let entries = fs::read_dir(folder).map_err(|e| Error::io("list", folder, e))?;
    match entries.flatten().find(is_visible) {
        None => Ok(()),
        Some(other) => {
            let must =
                format!("but it holds files that are no results, such as {}", other.file_name().display());
            Err(Error::setting("out", folder.display(), must).with_hint("give a new or an empty folder"))
        }
    }
}

fn described(parts: &[PathBuf], format: &str) -> Result<BTreeMap<String, Part>> {
    let mut described: BTreeMap<String, Part> = BTreeMap::new();
    for path in parts {
        let about = fs::metadata(path).map_err(|e| Error::io("read", path, e))?;
        let modified = about.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let name = outputs::name_of(path);
        let part = Part { name, bytes: about.len(), modified: modified.map(|time| time.as_nanos() as u64) };
        let result = result_name(path, format);
        if let Some(other) = described.insert(result.clone(), part) {
            let problem =
                format!("the results of this part and of `{}` would both be `{result}`", other.name);
            return Err(Error::data(path.display(), problem).with_hint("choose the parts by a pattern"));
        }
    }
    Ok(described)
}

/// What distinguishes another run from this one; parts that only one of them has do not.
fn difference(known: &Manifest, now: &Manifest) -> Option<String> {
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_string());
    let pairs = [
        ("the command", known.command.clone(), now.command.clone()),
        ("the version of pervade", known.version.clone(), now.version.clone()),
        ("the model", text(&known.model), text(&now.model)),
        ("the format", known.format.clone(), now.format.clone()),
    ];
    let flag =
        |manifest: &Manifest, name: &String| manifest.flags.get(name).unwrap_or(&Value::Null).to_string();
    let names = known.flags.keys().chain(now.flags.keys());
    let flags = names.map(|name| (format!("`--{name}`"), flag(known, name), flag(now, name)));
    let pairs = pairs.into_iter().map(|(what, old, new)| (what.to_string(), old, new));
    let changed = pairs.chain(flags).find(|(_, old, new)| old != new);
    if let Some((what, old, new)) = changed {
        return Some(format!("{what} was {old}, and is {new} now"));
    }
    let is_other = |(result, part): &(&String, &Part)| now.parts.get(*result).is_some_and(|new| new != *part);
    let (_, part) = known.parts.iter().find(is_other)?;
    Some(format!("the part {} has changed since", part.name))
}

/// The name of the results of a part: its own, with the ending of the format.
fn result_name(part: &Path, format: &str) -> String {
    let name = outputs::name_of(part);
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    format!("{stem}.{format}")
}

fn ending(format: OutputFormat) -> &'static str {
    match format {
        OutputFormat::Npy => "npy",
        OutputFormat::Parquet => "parquet",
        _ => "csv",
    }
}
