//! Puts style, script and data into one page.
//!
//! Texts of the data reach the page in two ways only: escaped in its title, and inside a JSON block in which no
//! character can end the block. The script inserts them as text, never as HTML, and the security policy allows no
//! script but the one whose hash it names, and no request at all.

use crate::Content;
use crate::encode::base64;
use crate::packed_map::pack;
use crate::sha256::sha256;
use crate::view::View;

const STYLE: [&str; 4] = [
    include_str!("../page/base.css"),
    include_str!("../page/map.css"),
    include_str!("../page/sections.css"),
    include_str!("../page/print.css"),
];

/// In the order of use; all share one closure.
const SCRIPT: [&str; 14] = [
    include_str!("../page/dom.js"),
    include_str!("../page/colors.js"),
    include_str!("../page/download.js"),
    include_str!("../page/tables.js"),
    include_str!("../page/charts.js"),
    include_str!("../page/points.js"),
    include_str!("../page/raster.js"),
    include_str!("../page/map.js"),
    include_str!("../page/map-input.js"),
    include_str!("../page/selection.js"),
    include_str!("../page/cards.js"),
    include_str!("../page/number.js"),
    include_str!("../page/sections.js"),
    include_str!("../page/layout.js"),
];

const MAIN: &str = include_str!("../page/main.js");

/// The report as one HTML file that needs nothing else. Any content gives a page: sections without data are left out,
/// and so are values that do not fit together. The same content gives the same bytes.
pub fn page(content: &Content) -> String {
    let parts = Parts {
        style: joined(&STYLE),
        script: joined(&SCRIPT) + &joined(&[MAIN]),
        requests: "",
        kind: "report",
        without_script: "This report is drawn by a script inside the file; please allow it. It makes no request.",
        block: "",
    };
    document(content, &parts)
}

/// What differs between a report and the page of an explorer.
pub(crate) struct Parts<'a> {
    pub(crate) style: String,
    pub(crate) script: String,
    /// The part of the security policy that allows requests.
    pub(crate) requests: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) without_script: &'a str,
    /// One more block of data.
    pub(crate) block: &'a str,
}

/// The report's style and script, without the part that puts the page together.
pub(crate) fn shared() -> (String, String) {
    (joined(&STYLE), joined(&SCRIPT))
}

pub(crate) fn document(content: &Content, parts: &Parts<'_>) -> String {
    let map = content.map.as_ref().and_then(pack);
    let view = View::new(content, map.as_ref());
    let data = block_text(&serde_json::to_string(&view).unwrap_or_else(|_| "{}".to_string()));
    let (map_block, names_block) = map.as_ref().map_or(("", ""), |map| (&map.block, &map.names));
    let style = &parts.style;
    let script = format!("(() => {{\n\"use strict\";\n{}}})();\n", parts.script);
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; img-src data: blob:;{} base-uri 'none'; form-action 'none'",
        hash_source(&script),
        hash_source(style),
        parts.requests,
    );
    let title = if content.title.is_empty() { "Clusters".into() } else { html_text(&content.title) };
    format!(
        r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="generator" content="pervade {version}">
<link rel="icon" href="data:,">
<title>{title} · pervade {kind}</title>
<style>{style}</style>
</head>
<body>
<noscript>{without_script}</noscript>
<script type="application/json" id="content">{data}</script>
<script type="text/plain" id="map-block">{map_block}</script>
<script type="text/plain" id="names-block">{names_block}</script>
{block}<script>{script}</script>
</body>
</html>
"#,
        version = env!("CARGO_PKG_VERSION"),
        kind = parts.kind,
        without_script = parts.without_script,
        block = parts.block,
    )
}

/// A browser hashes what it parsed, in which each line ends with one character, whatever the checkout made of it.
pub(crate) fn joined(files: &[&str]) -> String {
    files.concat().replace("\r\n", "\n")
}

fn hash_source(text: &str) -> String {
    format!("sha256-{}", base64(&sha256(text.as_bytes())))
}

/// JSON that cannot end the block it stands in. These characters occur only in strings, where JSON can escape them.
pub(crate) fn block_text(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => text.push_str(&format!("\\u{:04x}", c as u32)),
            _ => text.push(c),
        }
    }
    text
}

/// For the title: no markup, no control characters, which HTML does not allow, and no line breaks.
fn html_text(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}
