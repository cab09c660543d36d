//! The record of a row: what was run, seed by seed, and its results.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pervade::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::rows::{Row, TableId};
use crate::outputs;
use crate::tables::Summary;

/// Everything known about a row; tables are made only from this.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    pub(super) table: TableId,
    pub(super) data: String,
    pub(super) method: String,
    /// N and D of the clustered rows.
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) data_checksum: String,
    /// All settings of VaDE; for other methods those that differ from their defaults.
    pub(super) settings: Map<String, Value>,
    /// Flags that changed the row for a quick look, by name.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(super) overrides: Map<String, Value>,
    pub(super) runs: Vec<SeedRun>,
    /// Why the row stopped before all seeds were run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) problem: Option<String>,
}

/// The result of one seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SeedRun {
    pub(super) seed: u64,
    /// Scores by name: fractions between zero and one, or on their own scale.
    pub(super) scores: BTreeMap<String, f64>,
    /// Its share of the time, if several were trained in parallel.
    pub(super) seconds: f64,
    pub(super) side_by_side: usize,
    pub(super) device: String,
    pub(super) version: String,
}

impl Record {
    /// The path of the record of a row.
    pub(super) fn path(out: &Path, table: TableId, row: &Row) -> PathBuf {
        out.join("records").join(table.name()).join(format!("{}-{}.json", row.data, row.method))
    }

    /// Loads the record at `path`, if it exists.
    pub(super) fn load(path: &Path) -> Result<Option<Self>> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("read", path, error)),
        };
        serde_json::from_str(&text).map(Some).map_err(|e| {
            Error::data(path.display(), format!("not a record: {e}"))
                .with_hint("move the file away to run the row again")
        })
    }

    /// Writes the record atomically.
    pub(super) fn save(&self, path: &Path) -> Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(|e| Error::io("create", folder, e))?;
        outputs::json(self, path)
    }

    /// Takes over the runs of `earlier`; an error if its settings or data differ.
    pub(super) fn continuing(mut self, earlier: Option<Self>, path: &Path) -> Result<Self> {
        let Some(earlier) = earlier else { return Ok(self) };
        let differs = match () {
            () if earlier.data_checksum != self.data_checksum => Some("other data".to_string()),
            () if earlier.settings != self.settings => Some(difference(&earlier.settings, &self.settings)),
            () => None,
        };
        if let Some(differs) = differs {
            let problem = format!("these runs were made with {differs}");
            return Err(Error::data(path.display(), problem)
                .with_hint("give another `--out`, or `--again` to replace the record"));
        }
        self.runs = earlier.runs;
        Ok(self)
    }

    /// The seeds below `n` that were not run yet.
    pub(super) fn missing(&self, n: usize) -> Vec<u64> {
        (0..n as u64).filter(|seed| !self.runs.iter().any(|run| run.seed == *seed)).collect()
    }

    /// Adds runs; the list stays sorted by seed.
    pub(super) fn add(&mut self, run: SeedRun) {
        self.runs.push(run);
        self.runs.sort_by_key(|run| run.seed);
    }

    /// Mean and deviation of a score over the seeds.
    pub(super) fn summary(&self, score: &str) -> Option<Summary> {
        Summary::of(&self.runs.iter().filter_map(|run| run.scores.get(score).copied()).collect::<Vec<f64>>())
    }

    /// VaDE's label-free choice among its restarts: the score used, and the run that maximises it.
    pub(super) fn chosen(&self) -> Option<(&str, &SeedRun)> {
        let by = self.settings.get("choose")?.as_str()?;
        let score = |run: &SeedRun| run.scores.get(by).copied().unwrap_or(f64::NEG_INFINITY);
        let best = self.runs.iter().reduce(|best, run| if score(run) > score(best) { run } else { best })?;
        Some((by, best))
    }

    /// Seconds of a run.
    pub(super) fn seconds(&self) -> Option<Summary> {
        Summary::of(&self.runs.iter().map(|run| run.seconds).collect::<Vec<f64>>())
    }
}

/// The first setting that differs, as text.
fn difference(earlier: &Map<String, Value>, now: &Map<String, Value>) -> String {
    let shown = |settings: &Map<String, Value>, key: &str| {
        settings.get(key).map_or("its own value".to_string(), crate::settings::short)
    };
    let mut keys = earlier.keys().chain(now.keys());
    keys.find(|key| earlier.get(*key) != now.get(*key)).map_or("other settings".to_string(), |key| {
        format!("`{key}` {}, which is {} now", shown(earlier, key), shown(now, key))
    })
}
