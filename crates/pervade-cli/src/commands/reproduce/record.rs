//! The record of a row: what was run, seed by seed, and what came of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pervade::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::rows::{Row, Which};
use crate::outputs;
use crate::tables::Spread;

/// Everything that is known about a row; the tables are made from it alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    pub(super) table: Which,
    pub(super) data: String,
    pub(super) method: String,
    /// N and D of what was clustered.
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) data_checksum: String,
    /// All of VaDE's settings; of another method those that differ from its own.
    pub(super) settings: Map<String, Value>,
    /// Flags that changed the row for a quick look, by name.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(super) overrides: Map<String, Value>,
    pub(super) runs: Vec<Run>,
    /// Why it stopped before all seeds were run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) problem: Option<String>,
}

/// One seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Run {
    pub(super) seed: u64,
    /// Shares between zero and one, by name; and what has its own scale.
    pub(super) scores: BTreeMap<String, f64>,
    /// Its share of the time where several were trained side by side.
    pub(super) seconds: f64,
    pub(super) side_by_side: usize,
    pub(super) device: String,
    pub(super) version: String,
}

impl Record {
    /// Where the record of a row lies.
    pub(super) fn path(out: &Path, table: Which, row: &Row) -> PathBuf {
        out.join("records").join(table.name()).join(format!("{}-{}.json", row.data, row.method))
    }

    /// The record at `path`, if there is one.
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

    /// Writes it, whole or not at all.
    pub(super) fn save(&self, path: &Path) -> Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(|e| Error::io("create", folder, e))?;
        outputs::json(self, path)
    }

    /// What `earlier` has run already is kept; one of other settings or data is not mixed with this.
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

    /// Which of the seeds below `n` were not run yet.
    pub(super) fn missing(&self, n: usize) -> Vec<u64> {
        (0..n as u64).filter(|seed| !self.runs.iter().any(|run| run.seed == *seed)).collect()
    }

    /// Adds runs; the list stays in the order of the seeds.
    pub(super) fn add(&mut self, run: Run) {
        self.runs.push(run);
        self.runs.sort_by_key(|run| run.seed);
    }

    /// Mean and spread of a score over the seeds.
    pub(super) fn spread(&self, score: &str) -> Option<Spread> {
        Spread::of(&self.runs.iter().filter_map(|run| run.scores.get(score).copied()).collect::<Vec<f64>>())
    }

    /// VaDE's label-free choice among its restarts: the score it goes by, and the run with the most of it.
    pub(super) fn chosen(&self) -> Option<(&str, &Run)> {
        let by = self.settings.get("choose")?.as_str()?;
        let score = |run: &Run| run.scores.get(by).copied().unwrap_or(f64::NEG_INFINITY);
        let best = self.runs.iter().reduce(|best, run| if score(run) > score(best) { run } else { best })?;
        Some((by, best))
    }

    /// Seconds of a run.
    pub(super) fn seconds(&self) -> Option<Spread> {
        Spread::of(&self.runs.iter().map(|run| run.seconds).collect::<Vec<f64>>())
    }
}

/// The first setting that differs, in words.
fn difference(earlier: &Map<String, Value>, now: &Map<String, Value>) -> String {
    let shown = |settings: &Map<String, Value>, key: &str| {
        settings.get(key).map_or("its own value".to_string(), crate::settings::short)
    };
    let mut keys = earlier.keys().chain(now.keys());
    keys.find(|key| earlier.get(*key) != now.get(*key)).map_or("other settings".to_string(), |key| {
        format!("`{key}` {}, which is {} now", shown(earlier, key), shown(now, key))
    })
}
