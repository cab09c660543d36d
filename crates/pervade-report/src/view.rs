//! The content as the page's script reads it: pictures as `data:` URLs, the map apart, and nothing that does not fit
//! together. Numbers that are not finite become `null`.

use serde::Serialize;

use crate::encode::picture_url;
use crate::packed_map::{MapHeader, PackedMap};
use crate::{
    Between, Cluster, Content, Curve, Distinction, Distribution, Example, Level, MergeTree, Outlier,
    Restarts, Verdict,
};

#[derive(Serialize)]
pub(crate) struct View<'a> {
    title: &'a str,
    n_rows: usize,
    n_columns: usize,
    /// Number of clusters: one card each, or one more than the largest index on the map.
    n_clusters: usize,
    verdict: &'a Verdict,
    map: Option<&'a MapHeader<'a>>,
    clusters: Vec<ClusterView<'a>>,
    /// Empty, or `[K][K]`.
    overlap: &'a [Vec<f64>],
    between: Vec<BetweenView<'a>>,
    outliers: Vec<OutlierView<'a>>,
    number_sentences: &'a [String],
    levels: &'a [Level],
    tree: Option<&'a MergeTree>,
    restarts: Option<&'a Restarts>,
    curves: Vec<CurveView<'a>>,
    provenance: &'a [(String, String)],
}

#[derive(Serialize)]
struct ClusterView<'a> {
    name: Option<&'a str>,
    label: Option<&'a (String, f64)>,
    n_rows: usize,
    confidence: [usize; 10],
    mean_confidence: f64,
    columns: Vec<DistinctionView<'a>>,
    typical: Vec<ExampleView<'a>>,
    doubtful: Vec<ExampleView<'a>>,
    generated: Vec<ExampleView<'a>>,
    mean_picture: Option<String>,
}

#[derive(Serialize)]
pub(crate) struct DistinctionView<'a> {
    column: &'a str,
    difference: f64,
    auc: f64,
    inside: &'a str,
    outside: &'a str,
    distribution: DistributionView<'a>,
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum DistributionView<'a> {
    Histogram { labels: &'a [String; 2], shares: Shares<'a> },
    Levels { names: &'a [String], shares: Shares<'a> },
    Term { inside: [f64; 2], outside: [f64; 2], log_odds: f64 },
}

/// Three lists of the same length; the last two may be empty.
#[derive(Serialize)]
struct Shares<'a> {
    inside: &'a [f32],
    outside: &'a [f32],
    generated: &'a [f32],
}

#[derive(Serialize)]
pub(crate) struct ExampleView<'a> {
    row: Option<usize>,
    name: Option<&'a str>,
    confidence: Option<f64>,
    second: Option<(usize, f64)>,
    cells: &'a [(String, String)],
    picture: Option<String>,
}

#[derive(Serialize)]
struct BetweenView<'a> {
    clusters: [usize; 2],
    n_rows: usize,
    examples: Vec<ExampleView<'a>>,
}

#[derive(Serialize)]
struct OutlierView<'a> {
    example: ExampleView<'a>,
    cluster: Option<usize>,
    score: f64,
    costs: &'a [(String, String, String, f64)],
}

#[derive(Serialize)]
struct CurveView<'a> {
    name: &'a str,
    unit: &'a str,
    lines: &'a [String],
    values: &'a [Vec<f64>],
}

impl<'a> View<'a> {
    pub(crate) fn new(content: &'a Content, map: Option<&'a PackedMap<'a>>) -> View<'a> {
        let k = content.clusters.len().max(map.map_or(0, |map| map.n_clusters));
        let overlap = &content.overlap.mean_probabilities;
        View {
            title: &content.title,
            n_rows: content.n_rows,
            n_columns: content.n_columns,
            n_clusters: k,
            verdict: &content.verdict,
            map: map.map(|map| &map.header),
            clusters: content.clusters.iter().map(|cluster| cluster_view(cluster, k)).collect(),
            overlap: if is_square(overlap) && overlap.len() == k { overlap } else { &[] },
            between: content.overlap.between.iter().filter_map(|pair| between_view(pair, k)).collect(),
            outliers: content.outliers.iter().map(|outlier| outlier_view(outlier, k)).collect(),
            number_sentences: &content.number_sentences,
            levels: &content.levels,
            tree: content.tree.as_ref().filter(|tree| is_tree(tree)),
            restarts: content.restarts.as_ref().filter(|restarts| is_square(&restarts.ari)),
            curves: content.curves.iter().map(curve_view).collect(),
            provenance: &content.provenance,
        }
    }
}

/// Whether each merge is one of groups that are left.
fn is_tree(tree: &MergeTree) -> bool {
    let n = tree.leaves.len();
    let mut is_left = vec![true; n];
    let mut is_next = |&(a, b, _): &(usize, usize, f64)| {
        let holds = a < b && b < n && is_left[a] && is_left[b];
        if holds {
            is_left[b] = false;
        }
        holds
    };
    n > 1
        && (1..=n).contains(&tree.chosen)
        && tree.merges.iter().all(&mut is_next)
        && tree.merges.len() + 1 == n
}

fn is_square(matrix: &[Vec<f64>]) -> bool {
    matrix.iter().all(|row| row.len() == matrix.len())
}

fn cluster_view(cluster: &Cluster, k: usize) -> ClusterView<'_> {
    ClusterView {
        name: cluster.name.as_deref(),
        label: cluster.label.as_ref(),
        n_rows: cluster.n_rows,
        confidence: cluster.confidence,
        mean_confidence: cluster.mean_confidence,
        columns: cluster.columns.iter().map(distinction_view).collect(),
        typical: example_views(&cluster.typical, k),
        doubtful: example_views(&cluster.doubtful, k),
        generated: example_views(&cluster.generated, k),
        mean_picture: cluster.mean_picture.as_ref().and_then(picture_url),
    }
}

pub(crate) fn distinction_view(column: &Distinction) -> DistinctionView<'_> {
    DistinctionView {
        column: &column.column,
        difference: column.difference,
        auc: column.auc,
        inside: &column.inside,
        outside: &column.outside,
        distribution: distribution_view(&column.distribution),
    }
}

fn distribution_view(distribution: &Distribution) -> DistributionView<'_> {
    match distribution {
        Distribution::Histogram { range: _, labels, inside, outside, generated } => {
            DistributionView::Histogram {
                labels,
                shares: Shares::new(inside.len(), inside, outside, generated),
            }
        }
        Distribution::Levels { names, inside, outside, generated } => {
            DistributionView::Levels { names, shares: Shares::new(names.len(), inside, outside, generated) }
        }
        &Distribution::Term { inside, outside, log_odds } => {
            DistributionView::Term { inside, outside, log_odds }
        }
    }
}

impl<'a> Shares<'a> {
    fn new(n: usize, inside: &'a [f32], outside: &'a [f32], generated: &'a [f32]) -> Shares<'a> {
        let fitting = |shares: &'a [f32]| if shares.len() == n { shares } else { &[] };
        Shares { inside: fitting(inside), outside: fitting(outside), generated: fitting(generated) }
    }
}

pub(crate) fn example_views(examples: &[Example], k: usize) -> Vec<ExampleView<'_>> {
    examples.iter().map(|example| example_view(example, k)).collect()
}

fn example_view(example: &Example, k: usize) -> ExampleView<'_> {
    ExampleView {
        row: example.row,
        name: example.name.as_deref(),
        confidence: example.confidence,
        second: example.second.filter(|(cluster, _)| *cluster < k),
        cells: &example.cells,
        picture: example.picture.as_ref().and_then(picture_url),
    }
}

/// None if it is not a pair of two clusters.
fn between_view(pair: &Between, k: usize) -> Option<BetweenView<'_>> {
    let [a, b] = pair.clusters;
    let clusters = [a.min(b), a.max(b)];
    let examples = || example_views(&pair.examples, k);
    (a != b && clusters[1] < k).then(|| BetweenView { clusters, n_rows: pair.n_rows, examples: examples() })
}

fn outlier_view(outlier: &Outlier, k: usize) -> OutlierView<'_> {
    OutlierView {
        example: example_view(&outlier.example, k),
        cluster: Some(outlier.cluster).filter(|cluster| *cluster < k),
        score: outlier.score,
        costs: &outlier.costs,
    }
}

fn curve_view(curve: &Curve) -> CurveView<'_> {
    let n = curve.lines.len().min(curve.values.len());
    CurveView { name: &curve.name, unit: &curve.unit, lines: &curve.lines[..n], values: &curve.values[..n] }
}
