//! Names that people give to clusters, and clusters that they merge, in a small file beside the model.
//!
//! ```json
//! {"format": 1, "model": "xxh3-128:…", "clusters": [
//!   {"cluster": 0, "name": "regulars", "merged_into": null},
//!   {"cluster": 2, "name": null, "merged_into": 0}]}
//! ```
//!
//! `model` is the checksum of the model file; clusters that are not listed have no name. A merged cluster has no rows of
//! its own: they, and its probabilities, belong to the cluster that it was merged into. The numbers of clusters stay.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::files::write_atomically;
use crate::model::Vade;
use crate::{Error, Result};

/// The version of the format that is written.
const FORMAT: u64 = 1;
/// Characters of a name.
pub const LONGEST_NAME: usize = 200;
/// Larger files are not read.
const LARGEST_FILE: u64 = 1 << 26;

/// The name of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedCluster {
    /// Index of the cluster.
    pub cluster: usize,
    /// Its name, if it has one.
    #[serde(default)]
    pub name: Option<String>,
    /// The cluster that its rows belong to, if it was merged into another.
    #[serde(default)]
    pub merged_into: Option<usize>,
}

/// The file before it is checked.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    format: u64,
    model: Option<String>,
    clusters: Vec<NamedCluster>,
}

/// Read first: a later format may have other fields.
#[derive(Deserialize)]
struct Versioned {
    format: u64,
}

/// Names and merges of all clusters of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterNames {
    model: Option<String>,
    /// One per cluster, in order; merges point to clusters that are not merged themselves.
    clusters: Vec<NamedCluster>,
}

impl ClusterNames {
    /// No names and no merges.
    pub fn none(model: &Vade) -> Self {
        let unnamed = |cluster: usize| NamedCluster { cluster, ..NamedCluster::default() };
        let checksum = model.metadata().checksum.clone();
        Self { model: checksum, clusters: (0..model.n_clusters()).map(unnamed).collect() }
    }

    /// Reads a file, which must be of this model.
    pub fn load(path: &Path, model: &Vade) -> Result<Self> {
        let fail = |e| Error::io("read", path, e);
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|file| file.take(LARGEST_FILE + 1).read_to_end(&mut bytes))
            .map_err(fail)?;
        if bytes.len() as u64 > LARGEST_FILE {
            return Err(Error::data(path.display(), "is too large for a file of cluster names"));
        }
        Self::from_bytes(&bytes, &path.display().to_string(), model)
    }

    /// Reads the bytes of a file; `source` is its name for messages.
    pub fn from_bytes(bytes: &[u8], source: &str, model: &Vade) -> Result<Self> {
        let is_no_names = |e: serde_json::Error| {
            Error::data(source, format!("is not a file of cluster names: {e}"))
                .with_hint("`pervade explore` writes such files")
        };
        let Versioned { format } = serde_json::from_slice(bytes).map_err(is_no_names)?;
        if format != FORMAT {
            let problem = format!("is of format {format}; this version of pervade reads format {FORMAT}");
            return Err(Error::data(source, problem));
        }
        let stored: Stored = serde_json::from_slice(bytes).map_err(is_no_names)?;
        let known = &model.metadata().checksum;
        if let (Some(theirs), Some(ours)) = (&stored.model, known)
            && theirs != ours
        {
            let problem = format!("names the clusters of another model (checksum {theirs}, not {ours})");
            return Err(Error::data(source, problem).with_hint(
                "clusters of another fit have other numbers: name them again, or use the model of the names",
            ));
        }
        Self::none(model).with_clusters(stored.clusters, source)
    }

    /// The same model's clusters with other names and merges. Those that are not listed have none.
    pub fn with_clusters(&self, listed: Vec<NamedCluster>, source: &str) -> Result<Self> {
        let k = self.clusters.len();
        let unnamed = |cluster: usize| NamedCluster { cluster, ..NamedCluster::default() };
        let mut clusters: Vec<NamedCluster> = (0..k).map(unnamed).collect();
        let mut is_listed = vec![false; k];
        for entry in listed {
            let at = entry.cluster;
            let problem = if at >= k {
                Some(format!("names cluster {at}, but the model has {k} clusters, numbered from 0"))
            } else if std::mem::replace(&mut is_listed[at], true) {
                Some(format!("lists cluster {at} twice"))
            } else {
                entry.problem(k)
            };
            if let Some(problem) = problem {
                return Err(Error::data(source, problem));
            }
            let name = entry.name.map(|name| name.trim().to_string()).filter(|name| !name.is_empty());
            clusters[at] = NamedCluster { name, ..entry };
        }
        for at in 0..k {
            let end = end_of_chain(&clusters, at)
                .ok_or_else(|| Error::data(source, format!("merges cluster {at} into itself")))?;
            clusters[at].merged_into = (end != at).then_some(end);
        }
        Ok(Self { model: self.model.clone(), clusters })
    }

    /// Writes the file.
    pub fn save(&self, path: &Path) -> Result<()> {
        let stored = Stored { format: FORMAT, model: self.model.clone(), clusters: self.clusters.clone() };
        let text = serde_json::to_string_pretty(&stored)
            .map_err(|e| Error::io("write", path, std::io::Error::other(e)))?;
        write_atomically(path, |out| writeln!(out, "{text}"))
    }

    /// One per cluster, in order.
    pub fn clusters(&self) -> &[NamedCluster] {
        &self.clusters
    }

    /// The name of a cluster, if it has one.
    pub fn name(&self, cluster: usize) -> Option<&str> {
        self.clusters.get(cluster)?.name.as_deref()
    }

    /// The cluster that the rows of each cluster belong to. `[K]`
    pub fn merged_into(&self) -> Vec<u32> {
        self.clusters.iter().map(|entry| entry.merged_into.unwrap_or(entry.cluster) as u32).collect()
    }

    /// Whether some cluster was merged into another.
    pub fn has_merges(&self) -> bool {
        self.clusters.iter().any(|entry| entry.merged_into.is_some())
    }

    /// The model with merged clusters.
    pub fn applied_to(&self, model: &Vade) -> Result<Vade> {
        model.merged(&self.merged_into())
    }
}

impl NamedCluster {
    /// What is wrong with it for a model of `k` clusters.
    fn problem(&self, k: usize) -> Option<String> {
        let at = self.cluster;
        let name = self.name.as_deref().unwrap_or_default();
        let length = name.chars().count();
        if length > LONGEST_NAME {
            return Some(format!(
                "has a name of {length} characters for cluster {at}; {LONGEST_NAME} are allowed"
            ));
        }
        if name.chars().any(char::is_control) {
            return Some(format!(
                "has a control character, such as a line break, in the name of cluster {at}"
            ));
        }
        let into = self.merged_into.filter(|&into| into >= k)?;
        Some(format!("merges cluster {at} into {into}, but the model has {k} clusters, numbered from 0"))
    }
}

/// The cluster at which the merges of a cluster end: itself if it is not merged, none if they go in a circle.
fn end_of_chain(clusters: &[NamedCluster], start: usize) -> Option<usize> {
    let mut at = start;
    for _ in 0..clusters.len() {
        match clusters[at].merged_into {
            Some(into) => at = into,
            None => return Some(at),
        }
    }
    None
}
