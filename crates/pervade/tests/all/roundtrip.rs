//! The model file: saved and loaded without a change, and refused if it is damaged or claims what it does not contain.

use std::collections::HashMap;
use std::path::Path;
use std::sync::OnceLock;

use crate::common::{planted, tiny};
use pervade::compute::Cpu;
use pervade::config::{Clusters, Recipe};
use pervade::data::{Dataset, ImageShape};
use pervade::model::{Cells, Vade, reseal};
use safetensors::SafeTensors;

fn data() -> Dataset<'static> {
    let image = ImageShape { height: 2, width: 3, channels: 1 };
    Dataset::from_rows(200, 6, planted(200, 6, 2).0).unwrap().with_image(image)
}

/// A model file.
fn model() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        crate::common::fit(&data(), tiny(Recipe::Paper, Clusters::Fixed(2))).model.to_bytes().unwrap()
    })
}

fn open(bytes: &[u8]) -> pervade::Result<Vade> {
    Vade::from_bytes(bytes, Path::new("some.pervade"))
}

fn refusal(bytes: &[u8]) -> String {
    open(bytes).expect_err("must be refused").to_string()
}

/// Calls everything that a model can do; only the absence of a panic counts.
fn use_all(model: &Vade) {
    if model.n_columns() != 6 {
        return;
    }
    let (cpu, rows) = (Cpu::new(), Dataset::from_rows(3, 6, planted(3, 6, 2).0).unwrap());
    let _ = model.assign(&cpu, &rows);
    let _ = model.embed(&cpu, &rows);
    let _ = model.reconstruct(&cpu, &rows);
    let _ = model.score(&cpu, &rows);
    let _ = model.generate(&cpu, Some(1), 3, 0, Cells::Auto);
    let _ = model.to_bytes();
}

#[test]
fn a_loaded_model_equals_the_saved_one() {
    let fitted = open(model()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.pervade");
    fitted.save(&path).unwrap();
    assert!(std::fs::read(&path).unwrap() == model());
    let loaded = Vade::load(&path).unwrap();
    assert!(loaded.to_bytes().unwrap() == model());
    assert_eq!(loaded.metadata(), fitted.metadata());
    assert_eq!(loaded.image(), data().image());
    let cpu = Cpu::new();
    let found = crate::common::fit(&data(), tiny(Recipe::Paper, Clusters::Fixed(2)));
    assert_eq!(loaded.assign(&cpu, &data()).unwrap().clusters, found.assignments[0]);
    assert_eq!(loaded.score(&cpu, &data()).unwrap(), found.model.score(&cpu, &data()).unwrap());
    assert_eq!(loaded.embed(&cpu, &data()).unwrap(), found.model.embed(&cpu, &data()).unwrap());
    let generated = |model: &Vade| model.generate(&cpu, None, 20, 7, Cells::Auto).unwrap();
    assert_eq!(generated(&loaded), generated(&found.model));
}

/// A model file has the numbers of clusters that were compared, if any were.
#[test]
fn compared_numbers_of_clusters_are_stored() {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains("levels");
    assert!(!text(model()), "the number was given");
    let settings = tiny(Recipe::Robust, Clusters::Auto).with(|s| {
        s.components = Some(8);
        s.mixture_starts = 3;
    });
    let fitted = crate::common::fit(&data(), settings).model;
    let bytes = fitted.to_bytes().unwrap();
    let loaded = open(&bytes).unwrap();
    assert!(text(&bytes) && loaded.to_bytes().unwrap() == bytes);
    assert_eq!(loaded.metadata().record, fitted.metadata().record);
    let record = &loaded.metadata().record;
    assert_eq!(record.picked_level().map(|level| level.clusters), Some(loaded.n_clusters()), "{record:?}");
    assert!(record.states.iter().all(|state| state.clusters == loaded.n_clusters()));
}

#[test]
fn every_truncation_is_refused() {
    for len in 0..model().len() {
        let text = refusal(&model()[..len]);
        assert!(text.starts_with("`some.pervade`: not a pervade model"), "{len} bytes: {text}");
    }
    // Nor may anything follow.
    assert!(refusal(&[model(), b"x"].concat()).contains("not a pervade model"));
}

#[test]
fn flipped_bytes_give_an_error_or_with_a_new_checksum_a_model() {
    let header = 8 + u64::from_le_bytes(model()[..8].try_into().unwrap()) as usize;
    let mut bytes = model().to_vec();
    let (mut refused, mut read) = (0, 0);
    // All of the header, and some of the numbers, which are all alike.
    let offsets = (0..header).chain((header..bytes.len()).step_by(7));
    for at in offsets {
        for flip in [0x01, 0x06, 0x20, 0x40, 0xff] {
            bytes[at] ^= flip;
            assert!(open(&bytes).is_err(), "byte {at}, flipped by {flip:#x}");
            // With a matching checksum, the change is as good as intended.
            let mut sealed = bytes.clone();
            reseal(&mut sealed);
            match open(&sealed) {
                Ok(model) => {
                    read += 1;
                    use_all(&model);
                }
                Err(error) => {
                    refused += 1;
                    assert!(error.to_string().contains("some.pervade"), "{error}");
                }
            }
            bytes[at] ^= flip;
        }
    }
    assert!(bytes == model() && refused > 1000 && read > 1000, "{refused} refused, {read} read");
}

/// The file with its metadata changed.
fn with_metadata(change: impl Fn(&mut serde_json::Value)) -> Vec<u8> {
    let (_, header) = SafeTensors::read_metadata(model()).unwrap();
    let mut json = serde_json::from_str(&header.metadata().as_ref().unwrap()["pervade"]).unwrap();
    change(&mut json);
    let tensors = SafeTensors::deserialize(model()).unwrap();
    let metadata = HashMap::from([("pervade".to_string(), json.to_string())]);
    let mut bytes = safetensors::serialize(tensors.tensors(), Some(metadata)).unwrap();
    reseal(&mut bytes);
    bytes
}

#[test]
fn inconsistent_metadata_is_refused() {
    assert!(open(&with_metadata(|_| ())).is_ok());
    let newer = refusal(&with_metadata(|json| json["format"] = "pervade-model-2".into()));
    assert_eq!(
        newer,
        "`some.pervade`: its format is `pervade-model-2`, this program reads `pervade-model-1`"
    );
    let foreign = refusal(&with_metadata(|json| json["format"] = "their-model".into()));
    assert!(foreign.contains("not a pervade model"), "{foreign}");
    let unknown = refusal(&with_metadata(|json| json["surprise"] = 1.into()));
    assert!(unknown.contains("unknown field `surprise`"), "{unknown}");
    let missing = refusal(&with_metadata(|json| drop(json.as_object_mut().unwrap().remove("likelihood"))));
    assert!(missing.contains("missing field `likelihood`"), "{missing}");
    let clusters = refusal(&with_metadata(|json| json["n_clusters"] = 3.into()));
    assert!(clusters.contains("3 clusters of 2 components"), "{clusters}");
    let groups = refusal(&with_metadata(|json| json["n_clusters"] = 1.into()));
    assert!(groups.contains("components and clusters do not fit together"), "{groups}");
    let image = refusal(&with_metadata(|json| json["image"]["width"] = u64::MAX.into()));
    assert!(image.contains("image shape or column names do not fit"), "{image}");
    for variance in ["-1.0", "0.0", "1e-45"] {
        let variance: serde_json::Value = serde_json::from_str(variance).unwrap();
        let text = refusal(&with_metadata(|json| {
            json["likelihood"]["gaussian-fixed"]["variance"] = variance.clone();
        }));
        assert!(text.contains("its likelihood is gaussian with variance"), "{text}");
    }
    let plain = safetensors::serialize(SafeTensors::deserialize(model()).unwrap().tensors(), None).unwrap();
    assert!(refusal(&plain).contains("without pervade's metadata"), "{}", refusal(&plain));
}

/// Sizes in the header are mere claims. If they were trusted, the buffers would have 70 terabytes, and the test would
/// abort.
#[test]
fn claimed_sizes_allocate_nothing() {
    let columns = 1usize << 28;
    let claimed = with_metadata(|json| {
        json["n_columns"] = columns.into();
        json["image"] = serde_json::Value::Null;
        json["preparation"] = serde_json::json!({
            "kind": "none", "n_columns": columns, "row_norm": null, "shift": [], "scale": [1.0]
        });
        json["settings"]["hidden"] = vec![1 << 16; 3].into();
    });
    let text = refusal(&claimed);
    assert!(text.contains("`encoder.0.weight` is [6, 16], expected [268435456, 65536]"), "{text}");
    let wide = refusal(&with_metadata(|json| json["settings"]["hidden"] = vec![(1u64 << 16) + 1].into()));
    assert!(wide.contains("must be at most 65536"), "{wide}");
    let many = refusal(&with_metadata(|json| json["n_components"] = (1u64 << 40).into()));
    assert!(many.contains("1099511627776 components"), "{many}");
    let mut header = (u64::MAX - 8).to_le_bytes().to_vec();
    header.extend(b"{}");
    assert!(refusal(&header).contains("not a pervade model"));
    let lying = br#"{"a":{"dtype":"F32","shape":[18446744073709551615,4],"data_offsets":[0,16]}}"#;
    let lying = [&(lying.len() as u64).to_le_bytes()[..], lying, &[0; 16]].concat();
    assert!(refusal(&lying).contains("not a pervade model"));
}
