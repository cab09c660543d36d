//! A fixed run of a few milliseconds, for which tests and the fuzz target check the bytes of checkpoints.

use std::path::Path;

use super::checkpoint::resume_from;
use super::run::Run;
use crate::Result;
use crate::compute::Cpu;
use crate::config::{Clusters, PretrainKind, Recipe, Settings};
use crate::data::Dataset;

/// The rows of the run: two bands of twelve.
#[doc(hidden)]
pub fn probe_data() -> Result<Dataset<'static>> {
    let row = |i: usize| {
        let side = if i.is_multiple_of(2) { 1.0 } else { -1.0 };
        let noise = (i * 7 % 12) as f32 / 40.0;
        [side + noise, side - 2.0 * noise]
    };
    Dataset::from_rows(24, 2, (0..24).flat_map(row).collect())
}

/// The settings of the run: all stages, two restarts with two trials each.
#[doc(hidden)]
pub fn probe_settings() -> Settings {
    Settings {
        components: Some(3),
        latents: Some(2),
        hidden: Some(vec![3]),
        pretrain: PretrainKind::Stacked,
        layer_epochs: 1,
        pretrain_epochs: Some(1),
        pretrain_batch: 8,
        mixture_starts: 1,
        neighbours: 3,
        epochs: Some(2),
        batch: 8,
        restarts: 2,
        starts: Some(2),
        ..Settings::recipe(Recipe::Robust, Clusters::Fixed(2))
    }
}

/// Reads and checks a checkpoint of the run.
#[doc(hidden)]
pub fn check_bytes(bytes: &[u8]) -> Result<()> {
    let data = probe_data()?;
    let settings = probe_settings().check(&data)?;
    let device = Cpu::new();
    let run = Run::new(&device, &data, &settings)?;
    resume_from(Path::new("checkpoint"), bytes, &run, &data.checksum()).map(drop)
}
