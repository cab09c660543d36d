//! InfoGAN on synthetic images: it trains, its categories differ, new rows look like the data, results do not depend on
//! the number of threads, and rows that are not images are an error.

use pervade::compute::Cpu;
use pervade::compute::cpu::simd::Isa;
use pervade::data::Dataset;
use pervade::seed::{Key, Stream};
use pervade::train::{Control, Event, Observer, Silent};
use pervade::{Clusterer, Error};
use pervade_rivals::{InfoGan, Networks, method};

const SIDE: usize = 8;

/// Bright horizontal or vertical bars at one of six positions on a dark background; and their direction.
fn bars(n_rows: usize) -> (Dataset<'static>, Vec<u32>) {
    let key = Key::new(6, Stream::Generate, 0);
    let labels: Vec<u32> = (0..n_rows).map(|row| (2.0 * key.uniform(row as u64, 0, 1)) as u32).collect();
    let value = |index: usize| {
        let (row, i, j) = (index / 64, index / SIDE % SIDE, index % SIDE);
        let bar = 1 + (6.0 * key.uniform(row as u64, 0, 2)) as usize;
        let along = if labels[row] == 0 { i } else { j };
        let noise = key.uniform(row as u64, (index % 64) as u32, 3);
        ((if along == bar { 200.0 } else { 0.0 }) + 40.0 * noise) as u8
    };
    let pixels: Vec<f32> = (0..n_rows * 64).map(|index| f32::from(value(index))).collect();
    (Dataset::from_rows(n_rows, 64, pixels).unwrap(), labels)
}

fn small(n_clusters: usize, epochs: usize) -> InfoGan {
    InfoGan {
        n_clusters,
        n_noise: 8,
        channels: [16, 24],
        width: 96,
        recognition: 32,
        batch: 64,
        updates: 50,
        epochs,
        learning_rates: [1e-3, 2e-3], // for few updates
        ..InfoGan::default()
    }
}

/// Log likelihoods of the discriminator's targets and of the category, per epoch.
struct LogLikelihoods(Vec<[f64; 2]>);

impl Observer for LogLikelihoods {
    fn event(&mut self, event: &Event<'_>) -> Control {
        if let Event::Trained(_, entry) = event {
            self.0.push([entry.terms.reconstruction, entry.terms.cluster]);
        }
        Control::Continue
    }
}

/// Mean over rows of each pixel.
fn mean_image(rows: &[f32]) -> Vec<f32> {
    let n = (rows.len() / 64) as f32;
    (0..64).map(|pixel| rows.iter().skip(pixel).step_by(64).sum::<f32>() / n).collect()
}

#[test]
fn it_learns_to_generate_images_whose_category_can_be_predicted() {
    let (data, _) = bars(500);
    let (cpu, mut history) = (Cpu::new(), LogLikelihoods(Vec::new()));
    let clustering = small(4, 12).cluster(&data, &cpu, 1, &mut history).unwrap();
    assert_eq!((clustering.n_clusters(), history.0.len()), (4, 12));
    assert!(history.0.iter().flatten().all(|x| x.is_finite()), "{:?}", history.0);
    // Guessing one of four would be -1.39.
    assert!(
        history.0[11][1] > -0.3 && history.0[11][1] > history.0[0][1],
        "categories are predicted: {:?}",
        history.0
    );
    let clusters = clustering.assign(&cpu, &data).unwrap();
    assert!(clusters.len() == 500 && clusters.iter().all(|&c| c < 4));
    assert!(clustering.embed(&cpu, &data).unwrap().is_none());

    let (low, high) = data.range();
    let generated: Vec<Vec<f32>> =
        (0..4).map(|cluster| clustering.generate(&cpu, cluster, 300, 2).unwrap().unwrap()).collect();
    let mut found = 0;
    for (cluster, rows) in generated.iter().enumerate() {
        assert_eq!(rows.len(), 300 * 64);
        let inside = |&x: &f32| f64::from(x) >= low - 1e-3 && f64::from(x) <= high + 1e-3;
        assert!(rows.iter().all(inside), "rows in the range of the data");
        let assigned = clustering.assign(&cpu, &Dataset::from_rows(300, 64, rows.clone()).unwrap()).unwrap();
        found += assigned.iter().filter(|&&c| c as usize == cluster).count();
        // Less than a block or more than a block: the same values.
        assert_eq!(clustering.generate(&cpu, cluster, 5, 2).unwrap().unwrap(), rows[..5 * 64]);
        assert_ne!(clustering.generate(&cpu, cluster, 5, 3).unwrap().unwrap(), rows[..5 * 64]);
    }
    // Q predicts the category of generated rows, with the running statistics. Four seeds found at least 1196 of them;
    // guessing would find 300.
    assert!(found > 900, "{found} of 1200 rows are assigned to their own category");
    for (a, b) in [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)] {
        let (a, b) = (mean_image(&generated[a]), mean_image(&generated[b]));
        let difference = a.iter().zip(&b).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max);
        assert!(difference > 20.0, "categories give different images: {difference}");
    }
    // An untrained network generates grey images, 120; the mean of the data is 45: one bar of eight, and noise.
    let mean = generated.concat().iter().sum::<f32>() / (4.0 * 300.0 * 64.0);
    assert!((25.0..65.0).contains(&mean), "generated images are about as bright as the data: {mean}");
}

#[test]
fn results_depend_on_the_seed_and_not_on_threads_or_instruction_sets() {
    let (data, _) = bars(200);
    let results = |cpu: Cpu, threads: usize, seed: u64| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let method = InfoGan { updates: 5, ..small(3, 2) };
            let clustering = method.cluster(&data, &cpu, seed, &mut Silent).unwrap();
            let rows = clustering.generate(&cpu, 1, 10, 0).unwrap().unwrap();
            (clustering.assign(&cpu, &data).unwrap(), rows)
        })
    };
    let one = results(Cpu::new(), 1, 3);
    assert!(one == results(Cpu::new(), 2, 3) && one == results(Cpu::new(), 5, 3), "depends on the threads");
    for isa in Isa::available() {
        assert!(one == results(Cpu::with_isa(isa).unwrap(), 2, 3), "depends on the instructions: {isa:?}");
    }
    assert!(one.1 != results(Cpu::new(), 1, 4).1, "ignores its seed");
}

#[test]
fn invalid_input_is_an_error() {
    let cpu = Cpu::new();
    let error_of = |method: InfoGan, n_rows: usize, columns: usize| {
        let values = (0..n_rows * columns).map(|i| (i % 17) as f32).collect();
        let data = Dataset::from_rows(n_rows, columns, values).unwrap();
        let error = method.cluster(&data, &cpu, 0, &mut Silent).err().expect("an error");
        error.to_string()
    };
    for columns in [63, 36, 25, 8] {
        let error = error_of(small(2, 1), 20, columns);
        assert!(error.contains("multiple of 4") && error.contains(&format!("{columns} columns")), "{error}");
    }
    assert!(error_of(small(21, 1), 20, 64).contains("21"));
    assert!(error_of(small(1, 1), 20, 64).contains("clusters"));
    assert!(error_of(InfoGan { batch: 1, ..small(2, 1) }, 20, 64).contains("batch"));
    let (data, _) = bars(50);
    let clustering = InfoGan { updates: 2, ..small(2, 1) }.cluster(&data, &cpu, 0, &mut Silent).unwrap();
    assert!(clustering.generate(&cpu, 2, 1, 0).is_err(), "no such cluster");
    assert_eq!(clustering.generate(&cpu, 1, 0, 0).unwrap().unwrap(), [0.0f32; 0]);
    let narrow = Dataset::from_rows(2, 2, vec![0.0, 1.0, 2.0, 3.0]).unwrap();
    assert!(clustering.assign(&cpu, &narrow).is_err());
}

/// Stops at the third step.
struct StopsAtThirdStep;

impl Observer for StopsAtThirdStep {
    fn event(&mut self, event: &Event<'_>) -> Control {
        if matches!(event, Event::Steps { done: 3 }) { Control::Stop } else { Control::Continue }
    }
}

#[test]
fn it_is_found_by_name_and_can_be_stopped() {
    let (data, _) = bars(60);
    let networks = Networks { epochs: Some(1), ..Networks::default() };
    let method = method::<Cpu>("infogan").expect("in the list").with_networks(3, &networks);
    assert_eq!(method.name(), "infogan");
    let error = method.cluster(&data, &Cpu::new(), 0, &mut StopsAtThirdStep).err().expect("stopped");
    assert!(matches!(error, Error::Interrupted { .. }), "{error}");
}
