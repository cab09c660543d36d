//! The `pervade` command.
fn main() {}
