//! The first steps of training on a device against the same steps on the CPU, and restarts side by side
//! against each alone.

use pervade::Result;
use pervade::compute::{Cpu, Device};
use pervade::config::{CheckedSettings, Clusters, Recipe, Settings};
use pervade::data::Dataset;
use pervade::record::RestartRecord;
use pervade::train::{JointStep, Pack, Run, Silent, pretrain};

use super::{Check, numbers};

const STEPS: usize = 20;

/// Loss of each restart at each of the first steps, [step][restart].
fn losses<D: Device>(
    device: &D,
    data: &Dataset,
    settings: &CheckedSettings,
    restarts: std::ops::Range<usize>,
) -> Result<Vec<Vec<f64>>> {
    let run = Run::new(device, data, settings)?;
    let mut pack = Pack::new(&run, restarts.clone())?;
    let mut joint = JointStep::new(&run, restarts)?;
    let rates = [settings.settings.learning_rate, settings.settings.mixture_learning_rate];
    let n_steps = data.n_rows() / settings.batch;
    let mut all = Vec::new();
    for step in 0..STEPS {
        joint.step(&run, &mut pack.params, (step / n_steps) as u64, step % n_steps, n_steps, rates)?;
        let terms = device.take_sums(&mut joint.sums)?;
        all.push(terms.iter().map(|terms| -terms.elbo() / settings.batch as f64).collect());
    }
    Ok(all)
}

/// Loss of each restart's auto-encoder after each of the first epochs, [restart][epoch].
fn pretrained<D: Device>(
    device: &D,
    data: &Dataset,
    settings: &CheckedSettings,
    restarts: std::ops::Range<usize>,
) -> Result<Vec<Vec<f64>>> {
    let run = Run::new(device, data, settings)?;
    let mut pack = Pack::new(&run, restarts)?;
    pretrain(&run, &mut pack, &mut Silent, &mut |_| Ok(()))?;
    let losses = |record: &RestartRecord| record.pretrain.iter().map(|epoch| epoch.loss).collect();
    Ok(pack.state.records.iter().map(losses).collect())
}

/// The last of several restarts against it alone: batches are larger here than in joint training, and a device may
/// take other ways then.
fn pretraining_side_by_side<D: Device>(device: &D, data: &Dataset) -> Result<Check> {
    let restarts = 6;
    let settings = Settings {
        restarts,
        pretrain_epochs: Some(2),
        ..Settings::recipe(Recipe::Paper, Clusters::Fixed(10))
    }
    .check(data)?;
    let together = pretrained(device, data, &settings, 0..restarts)?;
    let alone = pretrained(device, data, &settings, restarts - 1..restarts)?;
    let got: Vec<f32> = together[restarts - 1].iter().map(|&loss| loss as f32).collect();
    let tolerance = device.product_error().max(1e-4);
    Ok(Check::new(
        "first epochs of pretraining, one restart of six against it alone",
        tolerance,
        &got,
        &alone[0],
    ))
}

/// Both recipes, dense rows in [0, 1].
pub(super) fn against_cpu<D: Device>(device: &D) -> Result<Vec<Check>> {
    let (n, d) = (1000, 784);
    let values = numbers(n * d, 50).iter().map(|x| 0.5 + 0.5 * x).collect();
    let data = Dataset::from_rows(n, d, values)?;
    let mut checks = Vec::new();
    for (recipe, name) in [(Recipe::Robust, "robust"), (Recipe::Paper, "paper")] {
        let settings =
            Settings { restarts: 4, ..Settings::recipe(recipe, Clusters::Fixed(10)) }.check(&data)?;
        let together = losses(device, &data, &settings, 0..4)?;
        let last: Vec<f64> = losses(device, &data, &settings, 3..4)?.concat();
        let reference: Vec<f64> = losses(&Cpu::new(), &data, &settings, 3..4)?.concat();
        let single = |values: &[f64]| values.iter().map(|&x| x as f32).collect::<Vec<f32>>();
        let fourth: Vec<f64> = together.iter().map(|step| step[3]).collect();
        // Coarser products, coarser steps.
        let tolerance = device.product_error().max(1e-4);
        let what = format!("first {STEPS} steps, {name}, against the CPU");
        checks.push(Check::new(what, tolerance, &single(&last), &reference));
        let what = format!("first {STEPS} steps, {name}, one restart of four against it alone");
        checks.push(Check::new(what, tolerance, &single(&fourth), &last));
    }
    checks.push(pretraining_side_by_side(device, &data)?);
    Ok(checks)
}
