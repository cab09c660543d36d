//! `rcv1-v2.topics.qrels`: one line `TOPIC ID 1` per topic of every document.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use crate::data::bytes::Source;
use crate::data::input_file;
use crate::{Error, Result};

/// The roots of the topic hierarchy.
const ROOTS: [&str; 4] = ["CCAT", "ECAT", "GCAT", "MCAT"];

/// The roots of each document, as a bit mask.
pub(super) struct Topics {
    roots: HashMap<u32, u8>,
}

impl Topics {
    /// Reads the file; topics below the roots are ignored.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let location = path.display().to_string();
        let mut roots: HashMap<u32, u8> = HashMap::new();
        let mut read_line = |line_number: usize, line: &[u8]| {
            let text = String::from_utf8_lossy(line);
            let mut words = text.split_whitespace();
            let Some(topic) = words.next() else { return Ok(()) };
            let id = words.next().and_then(|id| id.parse().ok());
            let (Some(id), Some("1"), None) = (id, words.next(), words.next()) else {
                let text: String = text.chars().take(40).collect();
                return Err(Error::data(
                    &location,
                    format!("line {line_number}: `{text}` is not `TOPIC ID 1`, such as `CCAT 2286 1`"),
                )
                .with_hint("the file is cut short or damaged"));
            };
            if let Some(root) = ROOTS.iter().position(|&root| root == topic) {
                *roots.entry(id).or_default() |= 1 << root;
            }
            Ok(())
        };
        input_file::parse(path, |bytes, location| {
            Source::of_bytes(bytes, location).each_line(&mut read_line)
        })?;
        let topics = Self { roots };
        if topics.n_of_one_root() == 0 {
            return Err(Error::data(
                location,
                "no document here has exactly one of the roots CCAT, ECAT, GCAT, MCAT",
            ));
        }
        Ok(topics)
    }

    /// Whether DEC and VaDE keep the document.
    pub(super) fn has_one_root(&self, id: u32) -> bool {
        self.roots.get(&id).is_some_and(|roots| roots.is_power_of_two())
    }

    /// The root of each of these documents, which all have exactly one.
    pub(super) fn roots_of(&self, ids: &[u32]) -> Vec<&'static str> {
        let root = |id| self.roots.get(id).and_then(|roots| ROOTS.get(roots.trailing_zeros() as usize));
        ids.iter().map(|id| root(id).copied().unwrap_or("")).collect()
    }

    /// Returns an error for duplicate documents, and for parts that lack documents.
    pub(super) fn check_complete(&self, ids: &[u32], location: &str) -> Result<()> {
        let mut found = HashSet::with_capacity(ids.len());
        if let Some(id) = ids.iter().find(|&&id| !found.insert(id)) {
            return Err(Error::data(location, format!("document {id} occurs twice"))
                .with_hint("two of the files hold the same documents, or one is damaged"));
        }
        let is_missing = |id: &&u32| self.has_one_root(**id) && !found.contains(*id);
        if let Some(first) = self.roots.keys().filter(is_missing).min() {
            let n_missing = self.n_of_one_root() - found.len();
            return Err(Error::data(
                location,
                format!(
                    "{n_missing} of the {} documents that rcv1-v2.topics.qrels gives one root are in none of the \
                     other files; the first is {first}",
                    self.n_of_one_root()
                ),
            )
            .with_hint("a file is cut short, or is not of this collection"));
        }
        Ok(())
    }

    fn n_of_one_root(&self) -> usize {
        self.roots.values().filter(|roots| roots.is_power_of_two()).count()
    }
}
