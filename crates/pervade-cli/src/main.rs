//! The `pervade` command.

use std::process::ExitCode;

use pervade_cli::allocator::ReportingAllocator;
use pervade_cli::out_of_memory;

/// If memory runs out, the command ends with a message and exit status 2 instead of an abort.
#[global_allocator]
static ALLOCATOR: ReportingAllocator = ReportingAllocator::new(out_of_memory::end);

fn main() -> ExitCode {
    out_of_memory::prepare();
    ExitCode::from(pervade_cli::run(std::env::args_os()))
}
