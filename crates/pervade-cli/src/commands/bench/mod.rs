//! `pervade bench step`: how long a step of joint training takes on this machine.

mod ranks;

use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use pervade::compute::{Device, MAX_STEPS};
use pervade::config::{Clusters, Recipe, Settings};
use pervade::data::Dataset;
use pervade::memory::{self, Need};
use pervade::seed::{Key, Stream};
use pervade::train::{JointStep, Pack, Run};
use pervade::{Error, Result, on_device};
use serde::Serialize;

use self::ranks::RanksArgs;
use crate::Outcome;
use crate::args::Common;
use crate::console::Console;
use crate::words;

/// Time the parts of pervade on this machine
#[derive(Args)]
#[command(after_help = "Examples:
  pervade bench step --columns 784 --batch 100 --json
  pervade bench ranks --nodes 8 --network 100GbE")]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    what: Benchmark,
}

/// The benchmark to run.
#[derive(Subcommand)]
enum Benchmark {
    /// One step of joint training on uniform random rows in [0, 1]
    Step(StepArgs),
    /// Plan for several ranks: what a step would cost on so many nodes, and which batch keeps them busy
    Ranks(RanksArgs),
}

/// The shape of the step.
#[derive(Args)]
pub(crate) struct StepArgs {
    /// Rows per step
    #[arg(long, value_name = "B", default_value_t = 100)]
    pub(crate) batch: usize,
    /// Columns of the data
    #[arg(long, value_name = "D", default_value_t = 784)]
    pub(crate) columns: usize,
    /// Models trained in parallel
    #[arg(long, value_name = "R", default_value_t = 1)]
    pub(crate) restarts: usize,
    /// Mixture components
    #[arg(long, value_name = "C", default_value_t = 10)]
    pub(crate) components: usize,
    /// With the neighbour term, which encodes a second row for each
    #[arg(long)]
    pub(crate) neighbours: bool,
    /// How long to measure
    #[arg(long, value_name = "S", default_value_t = 5.0, value_parser = crate::settings::finite)]
    pub(crate) seconds: f64,
}

/// `bench step --json`.
#[derive(Serialize)]
pub(crate) struct StepTimes {
    pub(crate) ms_per_step: f64,
    fastest_ms_per_step: f64,
    pub(crate) rows_per_second: f64,
    gflop_per_second: f64,
    steps: usize,
    batch: usize,
    columns: usize,
    restarts: usize,
    components: usize,
    threads: usize,
    device: String,
}

impl StepTimes {
    /// Floating-point operations of a step.
    pub(crate) fn flop(&self) -> f64 {
        1e6 * self.gflop_per_second * self.ms_per_step
    }

    /// Bytes that a step must move: weights read in the forward and backward pass, then parameters and moments updated.
    pub(crate) fn bytes(&self) -> f64 {
        let weights = self.flop() / (6.0 * (self.batch * self.restarts) as f64);
        (self.restarts as f64) * weights * 4.0 * (2.0 + 6.0)
    }
}

/// Runs it.
pub(crate) fn run(args: &BenchArgs, common: &Common, console: &Console) -> Result<Outcome> {
    let shape = match &args.what {
        Benchmark::Step(shape) => shape,
        Benchmark::Ranks(args) => return ranks::run(args, common, console),
    };
    let device = common.open_device(console)?;
    let times = on_device!(&device, device => time_steps(shape, device, common.threads()?)?);
    let text = format!(
        "{:.3} ms per step (fastest {:.3}), {} rows/s, {:.0} GFLOP/s\n{} columns, batch {}, {}, {}, {} on {}",
        times.ms_per_step,
        times.fastest_ms_per_step,
        words::count(times.rows_per_second as usize),
        times.gflop_per_second,
        times.columns,
        times.batch,
        words::counted(times.restarts, "restart"),
        words::counted(times.components, "component"),
        words::counted(times.threads, "thread"),
        times.device
    );
    console.result(&times, &text)?;
    Ok(Outcome::Done)
}

/// Minimum duration of a block of steps; the median is taken over blocks.
const BLOCK: Duration = Duration::from_millis(20);
/// Maximum and minimum number of steps per epoch, and the rows that they are made from.
const STEPS: [usize; 2] = [8 * MAX_STEPS, 2 * MAX_STEPS];
const ROWS: usize = 16_000;

/// The networks' learning rate. Trained on random rows, nearly all of their units would become zero, which the CPU skips: steps
/// would be faster than on anyone's table. With this rate they stay as they begin, with somewhat fewer zeros than networks that are trained.
const NEGLIGIBLE_RATE: f32 = 1e-12;

/// Returns an error if memory cannot hold the models: values, gradients and both moments of all, initial values of one.
fn require_parameters<D: Device>(run: &Run<'_, D>, restarts: usize) -> Result<()> {
    if !run.device.is_host() {
        return Ok(());
    }
    let numbers = [4 * restarts + 1, run.architecture.layout.len(), size_of::<f32>()];
    let need = Need::of("", memory::product(&numbers));
    memory::require("the networks of the benchmark", &need, "lower `--restarts` or `--columns`")
}

/// Checks that sizes are in range; returns how long to measure.
fn check_shape(shape: &StepArgs) -> Result<Duration> {
    let limit = Duration::try_from_secs_f64(shape.seconds)
        .map_err(|_| Error::setting("seconds", shape.seconds, "must be a number of seconds"))?;
    let sizes = [
        ("batch", shape.batch),
        ("columns", shape.columns),
        ("restarts", shape.restarts),
        ("components", shape.components),
    ];
    for (name, value) in sizes {
        if !(1..=1 << 16).contains(&value) {
            return Err(Error::setting(name, value, "must be between 1 and 65536"));
        }
    }
    Ok(limit)
}

/// Times joint steps after a warm-up.
pub(crate) fn time_steps<D: Device>(shape: &StepArgs, device: &D, threads: usize) -> Result<StepTimes> {
    let limit = check_shape(shape)?;
    let [most, least] = STEPS;
    let n_steps = (ROWS / shape.batch).clamp(least, most).next_multiple_of(MAX_STEPS);
    let data = uniform_rows((n_steps * shape.batch).max(20 * shape.components), shape.columns)?;
    let clusters = Clusters::Fixed(shape.components.clamp(2, 10));
    let settings = Settings::recipe(Recipe::Paper, clusters).with(|s| {
        s.batch = shape.batch;
        s.components = Some(shape.components.max(2));
        s.restarts = shape.restarts;
        s.neighbour_weight = Some(if shape.neighbours { 1.0 } else { 0.0 });
    });
    let checked = settings.check(&data)?;
    let run = Run::new(device, &data, &checked)?;
    require_parameters(&run, shape.restarts)?;
    let mut pack = Pack::new(&run, 0..shape.restarts)?;
    let mut joint = if shape.neighbours {
        JointStep::with_ring(&run, 0..shape.restarts, 2)?
    } else {
        JointStep::new(&run, 0..shape.restarts)?
    };
    let rates = [NEGLIGIBLE_RATE, checked.settings().mixture_learning_rate];
    let (mut times, mut step, started) = (Vec::new(), 0, Instant::now());
    let mut block = |n_in_block: usize| -> Result<Duration> {
        let started = Instant::now();
        let end = step + n_in_block;
        while step < end {
            let number = step % n_steps;
            let numbers = number..(number + device.steps_at_once()).min(number + end - step);
            step += numbers.len();
            joint.steps(&run, &mut pack.params, ((step - 1) / n_steps) as u64, numbers, n_steps, rates)?;
        }
        // The device may still be busy: reading its sums waits for it.
        joint.take_sums(&run)?;
        Ok(started.elapsed() / n_in_block as u32)
    };
    block(2 * MAX_STEPS)?;
    let one = block(MAX_STEPS)?.max(Duration::from_nanos(1));
    let n_in_block = (BLOCK.as_nanos().div_ceil(one.as_nanos()) as usize).next_multiple_of(MAX_STEPS);
    while times.len() < 3 || started.elapsed() < limit {
        times.push(1e3 * block(n_in_block)?.as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    let median = times[times.len() / 2];
    let rows = (shape.batch * shape.restarts) as f64;
    // One multiply and one add per weight and row in the forward pass, twice that in the backward pass.
    let weights: usize = run
        .architecture
        .layout
        .slots()
        .iter()
        .map(|(_, s)| if s.rows > 1 { s.rows * s.columns } else { 0 })
        .sum();
    Ok(StepTimes {
        ms_per_step: median,
        fastest_ms_per_step: times[0],
        rows_per_second: 1e3 * rows / median,
        gflop_per_second: 6.0 * weights as f64 * rows / median / 1e6,
        steps: step,
        batch: shape.batch,
        columns: shape.columns,
        restarts: shape.restarts,
        components: checked.n_components(),
        threads,
        device: device.name(),
    })
}

/// Uniform random rows in [0, 1].
fn uniform_rows(n_rows: usize, n_columns: usize) -> Result<Dataset<'static>> {
    let need = Need::of("", memory::product(&[n_rows, n_columns, size_of::<f32>()]));
    memory::require("the rows of the benchmark", &need, "lower `--batch` or `--columns`")?;
    let key = Key::new(0, Stream::Sample, 0);
    let values = (0..n_rows * n_columns).map(|i| key.uniform(i as u64, 0, 0) as f32).collect();
    Dataset::from_rows(n_rows, n_columns, values)
}
