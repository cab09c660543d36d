//! The result in words.

use pervade::Result;
use pervade::model::{Metadata, PlainSummary};
use pervade::names::ClusterNames;
use pervade_report::Verdict;

use super::Facts;
use crate::report::{LabelScores, found, on_graph_of_rows, restarts};
use crate::words;

/// From this share of doubtful rows on there is a warning.
const MANY_DOUBTFUL: f64 = 0.2;
/// Restarts that agree less than this are a reason for a warning.
const UNSTABLE: f64 = 0.6;
/// A model that follows fewer rows of the clusters that it was trained towards is a reason for a warning.
const FOLLOWED: f64 = 0.9;
/// From so many restarts on, the model is their consensus.
const CONSENSUS: usize = 3;

pub(super) fn of(facts: &Facts<'_>) -> Result<Verdict> {
    let about = facts.subject.model.metadata();
    Ok(Verdict {
        sentences: sentences(facts, about)?,
        warnings: warnings(facts, about),
        next_steps: facts.subject.caller.next_steps(
            is_settled(about),
            about.image.is_some(),
            about.column_names.is_none() && about.image.is_none(),
        ),
    })
}

fn sentences(facts: &Facts<'_>, about: &Metadata) -> Result<Vec<String>> {
    let mut sentences = vec![found(about)];
    sentences.extend(facts.subject.names.and_then(merges));
    sentences.extend(sizes(facts));
    let doubtful = facts.found.doubtful_share;
    if about.n_clusters > 1 {
        sentences.push(format!(
            "In {} of the rows one cluster has a probability above 0.9; {} are doubtful.",
            words::percent(1.0 - doubtful),
            words::percent(doubtful)
        ));
    }
    // Without a vote: the graph is then that of the rows, which the next sentence is about.
    let latents = about.record.kept_state().filter(|state| state.voted.is_none() && about.n_clusters > 1);
    if let Some(state) = latents {
        sentences.push(format!(
            "Modularity on the neighbour graph of the latents: {:.3}; above 0.5 is clear structure.",
            state.modularity
        ));
    }
    sentences.extend(on_graph_of_rows(about).filter(|_| about.n_clusters > 1));
    sentences.extend(restarts(about));
    sentences.extend(about.plain.iter().flat_map(PlainSummary::remarks).map(|remark| sentence(&remark)));
    if let Some(labels) = &facts.subject.table.labels {
        let scores = LabelScores::new(&facts.results.assignments.clusters, labels)?;
        sentences.push(format!("Against the labels, which training never saw: {}.", scores.words()));
    }
    Ok(sentences)
}

/// Which clusters were merged by hand.
fn merges(names: &ClusterNames) -> Option<String> {
    let merged = names.clusters().iter().filter_map(|entry| Some((entry.cluster, entry.merged_into?)));
    let merged: Vec<String> = merged.map(|(k, into)| format!("{k} into {into}")).collect();
    (!merged.is_empty()).then(|| format!("Merged by hand: cluster {}.", merged.join(", ")))
}

fn sizes(facts: &Facts<'_>) -> Option<String> {
    let clusters = &facts.found.clusters;
    let largest = clusters.iter().max_by_key(|cluster| cluster.n_rows)?;
    let alive = clusters.iter().filter(|c| facts.subject.model.has_components(c.cluster));
    let smallest = alive.min_by_key(|cluster| cluster.n_rows)?;
    let words = |cluster: &pervade::describe::ClusterDescription| {
        format!("{} ({})", words::counted(cluster.n_rows, "row"), words::percent(cluster.share))
    };
    let (most, least) = (words(largest), words(smallest));
    (clusters.len() > 1).then(|| format!("The largest cluster has {most}, the smallest {least}."))
}

fn warnings(facts: &Facts<'_>, about: &Metadata) -> Vec<String> {
    let mut warnings: Vec<String> = about.kmeans_remark().iter().map(|remark| sentence(remark)).collect();
    if let Some(state) = about.record.kept_state().filter(|state| state.live_clusters < state.clusters) {
        warnings.push(format!(
            "Only {} of {} clusters have half a percent of the rows or more: ask for fewer clusters, or try more {}.",
            state.live_clusters,
            state.clusters,
            facts.subject.caller.option("restarts")
        ));
    }
    if let Some(stability) = about.stability.filter(|stability| *stability < UNSTABLE) {
        warnings.push(format!(
            "The restarts disagree (mean ARI {stability:.2}, 1 is perfect): another seed would give other clusters. Ask for another \
             number of clusters, or train longer."
        ));
    }
    if let Some(share) =
        about.record.kept_state().and_then(|state| state.voted).filter(|share| *share < FOLLOWED)
    {
        warnings.push(format!(
            "Training towards the final clusters brought only {} of the rows into them: train longer, with more {}.",
            words::percent(share),
            facts.subject.caller.option("epochs")
        ));
    }
    if facts.found.doubtful_share > MANY_DOUBTFUL {
        let share = words::percent(facts.found.doubtful_share);
        warnings.push(format!("{share} of the rows lie between clusters: the borders are uncertain."));
    }
    if facts.found.n_rows != about.n_rows {
        let (shown, fitted) =
            (words::counted(facts.found.n_rows, "row"), words::counted(about.n_rows, "row"));
        warnings.push(format!("This page is about {shown}; the model was fitted to {fitted}."));
    }
    warnings
}

/// Whether more restarts would say nothing more.
fn is_settled(about: &Metadata) -> bool {
    about.restarts.len() >= CONSENSUS || about.n_clusters < 2
}

/// With a capital letter and a full stop.
fn sentence(remark: &str) -> String {
    let mut letters = remark.chars();
    let first = letters.next().map_or(String::new(), |c| c.to_uppercase().to_string());
    format!("{first}{}.", letters.as_str())
}
