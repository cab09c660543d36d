//! The page as text. What it does in a browser is checked by `scripts/browser-test`.

use std::io::Read as _;

use pervade_report::*;
use serde_json::Value;

/// The text between `start` and the next `end`.
fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let from = text.find(start).unwrap_or_else(|| panic!("no {start}")) + start.len();
    &text[from..from + text[from..].find(end).unwrap()]
}

fn block<'a>(html: &'a str, kind: &str, id: &str) -> &'a str {
    between(html, &format!(r#"<script type="{kind}" id="{id}">"#), "</script>")
}

fn data(html: &str) -> Value {
    serde_json::from_str(block(html, "application/json", "content")).unwrap()
}

fn unpacked(base64: &str) -> Vec<u8> {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bits, mut n_bits, mut bytes) = (0_u32, 0, Vec::new());
    for c in base64.bytes().filter(|&c| c != b'=') {
        bits = bits << 6 | alphabet.iter().position(|&a| a == c).unwrap() as u32;
        n_bits += 6;
        if n_bits >= 8 {
            n_bits -= 8;
            bytes.push((bits >> n_bits) as u8);
        }
    }
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(bytes.as_slice()).read_to_end(&mut unpacked).unwrap();
    unpacked
}

fn spiral(n: usize, k: u32) -> Map {
    // Multiples of an irrational number: spread evenly, and nothing that gzip could shorten.
    let share = |i: usize, step: f64| (i as f64 * step).fract() as f32;
    Map {
        points: (0..n)
            .map(|i| [share(i, 0.618_033_988_75) * 80.0, share(i, 0.754_877_666_25) * 60.0])
            .collect(),
        clusters: (0..n).map(|i| (share(i, 0.569_840_290_998) * k as f32) as u32).collect(),
        confidence: (0..n).map(|i| 1.0 - share(i, 0.414_213_562_373).powi(8)).collect(),
        ..Map::default()
    }
}

#[test]
fn the_same_content_gives_the_same_bytes() {
    let content = Content { title: "t".into(), map: Some(spiral(1000, 3)), ..Content::default() };
    assert_eq!(page(&content), page(&content.clone()));
}

#[test]
fn the_structure_of_the_page() {
    let html = page(&Content { title: "penguins".into(), map: Some(spiral(10, 2)), ..Content::default() });
    assert!(html.starts_with("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"));
    assert_eq!(between(&html, "<title>", "</title>"), "penguins · pervade report");
    assert_eq!(html.matches("<script").count(), 4, "three blocks of data, one script");
    assert_eq!(html.matches("</script").count(), 4);
    assert_eq!((html.matches("<style>").count(), html.matches("</style").count()), (1, 1));
    let keys: Vec<String> = data(&html).as_object().unwrap().keys().cloned().collect();
    let mut expected = [
        "title",
        "n_rows",
        "n_columns",
        "n_clusters",
        "verdict",
        "map",
        "clusters",
        "overlap",
        "between",
        "outliers",
        "number_sentences",
        "levels",
        "tree",
        "restarts",
        "curves",
        "provenance",
    ];
    expected.sort_unstable();
    assert_eq!(keys, expected);
}

#[test]
fn the_policy_allows_one_script_and_no_request() {
    let html = page(&Content::default());
    let policy = between(&html, "Content-Security-Policy\" content=\"", "\"");
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
    assert!(!policy.contains("unsafe") && !policy.contains("http") && !policy.contains('*'));
    // The one address is the name of SVG's namespace, which is never requested.
    assert_eq!(html.matches("http://").count() + html.matches("https://").count(), 1);
    assert_eq!(html.matches("http://www.w3.org/2000/svg").count(), 1);
    for forbidden in
        ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "fetch(", "import("]
    {
        assert!(!html.contains(forbidden), "{forbidden}");
    }
}

const HOSTILE: [&str; 7] = [
    "</script><img src=x onerror=alert(1)>",
    "</ScRiPt ><!--<script>",
    "\"'><b>&amp;",
    "\u{202e}rtl\u{202c} 👩‍👧",
    "nul\0 bell\u{7} \u{2028}\u{2029}",
    "{title} {} {{script}} $&",
    "</title></style>",
];

fn hostile_content() -> Content {
    let text = HOSTILE.join(" ");
    let example = || Example {
        row: Some(1),
        name: Some(text.clone()),
        cells: vec![(text.clone(), text.clone())],
        ..Example::default()
    };
    let column = Distinction {
        column: text.clone(),
        difference: 1.0,
        auc: 0.9,
        inside: text.clone(),
        outside: text.clone(),
        distribution: Distribution::Levels {
            names: vec![text.clone()],
            inside: vec![1.0],
            outside: vec![1.0],
            generated: vec![],
        },
    };
    let map = Map {
        names: vec![text.clone(); 10],
        columns: vec![MapColumn { name: text.clone(), levels: vec![text.clone()], values: vec![0.0; 10] }],
        ..spiral(10, 1)
    };
    Content {
        title: text.clone(),
        verdict: Verdict {
            sentences: vec![text.clone()],
            warnings: vec![text.clone()],
            next_steps: vec![text.clone()],
        },
        map: Some(map),
        clusters: vec![Cluster {
            name: Some(text.clone()),
            label: Some((text.clone(), 1.0)),
            columns: vec![column],
            typical: vec![example()],
            ..Cluster::default()
        }],
        number_sentences: vec![text.clone()],
        provenance: vec![(text.clone(), text.clone())],
        ..Content::default()
    }
}

#[test]
fn hostile_texts_stay_texts() {
    let content = hostile_content();
    let html = page(&content);
    assert_eq!(html.to_lowercase().matches("</script").count(), 4);
    assert_eq!(html.to_lowercase().matches("<script").count(), 4);
    for raw in ["<img", "<!--", "</title></style>", "<b>", "\0", "\u{7}", "\u{2028}", "\u{2029}"] {
        assert!(!html.contains(raw), "{raw:?} is on the page as it was given");
    }
    let data = data(&html);
    assert_eq!(data["title"], content.title, "the text survives");
    assert_eq!(data["clusters"][0]["typical"][0]["cells"][0][1], content.title);
    let names: Vec<String> =
        serde_json::from_slice(&unpacked(block(&html, "text/plain", "names-block"))).unwrap();
    assert_eq!(names, vec![content.title; 10]);
}

#[test]
fn an_empty_report() {
    let html = page(&Content::default());
    assert_eq!(between(&html, "<title>", "</title>"), "Clusters · pervade report");
    assert_eq!(data(&html)["map"], Value::Null);
    assert!(html.len() < 150_000, "style and script are {} bytes", html.len());
}

/// Reads the packed arrays back: name, and one number per point.
fn arrays(html: &str) -> Vec<(String, Vec<u32>)> {
    let header = &data(html)["map"];
    let n = header["n"].as_u64().unwrap() as usize;
    let bytes = unpacked(block(html, "text/plain", "map-block"));
    let mut offset = 0;
    let mut read = Vec::new();
    for array in header["arrays"].as_array().unwrap() {
        let width = array["width"].as_u64().unwrap() as usize;
        let value =
            |i: usize| (0..width).fold(0, |v, plane| v << 8 | u32::from(bytes[offset + plane * n + i]));
        read.push((array["name"].as_str().unwrap().to_string(), (0..n).map(value).collect()));
        offset += n * width;
    }
    assert_eq!(offset, bytes.len());
    read
}

#[test]
fn points_survive_packing() {
    let mut map = spiral(500, 4);
    map.rows = (0..500).map(|i| i * 3 + 1).collect();
    map.scores = (0..500).map(|i| i as f32).collect();
    let html = page(&Content { map: Some(map.clone()), ..Content::default() });
    let arrays = arrays(&html);
    let names: Vec<&str> = arrays.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["row", "x", "y", "cluster", "confidence", "score"]);
    assert_eq!(arrays[0].1[..3], [1, 3, 3], "differences of rows");
    assert_eq!(arrays[3].1, map.clusters);
    let range = |a: usize| {
        let values = || map.points.iter().map(|point| f64::from(point[a]));
        (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max))
    };
    let ((left, right), (bottom, top)) = (range(0), range(1));
    let unit = (right - left) / 65535.0;
    for (i, point) in map.points.iter().enumerate() {
        let x = left + f64::from(arrays[1].1[i]) * unit;
        let y = f64::midpoint(bottom, top) + (32767.5 - f64::from(arrays[2].1[i])) * unit;
        assert!((x - f64::from(point[0])).abs() <= unit && (y - f64::from(point[1])).abs() <= unit);
        assert!((arrays[4].1[i] as f32 / 254.0 - map.confidence[i]).abs() <= 0.5 / 254.0 + 1e-6);
    }
    assert_eq!((arrays[5].1[0], arrays[5].1[499]), (0, 254));
}

#[test]
fn a_hundred_thousand_rows_take_less_than_a_megabyte() {
    let mut map = spiral(100_000, 10);
    let html = page(&Content { map: Some(map.clone()), ..Content::default() });
    let bytes = block(&html, "text/plain", "map-block").len();
    assert!(bytes < 850_000, "{bytes} bytes");
    map.scores = map.confidence.iter().map(|c| -c).collect();
    let html = page(&Content { map: Some(map), ..Content::default() });
    let bytes = block(&html, "text/plain", "map-block").len();
    assert!(bytes < 1_000_000, "{bytes} bytes with scores");
}

/// Content in which little fits together.
fn broken_content() -> Content {
    let nan = f64::NAN;
    let picture = Some(Picture { width: 3, height: usize::MAX, channels: 3, pixels: vec![1; 4] });
    let example = Example {
        confidence: Some(nan),
        second: Some((99, nan)),
        picture: picture.clone(),
        ..Example::default()
    };
    let distribution = Distribution::Histogram {
        range: [nan, f64::INFINITY],
        labels: [String::new(), String::new()],
        inside: vec![f32::NAN; 3],
        outside: vec![f32::INFINITY; 2],
        generated: vec![],
    };
    let column = Distinction {
        column: String::new(),
        difference: nan,
        auc: f64::INFINITY,
        inside: String::new(),
        outside: String::new(),
        distribution,
    };
    let between = |clusters| Between { clusters, n_rows: 1, examples: vec![example.clone()] };
    Content {
        n_rows: usize::MAX,
        map: Some(Map {
            points: vec![[f32::MAX, f32::MIN], [f32::MIN, f32::MAX], [f32::INFINITY, 0.0]],
            clusters: vec![u32::MAX, 300, 2],
            confidence: vec![f32::NAN, 7.0, -1.0],
            scores: vec![f32::INFINITY; 3],
            columns: vec![
                MapColumn {
                    name: String::new(),
                    levels: vec!["a".into()],
                    values: vec![-1.0, f32::NAN, 1e30],
                },
                MapColumn { name: String::new(), levels: vec![], values: vec![f32::NAN; 3] },
                MapColumn { name: String::new(), levels: vec![], values: vec![] },
            ],
            rows: vec![5, 4, 3],
            names: vec!["one".into()],
        }),
        clusters: vec![Cluster {
            mean_confidence: nan,
            columns: vec![column],
            typical: vec![example.clone()],
            mean_picture: picture,
            ..Cluster::default()
        }],
        overlap: Overlap {
            mean_probabilities: vec![vec![1.0, 2.0], vec![]],
            between: vec![between([0, 0]), between([0, 9999]), between([7, 2])],
        },
        outliers: vec![Outlier { example, cluster: 12_345, score: nan, costs: vec![] }],
        levels: vec![Level { clusters: 0, modularity: nan, stability: Some(nan), chosen: true }],
        tree: Some(MergeTree {
            leaves: vec![Leaf::default(); 3],
            modularity: nan,
            merges: vec![(0, 1, nan), (1, 2, nan)],
            chosen: 2,
        }),
        restarts: Some(Restarts { ari: vec![vec![], vec![1.0]], stability: nan, outcome: String::new() }),
        curves: vec![Curve { lines: vec!["a".into()], values: vec![vec![nan], vec![]], ..Curve::default() }],
        ..Content::default()
    }
}

#[test]
fn what_does_not_fit_is_left_out() {
    let html = page(&broken_content());
    let data = data(&html);
    assert_eq!(data["n_clusters"], 301, "the largest cluster that can be drawn");
    assert_eq!(data["map"]["n"], 1);
    assert_eq!(data["overlap"], serde_json::json!([]));
    assert_eq!(data["between"].as_array().unwrap().len(), 1);
    assert_eq!(data["between"][0]["clusters"], serde_json::json!([2, 7]));
    assert_eq!(data["outliers"][0]["cluster"], Value::Null);
    assert_eq!(data["restarts"], Value::Null);
    assert_eq!(data["tree"], Value::Null, "leaf 1 is merged twice");
    assert_eq!(data["clusters"][0]["mean_picture"], Value::Null);
    assert_eq!(data["clusters"][0]["columns"][0]["distribution"]["shares"]["outside"], serde_json::json!([]));
}

#[test]
fn trees_are_whole() {
    let leaf = |component: usize| Leaf { component, n_rows: 7, cluster: component % 2 };
    let tree = MergeTree {
        leaves: (0..4).map(leaf).collect(),
        modularity: 0.1,
        merges: vec![(1, 3, 0.2), (0, 2, f64::NAN), (0, 1, 0.0)],
        chosen: 2,
    };
    let is_shown = |change: fn(&mut MergeTree)| {
        let mut tree = tree.clone();
        change(&mut tree);
        !data(&page(&Content { tree: Some(tree), ..Content::default() }))["tree"].is_null()
    };
    assert!(is_shown(|_| {}) && is_shown(|tree| tree.chosen = 4));
    assert!(!is_shown(|tree| tree.chosen = 0) && !is_shown(|tree| tree.chosen = 5));
    assert!(!is_shown(|tree| tree.merges.truncate(2)) && !is_shown(|tree| tree.leaves.clear()));
    assert!(!is_shown(|tree| tree.merges[2] = (0, usize::MAX, 0.0)));
    assert!(!is_shown(|tree| tree.merges[2] = (0, 3, 0.0)), "3 is part of 1");
}

#[test]
fn content_survives_a_file() {
    let content = Content {
        curves: vec![Curve {
            lines: vec!["a".into()],
            values: vec![vec![f64::NAN, 1.0]],
            ..Curve::default()
        }],
        ..broken_content()
    };
    let json = serde_json::to_string(&content).unwrap();
    let read: Content = serde_json::from_str(&json).unwrap();
    assert!(read.curves[0].values[0][0].is_nan());
    assert_eq!(serde_json::to_string(&read).unwrap(), json);
    assert_eq!(page(&read).len(), page(&content).len());
}

#[test]
fn the_page_of_an_explorer_is_the_report_with_more_scripts() {
    let hostile = "</script><script>alert(1)</script>\u{2028}";
    let content =
        Content { title: "t\0<b>".into(), n_rows: 3, map: Some(spiral(3, 2)), ..Content::default() };
    let state = serde_json::json!({"names": [hostile]});
    let (report, explorer) = (page(&content), ExplorerPage::new(&content));
    let html = explorer.html(&state);
    assert_eq!(data(&html), data(&report));
    let read: Value = serde_json::from_str(block(&html, "application/json", "explorer")).unwrap();
    assert_eq!(read, state);
    assert!(!html.contains("alert(1)</script>") && !html.contains('\0'));
    let policy = between(&html, "Content-Security-Policy\" content=\"", "\"");
    assert!(
        policy.contains("; connect-src 'self';") && policy.starts_with("default-src 'none';"),
        "{policy}"
    );
    assert!(
        !report.contains("connect-src")
            && !report.contains("id=\"explorer\"")
            && !report.contains("X-Pervade-Token")
    );
    let other = explorer.html(&serde_json::json!({}));
    assert_eq!(html.len() - block(&html, "application/json", "explorer").len(), other.len() - 2);
}
