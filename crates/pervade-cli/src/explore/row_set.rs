//! A set of rows, which travels as hexadecimal digits: one bit per row, four rows per digit.

use serde::Deserialize;

use super::Refusal;

/// Some of the rows of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RowSet {
    is_in: Vec<bool>,
}

impl RowSet {
    pub(super) fn new(n: usize, is_in: impl Fn(usize) -> bool) -> Self {
        Self { is_in: (0..n).map(is_in).collect() }
    }

    pub(super) fn of(is_in: Vec<bool>) -> Self {
        Self { is_in }
    }

    /// The first row is the lowest bit of the first digit.
    pub(super) fn from_hex(text: &str, n: usize) -> Result<Self, Refusal> {
        let digits: Option<Vec<u32>> = text.chars().map(|c| c.to_digit(16)).collect();
        match digits.filter(|digits| digits.len() == n.div_ceil(4)) {
            Some(digits) => Ok(Self::new(n, |row| digits[row / 4] >> (row % 4) & 1 == 1)),
            None => Err(Refusal::bad(format!("rows must be {} hexadecimal digits", n.div_ceil(4)))),
        }
    }

    pub(super) fn to_hex(&self) -> String {
        let digit = |rows: &[bool]| {
            let bits = rows.iter().enumerate().map(|(i, &is_in)| u32::from(is_in) << i).sum();
            char::from_digit(bits, 16).unwrap_or('0')
        };
        self.is_in.chunks(4).map(digit).collect()
    }

    pub(super) fn contains(&self, row: usize) -> bool {
        self.is_in[row]
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = usize> {
        self.is_in.iter().enumerate().filter(|(_, is_in)| **is_in).map(|(row, _)| row)
    }

    pub(super) fn len(&self) -> usize {
        self.rows().count()
    }
}

/// A group of rows as the page names it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Group {
    /// These rows.
    Rows(String),
    /// The rows of these clusters.
    Clusters(Vec<u32>),
    /// All rows that are not in the other group.
    Rest,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_survive_the_journey() {
        for n in [1, 3, 4, 5, 8, 1001] {
            let set = RowSet::new(n, |row| row % 3 == 0 || row == n - 1);
            let there = set.to_hex();
            assert_eq!(there.len(), n.div_ceil(4));
            assert_eq!(RowSet::from_hex(&there, n).unwrap(), set);
        }
        assert_eq!(RowSet::new(5, |row| row == 1 || row == 4).to_hex(), "21");
        for bad in ["", "0", "000", "0x", "0é"] {
            assert!(RowSet::from_hex(bad, 8).is_err(), "{bad}");
        }
    }
}
