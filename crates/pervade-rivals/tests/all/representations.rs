//! The methods for representation: planted groups are neighbours in the representation of held-out rows, the ELBO
//! rises, results do not depend on the number of threads, new rows look like the data, and invalid input is an error.

use crate::common::{can_be_stopped, refuses_narrow_rows};
use pervade::Clusterer;
use pervade::compute::Cpu;
use pervade::config::{Clusters, Recipe, Settings};
use pervade::data::Dataset;
use pervade::metrics::{Labelled, knn_errors};
use pervade::seed::{Key, Stream};
use pervade::train::{Control, Event, Observer, Silent};
use pervade_rivals::{AeGmm, Dec, Dlgmm, Networks, SbVae, Vae, VaeGmm};

const COLUMNS: usize = 40;

/// Rows `first..first + n` of four groups in the unit cube, which differ in every column.
fn planted(first: usize, n: usize) -> (Dataset<'static>, Vec<u32>) {
    let key = Key::new(6, Stream::Generate, 0);
    let uniform = |a: usize, b: usize, draw: u32| key.uniform(a as u64, b as u32, draw);
    let labels: Vec<u32> = (first..first + n).map(|row| (uniform(row, 0, 20) * 4.0) as u32).collect();
    let value = |i: usize| {
        let (row, column) = (i / COLUMNS, i % COLUMNS);
        let on = (labels[row] as usize + column).is_multiple_of(4);
        (if on { 0.7 } else { 0.0 } + 0.3 * uniform(first + row, column, 21)) as f32
    };
    (Dataset::from_rows(n, COLUMNS, (0..n * COLUMNS).map(value).collect()).unwrap(), labels)
}

/// Small networks and few epochs.
fn small(latents: usize) -> Settings {
    Settings::recipe(Recipe::Paper, Clusters::Auto).with(|s| {
        s.latents = Some(latents);
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

/// Each method with the number of columns of its representation.
fn methods() -> Vec<(Box<dyn Clusterer<Cpu>>, usize)> {
    vec![
        (Box::new(Vae { settings: small(3) }), 3),
        (Box::new(SbVae { settings: small(8), ..SbVae::default() }), 8),
        (Box::new(Dlgmm { n_components: 3, settings: small(3), ..Dlgmm::default() }), 3),
    ]
}

#[test]
fn groups_are_neighbours_among_held_out_rows() {
    let ((known, known_labels), (new, new_labels)) = (planted(0, 400), planted(400, 200));
    let device = Cpu::new();
    for (method, columns) in methods() {
        let name = method.name();
        let fitted = method.cluster(&known, &device, 1, &mut Silent).unwrap();
        let [of_known, of_new] = [&known, &new].map(|data| fitted.embed(&device, data).unwrap().unwrap());
        assert_eq!((of_known.len(), of_new.len()), (400 * columns, 200 * columns), "{name}");
        let (labelled, test) = (
            Labelled { rows: &of_known, labels: &known_labels },
            Labelled { rows: &of_new, labels: &new_labels },
        );
        for (k, error) in
            [3, 5, 10].into_iter().zip(knn_errors(labelled, test, columns, &[3, 5, 10]).unwrap())
        {
            assert!(error <= 0.02, "{name}: {k} neighbours have an error of {error}");
        }
        let clusters = fitted.assign(&device, &new).unwrap();
        assert!(clusters.iter().all(|&c| (c as usize) < fitted.n_clusters()), "{name}");
        if name == "sb-vae" {
            let sums = of_new.chunks(columns).map(|weights| weights.iter().sum::<f32>());
            assert!(sums.into_iter().all(|sum| (sum - 1.0).abs() < 1e-5), "weights sum to one");
        }
    }
}

/// Collects the ELBO of each epoch.
#[derive(Default)]
struct Elbos(Vec<f64>);

impl Observer for Elbos {
    fn event(&mut self, event: &Event<'_>) -> Control {
        if let Event::Trained(_, epoch) = event {
            self.0.push(epoch.elbo);
        }
        Control::Continue
    }
}

#[test]
fn the_elbo_rises() {
    let (data, _) = planted(0, 300);
    for (method, _) in methods() {
        let mut elbos = Elbos::default();
        method.cluster(&data, &Cpu::new(), 2, &mut elbos).unwrap();
        let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
        let parts: Vec<f64> = elbos.0.chunks_exact(elbos.0.len() / 3).map(mean).collect();
        assert_eq!(parts.len(), 3, "{}", method.name());
        assert!(parts.windows(2).all(|pair| pair[0] < pair[1]), "{}: {parts:?}", method.name());
    }
}

#[test]
fn results_depend_on_the_seed_and_not_on_threads() {
    let (data, _) = planted(0, 200);
    let device = Cpu::new();
    for which in 0..methods().len() {
        let name = methods()[which].0.name();
        let results = |threads: usize, seed: u64| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let fitted = methods()[which].0.cluster(&data, &device, seed, &mut Silent).unwrap();
                (fitted.assign(&device, &data).unwrap(), fitted.embed(&device, &data).unwrap().unwrap())
            })
        };
        let one = results(1, 3);
        assert!(one == results(3, 3), "{name} depends on the threads");
        assert!(one.1 != results(1, 4).1, "{name} ignores its seed");
    }
}

/// The method assigns new rows of a cluster to that cluster, and the same seed gives the same rows.
#[test]
fn new_rows_belong_to_their_cluster() {
    let (data, _) = planted(0, 400);
    let device = Cpu::new();
    let mixtures: [Box<dyn Clusterer<Cpu>>; 2] = [
        Box::new(AeGmm { n_clusters: 4, settings: small(3), ..AeGmm::default() }),
        Box::new(VaeGmm { n_clusters: 4, settings: small(3), ..VaeGmm::default() }),
    ];
    let all = mixtures.into_iter().chain(methods().into_iter().map(|(method, _)| method));
    for method in all {
        let name = method.name();
        let fitted = method.cluster(&data, &device, 1, &mut Silent).unwrap();
        for cluster in 0..fitted.n_clusters().min(3) {
            let rows = fitted.generate(&device, cluster, 50, 9).unwrap().expect("rows can be generated");
            assert_eq!(rows.len(), 50 * COLUMNS, "{name}");
            assert!(rows.iter().all(|x| (0.0..=1.0).contains(x)), "{name}: the units of the data");
            assert_eq!(fitted.generate(&device, cluster, 50, 9).unwrap().unwrap(), rows, "{name}");
            assert_ne!(fitted.generate(&device, cluster, 50, 10).unwrap().unwrap(), rows, "{name}");
            if name.ends_with("gmm") && name != "dlgmm" {
                let rows = Dataset::from_rows(50, COLUMNS, rows).unwrap();
                let found = fitted.assign(&device, &rows).unwrap();
                let n_assigned = found.iter().filter(|&&c| c as usize == cluster).count();
                assert!(n_assigned >= 40, "{name}: {n_assigned} of 50 new rows are in cluster {cluster}");
            }
        }
        assert!(fitted.generate(&device, fitted.n_clusters(), 1, 0).is_err(), "{name}: no such cluster");
    }
    let dec = Dec { n_clusters: 4, settings: small(3), max_refreshes: 1, ..Dec::default() };
    let centres = dec.cluster(&data, &device, 1, &mut Silent).unwrap();
    assert!(
        centres.generate(&device, 0, 5, 0).unwrap().is_none(),
        "centres without variances generate no rows"
    );
}

#[test]
fn invalid_input_is_an_error() {
    let (data, _) = planted(0, 60);
    let device = Cpu::new();
    let sticks = |latents: usize, concentration: f32| {
        let method = SbVae { settings: small(latents), concentration };
        method.cluster(&data, &device, 0, &mut Silent).err().expect("an error").to_string()
    };
    assert!(sticks(1, 5.0).contains("between 2 and 1024"));
    assert!(sticks(5000, 5.0).contains("between 2 and 1024"));
    assert!(sticks(8, f32::NAN).contains("concentration"));
    assert!(sticks(8, 0.0).contains("concentration"));
    let mixture = |n_components: usize, spread: f32| {
        let method = Dlgmm { n_components, settings: small(2), spread, ..Dlgmm::default() };
        method.cluster(&data, &device, 0, &mut Silent).err().expect("an error").to_string()
    };
    assert!(mixture(1, 0.5).contains("components"));
    assert!(mixture(3, f32::INFINITY).contains("spread"));
    for (method, _) in methods() {
        refuses_narrow_rows(&*method, &data);
    }
}

#[test]
fn they_are_found_by_name_and_can_be_stopped() {
    let (data, _) = planted(0, 100);
    let networks = Networks { hidden: Some(vec![16]), epochs: Some(2), ..Networks::default() };
    for name in ["vae", "sb-vae", "dlgmm"] {
        let method = pervade_rivals::method::<Cpu>(name).unwrap().with_networks(10, &networks);
        assert_eq!(method.name(), name);
        assert!(method.cluster(&data, &Cpu::new(), 0, &mut Silent).is_ok(), "{name}");
        can_be_stopped(&*method, &data);
    }
}
