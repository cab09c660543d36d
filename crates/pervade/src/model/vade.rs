//! The content of a fitted model.

use serde::{Deserialize, Serialize};

use super::explained::ExplainedColumn;
use crate::compute::Likelihood;
use crate::config::{CheckedSettings, Settings};
use crate::data::{Dataset, ImageShape, Preparation, Schema};
use crate::metrics::Vote;
use crate::nn::Architecture;
use crate::plain::{PlainSummary, RowDensity};
use crate::record::Finished;
use crate::record::{RestartRecord, StateScores};

/// Everything in a model file except the weights. It has no times or thread counts, so that the same run gives the same
/// bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Metadata {
    /// The format's name and version.
    pub format: String,
    /// The version of pervade that wrote it.
    pub version: String,
    /// The settings of the run.
    pub settings: Settings,
    /// Preparation of rows.
    pub preparation: Preparation,
    /// p(x|z), with its variance.
    pub likelihood: Likelihood,
    /// Number of rows that the model was fitted to.
    pub n_rows: usize,
    /// Columns of the data, D.
    pub n_columns: usize,
    /// Names of the columns, if the data had them.
    pub column_names: Option<Vec<String>>,
    /// Types of the columns, if they have types.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Schema>,
    /// Columns of the table that were left out, if the others have no types.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_columns: Vec<String>,
    /// How much of each column the model explains, if the columns have types.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub explained: Vec<ExplainedColumn>,
    /// Shape of the images, if the rows are images.
    pub image: Option<ImageShape>,
    /// Checksum of the data.
    pub data_checksum: String,
    /// Number of clusters, K.
    pub n_clusters: usize,
    /// Number of components of the prior, C.
    pub n_components: usize,
    /// Rows of each cluster when the model was fitted.
    pub occupancy: Vec<u64>,
    /// The history of the restart that became the model.
    pub record: RestartRecord,
    /// Summaries of all restarts.
    pub restarts: Vec<RestartSummary>,
    /// Mean pairwise agreement (ARI) of the restarts' clusters, if there was more than one.
    pub stability: Option<f64>,
    /// The vote of the restarts, if the model is their consensus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consensus: Option<ConsensusSummary>,
    /// How plain methods compare with the networks on a small table, and which one was preferred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plain: Option<PlainSummary>,
    /// Modularity of the clusters on the neighbour graph of the prepared rows, unless restarts are compared by ELBO.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepared_modularity: Option<f64>,
    /// The same of the clusters that k-means finds among the prepared rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kmeans_modularity: Option<f64>,
    /// Checksum of the whole file that the model was read from; `None` for a model that was just fitted, and for files
    /// of early versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
}

/// Differences in modularity below this are chance.
const NOTABLE: f64 = 0.005;

impl Metadata {
    /// Columns that the table itself has, without those that tell where others have gaps.
    pub fn n_source_columns(&self) -> usize {
        self.schema.as_ref().map_or(self.n_columns, |schema| schema.source_columns().len())
    }

    /// A remark if the clusters of k-means on the prepared rows have a notably higher modularity than the model's. On small
    /// tables those of [`plain`](Self::plain) say so.
    pub fn kmeans_remark(&self) -> Option<String> {
        if self.plain.is_some() {
            return None;
        }
        let (own, kmeans) = (self.prepared_modularity?, self.kmeans_modularity?);
        (kmeans > own + NOTABLE).then(|| {
            format!(
                "on the neighbour graph of the rows, k-means has a higher modularity than this model ({kmeans:.3} \
                 against {own:.3}): compare the two before you trust either"
            )
        })
    }
}

/// Summary of a restart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct RestartSummary {
    /// Index of the restart, counted from zero.
    pub restart: usize,
    /// ELBO of its last epoch, in nats per row.
    pub elbo: Option<f64>,
    /// Scores of the state that it kept.
    pub scores: Option<StateScores>,
    /// Modularity of its clusters on the neighbour graph of the prepared rows, unless restarts are compared by ELBO.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepared_modularity: Option<f64>,
    /// ARI of its clusters with those of each restart, unless there are very many or only one. `[R]`
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agreement: Vec<f64>,
}

/// Summary of the vote of all restarts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ConsensusSummary {
    /// The restart that agrees most with the others, whose model was trained towards the vote.
    pub reference: usize,
    /// Mean share of the restarts that agree on the cluster of a row.
    pub agreement: f64,
    /// The same of the rows voted into each cluster; zero for one without rows. `[K]`
    pub cluster_agreement: Vec<f64>,
}

impl ConsensusSummary {
    pub(crate) fn new(vote: &Vote, n_clusters: usize) -> Self {
        let mut sums = vec![(0.0, 0u32); n_clusters];
        for (&cluster, &share) in vote.clusters.iter().zip(&vote.agreement) {
            let (sum, count) = &mut sums[cluster as usize];
            *sum += f64::from(share);
            *count += 1;
        }
        let total: f64 = sums.iter().map(|(sum, _)| sum).sum();
        Self {
            reference: vote.reference,
            agreement: total / vote.clusters.len() as f64,
            cluster_agreement: sums.iter().map(|(sum, count)| sum / f64::from((*count).max(1))).collect(),
        }
    }
}

/// A fitted VaDE model: networks, mixture prior with its clusters, and the record of the fit.
#[derive(Clone, Debug)]
pub struct Vade {
    pub(super) metadata: Metadata,
    pub(super) architecture: Architecture,
    /// The flat parameter buffer.
    pub(super) values: Vec<f32>,
    /// Cluster of each component.
    pub(super) groups: Vec<u32>,
    /// The density of the prepared rows of a small table of numbers, which scores use beside the networks.
    pub(super) density: Option<RowDensity>,
    /// Remarks for the user about the file that it was read from.
    pub(super) remarks: Vec<String>,
}

impl Vade {
    /// Creates a model from a finished restart.
    pub(crate) fn assemble(
        data: &Dataset,
        data_checksum: String,
        settings: &CheckedSettings,
        architecture: &Architecture,
        values: Vec<f32>,
        Finished { record, groups, likelihood }: Finished,
    ) -> Self {
        let n_clusters = groups.iter().max().map_or(0, |&last| last as usize + 1);
        let metadata = Metadata {
            format: super::file::FORMAT.to_string(),
            version: env!("CARGO_PKG_VERSION").to_string(),
            settings: settings.settings.clone(),
            preparation: settings.preparation.clone(),
            likelihood,
            n_rows: data.n_rows(),
            n_columns: data.n_columns(),
            column_names: data.column_names().map(<[String]>::to_vec),
            schema: settings.schema.as_deref().cloned(),
            other_columns: other_columns(data, settings),
            explained: Vec::new(),
            image: data.image(),
            data_checksum,
            n_clusters,
            n_components: groups.len(),
            occupancy: Vec::new(),
            record,
            restarts: Vec::new(),
            stability: None,
            consensus: None,
            plain: None,
            prepared_modularity: None,
            kmeans_modularity: None,
            checksum: None,
        };
        Self {
            metadata,
            architecture: architecture.clone(),
            values,
            groups,
            density: None,
            remarks: Vec::new(),
        }
    }

    /// For the metadata that are known once all restarts are finished.
    pub(crate) fn metadata_mut(&mut self) -> &mut Metadata {
        &mut self.metadata
    }

    /// Sets the density of the rows that scores use beside the networks.
    pub(crate) fn set_density(&mut self, density: Option<RowDensity>) {
        self.density = density;
    }

    /// Settings, data and history of the fit.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Remarks for the user about the file that the model was read from, for example that its content could not be
    /// verified; whole sentences without a full stop.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Number of clusters, K.
    pub fn n_clusters(&self) -> usize {
        self.metadata.n_clusters
    }

    /// Columns of the data, D.
    pub fn n_columns(&self) -> usize {
        self.metadata.n_columns
    }

    /// Latent columns, J.
    pub fn n_latents(&self) -> usize {
        self.architecture.n_latents()
    }

    /// The number of parameters of networks and mixture.
    pub fn n_parameters(&self) -> usize {
        self.values.len()
    }

    /// Names of the columns, if the data had them.
    pub fn column_names(&self) -> Option<&[String]> {
        self.metadata.column_names.as_deref()
    }

    /// Shape of the images, if the rows are images.
    pub fn image(&self) -> Option<ImageShape> {
        self.metadata.image
    }

    /// Types of the columns, if they have types.
    pub fn schema(&self) -> Option<&Schema> {
        self.metadata.schema.as_ref()
    }

    /// Cluster of each component.
    pub fn groups(&self) -> &[u32] {
        &self.groups
    }

    /// Weight, mean and variance of each component: `[C]`, `[C, J]`, `[C, J]`.
    pub fn components(&self) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
        let slots = self.architecture.mixture;
        let wide = |range: std::ops::Range<usize>| {
            self.values[range].iter().map(|&x: &f32| f64::from(x)).collect::<Vec<f64>>()
        };
        let logits = wide(slots.logits.range());
        let greatest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = logits.iter().map(|l| (l - greatest).exp()).sum();
        let weights = logits.iter().map(|l| (l - greatest).exp() / total).collect();
        let limit = f64::from(crate::compute::LOG_VARIANCE_LIMIT);
        let variances =
            wide(slots.log_variances.range()).iter().map(|l| l.clamp(-limit, limit).exp()).collect();
        (weights, wide(slots.means.range()), variances)
    }
}

/// Columns that were left out of a table whose columns have no types in the model: new rows may have them.
fn other_columns(data: &Dataset, settings: &CheckedSettings) -> Vec<String> {
    let schema = data.schema().filter(|_| settings.schema.is_none());
    schema.map_or(Vec::new(), |schema| [&schema.kept[..], &schema.left_out].concat())
}
