//! The content of a report, gathered from a model and its rows.

pub(crate) mod cards;
mod examples;
mod history;
mod map;
mod verdict;

use std::path::Path;

use pervade::compute::Device;
use pervade::data::Table;
use pervade::describe::{ColumnTexts, DescribeOptions, Description, RowResults, describe_rows};
use pervade::model::Vade;
use pervade::names::ClusterNames;
use pervade::{Error, Result};
use pervade_report::Content;

use crate::console::Console;
use crate::{outputs, words};
use cards::Cards;
pub(crate) use examples::Examples;
use map::Positions;

/// Rows on the map.
pub(crate) const MAX_POINTS: usize = 100_000;
/// Larger pages take long to open.
const LARGE: u64 = 10_000_000;
/// Columns on a cluster's card.
const COLUMNS: usize = 12;
/// Examples of each sort on a card, if there are few clusters; all cards together have about `ALL_EXAMPLES`.
const EXAMPLES: usize = 8;
const ALL_EXAMPLES: usize = 240;
/// Rows least like any cluster.
const OUTLIERS: usize = 20;
/// Generated cells per cluster whose distributions are shown, and rows at most.
const GENERATED_CELLS: usize = 1 << 20;
const GENERATED_ROWS: usize = 1000;

/// What a report is about.
pub(crate) struct Subject<'a> {
    pub(crate) model: &'a Vade,
    pub(crate) table: &'a Table,
    /// Name of the model file, for commands.
    pub(crate) model_name: String,
    /// Arguments that name the data, for commands.
    pub(crate) data: String,
    /// The heading.
    pub(crate) title: String,
    /// Rows on the map, at most.
    pub(crate) points: usize,
    /// Names and merges, which `model` has already.
    pub(crate) names: Option<&'a ClusterNames>,
}

impl Subject<'_> {
    /// The name of a cluster, or what became of it.
    fn name(&self, cluster: usize) -> Option<String> {
        let entry = self.names?.clusters().get(cluster)?;
        entry.merged_into.map(|into| format!("merged into {into}")).or_else(|| entry.name.clone())
    }
}

/// What takes longest to find out about the rows; merging clusters changes only the assignments.
pub(crate) struct Gathered {
    pub(crate) results: RowResults,
    /// Latent means. `[N, J]`
    pub(crate) latents: Vec<f32>,
    pub(crate) positions: Positions,
}

impl Gathered {
    pub(crate) fn new<D: Device>(subject: &Subject<'_>, device: &D, console: &Console) -> Result<Self> {
        let (model, data) = (subject.model, &subject.table.data);
        if subject.points == 0 {
            return Err(Error::setting("points", 0, "must be at least 1"));
        }
        let results = RowResults::new(model, device, data)?;
        let latents = model.embed(device, data)?;
        let clusters = &results.assignments.clusters;
        let positions = Positions::new(&latents, model.n_latents(), clusters, subject.points, console)?;
        Ok(Self { results, latents, positions })
    }
}

/// Everything that is known about the rows.
struct Facts<'a> {
    subject: &'a Subject<'a>,
    results: &'a RowResults,
    found: &'a Description,
    texts: &'a ColumnTexts,
    examples: &'a Examples<'a>,
}

/// Writes the page and prints its size, which is returned.
pub(crate) fn write<D: Device>(
    subject: &Subject<'_>,
    device: &D,
    out: &Path,
    console: &Console,
) -> Result<u64> {
    let (content, _) = content(subject, device, &Gathered::new(subject, device, console)?)?;
    let html = pervade_report::page(&content);
    outputs::text(out, &html)?;
    let bytes = html.len() as u64;
    console.say(&format!("wrote {}, {}: open it in a browser", out.display(), words::bytes(bytes)));
    if bytes > LARGE {
        console
            .say("note: the page is large; show fewer rows on its map with `pervade report --points 20000`");
    }
    Ok(bytes)
}

/// Everything on the page, and the description that it was made from.
pub(crate) fn content<D: Device>(
    subject: &Subject<'_>,
    device: &D,
    gathered: &Gathered,
) -> Result<(Content, Description)> {
    let (model, data, results) = (subject.model, &subject.table.data, &gathered.results);
    let examples = (ALL_EXAMPLES / 3 / model.n_clusters().max(1)).clamp(2, EXAMPLES);
    let options = DescribeOptions::default().with(|o| {
        // The mean picture says more than single pixels.
        o.columns = if model.image().is_some() { 0 } else { COLUMNS };
        (o.typical, o.doubtful) = (examples, examples);
        o.outliers = OUTLIERS;
        o.generated = (GENERATED_CELLS / model.n_columns()).min(GENERATED_ROWS);
    });
    let found = describe_rows(model, device, data, results, &options)?;
    let texts = ColumnTexts::new(model);
    let rows = Examples::new(model, subject.table, &texts);
    let facts = Facts { subject, results, found: &found, texts: &texts, examples: &rows };
    let cards = Cards { facts: &facts };
    let about = model.metadata();
    let content = Content {
        title: subject.title.clone(),
        n_rows: data.n_rows(),
        n_columns: data.n_columns(),
        verdict: verdict::of(&facts)?,
        map: Some(map::of(&facts, &gathered.positions)),
        clusters: cards.clusters(device, examples)?,
        overlap: cards.overlap(),
        outliers: cards.outliers(),
        levels: history::levels(about),
        restarts: history::restarts(about),
        curves: history::curves(&about.record),
        provenance: history::provenance(&facts),
    };
    data.unless_changed(Ok((content, found)))
}

impl Facts<'_> {
    /// Columns that tell clusters apart: the most telling one of each cluster first, then the second ones, and so on.
    fn telling_columns(&self, limit: usize) -> Vec<usize> {
        let mut columns = Vec::new();
        for rank in 0..COLUMNS {
            for column in self.found.clusters.iter().filter_map(|cluster| cluster.columns.get(rank)) {
                if !columns.contains(&column.column) && columns.len() < limit {
                    columns.push(column.column);
                }
            }
        }
        columns
    }
}
