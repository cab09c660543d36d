//! A model card: Markdown with YAML front matter, as model hubs show it.

use pervade::Result;
use pervade::compute::Likelihood;
use pervade::config::{Clusters, value_text};
use pervade::data::{Column, PrepareKind};
use pervade::model::{Metadata, Vade};

use crate::onnx::has_scores_for_complete_rows_only;

/// Columns and levels that are listed.
const MOST_COLUMNS: usize = 100;
const MOST_LEVELS: usize = 12;
const MOST_CLUSTERS: usize = 200;

/// The card of a model; `file` is the name of its file, for the commands on the card. The same model gives the same text.
pub fn card(model: &Vade, file: &str) -> Result<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let file = if !file.is_empty() && file.chars().all(is_plain) { file } else { "MODEL.pervade" };
    let about = model.metadata();
    let stem = file.strip_suffix(".pervade").unwrap_or(file);
    let sections = [
        front_matter(model),
        format!("# {}\n\n{}", escaped(stem), what_it_is(model)),
        format!("## Data\n\n{}", data(model)),
        format!("## Clusters\n\n{}", clusters(about)),
        format!("## How sure\n\n{}", how_sure(about)),
        format!("## Intended use and limits\n\n{}", limits(model)),
        format!("## How to use it\n\n{}", usage(model, file, stem)),
        format!("## Settings\n\n{}", settings(about)),
        format!("## Provenance\n\n{}", provenance(model)?),
    ];
    Ok(sections.join("\n"))
}

/// What hubs read. The licence is the user's decision.
fn front_matter(model: &Vade) -> String {
    let about = model.metadata();
    let kind = match about.likelihood {
        _ if model.image().is_some() => "images",
        Likelihood::Counts => "counts",
        Likelihood::Multinomial => "documents",
        _ => "tabular",
    };
    let mut text = String::from(
        "---\nlibrary_name: pervade\n# license: the licence under which you share the model\ntags:\n",
    );
    for tag in ["pervade", "clustering", "variational-deep-embedding", "unsupervised-learning", kind] {
        text.push_str(&format!("- {tag}\n"));
    }
    text.push_str("metrics:\n");
    for (name, _) in metrics(about) {
        text.push_str(&format!("- {name}\n"));
    }
    text.push_str("---\n");
    text
}

/// Scores without labels that the model holds.
fn metrics(about: &Metadata) -> Vec<(&'static str, f64)> {
    let state = about.record.kept_state();
    let consensus = about.consensus.as_ref().map(|consensus| consensus.agreement);
    let all = [
        ("modularity", state.map(|state| state.modularity)),
        ("silhouette", state.map(|state| state.silhouette)),
        ("modularity_of_rows", about.prepared_modularity),
        ("stability", about.stability),
        ("agreement", consensus),
        ("elbo", about.record.kept_elbo()),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

fn what_it_is(model: &Vade) -> String {
    let about = model.metadata();
    let number = match about.settings.clusters {
        Clusters::Auto => "a number that was found, not given",
        Clusters::Fixed(_) => "a number that was given",
    };
    format!(
        "A clustering of rows into {} ({number}), made by pervade with Variational Deep \
         Embedding (VaDE; Jiang et al., IJCAI 2017): a variational auto-encoder whose prior is a mixture of Gaussians. It assigns rows to \
         clusters with probabilities, maps them to {} latent columns, scores how unusual they are, and generates new rows. It was \
         trained without labels.\n",
        counted(about.n_clusters, "cluster"),
        model.n_latents(),
    )
}

fn data(model: &Vade) -> String {
    let about = model.metadata();
    let image = about.image.map_or(String::new(), |image| {
        format!(
            "; pictures of {} x {} pixels, {}",
            image.height,
            image.width,
            counted(image.channels, "channel")
        )
    });
    let mut text = format!(
        "Fitted to {} and {}{image}. Preparation: {}. Likelihood: {}.\n",
        counted(about.n_rows, "row"),
        counted(about.n_source_columns(), "column"),
        preparation(about.preparation.kind()),
        about.likelihood
    );
    if let Some(schema) = model.schema() {
        text.push_str("\n| column | type | levels | gaps | explained |\n| --- | --- | --- | --- | --- |\n");
        for (j, column) in schema.columns.iter().enumerate().take(MOST_COLUMNS) {
            let share = about.explained.get(j).map_or(String::new(), |e| percent(e.share.max(0.0)));
            let gaps = if column.has_gaps { "yes" } else { "no" };
            let (name, levels) = (escaped(&column.name), levels(column));
            text.push_str(&format!("| {name} | {} | {levels} | {gaps} | {share} |\n", column.kind));
        }
        text.push_str(&and_more(schema.columns.len(), MOST_COLUMNS, "column"));
        for (what, names) in [("Kept apart", &schema.kept), ("Left out", &schema.left_out)] {
            if !names.is_empty() {
                text.push_str(&format!("\n{what}: {}.\n", listed(names, MOST_COLUMNS)));
            }
        }
    } else if let Some(names) = model.column_names() {
        text.push_str(&format!("\nColumns: {}.\n", listed(names, MOST_COLUMNS)));
    }
    text
}

fn preparation(kind: PrepareKind) -> &'static str {
    match kind {
        PrepareKind::None => "none",
        PrepareKind::UnitRange => "the table scaled to [0, 1]",
        PrepareKind::Standardise => "every column standardised",
        PrepareKind::RowNorm => "every row scaled to one length",
        PrepareKind::Typed => "every column by its type",
        PrepareKind::Counts => "counts scaled to one sum per row, on a logarithmic scale",
        _ => kind.name(),
    }
}

fn levels(column: &Column) -> String {
    if column.levels.is_empty() { String::new() } else { listed(&column.levels, MOST_LEVELS) }
}

fn clusters(about: &Metadata) -> String {
    let rows: u64 = about.occupancy.iter().sum();
    let agreement = about.consensus.as_ref().map(|consensus| &consensus.cluster_agreement);
    let mut text = String::from("| cluster | rows | share |");
    text.push_str(if agreement.is_some() { " agreement |\n" } else { "\n" });
    text.push_str("| --- | --- | --- |");
    text.push_str(if agreement.is_some() { " --- |\n" } else { "\n" });
    for (cluster, &n) in about.occupancy.iter().enumerate().take(MOST_CLUSTERS) {
        let share = percent(n as f64 / rows.max(1) as f64);
        let agreed =
            agreement.and_then(|all| all.get(cluster)).map(|share| format!(" {} |", percent(*share)));
        text.push_str(&format!("| {cluster} | {n} | {share} |{}\n", agreed.unwrap_or_default()));
    }
    text.push_str(&and_more(about.occupancy.len(), MOST_CLUSTERS, "cluster"));
    if agreement.is_some() {
        text.push_str("\nAgreement is the mean share of the restarts that put a row of the cluster there.\n");
    }
    text
}

fn how_sure(about: &Metadata) -> String {
    let mut text = String::from("| score | value | what it is |\n| --- | --- | --- |\n");
    for (name, value) in metrics(about) {
        let what = match name {
            "modularity" => {
                "of the clusters on the neighbour graph of the latents; above 0.5 is clear structure"
            }
            "silhouette" => "mean of a sample of rows in the latent space",
            "modularity_of_rows" => "of the clusters on the neighbour graph of the rows themselves",
            "stability" => "mean agreement (ARI) of the restarts' clusters; 1 is perfect",
            "agreement" => "mean share of the restarts that agree on the cluster of a row",
            _ => "lower bound of the log likelihood, in nats per row",
        };
        text.push_str(&format!("| {name} | {value:.4} | {what} |\n"));
    }
    if about.stability.is_none() {
        text.push_str("\nThere was one restart: how stable the clusters are is not known.\n");
    }
    let remarks = about.plain.iter().flat_map(|plain| plain.remarks());
    let remarks = remarks.chain(about.record.remarks.iter().cloned()).chain(about.kmeans_remark());
    let remarks = bullets(remarks.map(|remark| escaped(&remark)));
    if !remarks.is_empty() {
        text.push_str(&format!("\nRemarks of the fit:\n\n{remarks}"));
    }
    text
}

fn limits(model: &Vade) -> String {
    let mut lines = vec![
        "Meant for exploring and summarising rows like those of the fit: assigning them to clusters, mapping, scoring and imitating them.",
        "Clusters are groups of similar rows, not causes and not classes with a meaning. They were made without labels: look at their rows \
         before you name or use them.",
        "Rows unlike those of the fit are assigned to some cluster, too: look at their score. Columns must mean what they meant in the fit, in \
         the same units.",
        "Not meant for decisions about people. If columns or clusters stand in for protected attributes, so do the assignments.",
        "Generated rows imitate the table; they are not anonymised.",
    ];
    if model.schema().is_some_and(|schema| schema.has_gaps()) {
        lines.push("Cells were missing in the fit; missing cells of new rows are allowed, and make assignments less sure.");
    }
    bullets(lines.into_iter().map(String::from))
}

fn usage(model: &Vade, file: &str, stem: &str) -> String {
    let data = if model.image().is_some() { "images.npy" } else { "table.csv" };
    let gaps = if has_scores_for_complete_rows_only(model) {
        " The score of rows with missing cells is NaN there."
    } else {
        ""
    };
    format!(
        "```console\n$ pip install pervade\n$ pervade assign {file} {data} --out clusters.csv\n$ pervade report {file} {data}\n```\n\n\
         ```python\nfrom pervade import VaDE\n\nvade = VaDE.load(\"{file}\")\nclusters = vade.predict(X)\nprobabilities = vade.predict_proba(X)\n\
         ```\n\nAs ONNX, for other languages; the preparation is part of the graph.{gaps}\n\n\
         ```console\n$ pervade export {file} --onnx {stem}.onnx\n```\n"
    )
}

fn settings(about: &Metadata) -> String {
    let mut text = String::from("| setting | value |\n| --- | --- |\n");
    for (key, value) in &about.settings.to_keys() {
        text.push_str(&format!("| {} | {} |\n", escaped(key), escaped(&value_text(value))));
    }
    text
}

fn provenance(model: &Vade) -> Result<String> {
    let about = model.metadata();
    Ok(format!(
        "| what | value |\n| --- | --- |\n| written by | pervade {} |\n| format | {} (safetensors) |\n| checksum of the model | {} |\n\
         | checksum of the data | {} |\n| components | {} |\n| restarts | {} |\n",
        escaped(&about.version),
        escaped(&about.format),
        escaped(&model.checksum()?),
        escaped(&about.data_checksum),
        about.n_components,
        about.restarts.len().max(1),
    ))
}

fn bullets(lines: impl Iterator<Item = String>) -> String {
    lines.map(|line| ["- ", &line, "\n"].concat()).collect()
}

fn counted(n: usize, thing: &str) -> String {
    format!("{n} {thing}{}", if n == 1 { "" } else { "s" })
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn listed(names: &[String], most: usize) -> String {
    let shown: Vec<String> = names.iter().take(most).map(|name| escaped(name)).collect();
    let more = names.len().saturating_sub(most);
    if more > 0 { format!("{} and {more} more", shown.join(", ")) } else { shown.join(", ") }
}

fn and_more(n: usize, most: usize, thing: &str) -> String {
    if n > most { format!("\nAnd {} more.\n", counted(n - most, thing)) } else { String::new() }
}

/// Text of the data as text in Markdown: nothing in it is markup, breaks a table, or changes the direction of what follows.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '#' | '~' | '&' | '$' | '!' | '@' => {
                safe.extend(['\\', c]);
            }
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' => {
                safe.push_str(&format!("\\\\u{{{:x}}}", u32::from(c)));
            }
            c if c.is_control() => safe.push(' '),
            c => safe.push(c),
        }
    }
    // Addresses would become links.
    safe.replace("://", ":\\//")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_the_data_is_no_markup() {
        assert_eq!(escaped("a|b\n<script>"), "a\\|b \\<script\\>");
        assert_eq!(escaped("[x](http://y) `code`"), "\\[x\\](http:\\//y) \\`code\\`");
        assert_eq!(escaped("\u{202e}abc"), "\\\\u{202e}abc");
        assert_eq!(escaped("plain name 2"), "plain name 2");
    }
}
