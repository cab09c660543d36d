//! Settings from three layers: the recipe's values, a configuration file, the flags.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use pervade::compute::Gamma;
pub(crate) use pervade::config::value_text as short;
use pervade::config::{Choice, Clusters, Keep, LikelihoodKind, NetworkKind, PretrainKind, Recipe, Settings};
use pervade::data::{ColumnSpec, PrepareKind};
use pervade::{Error, Result};
use serde::Serialize;
use serde_json::{Map, Value};

const FINE: &str = "Fine tuning";

/// One flag for every field of [`Settings`], with the same name; `None` if it was not typed.
#[derive(Args, Serialize, Default)]
pub(crate) struct SettingFlags {
    /// Number of clusters, or `auto` to find it
    #[arg(long, short = 'k', value_name = "K|auto")]
    clusters: Option<Clusters>,
    /// Named set of values for all settings below
    #[arg(long, value_name = "NAME", value_parser = one_of::<Recipe>(&["robust", "paper"]))]
    recipe: Option<Recipe>,
    /// Mixture components; more than clusters are grouped into them
    #[arg(long, value_name = "C")]
    components: Option<usize>,
    /// How the data are scaled
    #[arg(long, value_name = "HOW")]
    #[arg(value_parser = one_of::<PrepareKind>(&["none", "unit", "standardise", "row-norm"]))]
    prepare: Option<PrepareKind>,
    /// Family of p(x|z); `auto` is multinomial for sparse weights of terms (tf-idf), bernoulli for data in [0, 1]
    #[arg(long, value_name = "FAMILY")]
    #[arg(value_parser = one_of::<LikelihoodKind>(LikelihoodKind::NAMES))]
    likelihood: Option<LikelihoodKind>,
    /// Treatment of q(c|x): the closed form, or the paper's sample
    #[arg(long, value_name = "HOW", value_parser = one_of::<Gamma>(&["exact", "sampled"]))]
    gamma: Option<Gamma>,
    /// Epochs of pretraining
    #[arg(long, value_name = "E")]
    pretrain_epochs: Option<usize>,
    /// Epochs of joint training
    #[arg(long, value_name = "E")]
    epochs: Option<usize>,
    /// Models trained from different random numbers; one is kept, without labels
    #[arg(long, value_name = "R")]
    restarts: Option<usize>,
    /// Trials of each restart; the best by modularity after ten epochs of joint training continues
    #[arg(long, value_name = "N")]
    starts: Option<usize>,
    /// Seed of all random numbers: the same seed gives the same file
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Equal parts of each batch, a power of two, for training on several ranks; the model does not depend on how many
    /// ranks there are
    #[arg(long, value_name = "S")]
    shares: Option<usize>,
    /// Latent columns
    #[arg(long, value_name = "J", help_heading = FINE)]
    latents: Option<usize>,
    /// What the networks are made of: fully connected layers, or convolutions for pictures
    #[arg(long, value_name = "KIND", help_heading = FINE)]
    #[arg(value_parser = one_of::<NetworkKind>(NetworkKind::NAMES))]
    network: Option<NetworkKind>,
    /// Widths of the encoder's hidden layers; the decoder mirrors them. With `--network conv` all but the last are the
    /// channels of convolutions (32,64,256 unless given)
    #[arg(long, value_name = "W,W,..", value_delimiter = ',', help_heading = FINE)]
    hidden: Option<Vec<usize>>,
    /// Rows per step of joint training
    #[arg(long, value_name = "B", help_heading = FINE)]
    batch: Option<usize>,
    /// Monte-Carlo samples of z per row
    #[arg(long, value_name = "L", help_heading = FINE)]
    samples: Option<usize>,
    /// Variance of `gaussian-fixed`
    #[arg(long, value_name = "V", help_heading = FINE, value_parser = finite_single)]
    noise_variance: Option<f32>,
    /// How to pretrain
    #[arg(long, value_name = "HOW", help_heading = FINE)]
    #[arg(value_parser = one_of::<PretrainKind>(&["end-to-end", "stacked"]))]
    pretrain: Option<PretrainKind>,
    /// Epochs per layer of stacked pretraining
    #[arg(long, value_name = "E", help_heading = FINE)]
    layer_epochs: Option<usize>,
    /// Dropout rate of stacked pretraining
    #[arg(long, value_name = "P", help_heading = FINE, value_parser = finite_single)]
    dropout: Option<f32>,
    /// Rows per step of pretraining
    #[arg(long, value_name = "B", help_heading = FINE)]
    pretrain_batch: Option<usize>,
    /// Adam's learning rate in pretraining
    #[arg(long, value_name = "RATE", help_heading = FINE, value_parser = finite_single)]
    pretrain_learning_rate: Option<f32>,
    /// Final steps of pretraining, over which its learning rate falls to zero
    #[arg(long, value_name = "STEPS", help_heading = FINE)]
    cool_down: Option<usize>,
    /// Starts of k-means and EM; the one with the best clusters by modularity is kept
    #[arg(long, value_name = "N", help_heading = FINE)]
    mixture_starts: Option<usize>,
    /// Neighbours of each row in the graph
    #[arg(long, value_name = "N", help_heading = FINE)]
    neighbours: Option<usize>,
    /// Rows in the graph, at most; above, a uniform sample
    #[arg(long, value_name = "N", help_heading = FINE)]
    graph_rows: Option<usize>,
    /// Weight of the neighbour term in joint training, in nats: rows that are neighbours should belong to one cluster
    #[arg(long, value_name = "NATS", help_heading = FINE, value_parser = finite_single)]
    neighbour_weight: Option<f32>,
    /// Adam's learning rate for the networks
    #[arg(long, value_name = "RATE", help_heading = FINE, value_parser = finite_single)]
    learning_rate: Option<f32>,
    /// Adam's learning rate for the mixture
    #[arg(long, value_name = "RATE", help_heading = FINE, value_parser = finite_single)]
    mixture_learning_rate: Option<f32>,
    /// Factor applied to both learning rates every `--decay-every` epochs
    #[arg(long, value_name = "F", help_heading = FINE, value_parser = finite_single)]
    decay: Option<f32>,
    /// Epochs between decays
    #[arg(long, value_name = "E", help_heading = FINE)]
    decay_every: Option<usize>,
    /// Lower bound of the learning rates
    #[arg(long, value_name = "RATE", help_heading = FINE, value_parser = finite_single)]
    learning_rate_floor: Option<f32>,
    /// Adam's epsilon in joint training
    #[arg(long, value_name = "X", help_heading = FINE, value_parser = finite_single)]
    epsilon: Option<f32>,
    /// How one model is made of several restarts: a consensus of three or more, or the best by a label-free score
    #[arg(long, value_name = "HOW", help_heading = FINE)]
    #[arg(value_parser = one_of::<Choice>(&["consensus", "modularity", "elbo"]))]
    choose: Option<Choice>,
    /// Which state of a run becomes the model
    #[arg(long, value_name = "STATE", help_heading = FINE, value_parser = one_of::<Keep>(&["best", "last"]))]
    keep: Option<Keep>,
}

/// A parser that lists the names in help, completions and suggestions.
fn one_of<T>(names: &'static [&'static str]) -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err: std::error::Error + Send + Sync> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(names).try_map(|text: String| text.parse::<T>())
}

/// Parses a finite number that is not too large or too small for single precision.
fn finite_single(text: &str) -> std::result::Result<f32, String> {
    let given = finite(text)?;
    // From the text: via double precision it could be rounded twice.
    let held: f32 = text.parse().map_err(|_| "must be a number".to_string())?;
    if held.is_finite() && (held == 0.0) == (given == 0.0) {
        return Ok(held);
    }
    Err(format!("must be 0, or between {:e} and {:e} in size", f32::from_bits(1), f32::MAX))
}

/// Like [`single`], for double precision.
pub(crate) fn finite(text: &str) -> std::result::Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "must be a number".to_string())?;
    let digits = text.split(['e', 'E']).next().unwrap_or_default();
    let vanished = number == 0.0 && digits.contains(|c: char| ('1'..='9').contains(&c));
    if number.is_finite() && !vanished { Ok(number) } else { Err("must be a finite number".to_string()) }
}

impl SettingFlags {
    /// The settings: recipe, then file, then flags.
    pub(crate) fn resolve(&self, config: &Config) -> Result<Settings> {
        let flags = typed(self)?;
        let mut keys = config.settings.clone();
        keys.extend(flags);
        if !keys.contains_key("clusters") {
            let must = "must be a whole number of at least 1, or `auto`";
            return Err(Error::setting("clusters", "missing", must)
                .with_hint("add `--clusters 10`, or `--clusters auto` to find the number"));
        }
        // A flag of the wrong type never gets here: the invalid value is in the file.
        Settings::from_keys(keys).map_err(|error| match &config.path {
            Some(path) => Error::data(path.display(), format!("key {error}"))
                .with_hint("the keys are the long flags of `pervade fit`, such as `pretrain_epochs = 30`"),
            None => error,
        })
    }
}

/// The flags that were typed, as keys and values.
fn typed(settings: &impl Serialize) -> Result<Map<String, Value>> {
    match serde_json::to_value(settings) {
        Ok(Value::Object(map)) => Ok(map.into_iter().filter(|(_, value)| !value.is_null()).collect()),
        other => Err(Error::setting("settings", format!("{other:?}"), "must be numbers and names")),
    }
}

/// A configuration file: settings, and types of columns in its table `[columns]`.
#[derive(Default)]
pub(crate) struct Config {
    path: Option<PathBuf>,
    /// Settings by key; `-` and `_` are the same.
    settings: Map<String, Value>,
    /// Types of columns by name.
    pub(crate) columns: Vec<(String, ColumnSpec)>,
    /// Whether missing cells mean something.
    pub(crate) missing_informative: bool,
}

impl Config {
    /// Reads a file; without one, nothing is set.
    pub(crate) fn read(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else { return Ok(Self::default()) };
        Self::parse(&std::fs::read_to_string(path).map_err(|e| Error::io("read", path, e))?, path)
    }

    /// Reads the text of the file at `path`.
    pub(crate) fn parse(text: &str, path: &Path) -> Result<Self> {
        let mut keys: toml::Table = toml::from_str(text)
            .map_err(|e| Error::data(path.display(), e.to_string().trim_end().replace('\n', "\n  ")))?;
        let columns = keys.remove("columns").map_or(Ok(Vec::new()), |value| read_columns(path, &value))?;
        let missing_informative =
            remove_flag(&mut keys, path, ["missing_informative", "missing-informative"])?;
        let mut settings = Map::new();
        for (key, value) in keys {
            check_finite(path, &key, &value)?;
            let value =
                serde_json::to_value(value).map_err(|e| Error::data(path.display(), e.to_string()))?;
            settings.insert(key.replace('-', "_"), value);
        }
        Ok(Self { path: Some(path.to_path_buf()), settings, columns, missing_informative })
    }
}

/// Takes a key, in one of its spellings, that is true or false; false if it is absent.
fn remove_flag(keys: &mut toml::Table, path: &Path, spellings: [&str; 2]) -> Result<bool> {
    match spellings.into_iter().find_map(|key| keys.remove(key)) {
        None => Ok(false),
        Some(toml::Value::Boolean(flag)) => Ok(flag),
        Some(other) => {
            let problem = format!("key `{}` is {other}, must be true or false", spellings[0]);
            Err(Error::data(path.display(), problem))
        }
    }
}

/// The table `[columns]`: `age = "count"`.
fn read_columns(path: &Path, value: &toml::Value) -> Result<Vec<(String, ColumnSpec)>> {
    let refuse = |key: &str, value: &toml::Value| {
        Error::data(path.display(), format!("key `{key}` is {value}, must be the name of a type"))
            .with_hint("types of columns are given as in `[columns]` and below it `age = \"count\"`")
    };
    let toml::Value::Table(columns) = value else { return Err(refuse("columns", value)) };
    let each = columns.iter().map(|(name, value)| {
        let spec = value.as_str().ok_or_else(|| refuse(name, value))?.parse::<ColumnSpec>();
        let named = |error: Error| {
            let hint = error.hint().unwrap_or_default();
            Error::data(path.display(), format!("column `{name}`: {error}")).with_hint(hint)
        };
        Ok((name.clone(), spec.map_err(named)?))
    });
    each.collect()
}

/// TOML has `nan` and `inf`, JSON does not.
fn check_finite(path: &Path, key: &str, value: &toml::Value) -> Result<()> {
    match value {
        toml::Value::Float(x) if !x.is_finite() => {
            Err(Error::data(path.display(), format!("key `{key}` is {value}, must be a finite number")))
        }
        toml::Value::Array(items) => items.iter().try_for_each(|item| check_finite(path, key, item)),
        _ => Ok(()),
    }
}

/// The values of both recipes, as they would be typed.
pub(crate) struct Defaults {
    robust: Map<String, Value>,
    paper: Map<String, Value>,
}

impl Defaults {
    pub(crate) fn new() -> Self {
        let of = |recipe| Settings::recipe(recipe, Clusters::Fixed(0)).to_keys();
        Self { robust: of(Recipe::Robust), paper: of(Recipe::Paper) }
    }

    /// The names of all settings.
    #[cfg(test)]
    pub(crate) fn keys(&self) -> Vec<String> {
        self.robust.keys().cloned().collect()
    }

    /// The default of a setting and its value in the recipe `paper`; none for the number of clusters, which has to be given.
    pub(crate) fn of(&self, key: &str) -> (Option<String>, Option<String>) {
        let shown = |values: &Map<String, Value>| match (key, values.get(key)) {
            ("clusters", _) | (_, None) => None,
            ("components", Some(value)) if !value.is_null() => Some("K".to_string()),
            (_, Some(value)) => Some(short(value)),
        };
        (shown(&self.robust), if key == "recipe" { shown(&self.robust) } else { shown(&self.paper) })
    }
}

/// The command `fit` as it is defined, without defaults in its help.
pub(crate) fn fit_flags() -> clap::Command {
    SettingFlags::augment_args(clap::Command::new("fit"))
}

/// Adds the default to the help of every setting.
pub(crate) fn state_defaults(fit: clap::Command) -> clap::Command {
    let defaults = Defaults::new();
    let ids: Vec<String> = fit.get_arguments().map(|arg| arg.get_id().to_string()).collect();
    ids.into_iter().fold(fit, |fit, id| {
        let default = match defaults.of(&id) {
            (Some(robust), Some(paper)) if robust == paper => format!(" [default: {robust}]"),
            (Some(robust), Some(paper)) => format!(" [default: {robust}; paper: {paper}]"),
            _ => return fit,
        };
        fit.mut_arg(id, |arg| {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            arg.help(help + &default)
        })
    })
}

/// The default model file in the current folder, named after the data: `a/b.csv.gz` gives `b.pervade`.
pub(crate) fn default_model(data: &Path) -> PathBuf {
    let of = |path: &Path| path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    // Of a pattern, the folder has the better name.
    let is_pattern = of(data).contains(['*', '?']) && !data.exists();
    let name = if is_pattern { data.parent().map(of).unwrap_or_default() } else { of(data) };
    let stem = name.strip_suffix(".gz").unwrap_or(&name);
    let stem = stem.rsplit_once('.').map_or(stem, |(stem, _)| stem);
    PathBuf::from(format!("{}.pervade", if stem.is_empty() { "model" } else { stem }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_a_flag() {
        let fit = crate::args::command().find_subcommand("fit").unwrap().clone();
        let flags: Vec<String> = fit.get_arguments().map(|arg| arg.get_id().to_string()).collect();
        let missing: Vec<String> =
            Defaults::new().keys().into_iter().filter(|field| !flags.contains(field)).collect();
        assert_eq!(missing, Vec::<String>::new());
    }

    #[test]
    fn flags_override_the_file_and_the_file_the_recipe() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run.toml");
        std::fs::write(&file, "clusters = 7\nrecipe = \"paper\"\npretrain-epochs = 5\nbatch = 64\n").unwrap();
        let flags = SettingFlags { batch: Some(32), ..Default::default() };
        let settings = flags.resolve(&Config::read(Some(&file)).unwrap()).unwrap();
        assert_eq!(settings.clusters, Clusters::Fixed(7));
        assert_eq!((settings.components, settings.pretrain_epochs, settings.batch), (Some(7), Some(5), 32));
        assert_eq!(settings.gamma, Gamma::Sampled);
        for (text, named) in
            [("colour = 3\n", "`colour`"), ("batch = \"many\"\n", "`batch`"), ("batch = \n", "batch")]
        {
            std::fs::write(&file, format!("clusters = 7\n{text}")).unwrap();
            let resolved = Config::read(Some(&file)).and_then(|c| SettingFlags::default().resolve(&c));
            let error = resolved.unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn types_of_columns_are_read_from_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run.toml");
        let text = "clusters = 7\nmissing-informative = true\n[columns]\nage = \"count\"\n\"body mass\" = \"ordered: low < high\"\n";
        std::fs::write(&file, text).unwrap();
        let config = Config::read(Some(&file)).unwrap();
        assert_eq!(SettingFlags::default().resolve(&config).unwrap().clusters, Clusters::Fixed(7));
        assert!(config.missing_informative && !Config::default().missing_informative);
        let shown: Vec<String> = config
            .columns
            .iter()
            .map(|(name, spec)| format!("{name} {} {:?}", spec.kind, spec.order))
            .collect();
        assert_eq!(shown, ["age count []", "body mass ordered [\"low\", \"high\"]"]);
        for (columns, wanted) in [
            ("[columns]\nage = 3\n", "key `age` is 3, must be the name of a type"),
            ("[columns]\nage = \"numbr\"\n", "column `age`: `type` is `numbr`, must be one of number"),
            ("columns = 3\n", "key `columns` is 3"),
            ("missing-informative = 1\n", "key `missing_informative` is 1, must be true or false"),
        ] {
            std::fs::write(&file, columns).unwrap();
            let error = Config::read(Some(&file)).err().unwrap().to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }

    #[test]
    fn models_are_named_after_the_data() {
        assert_eq!(default_model(Path::new("/a/b.csv.gz")), Path::new("b.pervade"));
        assert_eq!(default_model(Path::new("..")), Path::new("model.pervade"));
    }
}
