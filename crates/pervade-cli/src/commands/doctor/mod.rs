//! `pervade doctor`: checks this machine, every operation against a plain double-precision
//! reference, then its speed.

mod codes;
mod images;
mod many;
mod operations;
mod points;
mod posterior;
mod prior;
mod soft_clusters;
mod steps;
mod sticks;

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Instant;

use clap::Args;
use pervade::compute::cpu::product::{Epilogue, View, product};
use pervade::compute::{AnyDevice, Cpu};
use pervade::config::{Clusters, Recipe, Settings};
use pervade::data::{Dataset, Table};
use pervade::seed::{Key, Stream};
use pervade::{Error, Result, on_device};
use pervade_rivals::RivalDevice;
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
  pervade doctor --device cuda")]
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
    pub(crate) fn new<T: Copy + Into<f64>>(
        name: impl Into<String>,
        tolerance: f64,
        got: &[T],
        wanted: &[f64],
    ) -> Self {
        let largest = wanted.iter().fold(f64::MIN_POSITIVE, |most, x| most.max(x.abs()));
        let difference = |(&g, &w): (&T, &f64)| (g.into() - w).abs() / largest;
        let worst = got
            .iter()
            .zip(wanted)
            .map(difference)
            .fold(0.0, |a: f64, b| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) });
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
    let device = common.open_device(console)?;
    let threads = common.threads()?;
    let mut about = vec![("device", device.name()), ("threads", threads.to_string())];
    if let AnyDevice::Cuda(cuda) = &device {
        about = cuda.describe()?;
    }
    about.iter().for_each(|(what, value)| console.say(&format!("{what}: {value}")));
    let mut checks = on_device!(&device, device => checks(device)?);
    match &device {
        AnyDevice::Cpu(cpu) => checks.push(one_thread_or_many(cpu, threads.max(2))?),
        AnyDevice::Cuda(cuda) => {
            checks.extend(many::against_cpu(&**cuda)?);
            checks.extend(points::against_cpu(&**cuda)?);
            checks.extend(steps::against_cpu(&**cuda)?);
            checks.push(images::updates_against_cpu(&**cuda)?);
        }
    }
    let shape = StepArgs { batch: 100, columns: 784, restarts: 1, components: 10, seconds: args.seconds };
    let step = on_device!(&device, device => time_steps(&shape, device, threads)?);
    let mut object = json!({
        "about": about.iter().map(|(what, value)| (*what, value)).collect::<BTreeMap<_, _>>(),
        "checks": checks, "ms_per_step": step.ms_per_step, "rows_per_second": step.rows_per_second,
    });
    let mut speed = format!(
        "training step (784 columns, batch 100): {:.3} ms, {} rows/s",
        step.ms_per_step,
        words::count(step.rows_per_second as usize)
    );
    match &device {
        AnyDevice::Cpu(cpu) => {
            let gflops = product_speed(cpu, args.seconds);
            object["product_gflop_per_second"] = json!(gflops);
            speed = format!("matrix product: {gflops:.0} GFLOP/s\n{speed}");
        }
        AnyDevice::Cuda(cuda) => {
            let floor = cuda.floor_ms(step.flop(), step.bytes())?;
            object["floor_ms"] = json!(floor);
            speed += &format!(
                "\nits arithmetic and memory traffic alone: {floor:.3} ms, {:.0} % of the step",
                100.0 * floor / step.ms_per_step
            );
        }
    }
    let failed: Vec<&str> =
        checks.iter().filter(|check| !check.passed).map(|check| check.name.as_str()).collect();
    object["passed"] = json!(failed.is_empty());
    console.result(&object, &format!("{}\n{speed}", page(&checks)))?;
    if failed.is_empty() {
        return Ok(Outcome::Done);
    }
    Ok(Outcome::CheckFailed(format!("this machine computes wrongly: {}", failed.join(", "))))
}

/// Every operation against a plain reference.
fn checks<D: RivalDevice>(device: &D) -> Result<Vec<Check>> {
    let mut checks = operations::checks(device, device.product_error())?;
    checks.extend(prior::checks(device)?);
    checks.extend(soft_clusters::checks(device)?);
    checks.extend(codes::checks(device)?);
    checks.extend(images::checks(device)?);
    checks.extend(sticks::checks(device)?);
    checks.extend(posterior::checks(device)?);
    checks.extend(points::checks(device)?);
    Ok(checks)
}

/// Numbers of a device's buffer.
fn read<D: RivalDevice>(device: &D, buffer: &D::Buffer, range: Range<usize>) -> Result<Vec<f32>> {
    let mut values = vec![0.0; range.len()];
    device.read(buffer, range.start, &mut values)?;
    Ok(values)
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
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.map_err(|e| Error::device(format!("{threads} threads could not be started: {e}")))?;
        pool.install(|| fit_table(&planted()?, tiny(), device, &silent)?.0.model.to_bytes())
    };
    let differs = bytes(1)? != bytes(threads)?;
    let name = format!("the same model with 1 and {threads} threads");
    Ok(Check::new(name, 0.0, &[f32::from(u8::from(differs))], &[0.0]))
}

fn tiny() -> Settings {
    Settings::recipe(Recipe::Robust, Clusters::Fixed(3)).with(|s| {
        s.hidden = vec![32, 48];
        s.latents = 4;
        s.components = Some(12);
        s.pretrain_batch = 32;
        s.pretrain_epochs = Some(5);
        s.epochs = Some(2);
    })
}

/// Three groups of rows.
fn planted() -> Result<Table> {
    let (n, d) = (600, 20);
    let mut values = numbers(n * d, 1);
    for (i, x) in values.iter_mut().enumerate() {
        let (row, column) = (i / d, i % d);
        *x = 0.15 * *x + if column % 3 == row % 3 { 0.8 } else { 0.2 };
    }
    Ok(Table::new(Dataset::from_rows(n, d, values)?, None))
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

#[cfg(test)]
mod tests {
    use pervade::compute::Cpu;

    use super::Check;

    #[test]
    fn a_number_that_is_none_fails() {
        let check = |got: [f64; 3]| Check::new("", 1.0, &got, &[1.0, 2.0, 3.0]).passed;
        assert!(check([1.0, 2.0, 3.5]));
        for place in 0..3 {
            let mut got = [1.0, 2.0, 3.0];
            got[place] = f64::NAN;
            assert!(!check(got), "at {place}");
        }
    }

    /// What only a second device is asked holds for the CPU too.
    #[test]
    fn the_cpu_agrees_with_itself() {
        let cpu = Cpu::new();
        let checks = super::many::against_cpu(&cpu).unwrap().into_iter();
        for check in checks.chain(super::steps::against_cpu(&cpu).unwrap()) {
            assert!(check.passed, "{}: off by {}", check.name, check.error);
        }
    }
}
