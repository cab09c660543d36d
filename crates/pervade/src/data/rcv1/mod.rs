//! RCV1-v2 as LYRL2004 distributes it (Lewis et al., JMLR 5, 2004), prepared as DEC and VaDE did.
//!
//! Documents with exactly one of the four roots CCAT, ECAT, GCAT and MCAT are kept: 685,071 of 804,414.
//! The 2,000 most frequent terms among them are the columns. Token files give counts, which are weighted by tf-idf (see
//! [`weights`]); vector files give weights, which are rescaled because terms were left out. Either way a row has length
//! `sqrt(D)`.
//!
//! Every file is read twice, first for the terms and then for the rows, so that only one line is in memory at a time.

mod entries;
mod topics;
mod weights;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use self::entries::{Kind, Visitor};
use self::topics::Topics;
use super::dataset::{Dataset, Values};
use super::folder::{companion, find, sorted_files, wants_y};
use super::input_file::InputFile;
use super::labels::Labels;
use super::options::{ReadOptions, Table};
use super::sparse::SparseParts;
use crate::Result;

/// The number of terms that DEC and VaDE kept.
const MAX_TERMS: usize = 2000;
const TOPICS_FILE: &str = "rcv1-v2.topics.qrels";
/// The order of the rows, as in DEC: the training part of LYRL2004 comes last.
const PARTS: [&str; 5] = ["test_pt0", "test_pt1", "test_pt2", "test_pt3", "train"];
const WHOLE: &str = "RCV1-v2 is rcv1-v2.topics.qrels and either lyrl2004_tokens_{train,test_pt0,test_pt1,test_pt2,test_pt3}.dat \
                     or lyrl2004_vectors_ with the same endings";

/// Whether a folder has files of RCV1-v2, complete or not.
pub(super) fn is_folder(folder: &Path) -> bool {
    find(folder, TOPICS_FILE).is_some() || Kind::ALL.into_iter().any(|kind| has_any(folder, kind))
}

fn has_any(folder: &Path, kind: Kind) -> bool {
    let is_part = |path: PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(kind.prefix()))
    };
    sorted_files(folder).is_ok_and(|files| files.into_iter().any(is_part))
}

/// Reads the documents with one root; the roots are offered as `y`. If both kinds of file exist, tokens are read.
pub(super) fn read_folder(folder: &Path, options: &ReadOptions) -> Result<Table> {
    let location = folder.display().to_string();
    let wanted = wants_y(options, &location)?;
    let topics = Topics::read(&companion(folder, TOPICS_FILE, WHOLE)?)?;
    let kind = if has_any(folder, Kind::Tokens) || !has_any(folder, Kind::Vectors) {
        Kind::Tokens
    } else {
        Kind::Vectors
    };
    let name = |part: &str| format!("{}{part}.dat", kind.prefix());
    let open = |part: &&str| InputFile::open(&companion(folder, &name(part), WHOLE)?);
    let files: Vec<InputFile> = PARTS.iter().map(open).collect::<Result<_>>()?;

    let counted =
        over_parts(&files, kind, || Counting { topics: &topics, ids: Vec::new(), n_uses: HashMap::new() })?;
    let ids: Vec<u32> = counted.iter().flat_map(|part| part.ids.iter().copied()).collect();
    topics.check_complete(&ids, &location)?;
    let terms = most_frequent(counted.into_iter().map(|part| part.n_uses), kind);
    let column_of: HashMap<&str, u32> = (0..).zip(&terms).map(|(j, term)| (term.as_str(), j)).collect();

    let filled = over_parts(&files, kind, || Filling::new(&topics, &column_of))?;
    let mut parts = concatenate(filled.into_iter().map(|part| part.parts));
    weights::weigh(&mut parts, terms.len(), kind);
    let csr = parts.into_csr(ids.len(), terms.len(), &location)?;
    let labels = if wanted { Some(Labels::from_text(&topics.roots_of(&ids), &location)?) } else { None };
    let n_columns = terms.len();
    let data = Dataset::named(ids.len(), n_columns, Values::Csr(csr), location, Some(terms))?;
    Ok(Table::new(data, labels))
}

/// Visits all parts in parallel and returns the results in the order of the parts.
fn over_parts<V: Visitor + Send>(
    files: &[InputFile],
    kind: Kind,
    new: impl Fn() -> V + Sync,
) -> Result<Vec<V>> {
    let visit = |file: &InputFile| {
        let mut visitor = new();
        file.unless_changed(entries::visit(kind, file, file.location(), &mut visitor))?;
        Ok(visitor)
    };
    // Collected first, so that of several broken parts always the same one is reported.
    let visited: Vec<Result<V>> = files.par_iter().map(visit).collect();
    visited.into_iter().collect()
}

/// First pass: the documents, and how often each term is used.
struct Counting<'a> {
    topics: &'a Topics,
    ids: Vec<u32>,
    n_uses: HashMap<String, u64>,
}

impl Visitor for Counting<'_> {
    fn begin(&mut self, id: u32) -> bool {
        let wanted = self.topics.has_one_root(id);
        if wanted {
            self.ids.push(id);
        }
        wanted
    }

    fn term(&mut self, term: &str, _weight: f32) {
        match self.n_uses.get_mut(term) {
            Some(n) => *n += 1,
            None => _ = self.n_uses.insert(term.to_string(), 1),
        }
    }

    fn end(&mut self) {}
}

/// Second pass: the rows over the terms that were kept.
struct Filling<'a> {
    topics: &'a Topics,
    column_of: &'a HashMap<&'a str, u32>,
    /// Values of the current document; zero for terms not seen yet.
    weights: Vec<f32>,
    touched: Vec<u32>,
    parts: SparseParts,
}

impl<'a> Filling<'a> {
    fn new(topics: &'a Topics, column_of: &'a HashMap<&'a str, u32>) -> Self {
        let parts = SparseParts { starts: vec![0], indices: Vec::new(), values: Vec::new() };
        Self { topics, column_of, weights: vec![0.0; column_of.len()], touched: Vec::new(), parts }
    }
}

impl Visitor for Filling<'_> {
    fn begin(&mut self, id: u32) -> bool {
        self.topics.has_one_root(id)
    }

    fn term(&mut self, term: &str, weight: f32) {
        if let Some(&column) = self.column_of.get(term) {
            let sum = &mut self.weights[column as usize];
            if *sum == 0.0 {
                self.touched.push(column);
            }
            *sum += weight;
        }
    }

    fn end(&mut self) {
        self.touched.sort_unstable();
        for column in self.touched.drain(..) {
            self.parts.indices.push(column);
            self.parts.values.push(std::mem::take(&mut self.weights[column as usize]));
        }
        self.parts.starts.push(self.parts.indices.len());
    }
}

/// The most frequent terms in the order of the columns; ties go to the first in that order.
fn most_frequent(counts: impl Iterator<Item = HashMap<String, u64>>, kind: Kind) -> Vec<String> {
    let mut n_uses: HashMap<String, u64> = HashMap::new();
    for (term, n) in counts.flatten() {
        *n_uses.entry(term).or_default() += n;
    }
    let mut ranked: Vec<(String, u64)> = n_uses.into_iter().collect();
    ranked.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| kind.compare(&a.0, &b.0)));
    ranked.truncate(MAX_TERMS);
    let mut terms: Vec<String> = ranked.into_iter().map(|(term, _)| term).collect();
    terms.sort_unstable_by(|a, b| kind.compare(a, b));
    terms
}

/// The rows of all parts, concatenated.
fn concatenate(parts: impl Iterator<Item = SparseParts>) -> SparseParts {
    let mut all = SparseParts { starts: vec![0], indices: Vec::new(), values: Vec::new() };
    for part in parts {
        let n_before = all.indices.len();
        all.starts.extend(part.starts[1..].iter().map(|start| start + n_before));
        all.indices.extend(part.indices);
        all.values.extend(part.values);
    }
    all
}
