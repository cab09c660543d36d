//! Finds rows by their number, by columns that go along, by labels and by cells.

use pervade::compute::Device;
use serde::Deserialize;
use serde_json::{Value, json};

use super::row_set::RowSet;
use super::{Refusal, Worker};

/// Rows that are listed.
const LISTED: usize = 50;
/// Characters of a question.
const LONGEST: usize = 500;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Question {
    text: String,
}

pub(super) fn answer<D: Device>(worker: &Worker<'_, D>, question: Question) -> Result<Value, Refusal> {
    let text = question.text.trim();
    if text.is_empty() || text.chars().count() > LONGEST {
        return Err(Refusal::bad(format!("type 1 to {LONGEST} characters to search for")));
    }
    let mut is_in = vec![false; worker.n_rows()];
    let searched = match in_column(worker, text) {
        Some((field, text)) => {
            mark(worker, field, &text, &mut is_in);
            name(worker, field)
        }
        None => {
            fields(worker).for_each(|field| mark(worker, field, text, &mut is_in));
            "all columns".to_string()
        }
    };
    let numbered = row_number(text, worker.n_rows());
    numbered.iter().for_each(|&row| is_in[row] = true);
    let found = RowSet::of(is_in);
    // The row with that number is what was most likely meant.
    let others = found.rows().filter(|row| Some(*row) != numbered);
    let first: Vec<usize> = numbered.into_iter().chain(others).take(LISTED).collect();
    Ok(json!({
        "total": found.len(),
        "searched": searched,
        "list": worker.listed(&first),
        "rows": found.to_hex(),
    }))
}

/// Something that has a text for every row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Kept(usize),
    Label,
    Column(usize),
}

/// All of them; single pixels are not searched.
fn fields<D: Device>(worker: &Worker<'_, D>) -> impl Iterator<Item = Field> {
    let table = worker.explored.table;
    let kept = table.kept.as_ref().map_or(0, |kept| kept.names.len());
    let columns = if worker.model.image().is_some() { 0 } else { worker.model.n_columns() };
    let labels = table.labels.iter().map(|_| Field::Label);
    (0..kept).map(Field::Kept).chain(labels).chain((0..columns).map(Field::Column))
}

fn name<D: Device>(worker: &Worker<'_, D>, field: Field) -> String {
    match field {
        Field::Kept(i) => {
            worker.explored.table.kept.as_ref().map_or(String::new(), |kept| kept.names[i].clone())
        }
        Field::Label => "label".to_string(),
        Field::Column(j) => worker.texts.name(j).to_string(),
    }
}

/// `island: Biscoe` searches one column.
fn in_column<D: Device>(worker: &Worker<'_, D>, text: &str) -> Option<(Field, String)> {
    // A name may contain a colon, too.
    text.match_indices(':').find_map(|(at, _)| {
        let (column, value) = (text[..at].trim().to_lowercase(), text[at + 1..].trim());
        let field = fields(worker).find(|&field| name(worker, field).to_lowercase() == column)?;
        (!value.is_empty()).then(|| (field, value.to_string()))
    })
}

/// Marks the rows whose text contains the one that is searched for; numbers and dates must be equal to it.
fn mark<D: Device>(worker: &Worker<'_, D>, field: Field, text: &str, is_in: &mut [bool]) {
    let (table, wanted) = (worker.explored.table, text.to_lowercase());
    let contains = |cell: &str| cell.to_lowercase().contains(&wanted);
    match field {
        Field::Kept(i) => {
            let cells = table.kept.iter().flat_map(|kept| &kept.columns[i]);
            is_in.iter_mut().zip(cells).for_each(|(is_in, cell)| *is_in |= contains(cell));
        }
        Field::Label => {
            let Some(labels) = &table.labels else { return };
            let hits: Vec<bool> = labels.names().iter().map(|name| contains(name)).collect();
            is_in.iter_mut().zip(labels.ids()).for_each(|(is_in, &id)| *is_in |= hits[id as usize]);
        }
        Field::Column(j) if !worker.texts.levels(j).is_empty() => {
            let hits: Vec<bool> = worker.texts.levels(j).iter().map(|level| contains(level)).collect();
            let is_hit = |row: usize| hits.get(table.data.cell(row, j) as usize).copied().unwrap_or(false);
            let is_known = |row: usize| !table.data.cell(row, j).is_nan();
            is_in.iter_mut().enumerate().for_each(|(row, is_in)| *is_in |= is_known(row) && is_hit(row));
        }
        Field::Column(j) => {
            let Some(wanted) = worker.texts.parse(j, text) else { return };
            // Tables of single precision do not have the number that was typed.
            let is_hit = |cell: f64| (cell - wanted).abs() <= 1e-6 * wanted.abs();
            is_in.iter_mut().enumerate().for_each(|(row, is_in)| *is_in |= is_hit(table.data.cell(row, j)));
        }
    }
}

/// `17` and `row 17` are rows, counted from one.
fn row_number(text: &str, n: usize) -> Option<usize> {
    let lower = text.to_lowercase();
    let digits = lower.strip_prefix("row").unwrap_or(&lower).trim().replace(',', "");
    let number: usize = digits.parse().ok()?;
    number.checked_sub(1).filter(|&row| row < n)
}

#[cfg(test)]
mod tests {
    use super::row_number;

    #[test]
    fn rows_are_counted_from_one() {
        assert_eq!(
            [" 1", "row 17", "Row 1,000", "0", "1001", "x", "-1"].map(|text| row_number(text, 1000)),
            [Some(0), Some(16), Some(999), None, None, None, None]
        );
    }
}
