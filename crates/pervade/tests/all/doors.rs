//! The interface for other front ends: borrowed tables, settings by key, devices by name, and an observer that is
//! called in every stage.

use crate::common::{fit, planted, tiny};
use pervade::compute::{AnyDevice, Cpu, Precision};
use pervade::config::{Clusters, Recipe, Settings};
use pervade::data::{Csr, Dataset, Values};
use pervade::train::{Control, Event, Observer, Stage};
use pervade::{Error, on_device};
use serde_json::{Map, Value, json};

const N_COLUMNS: usize = 5;

fn rows() -> Vec<f32> {
    planted(300, N_COLUMNS, 3).0
}

fn settings() -> Settings {
    tiny(Recipe::Robust, Clusters::Fixed(3))
}

#[test]
fn a_borrowed_table_gives_the_bytes_of_an_owned_one() {
    let values = rows();
    let borrowed = Dataset::new(300, N_COLUMNS, Values::F32(values.as_slice().into()), "rows").unwrap();
    let owned = Dataset::from_rows(300, N_COLUMNS, values.clone()).unwrap();
    let bytes = |data: &Dataset<'_>| fit(data, settings()).model.to_bytes().unwrap();
    assert!(bytes(&borrowed) == bytes(&owned));
}

#[test]
fn a_slice_of_a_table_has_its_rows() {
    let dense = Dataset::from_rows(4, 3, (0..12).map(|i| i as f32).collect()).unwrap();
    let csr = Csr::new(vec![0, 1, 1, 3, 4], vec![2, 0, 1, 1], vec![5.0, 6.0, 7.0, 8.0], 3).unwrap();
    let sparse = Dataset::new(4, 3, Values::Csr(csr), "rows").unwrap();
    for data in [dense, sparse] {
        let (mut whole, mut part) = (vec![0.0; 3], vec![0.0; 3]);
        for (first, end) in [(0, 4), (1, 3), (3, 4), (2, 4)] {
            let slice = data.slice(first..end);
            assert_eq!(slice.n_rows(), end - first);
            for i in 0..end - first {
                data.row_into(first + i, &mut whole);
                slice.row_into(i, &mut part);
                assert_eq!(whole, part);
            }
        }
    }
}

#[test]
fn decoding_latents_is_reconstructing() {
    let (data, device) = (Dataset::from_rows(300, N_COLUMNS, rows()).unwrap(), Cpu::new());
    let model = fit(&data, settings()).model;
    let latents = model.embed(&device, &data).unwrap();
    assert_eq!(model.decode(&device, &latents).unwrap(), model.reconstruct(&device, &data).unwrap());
    assert!(model.decode(&device, &latents[1..]).is_err());
}

fn keys(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

#[test]
fn settings_by_key_start_from_the_recipe() {
    let made = Settings::from_keys(keys(json!({"clusters": 3, "recipe": "paper", "batch": 7}))).unwrap();
    let expected = Settings::recipe(Recipe::Paper, Clusters::Fixed(3)).with(|s| s.batch = 7);
    assert_eq!(made, expected);
    let made = Settings::from_keys(keys(json!({"clusters": "auto", "hidden": [4, 2]}))).unwrap();
    assert_eq!((made.clusters, made.hidden), (Clusters::Auto, Some(vec![4, 2])));
    for (bad, named) in [
        (json!({"clusters": 3, "batch": "many"}), "`batch` is \"many\""),
        (json!({"clusters": 3, "colour": 1}), "`colour` is 1"),
        (json!({"clusters": "lots"}), "`clusters` is \"lots\""),
        (json!({"batch": 3}), "`clusters` is missing"),
    ] {
        let error = Settings::from_keys(keys(bad)).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
}

/// 0/1 columns, and small counts, mean the same when stored as bytes.
#[test]
fn the_type_of_a_table_does_not_choose_its_scale() {
    for largest in [1u8, 16] {
        let bytes: Vec<u8> = (0..60).map(|i| (i * 7 + i / 9) as u8 % (largest + 1)).collect();
        let single: Vec<f32> = bytes.iter().map(|&x| x.into()).collect();
        let prepared = |values: Values<'static>| {
            let data = Dataset::new(30, 2, values, "table").unwrap();
            Settings::recipe(Recipe::Robust, Clusters::Fixed(2)).check(&data).unwrap().preparation().clone()
        };
        assert_eq!(prepared(Values::U8(bytes.into())), prepared(Values::F32(single.into())));
    }
}

#[test]
fn devices_go_by_name() {
    let (device, _) = AnyDevice::open("cpu", Precision::Fp32, None).unwrap();
    assert_eq!(device.name(), on_device!(&device, device => pervade::compute::Memory::name(device)));
    assert!(AnyDevice::open("auto", Precision::Fp32, None).is_ok());
    let error =
        pervade::Error::from(AnyDevice::open("abacus", Precision::Fp32, None).unwrap_err()).to_string();
    assert!(error.contains("`device` is abacus"), "{error}");
}

/// Stops at the first event of a stage, and counts the events after it.
struct StopIn {
    stage: Stage,
    now: Option<Stage>,
    asked: bool,
    later: usize,
}

impl Observer for StopIn {
    fn event(&mut self, event: &Event<'_>) -> Control {
        assert!(event.to_json()["event"].is_string());
        if let Event::StageStarted { stage, .. } = event {
            self.now = Some(*stage);
        }
        self.later += usize::from(self.asked);
        let is_sign = matches!(event, Event::Steps { .. } | Event::Working);
        if self.now == Some(self.stage) && is_sign {
            self.asked = true;
        }
        if self.asked { Control::Stop } else { Control::Continue }
    }
}

#[test]
fn an_observer_can_stop_every_stage_at_once() {
    let data = Dataset::from_rows(300, N_COLUMNS, rows()).unwrap();
    let checked = settings().check(&data).unwrap();
    for stage in [Stage::Pretrain, Stage::Mixture, Stage::Joint] {
        let mut observer = StopIn { stage, now: None, asked: false, later: 0 };
        let stopped = pervade::fit(&data, &checked, &Cpu::new(), &mut observer, None);
        match stopped {
            Err(Error::Interrupted { stage: expected, .. }) => assert_eq!(expected, stage.name()),
            other => panic!("{stage:?}: {:?}", other.map(|fit| fit.chosen)),
        }
        assert_eq!(observer.later, 0, "{stage:?}: no event follows the stop");
    }
}
