//! Reading and writing `.pervade` files: safetensors with one JSON entry of metadata.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;

use safetensors::SafeTensors;

use super::seal::{self, Seal};
use super::tensors::{NamedTensor, float_values, integer_values, serialize_tensors, shape_of};
use super::vade::{Metadata, Vade};
use crate::compute::{ColumnTable, Likelihood};
use crate::data::PrepareKind;
use crate::files::write_atomically;
use crate::mixture::FullMixture;
use crate::plain::RowDensity;
use crate::{Error, Hint, Result};

/// Name and version of the format. The version changes if older readers would misread the file.
pub(super) const FORMAT: &str = "pervade-model-1";
const FAMILY: &str = "pervade-model-";
const GROUPS: &str = "mixture.groups";
/// The density of the rows: log weights, means and covariances of a mixture, quantiles of the columns.
const DENSITY: [&str; 4] =
    ["density.log_weights", "density.means", "density.covariances", "density.quantiles"];
/// The largest plausible number of columns or components; a header that claims more is refused.
const MAX_COLUMNS: usize = 1 << 28;

impl Vade {
    /// Writes the model to a file, atomically.
    pub fn save(&self, path: &Path) -> Result<()> {
        let bytes = self.to_bytes()?;
        write_atomically(path, |out| out.write_all(&bytes))
    }

    /// The bytes of the model file.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        if !covers_clusters(&self.groups, self.n_clusters()) {
            let problem = "cannot hold merged clusters: save the model without them, and the merges as names";
            return Err(Error::model("model file", problem));
        }
        let mut tensors: Vec<NamedTensor> = Vec::new();
        for (name, slot) in self.architecture.layout.slots() {
            let values = &self.values[slot.range()];
            let shape = if slot.rows == 1 { vec![slot.columns] } else { vec![slot.rows, slot.columns] };
            tensors.push(NamedTensor::shaped(name.clone(), shape, values));
        }
        tensors.push(NamedTensor::integers(GROUPS, self.groups.clone()));
        tensors.extend(self.density.iter().flat_map(density_tensors));
        let metadata = Metadata { checksum: Some(seal::UNSET.to_string()), ..self.metadata.clone() };
        let json = serde_json::to_string(&metadata).map_err(|e| Error::model("model file", e.to_string()))?;
        let mut bytes = serialize_tensors(&tensors, HashMap::from([("pervade".to_string(), json)]))?;
        seal::reseal(&mut bytes);
        Ok(bytes)
    }

    /// Reads a model file.
    pub fn load(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(|e| Error::io("read", path, e))?;
        Self::from_bytes(&bytes, path)
    }

    /// Reads a model from the bytes of a file; `path` is for messages.
    pub fn from_bytes(bytes: &[u8], path: &Path) -> Result<Self> {
        let not_ours = |what: String| {
            let hint = Hint::new("models are made by ").command("fit");
            Error::model(path.display(), format!("not a pervade model: {what}"))
                .with_hint(hint.also("the file may be cut short or damaged"))
        };
        let damaged = || {
            Error::model(path.display(), "the file is damaged: its checksum does not match its content")
                .with_hint("copy or download it again from where it was intact, or fit the model again")
        };
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(|e| not_ours(e.to_string()))?;
        let entry = header.metadata().as_ref().and_then(|m| m.get("pervade"));
        let json =
            entry.ok_or_else(|| not_ours("it is a safetensors file without pervade's metadata".into()))?;
        let checksum = match Seal::of(bytes) {
            Seal::Intact(checksum) => Some(checksum),
            Seal::Absent => None,
            // Another format may have another checksum.
            Seal::Broken => return Err(other_format(path, json).unwrap_or_else(damaged)),
        };
        if let Some(error) = other_format(path, json) {
            return Err(error);
        }
        let metadata: Metadata =
            serde_json::from_str(json).map_err(|e| not_ours(format!("metadata: {e}")))?;
        if metadata.checksum != checksum {
            return Err(damaged());
        }
        check_sizes(&metadata).map_err(&not_ours)?;
        let tensors = SafeTensors::deserialize(bytes).map_err(|e| not_ours(e.to_string()))?;
        Self::from_tensors(path, metadata, &tensors)
    }

    fn from_tensors(path: &Path, metadata: Metadata, tensors: &SafeTensors<'_>) -> Result<Self> {
        // The layout is small; the parameter buffer is allocated after all shapes were checked against the file.
        let Metadata { image, likelihood, n_components, .. } = metadata;
        let preparation = &metadata.preparation;
        let architecture = metadata.settings.architecture(preparation, image, likelihood, n_components);
        for (name, slot) in architecture.layout.slots() {
            let shape = shape_of(path, tensors, name)?;
            let expected = if slot.rows == 1 { vec![slot.columns] } else { vec![slot.rows, slot.columns] };
            if shape != expected {
                return Err(Error::model(
                    path.display(),
                    format!("`{name}` is {shape:?}, expected {expected:?}"),
                ));
            }
        }
        let mut values = vec![0.0; architecture.layout.len()];
        for (name, slot) in architecture.layout.slots() {
            let array = float_values(path, tensors, name)?;
            if let Some(bad) = array.iter().find(|x| !x.is_finite()) {
                return Err(Error::model(path.display(), format!("`{name}` contains {bad}")));
            }
            values[slot.range()].copy_from_slice(&array);
        }
        let groups = integer_values(path, tensors, GROUPS)?;
        if groups.len() != metadata.n_components || !covers_clusters(&groups, metadata.n_clusters) {
            return Err(Error::model(path.display(), "its components and clusters do not fit together"));
        }
        let remarks = match metadata.checksum {
            Some(_) => Vec::new(),
            None => vec![seal::unverified(path, "weights")],
        };
        let density = read_density(path, tensors, metadata.n_columns)?;
        Ok(Self { metadata, architecture, values, groups, density, remarks })
    }
}

fn density_tensors(RowDensity { mixture, quantiles, .. }: &RowDensity) -> [NamedTensor; 4] {
    let (k, d) = (mixture.log_weights.len(), mixture.means.len() / mixture.log_weights.len());
    let single = |values: &[f64]| values.iter().map(|&x| x as f32).collect::<Vec<f32>>();
    let [weights, means, covariances, columns] = DENSITY;
    [
        NamedTensor::floats(weights, single(&mixture.log_weights)),
        NamedTensor::shaped(means, vec![k, d], &single(&mixture.means)),
        NamedTensor::shaped(covariances, vec![k, d, d], &single(&mixture.covariances.concat())),
        NamedTensor::shaped(columns, vec![d, quantiles.len() / d], quantiles),
    ]
}

/// The density of the rows, if the file has one.
fn read_density(path: &Path, tensors: &SafeTensors<'_>, d: usize) -> Result<Option<RowDensity>> {
    let [weights, means, covariances, quantiles] = DENSITY;
    if !tensors.names().contains(&weights) {
        return Ok(None);
    }
    let bad = |what: &str| Error::model(path.display(), format!("its density of the rows {what}"));
    let shape = |name: &str| shape_of(path, tensors, name);
    let k: usize = shape(weights)?.iter().product();
    let of_columns = shape(quantiles)?;
    let is_right = k > 0
        && (shape(means)?, shape(covariances)?) == (vec![k, d], vec![k, d, d])
        && matches!(of_columns[..], [columns, n] if columns == d && n > 0);
    if !is_right {
        return Err(bad("is for another number of columns"));
    }
    let values = |name: &str| float_values(path, tensors, name);
    let double = |name: &str| -> Result<Vec<f64>> { Ok(values(name)?.into_iter().map(f64::from).collect()) };
    let (log_weights, means, covariances) = (double(weights)?, double(means)?, double(covariances)?);
    let quantiles = values(quantiles)?;
    let numbers = [&log_weights, &means, &covariances].into_iter().flatten().copied();
    if numbers.chain(quantiles.iter().map(|&x| f64::from(x))).any(|x| !x.is_finite()) {
        return Err(bad("has values that are not finite"));
    }
    let covariances = covariances.chunks_exact(d * d).map(<[f64]>::to_vec).collect();
    let mixture = FullMixture::new(log_weights, means, covariances);
    let density = mixture.and_then(|mixture| RowDensity::new(mixture, quantiles));
    density.map(Some).map_err(|_| bad("is singular"))
}

/// Whether all groups are below `n_clusters` and every cluster has a component.
pub(crate) fn covers_clusters(groups: &[u32], n_clusters: usize) -> bool {
    let mut seen = vec![false; n_clusters];
    let inside = groups.iter().all(|&g| seen.get_mut(g as usize).map(|there| *there = true).is_some());
    inside && seen.iter().all(|&there| there)
}

/// The error for another format, if it is one. It is checked before the metadata are parsed, because fields may have
/// another meaning.
fn other_format(path: &Path, json: &str) -> Option<Error> {
    let value: serde_json::Value = serde_json::from_str(json).ok()?;
    let format = value.get("format")?.as_str().filter(|format| *format != FORMAT)?;
    if !format.starts_with(FAMILY) {
        return Some(Error::model(path.display(), format!("not a pervade model: its format is `{format}`")));
    }
    let problem = format!("its format is `{format}`, this program reads `{FORMAT}`");
    Some(
        Error::model(path.display(), problem)
            .with_hint("it was written by another version of pervade: update pervade"),
    )
}

fn check_sizes(metadata: &Metadata) -> std::result::Result<(), String> {
    metadata.settings.check_ranges().map_err(|e| e.to_string())?;
    let d = metadata.n_columns;
    if d == 0 || d > MAX_COLUMNS || metadata.n_components == 0 || metadata.n_components > MAX_COLUMNS {
        return Err(format!("{d} columns, {} components", metadata.n_components));
    }
    if metadata.n_clusters == 0 || metadata.n_clusters > metadata.n_components {
        return Err(format!("{} clusters of {} components", metadata.n_clusters, metadata.n_components));
    }
    let n_outputs = ColumnTable::Typed(metadata.preparation.columns()).n_outputs();
    let fits = match metadata.likelihood {
        Likelihood::Typed { n_outputs: given } => given as usize == n_outputs && metadata.schema.is_some(),
        Likelihood::Counts => metadata.preparation.kind() == PrepareKind::Counts,
        _ => n_outputs == 0,
    };
    if !metadata.likelihood.is_valid() || !fits {
        return Err(format!("its likelihood is {}", metadata.likelihood));
    }
    if metadata.schema.as_ref().is_some_and(|schema| schema.columns.len() != d) {
        return Err("its types of columns are for another number of columns".to_string());
    }
    let (kept, states) = (metadata.record.kept, metadata.record.states.len());
    if kept >= states {
        return Err(format!("it keeps state {kept} of {states}"));
    }
    let n_restarts = metadata.restarts.len();
    if metadata.restarts.iter().any(|r| !r.agreement.is_empty() && r.agreement.len() != n_restarts) {
        return Err("the agreement of its restarts is that of others".to_string());
    }
    if metadata.record.merges.as_ref().is_some_and(|tree| !tree.is_valid(metadata.n_components)) {
        return Err("its merges are not those of its components".to_string());
    }
    if metadata.preparation.n_columns() != d {
        return Err("its preparation is for another number of columns".to_string());
    }
    let image = metadata.image.map(|i| i.height.saturating_mul(i.width).saturating_mul(i.channels));
    let names = metadata.column_names.as_ref().map(Vec::len);
    if image.is_some_and(|n| n != d) || names.is_some_and(|n| n != d) {
        return Err("its image shape or column names do not fit its columns".to_string());
    }
    Ok(())
}
