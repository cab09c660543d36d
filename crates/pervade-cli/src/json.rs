//! JSON objects with long arrays of numbers, serialised as a stream: neither text nor values are held in memory.

use std::collections::BTreeMap;

use pervade::data::Schema;
use serde::ser::{Serialize, SerializeSeq, Serializer};
use serde_json::{Value, json};

use crate::stream::{Done, Plan};

/// An object with ordered keys.
#[derive(serde::Serialize)]
#[serde(transparent)]
pub(crate) struct Object<'a> {
    entries: BTreeMap<&'a str, Entry<'a>>,
}

/// A value of an object.
#[derive(serde::Serialize)]
#[serde(untagged)]
enum Entry<'a> {
    Value(Value),
    Whole(&'a [u32]),
    Numbers(Numbers<'a>),
    Matrix(Matrix<'a>),
}

impl<'a> Object<'a> {
    /// An object of plain values.
    pub(crate) fn new<const N: usize>(values: [(&'a str, Value); N]) -> Self {
        Self { entries: values.into_iter().map(|(key, value)| (key, Entry::Value(value))).collect() }
    }

    /// Adds a plain value.
    pub(crate) fn value(mut self, key: &'a str, value: Value) -> Self {
        self.entries.insert(key, Entry::Value(value));
        self
    }

    /// Adds where results were written; of a table in parts also how many parts.
    pub(crate) fn written(self, plan: &Plan, done: &Done) -> Self {
        let object = self.value("out", json!(plan.out().map(|out| out.display().to_string())));
        match plan.parts {
            Some(_) => object.value("parts", json!(done.parts)).value("skipped", json!(done.skipped)),
            None => object,
        }
    }

    /// Adds a list of integers.
    pub(crate) fn whole(mut self, key: &'a str, values: &'a [u32]) -> Self {
        self.entries.insert(key, Entry::Whole(values));
        self
    }

    /// Adds a list of numbers.
    pub(crate) fn numbers(mut self, key: &'a str, values: &'a [f32]) -> Self {
        self.entries.insert(key, Entry::Numbers(Numbers(values)));
        self
    }

    /// Adds a list of rows of `n_columns` numbers each.
    pub(crate) fn rows(mut self, key: &'a str, values: &'a [f32], n_columns: usize) -> Self {
        self.entries.insert(key, Entry::Matrix(Matrix { values, n_columns }));
        self
    }
}

/// Rows of a table whose columns have types, without those that tell where others have gaps: numbers, names of levels, dates, and null for missing cells.
pub(crate) fn cells_as_json(schema: &Schema, cells: &[f64]) -> Value {
    let cell = |(j, &x): (usize, &f64)| {
        let text = schema.cell_to_text(j, x);
        let is_number = schema.columns[j].levels.is_empty() && schema.columns[j].date.is_none();
        match serde_json::from_str::<serde_json::Number>(&text) {
            Ok(number) if is_number => Value::Number(number),
            _ if text.is_empty() => Value::Null,
            _ => Value::String(text),
        }
    };
    let rows = cells.chunks(schema.columns.len().max(1));
    let n = schema.source_columns().len();
    Value::Array(rows.map(|row| Value::Array(row.iter().take(n).enumerate().map(cell).collect())).collect())
}

/// Numbers as JSON stores them: in double precision.
struct Numbers<'a>(&'a [f32]);

impl Serialize for Numbers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|&x| f64::from(x)))
    }
}

struct Matrix<'a> {
    values: &'a [f32],
    n_columns: usize,
}

impl Serialize for Matrix<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rows = self.values.chunks(self.n_columns.max(1));
        let mut list = serializer.serialize_seq(Some(rows.len()))?;
        rows.into_iter().try_for_each(|row| list.serialize_element(&Numbers(row)))?;
        list.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streamed_objects_equal_those_built_from_values() {
        let values = [0.1f32, -1.0, 3e38, 1e-40, f32::NAN, f32::INFINITY];
        let whole = [3, 0, u32::MAX];
        let streamed = Object::new([("rows", json!(3)), ("columns", json!(2))])
            .value("out", json!("a \"b\""))
            .whole("assignments", &whole)
            .numbers("scores", &values)
            .rows("latents", &values, 2);
        let mut object =
            json!({"rows": 3, "columns": 2, "out": "a \"b\"", "assignments": whole, "scores": values});
        object["latents"] = json!(values.chunks(2).collect::<Vec<_>>());
        assert_eq!(serde_json::to_string(&streamed).unwrap(), object.to_string());
    }
}
