//! Shares of a batch: the model does not depend on how many ranks train it, and shares change nothing but rounding and
//! random numbers.

use std::sync::{Arc, Barrier, Mutex};

use crate::common::{planted, tiny};
use pervade::compute::{self, Cpu, Ranks};
use pervade::config::{Clusters, PretrainKind, Recipe, Settings};
use pervade::data::{Csr, Dataset, PrepareKind, Values};
use pervade::train::checkpoint::Checkpoints;
use pervade::train::{Control, Event, Observer, Silent};
use pervade::{Error, Result, fit, fit_on_ranks};

/// Ranks that are threads of this process.
struct Thread {
    rank: usize,
    mailboxes: Arc<Mutex<Vec<Vec<u8>>>>,
    barrier: Arc<Barrier>,
}

impl Thread {
    fn all(n: usize) -> Vec<Self> {
        let (mailboxes, barrier) = (Arc::new(Mutex::new(vec![Vec::new(); n])), Arc::new(Barrier::new(n)));
        (0..n).map(|rank| Self { rank, mailboxes: mailboxes.clone(), barrier: barrier.clone() }).collect()
    }

    /// Shows `mine` to all ranks, calls `take` with what all show, and waits until all have done so.
    fn show(&self, mine: &[u8], take: impl FnOnce(&[Vec<u8>])) {
        self.mailboxes.lock().unwrap()[self.rank] = mine.to_vec();
        self.barrier.wait();
        take(&self.mailboxes.lock().unwrap());
        self.barrier.wait();
    }
}

impl Ranks for Thread {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.mailboxes.lock().unwrap().len()
    }

    fn all_to_all(&self, send: &[u8], received: &mut [u8]) -> compute::Result<()> {
        let slice = send.len() / self.size();
        self.show(send, |all| {
            for (to, from) in received.chunks_exact_mut(slice).zip(all) {
                to.copy_from_slice(&from[self.rank * slice..(self.rank + 1) * slice]);
            }
        });
        Ok(())
    }

    fn all_gather(&self, mine: &[u8], gathered: &mut [u8]) -> compute::Result<()> {
        self.show(mine, |all| gathered.copy_from_slice(&all.concat()));
        Ok(())
    }
}

/// The result of `work` on each of `n` ranks.
fn on_ranks<T: Send>(n: usize, work: impl Fn(&Thread) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let running: Vec<_> = Thread::all(n).into_iter().map(|rank| (rank, &work)).collect();
        let running: Vec<_> =
            running.into_iter().map(|(rank, work)| scope.spawn(move || work(&rank))).collect();
        running.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

fn model(
    data: &Dataset,
    settings: &Settings,
    rank: &Thread,
    observer: &mut dyn Observer,
    checkpoints: Option<&Checkpoints>,
) -> Result<Vec<u8>> {
    let checked = settings.clone().check(data)?;
    fit_on_ranks(data, &checked, &Cpu::new(), rank, observer, checkpoints)?.model.to_bytes()
}

fn alone(data: &Dataset, settings: &Settings) -> Vec<u8> {
    let checked = settings.clone().check(data).unwrap();
    fit(data, &checked, &Cpu::new(), &mut Silent, None).unwrap().model.to_bytes().unwrap()
}

fn dense() -> Dataset<'static> {
    Dataset::from_rows(300, 8, planted(300, 8, 3).0).unwrap()
}

fn settings() -> Settings {
    in_shares(tiny(Recipe::Robust, Clusters::Fixed(3)), 4)
}

fn in_shares(settings: Settings, shares: usize) -> Settings {
    settings.with(|s| (s.shares, s.batch, s.pretrain_batch) = (shares, 48, 64))
}

#[track_caller]
fn assert_same_on_any_ranks(data: &Dataset, settings: &Settings) {
    let expected = alone(data, settings);
    for n in [1, 2, 4] {
        for (rank, bytes) in
            on_ranks(n, |rank| model(data, settings, rank, &mut Silent, None)).into_iter().enumerate()
        {
            assert!(bytes.unwrap() == expected, "rank {rank} of {n}");
        }
    }
}

#[test]
fn any_number_of_ranks_trains_the_same_model() {
    assert_same_on_any_ranks(&dense(), &settings());
    assert_same_on_any_ranks(&dense(), &settings().with(|s| s.restarts = 3));
    // Several mixtures, and rows that are not nodes of the graph: more than one rank has work to do.
    let divided = |s: &mut Settings| (s.mixture_starts, s.graph_rows) = (5, 101);
    assert_same_on_any_ranks(&dense(), &settings().with(divided));
    let auto = in_shares(tiny(Recipe::Robust, Clusters::Auto), 4).with(divided);
    assert_same_on_any_ranks(&dense(), &auto);
    let stacked = in_shares(settings(), 8).with(|s| s.pretrain = PretrainKind::Stacked);
    assert_same_on_any_ranks(&dense(), &stacked);
    let paper = in_shares(tiny(Recipe::Paper, Clusters::Fixed(3)), 4);
    assert_same_on_any_ranks(&dense(), &paper);
}

#[test]
fn any_number_of_ranks_trains_the_same_model_on_sparse_rows() {
    let rows = planted(300, 8, 3).0;
    let kept: Vec<Vec<(u32, f32)>> = rows
        .chunks(8)
        .map(|row| {
            row.iter().enumerate().filter(|(_, x)| x.abs() > 0.3).map(|(j, &x)| (j as u32, x)).collect()
        })
        .collect();
    let mut starts = vec![0];
    kept.iter().for_each(|row| starts.push(starts.last().unwrap() + row.len()));
    let (columns, values) = kept.into_iter().flatten().unzip();
    let csr = Csr::new(starts, columns, values, 8).unwrap();
    let data = Dataset::new(300, 8, Values::Csr(csr), "sparse rows").unwrap();
    assert_same_on_any_ranks(&data, &settings());
}

#[test]
fn any_number_of_ranks_trains_the_same_model_on_a_mixed_table() {
    let text: String = std::iter::once("size,colour,count\n".to_string())
        .chain((0..300).map(|i| {
            let (group, wave) = (i % 3, f64::from(i as u32 * 7 % 31) / 31.0);
            let gap =
                if i % 17 == 0 { String::new() } else { format!("{:.3}", f64::from(group) * 2.0 + wave) };
            format!("{gap},{},{}\n", ["red", "green", "blue"][group as usize], group * 5 + i % 4)
        }))
        .collect();
    let table =
        pervade::data::read_bytes(text.as_bytes(), "csv", &pervade::data::ReadOptions::default()).unwrap();
    assert_same_on_any_ranks(&table.data, &settings());
}

/// Without random numbers in its steps, pretraining differs by rounding alone.
#[test]
fn shares_change_only_the_rounding_of_pretraining() {
    let loss = |shares: usize| {
        // Typed columns would be hidden from the encoder at random.
        let settings = settings().with(|s| (s.shares, s.prepare) = (shares, Some(PrepareKind::Standardise)));
        let fit = crate::common::fit(&dense(), settings);
        fit.model.metadata().record.pretrain.iter().map(|epoch| epoch.loss).collect::<Vec<f64>>()
    };
    let (one, four) = (loss(1), loss(4));
    assert_eq!(one.len(), four.len());
    for (one, four) in one.iter().zip(&four) {
        assert!((one - four).abs() < 1e-4 * one.abs().max(1.0), "{one} {four}");
    }
    assert_ne!(one, four, "the shares were not averaged");
}

#[test]
fn one_share_is_the_default_and_leaves_no_trace_in_the_file() {
    let plain = tiny(Recipe::Robust, Clusters::Fixed(3));
    assert_eq!(plain.shares, 1);
    let bytes = alone(&dense(), &plain);
    assert!(!String::from_utf8_lossy(&bytes).contains("shares"));
    assert!(String::from_utf8_lossy(&alone(&dense(), &settings())).contains("\\\"shares\\\":4"));
}

/// Stops at step or epoch event `stop_at`, the same on all ranks.
struct Stopper {
    stop_at: usize,
    seen: usize,
}

impl Observer for Stopper {
    fn event(&mut self, event: &Event<'_>) -> Control {
        if matches!(event, Event::Steps { .. } | Event::Trained(..) | Event::Pretrained(..)) {
            self.seen += 1;
        }
        if self.seen == self.stop_at { Control::Stop } else { Control::Continue }
    }
}

#[test]
fn a_stopped_run_resumes_on_another_number_of_ranks() {
    let (data, settings) = (dense(), settings());
    let expected = alone(&data, &settings);
    for (stop_at, [before, after]) in [(3, [4, 1]), (30, [1, 2]), (44, [2, 4]), (50, [2, 1])] {
        let folder = tempfile::tempdir().unwrap();
        let first = Checkpoints::new(folder.path().join("run"));
        let stopped = on_ranks(before, |rank| {
            model(&data, &settings, rank, &mut Stopper { stop_at, seen: 0 }, Some(&first))
        });
        assert!(stopped.iter().all(|r| matches!(r, Err(Error::Interrupted { .. }))), "event {stop_at}");
        let again = first.resuming();
        for bytes in on_ranks(after, |rank| model(&data, &settings, rank, &mut Silent, Some(&again))) {
            assert!(bytes.unwrap() == expected, "stopped at event {stop_at}, from {before} to {after} ranks");
        }
    }
}

#[test]
fn ranks_that_do_not_agree_are_refused() {
    let data = dense();
    let mut other = planted(300, 8, 3).0;
    other[7] += 1.0;
    let other = Dataset::from_rows(300, 8, other).unwrap();
    let refused = |work: &(dyn Fn(&Thread) -> Result<Vec<u8>> + Sync)| {
        on_ranks(2, |rank| work(rank)).into_iter().map(|r| r.unwrap_err().to_string()).collect::<Vec<_>>()
    };
    let rows = refused(&|rank| model([&data, &other][rank.rank], &settings(), rank, &mut Silent, None));
    assert!(
        rows.iter().all(|text| text.contains("`checksum of the rows` is") && text.contains("on rank 1")),
        "{rows:?}"
    );
    let batch = |rank: &Thread| settings().with(|s| s.seed = rank.rank as u64);
    let seeds = refused(&|rank| model(&data, &batch(rank), rank, &mut Silent, None));
    assert!(seeds.iter().all(|text| text.contains("`seed` is 1 on rank 1 and 0 on rank 0")), "{seeds:?}");
    let few = refused(&|rank| model(&data, &settings().with(|s| s.shares = 1), rank, &mut Silent, None));
    assert!(few[0].contains("`shares` is 1, which cannot be divided equally among 2 ranks"), "{few:?}");
}

#[test]
fn shares_must_divide_the_batch() {
    let refused = |change: &dyn Fn(&mut Settings)| {
        settings().with(|s| change(s)).check(&dense()).unwrap_err().to_string()
    };
    assert!(refused(&|s| s.shares = 3).contains("`shares` is 3, must be a power of two"));
    assert!(refused(&|s| s.shares = 0).contains("`shares` is 0, must be a power of two"));
    assert!(refused(&|s| s.batch = 102).contains("`batch` is 102, cannot be divided into 4 shares"));
    let unset = Settings::recipe(Recipe::Robust, 3).with(|s| s.shares = 16);
    assert_eq!(unset.check(&dense()).unwrap().batch() % 16, 0);
}
