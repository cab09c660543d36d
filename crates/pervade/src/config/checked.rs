//! Checks of the settings, alone and against the data, and the choice of values that they leave open.

use std::sync::Arc;

use super::{Choice, Clusters, LikelihoodKind, NetworkKind, PretrainKind, Recipe, Settings, sizes};
use crate::compute::{ColumnTable, Likelihood};
use crate::data::{Dataset, ImageShape, Preparation, PrepareKind, Schema, Values, require_columns};
use crate::nn::{Architecture, Sizes};
use crate::{Error, Hint, Result};

/// Settings that were checked against the data, with every value decided. Training accepts only these, and only
/// [`Settings::check`] creates them.
///
/// ```compile_fail
/// # let data = pervade::Dataset::from_rows(4, 1, vec![1.0, 2.0, 3.0, 4.0])?;
/// let mut checked = pervade::Settings::recipe(pervade::Recipe::Robust, 2).check(&data)?;
/// checked.n_components = 1; // private
/// # Ok::<(), pervade::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CheckedSettings {
    pub(crate) settings: Settings,
    pub(crate) n_clusters: Option<usize>,
    pub(crate) n_components: usize,
    /// Types of the columns, if each has one.
    pub(crate) schema: Option<Arc<Schema>>,
    pub(crate) preparation: Preparation,
    pub(crate) likelihood: Likelihood,
    pub(crate) pretrain_epochs: usize,
    pub(crate) epochs: usize,
    pub(crate) decay_every: usize,
    pub(crate) neighbour_weight: f32,
    pub(crate) starts: usize,
    /// Share of the cells that pretraining hides from the encoder, so that gaps in new rows are nothing new.
    pub(crate) hidden_share: f32,
    pub(crate) batch: usize,
    pub(crate) pretrain_batch: usize,
}

impl CheckedSettings {
    /// The settings as given.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Number of clusters, K; `None` for `auto`.
    pub fn n_clusters(&self) -> Option<usize> {
        self.n_clusters
    }

    /// Number of components, C.
    pub fn n_components(&self) -> usize {
        self.n_components
    }

    /// The preparation, fitted to the data.
    pub fn preparation(&self) -> &Preparation {
        &self.preparation
    }

    /// p(x|z); if the settings do not give its variance, that is estimated after pretraining.
    pub fn likelihood(&self) -> Likelihood {
        self.likelihood
    }

    /// Epochs of pretraining.
    pub fn pretrain_epochs(&self) -> usize {
        self.pretrain_epochs
    }

    /// Epochs of joint training.
    pub fn epochs(&self) -> usize {
        self.epochs
    }

    /// Epochs between decays of the learning rates.
    pub fn decay_every(&self) -> usize {
        self.decay_every
    }

    /// Trials of each restart.
    pub fn starts(&self) -> usize {
        self.starts
    }

    /// Weight of the neighbour term, in nats.
    pub fn neighbour_weight(&self) -> f32 {
        self.neighbour_weight
    }

    /// Weight of the vote's term when restarts are made one model: that of the neighbour term, unless it is left out.
    pub(crate) fn vote_weight(&self, n_columns: usize) -> f32 {
        let weight = if self.neighbour_weight > 0.0 {
            self.neighbour_weight
        } else {
            n_columns as f32 / COLUMNS_PER_NAT
        };
        weight.max(MIN_VOTE_WEIGHT)
    }

    /// Whether the restarts become one model by their vote.
    pub fn is_consensus(&self) -> bool {
        self.settings.choose == Choice::Consensus && self.settings.restarts >= MIN_VOTERS
    }

    /// Rows per step of joint training.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// Rows per step of pretraining.
    pub fn pretrain_batch(&self) -> usize {
        self.pretrain_batch
    }

    /// The networks and the prior for these data.
    pub(crate) fn architecture(&self, data: &Dataset) -> Architecture {
        self.settings.architecture(&self.preparation, data.image(), self.likelihood, self.n_components)
    }
}

impl Settings {
    /// Checks every value, alone and against the data, and chooses the values that are `None`.
    pub fn check(self, data: &Dataset) -> Result<CheckedSettings> {
        data.unless_changed(self.check_against(data))
    }

    fn check_against(mut self, data: &Dataset) -> Result<CheckedSettings> {
        self.check_ranges()?;
        require_columns(data)?;
        let n = data.n_rows();
        let n_clusters = self.check_clusters(n)?;
        let n_components = self.check_components(n, n_clusters)?;
        let (low, high) = data.range();
        if low == high {
            return Err(Error::data(
                data.source(),
                format!("every value is {low}: there is nothing to cluster"),
            )
            .with_hint("check that the right array or columns were read"));
        }
        let schema = self.schema(data)?;
        let (preparation, likelihood) = if let Some(schema) = &schema {
            let preparation = Preparation::fit_typed(data, schema);
            let n_outputs = ColumnTable::Typed(preparation.columns()).n_outputs() as u32;
            (preparation, Likelihood::Typed { n_outputs })
        } else {
            let family = self.family(data);
            let kind = match family {
                LikelihoodKind::Counts => PrepareKind::Counts,
                // Weights of documents are small; the term of the reconstruction would be, too.
                LikelihoodKind::Multinomial if self.likelihood == LikelihoodKind::Auto => {
                    PrepareKind::RowNorm
                }
                _ => self.prepare.unwrap_or_else(|| auto_preparation(data, low, high)),
            };
            let preparation = Preparation::fit(kind, data)?;
            let (low, high) = preparation.prepared_range(data);
            (preparation, family.resolve(low, high, self.noise_variance)?)
        };
        self.check_network(data, likelihood)?;
        self.hidden.get_or_insert_with(|| sizes::hidden(self.network, n, preparation.n_inputs()));
        self.latents.get_or_insert_with(|| sizes::latents(data.n_columns()));
        let defaults = Settings::recipe(self.recipe, self.clusters);
        let batch = |name: &str, batch: usize, default: usize| {
            let is_chosen = batch != default || self.recipe == Recipe::Paper;
            sizes::in_shares(name, sizes::batch(batch, n, is_chosen), self.shares, is_chosen)
        };
        let pretrain_batch = batch("pretrain-batch", self.pretrain_batch, defaults.pretrain_batch)?;
        let batch = batch("batch", self.batch, defaults.batch)?;
        let steps = |batch: usize| (n / batch).max(1);
        let pretrain_epochs =
            self.pretrain_epochs.unwrap_or_else(|| sizes::pretrain_epochs(steps(pretrain_batch)));
        let is_small = batch < self.batch.min(n);
        let epochs = self.epochs.unwrap_or_else(|| sizes::joint_epochs(steps(batch), is_small));
        Ok(CheckedSettings {
            neighbour_weight: self.neighbour_weight.unwrap_or(data.n_columns() as f32 / COLUMNS_PER_NAT),
            starts: self.starts.unwrap_or_else(|| sizes::starts(n, preparation.n_inputs())),
            hidden_share: schema.as_ref().map_or(0.0, |_| hidden_share(data)),
            schema,
            batch,
            pretrain_batch,
            n_clusters,
            n_components,
            preparation,
            likelihood,
            pretrain_epochs,
            epochs,
            decay_every: self.decay_every.unwrap_or((epochs / 10).max(1)),
            settings: self,
        })
    }

    pub(crate) fn check_ranges(&self) -> Result<()> {
        at_least("samples", self.samples, 1)?;
        at_least("latents", self.latents(), 1)?;
        at_least("hidden (number of layers)", self.hidden().len(), 1)?;
        self.hidden().iter().try_for_each(|&width| at_least("hidden", width, 1))?;
        at_least("pretrain-batch", self.pretrain_batch, 1)?;
        at_least("batch", self.batch, 1)?;
        at_least("mixture-starts", self.mixture_starts, 1)?;
        at_least("neighbours", self.neighbours, 1)?;
        at_least("graph-rows", self.graph_rows, 2)?;
        at_least("decay-every", self.decay_every.unwrap_or(1), 1)?;
        at_least("restarts", self.restarts, 1)?;
        at_least("starts", self.starts.unwrap_or(1), 1)?;
        const MOST_SHARES: usize = 1 << 12;
        if !self.shares.is_power_of_two() || self.shares > MOST_SHARES {
            let must = format!("must be a power of two (1, 2, 4, ..) up to {MOST_SHARES}");
            return Err(Error::setting("shares", self.shares, must));
        }
        within("dropout", self.dropout, 0.0, 0.95)?;
        within("pretrain-learning-rate", self.pretrain_learning_rate, f32::MIN_POSITIVE, 1.0)?;
        within("learning-rate", self.learning_rate, f32::MIN_POSITIVE, 1.0)?;
        within("mixture-learning-rate", self.mixture_learning_rate, 0.0, 1.0)?;
        within("decay", self.decay, f32::MIN_POSITIVE, 1.0)?;
        within("learning-rate-floor", self.learning_rate_floor, 0.0, 1.0)?;
        within("epsilon", self.epsilon, 1e-12, 1.0)?;
        self.neighbour_weight.map_or(Ok(()), |weight| within("neighbour-weight", weight, 0.0, 1e6))?;
        self.noise_variance.map_or(Ok(()), |v| within("noise-variance", v, 1e-8, 1e8))?;
        const MAX: usize = 1 << 16;
        let widest = self.hidden().into_iter().chain([self.latents(), self.samples]).max().unwrap_or(0);
        if widest > MAX {
            return Err(Error::setting(
                "hidden, latents or samples",
                widest,
                format!("must be at most {MAX}"),
            ));
        }
        Ok(())
    }

    /// The likelihood as given, or the one for documents if nothing is given and the rows look like documents.
    fn family(&self, data: &Dataset) -> LikelihoodKind {
        let is_open = self.likelihood == LikelihoodKind::Auto
            && self.recipe == Recipe::Robust
            && self.pretrain == PretrainKind::EndToEnd
            && self.prepare.is_none()
            && self.noise_variance.is_none();
        if is_open && are_documents(data) { LikelihoodKind::Multinomial } else { self.likelihood }
    }

    /// The types of the columns, if each has one; an error if a setting for all columns alike does not suit them.
    fn schema(&self, data: &Dataset) -> Result<Option<Arc<Schema>>> {
        let is_plain = self.recipe == Recipe::Paper || self.pretrain == PretrainKind::Stacked;
        let is_shared = self.prepare.is_some() || self.likelihood != LikelihoodKind::Auto;
        let schema = data.typed_schema(is_shared || is_plain || self.noise_variance.is_some())?;
        if schema.is_none() || !is_shared {
            return Ok(schema);
        }
        let (name, value) = match self.prepare {
            Some(kind) => ("prepare", kind.to_string()),
            None => ("likelihood", self.likelihood.to_string()),
        };
        let must =
            "but the table has categories, dates or missing cells, so that each column goes by its type";
        Err(Error::setting(name, value, must)
            .with_hint("leave it out, or keep only columns of numbers without gaps"))
    }

    fn check_clusters(&self, n: usize) -> Result<Option<usize>> {
        match self.clusters {
            Clusters::Auto if n < 3 => {
                Err(Error::setting("clusters", "auto", format!("but there are only {n} rows")))
            }
            Clusters::Auto => Ok(None),
            Clusters::Fixed(k) => {
                at_least("clusters", k, 1)?;
                if k > n {
                    let must = format!("but the data have only {n} rows");
                    return Err(Error::setting("clusters", k, must).with_hint("ask for fewer clusters"));
                }
                Ok(Some(k))
            }
        }
    }

    fn check_components(&self, n: usize, n_clusters: Option<usize>) -> Result<usize> {
        let min = n_clusters.unwrap_or(2);
        if let Some(c) = self.components {
            at_least("components", c, min)?;
            if c > n {
                return Err(Error::setting("components", c, format!("but the data have only {n} rows")));
            }
            return Ok(c);
        }
        let wanted = n_clusters.map_or(AUTO_COMPONENTS, |k| COMPONENTS_PER_CLUSTER * k);
        Ok(wanted.min(n / MIN_ROWS_PER_COMPONENT).max(min).min(n))
    }

    /// Checks that the networks suit the data and the other settings.
    fn check_network(&self, data: &Dataset, likelihood: Likelihood) -> Result<()> {
        if likelihood.has_scales() && self.pretrain == PretrainKind::Stacked {
            let must = format!("which cannot be used with the likelihood `{likelihood}`");
            return Err(Error::setting("pretrain", self.pretrain, must)
                .with_hint(Hint::new("use ").setting_to("pretrain", PretrainKind::EndToEnd)));
        }
        if self.network == NetworkKind::Dense {
            return Ok(());
        }
        let refuse = |must: String| Error::setting("network", self.network, must);
        let is_whole = |i: &ImageShape| i.height * i.width * i.channels == data.n_columns();
        let Some(image) = data.image().filter(is_whole) else {
            let must = "but these rows are not known to be pictures".to_string();
            return Err(refuse(must).with_hint(
                Hint::new("give the shape with ")
                    .setting_to("image", "28x28")
                    .text(", or use ")
                    .setting_to("network", NetworkKind::Dense),
            ));
        };
        let n_layers = self.hidden().len();
        at_least("hidden (number of layers of a convolutional network)", n_layers, 2)?;
        let (halvings, side) = (n_layers as u32 - 1, image.height.min(image.width));
        if side.checked_shr(halvings).unwrap_or(0) == 0 {
            let must = format!("but its {halvings} convolutions would halve {side} pixels to nothing");
            return Err(refuse(must).with_hint(Hint::new("give fewer layers in ").setting("hidden")));
        }
        if likelihood.n_outputs(1) > 1 {
            let must = format!("which cannot be used with the likelihood `{}`", self.likelihood);
            return Err(refuse(must).with_hint(
                Hint::new("use ")
                    .setting_to("likelihood", LikelihoodKind::GaussianFixed)
                    .text(", or ")
                    .setting_to("network", NetworkKind::Dense),
            ));
        }
        if self.pretrain == PretrainKind::Stacked {
            let must = "which cannot be pretrained layer by layer".to_string();
            return Err(
                refuse(must).with_hint(Hint::new("use ").setting_to("pretrain", PretrainKind::EndToEnd))
            );
        }
        Ok(())
    }

    /// The networks and the prior for rows that are prepared in this way, or for images of this shape.
    pub(crate) fn architecture(
        &self,
        preparation: &Preparation,
        image: Option<ImageShape>,
        likelihood: Likelihood,
        n_components: usize,
    ) -> Architecture {
        let image = image.filter(|_| self.network == NetworkKind::Conv);
        Architecture::new(&Sizes {
            n_inputs: preparation.n_inputs(),
            hidden: &self.hidden(),
            image: image.map(|image| [image.height, image.width, image.channels]),
            n_head: 2 * self.latents(),
            n_latents: self.latents(),
            n_outputs: likelihood.n_outputs(preparation.n_columns()),
            n_scales: preparation.column_table(likelihood).map_or(0, |table| table.n_scales()),
            n_components,
        })
    }
}

/// Components per cluster (RECIPE: accuracy rises up to about 15).
const COMPONENTS_PER_CLUSTER: usize = 15;
/// Components if the number of clusters is not given.
const AUTO_COMPONENTS: usize = 150;
/// The fewest rows per component for which it is worth fitting one.
const MIN_ROWS_PER_COMPONENT: usize = 20;
/// The neighbour term has one nat for so many columns: it must keep up with the reconstruction, which grows with them.
const COLUMNS_PER_NAT: f32 = 4.0;
/// The least weight of the vote's term: with a nat or two, as the neighbour term has in short rows, a table's own structure
/// would outweigh the clusters that the model is trained towards.
const MIN_VOTE_WEIGHT: f32 = 50.0;
/// The fewest restarts that can vote.
const MIN_VOTERS: usize = 3;
/// Share of the cells that pretraining hides where none is missing, and the most that it hides.
const HIDDEN_SHARE: [f64; 2] = [0.1, 0.3];

/// Share of the cells that pretraining hides from the encoder: as many as are missing, within limits.
fn hidden_share(data: &Dataset) -> f32 {
    let missing = |i: usize| (0..data.n_columns()).filter(|&j| data.cell(i, j).is_nan()).count();
    let n_missing: usize = (0..data.n_rows()).map(missing).sum();
    let missing = n_missing as f64 / (data.n_rows() * data.n_columns()) as f64;
    let [least, most] = HIDDEN_SHARE;
    missing.clamp(least, most) as f32
}

/// Columns are on one scale if the largest standard deviation is at most this multiple of the mean one.
const ONE_SCALE_RATIO: f64 = 10.0;
/// Standard deviations for which the networks' initial values are suitable.
const USUAL_DEVIATION: std::ops::RangeInclusive<f64> = 0.01..=10.0;

/// Fewer columns of whole numbers are not taken for pictures.
const MIN_PIXELS: usize = 32;

/// Whether whole numbers up to 255 are grey levels: of rows known to be pictures, or of many columns, a third of which
/// (constants aside) reach the largest number.
fn are_grey_levels(data: &Dataset, high: f64) -> bool {
    if data.image().is_some() || data.n_columns() < MIN_PIXELS {
        return data.image().is_some();
    }
    let d = data.n_columns();
    let (mut lows, mut highs, mut row) = (vec![f32::INFINITY; d], vec![0.0f32; d], vec![0.0f32; d]);
    for i in 0..data.n_rows() {
        data.row_into(i, &mut row);
        for ((low, high), &x) in lows.iter_mut().zip(&mut highs).zip(&row) {
            (*low, *high) = (low.min(x), high.max(x));
        }
    }
    let varying = lows.iter().zip(&highs).filter(|(low, high)| low < high).count();
    3 * highs.iter().filter(|&&x| f64::from(x) == high).count() >= varying
}

/// Norms of rows that differ by this share are equal but for rounding.
const SAME_NORM: f64 = 1e-3;

/// Whether sparse rows are weights of terms, such as tf-idf: none is negative, and all rows that are not empty have the same
/// Euclidean norm, as every such weighting ends with.
fn are_documents(data: &Dataset) -> bool {
    let Values::Csr(csr) = data.values() else { return false };
    let norms = csr.starts().windows(2).filter(|pair| pair[0] < pair[1]).map(|pair| {
        let squares = csr.values()[pair[0]..pair[1]].iter().map(|&x| f64::from(x) * f64::from(x));
        squares.sum::<f64>().sqrt()
    });
    let (least, most) =
        norms.fold((f64::INFINITY, 0.0f64), |(low, high), norm| (low.min(norm), high.max(norm)));
    most > 0.0 && most - least <= SAME_NORM * most && csr.values().iter().all(|&x| x >= 0.0)
}

/// Grey levels are scaled to [0, 1]; tables whose columns are already on one usual scale (0/1
/// columns, for example) are not changed, because differences in scale are then meaningful; everything else is
/// standardised.
fn auto_preparation(data: &Dataset, low: f64, high: f64) -> PrepareKind {
    if low >= 0.0 && high <= 255.0 && high > 1.0 && data.is_whole() && are_grey_levels(data, high) {
        return PrepareKind::UnitRange;
    }
    let deviations = data.column_deviations();
    let mean = deviations.iter().sum::<f64>() / deviations.len() as f64;
    let largest = deviations.iter().copied().fold(0.0, f64::max);
    let is_usual = largest <= ONE_SCALE_RATIO * mean && USUAL_DEVIATION.contains(&mean);
    if is_usual { PrepareKind::None } else { PrepareKind::Standardise }
}

fn at_least(name: &str, value: usize, min: usize) -> Result<()> {
    if value < min {
        return Err(Error::setting(name, value, format!("must be at least {min}")));
    }
    Ok(())
}

fn within(name: &str, value: f32, low: f32, high: f32) -> Result<()> {
    // False for NaN.
    if value >= low && value <= high {
        return Ok(());
    }
    let low = if low == f32::MIN_POSITIVE { "above 0".to_string() } else { format!("at least {low}") };
    Err(Error::setting(name, value, format!("must be {low} and at most {high}")))
}
