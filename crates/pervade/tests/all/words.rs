//! The vocabulary of source code, kernels, scripts and documentation: words and phrases that are to be replaced by the
//! terms of the field, with a suggestion for each.

use std::path::{Path, PathBuf};

/// A word or phrase to avoid, in lower case.
struct Rule {
    phrase: &'static str,
    suggestion: &'static str,
    /// Phrases that contain it and are fine.
    allowed: &'static [&'static str],
    scope: Scope,
}

#[derive(PartialEq)]
enum Scope {
    /// Code, comments, text.
    Everywhere,
    /// Identifiers only: neither comments nor string literals.
    Identifiers,
}

const fn avoid(phrase: &'static str, suggestion: &'static str) -> Rule {
    Rule { phrase, suggestion, allowed: &[], scope: Scope::Everywhere }
}

const IN_PLACE: &[&str] = &["in place", "in_place", "take place", "takes place", "took place"];

const RULES: &[Rule] = &[
    Rule { allowed: IN_PLACE, ..avoid("place", "index, row, position, offset, slot or location") },
    Rule { allowed: &["decimal places"], ..avoid("places", "indices, rows, positions, offsets or slots") },
    Rule { scope: Scope::Identifiers, ..avoid("told", "summary, or another noun") },
    avoid("at the most", "at most"),
    avoid("at the least", "at least"),
    avoid("of equals", "ties go to the first"),
    avoid("the way back", "the backward pass"),
    avoid("nought", "zero"),
    avoid("noughts", "zeros"),
    avoid("obey", "apply_control, or follow"),
    Rule { scope: Scope::Identifiers, ..avoid("asking", "with_interrupt") },
    avoid("who looks", "callback with access to the model after each epoch"),
    avoid("a line a", "one line per"),
    avoid("a key a", "one key per"),
    avoid("a colour a", "one colour per"),
    avoid("one set a", "one set per"),
    avoid("one list a", "one list per"),
    avoid("rows a step", "rows per step"),
    avoid("nats a row", "nats per row"),
    avoid("none of none", "None if empty"),
    avoid("an own", "our own"),
    avoid("bend", "activate, activation"),
    avoid("bends", "activates"),
    avoid("bent", "activated"),
];

/// Folders below the root of the repository whose files are checked, in addition to the Markdown files there.
const FOLDERS: [&str; 6] = ["crates", "docs", "fuzz", "python", "scripts", "testdata/oracle"];
const EXTENSIONS: [&str; 9] = ["cu", "md", "py", "pyi", "rs", "sh", "toml", "yaml", "yml"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn files() -> Vec<PathBuf> {
    fn collect(folder: &Path, is_deep: bool, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let is_skipped = name.starts_with('.') || ["target", "__pycache__", "corpus"].contains(&&*name);
            if path.is_dir() && is_deep && !is_skipped {
                collect(&path, true, found);
            }
            let is_script = path.parent().is_some_and(|parent| parent.ends_with("scripts"));
            let is_text = path.extension().map_or(is_script, |e| EXTENSIONS.contains(&&*e.to_string_lossy()));
            if path.is_file() && is_text && !is_skipped && !path.ends_with("tests/all/words.rs") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    collect(&root(), false, &mut found);
    FOLDERS.iter().for_each(|folder| collect(&root().join(folder), true, &mut found));
    found.sort();
    assert!(found.len() > 300, "only {} files below {}", found.len(), root().display());
    found
}

/// The lines of a file to check: all of them, but of the changelog only the unreleased part.
fn lines(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let is_released = |line: &str| {
        path.ends_with("CHANGELOG.md") && line.starts_with("## ") && !line.contains("unreleased")
    };
    text.lines().take_while(|line| !is_released(line)).map(str::to_lowercase).collect()
}

/// The line without its indentation and the signs that start a comment, a list or a quotation.
fn without_leader(line: &str) -> &str {
    line.trim().trim_start_matches(['/', '!', '#', '*', '-', '>', '|', '"']).trim_start()
}

/// The line without string literals and without a comment at its end; empty if it is a comment. Approximate: it does not
/// know raw strings and literals that span lines.
fn identifiers(line: &str, comment: &str) -> String {
    let mut code = String::new();
    let mut is_string = false;
    let mut previous = ' ';
    for character in line.chars() {
        if character == '"' && previous != '\\' && previous != '\'' {
            is_string = !is_string;
        } else if !is_string {
            code.push(character);
        }
        previous = character;
    }
    code.split(comment).next().unwrap_or("").to_string()
}

/// Offsets of `phrase` in `text` as whole words; an underscore separates words, too.
fn occurrences(text: &str, phrase: &str) -> Vec<usize> {
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let is_whole = |&(at, _): &(usize, &str)| {
        !is_word(text[..at].chars().next_back()) && !is_word(text[at + phrase.len()..].chars().next())
    };
    text.match_indices(phrase).filter(is_whole).map(|(at, _)| at).collect()
}

fn is_allowed(text: &str, at: usize, rule: &Rule) -> bool {
    rule.allowed.iter().any(|allowed| {
        let inside = allowed.find(rule.phrase).unwrap();
        at.checked_sub(inside).is_some_and(|start| text[start..].starts_with(allowed))
    })
}

/// Indices of the lines that break the rule. Phrases are found across line breaks.
fn violations(rule: &Rule, lines: &[String], comment: &str) -> Vec<usize> {
    let (mut text, mut starts) = (String::new(), Vec::new());
    for line in lines {
        starts.push(text.len());
        match rule.scope {
            Scope::Everywhere => text.push_str(without_leader(line)),
            Scope::Identifiers => text.push_str(&identifiers(line, comment)),
        }
        text.push(' ');
    }
    let found = occurrences(&text, rule.phrase).into_iter().filter(|&at| !is_allowed(&text, at, rule));
    let mut lines: Vec<usize> = found.map(|at| starts.partition_point(|&start| start <= at) - 1).collect();
    lines.dedup();
    lines
}

#[test]
fn words_are_the_terms_of_the_field() {
    let mut found = Vec::new();
    for path in files() {
        let lines = lines(&path);
        let is_prose = path.extension().is_some_and(|e| e == "md");
        let comment = if path.extension().is_some_and(|e| e == "rs" || e == "cu") { "//" } else { "#" };
        for rule in RULES.iter().filter(|rule| !is_prose || rule.scope == Scope::Everywhere) {
            for line in violations(rule, &lines, comment) {
                let name = path.strip_prefix(root()).unwrap().display().to_string();
                found.push(format!("{name}:{}: `{}`, better {}", line + 1, rule.phrase, rule.suggestion));
            }
        }
    }
    assert!(found.is_empty(), "{} words to replace:\n{}", found.len(), found.join("\n"));
}

#[test]
fn rules_find_whole_words_across_lines() {
    let find = |phrase: &str, text: &str| {
        let rule = RULES.iter().find(|rule| rule.phrase == phrase).unwrap();
        let lines: Vec<String> = text.lines().map(str::to_lowercase).collect();
        violations(rule, &lines, "//")
    };
    assert_eq!(find("place", "let place = 1;\n// Place it.\nfn place_of() {}"), [0, 1, 2]);
    assert!(
        find("place", "replaced in place, fn in_place(), a placeholder\n// read in\n// place").is_empty()
    );
    assert_eq!(find("at the most", "/// Rows at the\n    /// most."), [0]);
    assert_eq!(find("asking", "pub fn fit_asking() {}"), [0]);
    assert_eq!(find("told", "let told = \"told\"; // told\n/// Told apart.\nfoo(told)"), [0, 2]);
    assert!(find("bent", "a bento box").is_empty());
}
