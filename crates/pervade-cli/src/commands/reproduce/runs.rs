//! Running a row: every seed that is not in its record yet, saving the record after each.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use pervade::config::{CheckedSettings, Settings};
use pervade::data::{Dataset, Labels};
use pervade::metrics::{Labelled, knn_errors};
use pervade::model::Vade;
use pervade::train::EpochCallback;
use pervade::{Clusterer, Clustering, Error, Result};
use pervade_rivals::Networks;
use pervade_rivals::RivalDevice;
use serde_json::{Map, Value, json};

use super::pixels::Pixels;
use super::record::{Record, SeedRun};
use super::rows::Row;
use crate::console::Console;
use crate::report::LabelScores;
use crate::{interrupt, methods, words};

/// Neighbours that vote in table 3.
pub(super) const VOTERS: [usize; 3] = [3, 5, 10];

/// Scores by name.
pub(super) type Scores = BTreeMap<String, f64>;

/// The data of a method, and what its result is scored against.
pub(super) enum Measure<'d> {
    /// Table 2: clusters of the rows against their labels.
    Clusters { data: Dataset<'d>, labels: Labels },
    /// Table 3: the latents of the test rows among those of the training rows.
    Neighbours { train: Dataset<'d>, train_labels: Vec<u32>, test: Dataset<'d>, test_labels: Vec<u32> },
}

impl Measure<'_> {
    /// The rows that the method is fitted to.
    pub(super) fn data(&self) -> &Dataset<'_> {
        match self {
            Measure::Clusters { data, .. } => data,
            Measure::Neighbours { train, .. } => train,
        }
    }

    fn scores<D: RivalDevice>(&self, device: &D, found: &dyn Clustering<D>) -> Result<Scores> {
        match self {
            Measure::Clusters { data, labels } => {
                let scores = LabelScores::new(&found.assign(device, data)?, labels)?;
                let named = [("accuracy", scores.accuracy), ("nmi", scores.nmi), ("ari", scores.ari)];
                Ok(named.into_iter().map(|(name, score)| (name.to_string(), score)).collect())
            }
            Measure::Neighbours { train, train_labels, test, test_labels } => {
                let embed = |data: &Dataset| {
                    found
                        .embed(device, data)?
                        .ok_or_else(|| Error::data("method", "it has no representation of rows"))
                };
                let (known, rows) = (embed(train)?, embed(test)?);
                let j = known.len() / train.n_rows();
                let known = Labelled { rows: &known, labels: train_labels };
                let test = Labelled { rows: &rows, labels: test_labels };
                let errors = knn_errors(known, test, j, &VOTERS)?;
                Ok(VOTERS.iter().zip(errors).map(|(k, error)| (format!("k{k}"), error)).collect())
            }
        }
    }
}

/// How the method of a row is run.
pub(super) enum Runner<D: RivalDevice> {
    /// VaDE: seeds are restarts of one fit.
    Vade(Box<Settings>),
    /// One run per seed.
    Rival(Box<dyn Clusterer<D>>),
}

impl<D: RivalDevice> Runner<D> {
    /// With the method and settings of the row, overridden by `overrides`.
    pub(super) fn of(row: &Row, clusters: usize, overrides: &Map<String, Value>) -> Result<Self> {
        let mut keys = row.settings.clone();
        keys.extend(overrides.clone());
        if keys.contains_key("recipe") {
            keys.insert("clusters".to_string(), json!(clusters));
            return Ok(Runner::Vade(Box::new(Settings::from_keys(keys)?)));
        }
        let networks = networks(&keys)?;
        if row.method == "pixels" {
            return Ok(Runner::Rival(Box::new(Pixels)));
        }
        let Some(method) = pervade_rivals::method(&row.method) else {
            let rivals = pervade_rivals::methods::<D>().into_iter().chain(pervade_rivals::others());
            let known: Vec<&str> = rivals.map(|method| method.name).collect();
            let must = format!("must be one of {}, or the row needs a recipe of VaDE", known.join(", "));
            return Err(Error::setting("method", format!("`{}`", row.method), must));
        };
        Ok(Runner::Rival(method.with_networks(clusters, &networks)))
    }

    /// The settings that identify a run: all of VaDE's, and those of others that differ from their defaults.
    pub(super) fn settings(
        &self,
        row: &Row,
        clusters: usize,
        overrides: &Map<String, Value>,
    ) -> Map<String, Value> {
        let mut settings = match self {
            // Via text, which has single-precision numbers as one would type them.
            Runner::Vade(settings) => serde_json::to_string(settings)
                .and_then(|text| serde_json::from_str::<Map<String, Value>>(&text))
                .unwrap_or_default(),
            Runner::Rival(_) => row.settings.clone().into_iter().chain(overrides.clone()).collect(),
        };
        settings.insert("clusters".to_string(), json!(clusters));
        // Seeds are counted in the runs, and records omit a single trial.
        settings.retain(|key, value| {
            !["seed", "restarts"].contains(&key.as_str()) && (key != "starts" || *value != json!(1))
        });
        settings
    }
}

/// The settings that the networks of rivals have.
fn networks(keys: &Map<String, Value>) -> Result<Networks> {
    const KEYS: [&str; 3] = ["hidden", "pretrain_epochs", "epochs"];
    if let Some((key, value)) = keys.iter().find(|(key, _)| !KEYS.contains(&key.as_str())) {
        let must = format!("but this method takes only {}", KEYS.join(", "));
        return Err(Error::setting(key, value, must));
    }
    fn get<T: serde::de::DeserializeOwned>(keys: &Map<String, Value>, key: &str) -> Result<Option<T>> {
        let typed =
            |value: &Value| T::deserialize(value).map_err(|e| Error::setting(key, value, e.to_string()));
        keys.get(key).map(typed).transpose()
    }
    Ok(Networks {
        hidden: get(keys, "hidden")?,
        pretrain_epochs: get(keys, "pretrain_epochs")?,
        epochs: get(keys, "epochs")?,
    })
}

/// A row in progress: its record grows seed by seed.
pub(super) struct RowRunner<'w, D: RivalDevice> {
    pub(super) device: &'w D,
    pub(super) device_name: String,
    pub(super) measure: &'w Measure<'w>,
    pub(super) record: Record,
    pub(super) path: PathBuf,
    pub(super) console: &'w Console,
    pub(super) since: Instant,
}

impl<D: RivalDevice> RowRunner<'_, D> {
    /// Runs the missing seeds out of `seeds`.
    pub(super) fn run(&mut self, how: &Runner<D>, seeds: usize) -> Result<()> {
        let missing = self.record.missing(seeds);
        match how {
            Runner::Vade(settings) => {
                let settings = (**settings).clone().with(|s| s.restarts = seeds);
                let checked = settings.check(self.measure.data())?;
                for restarts in missing.chunk_by(|a, b| a + 1 == *b) {
                    self.restarts(&checked, restarts[0] as usize..restarts[restarts.len() - 1] as usize + 1)?;
                }
                Ok(())
            }
            Runner::Rival(method) => self.seeds(method.as_ref(), &missing),
        }
    }

    fn restarts(&mut self, checked: &CheckedSettings, restarts: std::ops::Range<usize>) -> Result<()> {
        let (measure, device) = (self.measure, self.device);
        let mut observer = methods::observer(&self.record.method, Some(checked), self.console);
        self.since = Instant::now();
        pervade::fit_restarts(measure.data(), checked, device, restarts, observer.as_mut(), self)
    }

    fn seeds(&mut self, method: &dyn Clusterer<D>, seeds: &[u64]) -> Result<()> {
        let (measure, device) = (self.measure, self.device);
        let mut observer = methods::observer(&self.record.method, None, self.console);
        self.since = Instant::now();
        method.cluster_each(measure.data(), device, seeds, observer.as_mut(), &mut |seed, found| {
            let took = self.since.elapsed();
            self.keep(seed, found.as_ref(), took, 1, &[])?;
            self.since = Instant::now();
            interrupt::check("reproducing")
        })
    }

    /// Scores a run and adds it to the record.
    fn keep(
        &mut self,
        seed: u64,
        found: &dyn Clustering<D>,
        took: Duration,
        side_by_side: usize,
        more: &[(&str, Option<f64>)],
    ) -> Result<()> {
        let mut scores = self.measure.scores(self.device, found)?;
        let more = more.iter().filter_map(|(name, score)| score.map(|score| (name.to_string(), score)));
        scores.extend(more);
        let each = took / side_by_side as u32;
        let shown: Vec<String> = scores.iter().map(|(name, score)| format!("{name} {score:.4}")).collect();
        self.console.say(&format!(
            "{} on {}, seed {seed}: {}, {}",
            self.record.method,
            self.record.data,
            words::duration(each),
            shown.join(", ")
        ));
        self.record.add(SeedRun {
            seed,
            scores,
            seconds: (each.as_secs_f64() * 1e3).round() / 1e3,
            side_by_side,
            device: self.device_name.clone(),
            version: env!("CARGO_PKG_VERSION").to_string(),
        });
        self.record.save(&self.path)
    }
}

impl<D: RivalDevice> EpochCallback<D> for RowRunner<'_, D> {
    fn on_models(&mut self, models: Vec<Vade>) -> Result<()> {
        let took = self.since.elapsed();
        for model in &models {
            let record = &model.metadata().record;
            let modularity = record.kept_state().map(|state| state.modularity);
            let more = [("elbo", record.elbo()), ("modularity", modularity)];
            self.keep(record.restart as u64, model, took, models.len(), &more)?;
        }
        self.since = Instant::now();
        Ok(())
    }
}
