//! The result of a fit: a JSON object, a record to share, and a summary for people.

use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use pervade::compute::Likelihood;
use pervade::config::Clusters;
use pervade::data::{Labels, PrepareKind};
use pervade::metrics::Contingency;
use pervade::model::{ConsensusSummary, ExplainedColumn, Metadata, PlainSummary};
use pervade::record::{Level, RestartRecord, StateScores};
use pervade::{Fit, Result};
use serde::Serialize;

use crate::ranks::RankReport;
use crate::{outputs, shell, words};

/// Seconds of each part of a fit.
#[derive(Serialize, Clone, Copy)]
pub(crate) struct Seconds {
    pub(crate) read: f64,
    pub(crate) pretrain: f64,
    pub(crate) init: f64,
    pub(crate) train: f64,
    pub(crate) total: f64,
}

impl Seconds {
    /// Computed from the time of reading, the stages, and the start.
    pub(crate) fn new(read: Duration, stages: [Duration; 3], started: Instant) -> Self {
        let round = |time: Duration| (time.as_secs_f64() * 1e3).round() / 1e3;
        let [pretrain, init, train] = stages.map(round);
        Self { read: round(read), pretrain, init, train, total: round(started.elapsed()) }
    }
}

/// Agreement with labels.
#[derive(Serialize, Clone, Copy)]
pub(crate) struct LabelScores {
    pub(crate) accuracy: f64,
    pub(crate) nmi: f64,
    pub(crate) ari: f64,
}

impl LabelScores {
    /// Scores clusters against labels.
    pub(crate) fn new(clusters: &[u32], labels: &Labels) -> Result<Self> {
        let table = Contingency::new(clusters, labels.ids())?;
        Ok(Self { accuracy: table.accuracy(), nmi: table.nmi(), ari: table.ari() })
    }

    /// `accuracy 95.1 %, NMI 0.893, ARI 0.897`.
    pub(crate) fn words(&self) -> String {
        format!("accuracy {}, NMI {:.3}, ARI {:.3}", words::percent(self.accuracy), self.nmi, self.ari)
    }
}

/// `fit --json`.
#[derive(Serialize, Clone)]
pub(crate) struct FitReport<'f> {
    pub(crate) model: String,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    /// ELBO of the epoch that ended in the kept state; null if the mixture start was kept.
    elbo: Option<f64>,
    last_epoch_elbo: Option<f64>,
    clusters: usize,
    components: usize,
    occupancy: &'f [u64],
    pub(crate) seconds: Seconds,
    peak_memory_bytes: Option<u64>,
    scores: Option<&'f StateScores>,
    /// Modularity on the neighbour graph of the prepared rows, of the model and of k-means.
    prepared_modularity: Option<f64>,
    kmeans_modularity: Option<f64>,
    stability: Option<f64>,
    /// The numbers of clusters that `--clusters auto` compared.
    #[serde(skip_serializing_if = "<[Level]>::is_empty")]
    levels: &'f [Level],
    consensus: Option<&'f ConsensusSummary>,
    /// The method without networks whose clusters the model was trained towards.
    #[serde(skip_serializing_if = "Option::is_none")]
    plain: Option<&'f PlainSummary>,
    /// How much of each column the model explains, if columns have types.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    explained: &'f [ExplainedColumn],
    chosen: usize,
    restarts: Vec<RestartReport<'f>>,
    /// Where the time of the first rank went, if there were ranks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ranks: Option<RankReport>,
    #[serde(flatten)]
    pub(crate) labelled: Option<LabelScores>,
}

/// One restart of the report.
#[derive(Serialize, Clone)]
struct RestartReport<'f> {
    restart: usize,
    elbo: Option<f64>,
    last_epoch_elbo: Option<f64>,
    kept_epoch: Option<usize>,
    scores: Option<&'f StateScores>,
    prepared_modularity: Option<f64>,
    /// ARI of its clusters with those of each restart.
    #[serde(skip_serializing_if = "<[f64]>::is_empty")]
    agreement: &'f [f64],
    #[serde(skip_serializing_if = "<[Level]>::is_empty")]
    levels: &'f [Level],
    remarks: &'f [String],
    #[serde(flatten)]
    labelled: Option<LabelScores>,
}

impl<'f> FitReport<'f> {
    /// Builds the report; labels, if any, score every restart.
    pub(crate) fn new(fit: &'f Fit, out: &Path, labels: Option<&Labels>, seconds: Seconds) -> Result<Self> {
        let score = |clusters: &[u32]| labels.map(|labels| LabelScores::new(clusters, labels)).transpose();
        let (about, mut restarts) = (fit.model.metadata(), Vec::new());
        for (record, clusters) in fit.restarts.iter().zip(&fit.assignments) {
            let summary = about.restarts.get(restarts.len());
            restarts.push(RestartReport {
                restart: record.restart,
                elbo: record.kept_elbo(),
                last_epoch_elbo: record.elbo(),
                kept_epoch: record.kept_state().map(|state| state.epoch),
                scores: record.kept_state(),
                prepared_modularity: summary.and_then(|r| r.prepared_modularity),
                agreement: summary.map_or(&[], |r| &r.agreement),
                levels: &record.levels,
                remarks: &record.remarks,
                labelled: score(clusters)?,
            });
        }
        Ok(Self {
            model: out.display().to_string(),
            rows: about.n_rows,
            columns: about.n_source_columns(),
            elbo: about.record.kept_elbo(),
            last_epoch_elbo: about.record.elbo(),
            clusters: about.n_clusters,
            components: about.n_components,
            occupancy: &about.occupancy,
            seconds,
            peak_memory_bytes: peak_memory(),
            scores: about.record.kept_state(),
            prepared_modularity: about.prepared_modularity,
            kmeans_modularity: about.kmeans_modularity,
            stability: fit.stability(),
            consensus: about.consensus.as_ref(),
            plain: about.plain.as_ref(),
            explained: &about.explained,
            levels: &about.record.levels,
            chosen: fit.chosen,
            labelled: score(&fit.clusters)?,
            restarts,
            ranks: None,
        })
    }
}

/// The run record: the command, the machine, the history and the result.
#[derive(Serialize)]
pub(crate) struct RunRecord<'f> {
    pub(crate) command: String,
    pub(crate) version: &'static str,
    pub(crate) device: String,
    pub(crate) threads: usize,
    pub(crate) data: String,
    pub(crate) result: FitReport<'f>,
    pub(crate) settings: &'f pervade::config::Settings,
    pub(crate) preparation: String,
    pub(crate) likelihood: Likelihood,
    pub(crate) data_checksum: &'f str,
    pub(crate) history: &'f [RestartRecord],
    /// Training towards the vote of the restarts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) consensus_history: Option<&'f RestartRecord>,
}

/// The command as typed, with paths cut down to file names.
pub(crate) fn travelling_command(args: &[OsString]) -> String {
    let name = |text: &str| outputs::name_of(Path::new(text));
    let cut = |arg: &OsString| {
        let text = arg.to_string_lossy();
        let text = match text.split_once('=') {
            Some((flag, value)) if flag.starts_with("--") => format!("{flag}={}", name(value)),
            _ if text.contains(std::path::MAIN_SEPARATOR) => name(&text),
            _ => text.into_owned(),
        };
        if text.contains(char::is_whitespace) { format!("'{text}'") } else { text }
    };
    args.iter().map(cut).collect::<Vec<_>>().join(" ")
}

/// Peak memory of the process, if the system reports it.
pub(crate) fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kb| kb * 1024)
}

/// The preparation as text.
pub(crate) fn preparation_words(kind: PrepareKind) -> &'static str {
    match kind {
        PrepareKind::None => "not scaled",
        PrepareKind::UnitRange => "scaled to [0, 1]",
        PrepareKind::Standardise => "every column standardised",
        PrepareKind::RowNorm => "every row scaled to one length",
        _ => kind.name(),
    }
}

/// Sizes of the clusters as a bar chart.
pub(crate) fn occupancy_bars(occupancy: &[u64]) -> String {
    const SHOWN: usize = 40;
    let largest = occupancy.iter().copied().max().unwrap_or(0);
    let rows: u64 = occupancy.iter().sum();
    let mut text = String::new();
    for (cluster, &n) in occupancy.iter().enumerate().take(SHOWN) {
        let share = words::percent(n as f64 / rows.max(1) as f64);
        let bar = words::bar(n, largest, 24);
        text.push_str(&format!("  {cluster:>3}  {:>9}  {share:>7}  {bar}\n", words::count(n as usize)));
    }
    if occupancy.len() > SHOWN {
        text.push_str(&format!("  ... and {} more\n", occupancy.len() - SHOWN));
    }
    text
}

/// The summary of a fit.
pub(crate) fn summary(report: &FitReport<'_>, fit: &Fit, data: &str) -> String {
    let about = fit.model.metadata();
    let mut text = format!("\n{}\n\n", found(about));
    text.push_str("  cluster    rows    share\n");
    text.push_str(&occupancy_bars(&about.occupancy));
    text.push_str(&levels_table(&about.record.levels));
    text.push_str(&format!(
        "\nData: {} x {}, {}.",
        words::counted(about.n_rows, "row"),
        words::counted(about.n_source_columns(), "column"),
        decided(about)
    ));
    if let Some(scores) = &report.scores {
        text.push_str(&format!("\n{}", quality(scores)));
    }
    if let Some(rows) = on_graph_of_rows(about) {
        text.push_str(&format!("\n{rows}"));
    }
    if let Some(start) = start(&about.record) {
        text.push_str(&format!("\n{start}"));
    }
    if let Some(restarts) = restarts(about) {
        text.push_str(&format!("\n{restarts}"));
    }
    if let Some(scores) = &report.labelled {
        text.push_str(&format!("\nAgainst the labels (which training never saw): {}.", scores.words()));
    }
    for remark in about
        .plain
        .iter()
        .flat_map(PlainSummary::remarks)
        .chain(about.record.remarks.clone())
        .chain(about.kmeans_remark())
    {
        text.push_str(&format!("\nNote: {remark}."));
    }
    let memory = report
        .peak_memory_bytes
        .map_or(String::new(), |n| format!(", at most {} of memory", words::bytes(n)));
    text.push_str(&format!(
        "\nTook {}{memory}.\n",
        words::duration(Duration::from_secs_f64(report.seconds.total))
    ));
    let file = &report.model;
    let model = shell::word(file);
    text.push_str(&format!(
        "\nWrote {file}. Next:\n  pervade report {model} {data} --out report.html    a page about the clusters\n  \
         pervade explore {model} {data}    the same page, with answers to questions about any rows\n  \
         pervade assign {model} {data} > clusters.csv    the cluster of every row\n"
    ));
    text.push_str(&match about.image {
        Some(_) => format!("  pervade generate {model} --out new.png    new pictures of every cluster\n"),
        None => format!("  pervade generate {model} --out new.csv    new rows of every cluster\n"),
    });
    text.push_str(&format!("  pervade inspect {model}    its settings and history"));
    text
}

/// The clusters and those of k-means on a graph that belongs to neither.
pub(crate) fn on_graph_of_rows(about: &Metadata) -> Option<String> {
    let own = about.prepared_modularity?;
    let kmeans =
        about.kmeans_modularity.map_or(String::new(), |q| format!("; k-means on the rows has {q:.3}"));
    Some(format!("On the neighbour graph of the rows themselves: modularity {own:.3}{kmeans}."))
}

/// What became of the restarts, if there were several.
pub(crate) fn restarts(about: &Metadata) -> Option<String> {
    let (stability, n) = (about.stability?, about.restarts.len());
    let model = match (&about.consensus, about.record.reference) {
        (Some(consensus), _) => format!(
            "the model is their consensus: on average {} of them agree on the cluster of a row",
            words::percent(consensus.agreement)
        ),
        (None, Some(reference)) => format!("number {} was trained towards the final clusters", reference + 1),
        (None, None) => format!("kept number {}", about.record.restart + 1),
    };
    Some(format!("Restarts: {n}; {model}. Their stability (mean ARI) is {stability:.3}; 1 is perfect."))
}

/// The clusters in one sentence.
pub(crate) fn found(about: &Metadata) -> String {
    let k = words::counted(about.n_clusters, "cluster");
    let made = match about.n_components {
        c if c == about.n_clusters => "one component each".to_string(),
        c => format!("made of {c} components"),
    };
    match about.settings.clusters {
        Clusters::Auto => format!("Found {k}, {made}; the number was found, not given."),
        Clusters::Fixed(_) => format!("Found {k}, {made}."),
    }
}

/// The stable numbers of clusters and the one that was picked, as a table; empty if the number was given.
pub(crate) fn levels_table(levels: &[Level]) -> String {
    if levels.is_empty() {
        return String::new();
    }
    let mut text = "\n  clusters  stability  modularity\n".to_string();
    for level in levels.iter().filter(|level| level.stable || level.picked) {
        let picked = if level.picked { "  <- picked" } else { "" };
        let Level { clusters, stability, modularity, .. } = level;
        text.push_str(&format!("  {clusters:>8}  {stability:>9.3}  {modularity:>10.3}{picked}\n"));
    }
    text
}

/// The number of clusters that was picked, in one line.
pub(crate) fn picked_line(levels: &[Level]) -> String {
    let picked = levels.iter().find(|level| level.picked).map_or(0, |level| level.clusters);
    let stable: Vec<String> =
        levels.iter().filter(|level| level.stable).map(|level| level.clusters.to_string()).collect();
    format!("number of clusters: {picked} (stable numbers: {})", stable.join(", "))
}

/// The choices made for the data, and why.
pub(crate) fn decided(about: &Metadata) -> String {
    let why = |given: bool| if given { "as requested" } else { "decided from the data" };
    let prepared = why(about.settings.prepare.is_some());
    let family = why(about.settings.likelihood != pervade::config::LikelihoodKind::Auto);
    let preparation = preparation_words(about.preparation.kind());
    format!("{preparation} ({prepared}); likelihood {} ({family})", about.likelihood)
}

/// The label-free scores as text.
pub(crate) fn quality(scores: &StateScores) -> String {
    let when = match (scores.epoch, scores.voted) {
        (0, None) => "the start, which joint training did not improve".to_string(),
        (n, None) => format!("after epoch {n} of joint training"),
        (0, Some(_)) => {
            "the model before it was trained towards the final clusters, which brought it no nearer"
                .to_string()
        }
        (n, Some(voted)) => {
            format!(
                "after epoch {n} of training towards the final clusters, {} of the rows as these have them",
                words::percent(voted)
            )
        }
    };
    let live = match scores.live_clusters {
        n if n < scores.clusters => format!(
            "\nWarning: only {n} of {} clusters hold half a percent of the rows or more: \
             ask for fewer clusters, or try more `--restarts`.",
            scores.clusters
        ),
        _ => String::new(),
    };
    // After a vote the graph is that of the rows, which has a line of its own.
    let modularity = match scores.voted {
        Some(_) => String::new(),
        None => format!("modularity {:.3} (above 0.5 is clear structure), ", scores.modularity),
    };
    format!(
        "Without labels: {modularity}silhouette {:.3}, {} natural communities.\nKept: {when}.{live}",
        scores.silhouette, scores.natural_clusters
    )
}

/// The trial that was kept, if there were several.
pub(crate) fn start(record: &RestartRecord) -> Option<String> {
    let best = record.starts.get(record.start)?;
    let least = record.starts.iter().copied().fold(*best, f64::min);
    Some(format!(
        "Start: number {} of {}, the one with the highest modularity ({best:.3}; the lowest was {least:.3}).",
        record.start + 1,
        record.starts.len()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kept_trial_is_reported_if_there_were_several() {
        let record = RestartRecord { start: 1, starts: vec![0.5, 0.75, 0.25], ..Default::default() };
        let expected =
            "Start: number 2 of 3, the one with the highest modularity (0.750; the lowest was 0.250).";
        assert_eq!(start(&record).as_deref(), Some(expected));
        assert_eq!(start(&RestartRecord::default()), None);
    }

    #[test]
    fn stable_levels_and_the_picked_one_are_shown() {
        let level = |clusters, stability, stable, picked| Level {
            clusters,
            stability,
            modularity: 0.1 * clusters as f64,
            stable,
            picked,
        };
        let levels = [
            level(2, 1.0, true, false),
            level(3, 0.96, false, true),
            level(4, 0.25, false, false),
            level(5, 0.5, true, false),
        ];
        let expected = "
  clusters  stability  modularity
         2      1.000       0.200
         3      0.960       0.300  <- picked
         5      0.500       0.500
";
        assert_eq!(levels_table(&levels), expected);
        assert_eq!(picked_line(&levels), "number of clusters: 3 (stable numbers: 2, 5)");
        assert_eq!(levels_table(&[]), "");
    }

    #[test]
    fn commands_travel_without_paths() {
        let args =
            ["/usr/bin/pervade", "fit", "/data/x.csv", "--out=/tmp/m.pervade", "--hidden", "5,5", "my file"];
        let command = travelling_command(&args.map(OsString::from));
        assert_eq!(command, "pervade fit x.csv --out=m.pervade --hidden 5,5 'my file'");
    }
}
