//! What reads the bytes of others, callable without a process or a socket: for the targets in `fuzz/`.

use std::path::Path;

use pervade::data::{ReadOptions, Table};
use pervade::{Result, Settings};

pub use crate::explore::InMemory as Explorer;
use crate::settings::{Config, SettingFlags};

/// The settings in the text of a configuration file, as `pervade fit --config` takes them, and how the table is to be read.
pub fn read_settings(text: &str) -> Result<(Result<Settings>, ReadOptions)> {
    let config = Config::parse(text, Path::new("fuzzed.toml"))?;
    let options = ReadOptions::default().with(|options| {
        options.types.clone_from(&config.columns);
        options.missing_informative = config.missing_informative;
    });
    Ok((SettingFlags::default().resolve(&config), options))
}

/// Gives the columns of a table the names in the text of a file, one per line, as `--column-names` does.
pub fn name_columns(table: Table, text: &str) -> Result<Table> {
    crate::column_names::with_names(table, text, Path::new("names.txt"))
}
