//! The fuzzer's seeds: a model and the checkpoints of a small run.

use std::fs;
use std::path::Path;

use pervade::compute::Cpu;
use pervade::fit;
use pervade::train::checkpoint::{Checkpoints, probe_data, probe_settings};
use pervade::train::{Control, Event, Observer};

/// Stops a run after this many events.
struct StopAfter(usize);

impl Observer for StopAfter {
    fn event(&mut self, _event: &Event<'_>) -> Control {
        self.0 = self.0.saturating_sub(1);
        if self.0 == 0 { Control::Stop } else { Control::Continue }
    }
}

/// Writes the seeds to the folders `model` and `checkpoint` in `corpus`.
pub fn write(corpus: &Path) {
    let (data, folder) = (probe_data().unwrap(), corpus.join("run"));
    for target in ["model", "checkpoint"] {
        fs::create_dir_all(corpus.join(target)).unwrap();
    }
    let mut last = Vec::new();
    for n in 1.. {
        let checkpoints = Checkpoints::new(&folder);
        let settings = probe_settings().check(&data).unwrap();
        let ended = fit(&data, &settings, &Cpu::new(), &mut StopAfter(n), Some(&checkpoints));
        let held = fs::read(folder.join("checkpoint.safetensors")).unwrap_or_default();
        if !held.is_empty() && held != last {
            fs::write(corpus.join(format!("checkpoint/{n}")), &held).unwrap();
            last = held;
        }
        if let Ok(fitted) = ended {
            fs::write(corpus.join("model/tiny.pervade"), fitted.model.to_bytes().unwrap()).unwrap();
            break;
        }
    }
    fs::remove_dir_all(&folder).unwrap_or_default();
}
