//! The `pervade` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(pervade_cli::run(std::env::args_os()))
}
