//! Checkpoints: everything that a run needs to continue to exactly the same model.
//!
//! A checkpoint is one safetensors file, written to a temporary name and renamed: if the process is killed at any
//! moment, the last complete file remains.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use serde::{Deserialize, Serialize};

use super::checkpoint_checks::{check_best_trial, check_finished, check_graph, check_pack, check_values};
use super::observer::{Event, Observer};
use super::run::{Pack, Run, State};
use crate::compute::{Device, Params, Terms};
use crate::config::Settings;
use crate::files::{resolve, temporary_names, write_atomically};
use crate::graph::Graph;
use crate::model::seal::{self, Seal};
use crate::model::tensors::{NamedTensor, float_values, integer_values, serialize_tensors};
use crate::record::Finished;
use crate::{Error, Hint, Result};

#[doc(hidden)]
pub use super::probe::{check_bytes, probe_data, probe_settings};
#[doc(hidden)]
pub use crate::model::reseal;

const FORMAT: &str = "pervade-checkpoint-1";
const FILE: &str = "checkpoint.safetensors";
/// Prefixes of the names of a pack's arrays: the pack in training, and its best trial.
const PACK: &str = "";
const BEST_TRIAL: &str = "best-start.";
/// Sums of an unfinished epoch: doubles, each as two `u32`, low half first.
const SUMS: &str = "sums";

/// The folder for checkpoints, and whether to continue from the one in it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Checkpoints {
    /// The folder, which is created if it does not exist.
    pub folder: PathBuf,
    /// Whether to continue from the checkpoint in the folder.
    pub resume: bool,
}

/// A checkpoint without its arrays.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    format: String,
    settings: Settings,
    data_checksum: String,
    /// The pack in training, if there was one.
    pack: Option<State>,
    /// Its best trial, if there are several.
    #[serde(rename = "best_start", default, skip_serializing_if = "Option::is_none")]
    best_trial: Option<State>,
    finished: Vec<Finished>,
    /// Checksum of the whole file; absent in files of early versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    checksum: Option<String>,
}

/// The state to continue from: finished restarts with their parameters, and the pack in training.
pub(super) type Resumed<D> = (Vec<(Finished, Vec<f32>)>, Option<Pack<D>>);

impl Checkpoints {
    /// Checkpoints in a folder; training starts from the beginning, whatever is in it.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), resume: false }
    }

    /// Continue from the checkpoint in the folder, if there is one.
    pub fn resuming(self) -> Self {
        Self { resume: true, ..self }
    }

    /// Path of the checkpoint file.
    pub fn path(&self) -> PathBuf {
        self.folder.join(FILE)
    }

    /// Whether there is a checkpoint to resume from.
    pub fn exists(&self) -> bool {
        self.path().is_file()
    }

    /// Creates the folder; call this before any long computation.
    pub fn prepare(&self) -> Result<()> {
        resolve(&self.folder)
            .and_then(std::fs::create_dir_all)
            .map_err(|e| Error::io("create", &self.folder, e))
    }

    /// Writes the current state of a run.
    pub fn save<D: Device>(
        &self,
        run: &Run<'_, D>,
        data_checksum: &str,
        pack: Option<&Pack<D>>,
        finished: &[(Finished, Vec<f32>)],
    ) -> Result<()> {
        let header = Header {
            format: FORMAT.to_string(),
            settings: run.settings.settings.clone(),
            data_checksum: data_checksum.to_string(),
            pack: pack.map(|pack| pack.state.clone()),
            best_trial: pack.and_then(|pack| pack.best_trial.as_ref()).map(|best| best.state.clone()),
            finished: finished.iter().map(|(finished, _)| finished.clone()).collect(),
            checksum: Some(seal::UNSET.to_string()),
        };
        let mut tensors: Vec<NamedTensor> = Vec::new();
        for (i, (_, values)) in finished.iter().enumerate() {
            tensors.push(NamedTensor::floats(format!("finished.{i}"), values.clone()));
        }
        for (prefix, pack) in prefixed(pack) {
            add_pack(run, prefix, pack, &mut tensors)?;
        }
        let json = serde_json::to_string(&header).map_err(|e| Error::model(FILE, e.to_string()))?;
        let mut bytes = serialize_tensors(&tensors, HashMap::from([("pervade".to_string(), json)]))?;
        seal::reseal(&mut bytes);
        write_atomically(&self.path(), |out| std::io::Write::write_all(out, &bytes))
    }

    /// Reads the state of a run: finished restarts, and the pack in training. The observer gets a remark if the file
    /// could not be verified.
    pub fn load<D: Device>(
        &self,
        run: &Run<'_, D>,
        data_checksum: &str,
        observer: &mut dyn Observer,
    ) -> Result<(Vec<(Finished, Vec<f32>)>, Option<Pack<D>>)> {
        let path = self.path();
        let bytes = std::fs::read(&path).map_err(|e| Error::io("read", &path, e))?;
        let (resumed, remark) = resume_from(&path, &bytes, run, data_checksum)?;
        if let Some(remark) = remark {
            observer.event(&Event::Remark(resumed.0.len(), &remark));
        }
        Ok(resumed)
    }

    /// Removes the checkpoint, temporary files of killed runs, and the folder if it is then empty. Only the run that
    /// holds the [lock](crate::files::Lock) on the checkpoint may call this: no other run is then writing one.
    pub fn remove(&self) {
        // Files that cannot be removed do no harm: the run is finished and its model written.
        let _ = std::fs::remove_file(self.path());
        let (prefix, suffix) = temporary_names(&self.path());
        let unfinished = |name: &str| name.starts_with(&prefix) && name.ends_with(suffix);
        for entry in std::fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if entry.file_name().to_str().is_some_and(unfinished) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
        let _ = std::fs::remove_dir(&self.folder);
    }
}

/// Reads and checks the state in a checkpoint's bytes, with a remark if they could not be verified; `path` is for
/// messages.
pub(super) fn resume_from<D: Device>(
    path: &Path,
    bytes: &[u8],
    run: &Run<'_, D>,
    data_checksum: &str,
) -> Result<(Resumed<D>, Option<String>)> {
    let (header, tensors) = parse(path, bytes)?;
    let differs = |what: &str| {
        Err(Error::model(path.display(), format!("this checkpoint was made with {what}"))
            .with_hint(start_afresh("give the same data and settings as before, or ")))
    };
    if header.data_checksum != data_checksum {
        return differs("other data");
    }
    if let Some(field) = first_difference(&header.settings, &run.settings.settings) {
        return differs(&format!("other settings: {field}"));
    }
    let remark = header.checksum.is_none().then(|| seal::unverified(path, "content"));
    let stored = Stored { path, tensors: &tensors };
    let stride = run.architecture.layout.len();
    if header.finished.len() > run.n_models() {
        return Err(stored.invalid("it has more restarts than the settings"));
    }
    let mut finished = Vec::new();
    for (i, entry) in header.finished.into_iter().enumerate() {
        check_finished(run, i, &entry).map_err(|problem| stored.invalid(problem))?;
        finished.push((entry, stored.floats(&format!("finished.{i}"), stride)?));
    }
    let Some(state) = header.pack else { return Ok(((finished, None), remark)) };
    check_pack(run, finished.len(), &state).map_err(|problem| stored.invalid(problem))?;
    let mut best_trial = None;
    if (1..run.settings.starts).contains(&state.trial) {
        let best = header.best_trial.ok_or_else(|| stored.invalid("its best trial is missing"))?;
        check_best_trial(run, &state, &best).map_err(|problem| stored.invalid(problem))?;
        best_trial = Some(Box::new(stored.pack(run, BEST_TRIAL, best)?));
    }
    let pack = Pack { best_trial, ..stored.pack(run, PACK, state)? };
    Ok(((finished, Some(pack)), remark))
}

/// The hint for a checkpoint that cannot be used, after other advice.
fn start_afresh(before: &str) -> Hint {
    Hint::new(format!("{before}leave out ")).setting("resume").text(" to start afresh")
}

fn parse<'b>(path: &Path, bytes: &'b [u8]) -> Result<(Header, SafeTensors<'b>)> {
    let broken = |what: String| {
        Error::model(path.display(), format!("not a whole checkpoint: {what}")).with_hint(start_afresh(""))
    };
    let damaged = || {
        Error::model(path.display(), "the file is damaged: its checksum does not match its content")
            .with_hint(start_afresh("").text(", or resume from an intact copy of the checkpoint"))
    };
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(|e| broken(e.to_string()))?;
    let checksum = match Seal::of(bytes) {
        Seal::Intact(checksum) => Some(checksum),
        Seal::Absent => None,
        Seal::Broken => return Err(damaged()),
    };
    let json = metadata
        .metadata()
        .as_ref()
        .and_then(|m| m.get("pervade"))
        .ok_or_else(|| broken("no header".into()))?;
    let header: Header = serde_json::from_str(json).map_err(|e| broken(e.to_string()))?;
    if header.format != FORMAT {
        return Err(broken(format!("its format is `{}`, this is `{FORMAT}`", header.format)));
    }
    if header.checksum != checksum {
        return Err(damaged());
    }
    let tensors = SafeTensors::deserialize(bytes).map_err(|e| broken(e.to_string()))?;
    Ok((header, tensors))
}

/// The packs of a checkpoint with their prefixes: the one in training, and its best trial.
fn prefixed<D: Device>(pack: Option<&Pack<D>>) -> impl Iterator<Item = (&'static str, &Pack<D>)> {
    let best_trial = pack.and_then(|pack| pack.best_trial.as_deref());
    [(PACK, pack), (BEST_TRIAL, best_trial)].into_iter().filter_map(|(prefix, pack)| Some((prefix, pack?)))
}

/// Adds the arrays of a pack to `tensors`.
fn add_pack<D: Device>(
    run: &Run<'_, D>,
    prefix: &str,
    pack: &Pack<D>,
    tensors: &mut Vec<NamedTensor>,
) -> Result<()> {
    let params = &pack.params;
    let weights = run.architecture.layout.weights();
    let read = |buffer| -> Result<Vec<f32>> {
        let mut host = vec![0.0; params.restarts * params.stride];
        run.device.read(buffer, 0, &mut host)?;
        Ok(host)
    };
    tensors.push(NamedTensor::floats(format!("{prefix}values"), read(&params.values)?));
    let moments = [("first_moments", &params.first_moments), ("second_moments", &params.second_moments)];
    for (name, buffer) in moments {
        let mut host = read(buffer)?;
        if run.settings.settings.shares == 1 {
            run.device.moments_to_rows(&weights, params.stride, &mut host);
        }
        tensors.push(NamedTensor::floats(format!("{prefix}{name}"), host));
    }
    for (i, values) in pack.best_values.iter().enumerate() {
        tensors.push(NamedTensor::floats(format!("{prefix}best.{i}"), values.clone()));
    }
    if pack.state.step > 0 {
        let halves =
            pack.sums.iter().map(|sum| sum.to_bits()).flat_map(|bits| [bits as u32, (bits >> 32) as u32]);
        tensors.push(NamedTensor::integers(format!("{prefix}{SUMS}"), halves.collect()));
    }
    for (i, graph) in pack.graphs.iter().enumerate() {
        tensors.push(NamedTensor::integers(format!("{prefix}graph.{i}.rows"), graph.rows.clone()));
        tensors
            .push(NamedTensor::integers(format!("{prefix}graph.{i}.neighbours"), graph.neighbours.clone()));
        if !graph.others.is_empty() {
            tensors.push(NamedTensor::integers(format!("{prefix}graph.{i}.others"), graph.others.clone()));
        }
    }
    Ok(())
}

/// The arrays of a checkpoint.
struct Stored<'b> {
    path: &'b Path,
    tensors: &'b SafeTensors<'b>,
}

impl Stored<'_> {
    fn floats(&self, name: &str, len: usize) -> Result<Vec<f32>> {
        let values = float_values(self.path, self.tensors, name)?;
        if values.len() != len {
            return Err(self.invalid(&format!("its array `{name}` has {} values, not {len}", values.len())));
        }
        check_values(name, &values).map_err(|problem| self.invalid(&format!("{problem}: `{name}`")))?;
        Ok(values)
    }

    fn invalid(&self, what: &str) -> Error {
        Error::model(self.path.display(), what).with_hint(start_afresh(""))
    }

    /// Reads the pack whose arrays have the prefix; its state has been checked.
    fn pack<D: Device>(&self, run: &Run<'_, D>, prefix: &str, state: State) -> Result<Pack<D>> {
        let (r, stride) = (state.restarts.len(), run.architecture.layout.len());
        let mut params = Params::zeros(run.device, r, stride)?;
        run.device.write(&mut params.values, 0, &self.floats(&format!("{prefix}values"), r * stride)?)?;
        let weights = run.architecture.layout.weights();
        let moments = |name: &str| -> Result<Vec<f32>> {
            let mut values = self.floats(&format!("{prefix}{name}"), r * stride)?;
            // With several shares, Adam goes over the flat buffers.
            if run.settings.settings.shares == 1 {
                run.device.moments_from_rows(&weights, stride, &mut values);
            }
            Ok(values)
        };
        run.device.write(&mut params.first_moments, 0, &moments("first_moments")?)?;
        run.device.write(&mut params.second_moments, 0, &moments("second_moments")?)?;
        let best_values = (0..state.best.len()).map(|i| self.floats(&format!("{prefix}best.{i}"), stride));
        let best_values = best_values.collect::<Result<_>>()?;
        let is_consensus = state.is_consensus();
        let graphs = (0..state.start_groupings.len())
            .map(|i| self.graph(run, &format!("{prefix}graph.{i}"), is_consensus));
        let graphs = graphs.collect::<Result<_>>()?;
        let sums = self.sums(prefix, &state, run.settings.settings.shares)?;
        Ok(Pack { state, params, best_values, graphs, vote: None, best_trial: None, sums })
    }

    /// The sums of an unfinished epoch.
    fn sums(&self, prefix: &str, state: &State, shares: usize) -> Result<Vec<f64>> {
        if state.step == 0 {
            return Ok(Vec::new());
        }
        let halves = integer_values(self.path, self.tensors, &format!("{prefix}{SUMS}"))?;
        let double = |half: &[u32]| f64::from_bits(u64::from(half[1]) << 32 | u64::from(half[0]));
        let sums: Vec<f64> = halves.chunks_exact(2).map(double).collect();
        let per_group = 2 * Terms::N * state.restarts.len() * shares;
        let whole = !halves.is_empty() && halves.len().is_multiple_of(per_group);
        if !whole || !sums.iter().all(|sum| sum.is_finite()) {
            return Err(self.invalid("its sums of the unfinished epoch are invalid"));
        }
        Ok(sums)
    }

    fn graph<D: Device>(&self, run: &Run<'_, D>, name: &str, is_consensus: bool) -> Result<Graph> {
        let rows = integer_values(self.path, self.tensors, &format!("{name}.rows"))?;
        let neighbours = integer_values(self.path, self.tensors, &format!("{name}.neighbours"))?;
        let n_neighbours = neighbours.len() / rows.len().max(1);
        let others = if run.neighbours_of_others() && !is_consensus {
            integer_values(self.path, self.tensors, &format!("{name}.others"))?
        } else {
            Vec::new()
        };
        let graph = Graph { rows, neighbours, n_neighbours, others };
        check_graph(run, &graph, is_consensus).map_err(|problem| self.invalid(problem))?;
        Ok(graph)
    }
}

/// The first setting that differs between two runs, with its old and new value.
fn first_difference(then: &Settings, now: &Settings) -> Option<String> {
    let table = |settings: &Settings| serde_json::to_value(settings).unwrap_or_default();
    let (then, now) = (table(then), table(now));
    let (then, now) = (then.as_object()?, now.as_object()?);
    let field = then.iter().find(|(name, value)| now.get(*name) != Some(value))?;
    let shown =
        |value: &serde_json::Value| if value.is_null() { "not given".to_string() } else { value.to_string() };
    Some(format!("`{}` was {}, now {}", field.0.replace('_', "-"), shown(field.1), shown(now.get(field.0)?)))
}
