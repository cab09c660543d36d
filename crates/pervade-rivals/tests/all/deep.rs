//! The deep rivals: planted clusters are found, results do not depend on the number of threads, new rows get clusters,
//! and invalid input is an error.

use crate::common::{can_be_stopped, refuses_narrow_rows};
use pervade::Clusterer;
use pervade::compute::Cpu;
use pervade::config::{Clusters, Recipe, Settings};
use pervade::data::Dataset;
use pervade::metrics::{accuracy, silhouette};
use pervade::seed::{Key, Stream};
use pervade::train::Silent;
use pervade_rivals::{Aae, AeGmm, Dec, VaeGmm};

const COLUMNS: usize = 8;
const LATENTS: usize = 3;

/// Four groups of rows in a cube, which differ in every column.
fn planted(n_rows: usize) -> (Dataset<'static>, Vec<u32>) {
    let key = Key::new(5, Stream::Generate, 0);
    let uniform = |a: usize, b: usize, draw: u32| key.uniform(a as u64, b as u32, draw);
    let labels: Vec<u32> = (0..n_rows).map(|row| (uniform(row, 0, 20) * 4.0) as u32).collect();
    let value = |i: usize| {
        let (row, column) = (i / COLUMNS, i % COLUMNS);
        let on = (labels[row] as usize + column).is_multiple_of(4);
        (if on { 3.0 } else { 0.0 } + 0.5 * uniform(row, column, 21)) as f32
    };
    let values = (0..n_rows * COLUMNS).map(value).collect();
    (Dataset::from_rows(n_rows, COLUMNS, values).unwrap(), labels)
}

/// Small networks and few epochs.
fn small(recipe: Recipe) -> Settings {
    Settings::recipe(recipe, Clusters::Auto).with(|s| {
        s.latents = Some(LATENTS);
        s.hidden = Some(vec![32, 32]);
        s.pretrain_epochs = Some(30);
        s.pretrain_batch = 50;
        s.pretrain_learning_rate = 1e-2; // for few steps
        s.cool_down = 100;
        s.epochs = Some(60);
        s.batch = 50;
        s.learning_rate = 5e-3;
    })
}

/// Each method for K clusters.
fn rivals(n_clusters: usize) -> Vec<Box<dyn Clusterer<Cpu>>> {
    vec![
        Box::new(AeGmm { n_clusters, settings: small(Recipe::Robust), ..AeGmm::default() }),
        Box::new(VaeGmm { n_clusters, settings: small(Recipe::Paper), ..VaeGmm::default() }),
        Box::new(Dec { n_clusters, settings: small(Recipe::Robust), ..Dec::default() }),
        Box::new(Aae {
            n_clusters,
            settings: small(Recipe::Paper).with(|s| s.epochs = Some(100)),
            discriminator: vec![32],
            adversarial_learning_rate: 1e-3,
            ..Aae::default()
        }),
    ]
}

#[test]
fn planted_clusters_are_found_in_known_and_new_rows() {
    let (all, labels) = planted(600);
    let rows = |range: std::ops::Range<usize>| {
        let mut values = vec![0.0; range.len() * COLUMNS];
        values.chunks_mut(COLUMNS).zip(range).for_each(|(row, i)| all.row_into(i, row));
        Dataset::from_rows(values.len() / COLUMNS, COLUMNS, values).unwrap()
    };
    let (known, new, device) = (rows(0..400), rows(400..600), Cpu::new());
    for rival in rivals(4) {
        let clustering = rival.cluster(&known, &device, 1, &mut Silent).unwrap();
        assert_eq!(clustering.n_clusters(), 4, "{}", rival.name());
        let mut clusters = clustering.assign(&device, &known).unwrap();
        clusters.extend(clustering.assign(&device, &new).unwrap());
        let score = accuracy(&clusters, &labels).unwrap();
        assert!(score > 0.99, "{} finds {score}", rival.name());
        let latents = clustering.embed(&device, &new).unwrap().expect("a deep method has latents");
        // AAE's code consists of the clusters' logits and the latents.
        let columns = if rival.name() == "aae" { 4 + LATENTS } else { LATENTS };
        assert_eq!(latents.len(), 200 * columns, "{}", rival.name());
    }
}

/// A weight that moves one of these rows moves all of them; without batch normalisation all stay in one cluster.
#[test]
fn aae_separates_rows_that_have_most_in_common() {
    let (planted, _) = planted(400);
    let mut row = [0.0; COLUMNS];
    let values = (0..400).flat_map(|i| {
        planted.row_into(i, &mut row);
        row.map(|x| x / 6.0).into_iter().chain([3.0; 3 * COLUMNS]).collect::<Vec<f32>>()
    });
    let data = Dataset::from_rows(400, 4 * COLUMNS, values.collect()).unwrap();
    let networks = Aae::default().settings.with(|s| {
        s.hidden = Some(vec![32, 32]);
        s.epochs = Some(30);
    });
    let aae = Aae { n_clusters: 4, settings: networks, discriminator: vec![100, 100], ..Aae::default() };
    for seed in 0..3 {
        let clustering = aae.cluster(&data, &Cpu::new(), seed, &mut Silent).unwrap();
        let clusters = clustering.assign(&Cpu::new(), &data).unwrap();
        let largest = (0..4).map(|m| clusters.iter().filter(|&&c| c == m).count()).max();
        assert!(largest < Some(360), "seed {seed}: {largest:?} of 400 rows in one cluster");
    }
}

#[test]
fn results_depend_on_the_seed_and_not_on_threads() {
    let (data, _) = planted(300);
    let device = Cpu::new();
    for which in 0..rivals(4).len() {
        let name = rivals(4)[which].name();
        let results = |threads: usize, seed: u64| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let clustering = rivals(4)[which].cluster(&data, &device, seed, &mut Silent).unwrap();
                let clusters = clustering.assign(&device, &data).unwrap();
                (clusters, clustering.embed(&device, &data).unwrap().unwrap())
            })
        };
        let one = results(1, 3);
        assert!(one == results(3, 3), "{name} depends on the threads");
        assert!(one.1 != results(1, 4).1, "{name} ignores its seed");
    }
}

#[test]
fn invalid_input_is_an_error() {
    let (data, _) = planted(30);
    let device = Cpu::new();
    for rival in rivals(31) {
        let error = rival.cluster(&data, &device, 0, &mut Silent).err().expect("more clusters than rows");
        let text = error.to_string();
        assert!(["31", "30", "rows"].iter().all(|part| text.contains(part)), "{text}");
    }
    for rival in rivals(4) {
        refuses_narrow_rows(&*rival, &data);
    }
}

#[test]
fn an_observer_can_stop_training() {
    let (data, _) = planted(100);
    for rival in rivals(4).into_iter().skip(1) {
        can_be_stopped(&*rival, &data);
    }
}

/// DEC's clusters are the nearest centres, and refinement moves rows towards them.
#[test]
fn dec_sharpens_the_clusters_of_k_means() {
    let (data, _) = planted(400);
    let device = Cpu::new();
    let dec = |max_refreshes: usize| {
        // Clear clusters never change: only a negative tolerance keeps training going.
        let (settings, tolerance) = (small(Recipe::Robust), -1.0);
        let dec = Dec { n_clusters: 4, settings, tolerance, max_refreshes, ..Dec::default() };
        let clustering = dec.cluster(&data, &device, 0, &mut Silent).unwrap();
        let clusters = clustering.assign(&device, &data).unwrap();
        let latents = clustering.embed(&device, &data).unwrap().unwrap();
        let key = Key::new(0, Stream::Sample, 0);
        silhouette(&latents, LATENTS, &clusters, 400, key).unwrap().expect("more than one cluster")
    };
    let (before, after) = (dec(0), dec(20));
    assert!(after > before, "silhouette {before} before, {after} after");
}
