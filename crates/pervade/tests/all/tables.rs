//! Tables as people have them: types of columns, gaps, new rows, and mistakes.

use std::path::PathBuf;
use std::sync::Arc;

use pervade::Error;
use pervade::data::{
    Coded, Column, ColumnSpec, ColumnType, Dataset, OutputCells, OutputFormat, OutputTable, RawCells,
    RawColumn, ReadOptions, Schema, Table, Values, read, read_bytes,
};

mod mistakes;
mod new_rows;
mod plain_numbers;
mod types;

fn options(change: impl FnOnce(&mut ReadOptions)) -> ReadOptions {
    ReadOptions::default().with(change)
}

fn spec(column: &str, text: &str) -> (String, ColumnSpec) {
    (column.to_string(), text.parse().unwrap())
}

fn table(text: &str) -> Table {
    table_with(text, &ReadOptions::default())
}

fn table_with(text: &str, options: &ReadOptions) -> Table {
    read_bytes(text.as_bytes(), "csv", options).unwrap_or_else(|e| panic!("{e}"))
}

/// The message and the hint of a table that cannot be read.
fn refusal(text: &str, options: &ReadOptions) -> (String, String) {
    let error: Error = read_bytes(text.as_bytes(), "csv", options).expect_err("must not be read");
    let message = error.to_string();
    let message = message.strip_prefix("`bytes in memory`: ").unwrap_or(&message).to_string();
    (message, error.hint().unwrap_or_default().to_string())
}

fn schema(table: &Table) -> &Arc<Schema> {
    table.data.schema().expect("typed columns")
}

fn kinds(table: &Table) -> Vec<(String, ColumnType)> {
    schema(table).columns.iter().map(|column| (column.name.clone(), column.kind)).collect()
}

fn column<'a>(table: &'a Table, name: &str) -> (usize, &'a Column) {
    let found = schema(table).columns.iter().enumerate().find(|(_, column)| column.name == name);
    found.unwrap_or_else(|| panic!("no column {name}"))
}

fn cells(table: &Table, name: &str) -> Vec<f64> {
    let (j, _) = column(table, name);
    (0..table.data.n_rows()).map(|i| table.data.cell(i, j)).collect()
}

/// The table with its cells as text, without kept columns.
fn written(table: &Table) -> String {
    let d = table.data.n_columns();
    let cells: Vec<f64> = (0..table.data.n_rows() * d).map(|at| table.data.cell(at / d, at % d)).collect();
    let output = OutputCells { schema: schema(table), cells: &cells, pooled: &table.pooled };
    let mut out = Vec::new();
    let output = OutputTable { cells: Some(output), ..OutputTable::default() };
    output.write_to(&mut out, OutputFormat::Csv).unwrap();
    String::from_utf8(out).unwrap()
}

/// A pseudo-random number from 0 to `n`.
fn noise(i: usize, n: usize) -> usize {
    (i.wrapping_mul(2_654_435_761) >> 7) % n
}

/// Sixty rows with a column of every type.
fn people() -> String {
    let mut text = "id,name,height,income,visits,smoker,town,born,constant,grade\n".to_string();
    for i in 0..60 {
        let smoker = ["yes", "no"][noise(i, 2)];
        let town = ["Bath", "York", "Leeds"][noise(i + 7, 3)];
        let height = if i == 3 { "NA".to_string() } else { format!("{}.5", 150 + noise(i, 50)) };
        let income = (noise(i, 1000) as f64 / 100.0).exp();
        let visits = (noise(i, 600) as f64 / 100.0 - 2.0).exp().floor();
        let born = if i == 9 {
            String::new()
        } else {
            format!("19{:02}-0{}-1{}", noise(i, 80) + 10, 1 + noise(i, 9), noise(i, 9))
        };
        text.push_str(&format!(
            "{},person {i},{height},{income:.2},{visits},{smoker},{town},{born},7,{}\n",
            1000 + i * 3,
            1 + noise(i, 5)
        ));
    }
    text
}

const PEOPLE: [(&str, ColumnType); 7] = [
    ("height", ColumnType::Number),
    ("income", ColumnType::Positive),
    ("visits", ColumnType::Count),
    ("smoker", ColumnType::YesNo),
    ("town", ColumnType::Category),
    ("born", ColumnType::Date),
    ("grade", ColumnType::Number),
];

fn rows_of(columns: &[(&str, &dyn Fn(usize) -> String)], n: usize) -> String {
    let line = |cells: Vec<String>| cells.join(",") + "\n";
    let header = line(columns.iter().map(|(name, _)| (*name).to_string()).collect());
    header + &(0..n).map(|i| line(columns.iter().map(|(_, cell)| cell(i)).collect())).collect::<String>()
}

/// A column of a given text, beside one of numbers.
fn with(name: &str, n: usize, cell: &dyn Fn(usize) -> String) -> String {
    rows_of(&[("x", &|i| format!("{}.25", noise(i, 100))), (name, cell)], n)
}
