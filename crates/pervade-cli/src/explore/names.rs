//! Names and merges of clusters, written to their file.

use std::path::{Path, PathBuf};

use pervade::Result;
use pervade::compute::Device;
use pervade::files::check_writable;
use pervade::model::Vade;
use pervade::names::{ClusterNames, NamedCluster};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Refusal, Worker};
use crate::files::{Files, Kind};
use crate::outputs;

/// The file with the names.
pub(crate) struct NamesFile {
    path: PathBuf,
    /// Why it cannot be written, if it cannot.
    read_only: Option<String>,
}

impl NamesFile {
    /// The file that was asked for, or one beside the model. Only the one that was asked for must be writable: who may only
    /// read the folder of the model can still look at it.
    pub(crate) fn new(given: Option<&Path>, model: &Path) -> Self {
        let Some(path) = given else {
            let path = model.with_extension("names.json");
            let read_only = check_writable(&path).err().map(|error| error.to_string());
            return Self { path, read_only };
        };
        Self { path: path.to_path_buf(), read_only: None }
    }

    /// Adds the file to those of the command.
    pub(crate) fn claimed(&self, files: Files) -> Files {
        match self.read_only {
            Some(_) => files.input("--names", &self.path),
            None => files.output("--names", &self.path, Kind::Names),
        }
    }

    /// The names in the file; none if there is no file yet.
    pub(crate) fn load(&self, model: &Vade) -> Result<ClusterNames> {
        if self.path.exists() { ClusterNames::load(&self.path, model) } else { Ok(ClusterNames::none(model)) }
    }

    pub(super) fn name(&self) -> String {
        outputs::name_of(&self.path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Why names cannot be saved; none if they can.
    pub(crate) fn read_only(&self) -> Option<&str> {
        self.read_only.as_deref()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Question {
    clusters: Vec<NamedCluster>,
}

pub(super) fn answer<D: Device>(
    worker: &mut Worker<'_, D>,
    question: Question,
) -> std::result::Result<Value, Refusal> {
    if let Some(reason) = worker.names_file.read_only() {
        return Err(Refusal { status: 409, message: format!("names cannot be saved: {reason}") });
    }
    let names = worker.names.with_clusters(question.clusters, "the list of names");
    let names = names.map_err(|e| Refusal::bad(e.to_string()))?;
    let merges_changed = names.merged_into() != worker.names.merged_into();
    let before = worker.names.clone();
    worker.rename(names)?;
    if let Err(error) = worker.names.save(worker.names_file.path()) {
        worker.rename(before)?;
        return Err(error.into());
    }
    Ok(json!({"names": worker.names.clusters(), "reload": merges_changed}))
}
