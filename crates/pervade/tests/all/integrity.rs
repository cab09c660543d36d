//! Damage to model and checkpoint files is detected, and an edited checkpoint never causes a panic.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::OnceLock;

use crate::common::{planted, tiny};
use pervade::compute::Cpu;
use pervade::config::{Clusters, Recipe};
use pervade::data::Dataset;
use pervade::model::{Vade, reseal};
use pervade::train::checkpoint::{Checkpoints, check_bytes, probe_data, probe_settings};
use pervade::train::{Control, Event, Observer, Silent, Stage};
use pervade::{Error, Result, fit};
use safetensors::SafeTensors;
use serde_json::{Value, json};

const MISMATCH: &str = "the file is damaged: its checksum does not match its content";

/// The bytes of a small model.
fn model() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let data = Dataset::from_rows(60, 2, planted(60, 2, 2).0).unwrap();
        let small = tiny(Recipe::Paper, Clusters::Fixed(2));
        let settings = small.with(|s| {
            s.hidden = Some(vec![3]);
            s.latents = Some(1);
            s.pretrain_epochs = Some(1);
            s.epochs = Some(1);
        });
        crate::common::fit(&data, settings).model.to_bytes().unwrap()
    })
}

fn open(bytes: &[u8]) -> Result<Vade> {
    Vade::from_bytes(bytes, Path::new("some.pervade"))
}

/// The metadata inside a safetensors file.
fn metadata(bytes: &[u8]) -> String {
    let (_, header) = SafeTensors::read_metadata(bytes).unwrap();
    header.metadata().as_ref().unwrap()["pervade"].clone()
}

/// The same arrays with other metadata.
fn with_metadata(bytes: &[u8], json: String) -> Vec<u8> {
    let tensors = SafeTensors::deserialize(bytes).unwrap();
    safetensors::serialize(tensors.tensors(), Some(HashMap::from([("pervade".to_string(), json)]))).unwrap()
}

/// The file in the format from before checksums.
fn without_checksum(bytes: &[u8]) -> Vec<u8> {
    let json = metadata(bytes);
    let at = json.rfind(",\"checksum\":\"xxh3-128:").expect("the last entry");
    with_metadata(bytes, format!("{}}}", &json[..at]))
}

#[test]
fn the_checksum_is_the_last_entry_and_the_only_change() {
    let loaded = open(model()).unwrap();
    let checksum = loaded.metadata().checksum.clone().unwrap();
    assert!(metadata(model()).ends_with(&format!(",\"checksum\":\"{checksum}\"}}")), "{checksum}");
    assert!(loaded.remarks().is_empty());
    // The old serialisation: the same metadata without the entry, the same arrays in the same order.
    let older = without_checksum(model());
    let mut plain = loaded.metadata().clone();
    plain.checksum = None;
    assert_eq!(metadata(&older), serde_json::to_string(&plain).unwrap());
    let data_of =
        |bytes: &[u8]| bytes[8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize..].to_vec();
    assert!(data_of(&older) == data_of(model()));
}

#[test]
fn files_without_a_checksum_load_with_a_remark() {
    let older = without_checksum(model());
    let loaded = open(&older).unwrap();
    assert_eq!(
        loaded.remarks(),
        [
            "some.pervade has no checksum (written by an earlier version of pervade); its weights could not be verified"
        ]
    );
    // Saved again, it has the current format.
    assert!(loaded.to_bytes().unwrap() == model());
}

#[test]
fn every_flipped_bit_of_a_model_is_refused() {
    let mut bytes = model().to_vec();
    let mut mismatches = 0;
    for at in 0..bytes.len() {
        for bit in 0..8 {
            bytes[at] ^= 1 << bit;
            let error = open(&bytes).map(drop).expect_err("must be refused");
            assert!(matches!(error, Error::Model { .. }), "byte {at}, bit {bit}: {error}");
            mismatches += usize::from(error.to_string().contains(MISMATCH));
            bytes[at] ^= 1 << bit;
        }
    }
    assert!(bytes == model() && mismatches > 4 * bytes.len(), "{mismatches} of {}", 8 * bytes.len());
    for len in 0..bytes.len() {
        assert!(open(&bytes[..len]).is_err(), "cut to {len} bytes");
    }
    for more in [&b"\0"[..], b" ", &[0; 8], &[0xff; 100]] {
        assert!(open(&[&bytes[..], more].concat()).is_err(), "{} bytes more", more.len());
    }
    let error = open(&{
        let mut damaged = bytes.clone();
        *damaged.last_mut().unwrap() ^= 1;
        damaged
    })
    .map(drop)
    .unwrap_err();
    assert_eq!(error.to_string(), format!("`some.pervade`: {MISMATCH}"));
    assert!(error.hint().unwrap().to_string().contains("copy or download it again"), "{:?}", error.hint());
}

/// Stops a run at event `stop_at`, after which a checkpoint is written.
struct StopAfter {
    stop_at: usize,
    seen: usize,
    stages: Vec<Stage>,
    remarks: Vec<String>,
}

impl StopAfter {
    fn new(stop_at: usize) -> Self {
        Self { stop_at, seen: 0, stages: Vec::new(), remarks: Vec::new() }
    }
}

impl Observer for StopAfter {
    fn event(&mut self, event: &Event<'_>) -> Control {
        match event {
            Event::StageStarted { stage, .. } => self.stages.push(*stage),
            Event::Remark(_, text) => self.remarks.push((*text).to_string()),
            _ => {}
        }
        if !matches!(event, Event::Pretrained(..) | Event::Trained(..)) {
            return Control::Continue;
        }
        self.seen += 1;
        if self.seen == self.stop_at { Control::Stop } else { Control::Continue }
    }
}

/// Continues the fixed run from a checkpoint's bytes to the end.
fn resumed(bytes: &[u8], observer: &mut dyn Observer) -> Result<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("checkpoint.safetensors"), bytes).unwrap();
    let checkpoints = Checkpoints::new(folder.path()).resuming();
    let data = probe_data().unwrap();
    let settings = probe_settings().check(&data).unwrap();
    fit(&data, &settings, &Cpu::new(), observer, Some(&checkpoints))?.model.to_bytes()
}

/// Checkpoints of the fixed run after each of its epochs, and one of the finished run.
fn checkpoints() -> &'static [Vec<u8>] {
    static ALL: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    ALL.get_or_init(|| {
        let data = probe_data().unwrap();
        let settings = probe_settings().check(&data).unwrap();
        let mut all = Vec::new();
        loop {
            let folder = tempfile::tempdir().unwrap();
            let checkpoints = Checkpoints::new(folder.path());
            let mut observer = StopAfter::new(all.len() + 1);
            let ended = fit(&data, &settings, &Cpu::new(), &mut observer, Some(&checkpoints));
            all.push(std::fs::read(folder.path().join("checkpoint.safetensors")).unwrap());
            match ended {
                Err(Error::Interrupted { .. }) => {}
                Ok(_) => return all,
                Err(other) => panic!("{other}"),
            }
        }
    })
}

/// Checkpoints with different content: pretraining, the second trial with a best one, joint training of the chosen
/// trial, the second restart, and the end.
fn kinds() -> Vec<(&'static str, &'static [u8])> {
    let state = |bytes: &[u8]| serde_json::from_str::<Value>(&metadata(bytes)).unwrap();
    let find = |holds: &dyn Fn(&Value) -> bool| {
        checkpoints().iter().find(|bytes| holds(&state(bytes))).expect("there is one").as_slice()
    };
    let finished = |json: &Value| json["finished"].as_array().unwrap().len();
    vec![
        ("pretraining", find(&|json| json["pack"]["stage"] == "pretrain" && json["pack"]["phase"] == 1)),
        ("a second trial", find(&|json| json["best_start"].is_object() && json["pack"]["stage"] == "joint")),
        ("the second restart", find(&|json| finished(json) == 1 && json["best_start"].is_object())),
        ("the end", find(&|json| finished(json) == 2)),
    ]
}

#[test]
fn the_fixed_run_resumes_from_each_of_its_checkpoints() {
    let whole = resumed(checkpoints().last().unwrap(), &mut Silent).unwrap();
    for (i, bytes) in checkpoints().iter().enumerate() {
        check_bytes(bytes).unwrap_or_else(|error| panic!("checkpoint {i}: {error}"));
        assert!(resumed(bytes, &mut Silent).unwrap() == whole, "checkpoint {i}");
    }
    assert!(checkpoints().len() > 10 && kinds().len() == 4);
    open(&whole).unwrap();
}

#[test]
fn checkpoints_without_a_checksum_resume_with_a_remark() {
    let bytes = &checkpoints()[4];
    let mut observer = StopAfter::new(usize::MAX);
    assert!(
        resumed(&without_checksum(bytes), &mut observer).unwrap() == resumed(bytes, &mut Silent).unwrap()
    );
    let [remark] = &observer.remarks[..] else { panic!("{:?}", observer.remarks) };
    assert!(remark.contains("has no checksum (written by an earlier version of pervade)"), "{remark}");
    let mut observer = StopAfter::new(usize::MAX);
    resumed(bytes, &mut observer).unwrap();
    assert_eq!(observer.remarks, Vec::<String>::new());
}

#[test]
fn every_flipped_bit_of_a_checkpoint_is_refused() {
    for (name, bytes) in kinds() {
        let mut bytes = bytes.to_vec();
        let header = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        // All of the lengths and of the end of the metadata, and every 5th bit of the rest.
        let all = (0..64).chain(8 * (header - 600)..8 * header);
        for flip in all.chain((64..8 * bytes.len()).step_by(5)) {
            bytes[flip / 8] ^= 1 << (flip % 8);
            assert!(check_bytes(&bytes).is_err(), "{name}: bit {flip}");
            bytes[flip / 8] ^= 1 << (flip % 8);
        }
        for len in (0..bytes.len()).step_by(3).chain([bytes.len() - 1]) {
            assert!(check_bytes(&bytes[..len]).is_err(), "{name}: cut to {len} bytes");
        }
        assert!(check_bytes(&[&bytes[..], b"\0"].concat()).is_err(), "{name}: a byte more");
        check_bytes(&bytes).unwrap();
    }
}

/// Collects pointers to every value of a JSON document.
fn pointers(value: &Value, here: String, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(key, value)| pointers(value, format!("{here}/{key}"), found));
        }
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(i, value)| pointers(value, format!("{here}/{i}"), found));
        }
        _ => {}
    }
    found.push(here);
}

/// The replacements for a value.
fn replacements(value: &Value) -> Vec<Value> {
    let mut others =
        vec![Value::Null, json!(-1), json!(0), json!(1), json!(u64::MAX), json!(1e300), json!("x")];
    match value {
        Value::Array(list) if !list.is_empty() => {
            others.push(list[1..].to_vec().into());
            others.push([&list[..], &list[..1]].concat().into());
            others.push(json!([]));
        }
        Value::Number(number) if number.is_u64() => {
            let number = number.as_u64().unwrap();
            others.extend([
                json!(number.wrapping_add(1)),
                json!(number.saturating_sub(1)),
                json!(1u64 << 40),
            ]);
        }
        Value::String(_) => others.extend([json!(""), json!("pretrain"), json!("mixture"), json!("joint")]),
        _ => {}
    }
    others.retain(|other| other != value);
    others
}

/// A checkpoint with a correct checksum must give an error or a model that can be read.
fn assert_no_panic(bytes: &[u8], what: &str) -> bool {
    let ended =
        catch_unwind(AssertUnwindSafe(|| check_bytes(bytes).and_then(|()| resumed(bytes, &mut Silent))));
    let Ok(model) = ended.unwrap_or_else(|_| panic!("{what} panics")) else { return false };
    open(&model).map(drop).unwrap_or_else(|error| panic!("{what}: the model is refused: {error}"));
    true
}

#[test]
fn edited_checkpoints_never_panic() {
    let (mut accepted, mut refused) = (Vec::new(), 0);
    for (name, bytes) in kinds() {
        let whole: Value = serde_json::from_str(&metadata(bytes)).unwrap();
        let mut paths = Vec::new();
        pointers(&whole, String::new(), &mut paths);
        paths.retain(|pointer| {
            !pointer.starts_with("/settings") && pointer != "/checksum" && !pointer.is_empty()
        });
        for pointer in paths {
            for value in replacements(whole.pointer(&pointer).unwrap()) {
                let mut json = whole.clone();
                *json.pointer_mut(&pointer).unwrap() = value.clone();
                let mut edited = with_metadata(bytes, json.to_string());
                reseal(&mut edited);
                let what = format!("{name}: {pointer} = {value}");
                if assert_no_panic(&edited, &what) { accepted.push(what) } else { refused += 1 }
            }
        }
    }
    // Only values that a record merely reports may be edited, and a pack that is trained again.
    let expected = [
        "loss",
        "elbo",
        "terms",
        "learning_rate",
        "modularity",
        "entropy",
        "silhouette",
        "natural_clusters",
        "/merges",
        "/starts/",
        "score",
        "remarks",
        "clusters",
        "by_ward",
        "groups",
        "variance",
        "/pack = null",
        "/best_start = ",
        "/finished = []",
        "/kept",
    ];
    accepted.retain(|what| !expected.iter().any(|word| what.contains(word)));
    assert!(accepted.is_empty(), "accepted: {accepted:#?}");
    assert!(refused > 3000, "only {refused} refused");
}

/// A run with a given number of clusters never compares others.
#[test]
fn numbers_of_clusters_in_a_run_that_does_not_compare_them_are_refused() {
    let level =
        |picked| json!({"clusters": 2, "stability": 1, "modularity": 0.5, "stable": true, "picked": picked});
    for (name, bytes) in kinds() {
        for levels in [json!([level(true)]), json!([level(false)]), json!([level(true), level(true)])] {
            let mut json: Value = serde_json::from_str(&metadata(bytes)).unwrap();
            let record = match json["finished"].as_array().unwrap().len() {
                2 => &mut json["finished"][0]["record"],
                _ => &mut json["pack"]["records"][0],
            };
            record.as_object_mut().expect("a record").insert("levels".to_string(), levels);
            let mut edited = with_metadata(bytes, json.to_string());
            reseal(&mut edited);
            let error = check_bytes(&edited).expect_err(name).to_string();
            assert!(error.contains("its numbers of clusters are invalid"), "{name}: {error}");
        }
    }
}

#[test]
fn nan_is_refused_in_every_array() {
    for (name, bytes) in kinds() {
        let names: Vec<String> =
            SafeTensors::deserialize(bytes).unwrap().names().into_iter().map(str::to_string).collect();
        for array in names {
            let header = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
            let (_, layout) = SafeTensors::read_metadata(bytes).unwrap();
            let (first, last) = layout.info(&array).unwrap().data_offsets;
            for (at, bits) in [(first, f32::NAN.to_bits()), (last - 4, 0xff80_0000), (first, 0x7f80_0000)] {
                let mut edited = bytes.to_vec();
                edited[header + at..header + at + 4].copy_from_slice(&bits.to_le_bytes());
                reseal(&mut edited);
                // Adam's second moments may overflow; the step is then zero.
                if array.ends_with("second_moments") && bits == 0x7f80_0000 {
                    assert_no_panic(&edited, &format!("{name}: {array}"));
                } else {
                    let error = check_bytes(&edited).expect_err(&array).to_string();
                    assert!(error.contains("its "), "{name}, {array}: {error}");
                }
            }
        }
    }
}
