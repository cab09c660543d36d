//! Planted clusters are found, and none are found if there are none.
//!
//! Labels cannot reach a fit: `pervade::fit` takes a `Dataset`, which cannot hold them, and `tests/all/tidy.rs` checks that
//! the type is not even named outside `data` and `metrics`. Here they are only used after the fit.

use crate::common::{planted, tiny};
use pervade::compute::Cpu;
use pervade::config::{Clusters, Keep, Recipe, Settings};
use pervade::data::{Csr, Dataset, Values};
use pervade::metrics::accuracy;
use pervade::seed::{Key, Stream};
use pervade::train::{Control, Event, NoCallback, Observer, Pack, Run, pretrain, start_mixture, train};

const ROWS: usize = 900;
const COLUMNS: usize = 10;
const MOONS: usize = 14;

fn uniform(row: usize, draw: u32) -> f64 {
    Key::new(21, Stream::Sample, 0).uniform(row as u64, draw, 0)
}

/// A point of the plane in ten columns: rotated, stretched by a smooth map, and with a little noise.
fn lift(u: f64, v: f64, row: usize) -> impl Iterator<Item = f32> {
    (0..COLUMNS).map(move |column| {
        let angle = 0.7 * column as f64;
        let along = u * angle.cos() + v * angle.sin();
        let noise = 0.05 * (uniform(row, 2 + column as u32) - 0.5);
        (along + 0.3 * (1.5 * along).sin() + noise) as f32
    })
}

/// Half circles in pairs, each reaching into the gap of the other: no straight line separates a pair.
fn moons() -> (Vec<f32>, Vec<u32>) {
    let labels: Vec<u32> = (0..ROWS).map(|row| (row % MOONS) as u32).collect();
    let point = |row: usize| {
        let (pair, upper) = ((labels[row] / 2) as f64, labels[row].is_multiple_of(2));
        let (turn, radius) = (std::f64::consts::PI * uniform(row, 0), 1.0 + 0.15 * (uniform(row, 1) - 0.5));
        let (x, y) = (radius * turn.cos(), radius * turn.sin());
        let (x, y) = if upper { (x, y) } else { (1.0 - x, 0.3 - y) };
        // Pairs are arranged on a circle.
        let angle = std::f64::consts::TAU * 2.0 * pair / MOONS as f64;
        lift(x + 6.0 * angle.cos(), y + 6.0 * angle.sin(), row)
    };
    ((0..ROWS).flat_map(point).collect(), labels)
}

/// Four clusters of the plane on a circle, curved by the lift.
fn lifted() -> (Vec<f32>, Vec<u32>) {
    let labels: Vec<u32> = (0..ROWS).map(|row| (row % 4) as u32).collect();
    let point = |row: usize| {
        let angle = std::f64::consts::TAU * f64::from(labels[row]) / 4.0;
        let (x, y) = (uniform(row, 0) - 0.5, uniform(row, 1) - 0.5);
        lift(x + 2.0 * angle.cos(), y + 2.0 * angle.sin(), row)
    };
    ((0..ROWS).flat_map(point).collect(), labels)
}

/// Rows of counts: each cluster has its own words, so the dense table is mostly zeros.
fn documents() -> (Vec<f32>, Vec<u32>) {
    let labels: Vec<u32> = (0..ROWS).map(|row| (row % 3) as u32).collect();
    let word = |row: usize, column: usize| {
        let own = column / 4 == labels[row] as usize;
        let there = uniform(row, 40 + column as u32) < if own { 0.9 } else { 0.02 };
        if there { (1.0 + 2.0 * uniform(row, 60 + column as u32)) as f32 } else { 0.0 }
    };
    ((0..ROWS * 12).map(|i| word(i / 12, i % 12)).collect(), labels)
}

fn sparse(values: &[f32], n_columns: usize) -> Dataset<'static> {
    let (mut starts, mut columns, mut entries) = (vec![0], Vec::new(), Vec::new());
    for row in values.chunks(n_columns) {
        for (column, &x) in row.iter().enumerate().filter(|(_, x)| **x != 0.0) {
            columns.push(column as u32);
            entries.push(x);
        }
        starts.push(columns.len());
    }
    let csr = Csr::new(starts, columns, entries, n_columns).unwrap();
    Dataset::new(values.len() / n_columns, n_columns, Values::Csr(csr), "sparse rows").unwrap()
}

fn dense(values: &[f32], n_columns: usize) -> Dataset<'static> {
    Dataset::from_rows(values.len() / n_columns, n_columns, values.to_vec()).unwrap()
}

fn small(recipe: Recipe, clusters: Clusters) -> Settings {
    tiny(recipe, clusters).with(|s| {
        s.hidden = Some(vec![64, 64]);
        s.pretrain_epochs = Some(120);
        s.pretrain_learning_rate = 3e-3;
        s.epochs = Some(20);
        s.mixture_starts = 3;
    })
}

fn fitted_score(data: &Dataset, settings: Settings, labels: &[u32]) -> f64 {
    accuracy(&crate::common::fit(data, settings).assignments[0], labels).unwrap()
}

/// A feasible case: fewer and longer curves have so many communities that they are merged by Ward's criterion, which
/// cuts them (three long arcs: 79 %, ten moons of 90 rows: 67 %).
#[test]
fn robust_recovers_curved_clusters() {
    let (values, labels) = moons();
    let data = dense(&values, COLUMNS);
    for seed in 0..3 {
        let settings = small(Recipe::Robust, Clusters::Fixed(MOONS)).with(|s| {
            s.components = Some(80);
            s.seed = seed;
        });
        let found = fitted_score(&data, settings, &labels);
        assert!(found > 0.95, "accuracy {found} with seed {seed}");
    }
}

#[test]
fn paper_recovers_separated_clusters() {
    let (values, labels) = lifted();
    let data = dense(&values, COLUMNS);
    let found = fitted_score(&data, small(Recipe::Paper, Clusters::Fixed(4)), &labels);
    assert!(found > 0.95, "accuracy {found}");
}

#[test]
fn sparse_rows_are_as_good_as_dense_ones() {
    let (values, labels) = documents();
    for data in [dense(&values, 12), sparse(&values, 12)] {
        for recipe in [Recipe::Robust, Recipe::Paper] {
            let found = fitted_score(&data, small(recipe, Clusters::Fixed(3)), &labels);
            assert!(found > 0.95, "accuracy {found} of {recipe} on {}", data.source());
        }
    }
}

/// The negative control: every column keeps its values, but their association with the labels is lost.
#[test]
fn no_clusters_are_found_in_shuffled_columns() {
    let (values, labels) = lifted();
    let key = Key::new(22, Stream::Sample, 0);
    let index = |i: usize| key.permute(i / COLUMNS, ROWS, (i % COLUMNS) as u64) * COLUMNS + i % COLUMNS;
    let shuffled: Vec<f32> = (0..values.len()).map(|i| values[index(i)]).collect();
    for recipe in [Recipe::Robust, Recipe::Paper] {
        let found = fitted_score(&dense(&shuffled, COLUMNS), small(recipe, Clusters::Fixed(4)), &labels);
        // Chance is a quarter; the best matching of four clusters is slightly above.
        assert!(found < 0.4, "accuracy {found} of {recipe} on shuffled columns");
    }
}

#[test]
fn the_number_of_clusters_is_found() {
    for n_clusters in [3, 6, 12, 20] {
        let (values, labels) = planted(2000, COLUMNS, n_clusters);
        let settings = small(Recipe::Robust, Clusters::Auto).with(|s| s.components = Some(80));
        let fit = crate::common::fit(&dense(&values, COLUMNS), settings);
        assert_eq!(fit.model.n_clusters(), n_clusters);
        let found = accuracy(&fit.assignments[0], &labels).unwrap();
        assert!(found > 0.95, "accuracy {found} of {n_clusters} clusters");
    }
}

/// Asks for a checkpoint after every epoch, so that a test sees the parameters of each.
struct Saver;

impl Observer for Saver {
    fn event(&mut self, event: &Event<'_>) -> Control {
        if matches!(event, Event::Trained(..)) { Control::Save } else { Control::Continue }
    }
}

#[test]
fn the_best_state_is_kept() {
    let (values, _) = lifted();
    let data = dense(&values, COLUMNS);
    let mut kept_states = Vec::new();
    for keep in [Keep::Best, Keep::Last] {
        // Learning rates that destroy the mixture start.
        let settings = small(Recipe::Robust, Clusters::Fixed(4)).with(|s| {
            s.learning_rate = 0.05;
            s.mixture_learning_rate = 0.2;
            s.epochs = Some(8);
            s.keep = keep;
        });
        let (cpu, settings) = (Cpu::new(), settings.check(&data).unwrap());
        let run = Run::new(&cpu, &data, &settings).unwrap();
        let mut pack = Pack::new(&run, 0..1).unwrap();
        let mut seen: Vec<(usize, Vec<f32>)> = Vec::new();
        let mut save = |pack: &Pack<Cpu>| {
            seen.push((pack.state.epoch, pack.params.values.clone()));
            Ok(true)
        };
        pretrain(&run, &mut pack, &mut Saver, &mut save).unwrap();
        start_mixture(&run, &mut pack, &mut Saver, &mut save).unwrap();
        train(&run, &mut pack, &mut Saver, &mut save, &mut NoCallback).unwrap();
        let record = &pack.state.records[0];
        let scores: Vec<f64> = record.states.iter().map(|state| state.modularity).collect();
        assert_eq!(scores.len(), 5, "the start and four more");
        let best = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let at_best = scores.iter().position(|&s| s == best).unwrap();
        let expected = if keep == Keep::Best { at_best } else { scores.len() - 1 };
        assert_eq!(record.kept, expected, "{keep}: {scores:?}");
        let (_, values) = seen.iter().find(|(epoch, _)| *epoch == record.states[expected].epoch).unwrap();
        assert!(&pack.best_values[0] == values, "{keep}: the numbers kept are those of another epoch");
        kept_states.push(record.kept);
    }
    assert_ne!(kept_states[0], kept_states[1], "the case must tell the two apart");
}
