//! Which cells of a table are missing.

/// What stands for a missing cell unless it is a level that someone asked for.
const USUAL: [&str; 15] =
    ["", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "null", "NULL", "None", "?", ".", "-", "--"];

/// The words that stand for a missing cell.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::data) struct Missing {
    words: Vec<String>,
    /// The words that are numbers, such as `-999`.
    numbers: Vec<f64>,
}

impl Missing {
    /// The usual words, and others.
    pub(in crate::data) fn new(words: &[String]) -> Self {
        let words: Vec<String> = words.iter().map(|word| word.trim().to_string()).collect();
        let numbers = words.iter().filter_map(|word| word.parse().ok()).filter(|x: &f64| x.is_finite());
        Self { numbers: numbers.collect(), words }
    }

    /// All words for missing cells, the usual ones first.
    pub(super) fn all_words(&self) -> Vec<String> {
        USUAL.iter().map(ToString::to_string).chain(self.words.iter().cloned()).collect()
    }

    /// Numbers that stand for missing cells.
    pub(super) fn all_numbers(&self) -> &[f64] {
        &self.numbers
    }

    /// Whether a cell with this text, without spaces around it, is missing.
    pub(in crate::data) fn has_word(&self, word: &str) -> bool {
        USUAL.contains(&word) || self.words.iter().any(|given| given == word)
    }

    /// Whether a cell with this text is missing, also if it is a number that stands for missing cells.
    pub(in crate::data) fn has_text(&self, text: &str) -> bool {
        let is_number = || text.parse().is_ok_and(|x: f64| self.numbers.contains(&x));
        self.has_word(text) || !self.numbers.is_empty() && is_number()
    }

    /// Replaces numbers that stand for missing cells by NaN.
    pub(super) fn remove_from(&self, values: &mut [f64]) {
        if !self.numbers.is_empty() {
            values.iter_mut().filter(|x| self.numbers.contains(x)).for_each(|x| *x = f64::NAN);
        }
    }
}
