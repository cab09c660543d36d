//! Settings as given, and settings checked against the data, which have a type of their own.

#[macro_use]
mod names;

mod checked;
mod likelihood;
mod sizes;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::compute::Gamma;
use crate::data::PrepareKind;
use crate::{Error, Result};

pub use checked::CheckedSettings;
pub use likelihood::LikelihoodKind;

/// A named set of values for all settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Recipe {
    /// Many components grouped into clusters: accurate and repeatable. The default.
    Robust,
    /// One component per cluster and the paper's schedule, for reproduction.
    Paper,
}

/// The number of clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clusters {
    /// The number whose clusters are most stable and have a high modularity, up to the natural communities of the
    /// neighbour graph.
    Auto,
    /// Exactly K.
    #[serde(untagged)]
    Fixed(usize),
}

/// The kind of layers in the networks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum NetworkKind {
    /// Fully connected layers.
    #[default]
    Dense,
    /// Convolutions, each of which halves the image, followed by one fully connected layer.
    Conv,
}

impl NetworkKind {
    /// Default widths of the hidden layers: those of the paper, or of a small convolutional network.
    pub fn default_hidden(self) -> Vec<usize> {
        match self {
            NetworkKind::Dense => vec![500, 500, 2000],
            NetworkKind::Conv => vec![32, 64, 256],
        }
    }

    fn is_dense(&self) -> bool {
        *self == NetworkKind::Dense
    }
}

/// How the networks are pretrained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PretrainKind {
    /// The whole auto-encoder at once.
    EndToEnd,
    /// Layer by layer with dropout, then the whole auto-encoder.
    Stacked,
}

/// The label-free score by which restarts, and states of one restart, are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Choice {
    /// Modularity on a neighbour graph: of the prepared rows between restarts, of the latents at the mixture start
    /// between states of one restart.
    Modularity,
    /// The ELBO, as in the paper.
    Elbo,
    /// From three restarts on, none of them is chosen: one model is trained towards the vote of all. Otherwise as
    /// `Modularity`.
    Consensus,
}

/// Which state of a restart becomes the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Keep {
    /// The one with the best label-free score, including the mixture start.
    Best,
    /// The last one.
    Last,
}

names!(Recipe, "recipe": "robust" => Recipe::Robust, "paper" => Recipe::Paper);
names!(NetworkKind, "network": "dense" => NetworkKind::Dense, "conv" => NetworkKind::Conv);
names!(PretrainKind, "pretrain": "end-to-end" => PretrainKind::EndToEnd, "stacked" => PretrainKind::Stacked);
names!(
    Choice, "choose":
    "consensus" => Choice::Consensus, "modularity" => Choice::Modularity, "elbo" => Choice::Elbo
);
names!(Keep, "keep": "best" => Keep::Best, "last" => Keep::Last);

impl From<usize> for Clusters {
    fn from(k: usize) -> Self {
        Clusters::Fixed(k)
    }
}

impl FromStr for Clusters {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == "auto" {
            return Ok(Clusters::Auto);
        }
        let must = "must be a whole number of at least 1, or `auto`";
        text.parse().map(Clusters::Fixed).map_err(|_| Error::setting("clusters", format!("`{text}`"), must))
    }
}

impl fmt::Display for Clusters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Clusters::Auto => f.write_str("auto"),
            Clusters::Fixed(k) => write!(f, "{k}"),
        }
    }
}

/// All settings of a fit. The name of a field is the key in configuration files and model files and, with `-` for `_`,
/// the flag of the command. `None` means that the value is chosen from the data.
///
/// Settings are a [recipe](Settings::recipe) with some of its values changed:
///
/// ```
/// use pervade::{Recipe, Settings};
///
/// let settings = Settings::recipe(Recipe::Robust, 10).with(|s| {
///     s.restarts = 3;
///     s.epochs = Some(20);
/// });
/// assert_eq!(settings.latents, None); // chosen from the data
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Settings {
    /// The recipe that the other values are based on.
    pub recipe: Recipe,
    /// Number of clusters, K.
    pub clusters: Clusters,
    /// Number of mixture components, C; if there are more than clusters, they are grouped.
    pub components: Option<usize>,
    /// How the data are scaled.
    pub prepare: Option<PrepareKind>,
    /// Family of p(x|z).
    pub likelihood: LikelihoodKind,
    /// The variance of `gaussian-fixed`; by default that of the auto-encoder's residual.
    pub noise_variance: Option<f32>,
    /// How q(c|x) is computed in the ELBO.
    pub gamma: Gamma,
    /// Monte Carlo samples of z per row, L.
    pub samples: usize,
    /// Latent columns, J; by default 12, or half the number of columns if that is less. The paper has 10.
    pub latents: Option<usize>,
    /// The kind of networks: fully connected, or convolutional for images.
    #[serde(default, skip_serializing_if = "NetworkKind::is_dense")]
    pub network: NetworkKind,
    /// Widths of the encoder's hidden layers; the decoder mirrors them. With `network` = `conv`, all but the last are
    /// the output channels of convolutions. By default the paper's 500, 500 and 2000 for large and wide tables, fewer for others.
    pub hidden: Option<Vec<usize>>,
    /// How to pretrain.
    pub pretrain: PretrainKind,
    /// Epochs of pretraining of the whole auto-encoder.
    pub pretrain_epochs: Option<usize>,
    /// Epochs per layer of stacked pretraining.
    pub layer_epochs: usize,
    /// Dropout rate of stacked pretraining.
    pub dropout: f32,
    /// Rows per step of pretraining. At its default, small tables have fewer: a tenth of their rows.
    pub pretrain_batch: usize,
    /// Adam's learning rate in pretraining.
    pub pretrain_learning_rate: f32,
    /// Number of steps at the end of pretraining over which the learning rate decreases linearly to zero.
    pub cool_down: usize,
    /// How often k-means and EM are started. The mixture whose clusters have the highest modularity is kept; the most
    /// likely one if each component is a cluster.
    pub mixture_starts: usize,
    /// Neighbours of each row in the neighbour graph.
    pub neighbours: usize,
    /// The largest number of rows in the neighbour graph; of more rows, a uniform sample is taken.
    pub graph_rows: usize,
    /// Weight of the neighbour term in joint training, in nats; a quarter of the number of columns if `None`.
    #[serde(default = "zero_weight", skip_serializing_if = "is_zero_weight")]
    pub neighbour_weight: Option<f32>,
    /// Epochs of joint training.
    pub epochs: Option<usize>,
    /// Rows per step of joint training, B. At its default, small tables have fewer: a tenth of their rows.
    pub batch: usize,
    /// Adam's learning rate for the networks.
    pub learning_rate: f32,
    /// Adam's learning rate for the mixture.
    pub mixture_learning_rate: f32,
    /// Factor on both learning rates every `decay_every` epochs.
    pub decay: f32,
    /// Epochs between decays; by default a tenth of the epochs.
    pub decay_every: Option<usize>,
    /// The learning rates never fall below this.
    pub learning_rate_floor: f32,
    /// Adam's epsilon in joint training.
    pub epsilon: f32,
    /// Number of models that are trained from different random numbers; `choose` says what becomes of them.
    pub restarts: usize,
    /// Trials of each restart; the one with the highest modularity after ten epochs of joint training continues. By default
    /// three for wide tables of 5,000 to 20,000 rows, one for others.
    #[serde(default = "one_start")]
    pub starts: Option<usize>,
    /// How one model is made of several restarts, and by which score states are compared.
    pub choose: Choice,
    /// Which state of a restart is kept.
    pub keep: Keep,
    /// The seed of every random number.
    pub seed: u64,
    /// Equal parts of each batch, a power of two. Ranks divide them among themselves, and the model does not depend on how
    /// many ranks there are.
    #[serde(default = "one_share", skip_serializing_if = "is_one")]
    pub shares: usize,
}

fn one_share() -> usize {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_one(shares: &usize) -> bool {
    *shares == 1
}

/// The value of `starts` in files of versions without it, and in `paper`.
#[expect(clippy::unnecessary_wraps, reason = "the type of the field")]
fn one_start() -> Option<usize> {
    Some(1)
}

/// The weight in files from before there was one, and in `paper`.
#[expect(clippy::unnecessary_wraps, reason = "the type of the field")]
fn zero_weight() -> Option<f32> {
    Some(0.0)
}

#[expect(clippy::ref_option, reason = "as serde calls it")]
fn is_zero_weight(weight: &Option<f32>) -> bool {
    *weight == Some(0.0)
}

impl Settings {
    /// The values of a recipe, for K clusters or [`Clusters::Auto`].
    pub fn recipe(recipe: Recipe, clusters: impl Into<Clusters>) -> Self {
        let clusters = clusters.into();
        let robust = Self {
            recipe: Recipe::Robust,
            clusters,
            components: None,
            prepare: None,
            likelihood: LikelihoodKind::Auto,
            noise_variance: None,
            gamma: Gamma::Exact,
            samples: 1,
            latents: None,
            network: NetworkKind::Dense,
            hidden: None,
            pretrain: PretrainKind::EndToEnd,
            pretrain_epochs: None,
            layer_epochs: 15,
            dropout: 0.2,
            pretrain_batch: 256,
            pretrain_learning_rate: 1e-3,
            cool_down: PRETRAIN_STEPS,
            mixture_starts: 10,
            neighbours: 10,
            graph_rows: 70_000,
            neighbour_weight: None,
            epochs: None,
            batch: 256,
            learning_rate: 5e-4,
            mixture_learning_rate: 5e-4,
            decay: 0.65,
            decay_every: None,
            learning_rate_floor: 0.0,
            epsilon: 1e-4,
            restarts: 1,
            starts: None,
            choose: Choice::Consensus,
            keep: Keep::Best,
            seed: 0,
            shares: 1,
        };
        match recipe {
            Recipe::Robust => robust,
            Recipe::Paper => Self {
                recipe,
                components: match clusters {
                    Clusters::Fixed(k) => Some(k),
                    Clusters::Auto => None,
                },
                latents: Some(sizes::PAPER_LATENTS),
                hidden: Some(NetworkKind::Dense.default_hidden()),
                gamma: Gamma::Sampled,
                // The authors' code sums squared errors, which is a fixed variance of one half.
                noise_variance: Some(0.5),
                pretrain_epochs: Some(50),
                cool_down: 0,
                epochs: Some(300),
                batch: 100,
                neighbour_weight: Some(0.0),
                learning_rate: 2e-3,
                mixture_learning_rate: 2e-3,
                decay: 0.9,
                decay_every: Some(10),
                starts: one_start(),
                keep: Keep::Last,
                choose: Choice::Elbo,
                ..robust
            },
        }
    }

    /// Widths of the hidden layers; the paper's if they are not chosen yet.
    pub fn hidden(&self) -> Vec<usize> {
        self.hidden.clone().unwrap_or_else(|| self.network.default_hidden())
    }

    /// Latent columns; the paper's number if it is not chosen yet.
    pub fn latents(&self) -> usize {
        self.latents.unwrap_or(sizes::PAPER_LATENTS)
    }

    /// The settings with a change applied.
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// All settings by name, as [`Settings::from_keys`] takes them; null where a value is chosen from the data.
    pub fn to_keys(&self) -> Map<String, Value> {
        // As text first: 0.001 in single precision is then 0.001, not 0.0010000000474974513.
        let text = serde_json::to_string(self).unwrap_or_default();
        let Ok(Value::Object(mut keys)) = serde_json::from_str(&text) else {
            unreachable!("settings are a table of plain values")
        };
        // Files leave it out where it is the default, so that older versions can read them.
        keys.entry("network").or_insert_with(|| self.network.to_string().into());
        keys.entry("shares").or_insert_with(|| self.shares.into());
        keys.entry("neighbour_weight").or_insert_with(|| self.neighbour_weight.into());
        keys
    }

    /// The recipe's values, overridden by `keys` from a configuration file, the flags of the command or Python. An
    /// error names the first key that cannot be used.
    pub fn from_keys(keys: Map<String, Value>) -> Result<Self> {
        let recipe = keys.get("recipe").map_or(Ok(Recipe::Robust), |value| typed("recipe", value))?;
        let clusters = keys.get("clusters").ok_or_else(|| {
            Error::setting("clusters", "missing", "must be a whole number of at least 1, or `auto`")
        })?;
        let network = keys.get("network").map_or(Ok(NetworkKind::Dense), |value| typed("network", value))?;
        let defaults = Self::recipe(recipe, typed::<Clusters>("clusters", clusters)?)
            .with(|s| s.hidden = s.hidden.take().map(|_| network.default_hidden()));
        let mut merged = defaults.to_keys();
        let mut settings = defaults;
        for (key, value) in keys {
            check_given(&key, &value)?;
            merged.insert(key.clone(), value.clone());
            settings = serde_json::from_value(Value::Object(merged.clone()))
                .map_err(|e| Error::setting(&key, &value, e.to_string()))?;
        }
        Ok(settings)
    }
}

/// Minimum number of pretraining steps for small data sets, as whole epochs between 30 and 200: in 30 epochs of a few
/// thousand rows the auto-encoder hardly learns anything. Over the last of these steps the learning rate decreases to
/// zero: with a constant one, small data are overfitted and the mixture start varies between seeds (ACC on USPS:
/// constant 90 +- 6, decreasing 92.6 +- 0.7).
const PRETRAIN_STEPS: usize = 2_000;

/// Refuses values that would not be used exactly as given: JSON turns NaN and infinities into null, and values outside
/// the range of `f32` would become infinite or zero.
fn check_given(key: &str, value: &Value) -> Result<()> {
    match value {
        Value::Null => Err(Error::setting(key, "null", "must be a finite number or a name")
            .with_hint("leave the key out to use the recipe's value")),
        Value::Number(number) if number.is_f64() => {
            let given = number.as_f64().unwrap_or(f64::NAN);
            let held = given as f32;
            if held.is_finite() && (held == 0.0) == (given == 0.0) {
                return Ok(());
            }
            let must = format!("must be 0, or between {:e} and {:e} in size", f32::from_bits(1), f32::MAX);
            Err(Error::setting(key, format!("{given:e}"), must))
        }
        _ => Ok(()),
    }
}

/// Parses the value of a setting.
fn typed<T: serde::de::DeserializeOwned>(name: &str, value: &Value) -> Result<T> {
    T::deserialize(value).map_err(|e| Error::setting(name, value, e.to_string()))
}

/// A value of a setting as it would be typed.
pub fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(value_text).collect::<Vec<_>>().join(","),
        // Settings are single precision: print them so.
        Value::Number(n) if n.is_f64() => (n.as_f64().unwrap_or(f64::NAN) as f32).to_string(),
        Value::Null => "from the data".to_string(),
        other => other.to_string(),
    }
}
