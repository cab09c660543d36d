//! `pervade doctor`: checks this machine, every operation against its definition in double precision and the first
//! steps of training against the CPU's, then its speed.

mod infogan;
mod mixture_start;
mod steps;

use std::cmp::Ordering::Equal;
use std::collections::BTreeMap;
use std::time::Instant;

use clap::Args;
use pervade::compute::conformance::{Check, cases, numbers};
use pervade::compute::cpu::product::{Epilogue, View, product};
use pervade::compute::{AnyDevice, Cpu};
use pervade::config::{Clusters, Recipe, Settings};
use pervade::data::{Dataset, Table};
use pervade::{Error, Result, on_device};
use pervade_rivals::RivalDevice;
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
    /// List every check, not only those that failed or came nearest to failing
    #[arg(long)]
    all: bool,
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
            checks.extend(mixture_start::against_cpu(&**cuda)?);
            checks.extend(steps::against_cpu(&**cuda)?);
            checks.push(infogan::against_cpu(&**cuda)?);
        }
    }
    let shape = StepArgs {
        batch: 100,
        columns: 784,
        restarts: 1,
        components: 10,
        neighbours: false,
        seconds: args.seconds,
    };
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
    console.result(&object, &format!("{}\n{speed}", page(&checks, args.all)))?;
    if failed.is_empty() {
        return Ok(Outcome::Done);
    }
    Ok(Outcome::CheckFailed(format!("this machine computes wrongly: {}", failed.join(", "))))
}

/// Every operation against its definition.
fn checks<D: RivalDevice>(device: &D) -> Result<Vec<Check>> {
    cases().iter().map(|case| Ok(case.check(device)?)).collect()
}

/// Checks that are shown although they passed: those nearest to what is allowed.
const SHOWN: usize = 10;

/// The checks as lines: all of them, or those that failed and those that came nearest to failing.
fn page(checks: &[Check], all: bool) -> String {
    let nearness = |check: &Check| match check.error / check.tolerance {
        ratio if ratio.is_finite() => ratio,
        // Nothing is allowed, or the result is not a number.
        _ => f64::from(u8::from(!check.passed)),
    };
    let mut shown: Vec<&Check> = checks.iter().collect();
    if !all {
        shown.sort_by(|a, b| (a.passed, nearness(b)).partial_cmp(&(b.passed, nearness(a))).unwrap_or(Equal));
        let n_failed = checks.iter().filter(|check| !check.passed).count();
        shown.truncate(n_failed + SHOWN);
    }
    let width = shown.iter().map(|check| check.name.chars().count()).max().unwrap_or(0);
    let line = |check: &&Check| {
        let verdict = if check.passed { "ok  " } else { "FAIL" };
        let Check { name, error, tolerance, .. } = check;
        format!("{verdict}  {name:width$}  off by {error:.1e}, at most {tolerance:.0e}\n")
    };
    let lines: String = shown.iter().map(line).collect();
    let passed = checks.iter().filter(|check| check.passed).count();
    let rest = match checks.len() - shown.len() {
        0 => String::new(),
        n => format!("      and {n} more, all further within their bounds (`--all` lists them)\n"),
    };
    format!("{lines}{rest}{passed} of {} checks passed\n", checks.len())
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
        s.hidden = Some(vec![32, 48]);
        s.latents = Some(4);
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

    /// What only another device is compared for holds for the CPU too.
    #[test]
    fn the_cpu_agrees_with_itself() {
        for check in super::steps::against_cpu(&Cpu::new()).unwrap() {
            assert!(check.passed, "{}: off by {}", check.name, check.error);
        }
    }
}
