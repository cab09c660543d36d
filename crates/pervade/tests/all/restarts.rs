//! Restarts that are trained apart: together they are the fit, to the byte, and those of another run are refused.

use std::sync::Arc;

use crate::common::{planted, tiny};
use pervade::config::{Clusters, Recipe, Settings};
use pervade::data::{Column, ColumnType, Dataset, Schema};
use pervade::train::checkpoint::reseal;
use pervade::train::{Control, Event, Observer};
use pervade::{Cpu, Error, Fit, Silent, TrainedRestart, fit, fit_from_restarts, train_restart};

fn dense() -> Dataset<'static> {
    Dataset::from_rows(300, 8, planted(300, 8, 3).0).unwrap()
}

/// Three clusters in a number, a category and a number with gaps.
fn mixed() -> Dataset<'static> {
    let (rows, labels) = planted(240, 2, 3);
    let mut category = Column::new("kind", ColumnType::Category);
    category.levels = ["red", "green", "blue"].map(String::from).to_vec();
    let number = |name| Column::new(name, ColumnType::Number);
    let columns = vec![number("a"), category, number("b")];
    let cells = rows.chunks(2).zip(labels).enumerate().flat_map(|(i, (row, label))| {
        let b = if i % 7 == 0 { f64::NAN } else { f64::from(row[1]) };
        [f64::from(row[0]), f64::from((label + u32::from(i % 5 == 0)) % 3), b]
    });
    let schema = Schema { columns, is_named: true, ..Schema::default() };
    Dataset::typed(cells.collect(), Arc::new(schema), "a table".to_string()).unwrap()
}

fn settings() -> Settings {
    tiny(Recipe::Robust, Clusters::Fixed(3)).with(|s| s.restarts = 3)
}

/// Trains the restarts in reverse order; each travels as bytes.
fn apart(data: &Dataset, settings: &Settings) -> Vec<TrainedRestart> {
    let checked = settings.clone().check(data).unwrap();
    let restart = |restart| {
        let trained = train_restart(data, &checked, &Cpu::new(), restart, &mut Silent).unwrap();
        let copy = TrainedRestart::from_bytes(&trained.to_bytes().unwrap()).unwrap();
        assert!(copy == trained, "restart {restart}");
        copy
    };
    (0..settings.restarts).rev().map(restart).collect()
}

fn put_together(data: &Dataset, settings: &Settings, restarts: Vec<TrainedRestart>) -> pervade::Result<Fit> {
    fit_from_restarts(data, &settings.clone().check(data)?, &Cpu::new(), restarts, &mut Silent)
}

#[track_caller]
fn assert_equal_together_and_apart(data: &Dataset, settings: &Settings) {
    let checked = settings.clone().check(data).unwrap();
    let together = fit(data, &checked, &Cpu::new(), &mut Silent, None).unwrap();
    let apart = put_together(data, settings, apart(data, settings)).unwrap();
    assert!(apart.model.to_bytes().unwrap() == together.model.to_bytes().unwrap());
    assert_eq!(apart.clusters, together.clusters);
    assert_eq!(apart.assignments, together.assignments);
    assert_eq!(apart.restarts, together.restarts);
    assert_eq!(apart.chosen, together.chosen);
    assert_eq!(apart.agreement().unwrap(), together.agreement().unwrap());
    assert_eq!(apart.stability(), together.stability());
    assert_eq!(apart.remarks(), together.remarks());
    let pairs = |fit: &Fit| fit.vote.as_ref().map(|vote| vote.pairs.clone());
    assert_eq!(pairs(&apart), pairs(&together));
}

#[test]
fn restarts_trained_apart_are_the_fit() {
    assert_equal_together_and_apart(&dense(), &settings());
}

#[test]
fn restarts_of_a_mixed_table_trained_apart_are_the_fit() {
    assert_equal_together_and_apart(&mixed(), &settings());
}

/// One of the restarts is chosen; two trials each.
#[test]
fn restarts_of_the_paper_trained_apart_are_the_fit() {
    let paper = tiny(Recipe::Paper, Clusters::Fixed(3)).with(|s| {
        s.restarts = 3;
        s.starts = Some(2);
    });
    assert_equal_together_and_apart(&dense(), &paper);
}

#[test]
fn restarts_with_an_unknown_number_of_clusters_trained_apart_are_the_fit() {
    assert_equal_together_and_apart(&dense(), &tiny(Recipe::Robust, Clusters::Auto).with(|s| s.restarts = 3));
}

#[test]
fn restarts_of_another_run_are_refused() {
    let (data, settings) = (dense(), settings());
    let restarts = apart(&data, &settings);
    let refused = |data: &Dataset, settings: &Settings, restarts: &[TrainedRestart]| {
        put_together(data, settings, restarts.to_vec()).unwrap_err()
    };
    let mut rows = planted(300, 8, 3).0;
    rows[7] += 1.0;
    let error = refused(&Dataset::from_rows(300, 8, rows).unwrap(), &settings, &restarts);
    assert!(error.to_string().contains("`restart 2`: it does not belong to this run"), "{error}");
    assert!(error.to_string().contains("`checksum of the rows` was \"xxh3"), "{error}");
    assert!(error.hint().unwrap().to_string().contains("the same rows"), "{error:?}");
    let seed = refused(&data, &settings.clone().with(|s| s.seed = 1), &restarts).to_string();
    assert!(seed.ends_with("`seed` was 0, here it is 1"), "{seed}");
    let batch = refused(&data, &settings.clone().with(|s| s.pretrain_batch = 11), &restarts).to_string();
    assert!(batch.contains("`pretrain-batch` was ") && batch.ends_with("here it is 11"), "{batch}");
    let more = refused(&data, &settings.clone().with(|s| s.restarts = 4), &restarts).to_string();
    assert!(more.ends_with("`restarts` was 3, here it is 4"), "{more}");
}

#[test]
fn all_restarts_are_needed_once() {
    let (data, settings) = (dense(), settings());
    let restarts = apart(&data, &settings);
    let refused = |indices: &[usize]| {
        let some = indices.iter().map(|&i| restarts[2 - i].clone()).collect();
        put_together(&data, &settings, some).unwrap_err().to_string()
    };
    assert_eq!(refused(&[]), "`restart 0`: it is missing: the settings have 3");
    assert_eq!(refused(&[2, 0]), "`restart 1`: it is missing: the settings have 3");
    assert_eq!(refused(&[1, 0]), "`restart 2`: it is missing: the settings have 3");
    assert_eq!(refused(&[2, 0, 2]), "`restart 1`: it is missing: the settings have 3");
    assert_eq!(refused(&[0, 1, 1]), "`restart 1`: it was given twice");
    assert_eq!(refused(&[0, 2, 1, 0]), "`restart 0`: it was given twice");
    let checked = settings.check(&data).unwrap();
    let beyond = train_restart(&data, &checked, &Cpu::new(), 3, &mut Silent).unwrap_err().to_string();
    assert_eq!(beyond, "`restart` is 3, must be below 3, the number of restarts");
}

/// Replaces text in the header, which may change its length, and gives the file a correct checksum.
fn edited(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    let n = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header = std::str::from_utf8(&bytes[8..8 + n]).unwrap();
    assert!(header.contains(from), "no `{from}` in {header}");
    let mut header = header.trim_end().replace(from, to);
    header.push_str(&" ".repeat(header.len().next_multiple_of(8) - header.len()));
    let mut edited = (header.len() as u64).to_le_bytes().to_vec();
    edited.extend(header.bytes());
    edited.extend(&bytes[8 + n..]);
    reseal(&mut edited);
    edited
}

#[test]
fn damaged_bytes_are_refused() {
    let (data, settings) = (dense(), settings().with(|s| s.restarts = 1));
    let bytes = apart(&data, &settings)[0].to_bytes().unwrap();
    let refused = |bytes: &[u8]| TrainedRestart::from_bytes(bytes).unwrap_err().to_string();
    for text in [&b""[..], b"no restart", &[0; 200], &[255; 200]] {
        assert!(refused(text).contains("not a whole trained restart"), "{text:?}");
    }
    for n in (0..bytes.len()).step_by(97) {
        assert!(TrainedRestart::from_bytes(&bytes[..n]).is_err(), "the first {n} bytes");
    }
    for at in (0..bytes.len()).step_by(53) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1;
        assert!(TrainedRestart::from_bytes(&flipped).is_err(), "byte {at}");
    }
    let version = edited(&bytes, env!("CARGO_PKG_VERSION"), "0.0.9");
    assert!(refused(&version).contains("`version of pervade` was \"0.0.9\", here it is"));
    // A correct checksum says nothing about the content.
    let with_edit = |from: &str, to: &str| {
        let restart = TrainedRestart::from_bytes(&edited(&bytes, from, to))?;
        put_together(&data, &settings, vec![restart]).map(drop)
    };
    with_edit("pervade-restart-1", "pervade-restart-1").unwrap();
    let format = with_edit("pervade-restart-1", "pervade-restart-7").unwrap_err().to_string();
    assert!(format.contains("its format is \"pervade-restart-7\""), "{format}");
    let device = with_edit(r#"\"device\":\"cpu\""#, r#"\"device\":\"cuda\""#).unwrap_err().to_string();
    assert!(device.contains("`device` was \"cuda\", here it is \"cpu\""), "{device}");
    let epochs = with_edit(r#"\"joint\":[{\"epoch\":1"#, r#"\"joint\":[{\"epoch\":9"#).unwrap_err();
    assert_eq!(epochs.to_string(), "`restart 0`: its epochs are not those of the settings");
    let beyond = with_edit(r#"\"record\":{\"restart\":0"#, r#"\"record\":{\"restart\":5"#).unwrap_err();
    assert_eq!(beyond.to_string(), "`restart 5`: it is beyond the 1 of the settings");
}

struct StopsAt(usize);

impl Observer for StopsAt {
    fn event(&mut self, _: &Event<'_>) -> Control {
        self.0 = self.0.saturating_sub(1);
        if self.0 == 0 { Control::Stop } else { Control::Continue }
    }
}

#[test]
fn both_parts_can_be_interrupted() {
    let (data, settings) = (dense(), settings());
    let (checked, cpu) = (settings.clone().check(&data).unwrap(), Cpu::new());
    let stopped = train_restart(&data, &checked, &cpu, 0, &mut StopsAt(5)).unwrap_err();
    assert!(matches!(stopped, Error::Interrupted { .. }), "{stopped}");
    let restarts = apart(&data, &settings);
    let stopped = fit_from_restarts(&data, &checked, &cpu, restarts, &mut StopsAt(5)).unwrap_err();
    assert!(matches!(stopped, Error::Interrupted { .. }), "{stopped}");
}
