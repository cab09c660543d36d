//! Damaged Parquet files: the decoder's panics are errors like any other, and nothing is printed about them.
#![cfg(feature = "parquet")]

use std::panic::{catch_unwind, set_hook, take_hook};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Once};

use arrow_array::RecordBatch;
use arrow_array::types::Float32Type;
use arrow_array::{ArrayRef, FixedSizeListArray, Float32Array, ListArray};
use pervade::data::{ReadOptions, read_bytes, read_label_bytes};

/// Number of damaged files to read.
const CASES: usize = 20_000;

/// A fixed pseudo-random sequence.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }
}

fn samples() -> Vec<Vec<u8>> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/readers"));
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "parquet"));
    paths.sort();
    assert!(paths.len() >= 6, "{paths:?}");
    paths.into_iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// The file with one to four bytes changed, removed or inserted, and sometimes its end cut off.
fn damaged(good: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = good.to_vec();
    for _ in 0..=random.below(4) {
        // The footer, which has the structure, is hit as often as the rest.
        let from = if random.below(2) == 0 { bytes.len() / 2 } else { 4 };
        let at = from + random.below(bytes.len() - from);
        match random.below(8) {
            0 => _ = bytes.remove(at),
            1 => bytes.insert(at, random.below(256) as u8),
            2 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
            _ => bytes[at] ^= 1 << random.below(8),
        }
    }
    if random.below(16) == 0 {
        bytes.truncate(5 + random.below(bytes.len() - 5));
    }
    bytes
}

/// Panics that reach the program's hook. Every test of this file calls this first: the library installs its hook before
/// the existing one when it first reads a file.
fn heard() -> &'static AtomicUsize {
    static HEARD: AtomicUsize = AtomicUsize::new(0);
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let previous = take_hook();
        set_hook(Box::new(move |info| {
            HEARD.fetch_add(1, Ordering::Relaxed);
            previous(info);
        }));
    });
    &HEARD
}

/// Other tests of this file must not panic: the hook belongs to the whole process.
#[test]
fn no_panic_of_the_decoder_is_printed_or_escapes() {
    let heard = heard();
    let (samples, mut random) = (samples(), Random(7));
    let (mut refused, mut panicked) = (0, 0);
    for case in 0..CASES {
        let bytes = damaged(&samples[case % samples.len()], &mut random);
        let read = |as_labels: bool| {
            if as_labels {
                return read_label_bytes(&bytes, "parquet").err();
            }
            read_bytes(&bytes, "parquet", &ReadOptions::default()).err()
        };
        for as_labels in [false, true] {
            let error = catch_unwind(|| read(as_labels)).unwrap_or_else(|_| panic!("case {case} escaped"));
            let text = error.map(|error| format!("{error}; {}", error.hint().unwrap_or_default()));
            refused += usize::from(text.is_some());
            panicked += usize::from(text.is_some_and(|text| text.contains("the decoder gave up")));
        }
    }
    assert_eq!(heard.load(Ordering::Relaxed), 0, "panics were heard; {panicked} of {refused}");
    assert!(panicked > 0, "no case of {refused} made the decoder panic: the test shows nothing");
}

fn refusal(column: ArrayRef) -> String {
    let batch = RecordBatch::try_from_iter([("v", column)]).unwrap();
    let mut bytes = Vec::new();
    let mut writer = parquet::arrow::ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    read_bytes(&bytes, "parquet", &ReadOptions::default()).unwrap_err().to_string()
}

#[test]
fn a_null_in_a_list_is_named_by_its_row() {
    heard();
    let expected = |row: usize, value: usize| {
        format!("`bytes in memory`: row {}, value {} of column `v` is null", row + 1, value + 1)
    };
    // Beyond the first block of rows that is decoded at once.
    for row in [0, 3, 9000] {
        let list = |i: usize| Some((0..4).map(move |j| (i != row || j != 2).then_some(1.0)));
        let lists = ListArray::from_iter_primitive::<Float32Type, _, _>((0..9001).map(list));
        assert_eq!(refusal(Arc::new(lists)), expected(row, 2));
        let fixed = FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>((0..9001).map(list), 4);
        assert_eq!(refusal(Arc::new(fixed)), expected(row, 2));
    }
    // In a column of numbers it is a gap; here the row has nothing else.
    let plain: Float32Array = (0..20).map(|i| (i != 7).then_some(i as f32)).collect();
    assert_eq!(refusal(Arc::new(plain)), "`bytes in memory`: row 8 has no values");
}

/// A file whose footer says 8 rows while its columns have 6 values: a table of 6 rows would have lost two.
#[test]
fn contradicting_numbers_of_rows_are_refused() {
    heard();
    let found = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/parts/3cfef761f879");
    let bytes = std::fs::read(found).unwrap();
    // The first byte is the fuzz target's own.
    let error = read_bytes(&bytes[1..], "parquet", &ReadOptions::default()).unwrap_err();
    assert!(error.to_string().contains("its numbers of rows contradict each other"), "{error}");
}
