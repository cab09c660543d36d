//! Columns matched by name: a table in another order is reordered, one with other names is an error.

use std::collections::{HashMap, HashSet};
use std::ops::Deref;

use super::Vade;
use crate::data::{Dataset, other_names};
use crate::memory::{Need, require};
use crate::{Error, Result};

/// A table with its columns in the order of the model.
#[derive(Debug)]
pub enum Matched<'a, 'd> {
    /// The table itself: its columns are in the model's order, or there are no names to match.
    AsGiven(&'a Dataset<'d>),
    /// A copy with the columns in the order of the model, and those that tell where others have gaps.
    Reordered(Dataset<'static>),
}

impl<'d> Deref for Matched<'_, 'd> {
    type Target = Dataset<'d>;

    fn deref(&self) -> &Dataset<'d> {
        match self {
            Matched::AsGiven(data) => data,
            Matched::Reordered(data) => data,
        }
    }
}

impl Vade {
    /// The table with its columns in the order of the model, matched by name; by position if the model or the table
    /// has no names. Other names are an error, and so is another order if a name occurs twice.
    pub fn matched<'a, 'd>(&self, data: &'a Dataset<'d>) -> Result<Matched<'a, 'd>> {
        let of_table = self.schema().filter(|schema| schema.has_gap_columns());
        let without_gaps = of_table.filter(|schema| data.n_columns() == schema.source_columns().len());
        let Some(schema) = without_gaps else { return ordered(data, self.column_names()) };
        let names = self.column_names().map(|names| &names[..data.n_columns()]);
        let data = ordered(data, names)?;
        data.unless_changed(Ok(Matched::Reordered(data.with_gap_columns(schema)?)))
    }
}

/// The table with its columns in the order of these names, if it has names, too.
fn ordered<'a, 'd>(data: &'a Dataset<'d>, wanted: Option<&[String]>) -> Result<Matched<'a, 'd>> {
    let (Some(wanted), Some(given)) = (wanted, data.column_names()) else {
        return Ok(Matched::AsGiven(data));
    };
    if wanted == given {
        return Ok(Matched::AsGiven(data));
    }
    let index: HashMap<&str, usize> = given.iter().enumerate().map(|(j, name)| (name.as_str(), j)).collect();
    let known: HashSet<&str> = wanted.iter().map(String::as_str).collect();
    let missing: Vec<&str> =
        wanted.iter().map(String::as_str).filter(|name| !index.contains_key(name)).collect();
    let unexpected: Vec<&str> =
        given.iter().map(String::as_str).filter(|name| !known.contains(name)).collect();
    if !missing.is_empty() || !unexpected.is_empty() {
        return Err(other_names(data.source(), &missing, &unexpected));
    }
    if index.len() != given.len() || known.len() != wanted.len() {
        let problem =
            "its columns are in another order than the model's, and names that occur twice cannot be matched";
        return Err(Error::data(data.source(), problem)
            .with_hint("give the columns in the order that the model was fitted on"));
    }
    let order: Vec<usize> = wanted.iter().map(|name| index[name.as_str()]).collect();
    let need = Need::of("", data.n_bytes());
    require(
        "the table with its columns in the model's order",
        &need,
        "give the columns in the model's order",
    )?;
    data.unless_changed(Ok(Matched::Reordered(data.with_columns(&order))))
}
