//! The `pervade` command.

use std::process::ExitCode;

use pervade_cli::allocator::LastWord;
use pervade_cli::out_of_memory;

/// Memory that runs out ends the command with a message and exit 2, not with an abort.
#[global_allocator]
static ALLOCATOR: LastWord = LastWord::new(out_of_memory::end);

fn main() -> ExitCode {
    out_of_memory::prepare();
    ExitCode::from(pervade_cli::run(std::env::args_os()))
}
