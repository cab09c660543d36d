//! `pervade bench ranks`: what a step would cost on several nodes, from measurements on this machine.

use std::time::Instant;

use clap::Args;
use pervade::compute::{Alone, Device, HostMean};
use pervade::{Error, Result, on_device};
use serde::Serialize;

use super::{StepArgs, time_steps};
use crate::args::Common;
use crate::console::Console;
use crate::{Outcome, words};

/// What to plan for.
#[derive(Args)]
#[command(after_help = "Examples:
  pervade bench ranks --nodes 8 --network 100GbE
  pervade bench ranks --nodes 16 --network 25 --batch 8192      25 Gbit/s

The time of a step is measured here for two sizes of the batch. A node is taken to be like this machine, with one rank. The
exchange of gradients is computed: each rank sends and receives twice (N - 1)/N of the parameters.")]
pub(super) struct RanksArgs {
    /// Ranks, one on each node
    #[arg(long, value_name = "N", default_value_t = 4)]
    nodes: usize,
    /// The network between them: 1GbE, 10GbE, 25GbE, 100GbE, 200GbE, 400GbE, nvlink, or a number of Gbit/s
    #[arg(long, value_name = "NAME|GBIT", default_value = "10GbE")]
    network: String,
    /// Rows per step, over all ranks
    #[arg(long, value_name = "B", default_value_t = 2048)]
    batch: usize,
    /// Columns of the data
    #[arg(long, value_name = "D", default_value_t = 784)]
    columns: usize,
}

/// `bench ranks --json`.
#[derive(Serialize)]
struct Plan {
    nodes: usize,
    gbit_per_second: f64,
    parameter_bytes: u64,
    batch: usize,
    /// Of one rank, with its part of the batch.
    compute_ms: f64,
    exchange_ms: f64,
    /// The part of a step that is not exchange.
    efficiency: f64,
    rows_per_second: f64,
    rows_per_second_of_one: f64,
    /// The smallest batch over all ranks with this efficiency or more.
    target_efficiency: f64,
    target_batch: usize,
}

/// The efficiency that the batch is planned for.
const TARGET: f64 = 0.75;
/// Batches of one rank that are measured: the time of a step is nearly linear between and beyond them.
const MEASURED: [usize; 2] = [128, 512];
/// Seconds for each measurement.
const SECONDS: f64 = 2.0;
/// Time for a message to arrive, beyond the time of its bytes.
const LATENCY_SECONDS: f64 = 20e-6;

/// Gbit/s of a network by its name, or as a number.
fn gbit_per_second(network: &str) -> Result<f64> {
    let lower = network.to_ascii_lowercase();
    // NVLink of an H200: 450 GB/s in each direction.
    let known = if lower == "nvlink" { Some(3600.0) } else { lower.trim_end_matches("gbe").parse().ok() };
    known.filter(|speed: &f64| speed.is_finite() && *speed > 0.0).ok_or_else(|| {
        Error::setting(
            "network",
            format!("`{network}`"),
            "must be a name such as 100GbE, or a number of Gbit/s",
        )
    })
}

/// Seconds of a step by the number of its rows, as measured on this machine.
struct StepCost {
    fixed: f64,
    per_row: f64,
    parameter_bytes: f64,
}

impl StepCost {
    fn measure<D: Device>(device: &D, columns: usize, threads: usize) -> Result<Self> {
        let mut seconds = [0.0; 2];
        let mut weights = 0.0;
        for (seconds, batch) in seconds.iter_mut().zip(MEASURED) {
            let neighbours = true;
            let shape =
                StepArgs { batch, columns, restarts: 1, components: 150, neighbours, seconds: SECONDS };
            let times = time_steps(&shape, device, threads)?;
            *seconds = 1e-3 * times.ms_per_step;
            weights = times.flop() / (6.0 * batch as f64);
        }
        let [low, high] = MEASURED.map(|batch| batch as f64);
        let per_row = ((seconds[1] - seconds[0]) / (high - low)).max(1e-9);
        let fixed = (seconds[0] - per_row * low).max(0.0);
        Ok(Self { fixed, per_row, parameter_bytes: 4.0 * weights })
    }

    fn of_rows(&self, rows: f64) -> f64 {
        self.fixed + self.per_row * rows
    }
}

/// Seconds to average the gradients of all ranks, without the network: a copy to the host and back, and one addition for each
/// element, however many ranks share the work.
fn time_average<D: Device>(device: &D, len: usize) -> Result<f64> {
    let [from, mut into] = [device.zeros(len)?, device.zeros(len)?];
    let mut mean = HostMean::new(1, len);
    let mut fastest = f64::INFINITY;
    for _ in 0..5 {
        let began = Instant::now();
        device.average(&from, &mut into)?;
        mean.average(device, &Alone, &mut into)?;
        fastest = fastest.min(began.elapsed().as_secs_f64());
    }
    Ok(fastest)
}

/// Runs it.
pub(super) fn run(args: &RanksArgs, common: &Common, console: &Console) -> Result<Outcome> {
    let gbit = gbit_per_second(&args.network)?;
    if !args.nodes.is_power_of_two() || args.nodes > 1 << 12 {
        return Err(Error::setting("nodes", args.nodes, "must be a power of two (1, 2, 4, ..) up to 4096"));
    }
    if args.batch < args.nodes {
        return Err(Error::setting(
            "batch",
            args.batch,
            format!("must be at least {}, a row for each node", args.nodes),
        ));
    }
    let device = common.open_device(console)?;
    let (cost, averaging) = on_device!(&device, device => {
        let cost = StepCost::measure(device, args.columns, common.threads()?)?;
        let averaging = time_average(device, (cost.parameter_bytes / 4.0) as usize)?;
        (cost, averaging)
    });
    let plan = plan(args, gbit, &cost, averaging);
    console.result(&plan, &describe(args, &plan, &device.name()))?;
    Ok(Outcome::Done)
}

fn plan(args: &RanksArgs, gbit: f64, cost: &StepCost, averaging: f64) -> Plan {
    let n = args.nodes as f64;
    let exchange = if args.nodes == 1 {
        0.0
    } else {
        let bytes = 2.0 * (n - 1.0) / n * cost.parameter_bytes;
        8.0 * bytes / (1e9 * gbit) + 2.0 * n.log2() * LATENCY_SECONDS + averaging
    };
    let compute = cost.of_rows(args.batch as f64 / n);
    // compute / (compute + exchange) = TARGET
    let wanted = exchange * TARGET / (1.0 - TARGET);
    let rows_per_rank = ((wanted - cost.fixed) / cost.per_row).max(1.0).ceil();
    Plan {
        nodes: args.nodes,
        gbit_per_second: gbit,
        parameter_bytes: cost.parameter_bytes as u64,
        batch: args.batch,
        compute_ms: 1e3 * compute,
        exchange_ms: 1e3 * exchange,
        efficiency: compute / (compute + exchange),
        rows_per_second: args.batch as f64 / (compute + exchange),
        rows_per_second_of_one: args.batch as f64 / cost.of_rows(args.batch as f64),
        target_efficiency: TARGET,
        target_batch: args.nodes * rows_per_rank as usize,
    }
}

fn describe(args: &RanksArgs, plan: &Plan, device: &str) -> String {
    format!(
        "{} with {:.1} MB of parameters, joined by {} ({} Gbit/s), batch {}:\n\
         \x20 a step takes {:.2} ms: {:.2} ms of computing and {:.2} ms of exchange, an efficiency of {:.0} %\n\
         \x20 {} rows/s, {:.1} times one rank with the same batch\n\
         \x20 {:.0} % efficiency needs a batch of about {} rows\n\
         Measured on {device}; the network is computed, not measured.",
        words::counted(plan.nodes, "rank"),
        plan.parameter_bytes as f64 / 1e6,
        args.network,
        plan.gbit_per_second,
        words::count(plan.batch),
        plan.compute_ms + plan.exchange_ms,
        plan.compute_ms,
        plan.exchange_ms,
        100.0 * plan.efficiency,
        words::count(plan.rows_per_second as usize),
        plan.rows_per_second / plan.rows_per_second_of_one,
        100.0 * plan.target_efficiency,
        words::count(plan.target_batch),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_have_names_or_numbers() {
        assert_eq!(gbit_per_second("100GbE").unwrap(), 100.0);
        assert_eq!(gbit_per_second("10gbe").unwrap(), 10.0);
        assert_eq!(gbit_per_second("12.5").unwrap(), 12.5);
        for wrong in ["carrier pigeon", "-1", "0", "nan", ""] {
            assert!(gbit_per_second(wrong).is_err(), "{wrong}");
        }
    }

    /// The figures of a step with known costs: 1 ms and 10 us per row, 8 MB of parameters.
    #[test]
    fn the_plan_follows_from_the_costs() {
        let cost = StepCost { fixed: 1e-3, per_row: 1e-5, parameter_bytes: 8e6 };
        let args = |nodes, batch| RanksArgs { nodes, batch, network: String::new(), columns: 1 };
        let two = plan(&args(2, 200), 1.0, &cost, 0.0);
        // 8 MB to send and receive at 1 Gbit/s: 64 ms.
        assert!((two.exchange_ms - 64.04).abs() < 1e-6, "{}", two.exchange_ms);
        assert!((two.compute_ms - 2.0).abs() < 1e-9);
        let enough = plan(&args(2, two.target_batch), 1.0, &cost, 0.0);
        assert!((enough.efficiency - TARGET).abs() < 1e-3, "{}", enough.efficiency);
        assert_eq!(plan(&args(1, 200), 1.0, &cost, 0.0).efficiency, 1.0);
    }
}
