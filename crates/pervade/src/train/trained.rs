//! Restarts that are trained apart, each perhaps in another process, and travel as bytes: a safetensors file, like a
//! checkpoint with one finished restart.

use std::collections::HashMap;
use std::path::Path;

use safetensors::SafeTensors;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::checkpoint_checks::{check_finished, check_values};
use super::run::Run;
use crate::compute::Device;
use crate::model::seal::{self, Seal};
use crate::model::tensors::{NamedTensor, float_values, serialize_tensors};
use crate::origin::{VERSION, VERSION_ENTRY, first_difference};
use crate::record::{Finished, RestartRecord};
use crate::{Error, Result};

const FORMAT: &str = "pervade-restart-1";
/// The name of the bytes in messages.
const NAME: &str = "restart";
const VALUES: &str = "values";

/// A restart that was trained on its own by [`train_restart`](crate::train_restart), for
/// [`fit_from_restarts`](crate::fit_from_restarts). It knows the version, settings and rows that it was trained with.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainedRestart {
    origin: Map<String, Value>,
    device: String,
    finished: Finished,
    values: Vec<f32>,
}

/// A trained restart without its parameters.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    format: String,
    origin: Map<String, Value>,
    device: String,
    finished: Finished,
    checksum: String,
}

impl TrainedRestart {
    pub(crate) fn new<D: Device>(
        origin: Map<String, Value>,
        device: &D,
        finished: Finished,
        values: Vec<f32>,
    ) -> Self {
        Self { origin, device: kind_of(device).to_string(), finished, values }
    }

    /// The history of the restart, with its index.
    pub fn record(&self) -> &RestartRecord {
        &self.finished.record
    }

    /// The restart as bytes, for another process.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let header = Header {
            format: FORMAT.to_string(),
            origin: self.origin.clone(),
            device: self.device.clone(),
            finished: self.finished.clone(),
            checksum: seal::UNSET.to_string(),
        };
        let json = serde_json::to_string(&header).map_err(|e| Error::model(NAME, e.to_string()))?;
        let tensors = [NamedTensor::floats(VALUES, self.values.clone())];
        let mut bytes = serialize_tensors(&tensors, HashMap::from([("pervade".to_string(), json)]))?;
        seal::reseal(&mut bytes);
        Ok(bytes)
    }

    /// The restart from the bytes of [`Self::to_bytes`]; those of another version are refused.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let broken = |what: String| Error::model(NAME, format!("not a whole trained restart: {what}"));
        let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(|e| broken(e.to_string()))?;
        let json = metadata.metadata().as_ref().and_then(|metadata| metadata.get("pervade"));
        let json = json.ok_or_else(|| broken("no header".to_string()))?;
        let header: Value = serde_json::from_str(json).map_err(|e| broken(e.to_string()))?;
        if header["format"] != FORMAT {
            return Err(broken(format!("its format is {}, this is `{FORMAT}`", header["format"])));
        }
        // First of all: the content of another version may be another.
        let version = &header["origin"][VERSION_ENTRY];
        if version != VERSION {
            return Err(differs(NAME, VERSION_ENTRY, version, &VERSION.into()));
        }
        let header: Header = serde_json::from_value(header).map_err(|e| broken(e.to_string()))?;
        if Seal::of(bytes) != Seal::Intact(header.checksum) {
            return Err(Error::model(NAME, "the bytes are damaged: their checksum does not match"));
        }
        let tensors = SafeTensors::deserialize(bytes).map_err(|e| broken(e.to_string()))?;
        let values = float_values(Path::new(NAME), &tensors, VALUES)?;
        Ok(Self { origin: header.origin, device: header.device, finished: header.finished, values })
    }

    /// The record and the parameters, once they were checked.
    pub(crate) fn into_finished<D: Device>(self, run: &Run<'_, D>) -> Result<(Finished, Vec<f32>)> {
        let restart = self.record().restart;
        let invalid = |problem: &str| Error::model(name_of(restart), problem);
        check_finished(run, restart, &self.finished).map_err(invalid)?;
        let (n, expected) = (self.values.len(), run.architecture.layout.len());
        if n != expected {
            return Err(invalid(&format!("it has {n} parameters, not {expected}")));
        }
        check_values(VALUES, &self.values).map_err(invalid)?;
        Ok((self.finished, self.values))
    }
}

/// The restarts in order. Returns an error unless there is each of `n` and all were trained from `origin` on a device of
/// the same kind.
pub(crate) fn in_order<D: Device>(
    mut restarts: Vec<TrainedRestart>,
    origin: &Map<String, Value>,
    device: &D,
    n: usize,
) -> Result<Vec<TrainedRestart>> {
    for restart in &restarts {
        let name = name_of(restart.record().restart);
        if let Some((what, here, then)) = first_difference(origin, &restart.origin) {
            return Err(differs(&name, &what, then, here));
        }
        let kind = kind_of(device);
        if restart.device != kind {
            return Err(differs(&name, "device", &restart.device.as_str().into(), &kind.into()));
        }
    }
    restarts.sort_by_key(|restart| restart.record().restart);
    for i in 0..restarts.len().max(n) {
        let found = restarts.get(i).map(|restart| restart.record().restart);
        match found {
            Some(restart) if restart == i && i < n => {}
            Some(restart) if restart < i => {
                return Err(Error::model(name_of(restart), "it was given twice"));
            }
            Some(restart) if restart >= n => {
                return Err(Error::model(name_of(restart), format!("it is beyond the {n} of the settings")));
            }
            _ => return Err(Error::model(name_of(i), format!("it is missing: the settings have {n}"))),
        }
    }
    Ok(restarts)
}

fn name_of(restart: usize) -> String {
    format!("{NAME} {restart}")
}

/// Devices of one kind round alike.
fn kind_of<D: Device>(device: &D) -> &'static str {
    if device.is_host() { "cpu" } else { "cuda" }
}

fn differs(name: &str, what: &str, then: &Value, here: &Value) -> Error {
    let problem = format!("it does not belong to this run: `{what}` was {then}, here it is {here}");
    Error::model(name, problem)
        .with_hint("train all restarts with the same version, the same settings and the same rows")
}
