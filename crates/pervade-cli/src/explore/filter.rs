//! Rows that meet conditions.

use pervade::compute::Device;
use serde::Deserialize;
use serde_json::{Value, json};

use super::row_set::RowSet;
use super::{Refusal, Worker};

/// Conditions at a time.
const MOST: usize = 50;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Question {
    conditions: Vec<Condition>,
}

/// One condition; a row must meet all.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Condition {
    on: Field,
    /// The smallest and the largest number or date, as text; empty for no limit.
    #[serde(default)]
    low: String,
    #[serde(default)]
    high: String,
    /// Indices of levels, labels or clusters, any of which will do.
    #[serde(default)]
    levels: Vec<usize>,
    /// Text that the cell must contain.
    #[serde(default)]
    text: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Field {
    Cluster,
    Label,
    Confidence,
    Score,
    Column(usize),
    Kept(usize),
}

pub(super) fn answer<D: Device>(worker: &Worker<'_, D>, question: Question) -> Result<Value, Refusal> {
    if question.conditions.len() > MOST {
        return Err(Refusal::bad(format!("at most {MOST} conditions are possible")));
    }
    let mut is_in = vec![true; worker.n_rows()];
    for condition in &question.conditions {
        apply(worker, condition, &mut is_in)?;
    }
    let found = RowSet::of(is_in);
    Ok(json!({"total": found.len(), "rows": found.to_hex()}))
}

fn apply<D: Device>(
    worker: &Worker<'_, D>,
    condition: &Condition,
    is_in: &mut [bool],
) -> Result<(), Refusal> {
    let (table, results) = (worker.explored.table, &worker.gathered.results);
    let keep = |is_in: &mut [bool], meets: &dyn Fn(usize) -> bool| {
        is_in.iter_mut().enumerate().for_each(|(row, is_in)| *is_in = *is_in && meets(row));
    };
    let among = |index: usize| condition.levels.contains(&index);
    match condition.on {
        Field::Cluster => keep(is_in, &|row| among(worker.cluster(row))),
        Field::Label => {
            let Some(labels) = &table.labels else { return Err(Refusal::bad("there are no labels")) };
            keep(is_in, &|row| among(labels.ids()[row] as usize));
        }
        Field::Confidence => {
            let range = Range::new(condition, |text| text.parse().ok())?;
            keep(is_in, &|row| range.holds(f64::from(results.confidence(row))));
        }
        Field::Score => {
            let range = Range::new(condition, |text| text.parse().ok())?;
            keep(is_in, &|row| range.holds(results.scores[row]));
        }
        Field::Column(j) if j >= worker.model.n_columns() => {
            return Err(Refusal::bad(format!("there is no column {j}")));
        }
        Field::Column(j) if !condition.levels.is_empty() => keep(is_in, &|row| {
            let cell = table.data.cell(row, j);
            cell >= 0.0 && among(cell as usize)
        }),
        Field::Column(j) => {
            let range = Range::new(condition, |text| worker.texts.parse(j, text))?;
            keep(is_in, &|row| range.holds(table.data.cell(row, j)));
        }
        Field::Kept(i) => {
            let Some(cells) = table.kept.as_ref().and_then(|kept| kept.columns.get(i)) else {
                return Err(Refusal::bad(format!("there is no column {i} that goes along")));
            };
            let wanted = condition.text.to_lowercase();
            keep(is_in, &|row| cells[row].to_lowercase().contains(&wanted));
        }
    }
    Ok(())
}

/// From one number to another, both included. Missing cells are in no range.
struct Range {
    low: f64,
    high: f64,
}

impl Range {
    fn new(condition: &Condition, parse: impl Fn(&str) -> Option<f64>) -> Result<Self, Refusal> {
        let end = |text: &str, open: f64| match text.trim() {
            "" => Ok(open),
            text => parse(text).filter(|x| !x.is_nan()).ok_or_else(|| {
                Refusal::bad(format!(
                    "`{}` is no value of this column",
                    text.chars().take(50).collect::<String>()
                ))
            }),
        };
        Ok(Self { low: end(&condition.low, f64::NEG_INFINITY)?, high: end(&condition.high, f64::INFINITY)? })
    }

    fn holds(&self, x: f64) -> bool {
        self.low <= x && x <= self.high
    }
}
