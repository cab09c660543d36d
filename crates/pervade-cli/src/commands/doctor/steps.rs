//! The first steps of training on a device against the same steps on the CPU, and restarts side by side
//! against each alone.

use std::ops::Range;

use pervade::Result;
use pervade::compute::Cpu;
use pervade::compute::conformance::{Check, numbers};
use pervade::config::{Clusters, NetworkKind, Recipe, Settings};
use pervade::data::{Dataset, ImageShape};
use pervade::train::{JointStep, Pack, Run, Silent, pretrain};
use pervade_rivals::RivalDevice;

const STEPS: usize = 20;

/// What the first steps left.
struct First {
    /// Mean loss of each restart over steps that were handed over at once, [their number][restart].
    losses: Vec<Vec<f64>>,
    /// Parameters of the last restart.
    values: Vec<f64>,
}

impl First {
    fn losses_of(&self, restart: usize) -> Vec<f64> {
        self.losses.iter().map(|losses| losses[restart]).collect()
    }
}

fn first_steps<D: RivalDevice>(run: &Run<'_, D>, restarts: Range<usize>, at_once: usize) -> Result<First> {
    let mut pack = Pack::new(run, restarts.clone())?;
    let mut joint = if run.settings.neighbour_weight() > 0.0 {
        JointStep::with_ring(run, restarts.clone(), 10)?
    } else {
        JointStep::new(run, restarts.clone())?
    };
    let (settings, batch) = (run.settings.settings(), run.settings.batch());
    let rates = [settings.learning_rate, settings.mixture_learning_rate];
    let n_steps = run.data.n_rows() / batch;
    let (mut losses, mut step) = (Vec::new(), 0);
    while step < STEPS {
        let (epoch, first) = (step / n_steps, step % n_steps);
        let numbers = first..(first + at_once).min(n_steps);
        step += numbers.len();
        let n_rows = (numbers.len() * batch) as f64;
        joint.steps(run, &mut pack.params, epoch as u64, numbers, n_steps, rates)?;
        let terms = joint.take_sums(run)?;
        losses.push(terms.iter().map(|terms| -terms.objective() / n_rows).collect());
    }
    let values = pack.values_of(run.device, restarts.len() - 1)?.into_iter().map(f64::from).collect();
    Ok(First { losses, values })
}

/// Loss of the auto-encoder of the last of these restarts after each epoch.
fn pretrained<D: RivalDevice>(run: &Run<'_, D>, restarts: Range<usize>) -> Result<Vec<f64>> {
    let mut pack = Pack::new(run, restarts)?;
    pretrain(run, &mut pack, &mut Silent, &mut |_| Ok(false))?;
    let record = pack.state.records.last();
    Ok(record.map_or_else(Vec::new, |record| record.pretrain.iter().map(|epoch| epoch.loss).collect()))
}

fn single(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&x| x as f32).collect()
}

/// The last of several restarts against it alone: batches are larger here than in joint training, and a device may
/// take other ways then.
fn pretraining_side_by_side<D: RivalDevice>(device: &D, data: &Dataset, tolerance: f64) -> Result<Check> {
    let recipe = Settings::recipe(Recipe::Paper, Clusters::Fixed(10));
    let settings = recipe
        .with(|s| {
            s.restarts = 6;
            s.pretrain_epochs = Some(2);
        })
        .check(data)?;
    let run = Run::new(device, data, &settings)?;
    let (together, alone) = (pretrained(&run, 0..6)?, pretrained(&run, 5..6)?);
    let what = "first epochs of pretraining, one restart of six against it alone";
    Ok(Check::new(what, tolerance, &single(&together), &alone))
}

/// Both recipes and a convolutional network on dense rows in [0, 1].
pub(super) fn against_cpu<D: RivalDevice>(device: &D) -> Result<Vec<Check>> {
    let (n, d) = (1000, 784);
    let values = numbers(n * d, 50).iter().map(|x| 0.5 + 0.5 * x).collect();
    let image = ImageShape { height: 28, width: 28, channels: 1 };
    let data = Dataset::from_rows(n, d, values)?.with_image(image);
    // Coarser products, coarser steps.
    let tolerance = device.product_error().max(1e-4);
    let recipe = |recipe| {
        Settings::recipe(recipe, Clusters::Fixed(10)).with(|s| {
            s.restarts = 4;
            // Half as many steps per epoch as are taken, and more than are submitted at once.
            s.batch = 100;
        })
    };
    let conv = recipe(Recipe::Robust).with(|s| {
        s.network = NetworkKind::Conv;
        s.hidden = Some(vec![8, 16, 64]);
    });
    let mut checks = Vec::new();
    for (settings, name) in
        [(recipe(Recipe::Robust), "robust"), (recipe(Recipe::Paper), "paper"), (conv, "convolutions")]
    {
        checks.extend(first_steps_agree(device, &data, settings, name, tolerance)?);
    }
    checks.push(pretraining_side_by_side(device, &data, tolerance)?);
    Ok(checks)
}

/// The first steps of one restart against the CPU, against the same restart among four, and one by one against several
/// submitted at once.
fn first_steps_agree<D: RivalDevice>(
    device: &D,
    data: &Dataset,
    settings: Settings,
    name: &str,
    tolerance: f64,
) -> Result<Vec<Check>> {
    let (settings, on_cpu) = (settings.check(data)?, Cpu::new());
    let run = Run::new(device, data, &settings)?;
    let together = first_steps(&run, 0..4, 1)?;
    let last = first_steps(&run, 3..4, 1)?.losses_of(0);
    let reference = first_steps(&Run::new(&on_cpu, data, &settings)?, 3..4, 1)?.losses_of(0);
    let at_once = first_steps(&run, 0..4, device.steps_at_once())?;
    let what = format!("first {STEPS} steps, {name}");
    Ok(vec![
        Check::new(format!("{what}, against the CPU"), tolerance, &single(&last), &reference),
        Check::new(
            format!("{what}, one restart of four against it alone"),
            tolerance,
            &single(&together.losses_of(3)),
            &last,
        ),
        // The same kernels with the same numbers.
        Check::new(
            format!("{what}, several submitted at once, parameters"),
            0.0,
            &at_once.values,
            &together.values,
        ),
    ])
}
