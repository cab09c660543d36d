//! `pervade doctor`: checks this machine, every operation against a plain double-precision
//! reference, then its speed.

mod operations;
mod prior;

use std::time::Instant;

use clap::Args;
use pervade::compute::Cpu;
use pervade::compute::cpu::product::{Epilogue, View, product};
use pervade::config::{Clusters, Recipe, Settings};
use pervade::data::{Dataset, Table};
use pervade::seed::{Key, Stream};
use pervade::{Error, Result};
use serde::Serialize;
use serde_json::json;

use super::bench::{StepArgs, time_steps};
use super::fit::fit_table;
use crate::Outcome;
use crate::args::Common;
use crate::console::Console;
use crate::words;

/// Check this machine: every operation against a reference, then its speed
#[derive(Args)]
#[command(after_help = "Example:
  pervade doctor")]
pub(crate) struct DoctorArgs {
    /// Seconds that each speed is measured for
    #[arg(long, value_name = "S", default_value_t = 2.0)]
    seconds: f64,
}

/// An operation that was compared with the reference.
#[derive(Serialize)]
pub(crate) struct Check {
    name: String,
    /// Largest difference, relative to the largest value of the reference.
    error: f64,
    tolerance: f64,
    passed: bool,
}

impl Check {
    /// Compares `got` with `wanted`; a difference that is no number fails.
    pub(crate) fn new(name: impl Into<String>, tolerance: f64, got: &[f32], wanted: &[f64]) -> Self {
        let largest = wanted.iter().fold(f64::MIN_POSITIVE, |most, x| most.max(x.abs()));
        let difference = |(&g, &w): (&f32, &f64)| (f64::from(g) - w).abs() / largest;
        let worst = got
            .iter()
            .zip(wanted)
            .map(difference)
            .fold(0.0, |a: f64, b| if b.is_nan() { b } else { a.max(b) });
        let error = if got.len() == wanted.len() { worst } else { f64::NAN };
        Self { name: name.into(), error, tolerance, passed: error <= tolerance }
    }
}

/// Numbers between -1 and 1 for the checks, the same on every machine.
pub(crate) fn numbers(n: usize, which: u32) -> Vec<f32> {
    let key = Key::new(7, Stream::Sample, 0);
    (0..n).map(|i| (2.0 * key.uniform(i as u64, which, 0) - 1.0) as f32).collect()
}

/// Runs it.
pub(crate) fn run(args: &DoctorArgs, common: &Common, console: &Console) -> Result<Outcome> {
    let device = common.open_device()?;
    let threads = common.threads()?;
    console.say(&format!("{}, {}", device_name(&device), words::counted(threads, "thread")));
    let mut checks = operations::checks(&device)?;
    checks.extend(prior::checks(&device)?);
    checks.push(one_thread_or_many(&device, threads.max(2))?);
    let gflops = product_speed(&device, args.seconds);
    let shape = StepArgs { batch: 100, columns: 784, restarts: 1, components: 10, seconds: args.seconds };
    let step = time_steps(&shape, &device, threads)?;
    let failed: Vec<&str> =
        checks.iter().filter(|check| !check.passed).map(|check| check.name.as_str()).collect();
    let object = json!({
        "device": device_name(&device), "threads": threads, "checks": checks, "passed": failed.is_empty(),
        "product_gflop_per_second": gflops, "ms_per_step": step.ms_per_step, "rows_per_second": step.rows_per_second,
    });
    let speed = format!(
        "matrix product: {gflops:.0} GFLOP/s\ntraining step (784 columns, batch 100): {:.2} ms, {} rows/s",
        step.ms_per_step,
        words::count(step.rows_per_second as usize)
    );
    console.result(&object, &format!("{}\n{speed}", page(&checks)))?;
    Ok(match failed.is_empty() {
        true => Outcome::Done,
        false => Outcome::CheckFailed(format!("this machine computes wrongly: {}", failed.join(", "))),
    })
}

fn page(checks: &[Check]) -> String {
    let line = |check: &Check| {
        let verdict = if check.passed { "ok  " } else { "FAIL" };
        format!("{verdict}  {:44}  off by {:.1e}, at most {:.0e}\n", check.name, check.error, check.tolerance)
    };
    checks.iter().map(line).collect()
}

/// The same tiny fit with one thread and with many must give the same file.
fn one_thread_or_many(device: &Cpu, threads: usize) -> Result<Check> {
    let silent = Console { json: false, quiet: true };
    let bytes = |threads: usize| {
        let pool =
            rayon::ThreadPoolBuilder::new().num_threads(threads).build().map_err(|e| Error::Device {
                problem: format!("{threads} threads could not be started: {e}"),
                hint: String::new(),
            })?;
        pool.install(|| fit_table(&planted()?, tiny(), device, &silent)?.0.model.to_bytes())
    };
    let differs = bytes(1)? != bytes(threads)?;
    let name = format!("the same model with 1 and {threads} threads");
    Ok(Check::new(name, 0.0, &[f32::from(u8::from(differs))], &[0.0]))
}

fn tiny() -> Settings {
    Settings {
        hidden: vec![32, 48],
        latents: 4,
        components: Some(12),
        pretrain_batch: 32,
        pretrain_epochs: Some(5),
        epochs: Some(2),
        ..Settings::recipe(Recipe::Robust, Clusters::Fixed(3))
    }
}

/// Three groups of rows.
fn planted() -> Result<Table> {
    let (n, d) = (600, 20);
    let mut values = numbers(n * d, 1);
    for (i, x) in values.iter_mut().enumerate() {
        let (row, column) = (i / d, i % d);
        *x = 0.15 * *x + if column % 3 == row % 3 { 0.8 } else { 0.2 };
    }
    Ok(Table { data: Dataset::from_rows(n, d, values)?, labels: None })
}

/// Billions of operations a second in the product of a training step's largest layer.
fn product_speed(device: &Cpu, seconds: f64) -> f64 {
    let (m, k, n) = (256, 500, 2000);
    let (a, b, mut c) = (numbers(m * k, 2), numbers(k * n, 3), vec![0.0; m * n]);
    let (mut done, started) = (0u32, Instant::now());
    while done < 5 || started.elapsed().as_secs_f64() < seconds.min(60.0) {
        product(device.isa(), View::new(&a, m, k), View::new(&b, k, n), Epilogue::Store, &mut c);
        done += 1;
    }
    2.0 * (m * k * n) as f64 * f64::from(done) / started.elapsed().as_secs_f64() / 1e9
}

/// The processor and the instructions that are used.
pub(crate) fn device_name(device: &Cpu) -> String {
    let about = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let named = |line: &str| Some(line.strip_prefix("model name")?.split_once(':')?.1.trim().to_string());
    let model = about.lines().find_map(named).unwrap_or_else(|| "CPU".to_string());
    format!("{model} ({:?})", device.isa())
}
