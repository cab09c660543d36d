//! The gradients of VaDE's chain as a whole, and restarts side by side against each alone. Single operations are cases of
//! `pervade_compute::conformance`.

mod common;

use common::ops::*;
use common::steps::{assert_loss_rises_along_gradients, assert_restarts_equal_each_alone};
use pervade::compute::*;
use pervade::config::{CheckedSettings, Clusters, LikelihoodKind, PretrainKind, Recipe, Settings};
use pervade::data::{Csr, Dataset, PrepareKind, Values};
use pervade::train::{NoCallback, Pack, Run, Silent, pretrain, start_mixture, train};

/// The same table dense and as sparse rows: two thirds of the entries are zero, row 2 all of them.
fn dense_and_sparse(n_rows: usize, d: usize) -> [Dataset<'static>; 2] {
    let mut dense = random(n_rows * d, 6);
    let absent = |i: usize| !i.is_multiple_of(3) || i / d == 2;
    dense.iter_mut().enumerate().filter(|(i, _)| absent(*i)).for_each(|(_, x)| *x = 0.0);
    let (mut starts, mut columns, mut values) = (vec![0], Vec::new(), Vec::new());
    for row in dense.chunks(d) {
        let entries = row.iter().enumerate().filter(|(_, x)| **x != 0.0);
        entries.for_each(|(column, &x)| {
            columns.push(column as u32);
            values.push(x);
        });
        starts.push(columns.len());
    }
    let csr = Csr::new(starts, columns, values, d).unwrap();
    let sparse = Dataset::new(n_rows, d, Values::Csr(csr), "sparse rows").unwrap();
    [Dataset::from_rows(n_rows, d, dense).unwrap(), sparse]
}

/// Small networks on `data`, standing in for any likelihood and gamma.
fn small(data: &Dataset, likelihood: LikelihoodKind, gamma: Gamma) -> CheckedSettings {
    let settings = Settings::recipe(Recipe::Robust, Clusters::Fixed(3)).with(|s| {
        s.components = Some(6);
        s.prepare = Some(PrepareKind::None);
        s.likelihood = likelihood;
        s.gamma = gamma;
        s.samples = 2;
        s.latents = Some(3);
        s.hidden = Some(vec![17, 9]);
        s.batch = 20;
        s.pretrain_batch = 20;
        s.pretrain_epochs = Some(2);
        s.pretrain = PretrainKind::Stacked;
        s.layer_epochs = 1;
        s.epochs = Some(2);
        s.seed = 5;
    });
    settings.check(data).unwrap()
}

#[test]
fn whole_chain() {
    let data = Dataset::from_rows(60, 8, random(60 * 8, 19).iter().map(|x| 0.5 + 0.5 * x).collect()).unwrap();
    for likelihood in [LikelihoodKind::Bernoulli, LikelihoodKind::Gaussian, LikelihoodKind::GaussianFixed] {
        for gamma in [Gamma::Exact, Gamma::Sampled] {
            let (cpu, settings) = (Cpu::new(), small(&data, likelihood, gamma));
            let run = Run::new(&cpu, &data, &settings).unwrap();
            assert_loss_rises_along_gradients(&run, &format!("{likelihood:?} {gamma:?}"));
        }
    }
}

#[test]
fn restarts_side_by_side_equal_each_alone() {
    for data in dense_and_sparse(60, 12) {
        for gamma in [Gamma::Exact, Gamma::Sampled] {
            let kind = LikelihoodKind::Gaussian;
            let (cpu, settings) = (Cpu::new(), small(&data, kind, gamma));
            let run = Run::new(&cpu, &data, &settings).unwrap();
            assert_restarts_equal_each_alone(&run, 2, 21, &format!("{} {gamma:?}", data.source()));
        }
    }
}

/// All three stages, too: what a device that trains restarts side by side relies on.
#[test]
fn stages_side_by_side_equal_each_alone() {
    let (rows, _) = common::planted(120, 8, 3);
    let data = Dataset::from_rows(120, 8, rows.iter().map(|x| x / 10.0).collect()).unwrap();
    let (cpu, settings) = (Cpu::new(), small(&data, LikelihoodKind::Auto, Gamma::Sampled));
    let run = Run::new(&cpu, &data, &settings).unwrap();
    let trained = |restarts: std::ops::Range<usize>| {
        let mut pack = Pack::new(&run, restarts).unwrap();
        pretrain(&run, &mut pack, &mut Silent, &mut |_| Ok(false)).unwrap();
        start_mixture(&run, &mut pack, &mut Silent, &mut |_| Ok(false)).unwrap();
        train(&run, &mut pack, &mut Silent, &mut |_| Ok(false), &mut NoCallback).unwrap();
        pack
    };
    let together = trained(0..2);
    for restart in 0..2 {
        let alone = trained(restart..restart + 1);
        assert_eq!(together.values_of(&cpu, restart).unwrap(), alone.params.values, "{restart}");
        assert_eq!(together.state.records[restart], alone.state.records[0], "{restart}");
        assert_eq!(together.best_values[restart], alone.best_values[0], "{restart}");
    }
}
