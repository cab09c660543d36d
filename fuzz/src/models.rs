//! Files of models, checkpoints, settings, and names of clusters.

use std::path::Path;

use pervade::Cpu;
use pervade::data::Dataset;
use pervade::describe::ColumnTexts;
use pervade::model::{Cells, Vade, reseal};
use pervade::names::ClusterNames;
use pervade::train::checkpoint::check_bytes;
use pervade_cli::fuzzing::read_settings;
use pervade_export::card::card;
use pervade_export::onnx::{OnnxOptions, onnx};

use super::fixtures::Fitted;
use super::{Target, scratch};

/// Calls the target with the bytes unchanged and with a valid checksum: otherwise fuzzing would not get past it.
pub fn with_and_without_checksum(bytes: &[u8], target: Target) {
    target(bytes);
    let mut sealed = bytes.to_vec();
    reseal(&mut sealed);
    if sealed != bytes {
        target(&sealed);
    }
}

/// A model that is accepted must also be usable.
pub fn use_model(bytes: &[u8]) {
    let Ok(model) = Vade::from_bytes(bytes, Path::new("fuzzed")) else { return };
    let (cpu, d) = (Cpu::new(), model.n_columns());
    let row = Dataset::from_rows(1, d, (0..d).map(|i| i as f32 / d as f32).collect()).unwrap();
    let _ = model.assign(&cpu, &row);
    let _ = model.score(&cpu, &row);
    let _ = model.generate(&cpu, None, 2, 0, Cells::Auto);
    let _ = model.impute(&cpu, &row, Cells::Mean, 0);
    let texts = ColumnTexts::new(&model);
    for j in 0..d.min(100) {
        let _ = (texts.shown(j, 0.5), texts.rounded(j, 1e18), texts.parse(j, "1"));
    }
    let _ = card(&model, "fuzzed.pervade");
    let _ = onnx(&model, &OnnxOptions::default());
    assert!(model.to_bytes().is_ok());
}

/// A checkpoint of a known run.
pub fn read_checkpoint(bytes: &[u8]) {
    let _ = check_bytes(bytes);
}

/// A configuration file, as the command reads it; its settings are checked against a small table.
pub fn read_config(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok((Ok(settings), _)) = read_settings(text) else { return };
    let data = Dataset::from_rows(40, 2, (0..80).map(|i| (i * 7 % 11) as f32).collect()).unwrap();
    let _ = settings.check(&data);
}

/// A file of names and merges of a model's clusters. What is accepted can be applied, and is the same when it was saved.
pub fn read_names(bytes: &[u8]) {
    let Fitted { model, table } = Fitted::typed();
    let Ok(names) = ClusterNames::from_bytes(bytes, "fuzzed.names.json", model) else { return };
    let merged = names.applied_to(model).unwrap();
    let clusters = merged.assign(&Cpu::new(), &table.data).unwrap().clusters;
    let is_merged = |k: u32| names.clusters()[k as usize].merged_into.is_some();
    assert!(!clusters.into_iter().any(is_merged), "merged clusters have no rows");
    let path = scratch("names").join("saved.names.json");
    names.save(&path).unwrap();
    assert_eq!(ClusterNames::load(&path, model).unwrap(), names, "names survive being saved");
}
