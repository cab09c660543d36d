//! Fixtures and planted clusters for several tests.

#![allow(dead_code, reason = "each test uses some of it")]

pub(crate) mod ops;
pub(crate) mod steps;

use pervade::config::{Clusters, Recipe, Settings};
use pervade::seed::{Key, Stream};
use safetensors::SafeTensors;
use std::path::Path;

/// Reference values that another implementation wrote.
pub(crate) struct Oracle(Vec<u8>);

impl Oracle {
    pub(crate) fn open(name: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/oracle").join(name);
        Self(std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        SafeTensors::deserialize(&self.0).unwrap().tensor(name).unwrap().data().to_vec()
    }

    pub(crate) fn f64(&self, name: &str) -> Vec<f64> {
        self.bytes(name).chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect()
    }

    pub(crate) fn f32(&self, name: &str) -> Vec<f32> {
        self.bytes(name).chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    }

    pub(crate) fn u32(&self, name: &str) -> Vec<u32> {
        self.bytes(name).chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().unwrap())).collect()
    }

    /// Names of the tensors, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            SafeTensors::deserialize(&self.0).unwrap().names().into_iter().map(str::to_owned).collect();
        names.sort();
        names
    }

    /// An integer from the file's metadata.
    pub(crate) fn number(&self, name: &str) -> u64 {
        let (_, header) = SafeTensors::read_metadata(&self.0).unwrap();
        header.metadata().as_ref().unwrap()[name].parse().unwrap()
    }

    /// The names of the cases, each of which has a tensor `case_NAME_scores`.
    pub(crate) fn cases(&self) -> Vec<String> {
        let tensors = SafeTensors::deserialize(&self.0).unwrap();
        let case = |name: &&str| Some(name.strip_prefix("case_")?.strip_suffix("_scores")?.to_owned());
        tensors.names().iter().filter_map(case).collect()
    }
}

/// Asserts equality relative to the larger of one and the expected value.
pub(crate) fn assert_close(ours: &[f64], theirs: &[f64], tolerance: f64, what: &str) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    for (index, (a, b)) in ours.iter().zip(theirs).enumerate() {
        assert!((a - b).abs() <= tolerance * b.abs().max(1.0), "{what}[{index}] is {a}, expected {b}");
    }
}

/// Rows around `n_clusters` well separated centres, and the centre of each row.
///
/// # Shapes
/// - result: `[N, J]`, `[N]`
pub(crate) fn planted(n_rows: usize, n_latent: usize, n_clusters: usize) -> (Vec<f32>, Vec<u32>) {
    let key = Key::new(5, Stream::Generate, 0);
    let uniform = |a: usize, b: usize, draw: u32| key.uniform(a as u64, b as u32, draw);
    let labels: Vec<u32> = (0..n_rows).map(|row| (uniform(row, 0, 20) * n_clusters as f64) as u32).collect();
    let value = |index: usize| {
        let (row, j) = (index / n_latent, index % n_latent);
        let centre = 20.0 * uniform(labels[row] as usize, j, 21);
        let noise = (0..6).map(|draw| uniform(row, j, draw) - 0.5).sum::<f64>();
        (centre + noise) as f32
    };
    ((0..n_rows * n_latent).map(value).collect(), labels)
}

/// The result of `work` on one thread and on two must be the same.
pub(crate) fn same_on_any_number_of_threads<T: PartialEq + std::fmt::Debug + Send>(
    work: impl Fn() -> T + Sync,
) -> T {
    let one = on_threads(1, &work);
    assert_eq!(one, on_threads(2, &work));
    assert_eq!(one, on_threads(5, &work));
    one
}

/// Runs `work` in a pool of so many threads.
pub(crate) fn on_threads<T: Send>(n_threads: usize, work: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(n_threads).build().unwrap().install(work)
}

/// The recipe with networks and epochs that take milliseconds.
pub(crate) fn tiny(recipe: Recipe, clusters: Clusters) -> Settings {
    Settings::recipe(recipe, clusters).with(|s| {
        s.latents = Some(4);
        s.hidden = Some(vec![16, 16]);
        s.pretrain_epochs = Some(6);
        s.layer_epochs = 1;
        s.mixture_starts = 1;
        s.pretrain_batch = 64;
        s.pretrain_learning_rate = 1e-2;
        // few steps must do
        s.epochs = Some(3);
        s.batch = 50;
    })
}

/// Fits with the best instruction set of this machine, without an observer; on one thread, since as many tests run at the same time as
/// there are processors.
pub(crate) fn fit(data: &pervade::data::Dataset, settings: Settings) -> pervade::Fit {
    let settings = settings.check(data).unwrap();
    let fit =
        || pervade::fit(data, &settings, &pervade::compute::Cpu::new(), &mut pervade::train::Silent, None);
    on_threads(1, fit).unwrap()
}
