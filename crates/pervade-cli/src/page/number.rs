//! Why there are so many clusters, in words.

use pervade::config::Clusters;
use pervade::model::{Metadata, Vade};
use pervade::record::{Level, MergeTree};

use crate::words;

/// Where the number comes from, and what made the clusters.
pub(super) fn sentences(model: &Vade) -> Vec<String> {
    let about = model.metadata();
    let mut sentences = Vec::new();
    if about.record.levels.is_empty() {
        sentences.push(given(about));
    } else {
        sentences.extend(picked(&about.record.levels, about.n_clusters));
    }
    if let Some(method) = about.plain.as_ref().and_then(|plain| plain.method) {
        sentences.push(format!(
            "The clusters themselves are those of {} on the rows, which suit this small table better. No components were merged \
             for them, so there is no merge tree to show.",
            method.words()
        ));
        return sentences;
    }
    match &about.record.merges {
        Some(tree) => sentences.extend(merged(model, tree)),
        None if about.n_components == about.n_clusters => {
            sentences.push("Each cluster is one component of the mixture: nothing was merged.".to_string());
        }
        None => sentences.push(
            "The model was written by an earlier version of pervade, which did not keep the history of the merges."
                .to_string(),
        ),
    }
    sentences
}

/// A number that was asked for, or found from a single mixture.
fn given(about: &Metadata) -> String {
    let k = words::counted(about.n_clusters, "cluster");
    match about.settings.clusters {
        Clusters::Fixed(_) => format!("You asked for {k}."),
        Clusters::Auto => format!("The number was found: {k}."),
    }
}

/// A number that was picked among others.
fn picked(levels: &[Level], n_clusters: usize) -> Option<String> {
    let picked = levels.iter().find(|level| level.picked)?;
    let stable: Vec<String> = levels
        .iter()
        .filter(|level| level.stable && !level.picked)
        .map(|level| level.clusters.to_string())
        .collect();
    let others = match stable.as_slice() {
        [] => String::new(),
        [one] => format!(" Another stable number is {one}."),
        several => format!(" Other stable numbers are {}.", words::listed(several)),
    };
    let changed = if n_clusters == picked.clusters {
        String::new()
    } else {
        format!(" The model has {n_clusters}, as the clusters were chosen among several restarts.")
    };
    Some(format!(
        "The number {} was picked: several mixtures were fitted to the latents, and their clusters compared for each number. \
         Where a number suits the data, they agree: stability squared times modularity is highest here ({:.3} and \
         {:.3}).{others}{changed}",
        picked.clusters, picked.stability, picked.modularity
    ))
}

/// What the merge tree shows.
fn merged(model: &Vade, tree: &MergeTree) -> Vec<String> {
    let about = model.metadata();
    let (k, natural) = (about.n_clusters, tree.natural_clusters);
    if k == 1 {
        return vec![
            "All components belong to it; modularity, which compares clusters, is zero.".to_string(),
        ];
    }
    let mut sentences = Vec::new();
    let with = |k: usize| tree.modularity_with(k).map_or(String::new(), |q| format!(" ({q:.3})"));
    let start = format!("{} were merged, two at a time", words::counted(tree.n_leaves(), "component"));
    sentences.push(if k == natural {
        format!("{start}: modularity is highest with {k}{}, the number in the model.", with(k))
    } else {
        format!(
            "{start}: modularity is highest with {natural}{}; the model has {k}{}.",
            with(natural),
            with(k)
        )
    });
    if tree.by_ward && k < natural {
        sentences.push(format!(
            "That is far fewer than the graph's {natural} natural communities, where modularity is no guide: below {natural} the \
             merges are those with the least growth of the sum of squares (Ward's criterion)."
        ));
    }
    let moved = tree.n_moved(model.groups());
    if moved > 0 {
        let what = match moved {
            1 => "one component was moved to a cluster that suits it".to_string(),
            n => format!("{} were moved to clusters that suit them", words::counted(n, "component")),
        };
        sentences.push(format!(
            "After merging, {what} better, so that some clusters are not one branch of the tree."
        ));
    }
    if let Some(reference) = about.record.reference {
        sentences.push(format!(
            "The tree is that of restart {}, which agrees most with the others; its model was then trained towards the vote of \
             all restarts, which moved rows but no components.",
            reference + 1
        ));
    } else if about.restarts.len() > 1 {
        sentences.push(format!("The tree is that of restart {}, which was kept.", about.record.restart + 1));
    }
    sentences
}
