//! Several trials of each restart: the best continues as if it had been the only one.

use crate::common::{planted, tiny};
use pervade::compute::Cpu;
use pervade::config::{CheckedSettings, Clusters, Recipe, Settings};
use pervade::data::Dataset;
use pervade::record::RestartRecord;
use pervade::train::{
    Control, Event, NoCallback, Observer, Pack, Run, Silent, pretrain, start_mixture, train,
};
use pervade::{Fit, fit};

const STARTS: usize = 4;

fn data() -> Dataset<'static> {
    Dataset::from_rows(300, 8, planted(300, 8, 3).0).unwrap()
}

fn settings(data: &Dataset, starts: usize) -> CheckedSettings {
    let tiny = tiny(Recipe::Paper, Clusters::Fixed(3));
    tiny.with(|s| {
        s.restarts = 2;
        s.starts = Some(starts);
        s.epochs = Some(14);
        s.pretrain_epochs = Some(1);
    })
    .check(data)
    .unwrap()
}

fn fitted(data: &Dataset, starts: usize, observer: &mut dyn Observer) -> Fit {
    fit(data, &settings(data, starts), &Cpu::new(), observer, None).unwrap()
}

/// Trial `start` of a restart on its own, trained from beginning to end.
fn alone(data: &Dataset, restart: usize, start: usize) -> RestartRecord {
    let (settings, cpu) = (settings(data, STARTS), Cpu::new());
    let run = Run::new(&cpu, data, &settings).unwrap();
    let mut pack = Pack::for_trial(&run, restart..restart + 1, start).unwrap();
    pretrain(&run, &mut pack, &mut Silent, &mut |_| Ok(false)).unwrap();
    start_mixture(&run, &mut pack, &mut Silent, &mut |_| Ok(false)).unwrap();
    train(&run, &mut pack, &mut Silent, &mut |_| Ok(false), &mut NoCallback).unwrap();
    pack.state.records.remove(0)
}

#[test]
fn the_best_trial_continues_as_if_it_were_the_only_one() {
    let data = data();
    let fit = fitted(&data, STARTS, &mut Silent);
    for record in &fit.restarts {
        assert_eq!(record.starts.len(), STARTS);
        let best = record.starts.iter().copied().fold(f64::MIN, f64::max);
        assert_eq!(record.starts[record.start].to_bits(), best.to_bits());
        let compared = record.states.iter().find(|state| state.epoch == 10).unwrap();
        assert_eq!(compared.modularity.to_bits(), best.to_bits());
        let alone = alone(&data, record.restart, record.start);
        assert_eq!(record.pretrain, alone.pretrain);
        assert_eq!(record.joint, alone.joint);
        assert_eq!(record.states.last(), alone.states.last());
    }
    // Otherwise the test would not notice if a better trial never replaced the first.
    assert!(fit.restarts.iter().any(|record| record.start > 0));
}

#[test]
fn the_first_trial_equals_a_single_one() {
    let data = data();
    let (one, several) = (fitted(&data, 1, &mut Silent), fitted(&data, STARTS, &mut Silent));
    for (one, several) in one.restarts.iter().zip(&several.restarts) {
        assert!(one.starts.is_empty() && one.start == 0);
        assert_eq!(several.start == 0, one.joint == several.joint);
    }
}

#[test]
fn trials_are_reported() {
    #[derive(Default)]
    struct Starts {
        began: Vec<(usize, usize)>,
        chosen: Vec<(usize, usize)>,
    }
    impl Observer for Starts {
        fn event(&mut self, event: &Event<'_>) -> Control {
            match *event {
                Event::StartBegan { restart, start } => self.began.push((restart, start)),
                Event::StartChosen { restart, start, .. } => self.chosen.push((restart, start)),
                _ => {}
            }
            Control::Continue
        }
    }
    let mut seen = Starts::default();
    let fit = fitted(&data(), STARTS, &mut seen);
    let all: Vec<_> = (0..2).flat_map(|restart| (0..STARTS).map(move |start| (restart, start))).collect();
    assert_eq!(seen.began, all);
    let chosen: Vec<_> = fit.restarts.iter().map(|record| (record.restart, record.start)).collect();
    assert_eq!(seen.chosen, chosen);
}

/// Models, checkpoints and records from before there were several trials.
#[test]
fn files_without_trials_mean_one() {
    let settings = tiny(Recipe::Robust, Clusters::Fixed(3)).with(|s| s.starts = Some(3));
    let mut keys = serde_json::to_value(&settings).unwrap();
    assert_eq!(keys.as_object_mut().unwrap().remove("starts"), Some(3.into()));
    let read: Settings = serde_json::from_value(keys).unwrap();
    assert_eq!(read, settings.with(|s| s.starts = Some(1)));
}
