//! Valid input for every target, which fuzzing starts from.

use std::fs;
use std::io::Write;
use std::path::Path;

use pervade::compute::Cpu;
use pervade::data::{Kept, OutputFormat, OutputTable, TableWriter};
use pervade::fit;
use pervade::names::ClusterNames;
use pervade::train::checkpoint::{Checkpoints, probe_data, probe_settings};
use pervade::train::{Control, Event, Observer};

use super::explore::{QUESTIONS, TOKEN};
use super::fixtures::{Fitted, typed_csv};
use super::{DIVIDER, scratch};

/// Input for a target.
pub struct Seed {
    pub target: &'static str,
    pub name: String,
    pub bytes: Vec<u8>,
}

fn seed(target: &'static str, name: impl ToString, bytes: impl Into<Vec<u8>>) -> Seed {
    Seed { target, name: name.to_string(), bytes: bytes.into() }
}

/// All seeds; some are files of the repository's folder `testdata`.
pub fn all(testdata: &Path) -> Vec<Seed> {
    [readers(testdata), labels_and_folders(testdata), parts(testdata), typed(testdata), models(), explorer()]
        .into_iter()
        .flatten()
        .collect()
}

/// Writes them to one folder per target.
pub fn write(corpus: &Path, testdata: &Path) {
    for Seed { target, name, bytes } in all(testdata) {
        fs::create_dir_all(corpus.join(target)).unwrap();
        fs::write(corpus.join(target).join(name), bytes).unwrap();
    }
    fs::remove_dir_all(super::scratch_root()).unwrap_or_default();
}

/// The readers' test files by format.
fn readers(testdata: &Path) -> Vec<Seed> {
    let by_ending = [
        ("npy", "readers", &[".npy"][..]),
        ("npz", "readers", &[".npz"]),
        ("idx", "readers", &[".idx", ".idx.gz"]),
        ("text", "readers", &[".csv", ".tsv", ".txt"]),
        ("svmlight", "readers", &[".svm", ".libsvm"]),
        ("mat", "readers", &[".mat"]),
        ("mat", "originals/mat", &[".mat"]),
        ("parquet", "readers", &[".parquet"]),
        ("images", "readers/colour", &[".png"]),
        ("images", "readers/photo", &[".jpg"]),
    ];
    let mut seeds = Vec::new();
    for (target, folder, endings) in by_ending {
        let mut paths: Vec<_> =
            fs::read_dir(testdata.join(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        for path in paths {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if endings.iter().any(|ending| name.ends_with(ending)) {
                seeds.push(seed(target, name, fs::read(path).unwrap()));
            }
        }
    }
    seeds
}

/// A byte that selects something, then a file.
fn numbered(first: u8, path: &Path) -> Vec<u8> {
    [&[first], &fs::read(path).unwrap()[..]].concat()
}

fn labels_and_folders(testdata: &Path) -> Vec<Seed> {
    // In the order of the extensions that the target knows.
    let labels = [
        "labels.txt",
        "words_last.csv",
        "labels_i64.npy",
        "stored.npz",
        "labels.idx",
        "plain.mat",
        "plain.csv.gz",
    ];
    // In the order of the files that the target knows.
    let folders = [
        "har/train/X_train.txt",
        "har/train/y_train.txt",
        "har/test/X_test.txt.gz",
        "har/test/y_test.txt",
        "har/features.txt",
        "har/activity_labels.txt",
        "tokens/lyrl2004_tokens_test_pt1.dat",
        "tokens/lyrl2004_tokens_test_pt0.dat.gz",
        "tokens/lyrl2004_tokens_test_pt1.dat",
        "tokens/lyrl2004_tokens_test_pt1.dat",
        "tokens/lyrl2004_tokens_train.dat.gz",
        "tokens/rcv1-v2.topics.qrels.gz",
        "vectors/lyrl2004_vectors_test_pt0.dat",
    ];
    let from = testdata.join("readers");
    let mut seeds = vec![seed("labels", "words", numbered(2, &from.join("labels_words.npy")))];
    for (i, name) in labels.into_iter().enumerate() {
        seeds.push(seed("labels", i, numbered(i as u8, &from.join(name))));
    }
    for (i, name) in folders.into_iter().enumerate() {
        seeds.push(seed("folders", i, numbered(i as u8, &testdata.join("originals").join(name))));
    }
    seeds
}

/// The bytes of a Parquet file with columns of text, written as the types that they look like.
fn parquet(names: &[&str], columns: Vec<Vec<String>>) -> Vec<u8> {
    let kept = Kept { names: names.iter().map(ToString::to_string).collect(), columns };
    let mut bytes = Vec::new();
    let mut writer = TableWriter::new(&mut bytes, OutputFormat::Parquet, 0).unwrap();
    writer.add(&OutputTable { kept: Some(&kept), ..OutputTable::default() }).unwrap();
    writer.finish().unwrap();
    bytes
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gz.write_all(bytes).unwrap();
    gz.finish().unwrap()
}

fn joined(first: u8, files: &[&[u8]]) -> Vec<u8> {
    [&[first], &files.join(DIVIDER)[..]].concat()
}

/// One file in several parts, in the order of the formats that the target knows.
fn parts(testdata: &Path) -> Vec<Seed> {
    let read = |name: &str| fs::read(testdata.join("readers").join(name)).unwrap();
    let (npy, whole, doubles) = (read("f32_c.npy"), read("whole.parquet"), read("doubles.parquet"));
    let words = parquet(&["a", "b"], vec![vec!["1".into(), String::new()], vec!["x".into(), "y".into()]]);
    // More rows than one piece has.
    let many = packed("1.5\n".repeat(67_000).as_bytes());
    let tsv = b"a\tb\n1\tx\n2\ty\n";
    vec![
        seed("parts", "csv", joined(0, &[b"a,b\n1,2\n3,4\n", b"b,a\n5,6\n", b"a,b\n"])),
        seed("parts", "typed.csv", joined(0, &[b"a,b\nx,2020-01-01\n,\n", b"b,a\n2021-01-02,z\n"])),
        seed("parts", "labels.csv", joined(0x80, &[b"a,y\n1,u\n", b"a,y\n2,v\n"])),
        seed("parts", "whole.parquet", joined(1, &[&whole, &whole])),
        seed("parts", "doubles.parquet", joined(1, &[&doubles, &whole])),
        seed("parts", "words.parquet", joined(1, &[&words, &words])),
        seed("parts", "npy", joined(2, &[&npy, &npy])),
        seed("parts", "tsv", joined(3, &[tsv, tsv])),
        seed("parts", "csv.gz", joined(4, &[&packed(b"a,b\n1,2\n"), &packed(b"a,b\n3,4\n")])),
        seed("parts", "many.csv.gz", joined(4, &[&many])),
    ]
}

fn typed(testdata: &Path) -> Vec<Seed> {
    let csv = typed_csv();
    let few: String = csv.lines().take(9).map(|line| line.to_string() + "\n").collect();
    let settings = "clusters = 3\nmissing_informative = true\n#keep id\n#missing n/a\n#labels column:species\n\
        [columns]\nsex = \"categorical\"\nyear = \"ordered: 2007 < 2008 < 2009\"\nbody_mass_g = \"count\"\n";
    let mixed = "a,b,c,d,e,f\n1,x,2020-01-31,12:30,yes,1.5e3\n2,y,1999-12-01,23:59:59,no,-0.25\n,x,,n/a,yes,1e-9\n\
        3,é,2021-06-15,00:00,no,?\n";
    let other = "f,e,d,c,b,a\n1,yes,01:00,2022-02-02,new,7\n,,,,,\n";
    let mixed_settings =
        "#missing n/a\n[columns]\na = \"number\"\nb = \"ordered: x < y\"\nc = \"date\"\nf = \"skip\"\n";
    let dates = "d,t\n31/12/2020,2020-01-01T00:00:00Z\n01/02/2021,2020-06-01T12:30:15.250Z\n,\n";
    let columns: Vec<Vec<String>> = {
        let rows: Vec<Vec<&str>> = few.lines().skip(1).map(|line| line.split(',').collect()).collect();
        (0..rows[0].len()).map(|j| rows.iter().map(|row| row[j].to_string()).collect()).collect()
    };
    let names: Vec<&str> = few.lines().next().unwrap().split(',').collect();
    let as_parquet = parquet(&names, columns);
    let tables = |files: &[&str]| files.iter().map(|file| file.as_bytes()).collect::<Vec<_>>().join(DIVIDER);
    let with = |first: u8, bytes: &[u8]| [&[first], bytes].concat();
    let types = "[columns]\na = \"yes/no\"\nb = \"proportion\"\nc = \"count\"\nd = \"text\"\n";
    let columns = fs::read(testdata.join("readers/penguins.csv")).unwrap();
    let without_names = "1,x\n2,y\n3,z\n";
    vec![
        seed("schema", "penguins", tables(&[settings, &few, &few])),
        seed("schema", "mixed", tables(&[mixed_settings, mixed, other])),
        seed("schema", "dates", tables(&["", dates, dates])),
        seed("schema", "types", tables(&[types, "a,b,c,d\n1,0.5,3,u\n0,0.25,4,v\n", "d,c,b,a\nu,3,1,1\n"])),
        seed("schema", "no-names", tables(&["clusters = 2\n", without_names, without_names])),
        seed("impute", "csv", with(0, few.as_bytes())),
        seed("impute", "penguins.csv", with(0, &columns)),
        seed("impute", "other-order.csv", with(0x80, b"year,sex,island,id\n2007,male,Dream,x\n,,,\n")),
        seed("impute", "parquet", with(1, &as_parquet)),
        seed("column-names", "three", "\u{feff}height\nwidth\r\n length \n"),
        seed("column-names", "same", "a\na\na\n"),
    ]
}

/// Stops a run after this many events.
struct StopAfter(usize);

impl Observer for StopAfter {
    fn event(&mut self, _event: &Event<'_>) -> Control {
        self.0 = self.0.saturating_sub(1);
        if self.0 == 0 { Control::Stop } else { Control::Continue }
    }
}

/// Settings, models, all checkpoints of a small run, and names of clusters.
fn models() -> Vec<Seed> {
    let mut seeds = vec![
        seed("config", "paper", "clusters = 3\nrecipe = \"paper\"\nhidden = [8, 4]\nlearning_rate = 1e-3\n"),
        seed(
            "config",
            "auto",
            "clusters = \"auto\"\nlikelihood = \"gaussian-fixed\"\nnoise_variance = 0.5\nkeep = \"last\"\n",
        ),
        seed("config", "columns", "clusters = 2\nmissing-informative = true\n[columns]\nage = \"count\"\n"),
    ];
    let Fitted { model, .. } = Fitted::typed();
    seeds.push(seed("model", "typed.pervade", model.to_bytes().unwrap()));
    let pictures = &Fitted::pictures().model;
    seeds.push(seed("model", "pictures.pervade", pictures.to_bytes().unwrap()));
    let folder = scratch("run");
    let path = folder.join("none.names.json");
    ClusterNames::none(model).save(&path).unwrap();
    seeds.push(seed("names", "none", fs::read(path).unwrap()));
    let merged = "{\"format\": 1, \"model\": null, \"clusters\": [{\"cluster\": 0, \"name\": \"a\"}, \
        {\"cluster\": 2, \"merged_into\": 1}, {\"cluster\": 1, \"name\": null, \"merged_into\": 0}]}";
    seeds.push(seed("names", "merged", merged));
    let (data, mut last) = (probe_data().unwrap(), Vec::new());
    for n in 1.. {
        let checkpoints = Checkpoints::new(&folder);
        let settings = probe_settings().check(&data).unwrap();
        let ended = fit(&data, &settings, &Cpu::new(), &mut StopAfter(n), Some(&checkpoints));
        let held = fs::read(folder.join("checkpoint.safetensors")).unwrap_or_default();
        if !held.is_empty() && held != last {
            seeds.push(seed("checkpoint", n, held.clone()));
            last = held;
        }
        if let Ok(fitted) = ended {
            seeds.push(seed("model", "tiny.pervade", fitted.model.to_bytes().unwrap()));
            break;
        }
    }
    fs::remove_dir_all(&folder).unwrap_or_default();
    seeds
}

/// Questions of the explorer, alone and as requests.
fn explorer() -> Vec<Seed> {
    let n_digits = Fitted::typed().table.data.n_rows().div_ceil(4);
    let rows = "5".repeat(n_digits);
    let bodies = [
        format!("{{\"a\":{{\"rows\":\"{rows}\"}},\"b\":\"rest\"}}"),
        "{\"conditions\":[{\"on\":\"cluster\",\"levels\":[0,1]},{\"on\":{\"column\":1},\"low\":\"30\",\"high\":\"\"},\
         {\"on\":{\"kept\":0},\"text\":\"P\"},{\"on\":\"label\",\"levels\":[0]},{\"on\":\"score\",\"low\":\"-1e3\"}]}"
            .to_string(),
        "{\"clusters\":[{\"cluster\":0,\"name\":\"first\",\"merged_into\":null},{\"cluster\":2,\"merged_into\":0}]}"
            .to_string(),
        "{\"row\":3}".to_string(),
        "{\"text\":\"island: Biscoe\"}".to_string(),
        "{\"from\":0,\"to\":2,\"steps\":5}".to_string(),
    ];
    let head = format!("Host: 127.0.0.1:4000\r\nX-Pervade-Token: {TOKEN}\r\n");
    let mut seeds = vec![
        seed("questions", "clusters", &b"\x00{\"a\":{\"clusters\":[0]},\"b\":{\"clusters\":[1,2]}}"[..]),
        seed("questions", "pictures-row", &b"\x83{\"row\":3}"[..]),
        seed("questions", "pictures-walk", &b"\x85{\"from\":0,\"to\":1,\"steps\":3}"[..]),
        seed("requests", "page", format!("GET /?token={TOKEN} HTTP/1.1\r\nHost: localhost:4000\r\n\r\n")),
        seed("requests", "code", format!("GET /?code=once-{TOKEN} HTTP/1.1\r\nHost: localhost:4000\r\n\r\n")),
        seed(
            "requests",
            "none",
            "GET / HTTP/1.1\r\nHost: 127.0.0.1:4000\r\nOrigin: http://127.0.0.1:4000\r\n\r\n",
        ),
        seed("requests", "other-host", "GET http://example.org/ HTTP/1.0\r\nHost: example.org\r\n\r\n"),
        seed("requests", "alive", format!("GET /api/alive HTTP/1.1\r\n{head}Connection: close\r\n\r\n")),
        seed(
            "requests",
            "chunked",
            format!(
                "POST /api/row HTTP/1.1\r\n{head}Transfer-Encoding: chunked\r\n\r\n9\r\n{{\"row\":3}}\r\n0\r\n\r\n"
            ),
        ),
    ];
    let mut several = Vec::new();
    for (i, (name, body)) in QUESTIONS.into_iter().zip(bodies).enumerate() {
        seeds.push(seed("questions", name, [&[i as u8], body.as_bytes()].concat()));
        let request =
            format!("POST /api/{name} HTTP/1.1\r\n{head}Content-Length: {}\r\n\r\n{body}", body.len());
        several.extend_from_slice(request.as_bytes());
        seeds.push(seed("requests", name, request));
    }
    seeds.push(seed("requests", "several", several));
    seeds
}
