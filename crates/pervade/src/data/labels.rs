//! Labels: the known classes of the rows, only for scoring. Nothing that fits a model accepts them.

use std::collections::HashMap;

use crate::{Error, Result};

/// The known class of every row, accepted only by `metrics`.
///
/// Distinct values get ids from 0 in sorted order: numerically if all are numbers (`7` and `7.0` are the same label),
/// otherwise as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Labels {
    ids: Vec<u32>,
    names: Vec<String>,
}

impl Labels {
    /// Creates labels from integers.
    pub fn from_integers(values: &[i64]) -> Self {
        let mut distinct = values.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        // Searching is fast enough: the number of distinct labels is small.
        let ids = values.iter().map(|v| distinct.partition_point(|d| d < v) as u32).collect();
        Self { ids, names: distinct.iter().map(ToString::to_string).collect() }
    }

    /// Creates labels from finite numbers; `location` names the file in error messages.
    pub fn from_numbers(values: &[f64], location: &str) -> Result<Self> {
        if let Some(row) = values.iter().position(|v| !v.is_finite()) {
            return Err(Error::data(location, format!("the label of row {} is {}", row + 1, values[row]))
                .with_hint("every row needs a label"));
        }
        // Adding zero turns negative zero into positive zero, so that the two are one label.
        let mut distinct: Vec<f64> = values.iter().map(|v| v + 0.0).collect();
        distinct.sort_unstable_by(f64::total_cmp);
        distinct.dedup();
        let ids = values.iter().map(|v| distinct.partition_point(|d| d < v) as u32).collect();
        Ok(Self { ids, names: distinct.iter().map(ToString::to_string).collect() })
    }

    /// Creates labels from text, or from numbers if all of it parses as numbers.
    pub fn from_text<S: AsRef<str>>(values: &[S], location: &str) -> Result<Self> {
        if let Some(row) = values.iter().position(|v| v.as_ref().trim().is_empty()) {
            return Err(Error::data(location, format!("the label of row {} is empty", row + 1))
                .with_hint("every row needs a label"));
        }
        let number = |v: &S| v.as_ref().trim().parse::<f64>().ok().filter(|x| x.is_finite());
        if let Some(numbers) = values.iter().map(number).collect::<Option<Vec<f64>>>() {
            return Self::from_numbers(&numbers, location);
        }
        let mut names: Vec<&str> = values.iter().map(|v| v.as_ref().trim()).collect();
        names.sort_unstable();
        names.dedup();
        let numbered: HashMap<&str, u32> = names.iter().enumerate().map(|(i, &n)| (n, i as u32)).collect();
        let ids = values.iter().map(|v| numbered[v.as_ref().trim()]).collect();
        Ok(Self { ids, names: names.into_iter().map(String::from).collect() })
    }

    /// The label id of every row.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// The name of every label id.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Number of rows that have a label.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Returns an error unless there is one label for each of `n_rows` rows.
    pub fn check_length(&self, n_rows: usize, location: &str) -> Result<()> {
        if self.ids.len() == n_rows {
            return Ok(());
        }
        Err(Error::data(location, format!("there are {} labels for {n_rows} rows", self.ids.len()))
            .with_hint("give one label per row, in the order of the rows"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_sort_as_numbers_and_text_as_text() {
        let numbers = Labels::from_text(&["10", "7.0", "7", " 9 "], "y").unwrap();
        assert_eq!(numbers.ids(), [2, 0, 0, 1]);
        assert_eq!(numbers.names(), ["7", "9", "10"]);
        let text = Labels::from_text(&["10", "cat", "9", "cat"], "y").unwrap();
        assert_eq!(text.ids(), [0, 2, 1, 2]);
        assert_eq!(text.names(), ["10", "9", "cat"]);
        assert_eq!(Labels::from_integers(&[5, -1, 5]).ids(), [1, 0, 1]);
        assert_eq!(Labels::from_numbers(&[0.0, -0.0, 0.5], "y").unwrap().names(), ["0", "0.5"]);
    }

    #[test]
    fn missing_labels_and_wrong_lengths_are_named() {
        let missing = Labels::from_text(&["a", " "], "y.txt").unwrap_err().to_string();
        assert_eq!(missing, "`y.txt`: the label of row 2 is empty");
        let nan = Labels::from_numbers(&[f64::NAN], "y.npy").unwrap_err().to_string();
        assert_eq!(nan, "`y.npy`: the label of row 1 is NaN");
        let short = Labels::from_integers(&[1, 2]).check_length(3, "y.npy").unwrap_err().to_string();
        assert_eq!(short, "`y.npy`: there are 2 labels for 3 rows");
    }
}
