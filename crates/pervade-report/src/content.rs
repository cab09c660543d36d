//! What a report shows, as plain data. Whoever has a model and its rows fills it in; nothing here computes.

use serde::{Deserialize, Serialize};

use crate::nullable::or_nan;

/// Everything on the page. Row indices count from zero and are shown counting from one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Content {
    /// Name of the table, for the heading.
    pub title: String,
    /// Number of rows, N.
    pub n_rows: usize,
    /// Number of clustered columns, D.
    pub n_columns: usize,
    /// The result in words.
    pub verdict: Verdict,
    /// All rows, or a sample of them, in the plane.
    pub map: Option<Map>,
    /// One per cluster, in order.
    pub clusters: Vec<Cluster>,
    /// Which clusters are hard to tell apart.
    pub overlap: Overlap,
    /// Rows that are least like any cluster, the strangest first.
    pub outliers: Vec<Outlier>,
    /// Why there are so many clusters, one sentence each.
    pub number_sentences: Vec<String>,
    /// Numbers of clusters that were compared; empty if the number was given.
    pub levels: Vec<Level>,
    /// How the components were merged into clusters, if they were.
    pub tree: Option<MergeTree>,
    /// Agreement of the restarts, if there are several.
    pub restarts: Option<Restarts>,
    /// Training curves.
    pub curves: Vec<Curve>,
    /// How the result was made: command, settings, seed, checksum of the data, version.
    pub provenance: Vec<(String, String)>,
}

/// The result in words.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Verdict {
    /// What was found and how sure it is, one sentence each.
    pub sentences: Vec<String>,
    /// What the user should be warned of.
    pub warnings: Vec<String>,
    /// What to do next: commands and advice.
    pub next_steps: Vec<String>,
}

/// Rows in the plane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Map {
    /// Index of each point's row in the table, increasing; empty if all rows are shown.
    pub rows: Vec<u32>,
    /// Coordinates of the points.
    #[serde(deserialize_with = "or_nan")]
    pub points: Vec<[f32; 2]>,
    /// Cluster of each point.
    pub clusters: Vec<u32>,
    /// Probability of that cluster, between 0 and 1.
    #[serde(deserialize_with = "or_nan")]
    pub confidence: Vec<f32>,
    /// Score of each point, in nats; lower is stranger.
    #[serde(deserialize_with = "or_nan")]
    pub scores: Vec<f32>,
    /// Columns that the points can be coloured by.
    pub columns: Vec<MapColumn>,
    /// Identifiers of the points, such as those of kept columns; empty if there are none.
    pub names: Vec<String>,
}

/// The values of a column at the points of the map.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MapColumn {
    /// Name of the column.
    pub name: String,
    /// Names of its levels; empty for numbers.
    pub levels: Vec<String>,
    /// A number, or the index of a level; NaN where it is missing.
    #[serde(deserialize_with = "or_nan")]
    pub values: Vec<f32>,
}

/// One cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cluster {
    /// Its name, if the user gave one.
    pub name: Option<String>,
    /// The most frequent known label of its rows, and the share of the rows that have it.
    pub label: Option<(String, f64)>,
    /// Number of its rows.
    pub n_rows: usize,
    /// Counts of its rows by confidence, in ten equal steps from 0 to 1.
    pub confidence: [usize; 10],
    /// Mean confidence of its rows.
    #[serde(deserialize_with = "or_nan")]
    pub mean_confidence: f64,
    /// Columns that tell it from the other rows, the most telling first.
    pub columns: Vec<Distinction>,
    /// Its most typical rows.
    pub typical: Vec<Example>,
    /// Its most doubtful rows.
    pub doubtful: Vec<Example>,
    /// Generated rows.
    pub generated: Vec<Example>,
    /// The mean picture, if rows are pictures.
    pub mean_picture: Option<Picture>,
}

/// How a column of one cluster differs from the other rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Distinction {
    /// Name of the column, or of a level as "column: level".
    pub column: String,
    /// Difference of the means in standard deviations of the column.
    #[serde(deserialize_with = "or_nan")]
    pub difference: f64,
    /// Probability that a row of the cluster has a higher value than another row: 0.5 says nothing.
    #[serde(deserialize_with = "or_nan")]
    pub auc: f64,
    /// Its typical value in the cluster, as text in the table's own units.
    pub inside: String,
    /// Its typical value in the other rows.
    pub outside: String,
    /// What kind of distributions are compared.
    pub distribution: Distribution,
}

/// A column in the cluster, in the other rows, and in generated rows of the cluster; each list sums to one, or is empty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Distribution {
    /// Shares of rows in bins of equal width.
    Histogram {
        /// The lower end of the first bin and the upper end of the last.
        #[serde(deserialize_with = "or_nan")]
        range: [f64; 2],
        /// The same as text, such as dates.
        labels: [String; 2],
        /// In the cluster.
        #[serde(deserialize_with = "or_nan")]
        inside: Vec<f32>,
        /// In the other rows.
        #[serde(deserialize_with = "or_nan")]
        outside: Vec<f32>,
        /// In generated rows of the cluster.
        #[serde(deserialize_with = "or_nan")]
        generated: Vec<f32>,
    },
    /// Shares of rows per level.
    Levels {
        /// Names of the levels.
        names: Vec<String>,
        /// In the cluster.
        #[serde(deserialize_with = "or_nan")]
        inside: Vec<f32>,
        /// In the other rows.
        #[serde(deserialize_with = "or_nan")]
        outside: Vec<f32>,
        /// In generated rows of the cluster.
        #[serde(deserialize_with = "or_nan")]
        generated: Vec<f32>,
    },
    /// A term or count that is mostly zero: the share of rows above zero and the mean, in the cluster and outside.
    Term {
        /// Share above zero and mean in the cluster.
        #[serde(deserialize_with = "or_nan")]
        inside: [f64; 2],
        /// Share above zero and mean in the other rows.
        #[serde(deserialize_with = "or_nan")]
        outside: [f64; 2],
        /// Logarithm of the ratio of the odds of being above zero.
        #[serde(deserialize_with = "or_nan")]
        log_odds: f64,
    },
}

/// A row as an example.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Example {
    /// Its index in the table; none for generated rows.
    pub row: Option<usize>,
    /// Its identifier, if a kept column has one.
    pub name: Option<String>,
    /// Probability of its cluster.
    pub confidence: Option<f64>,
    /// The second most probable cluster and its probability, for doubtful rows.
    #[serde(deserialize_with = "or_nan")]
    pub second: Option<(usize, f64)>,
    /// Some cells: the name of the column, and the value as it is in the table.
    pub cells: Vec<(String, String)>,
    /// The row as a picture.
    pub picture: Option<Picture>,
}

/// Pixels, row by row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Picture {
    /// Width in pixels.
    pub width: usize,
    /// Height in pixels.
    pub height: usize,
    /// 1 for grey, 3 for red, green and blue.
    pub channels: usize,
    /// `[height, width, channels]`
    pub pixels: Vec<u8>,
}

/// How rows of one cluster are shared among all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Overlap {
    /// Mean probability of cluster k over the rows of cluster j. `[K][K]`
    #[serde(deserialize_with = "or_nan")]
    pub mean_probabilities: Vec<Vec<f64>>,
    /// Rows between pairs of clusters.
    pub between: Vec<Between>,
}

/// Rows between two clusters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Between {
    /// The two clusters, the smaller index first.
    pub clusters: [usize; 2],
    /// Number of rows whose two most probable clusters these are, with neither above 0.9.
    pub n_rows: usize,
    /// Some of them, the most doubtful first.
    pub examples: Vec<Example>,
}

/// A row that is unlike the others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Outlier {
    /// The row.
    pub example: Example,
    /// Its cluster.
    pub cluster: usize,
    /// Its score, in nats.
    #[serde(deserialize_with = "or_nan")]
    pub score: f64,
    /// The columns that cost most: name, value in the row, value that the model expects, nats.
    #[serde(deserialize_with = "or_nan")]
    pub costs: Vec<(String, String, String, f64)>,
}

/// One number of clusters on the way from components to clusters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Level {
    /// The number of clusters.
    pub clusters: usize,
    /// Modularity with that many.
    #[serde(deserialize_with = "or_nan")]
    pub modularity: f64,
    /// Stability between fits, if it was measured.
    pub stability: Option<f64>,
    /// Whether this is the number of the model.
    pub chosen: bool,
}

/// How components were merged, two groups at a time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MergeTree {
    /// The components that were merged.
    pub leaves: Vec<Leaf>,
    /// Modularity before the first merge.
    #[serde(deserialize_with = "or_nan")]
    pub modularity: f64,
    /// In order: two groups, each named by the smallest index of its leaves, and the modularity after the merge.
    #[serde(deserialize_with = "or_nan")]
    pub merges: Vec<(usize, usize, f64)>,
    /// The number of clusters of the model.
    pub chosen: usize,
}

/// A component.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Leaf {
    /// Its index among all components.
    pub component: usize,
    /// Number of its rows.
    pub n_rows: u64,
    /// Its cluster in the model.
    pub cluster: usize,
}

/// Agreement of the restarts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Restarts {
    /// ARI of each pair. `[R][R]`
    #[serde(deserialize_with = "or_nan")]
    pub ari: Vec<Vec<f64>>,
    /// Their mean.
    #[serde(deserialize_with = "or_nan")]
    pub stability: f64,
    /// What became of them: "consensus of 10 restarts", "restart 3 of 10".
    pub outcome: String,
}

/// A curve over epochs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Curve {
    /// What it is: "ELBO", "live clusters".
    pub name: String,
    /// Its unit: "nats per row"; empty if there is none.
    pub unit: String,
    /// Name of each line: a restart, or a term.
    pub lines: Vec<String>,
    /// Values per line and epoch; NaN where there is none.
    #[serde(deserialize_with = "or_nan")]
    pub values: Vec<Vec<f64>>,
}
