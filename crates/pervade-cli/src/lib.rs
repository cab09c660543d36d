//! The `pervade` command.
