//! Tables whose columns have types, and tables of counts: gradients of the whole step, training, gaps, and rows out.

use std::sync::Arc;

use crate::common::steps::{assert_loss_rises_along_gradients, assert_restarts_equal_each_alone};
use pervade::compute::{Cpu, Gamma};
use pervade::config::{CheckedSettings, Clusters, LikelihoodKind, Recipe, Settings};
use pervade::data::{Column, ColumnType, Dataset, DateFormat, Schema};
use pervade::metrics::ari;
use pervade::model::Cells;
use pervade::seed::{Key, Stream};
use pervade::train::Run;
use pervade::{Silent, fit};

const KINDS: [ColumnType; 7] = [
    ColumnType::Number,
    ColumnType::Positive,
    ColumnType::Count,
    ColumnType::YesNo,
    ColumnType::Category,
    ColumnType::Date,
    ColumnType::Number,
];

fn schema() -> Schema {
    let column = |(j, kind): (usize, &ColumnType)| {
        let levels: &[&str] = match kind {
            ColumnType::YesNo => &["no", "yes"],
            ColumnType::Category => &["red", "green", "blue", "(other)"],
            _ => &[],
        };
        let mut column = Column::new(format!("column {j}"), *kind);
        column.levels = levels.iter().map(ToString::to_string).collect();
        column.date = (*kind == ColumnType::Date).then_some(DateFormat::DAYS);
        column
    };
    let columns = KINDS.iter().enumerate().map(column).collect();
    Schema { columns, is_named: true, ..Schema::default() }
}

/// Three clusters that differ in every column but the last, which is noise on a huge scale. One cell in `gap` is missing.
fn mixed(n: usize, gap: u64) -> (Vec<f64>, Vec<u32>) {
    let key = Key::new(7, Stream::Sample, 1);
    let mut cells = Vec::new();
    let clusters: Vec<u32> = (0..n as u32).map(|i| i % 3).collect();
    for (i, &cluster) in clusters.iter().enumerate() {
        let u = |which: u32| key.uniform(i as u64, which, 0);
        let normal = |which: u32| (0..6).map(|t| key.uniform(i as u64, which, 1 + t)).sum::<f64>() - 3.0;
        let k = f64::from(cluster);
        let row = [
            1e-5 * (3.0 * k + normal(0)),
            (2.0 * k + 0.5 * normal(1)).exp() * 100.0,
            ((1.5 * k + 0.4 * normal(2)).exp() * 3.0).floor(),
            f64::from(u8::from(u(3) < [0.1, 0.9, 0.5][cluster as usize])),
            if u(4) < 0.8 { k } else { 3.0 },
            1.0e6 * (k + 0.3 * normal(5)),
            1e4 * normal(6),
        ];
        let is_missing =
            |j: usize| gap > 0 && (key.draw(i as u64, 50, j as u32)[0] as u64).is_multiple_of(gap);
        cells.extend(row.iter().enumerate().map(|(j, &x)| if is_missing(j) { f64::NAN } else { x }));
    }
    (cells, clusters)
}

fn table(cells: Vec<f64>) -> Dataset<'static> {
    Dataset::typed(cells, Arc::new(schema()), "a table".to_string()).unwrap()
}

fn small(data: &Dataset, change: impl FnOnce(&mut Settings)) -> CheckedSettings {
    let settings = Settings::recipe(Recipe::Robust, Clusters::Fixed(3)).with(|s| {
        s.components = Some(6);
        s.latents = Some(3);
        s.hidden = Some(vec![17, 9]);
        s.batch = 20;
        s.pretrain_batch = 20;
        s.seed = 5;
        change(s);
    });
    settings.check(data).unwrap()
}

#[test]
fn gradients_of_the_whole_step() {
    let data = table(mixed(60, 9).0);
    for gamma in [Gamma::Exact, Gamma::Sampled] {
        let (cpu, settings) = (Cpu::new(), small(&data, |s| (s.gamma, s.samples) = (gamma, 2)));
        let run = Run::new(&cpu, &data, &settings).unwrap();
        assert!(run.architecture.scales.is_some());
        assert_loss_rises_along_gradients(&run, &format!("typed {gamma:?}"));
        assert_restarts_equal_each_alone(&run, 2, 21, "typed");
    }
    let counts = (0..60 * 8).map(|i| f32::from((i * 7 % 11) as u8 % 5)).collect();
    let counts = Dataset::from_rows(60, 8, counts).unwrap();
    for likelihood in [LikelihoodKind::Counts, LikelihoodKind::Multinomial] {
        let (cpu, settings) = (Cpu::new(), small(&counts, |s| s.likelihood = likelihood));
        let run = Run::new(&cpu, &counts, &settings).unwrap();
        assert_loss_rises_along_gradients(&run, &format!("{likelihood:?}"));
        assert_restarts_equal_each_alone(&run, 2, 21, "counts");
    }
}

#[test]
fn planted_clusters_with_gaps_are_found_and_survive_the_file() {
    let (cells, clusters) = mixed(600, 10);
    let (data, cpu) = (table(cells.clone()), Cpu::new());
    let settings = small(&data, |s| (s.pretrain_epochs, s.epochs) = (Some(30), Some(10)));
    let fitted = fit(&data, &settings, &cpu, &mut Silent, None).unwrap();
    let found = ari(&fitted.clusters, &clusters).unwrap();
    assert!(found > 0.9, "{found}");
    let explained: Vec<f64> = fitted.model.metadata().explained.iter().map(|column| column.share).collect();
    assert!(explained[..3].iter().all(|&share| share > 0.5), "{explained:?}");
    let bytes = fitted.model.to_bytes().unwrap();
    let model = pervade::Vade::from_bytes(&bytes, "model".as_ref()).unwrap();
    assert_eq!(model.to_bytes().unwrap(), bytes);
    assert_eq!(model.assign(&cpu, &data).unwrap().clusters, fitted.clusters);
    assert_eq!(model.schema(), Some(&schema()));

    let filled = model.impute(&cpu, &data, Cells::Mean, 0).unwrap();
    assert!(cells.iter().zip(&filled).all(|(a, b)| if a.is_nan() { b.is_finite() } else { a == b }));
    let complete = mixed(600, 0).0;
    let right = |j: usize| {
        let gaps = (0..600).map(|i| i * 7 + j).filter(|&i| cells[i].is_nan());
        let n = gaps.clone().count() as f64;
        gaps.filter(|&i| complete[i] == filled[i]).count() as f64 / n
    };
    assert!(right(4) > 0.6, "categories {}", right(4));
    assert!(filled.chunks(7).all(|row| row[3] == 0.0 || row[3] == 1.0), "yes/no");

    let made = model.generate(&cpu, None, 50, 3, Cells::Auto).unwrap();
    for row in made.rows.chunks(7) {
        assert!(row[1] >= 0.0 && row[2] >= 0.0 && row[2].fract() == 0.0, "{row:?}");
        assert!([0.0, 1.0].contains(&row[3]) && [0.0, 1.0, 2.0, 3.0].contains(&row[4]), "{row:?}");
    }
    let scores = model.score(&cpu, &data).unwrap();
    assert!(scores.iter().all(|score| score.is_finite()));
}

/// Two groups; the second column follows the first, the third is noise. `[n, 3]`
fn numbers(n: usize) -> Vec<f64> {
    let key = Key::new(11, Stream::Sample, 1);
    let row = |i: usize| {
        let normal = |which: u32| (0..12).map(|t| key.uniform(i as u64, which, 1 + t)).sum::<f64>() - 6.0;
        let first = if i.is_multiple_of(2) { 3.0 } else { -3.0 } + normal(0);
        [first, first + 0.3 * normal(1), normal(2)]
    };
    (0..n).flat_map(row).collect()
}

#[test]
fn small_tables_of_numbers_have_a_density_and_know_anomalies() {
    let columns = ["a", "b", "c"].map(|name| Column::new(name, ColumnType::Number)).to_vec();
    let schema = Arc::new(Schema { columns, is_named: true, ..Schema::default() });
    let table = |cells: Vec<f64>| Dataset::typed(cells, schema.clone(), "numbers".to_string()).unwrap();
    let (data, cpu) = (table(numbers(300)), Cpu::new());
    let settings = Settings::recipe(Recipe::Robust, Clusters::Fixed(2)).check(&data).unwrap();
    let fitted = fit(&data, &settings, &cpu, &mut Silent, None).unwrap();
    let bytes = fitted.model.to_bytes().unwrap();
    let model = pervade::Vade::from_bytes(&bytes, "model".as_ref()).unwrap();
    assert_eq!(model.to_bytes().unwrap(), bytes);

    // An even mixture of two densities is at most ln 2 below either.
    let (scores, own) = (model.score(&cpu, &data).unwrap(), model.network_score(&cpu, &data).unwrap());
    assert!(scores.iter().zip(&own).all(|(score, own)| *score > own - 0.7), "{scores:?} {own:?}");
    assert_ne!(scores, own);

    let odd = table(vec![3.0, 3.0, 0.0, 3.0, -3.0, 0.0, 3.0, 3.0, 9.0, 3.0, f64::NAN, 0.0]);
    let anomaly = |data: &Dataset| model.anomaly(&cpu, data, &model.score(&cpu, data).unwrap()).unwrap();
    let usual = anomaly(&data);
    let rank = |x: f64| usual.iter().filter(|&&other| other < x).count() as f64 / usual.len() as f64;
    let ranks: Vec<f64> = anomaly(&odd).into_iter().map(rank).collect();
    assert!(ranks[0] < 0.8 && ranks[1] == 1.0 && ranks[2] == 1.0 && ranks[3] < 0.8, "{ranks:?}");

    // Where the second cell is missing, it follows the first; draws vary around that.
    let gaps = table(numbers(40).chunks(3).flat_map(|row| [row[0], f64::NAN, row[2]]).collect());
    let error = |filled: &[f64]| {
        let squares = filled.chunks(3).map(|row| (row[1] - row[0]).powi(2));
        (squares.sum::<f64>() / 40.0).sqrt()
    };
    let mean = model.impute(&cpu, &gaps, Cells::Mean, 0).unwrap();
    let [drawn, again, other] = [1, 1, 2].map(|seed| model.impute(&cpu, &gaps, Cells::Draw, seed).unwrap());
    assert!(error(&mean) < 1.0 && error(&drawn) > error(&mean) && error(&drawn) < 2.0, "{}", error(&mean));
    assert!(drawn == again && drawn != other);
    let parts = [0..17, 17..40].map(|rows| model.impute(&cpu, &gaps.slice(rows), Cells::Draw, 1).unwrap());
    assert_eq!(parts.concat(), drawn);
}
