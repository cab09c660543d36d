//! The documents of LYRL2004's files: tokens under `.I ID` and `.W`, or vectors `ID TERM:WEIGHT ...`.

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::data::bytes::Source;
use crate::data::svmlight;
use crate::{Error, Result};

/// The two forms in which the documents are distributed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Stems in scrambled order, repeated as often as they occur.
    Tokens,
    /// Term ids and their weights (log tf-idf, cosine).
    Vectors,
}

impl Kind {
    pub(super) const ALL: [Kind; 2] = [Kind::Tokens, Kind::Vectors];

    /// How the file names start.
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Kind::Tokens => "lyrl2004_tokens_",
            Kind::Vectors => "lyrl2004_vectors_",
        }
    }

    /// The order of the columns: words as text, term ids by value.
    pub(super) fn compare(self, a: &str, b: &str) -> Ordering {
        match self {
            Kind::Tokens => a.cmp(b),
            Kind::Vectors => (a.len(), a).cmp(&(b.len(), b)),
        }
    }
}

/// A callback for the documents of a file.
pub(super) trait Visitor {
    /// A document begins; returns whether its terms are wanted.
    fn begin(&mut self, id: u32) -> bool;
    /// One occurrence of a term in it.
    fn term(&mut self, term: &str, weight: f32);
    /// A wanted document ends.
    fn end(&mut self);
}

/// Walks through a file, possibly compressed by gzip.
pub(super) fn visit(kind: Kind, bytes: &[u8], location: &str, visitor: &mut impl Visitor) -> Result<()> {
    let source = Source::of_bytes(bytes, location);
    match kind {
        Kind::Tokens => visit_tokens(source, location, visitor),
        Kind::Vectors => visit_vectors(source, location, visitor),
    }
}

/// The state of the parser in a token file.
#[derive(Clone, Copy)]
enum State {
    Start,
    /// After `.I`, before `.W`.
    Head {
        id: u32,
        is_wanted: bool,
    },
    Words {
        is_wanted: bool,
    },
}

fn visit_tokens(source: Source, location: &str, visitor: &mut impl Visitor) -> Result<()> {
    let mut state = State::Start;
    source.each_line(|number, line| {
        let broken = |what: &str| Error::data(location, format!("line {number}: {what}")).with_hint(DAMAGED);
        if let Some(rest) = line.strip_prefix(b".I") {
            if let State::Head { id, .. } = state {
                return Err(broken(&format!("document {id} has no `.W`")));
            }
            end_of(state, visitor);
            let id = std::str::from_utf8(rest).ok().and_then(|id| id.trim().parse().ok());
            let id =
                id.ok_or_else(|| broken(&format!("`{}` is not `.I ID`, such as `.I 2286`", brief(line))))?;
            state = State::Head { id, is_wanted: visitor.begin(id) };
            return Ok(());
        }
        if line.starts_with(b".W") {
            let State::Head { is_wanted, .. } = state else {
                return Err(broken("`.W` does not follow `.I`"));
            };
            state = State::Words { is_wanted };
            return Ok(());
        }
        match state {
            _ if line.trim_ascii().is_empty() => Ok(()),
            State::Start => Err(broken(&format!("`{}` comes before the first `.I`", brief(line)))),
            State::Head { id, .. } => {
                Err(broken(&format!("`{}` comes before the `.W` of document {id}", brief(line))))
            }
            State::Words { is_wanted: false } => Ok(()),
            State::Words { is_wanted: true } => {
                let text = std::str::from_utf8(line).map_err(|_| broken("the words are not UTF-8"))?;
                words(text, |word| visitor.term(word, 1.0));
                Ok(())
            }
        }
    })?;
    if let State::Head { id, .. } = state {
        return Err(Error::data(location, format!("the file ends before the `.W` of document {id}"))
            .with_hint(DAMAGED));
    }
    end_of(state, visitor);
    Ok(())
}

const DAMAGED: &str = "the file is cut short or damaged";

fn end_of(state: State, visitor: &mut impl Visitor) {
    if let State::Words { is_wanted: true } = state {
        visitor.end();
    }
}

/// The words of a line as scikit-learn's `CountVectorizer` finds them: in lower case, runs of at least two letters,
/// digits or underscores.
fn words(line: &str, mut each: impl FnMut(&str)) {
    let is_small = line.bytes().all(|b| b.is_ascii() && !b.is_ascii_uppercase());
    let line = if is_small { Cow::Borrowed(line) } else { Cow::Owned(line.to_lowercase()) };
    line.split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|word| word.chars().nth(1).is_some())
        .for_each(&mut each);
}

fn visit_vectors(source: Source, location: &str, visitor: &mut impl Visitor) -> Result<()> {
    source.each_line(|number, line| {
        let broken =
            |what: String| Error::data(location, format!("line {number}: {what}")).with_hint(DAMAGED);
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let Some(id) = words.next() else { return Ok(()) };
        let id = std::str::from_utf8(id).ok().and_then(|id| id.parse().ok());
        let id = id.ok_or_else(|| {
            broken(format!("`{}` does not start with the number of a document", brief(line)))
        })?;
        if !visitor.begin(id) {
            return Ok(());
        }
        for word in words {
            let entry = svmlight::entry(word).filter(|(_, weight)| weight.is_finite() && *weight > 0.0);
            let (term, weight) = entry.ok_or_else(|| {
                broken(format!("`{}` is not `TERM:WEIGHT` with a weight above 0", brief(word)))
            })?;
            visitor.term(&term.to_string(), weight);
        }
        visitor.end();
        Ok(())
    })
}

fn brief(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().take(40).collect()
}
