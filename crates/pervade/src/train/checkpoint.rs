//! Checkpoints: everything a run needs to go on to the very same bytes.
//!
//! One safetensors file, written beside its target and renamed, so that a kill at any moment leaves
//! the last whole one.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use serde::{Deserialize, Serialize};

use super::run::{Pack, Run, State};
use crate::compute::{Device, Params};
use crate::config::Settings;
use crate::data::write_atomically;
use crate::fit::Finished;
use crate::graph::Graph;
use crate::model::tensors::{Named, float_values, named_tensors, whole_values};
use crate::{Error, Result};

const FORMAT: &str = "pervade-checkpoint-1";
const FILE: &str = "checkpoint.safetensors";

/// Where checkpoints go, and whether to start from the one that is there.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    /// A folder; made when it is not there.
    pub folder: PathBuf,
    /// Continue from the checkpoint in the folder.
    pub resume: bool,
}

/// The part of a checkpoint that is not big arrays.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    format: String,
    settings: Settings,
    data_checksum: String,
    /// The pack that was being trained, if one was.
    pack: Option<State>,
    finished: Vec<Finished>,
}

impl Checkpoints {
    fn path(&self) -> PathBuf {
        self.folder.join(FILE)
    }

    /// Whether there is a checkpoint to resume from.
    pub fn exists(&self) -> bool {
        self.path().is_file()
    }

    /// Makes the folder; called before any long work.
    pub fn prepare(&self) -> Result<()> {
        std::fs::create_dir_all(&self.folder).map_err(|e| Error::io("create", &self.folder, e))
    }

    /// Writes the run as it stands.
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
            finished: finished.iter().map(|(finished, _)| finished.clone()).collect(),
        };
        let mut tensors: Vec<Named> = Vec::new();
        for (i, (_, values)) in finished.iter().enumerate() {
            tensors.push(Named::floats(format!("finished.{i}"), values.clone()));
        }
        if let Some(pack) = pack {
            let params = &pack.params;
            let weights = run.architecture.layout.weights();
            let read = |buffer| -> Result<Vec<f32>> {
                let mut host = vec![0.0; params.restarts * params.stride];
                run.device.read(buffer, 0, &mut host)?;
                Ok(host)
            };
            tensors.push(Named::floats("values", read(&params.values)?));
            let moments =
                [("first_moments", &params.first_moments), ("second_moments", &params.second_moments)];
            for (name, buffer) in moments {
                let mut host = read(buffer)?;
                run.device.moments_to_rows(&weights, params.stride, &mut host);
                tensors.push(Named::floats(name, host));
            }
            for (i, values) in pack.best_values.iter().enumerate() {
                tensors.push(Named::floats(format!("best.{i}"), values.clone()));
            }
            for (i, graph) in pack.graphs.iter().enumerate() {
                tensors.push(Named::whole(format!("graph.{i}.rows"), graph.rows.clone()));
                tensors.push(Named::whole(format!("graph.{i}.neighbours"), graph.neighbours.clone()));
            }
        }
        let json = serde_json::to_string(&header).map_err(|e| Error::model(FILE, e.to_string()))?;
        let bytes = named_tensors(&tensors, HashMap::from([("pervade".to_string(), json)]))?;
        write_atomically(&self.path(), |out| std::io::Write::write_all(out, &bytes))
    }

    /// The run as it stood: finished restarts, and the pack in training.
    pub fn load<D: Device>(
        &self,
        run: &Run<'_, D>,
        data_checksum: &str,
    ) -> Result<(Vec<(Finished, Vec<f32>)>, Option<Pack<D>>)> {
        let path = self.path();
        let bytes = std::fs::read(&path).map_err(|e| Error::io("read", &path, e))?;
        let (header, tensors) = parse(&path, &bytes)?;
        let differs = |what: &str| {
            Err(Error::model(path.display(), format!("this checkpoint was made with {what}"))
                .with_hint("give the same data and flags as before, or leave out `--resume` to start afresh"))
        };
        if header.data_checksum != data_checksum {
            return differs("other data");
        }
        if let Some(field) = first_difference(&header.settings, &run.settings.settings) {
            return differs(&format!("other settings: {field}"));
        }
        let (stride, broken) =
            (run.architecture.layout.len(), |what: &str| Error::model(path.display(), what));
        let floats = |name: String, len: usize| -> Result<Vec<f32>> {
            let values = float_values(&path, &tensors, &name)?;
            if values.len() == len {
                Ok(values)
            } else {
                Err(broken(&format!("`{name}` has the wrong size")))
            }
        };
        let mut finished = Vec::new();
        for (i, entry) in header.finished.into_iter().enumerate() {
            finished.push((entry, floats(format!("finished.{i}"), stride)?));
        }
        let Some(state) = header.pack else { return Ok((finished, None)) };
        let r = state.restarts.len();
        if state.records.len() != r {
            return Err(broken("its restarts and records do not agree"));
        }
        let mut params = Params::zeros(run.device, r, stride)?;
        run.device.write(&mut params.values, 0, &floats("values".into(), r * stride)?)?;
        let weights = run.architecture.layout.weights();
        let moments = |name: &str| -> Result<Vec<f32>> {
            let mut values = floats(name.to_string(), r * stride)?;
            run.device.moments_from_rows(&weights, stride, &mut values);
            Ok(values)
        };
        run.device.write(&mut params.first_moments, 0, &moments("first_moments")?)?;
        run.device.write(&mut params.second_moments, 0, &moments("second_moments")?)?;
        let best_values =
            (0..state.best.len()).map(|i| floats(format!("best.{i}"), stride)).collect::<Result<_>>()?;
        let graphs = (0..state.starts.len()).map(|i| graph(&path, &tensors, i)).collect::<Result<_>>()?;
        Ok((finished, Some(Pack { state, params, best_values, graphs })))
    }

    /// Removes the checkpoint, what a killed run was writing when it was killed, and the folder if
    /// nothing else is in it.
    pub fn remove(&self) {
        // Leftovers are no harm: the run is done and its model written.
        let _ = std::fs::remove_file(self.path());
        for entry in std::fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if entry.file_name().to_str().is_some_and(is_unfinished) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
        let _ = std::fs::remove_dir(&self.folder);
    }
}

/// Files that `write_atomically` makes on the way.
fn is_unfinished(name: &str) -> bool {
    name.starts_with(".pervade-") && name.ends_with(".tmp")
}

fn parse<'b>(path: &Path, bytes: &'b [u8]) -> Result<(Header, SafeTensors<'b>)> {
    let broken = |what: String| {
        Error::model(path.display(), format!("not a whole checkpoint: {what}"))
            .with_hint("leave out `--resume` to start afresh")
    };
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(|e| broken(e.to_string()))?;
    let json = metadata
        .metadata()
        .as_ref()
        .and_then(|m| m.get("pervade"))
        .ok_or_else(|| broken("no header".into()))?;
    let header: Header = serde_json::from_str(json).map_err(|e| broken(e.to_string()))?;
    if header.format != FORMAT {
        return Err(broken(format!("its format is `{}`, this is `{FORMAT}`", header.format)));
    }
    let tensors = SafeTensors::deserialize(bytes).map_err(|e| broken(e.to_string()))?;
    Ok((header, tensors))
}

fn graph(path: &Path, tensors: &SafeTensors<'_>, i: usize) -> Result<Graph> {
    let rows = whole_values(path, tensors, &format!("graph.{i}.rows"))?;
    let neighbours = whole_values(path, tensors, &format!("graph.{i}.neighbours"))?;
    let n_neighbours = neighbours.len() / rows.len().max(1);
    if rows.is_empty() || n_neighbours * rows.len() != neighbours.len() {
        return Err(Error::model(path.display(), "its graph is broken"));
    }
    Ok(Graph { rows, neighbours, n_neighbours })
}

/// The first setting that two runs do not share, as `name: then, now`.
fn first_difference(then: &Settings, now: &Settings) -> Option<String> {
    let table = |settings: &Settings| serde_json::to_value(settings).unwrap_or_default();
    let (then, now) = (table(then), table(now));
    let (then, now) = (then.as_object()?, now.as_object()?);
    let field = then.iter().find(|(name, value)| now.get(*name) != Some(value))?;
    Some(format!("`{}` was {}, now {}", field.0.replace('_', "-"), field.1, now.get(field.0)?))
}
