//! `pervade doctor`.

use clap::Args;
use pervade::Result;

use crate::Outcome;
use crate::args::Common;
use crate::console::Console;

/// To come
#[derive(Args)]
pub(crate) struct DoctorArgs {}

/// Runs it.
pub(crate) fn run(_args: &DoctorArgs, _common: &Common, _console: &Console) -> Result<Outcome> {
    Ok(Outcome::Done)
}

/// The processor and the instructions that are used.
pub(crate) fn device_name(device: &pervade::compute::Cpu) -> String {
    let about = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = about
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':').map(|(_, name)| name.trim()));
    format!("{} ({:?})", model.unwrap_or("CPU"), device.isa())
}
