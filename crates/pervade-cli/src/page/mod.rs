//! The content of a report, gathered from a model and its rows.

mod caller;
pub(crate) mod cards;
mod examples;
mod forecast;
mod history;
mod map;
mod number;
mod verdict;

use std::path::Path;

use pervade::compute::Device;
use pervade::data::{Dataset, Kept, Labels, Table};
use pervade::describe::{ColumnTexts, DescribeOptions, Description, RowResults, describe_rows};
use pervade::model::Vade;
use pervade::names::ClusterNames;
use pervade::{Error, Result};
use pervade_report::Content;

use crate::console::Console;
use crate::feedback::Feedback;
use crate::layout::interrupted;
use crate::{outputs, words};
pub use caller::Caller;
use cards::Cards;
pub(crate) use examples::Examples;
pub(crate) use forecast::forecast;
use map::Positions;

/// Rows on the map.
pub const MAX_POINTS: usize = 100_000;
/// Rows between two questions whether to go on.
pub const PART: usize = 2048;
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
pub struct Subject<'a> {
    /// The fitted model.
    pub model: &'a Vade,
    /// Its rows, or others with the same columns.
    pub table: TableView<'a>,
    /// Whoever asked for the page.
    pub caller: Caller,
    /// The heading.
    pub title: String,
    /// Rows on the map, at most.
    pub points: usize,
    /// Names and merges, which `model` has already.
    pub names: Option<&'a ClusterNames>,
}

impl Subject<'_> {
    /// The name of a cluster, or what became of it.
    fn name(&self, cluster: usize) -> Option<String> {
        let entry = self.names?.clusters().get(cluster)?;
        entry.merged_into.map(|into| format!("merged into {into}")).or_else(|| entry.name.clone())
    }
}

/// A table whose values may be borrowed.
#[derive(Clone, Copy)]
pub struct TableView<'a> {
    /// The rows.
    pub data: &'a Dataset<'a>,
    /// Labels that the clusters are compared with.
    pub labels: Option<&'a Labels>,
    /// Columns that are not clustered and name the rows.
    pub kept: Option<&'a Kept>,
}

impl<'a> From<&'a Table> for TableView<'a> {
    fn from(table: &'a Table) -> Self {
        Self { data: &table.data, labels: table.labels.as_ref(), kept: table.kept.as_ref() }
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
    pub(crate) fn new<D: Device>(subject: &Subject<'_>, device: &D, feedback: &dyn Feedback) -> Result<Self> {
        let (model, data) = (subject.model, subject.table.data);
        if subject.points == 0 {
            return Err(Error::setting("points", 0, "must be at least 1"));
        }
        let results = row_results(model, device, data, feedback)?;
        let latents = model.embed(device, data)?;
        let clusters = &results.assignments.clusters;
        let positions =
            Positions::new(&latents, model.n_latents(), clusters, subject.points, feedback, &subject.caller)?;
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
    let html = report_page(subject, device, console)?;
    outputs::text(out, &html)?;
    let bytes = html.len() as u64;
    console.say(&format!("wrote {}, {}: open it in a browser", out.display(), words::bytes(bytes)));
    if bytes > LARGE {
        console
            .say("note: the page is large; show fewer rows on its map with `pervade report --points 20000`");
    }
    Ok(bytes)
}

/// The page as HTML.
pub fn report_page<D: Device>(subject: &Subject<'_>, device: &D, feedback: &dyn Feedback) -> Result<String> {
    let (content, _) = content(subject, device, &Gathered::new(subject, device, feedback)?)?;
    Ok(pervade_report::page(&content))
}

/// Everything on the page, and the description that it was made from.
pub(crate) fn content<D: Device>(
    subject: &Subject<'_>,
    device: &D,
    gathered: &Gathered,
) -> Result<(Content, Description)> {
    let (model, data, results) = (subject.model, subject.table.data, &gathered.results);
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
        n_columns: data.n_source_columns(),
        verdict: verdict::of(&facts)?,
        map: Some(map::of(&facts, &gathered.positions)),
        clusters: cards.clusters(device, examples)?,
        overlap: cards.overlap(),
        outliers: cards.outliers(),
        number_sentences: number::sentences(model),
        levels: history::levels(about),
        tree: history::tree(model),
        restarts: history::restarts(about),
        curves: history::curves(&about.record),
        provenance: history::provenance(&facts),
    };
    data.unless_changed(Ok((content, found)))
}

/// What the model says about each row. A row's result does not depend on the others, so that the work can end between parts.
pub fn row_results<D: Device>(
    model: &Vade,
    device: &D,
    data: &Dataset<'_>,
    feedback: &dyn Feedback,
) -> Result<RowResults> {
    let mut results: Option<RowResults> = None;
    for first in (0..data.n_rows()).step_by(PART) {
        if !feedback.goes_on() {
            return Err(interrupted());
        }
        let part = data.slice(first..data.n_rows().min(first + PART));
        let found = RowResults::new(model, device, &part)?;
        match &mut results {
            Some(results) => results.append(found),
            None => results = Some(found),
        }
    }
    results.map_or_else(|| RowResults::new(model, device, data), Ok)
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
