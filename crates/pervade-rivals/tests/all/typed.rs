//! All clustering methods on a table with types and gaps: planted clusters, new rows, and networks that can be trained.

use pervade::Result;
use pervade::compute::Cpu;
use pervade::data::{RawColumn, ReadOptions, Table};
use pervade::metrics::accuracy;
use pervade::seed::{Key, Stream};
use pervade::train::Silent;
use pervade_rivals::{Networks, methods};

/// Rows `first..first + n` of four groups: a number and a count tell two pairs of them apart, two categories and an answer
/// the two of each pair. A thirtieth of the cells is missing.
fn columns(first: usize, n: usize) -> (Vec<RawColumn>, Vec<u32>) {
    let key = Key::new(4, Stream::Generate, 0);
    let labels: Vec<u32> = (first..first + n).map(|row| row as u32 % 4).collect();
    let rows = || (first as u64..).zip(&labels);
    let uniform = |row: u64, column: u32| key.uniform(row, column, 0);
    let is_missing = |row: u64, column: u32| key.uniform(row, column, 1) < 1.0 / 30.0;
    let number = |column: u32, value: &dyn Fn(u32, f64) -> f64| {
        let cell = |(row, &label): (u64, &u32)| {
            if is_missing(row, column) { f64::NAN } else { value(label / 2, uniform(row, column)) }
        };
        rows().map(cell).collect::<Vec<f64>>()
    };
    let words = |column: u32, levels: [&'static str; 3]| {
        let level = |(row, &label): (u64, &u32)| {
            let usual = levels[label as usize % 2];
            let word = if levels[2].is_empty() || uniform(row, column) < 0.95 { usual } else { levels[2] };
            (!is_missing(row, column)).then_some(word)
        };
        rows().map(level).collect::<Vec<_>>()
    };
    let columns = vec![
        RawColumn::numbers("length", number(0, &|side, u| f64::from(side) * 40.0 + 10.0 * u)),
        RawColumn::numbers("visits", number(1, &|side, u| (f64::from(side) * 60.0 + 8.0 * u * u).floor())),
        RawColumn::words("colour", words(2, ["red", "blue", "green"])),
        RawColumn::words("shape", words(3, ["round", "long", "flat"])),
        RawColumn::words("answer", words(4, ["yes", "no", ""])),
    ];
    (columns, labels)
}

/// Known rows, and new rows that are read by their schema.
fn tables() -> ([Table; 2], [Vec<u32>; 2]) {
    let ((known, labels), (new, new_labels)) = (columns(0, 400), columns(400, 120));
    let known = Table::from_columns(known, &ReadOptions::default(), "known").unwrap();
    let schema = known.data.schema().cloned();
    assert!(schema.as_ref().is_some_and(|schema| schema.has_gaps()), "{:?}", known.data.schema());
    let mut options = ReadOptions::default();
    options.schema = schema;
    let new = Table::from_columns(new, &options, "new").unwrap();
    ([known, new], [labels, new_labels])
}

/// The clusters of known and new rows by each method.
fn found_by(name: &str, networks: &Networks, tables: &[Table; 2]) -> Result<[Vec<u32>; 2]> {
    let method = pervade_rivals::method::<Cpu>(name).unwrap().with_networks(4, networks);
    let found = method.cluster(&tables[0].data, &Cpu::new(), 0, &mut Silent)?;
    let [known, new] = [&tables[0], &tables[1]].map(|table| found.assign(&Cpu::new(), &table.data));
    Ok([known?, new?])
}

#[test]
fn methods_without_networks_find_planted_clusters_of_numbers_and_categories() {
    let (tables, labels) = tables();
    for name in ["k-means", "spectral", "k-prototypes", "gower-ward", "gmm", "gmm-full", "ldmgi"] {
        let found = found_by(name, &Networks::default(), &tables).unwrap();
        for (clusters, labels) in found.iter().zip(&labels) {
            let accuracy = accuracy(clusters, labels).unwrap();
            assert!(accuracy > 0.9, "{name}: {accuracy} of {} rows", labels.len());
        }
    }
}

#[test]
fn every_method_with_networks_trains_on_types_and_gaps() {
    let (tables, labels) = tables();
    let networks = Networks { hidden: Some(vec![16, 16]), pretrain_epochs: Some(20), epochs: Some(5) };
    let names: Vec<&str> = methods::<Cpu>().iter().map(|method| method.name).collect();
    for name in ["ae+gmm", "vae+gmm", "aae", "dec"] {
        assert!(names.contains(&name), "{name}");
        let found = found_by(name, &networks, &tables).unwrap_or_else(|error| panic!("{name}: {error}"));
        let accuracy = accuracy(&found[0], &labels[0]).unwrap();
        assert!(accuracy > 0.45, "{name}: {accuracy}");
        assert!(found.iter().flatten().all(|&cluster| cluster < 4), "{name}");
    }
}

#[test]
fn representations_are_of_types_and_gaps_too() {
    let (tables, _) = tables();
    let networks = Networks { hidden: Some(vec![16]), pretrain_epochs: Some(3), epochs: Some(2) };
    for name in ["vae", "sb-vae", "dlgmm"] {
        let method = pervade_rivals::method::<Cpu>(name).unwrap().with_networks(4, &networks);
        let found = method.cluster(&tables[0].data, &Cpu::new(), 0, &mut Silent).unwrap();
        for table in &tables {
            let latents = found.embed(&Cpu::new(), &table.data).unwrap().unwrap();
            assert!(latents.len() % table.data.n_rows() == 0 && !latents.is_empty(), "{name}");
            assert!(latents.iter().all(|z| z.is_finite()), "{name}");
        }
    }
}
