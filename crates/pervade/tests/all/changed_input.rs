//! Files that change while they are read: one error that names the file, no signal, no panic.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use pervade::compute::Cpu;
use pervade::config::{Clusters, Recipe, Settings};
use pervade::data::{Dataset, ReadOptions, read, read_labels};
use pervade::model::Vade;
use pervade::train::checkpoint::Checkpoints;
use pervade::train::{Control, Event, Observer, Silent};
use pervade::{Error, fit};

const ROWS: usize = 1000;
const COLUMNS: usize = 8;

/// Three clusters, so that a fit has something to find.
fn values() -> Vec<f32> {
    let value = |i: usize| {
        let (row, column) = (i / COLUMNS, i % COLUMNS);
        (row % 3 * column) as f32 + (i as f32 * 0.71).sin() * 0.1
    };
    (0..ROWS * COLUMNS).map(value).collect()
}

fn npy(values: &[f32]) -> Vec<u8> {
    let n_rows = values.len() / COLUMNS;
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({n_rows}, {COLUMNS}), }}");
    let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    bytes.extend(format!("{header:<117}\n").bytes());
    bytes.extend(values.iter().flat_map(|x| x.to_le_bytes()));
    bytes
}

/// A folder with `x.npy` in it.
struct TempTable {
    folder: tempfile::TempDir,
}

impl TempTable {
    fn new() -> Self {
        let table = Self { folder: tempfile::tempdir().unwrap() };
        std::fs::write(table.data(), npy(&values())).unwrap();
        table
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn data(&self) -> PathBuf {
        self.path("x.npy")
    }

    fn read(&self) -> Dataset<'static> {
        read(&self.data(), &ReadOptions::default()).unwrap().data
    }
}

fn open(path: &Path) -> File {
    OpenOptions::new().write(true).open(path).unwrap()
}

fn shorten(path: &Path, len: u64) {
    open(path).set_len(len).unwrap();
}

/// Writes `bytes` at the offset and restores the file's modification time.
fn overwrite_secretly(path: &Path, offset: u64, bytes: &[u8]) {
    let time = std::fs::metadata(path).unwrap().modified().unwrap();
    let mut file = open(path);
    file.seek(SeekFrom::Start(offset)).unwrap();
    file.write_all(bytes).unwrap();
    file.set_modified(time).unwrap();
}

/// Writes `bytes` at the offset, and makes sure that the modification time changes.
fn overwrite(path: &Path, offset: u64, bytes: &[u8]) {
    overwrite_secretly(path, offset, bytes);
    open(path).set_modified(SystemTime::now() + Duration::from_secs(5)).unwrap();
}

fn settings(data: &Dataset) -> pervade::config::CheckedSettings {
    let settings = Settings::recipe(Recipe::Robust, Clusters::Fixed(3)).with(|s| {
        s.hidden = Some(vec![16, 16]);
        s.latents = Some(2);
        s.pretrain_epochs = Some(3);
        s.epochs = Some(3);
        s.mixture_starts = 1;
    });
    settings.check(data).unwrap()
}

fn model(data: &Dataset) -> Vade {
    fit(data, &settings(data), &Cpu::new(), &mut Silent, None).unwrap().model
}

/// Runs an action once at the first event of this name, and saves every epoch.
struct When<F> {
    name: &'static str,
    then: Option<F>,
    saved: usize,
}

impl<F: FnOnce()> Observer for When<F> {
    fn event(&mut self, event: &Event<'_>) -> Control {
        self.saved += usize::from(matches!(event, Event::Saved));
        if event.to_json()["event"] == self.name
            && let Some(then) = self.then.take()
        {
            then();
        }
        Control::Save
    }
}

#[track_caller]
fn assert_changed(error: &Error, path: &Path, problem: &str) {
    let text = error.to_string();
    assert!(matches!(error, Error::Data { .. }), "{error:?}");
    assert!(text.starts_with(&format!("`{}`: ", path.display())) && text.contains(problem), "{text}");
    assert!(error.hint().is_some_and(|hint| hint.to_string().contains("leave the file alone")), "{error:?}");
}

#[test]
fn a_mapped_file_that_is_shortened_reads_as_zeros_and_is_reported() {
    let table = TempTable::new();
    let data = table.read();
    data.check_unchanged().unwrap();
    let checksum = data.checksum();
    data.check_unchanged_since(&checksum).unwrap();
    shorten(&table.data(), 200);
    // All threads read, each in a different order.
    std::thread::scope(|scope| {
        for step in [1, 7, 1009, 2503] {
            let data = &data;
            scope.spawn(move || {
                let mut row = [0.0; COLUMNS];
                for i in 0..ROWS {
                    data.row_into(i * step % ROWS, &mut row);
                }
                data.row_into(ROWS - 1, &mut row);
                assert_eq!(row, [0.0; COLUMNS]);
            });
        }
    });
    let size = ROWS * COLUMNS * 4 + 128;
    let problem = format!("was shortened while it was in use ({size} bytes at the start, 200 now)");
    assert_changed(&data.check_unchanged().unwrap_err(), &table.data(), &problem);
    assert_changed(&data.check_unchanged_since(&checksum).unwrap_err(), &table.data(), &problem);
    assert_changed(&data.slice(0..2).check_unchanged().unwrap_err(), &table.data(), &problem);
    // Restoring the length alone does not restore the file.
    shorten(&table.data(), size as u64);
    assert!(data.check_unchanged().is_err());
}

#[test]
fn a_file_that_is_replaced_or_removed_keeps_its_content() {
    let table = TempTable::new();
    let (data, checksum) = (table.read(), table.read().checksum());
    std::fs::write(table.path("other.npy"), b"other").unwrap();
    std::fs::rename(table.path("other.npy"), table.data()).unwrap();
    data.check_unchanged_since(&checksum).unwrap();
    std::fs::remove_file(table.data()).unwrap();
    data.check_unchanged_since(&checksum).unwrap();
}

#[test]
fn a_model_returns_no_results_for_changed_rows() {
    let table = TempTable::new();
    let (model, device) = (model(&table.read()), Cpu::new());
    let changes: [(&str, fn(&Path)); 4] = [
        ("shortened", |path| shorten(path, 1000)),
        ("shortened", |path| shorten(path, 0)),
        ("modification time", |path| overwrite(path, 4000, &f32::NAN.to_le_bytes())),
        ("grew", |path| shorten(path, 1 << 20)),
    ];
    for (problem, change) in changes {
        let table = TempTable::new();
        let data = table.read();
        change(&table.data());
        let error = model.assign(&device, &data).unwrap_err();
        assert_changed(&error, &table.data(), problem);
        assert_changed(&model.embed(&device, &data).unwrap_err(), &table.data(), problem);
        assert_changed(&model.reconstruct(&device, &data).unwrap_err(), &table.data(), problem);
        assert_changed(&model.score(&device, &data).unwrap_err(), &table.data(), problem);
        let recipe = Settings::recipe(Recipe::Robust, Clusters::Fixed(3));
        assert_changed(&recipe.check(&data).unwrap_err(), &table.data(), problem);
    }
}

#[test]
fn a_fit_ends_at_the_change_and_keeps_the_last_good_checkpoint() {
    let whole = {
        let data = TempTable::new().read();
        fit(&data, &settings(&data), &Cpu::new(), &mut Silent, None).unwrap().model.to_bytes().unwrap()
    };
    let infinite = f32::INFINITY.to_le_bytes().repeat(COLUMNS);
    let changes: [(&str, &dyn Fn(&Path)); 5] = [
        ("was shortened", &|path| shorten(path, 4000)),
        ("modification time changed", &|path| overwrite(path, 4096, &[9; 64])),
        // Training diverges, but that must not be the reported error.
        ("modification time changed", &|path| overwrite(path, 4096, &infinite)),
        ("the values changed", &|path| overwrite_secretly(path, 4096, &infinite)),
        ("the values changed", &|path| overwrite_secretly(path, 4096, &[9; 64])),
    ];
    for event in ["pretrained", "scored", "trained"] {
        for (problem, change) in &changes {
            let table = TempTable::new();
            let data = table.read();
            let checkpoints = Checkpoints::new(table.path("checkpoint")).resuming();
            let before = std::fs::read(table.data()).unwrap();
            let mut saved_before = None;
            let then = || {
                saved_before = std::fs::read(table.path("checkpoint/checkpoint.safetensors")).ok();
                change(&table.data());
            };
            let mut observer = When { name: event, then: Some(then), saved: 0 };
            let settings = settings(&data);
            let error =
                fit(&data, &settings, &Cpu::new(), &mut observer, Some(&checkpoints)).expect_err(problem);
            assert_changed(&error, &table.data(), problem);
            let saved = std::fs::read(table.path("checkpoint/checkpoint.safetensors")).ok();
            assert!(saved == saved_before, "a state trained on changed data was saved: {event}, {problem}");
            assert_eq!(error.hint().unwrap().to_string().contains("`resume`"), saved.is_some());
            // With the old bytes the run continues to the same model.
            std::fs::write(table.data(), before).unwrap();
            let data = table.read();
            let resumed = fit(&data, &settings, &Cpu::new(), &mut Silent, Some(&checkpoints)).unwrap();
            assert!(resumed.model.to_bytes().unwrap() == whole, "other bytes: {event}, {problem}");
        }
    }
}

#[test]
fn reading_survives_whatever_happens_to_the_file() {
    let samples = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/readers"));
    let mut csv = String::from("a,b,c,d\n");
    (0..20_000).for_each(|i| csv.push_str(&format!("{i},{}.5,-1e-3,{}\n", i % 7, i * 3)));
    let mut svm = String::new();
    (0..20_000).for_each(|i| svm.push_str(&format!("{} 1:{i} 7:0.5\n", i % 3)));
    let sample = |name: &str| (name.to_string(), std::fs::read(samples.join(name)).unwrap());
    let mut cases = vec![
        ("big.csv".to_string(), csv.into_bytes()),
        ("big.svm".to_string(), svm.into_bytes()),
        ("big.npy".to_string(), npy(&values())),
    ];
    let names = ["deflated.npz", "stored.npz", "csr.npz", "plain.mat", "packed.mat", "doubles.parquet"];
    cases.extend(names.map(sample));
    cases.extend(["packed.npy.gz", "plain.csv.gz", "bytes.idx", "be_f4.npy", "le_i4.npy"].map(sample));
    let folder = tempfile::tempdir().unwrap();
    let (mut changed, mut other) = (0, 0);
    for (name, bytes) in cases {
        let path = folder.path().join(name);
        std::fs::write(&path, &bytes).unwrap();
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| meddle(&path, &bytes, &is_done));
            let options = ReadOptions::with_labels("y").unwrap();
            let end = std::time::Instant::now() + Duration::from_millis(150);
            while std::time::Instant::now() < end {
                let results = [
                    read(&path, &ReadOptions::default()).map(|_| ()),
                    read(&path, &options).map(|_| ()),
                    read_labels(&path).map(|_| ()),
                ];
                for error in results.into_iter().filter_map(Result::err) {
                    let is_change = error.to_string().contains("while it was in use");
                    *(if is_change { &mut changed } else { &mut other }) += 1;
                }
            }
            is_done.store(true, Ordering::Relaxed);
        });
    }
    assert!(changed > 0, "{changed} reads met a change, {other} failed otherwise");
}

/// Shortens, restores, lengthens and rewrites a file until it is done.
fn meddle(path: &Path, bytes: &[u8], is_done: &AtomicBool) {
    let mut file = open(path);
    let mut random = 1u64;
    while !is_done.load(Ordering::Relaxed) {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let at = (random >> 33) % bytes.len() as u64;
        match random >> 62 {
            0 => file.set_len(at).unwrap(),
            1 => file.set_len(bytes.len() as u64 + at).unwrap(),
            2 => {
                file.seek(SeekFrom::Start(at)).unwrap();
                file.write_all(&random.to_le_bytes()).unwrap();
            }
            _ => {
                file.set_len(0).unwrap();
                file.seek(SeekFrom::Start(0)).unwrap();
                file.write_all(bytes).unwrap();
            }
        }
        std::thread::sleep(Duration::from_micros(random >> 54));
    }
}
