//! Why this many clusters, agreement of restarts, training curves, and how the result was made.

use pervade::model::{Metadata, Vade};
use pervade::record::{JointEpoch, RestartRecord, StateScores};
use pervade_report::{Curve, Leaf, Level, MergeTree, Restarts};

use super::Facts;
use crate::report::{decided, restarts as outcome};
use crate::settings::short;
use crate::words;

/// The numbers of clusters that were compared; empty if the number was given.
pub(super) fn levels(about: &Metadata) -> Vec<Level> {
    let level = |level: &pervade::record::Level| Level {
        clusters: level.clusters,
        modularity: level.modularity,
        stability: Some(level.stability),
        chosen: level.picked,
    };
    about.record.levels.iter().map(level).collect()
}

/// How the components were merged into the clusters of the model, if they were.
pub(super) fn tree(model: &Vade) -> Option<MergeTree> {
    let tree = model.metadata().record.merges.as_ref()?;
    let components = tree.leaves();
    let leaf = |component: usize| components.binary_search(&component).ok();
    let merges = tree.merges.iter().map(|merge| {
        let [a, b] = merge.groups;
        Some((leaf(a)?, leaf(b)?, merge.modularity))
    });
    let leaves = components.iter().map(|&component| Leaf {
        component,
        n_rows: tree.sizes[component],
        cluster: model.groups()[component] as usize,
    });
    let merges = merges.collect::<Option<Vec<_>>>()?;
    Some(MergeTree {
        leaves: leaves.collect(),
        modularity: tree.modularity,
        merges,
        chosen: model.n_clusters(),
    })
}

/// The agreement of each pair, unless the model is of an earlier version.
pub(super) fn restarts(about: &Metadata) -> Option<Restarts> {
    let outcome = outcome(about)?;
    let ari: Vec<Vec<f64>> = about.restarts.iter().map(|restart| restart.agreement.clone()).collect();
    let ari = if ari.iter().all(|row| row.len() == ari.len()) { ari } else { Vec::new() };
    Some(Restarts { ari, stability: about.stability?, outcome })
}

pub(super) fn curves(record: &RestartRecord) -> Vec<Curve> {
    let nats = "nats per row";
    let mut curves = Vec::new();
    let mut add = |name: &str, unit: &str, lines: &[&str], values: Vec<Vec<f64>>| {
        if values.iter().any(|line| line.len() > 1) {
            let (name, unit) = (name.to_string(), unit.to_string());
            let lines = lines.iter().map(ToString::to_string).collect();
            curves.push(Curve { name, unit, lines, values });
        }
    };
    let joint = |value: fn(&JointEpoch) -> f64| record.joint.iter().map(value).collect::<Vec<f64>>();
    add("ELBO", nats, &["ELBO"], vec![joint(|epoch| epoch.elbo)]);
    let terms = vec![
        joint(|epoch| epoch.terms.reconstruction),
        joint(|epoch| epoch.terms.latent),
        joint(|epoch| epoch.terms.cluster),
        joint(|epoch| epoch.terms.entropy),
    ];
    add("Terms of the ELBO", nats, &["reconstruction", "latent", "cluster", "entropy"], terms);
    add("Modularity", "", &["modularity"], vec![states(record, |state| state.modularity)]);
    let live = states(record, |state| state.live_clusters as f64);
    add("Live clusters", "", &["live clusters"], vec![live]);
    let losses: Vec<f64> = record.pretrain.iter().map(|epoch| epoch.loss).collect();
    add("Loss of pretraining", nats, &["loss"], vec![losses]);
    curves
}

/// Values of the last scored state after each epoch of joint training; not every epoch is scored.
fn states(record: &RestartRecord, value: fn(&StateScores) -> f64) -> Vec<f64> {
    let last = |epoch: usize| record.states.iter().rev().find(|state| state.epoch <= epoch);
    (1..=record.joint.len()).map(|epoch| last(epoch).map_or(f64::NAN, value)).collect()
}

/// Names and values.
pub(super) fn provenance(facts: &Facts<'_>) -> Vec<(String, String)> {
    let about = facts.subject.model.metadata();
    let data = facts.subject.table.data;
    let fitted = format!(
        "{} x {}",
        words::counted(about.n_rows, "row"),
        words::counted(about.n_source_columns(), "column")
    );
    let mut lines = vec![
        ("Written by", format!("pervade {}", env!("CARGO_PKG_VERSION"))),
        ("Model written by", format!("pervade {}", about.version)),
        ("Command of this page", facts.subject.caller.report()),
        ("Fitted to", fitted),
        ("Columns", decided(about)),
        ("Checksum of the data of the fit", about.data_checksum.clone()),
        ("Checksum of the data of this page", data.checksum()),
    ];
    if let Some(checksum) = &about.checksum {
        lines.push(("Checksum of the model", checksum.clone()));
    }
    let settings = about.settings.to_keys();
    let settings = settings.iter().map(|(key, value)| (format!("Setting {key}"), short(value)));
    lines.into_iter().map(|(name, value)| (name.to_string(), value)).chain(settings).collect()
}
