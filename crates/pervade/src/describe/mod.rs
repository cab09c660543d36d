//! What is in each cluster: its size, the columns that tell it from the other rows, typical and doubtful rows, and the
//! clusters that it overlaps with.
//!
//! There are no p-values: the clusters were made from the same columns, so that tests between them would always be
//! significant.

mod columns;
mod compare;
mod details;
mod distinctions;
mod examples;
mod moments;
mod ranks;

use serde::Serialize;

use crate::Result;
use crate::compute::Device;
use crate::data::Dataset;
use crate::model::{Assignments, Vade};
use crate::rows::sample_rows;
use crate::seed::{Key, Stream};

pub use columns::ColumnTexts;
pub use compare::{Comparison, compare_groups};

/// A row is doubtful if no cluster has a probability above this.
pub const DOUBTFUL: f32 = 0.9;

/// Rows that ranks, medians and histograms are taken from, at most.
const SAMPLE_ROWS: usize = 20_000;

/// How much is described.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DescribeOptions {
    /// Columns per cluster, the most telling ones.
    pub columns: usize,
    /// Typical rows per cluster.
    pub typical: usize,
    /// Doubtful rows per cluster.
    pub doubtful: usize,
    /// Rows per pair of clusters that lie between them.
    pub between: usize,
    /// Rows that are least like any cluster.
    pub outliers: usize,
    /// Columns per such row, the least expected ones.
    pub costs: usize,
    /// Generated rows per cluster whose distributions are compared with those of the real rows; 0 for none.
    pub generated: usize,
}

impl Default for DescribeOptions {
    fn default() -> Self {
        Self { columns: 12, typical: 5, doubtful: 5, between: 3, outliers: 10, costs: 3, generated: 0 }
    }
}

impl DescribeOptions {
    /// Applies a change.
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

/// What the model says about each row.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RowResults {
    /// The clusters and their probabilities.
    pub assignments: Assignments,
    /// The score of each row, in nats.
    pub scores: Vec<f64>,
    /// How unusual each row is; see [`Vade::anomaly`].
    pub anomalies: Vec<f64>,
}

impl RowResults {
    /// Passes the rows through the model.
    pub fn new<D: Device>(model: &Vade, device: &D, data: &Dataset) -> Result<Self> {
        let assignments = model.assign(device, data)?;
        let scores = model.score(device, data)?;
        let anomalies = model.anomaly(device, data, &scores)?;
        Ok(Self { assignments, scores, anomalies })
    }

    /// Appends the results of the rows that follow.
    pub fn append(&mut self, next: Self) {
        self.assignments.clusters.extend(next.assignments.clusters);
        self.assignments.probabilities.extend(next.assignments.probabilities);
        self.scores.extend(next.scores);
        self.anomalies.extend(next.anomalies);
    }

    /// The probability of the cluster of row `i`.
    pub fn confidence(&self, i: usize) -> f32 {
        self.probabilities(i)[self.assignments.clusters[i] as usize]
    }

    /// The probability of each cluster. `[K]`
    pub(crate) fn probabilities(&self, i: usize) -> &[f32] {
        let k = self.assignments.n_clusters;
        &self.assignments.probabilities[i * k..(i + 1) * k]
    }
}

/// A description of all clusters. Rows and clusters count from zero.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Description {
    /// Number of rows, N.
    pub n_rows: usize,
    /// Number of columns, D.
    pub n_columns: usize,
    /// What the scores are: `log_density` or `elbo`.
    pub score_name: &'static str,
    /// Share of the rows in which no cluster has a probability above [`DOUBTFUL`].
    pub doubtful_share: f64,
    /// One per cluster, in order.
    pub clusters: Vec<ClusterDescription>,
    /// Mean of q(k|x) over the rows of cluster j. `[K][K]`
    pub overlap: Vec<Vec<f64>>,
    /// Pairs of clusters with rows between them, the pair with most rows first.
    pub between: Vec<BetweenClusters>,
    /// Rows that are least like any cluster, the strangest first.
    pub outliers: Vec<OutlierRow>,
}

/// One cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ClusterDescription {
    /// Its index.
    pub cluster: usize,
    /// Number of its rows.
    pub n_rows: usize,
    /// Its share of all rows.
    pub share: f64,
    /// Mean probability of the cluster over its rows; null if it has none.
    pub mean_confidence: f64,
    /// Counts of its rows by that probability, in ten equal steps from 0 to 1.
    pub confidence: [usize; 10],
    /// Columns that tell it from the other rows, the most telling first.
    pub columns: Vec<Distinction>,
    /// Rows with the highest scores among those of high confidence.
    pub typical: Vec<ExampleRow>,
    /// Rows with the lowest confidence, if any are doubtful.
    pub doubtful: Vec<ExampleRow>,
    /// The mean row, if rows are pictures.
    #[serde(skip)]
    pub mean_row: Option<Vec<f32>>,
}

/// How a column of one cluster differs from the other rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Distinction {
    /// Name of the column, or of a level as "column: level".
    pub name: String,
    /// Index of the column.
    pub column: usize,
    /// Index of the level.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<usize>,
    /// Difference of the means in standard deviations of the column.
    pub difference: f64,
    /// Probability that a row of the cluster has a higher value than another row, ties counting half.
    pub auc: f64,
    /// The typical value in the cluster as text: the median, the share of the level, or the share above zero and the mean.
    pub inside: String,
    /// The typical value in the other rows.
    pub outside: String,
    /// The column in the cluster, in the other rows, and in generated rows.
    pub distribution: Distribution,
}

/// A column in the cluster, in the other rows, and in generated rows of the cluster; each list sums to one or is empty.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Distribution {
    /// Shares of rows in bins of equal width; the first and the last bin also have the rows beyond them.
    Histogram {
        /// The lower end of the first bin and the upper end of the last.
        range: [f64; 2],
        /// The same as text.
        labels: [String; 2],
        /// In the cluster.
        inside: Vec<f32>,
        /// In the other rows.
        outside: Vec<f32>,
        /// In generated rows.
        generated: Vec<f32>,
    },
    /// Shares of rows per level.
    Levels {
        /// Names of the levels.
        names: Vec<String>,
        /// In the cluster.
        inside: Vec<f32>,
        /// In the other rows.
        outside: Vec<f32>,
        /// In generated rows.
        generated: Vec<f32>,
    },
    /// A column that is mostly zero: the share of rows above zero, and the mean.
    Term {
        /// In the cluster.
        inside: [f64; 2],
        /// In the other rows.
        outside: [f64; 2],
        /// Logarithm of the ratio of the odds of being above zero.
        log_odds: f64,
    },
}

/// A row as an example.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ExampleRow {
    /// Its index in the table.
    pub row: usize,
    /// Probability of its cluster.
    pub confidence: f32,
    /// The second most probable cluster and its probability; none if there is one cluster only.
    pub second: Option<(usize, f32)>,
    /// Its score, in nats.
    pub score: f64,
}

/// Rows between two clusters.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct BetweenClusters {
    /// The two clusters, the smaller index first.
    pub clusters: [usize; 2],
    /// Number of doubtful rows whose two most probable clusters these are.
    pub n_rows: usize,
    /// Some of them, the most doubtful first.
    pub examples: Vec<ExampleRow>,
}

/// A row that is unlike the others.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct OutlierRow {
    /// The row.
    pub example: ExampleRow,
    /// Its cluster.
    pub cluster: usize,
    /// How unusual it is.
    pub anomaly: f64,
    /// The cells that the model expected least.
    pub costs: Vec<OutlierCell>,
}

/// A cell of an unusual row.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct OutlierCell {
    /// Name of its column.
    pub column: String,
    /// The cell as text.
    pub value: String,
    /// The value that the model expects.
    pub expected: String,
    /// How much less likely the cell is than that, in nats.
    pub nats: f64,
}

/// Describes the clusters of the rows, which need not be those of the fit. Columns are [matched](Vade::matched) by name.
pub fn describe<D: Device>(
    model: &Vade,
    device: &D,
    data: &Dataset,
    options: &DescribeOptions,
) -> Result<Description> {
    let data = &*model.matched(data)?;
    describe_rows(model, device, data, &RowResults::new(model, device, data)?, options)
}

/// [`describe`] for rows that were passed through the model already.
pub fn describe_rows<D: Device>(
    model: &Vade,
    device: &D,
    data: &Dataset,
    results: &RowResults,
    options: &DescribeOptions,
) -> Result<Description> {
    let data = &*model.matched(data)?;
    let texts = ColumnTexts::new(model);
    let sample = sample_rows(data.n_rows(), SAMPLE_ROWS, Key::new(0, Stream::Sample, 0));
    let clusters =
        distinctions::Clusters::new(data, &results.assignments.clusters, results.assignments.n_clusters);
    let mut columns = distinctions::of_all(&clusters, &texts, &sample, options.columns);
    details::add_generated(model, device, options.generated, &mut columns)?;
    let sizes = clusters.sizes();
    let (confidence, means) = examples::confidences(results, sizes);
    let clusters_of = columns.into_iter().enumerate().map(|(k, columns)| ClusterDescription {
        cluster: k,
        n_rows: sizes[k],
        share: sizes[k] as f64 / data.n_rows() as f64,
        mean_confidence: means[k],
        confidence: confidence[k],
        columns,
        typical: examples::typical(data, results, k, options.typical),
        doubtful: examples::doubtful(results, k, options.doubtful),
        mean_row: data.image().or(model.image()).map(|_| clusters.mean_row(k)),
    });
    let described = Description {
        n_rows: data.n_rows(),
        n_columns: data.n_columns(),
        score_name: model.score_name(),
        doubtful_share: examples::doubtful_share(results),
        clusters: clusters_of.collect(),
        overlap: examples::overlap(results, sizes),
        between: examples::between(results, options.between),
        outliers: examples::outliers(model, device, data, results, &texts, options)?,
    };
    data.unless_changed(Ok(described))
}

#[cfg(test)]
mod tests;
