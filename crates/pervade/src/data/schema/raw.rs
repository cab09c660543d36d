//! Columns as a file or a data frame has them, before they are given a type.

use std::collections::HashMap;
use std::ops::Range;

use super::dates::DateFormat;
use super::number_text;
use crate::{Error, Result};

/// A column as it was found.
#[derive(Debug, Clone, PartialEq)]
pub struct RawColumn {
    /// Its name; empty if it has none.
    pub name: String,
    /// Its cells.
    pub cells: RawCells,
}

/// The cells of a column, in the type that its source gives them.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum RawCells {
    /// Numbers; NaN where missing.
    Numbers(Vec<f64>),
    /// Text, which may turn out to be numbers or dates.
    Words(Coded),
    /// Truth values; `None` where missing.
    Truth(Vec<Option<bool>>),
    /// Categories that the source calls so.
    Categories {
        /// The categories of the cells.
        coded: Coded,
        /// Whether their order means something.
        ordered: bool,
    },
    /// Dates and timestamps.
    Dates {
        /// Seconds since 1970-01-01 UTC; NaN where missing.
        seconds: Vec<f64>,
        /// How they are to be written.
        format: DateFormat,
    },
}

/// Words as indices into a list of different words.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Coded {
    pub(super) words: Vec<String>,
    /// One per row.
    pub(super) codes: Vec<u32>,
}

/// The code of a missing cell.
pub(super) const MISSING: u32 = u32::MAX;

impl RawColumn {
    /// A column of numbers; NaN where missing.
    pub fn numbers(name: impl Into<String>, values: Vec<f64>) -> Self {
        Self { name: name.into(), cells: RawCells::Numbers(values) }
    }

    /// A column of text; `None` where missing.
    pub fn words<'a>(name: impl Into<String>, words: impl IntoIterator<Item = Option<&'a str>>) -> Self {
        Self { name: name.into(), cells: RawCells::Words(Coded::of(words)) }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        match &self.cells {
            RawCells::Numbers(values) | RawCells::Dates { seconds: values, .. } => values.len(),
            RawCells::Words(coded) | RawCells::Categories { coded, .. } => coded.codes.len(),
            RawCells::Truth(values) => values.len(),
        }
    }

    /// Whether all cells are numbers or missing.
    pub(in crate::data) fn is_numbers(&self) -> bool {
        match &self.cells {
            RawCells::Numbers(_) => true,
            RawCells::Words(coded) => {
                coded.words.iter().all(|word| word.is_empty() || word.parse::<f64>().is_ok())
            }
            _ => false,
        }
    }

    /// The cell of a row as it was; empty if it is missing.
    pub fn text(&self, row: usize) -> String {
        match &self.cells {
            RawCells::Numbers(values) if values[row].is_nan() => String::new(),
            RawCells::Numbers(values) => number_text(values[row], false),
            RawCells::Words(coded) | RawCells::Categories { coded, .. } => {
                coded.word(row).unwrap_or_default().to_string()
            }
            RawCells::Truth(values) => values[row].map_or(String::new(), |truth| truth.to_string()),
            RawCells::Dates { seconds, .. } if seconds[row].is_nan() => String::new(),
            RawCells::Dates { seconds, format } => format.text(seconds[row]),
        }
    }

    /// Some of the cells.
    pub(in crate::data) fn piece(&self, rows: Range<usize>) -> Self {
        let coded =
            |coded: &Coded| Coded { words: coded.words.clone(), codes: coded.codes[rows.clone()].to_vec() };
        let cells = match &self.cells {
            RawCells::Numbers(values) => RawCells::Numbers(values[rows].to_vec()),
            RawCells::Words(words) => RawCells::Words(coded(words)),
            RawCells::Truth(values) => RawCells::Truth(values[rows].to_vec()),
            RawCells::Categories { coded: words, ordered } => {
                RawCells::Categories { coded: coded(words), ordered: *ordered }
            }
            RawCells::Dates { seconds, format } => {
                RawCells::Dates { seconds: seconds[rows].to_vec(), format: *format }
            }
        };
        Self { name: self.name.clone(), cells }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Coded {
    /// Words as found; `None` where missing.
    pub fn of<'a>(words: impl IntoIterator<Item = Option<&'a str>>) -> Self {
        let mut coder = Coder::default();
        words.into_iter().for_each(|word| coder.push(word));
        coder.finish()
    }

    /// Categories with codes that a data frame gives them; `None` where missing. Codes without a category are an error.
    pub fn new(words: Vec<String>, codes: impl IntoIterator<Item = Option<u32>>) -> Result<Self> {
        let codes: Vec<u32> = codes.into_iter().map(|code| code.unwrap_or(MISSING)).collect();
        if let Some(code) = codes.iter().find(|&&code| code != MISSING && code as usize >= words.len()) {
            let problem = format!("code {code} has no category: there are {}", words.len());
            return Err(Error::data("categories", problem));
        }
        Ok(Self { words, codes })
    }

    /// The word of a row; `None` if it is missing.
    pub(super) fn word(&self, row: usize) -> Option<&str> {
        self.words.get(self.codes[row] as usize).map(String::as_str)
    }

    /// The same cells with the words in this order, which must have all of them.
    pub(in crate::data) fn in_order(&self, order: &[String]) -> Self {
        let index: HashMap<&str, u32> = order.iter().map(String::as_str).zip(0..).collect();
        let code = |word: &String| index.get(word.as_str()).copied().unwrap_or(MISSING);
        let new_codes: Vec<u32> = self.words.iter().map(code).collect();
        let recoded = |code: &u32| new_codes.get(*code as usize).copied().unwrap_or(MISSING);
        Self { words: order.to_vec(), codes: self.codes.iter().map(recoded).collect() }
    }

    /// How many cells have each word.
    pub(super) fn counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.words.len()];
        self.codes.iter().filter(|&&code| code != MISSING).for_each(|&code| counts[code as usize] += 1);
        counts
    }

    /// The cells without the words for which `is_missing` holds, and without words that no cell has.
    pub(super) fn without(&self, is_missing: impl Fn(&str) -> bool) -> Self {
        let counts = self.counts();
        let mut new_codes = Vec::with_capacity(self.words.len());
        let mut words = Vec::new();
        for (word, count) in self.words.iter().zip(counts) {
            let is_used = count > 0 && !is_missing(word);
            new_codes.push(if is_used { words.len() as u32 } else { MISSING });
            words.extend(is_used.then(|| word.clone()));
        }
        let recoded = |code: &u32| new_codes.get(*code as usize).copied().unwrap_or(MISSING);
        Self { codes: self.codes.iter().map(recoded).collect(), words }
    }

    /// The cells as numbers, by a number for each word; NaN where missing.
    pub(super) fn map(&self, numbers: &[f64]) -> Vec<f64> {
        let number = |code: &u32| numbers.get(*code as usize).copied().unwrap_or(f64::NAN);
        self.codes.iter().map(number).collect()
    }

    /// The first rows with the given code, counted from zero, at most `limit`.
    pub(super) fn rows_with(&self, code: usize, limit: usize) -> Vec<usize> {
        let rows = self.codes.iter().enumerate().filter(|(_, c)| **c as usize == code);
        rows.map(|(row, _)| row).take(limit).collect()
    }
}

/// Collects words and gives each a code.
#[derive(Debug, Default)]
pub(in crate::data) struct Coder {
    index: HashMap<String, u32>,
    codes: Vec<u32>,
    /// Bytes of all words.
    n_letters: usize,
}

impl Coder {
    /// Adds a cell.
    pub(in crate::data) fn push(&mut self, word: Option<&str>) {
        let code = match word {
            None => MISSING,
            Some(word) => match self.index.get(word) {
                Some(&code) => code,
                None => {
                    let code = self.index.len() as u32;
                    self.index.insert(word.to_string(), code);
                    self.n_letters += word.len();
                    code
                }
            },
        };
        self.codes.push(code);
    }

    /// Bytes in use, roughly.
    pub(in crate::data) fn n_bytes(&self) -> u64 {
        (self.n_letters + size_of::<(String, u32)>() * 2 * self.index.len() + 4 * self.codes.len()) as u64
    }

    /// The cells in order.
    pub(in crate::data) fn finish(self) -> Coded {
        let mut words = vec![String::new(); self.index.len()];
        self.index.into_iter().for_each(|(word, code)| words[code as usize] = word);
        Coded { words, codes: self.codes }
    }
}
