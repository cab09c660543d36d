//! Checks of the settings, alone and against the data, and the choice of values that they leave open.

use super::{Choice, Clusters, LikelihoodKind, NetworkKind, PRETRAIN_STEPS, PretrainKind, Settings};
use crate::compute::Likelihood;
use crate::data::{Dataset, ImageShape, Preparation, PrepareKind, require_columns};
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
    pub(crate) preparation: Preparation,
    pub(crate) likelihood: Likelihood,
    pub(crate) pretrain_epochs: usize,
    pub(crate) epochs: usize,
    pub(crate) decay_every: usize,
    pub(crate) neighbour_weight: f32,
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

    /// Weight of the neighbour term, in nats.
    pub fn neighbour_weight(&self) -> f32 {
        self.neighbour_weight
    }

    /// Weight of the vote's term when restarts are made one model: that of the neighbour term, unless it is left out.
    pub(crate) fn vote_weight(&self, n_columns: usize) -> f32 {
        if self.neighbour_weight > 0.0 { self.neighbour_weight } else { n_columns as f32 / COLUMNS_PER_NAT }
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
        self.settings.architecture(data.n_columns(), data.image(), self.likelihood, self.n_components)
    }
}

impl Settings {
    /// Checks every value, alone and against the data, and chooses the values that are `None`.
    pub fn check(self, data: &Dataset) -> Result<CheckedSettings> {
        data.unless_changed(self.check_against(data))
    }

    fn check_against(self, data: &Dataset) -> Result<CheckedSettings> {
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
        let kind = self.prepare.unwrap_or_else(|| auto_preparation(data, low, high));
        let preparation = Preparation::fit(kind, data)?;
        let (low, high) = preparation.prepared_range(data);
        let likelihood = self.likelihood.resolve(low, high, self.noise_variance)?;
        self.check_network(data, likelihood)?;
        let steps = |batch: usize| (n / batch.min(n)).max(1);
        let pretrain_epochs = self
            .pretrain_epochs
            .unwrap_or_else(|| PRETRAIN_STEPS.div_ceil(steps(self.pretrain_batch)).clamp(30, 200));
        let [least, most] = JOINT_EPOCHS;
        let epochs =
            self.epochs.unwrap_or_else(|| JOINT_STEPS.div_ceil(steps(self.batch)).clamp(least, most));
        Ok(CheckedSettings {
            neighbour_weight: self.neighbour_weight.unwrap_or(data.n_columns() as f32 / COLUMNS_PER_NAT),
            batch: self.batch.min(n),
            pretrain_batch: self.pretrain_batch.min(n),
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
        at_least("latents", self.latents, 1)?;
        at_least("hidden (number of layers)", self.hidden.len(), 1)?;
        self.hidden.iter().try_for_each(|&width| at_least("hidden", width, 1))?;
        at_least("pretrain-batch", self.pretrain_batch, 1)?;
        at_least("batch", self.batch, 1)?;
        at_least("mixture-starts", self.mixture_starts, 1)?;
        at_least("neighbours", self.neighbours, 1)?;
        at_least("graph-rows", self.graph_rows, 2)?;
        at_least("decay-every", self.decay_every.unwrap_or(1), 1)?;
        at_least("restarts", self.restarts, 1)?;
        at_least("starts", self.starts, 1)?;
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
        let widest = self.hidden.iter().copied().chain([self.latents, self.samples]).max().unwrap_or(0);
        if widest > MAX {
            return Err(Error::setting(
                "hidden, latents or samples",
                widest,
                format!("must be at most {MAX}"),
            ));
        }
        Ok(())
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
        at_least("hidden (number of layers of a convolutional network)", self.hidden.len(), 2)?;
        let (halvings, side) = (self.hidden.len() as u32 - 1, image.height.min(image.width));
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

    /// The networks and the prior for data of D columns, or for images of this shape.
    pub(crate) fn architecture(
        &self,
        n_columns: usize,
        image: Option<ImageShape>,
        likelihood: Likelihood,
        n_components: usize,
    ) -> Architecture {
        let image = image.filter(|_| self.network == NetworkKind::Conv);
        Architecture::new(&Sizes {
            n_columns,
            hidden: &self.hidden,
            image: image.map(|image| [image.height, image.width, image.channels]),
            n_head: 2 * self.latents,
            n_latents: self.latents,
            n_outputs: likelihood.n_outputs(n_columns),
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
/// The fewest restarts that can vote.
const MIN_VOTERS: usize = 3;
/// Steps of joint training that a small data set gets, within the limits below: USPS gains one percent from its second
/// 40 epochs and nothing after 80.
const JOINT_STEPS: usize = 3_000;
/// The fewest and the most epochs of joint training: 40 have most of the gain on MNIST, in an acceptable time on two cores.
const JOINT_EPOCHS: [usize; 2] = [40, 80];
/// Columns are on one scale if the largest standard deviation is at most this multiple of the mean one.
const ONE_SCALE_RATIO: f64 = 10.0;
/// Standard deviations for which the networks' initial values are suitable.
const USUAL_DEVIATION: std::ops::RangeInclusive<f64> = 0.01..=10.0;

/// Small integers (grey levels, bytes) are scaled to [0, 1]; tables whose columns are already on one usual scale (0/1
/// columns, for example) are not changed, because differences in scale are then meaningful; everything else is
/// standardised.
fn auto_preparation(data: &Dataset, low: f64, high: f64) -> PrepareKind {
    if low >= 0.0 && high <= 255.0 && high > 1.0 && data.is_whole() {
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
