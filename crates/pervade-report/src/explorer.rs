//! The page of an explorer: the report's page, with scripts that ask the server that sent it.

use serde::Serialize;
use serde_json::Value;

use crate::html::{Parts, block_text, document, joined, shared};
use crate::view;
use crate::{Content, Distinction, Example, Picture};

const STYLE: &str = include_str!("../page/explore/explore.css");

/// In the order of use, after those of the report.
const SCRIPT: [&str; 8] = [
    include_str!("../page/explore/ask.js"),
    include_str!("../page/explore/groups.js"),
    include_str!("../page/explore/selection.js"),
    include_str!("../page/explore/filter.js"),
    include_str!("../page/explore/rows.js"),
    include_str!("../page/explore/walk.js"),
    include_str!("../page/explore/names.js"),
    include_str!("../page/explore/main.js"),
];

/// Stands for the state while the rest of the page is made: no text of the data contains it.
const GAP: char = '\0';

/// The page of an explorer, without its state: making it takes long, adding the state does not.
pub struct ExplorerPage {
    before: String,
    after: String,
}

impl ExplorerPage {
    /// The page for some content. It makes requests to its own server, and to no other.
    pub fn new(content: &Content) -> Self {
        let (style, script) = shared();
        let parts = Parts {
            style: style + &joined(&[STYLE]),
            script: script + &joined(&SCRIPT),
            requests: " connect-src 'self';",
            kind: "explore",
            without_script: "This page is drawn by a script inside it; please allow it.",
            block: &format!("<script type=\"application/json\" id=\"explorer\">{GAP}</script>\n"),
        };
        let html = document(content, &parts);
        let (before, after) = html.split_once(GAP).unwrap_or((&html, ""));
        Self { before: before.to_string(), after: after.to_string() }
    }

    /// The page with a state, which its script reads as JSON.
    pub fn html(&self, state: &impl Serialize) -> String {
        let state = serde_json::to_string(state).unwrap_or_else(|_| "{}".to_string());
        [&self.before, block_text(&state).as_str(), &self.after].concat()
    }
}

/// Examples as the page's script reads them, for answers of a server.
pub fn examples_json(examples: &[Example], n_clusters: usize) -> Value {
    serde_json::to_value(view::example_views(examples, n_clusters)).unwrap_or_default()
}

/// Columns as the page's script reads them.
pub fn distinctions_json(columns: &[Distinction]) -> Value {
    serde_json::to_value(columns.iter().map(view::distinction_view).collect::<Vec<_>>()).unwrap_or_default()
}

/// A picture as the page's script reads it: a `data:` URL, null if it is none.
pub fn picture_json(picture: &Picture) -> Value {
    serde_json::to_value(crate::encode::picture_url(picture)).unwrap_or_default()
}
