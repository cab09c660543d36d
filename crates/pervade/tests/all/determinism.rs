//! The same run gives the same bytes: with any number of threads, with any instruction set, and if it was interrupted
//! and resumed.

use crate::common::{on_threads, planted, same_on_any_number_of_threads, tiny};
use pervade::compute::Cpu;
use pervade::compute::cpu::simd::Isa;
use pervade::config::{Clusters, PretrainKind, Recipe, Settings};
use pervade::data::Dataset;
use pervade::train::checkpoint::{Checkpoints, reseal};
use pervade::train::{Control, Event, Observer, Silent};
use pervade::{Error, Result, fit};
use serde_json::{Value, json};

fn data() -> Dataset<'static> {
    Dataset::from_rows(300, 8, planted(300, 8, 3).0).unwrap()
}

fn settings(recipe: Recipe) -> Settings {
    tiny(recipe, Clusters::Fixed(3))
}

fn model_bytes(
    data: &Dataset,
    settings: &Settings,
    cpu: &Cpu,
    observer: &mut dyn Observer,
    checkpoints: Option<&Checkpoints>,
) -> Result<Vec<u8>> {
    let settings = settings.clone().check(data)?;
    fit(data, &settings, cpu, observer, checkpoints)?.model.to_bytes()
}

fn plain(settings: &Settings) -> Vec<u8> {
    model_bytes(&data(), settings, &Cpu::new(), &mut Silent, None).unwrap()
}

#[test]
fn threads_and_instruction_sets_do_not_change_the_result() {
    let consensus = settings(Recipe::Robust).with(|s| s.restarts = 3);
    for settings in [settings(Recipe::Robust), settings(Recipe::Paper), consensus] {
        let expected = plain(&settings);
        for isa in Isa::available() {
            for threads in [1, 2] {
                let cpu = Cpu::with_isa(isa).unwrap();
                let run = || model_bytes(&data(), &settings, &cpu, &mut Silent, None);
                let bytes = on_threads(threads, run).unwrap();
                assert!(bytes == expected, "{:?}, {isa:?}, {threads} threads", settings.recipe);
            }
        }
    }
}

/// From 500,000 parameters on, the threads of a step stay awake and divide its work in another way.
#[test]
fn threads_do_not_change_the_result_of_a_large_network() {
    let data = Dataset::from_rows(300, 60, planted(300, 60, 3).0).unwrap();
    let settings = settings(Recipe::Robust).with(|s| s.hidden = Some(vec![400, 700]));
    let expected = same_on_any_number_of_threads(|| {
        model_bytes(&data, &settings, &Cpu::new(), &mut Silent, None).unwrap()
    });
    // Stopped every five steps.
    struct FiveSteps(usize);
    impl Observer for FiveSteps {
        fn event(&mut self, event: &Event<'_>) -> Control {
            self.0 += usize::from(matches!(event, Event::Steps { .. }));
            if self.0 == 5 { Control::Stop } else { Control::Continue }
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let checkpoints = Checkpoints::new(folder.path()).resuming();
    let mut stops = 0;
    let bytes = loop {
        match model_bytes(&data, &settings, &Cpu::new(), &mut FiveSteps(0), Some(&checkpoints)) {
            Err(Error::Interrupted { .. }) => stops += 1,
            bytes => break bytes.unwrap(),
        }
    };
    assert!(stops > 5, "only {stops} interruptions");
    assert!(bytes == expected);
    assert!(bytes.len() > 4 * 500_000, "only {} bytes", bytes.len());
}

#[test]
fn another_seed_gives_another_model() {
    let seeds = [0, 1, 1 << 40].map(|seed| plain(&settings(Recipe::Robust).with(|s| s.seed = seed)));
    assert!(seeds[0] != seeds[1] && seeds[0] != seeds[2] && seeds[1] != seeds[2]);
}

/// Stops at event `stop_at`, and optionally asks for a checkpoint after every epoch.
struct Stopper {
    stop_at: usize,
    save: bool,
    seen: usize,
}

impl Observer for Stopper {
    fn event(&mut self, event: &Event<'_>) -> Control {
        self.seen += 1;
        let epoch_ended = matches!(event, Event::Pretrained(..) | Event::Trained(..));
        match () {
            () if self.seen == self.stop_at => Control::Stop,
            () if self.save && epoch_ended => Control::Save,
            () => Control::Continue,
        }
    }
}

/// A table for runs that are repeated once for every event: half the rows, in batches of half the size.
fn few_rows() -> Dataset<'static> {
    Dataset::from_rows(150, 8, planted(150, 8, 3).0).unwrap()
}

fn small_batches(recipe: Recipe) -> Settings {
    settings(recipe).with(|s| (s.pretrain_batch, s.batch) = (32, 25))
}

/// Stops at every event in turn and resumes on another number of threads; each time the model must be that of a run without
/// interruptions.
fn interrupt_everywhere(settings: &Settings, save: bool) {
    let (data, cpu) = (few_rows(), Cpu::new());
    let run = |threads: usize, observer: &mut (dyn Observer + Send), checkpoints: Option<&Checkpoints>| {
        on_threads(threads, || model_bytes(&data, settings, &cpu, observer, checkpoints))
    };
    let expected = run(2, &mut Silent, None).unwrap();
    let mut interruptions = 0;
    for stop_at in 1.. {
        let folder = tempfile::tempdir().unwrap();
        let first = Checkpoints::new(folder.path().join("run"));
        let mut stopper = Stopper { stop_at, save, seen: 0 };
        match run(2, &mut stopper, Some(&first)) {
            Err(Error::Interrupted { .. }) => interruptions += 1,
            // The control returned for this event is ignored.
            Ok(bytes) => assert!(bytes == expected, "event {stop_at}"),
            Err(other) => panic!("event {stop_at}: {other}"),
        }
        if stop_at > stopper.seen {
            break;
        }
        let again = first.resuming();
        let bytes = run(1, &mut Silent, Some(&again)).unwrap();
        assert!(bytes == expected, "resumed after event {stop_at}");
    }
    assert!(interruptions > 20, "only {interruptions} interruptions");
}

#[test]
fn resumed_equals_uninterrupted() {
    interrupt_everywhere(&small_batches(Recipe::Robust), true);
}

/// Rows that are not nodes of the graph have neighbours, too, which a checkpoint holds.
#[test]
fn resumed_equals_uninterrupted_with_a_graph_of_some_rows() {
    interrupt_everywhere(&small_batches(Recipe::Robust).with(|s| s.graph_rows = 50), false);
}

#[test]
fn the_neighbour_term_shows_in_the_model_and_in_its_record() {
    let (data, with) = (data(), settings(Recipe::Robust));
    let without = with.clone().with(|s| s.neighbour_weight = Some(0.0));
    let terms = |settings: &Settings| {
        let fit = crate::common::fit(&data, settings.clone());
        fit.model.metadata().record.joint.iter().map(|epoch| epoch.terms.neighbour).collect::<Vec<f64>>()
    };
    assert!(plain(&with) != plain(&without));
    assert!(terms(&with).iter().all(|term| *term != 0.0), "{:?}", terms(&with));
    assert!(terms(&without).iter().all(|term| *term == 0.0));
}

#[test]
fn resumed_equals_uninterrupted_for_the_paper_recipe() {
    interrupt_everywhere(&small_batches(Recipe::Paper), false);
}

#[test]
fn resumed_equals_uninterrupted_with_stacked_pretraining_and_restarts() {
    let settings = small_batches(Recipe::Robust).with(|s| {
        s.restarts = 2;
        s.pretrain = PretrainKind::Stacked;
        s.pretrain_epochs = Some(4);
        s.pretrain_batch = 75;
        s.batch = 75;
        s.components = Some(6);
    });
    interrupt_everywhere(&settings, false);
}

/// Three restarts vote; the run is also interrupted while their consensus is trained.
#[test]
fn resumed_equals_uninterrupted_with_a_consensus() {
    let settings = small_batches(Recipe::Robust).with(|s| {
        s.restarts = 3;
        s.pretrain_epochs = Some(2);
        s.pretrain_batch = 75;
        s.batch = 75;
        s.epochs = Some(2);
        s.components = Some(6);
        s.graph_rows = 100;
    });
    interrupt_everywhere(&settings, true);
}

#[test]
fn resumed_equals_uninterrupted_with_several_starts() {
    let tiny = small_batches(Recipe::Robust);
    let (epochs, pretrain_epochs) = (Some(11), Some(1));
    let settings = tiny.with(|s| {
        s.starts = Some(2);
        s.epochs = epochs;
        s.pretrain_epochs = pretrain_epochs;
        s.batch = 75;
        s.pretrain_batch = 75;
    });
    interrupt_everywhere(&settings, true);
}

#[test]
fn resumed_equals_uninterrupted_if_the_number_of_clusters_is_found() {
    let settings = small_batches(Recipe::Robust).with(|s| {
        s.clusters = Clusters::Auto;
        s.components = Some(6);
        s.mixture_starts = 2;
    });
    let levels = crate::common::fit(&few_rows(), settings.clone()).model.metadata().record.levels.clone();
    assert!(!levels.is_empty(), "nothing was compared");
    interrupt_everywhere(&settings, true);
}

/// Interrupted again and again, after every epoch.
#[test]
fn many_interruptions_in_a_row() {
    let (data, settings) = (data(), settings(Recipe::Robust).with(|s| s.restarts = 2));
    struct EveryEpoch;
    impl Observer for EveryEpoch {
        fn event(&mut self, event: &Event<'_>) -> Control {
            let epoch_ended = matches!(event, Event::Pretrained(..) | Event::Trained(..));
            if epoch_ended { Control::Stop } else { Control::Continue }
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let checkpoints = Checkpoints::new(folder.path()).resuming();
    let mut stops = 0;
    let bytes = loop {
        match model_bytes(&data, &settings, &Cpu::new(), &mut EveryEpoch, Some(&checkpoints)) {
            Ok(bytes) => break bytes,
            Err(Error::Interrupted { .. }) => stops += 1,
            Err(other) => panic!("{other}"),
        }
    };
    assert_eq!(stops, 2 * (6 + 3));
    assert!(bytes == plain(&settings));
}

/// A folder with the checkpoint of a run that was interrupted after the first epoch of joint training.
fn interrupted() -> (tempfile::TempDir, Checkpoints) {
    struct FirstJoint;
    impl Observer for FirstJoint {
        fn event(&mut self, event: &Event<'_>) -> Control {
            if matches!(event, Event::Trained(..)) { Control::Stop } else { Control::Continue }
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let checkpoints = Checkpoints::new(folder.path()).resuming();
    let stopped =
        model_bytes(&data(), &settings(Recipe::Robust), &Cpu::new(), &mut FirstJoint, Some(&checkpoints));
    let Err(error @ Error::Interrupted { .. }) = stopped else { panic!("not interrupted") };
    assert_eq!(error.to_string(), "interrupted in joint training, epoch 1");
    assert!(error.hint().unwrap().to_string().contains("the same run with `resume`") && checkpoints.exists());
    (folder, checkpoints)
}

#[test]
fn checkpoints_of_other_runs_are_refused() {
    let (_folder, checkpoints) = interrupted();
    let refused = |data: &Dataset, settings: &Settings| {
        let model = model_bytes(data, settings, &Cpu::new(), &mut Silent, Some(&checkpoints));
        let error = model.map(|bytes| bytes.len()).expect_err("must be refused");
        assert!(error.hint().unwrap().to_string().contains("leave out `resume`"), "{error}");
        error.to_string()
    };
    let other_data = Dataset::from_rows(300, 8, planted(300, 8, 4).0).unwrap();
    let text = refused(&other_data, &settings(Recipe::Robust));
    assert!(text.ends_with("checkpoint.safetensors`: this checkpoint was made with other data"), "{text}");
    let text = refused(&data(), &settings(Recipe::Robust).with(|s| s.seed = 9));
    assert!(text.ends_with("made with other settings: `seed` was 0, now 9"), "{text}");
    let text = refused(&data(), &settings(Recipe::Robust).with(|s| s.learning_rate = 0.25));
    assert!(text.contains("`learning-rate` was") && text.ends_with("now 0.25"), "{text}");
    let text = refused(&data(), &settings(Recipe::Robust).with(|s| s.starts = Some(2)));
    assert!(text.ends_with("other settings: `starts` was not given, now 2"), "{text}");
}

#[test]
fn broken_checkpoints_are_refused() {
    let (folder, checkpoints) = interrupted();
    let path = folder.path().join("checkpoint.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    let attempt =
        || model_bytes(&data(), &settings(Recipe::Robust), &Cpu::new(), &mut Silent, Some(&checkpoints));
    for len in [0, 7, 100, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&path, &bytes[..len]).unwrap();
        let error = attempt().map(|bytes| bytes.len()).expect_err("must be refused");
        assert!(error.to_string().contains("not a whole checkpoint"), "{len} bytes: {error}");
    }
    let name = b"pervade-checkpoint-1";
    let newer = bytes.windows(name.len()).position(|window| window == name).unwrap();
    let mut other = bytes.clone();
    other[newer + name.len() - 1] = b'2';
    reseal(&mut other);
    std::fs::write(&path, &other).unwrap();
    let text = attempt().map(|bytes| bytes.len()).expect_err("must be refused").to_string();
    assert!(text.contains("`pervade-checkpoint-2`") && text.contains("`pervade-checkpoint-1`"), "{text}");
    std::fs::write(&path, &bytes).unwrap();
    assert!(attempt().unwrap() == plain(&settings(Recipe::Robust)));
}

/// Checkpoints that are complete files but inconsistent, as if written by a program with a bug.
#[test]
fn inconsistent_checkpoints_are_refused() {
    struct InSecondStart(bool);
    impl Observer for InSecondStart {
        fn event(&mut self, event: &Event<'_>) -> Control {
            self.0 |= matches!(event, Event::StartBegan { start: 1, .. });
            let stops = self.0 && matches!(event, Event::Trained(..));
            if stops { Control::Stop } else { Control::Continue }
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let checkpoints = Checkpoints::new(folder.path()).resuming();
    let settings = settings(Recipe::Robust).with(|s| s.starts = Some(2));
    let attempt = |observer: &mut dyn Observer| {
        model_bytes(&data(), &settings, &Cpu::new(), observer, Some(&checkpoints))
    };
    assert!(matches!(attempt(&mut InSecondStart(false)), Err(Error::Interrupted { .. })));
    let path = folder.path().join("checkpoint.safetensors");
    let whole = std::fs::read(&path).unwrap();
    let with = |pointer: &str, value: Value| {
        let n = u64::from_le_bytes(whole[..8].try_into().unwrap()) as usize;
        let mut header: Value = serde_json::from_slice(&whole[8..8 + n]).unwrap();
        let own = &mut header["__metadata__"]["pervade"];
        let mut state: Value = serde_json::from_str(own.as_str().unwrap()).unwrap();
        *state.pointer_mut(pointer).expect(pointer) = value;
        *own = state.to_string().into();
        let mut header = header.to_string().into_bytes();
        header.resize(header.len().next_multiple_of(8), b' ');
        let mut made = [&(header.len() as u64).to_le_bytes()[..], &header, &whole[8 + n..]].concat();
        reseal(&mut made);
        made
    };
    for (pointer, value) in [
        ("/best_start", Value::Null),
        ("/best_start/records/0/starts", json!([])),
        ("/best_start/restarts", json!({"start": 1, "end": 2})),
        ("/pack/likelihoods", json!([])),
        ("/pack/best", json!([])),
        ("/pack/best/0/groups/0", json!(99)),
        ("/pack/starts/0/groups", json!([0])),
        ("/pack/records/0/restart", json!(3)),
    ] {
        std::fs::write(&path, with(pointer, value)).unwrap();
        let error = attempt(&mut Silent).map(|bytes| bytes.len()).expect_err(pointer);
        assert!(error.to_string().contains("its "), "{pointer}: {error}");
    }
    std::fs::write(&path, &whole).unwrap();
    assert!(attempt(&mut Silent).unwrap() == plain(&settings));
}

#[test]
fn without_resume_a_run_starts_from_the_beginning() {
    let (_folder, checkpoints) = interrupted();
    let afresh = Checkpoints::new(checkpoints.folder);
    let other = settings(Recipe::Robust).with(|s| s.seed = 9);
    let bytes = model_bytes(&data(), &other, &Cpu::new(), &mut Silent, Some(&afresh)).unwrap();
    assert!(bytes == plain(&other));
}
