//! Gaps that mean something: clusters that differ in which cells are missing.

use std::sync::Arc;

use pervade::compute::Cpu;
use pervade::config::{Clusters, Recipe, Settings};
use pervade::data::{ColumnType, Dataset, FilledTable, NO_GAPS, ReadOptions, Table, read_bytes};
use pervade::metrics::ari;
use pervade::model::{Cells, Vade};
use pervade::seed::{Key, Stream};
use pervade::{Fit, Silent, fit};

const N: usize = 400;

/// Noise in six columns and a word; rows of the first cluster lack the cells of a, b and word, those of the second of c, d and e.
fn text() -> (String, Vec<u32>) {
    let key = Key::new(3, Stream::Sample, 0);
    let mut text = String::from("a,b,c,d,e,f,word\n");
    let clusters: Vec<u32> = (0..N as u32).map(|i| i % 2).collect();
    for (i, &cluster) in clusters.iter().enumerate() {
        let u = |j: u32| key.uniform(i as u64, j, 0);
        let noise = |j: u32| (0..6).map(|t| key.uniform(i as u64, j, 1 + t)).sum::<f64>();
        let is_gap = |j: u32| u(j) < 0.85 && (if cluster == 0 { [0, 1, 6] } else { [2, 3, 4] }).contains(&j);
        let word = ["red", "green", "blue"][(u(9) * 3.0) as usize];
        let cell = |j: u32| match j {
            _ if is_gap(j) => String::new(),
            6 => word.to_string(),
            _ => format!("{:.4}", noise(j)),
        };
        text.push_str(&(0..7).map(cell).collect::<Vec<_>>().join(","));
        text.push('\n');
    }
    (text, clusters)
}

fn options(missing_informative: bool) -> ReadOptions {
    ReadOptions::default().with(|o| o.missing_informative = missing_informative)
}

fn fitted(data: &Dataset<'_>) -> Fit {
    let settings = Settings::recipe(Recipe::Robust, Clusters::Fixed(2)).with(|s| {
        (s.components, s.hidden) = (Some(4), Some(vec![24]));
        (s.pretrain_epochs, s.epochs, s.seed) = (Some(30), Some(10), 1);
    });
    fit(data, &settings.check(data).unwrap(), &Cpu::new(), &mut Silent, None).unwrap()
}

fn model_of(table: &Table) -> Vade {
    let bytes = fitted(&table.data).model.to_bytes().unwrap();
    Vade::from_bytes(&bytes, "model".as_ref()).unwrap()
}

#[test]
fn clusters_that_differ_only_in_their_gaps_are_found_if_asked_for() {
    let (text, truth) = text();
    let of = |is_informative: bool| {
        let table = read_bytes(text.as_bytes(), "csv", &options(is_informative)).unwrap();
        ari(&fitted(&table.data).clusters, &truth).unwrap()
    };
    let (with, without) = (of(true), of(false));
    assert!(with > 0.95, "{with}");
    assert!(without < 0.1, "{without}");
}

#[test]
fn new_rows_are_read_in_any_order_and_filled() {
    let (text, truth) = text();
    let cpu = Cpu::new();
    let table = read_bytes(text.as_bytes(), "csv", &options(true)).unwrap();
    let schema = table.data.schema().unwrap();
    assert_eq!((schema.source_columns().len(), schema.columns.len()), (7, 13));
    assert_eq!(
        (schema.columns[7].name.as_str(), schema.columns[12].name.as_str()),
        ("a is missing", "word is missing")
    );
    assert!(schema.columns[7..].iter().all(|column| column.kind == ColumnType::YesNo && !column.has_gaps));
    assert!(table.description.as_ref().unwrap().ends_with("counts as a value of its own in 6 columns"));
    let model = model_of(&table);
    let own = model.assign(&cpu, &table.data).unwrap();
    assert!(ari(&own.clusters, &truth).unwrap() > 0.95);

    // The columns from the last to the first.
    let reversed = |line: &str| line.split(',').rev().collect::<Vec<_>>().join(",") + "\n";
    let turned: String = text.lines().map(reversed).collect();
    let by_schema = ReadOptions::default().with(|o| {
        o.schema = model.schema().cloned().map(Arc::new);
        o.original = true;
    });
    let new = read_bytes(turned.as_bytes(), "csv", &by_schema).unwrap();
    assert_eq!(model.assign(&cpu, &new.data).unwrap().probabilities, own.probabilities);

    let filled = model.impute(&cpu, &new.data, Cells::Mean, 0).unwrap();
    let filled = FilledTable::new(&new, model.schema().unwrap(), &filled).unwrap();
    let mut out = Vec::new();
    filled.write_to(&mut out, pervade::data::OutputFormat::Csv).unwrap();
    let out = String::from_utf8(out).unwrap();
    assert_eq!(out.lines().next(), Some("word,f,e,d,c,b,a"));
    assert!(
        out.lines().all(|line| line.split(',').count() == 7 && !line.contains(",,") && !line.ends_with(','))
    );
}

#[test]
fn generated_rows_have_the_gaps_of_their_cluster() {
    let (text, truth) = text();
    let table = read_bytes(text.as_bytes(), "csv", &options(true)).unwrap();
    let (model, cpu) = (model_of(&table), Cpu::new());
    let clusters = model.assign(&cpu, &table.data).unwrap().clusters;
    let first = clusters[truth.iter().position(|&cluster| cluster == 0).unwrap()] as usize;
    let gaps = |cells: Cells, j: usize| {
        let made = model.generate(&cpu, Some(first), 300, 1, cells).unwrap();
        made.rows.chunks_exact(13).filter(|row| row[j].is_nan()).count()
    };
    assert!(gaps(Cells::Auto, 0) > 200 && gaps(Cells::Draw, 6) > 200 && gaps(Cells::Auto, 5) == 0);
    assert!(gaps(Cells::Auto, 2) < 60, "a column that this cluster has");
    assert_eq!(gaps(Cells::Mean, 0), 0);
}

#[test]
fn arrays_have_informative_gaps_too() {
    let (text, truth) = text();
    let numbers: String =
        text.lines().map(|line| line.rsplit_once(',').unwrap().0.to_string() + "\n").collect();
    let table = read_bytes(numbers.as_bytes(), "csv", &ReadOptions::default()).unwrap();
    let cells = (0..N * 6).map(|i| table.data.cell(i / 6, i % 6) as f32).collect();
    let array = Dataset::from_rows(N, 6, cells).unwrap();
    let gaps = array.with_informative_gaps().unwrap();
    assert_eq!((gaps.n_columns(), gaps.n_source_columns()), (11, 6));
    let found = fitted(&gaps);
    assert!(ari(&found.clusters, &truth).unwrap() > 0.9);
    // Rows as they are: the model adds what tells their gaps.
    let cpu = Cpu::new();
    assert_eq!(found.model.assign(&cpu, &array).unwrap().clusters, found.clusters);
    let scores = found.model.score(&cpu, &gaps).unwrap();
    assert_eq!(found.model.score(&cpu, &array.slice(100..200)).unwrap(), scores[100..200]);
}

#[test]
fn a_table_without_gaps_is_read_with_a_note() {
    let numbers = |i: usize| format!("{i},{}\n", i * i % 7);
    let words = |i: usize| format!("{i},{}\n", ["red", "blue"][i % 2]);
    for text in [(0..40).map(numbers).collect::<String>(), (0..40).map(words).collect()] {
        let text = format!("x,y\n{text}");
        let [with, without] = [true, false]
            .map(|informative| read_bytes(text.as_bytes(), "csv", &options(informative)).unwrap());
        assert_eq!(with.data.checksum(), without.data.checksum());
        assert_eq!((with.notes, without.notes), (vec![NO_GAPS.to_string()], Vec::new()));
    }
    // A row without values is an error all the same.
    let error = read_bytes(b"x,y\n1,a\n,\n3,b\n4,a\n,b\n", "csv", &options(true)).unwrap_err();
    assert!(error.to_string().contains("row 2 has no values"), "{error}");
}
