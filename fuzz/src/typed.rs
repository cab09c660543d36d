//! Tables whose columns have types: inference, settings for columns, new rows of a known table.

use std::sync::Arc;

use pervade::Cpu;
use pervade::data::{FilledTable, OutputFormat, ReadOptions, Schema, Table, read_bytes, read_label_bytes};
use pervade::model::{Cells, Matched};
use pervade_cli::fuzzing::{name_columns, read_settings};

use super::divided;
use super::fixtures::{Fitted, typed_options};

/// A configuration file, a table, and new rows for it. Comments in the file are further options: `#keep NAME`, `#missing WORD`
/// and `#labels column:NAME`.
pub fn read_typed(bytes: &[u8]) {
    let files = divided(bytes, 3);
    let (Ok(text), Some(rows)) = (std::str::from_utf8(files[0]), files.get(1)) else { return };
    let Ok((settings, mut options)) = read_settings(text) else { return };
    for line in text.lines() {
        match line.split_once(' ') {
            Some(("#keep", name)) => options.keep.push(name.to_string()),
            Some(("#missing", word)) => options.missing.push(word.to_string()),
            // Not a file of this machine.
            Some(("#labels", column)) if column.starts_with("column:") => {
                options.labels = column.parse().ok();
            }
            _ => {}
        }
    }
    let Ok(table) = read_bytes(rows, "csv", &options) else { return };
    if let Ok(settings) = settings {
        let _ = settings.check(&table.data);
    }
    let Some(schema) = table.data.schema() else { return };
    let stored: Schema = serde_json::from_str(&serde_json::to_string(&**schema).unwrap()).unwrap();
    assert_eq!(stored, **schema, "types survive being stored");
    for word in text.split_whitespace().take(20) {
        for j in 0..stored.columns.len().min(20) {
            let _ = stored.cell_from_text(j, word).map(|cell| stored.cell_to_text(j, cell));
        }
    }
    let new = ReadOptions::default().with(|new| {
        (new.labels, new.missing) = (options.labels.clone(), options.missing.clone());
        (new.schema, new.original) = (Some(Arc::new(stored)), true);
    });
    for rows in files.iter().skip(1) {
        if let Ok(table) = read_bytes(rows, "csv", &new) {
            write_filled(&table, schema);
        }
    }
}

/// Writes a table with its gaps filled, and reads it again: it has the same rows.
pub fn write_filled(table: &Table, schema: &Arc<Schema>) {
    let n_cells = table.data.n_rows() * table.data.n_columns();
    let cells: Vec<f64> = [0.5, 1.0, -3.0, 1e18, 0.0].into_iter().cycle().take(n_cells).collect();
    write_cells(table, schema, &cells);
}

fn write_cells(table: &Table, schema: &Arc<Schema>, cells: &[f64]) {
    let filled = FilledTable::new(table, schema, cells).unwrap();
    for format in [OutputFormat::Csv, OutputFormat::Parquet] {
        let mut written = Vec::new();
        if filled.write_to(&mut written, format).is_err() {
            continue;
        }
        let ending = if format == OutputFormat::Csv { "csv" } else { "parquet" };
        let options = ReadOptions::default().with(|options| options.schema = Some(schema.clone()));
        if let Ok(again) = read_bytes(&written, ending, &options) {
            assert_eq!(again.data.n_rows(), table.data.n_rows(), "a filled table has the same rows");
        }
    }
}

/// New rows of a fitted table: matched by name, assigned, scored, filled. The first byte selects the extension.
pub fn read_new_rows(bytes: &[u8]) {
    const EXTENSIONS: [&str; 4] = ["csv", "parquet", "npy", "npz"];
    let Some((&first, content)) = bytes.split_first() else { return };
    let Fitted { model, .. } = Fitted::typed();
    let schema = Arc::new(model.schema().unwrap().clone());
    let mut options = typed_options().with(|options| {
        options.missing_informative = false;
        (options.schema, options.original) = (Some(schema.clone()), true);
    });
    if first & 0x80 != 0 {
        options.labels = None;
    }
    let extension = EXTENSIONS[usize::from(first & 0x7f) % EXTENSIONS.len()];
    let Ok(mut table) = read_bytes(content, extension, &options) else { return };
    let matched = match model.matched(&table.data) {
        Err(_) => return,
        Ok(Matched::AsGiven(_)) => None,
        Ok(Matched::Reordered(data)) => Some(data),
    };
    if let Some(data) = matched {
        table.data = data;
    }
    if table.data.n_rows() > 2000 {
        return;
    }
    let cpu = Cpu::new();
    let _ = model.assign(&cpu, &table.data);
    let _ = model.score(&cpu, &table.data);
    for how in [Cells::Mean, Cells::Draw] {
        if let Ok(cells) = model.impute(&cpu, &table.data, how, 1) {
            write_cells(&table, &schema, &cells);
        }
    }
}

/// A file of column names for a table of three columns.
pub fn read_column_names(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let numbers = (0..24).map(|i| (i * 7 % 11) as f32 / 2.0).collect();
    let table = Table::new(pervade::Dataset::from_rows(8, 3, numbers).unwrap(), None);
    let Ok(table) = name_columns(table, text) else { return };
    let names = table.data.column_names().unwrap().to_vec();
    assert!(names.len() == 3 && names.iter().all(|name| !name.is_empty()));
    let _ = table.data.typed_schema(false).unwrap();
    // New rows with these names, and the names as labels.
    let options = ReadOptions::default().with(|options| options.plain = Some(names));
    let _ = read_bytes(format!("{}\n1,2,3\n", text.trim().replace('\n', ",")).as_bytes(), "csv", &options);
    let _ = read_label_bytes(bytes, "txt");
}
