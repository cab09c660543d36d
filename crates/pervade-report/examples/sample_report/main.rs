//! Writes reports about made-up data to a folder, for `scripts/browser-test` and for looking at:
//! `cargo run --release -p pervade-report --example sample_report -- target/browser/samples`.
//!
//! Nothing here is computed by a model; numbers are drawn so that every part of the page has something to show.

mod parts;

use std::path::Path;

use parts::*;
use pervade_report::*;

fn main() -> std::io::Result<()> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "target/browser/samples".to_string());
    std::fs::create_dir_all(&folder)?;
    let samples = [
        ("mixed", mixed()),
        ("pictures", pictures()),
        ("terms", terms()),
        ("hostile", hostile()),
        ("broken", broken()),
        ("many", many()),
        ("million", million()),
        ("small", small()),
        ("empty", Content::default()),
    ];
    for (name, content) in samples {
        std::fs::write(Path::new(&folder).join(format!("{name}.html")), page(&content))?;
    }
    Ok(())
}

/// Numbers, categories and gaps.
fn mixed() -> Content {
    let random = &mut Random(1);
    let (n, k) = (1200, 5);
    let mut map = map(n, k, random);
    map.names = (0..n).map(|i| format!("N{}A{}", i / 2, i % 2 + 1)).collect();
    let mass =
        (0..n).map(|i| if i % 17 == 0 { f32::NAN } else { 3500.0 + 40.0 * map.points[i][0] }).collect();
    map.columns.push(MapColumn { name: "body_mass_g".to_string(), levels: Vec::new(), values: mass });
    let island = (0..n).map(|i| (map.clusters[i] % 3) as f32).collect();
    map.columns.push(MapColumn {
        name: "island".to_string(),
        levels: ISLANDS[..3].iter().map(ToString::to_string).collect(),
        values: island,
    });
    let cluster = |(j, n_rows): (usize, usize)| {
        let mut columns: Vec<Distinction> =
            MEASURES.iter().map(|name| number_column(name, j, random)).collect();
        columns.push(level_column("island", &ISLANDS, random));
        columns.push(level_column("sex", &["female", "male"], random));
        Cluster {
            name: (j == 1).then(|| "Gentoo, females".to_string()),
            label: (j != 2).then(|| (ISLANDS[j].to_string(), 0.2 * (j + 1) as f64)),
            n_rows,
            confidence: confidence_counts(n_rows, random),
            mean_confidence: 0.9 + 0.09 * random.uniform(),
            columns,
            typical: examples(5, true, k, random),
            doubtful: examples(5, false, k, random),
            generated: generated(5, random),
            mean_picture: None,
        }
    };
    let clusters = sizes(&map, k).into_iter().enumerate().map(cluster).collect();
    let outliers = (0..6).map(|i| outlier(i, k, random)).collect();
    Content {
        title: "penguins.csv".to_string(),
        n_rows: n,
        n_columns: 6,
        verdict: verdict(),
        map: Some(map),
        clusters,
        overlap: overlap(k, random),
        outliers,
        number_sentences: vec!["5 clusters were picked; modularity is highest with 6.".to_string()],
        levels: levels(k),
        tree: Some(tree(k, 6, random)),
        restarts: Some(restarts(6, random)),
        curves: curves(random),
        provenance: provenance(),
    }
}

fn verdict() -> Verdict {
    let list = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
    Verdict {
        sentences: list(&[
            "5 clusters in 1,200 rows. Six restarts agree well (ARI 0.93): the grouping does not depend on chance.",
            "97 % of the rows belong clearly to one cluster; 38 rows lie between two.",
        ]),
        warnings: list(&["Column `sex` is missing in 9 % of the rows; gaps are filled in by the model."]),
        next_steps: list(&[
            "Look at the doubtful rows of cluster 3.",
            "Assign new rows: `pervade assign penguins.pervade new.csv`",
            "Compare with fewer clusters: `pervade fit penguins.csv --clusters 3`",
        ]),
    }
}

fn outlier(i: usize, k: usize, random: &mut Random) -> Outlier {
    let cost = |name: &str, nats: f64| (name.to_string(), "999".to_string(), "42.1".to_string(), nats);
    Outlier {
        example: examples(1, true, k, random).remove(0),
        cluster: random.below(k),
        score: -480.0 + 60.0 * i as f64,
        costs: vec![cost("flipper_length_mm", 310.5 - 40.0 * i as f64), cost("body_mass_g", 12.25)],
    }
}

/// A ring, a bar or both, different for each cluster, with some noise.
fn picture(cluster: usize, noise: f64, random: &mut Random) -> Picture {
    let mut pixels = Vec::new();
    for y in 0..16 {
        for x in 0..16 {
            let (dx, dy) = (f64::from(x) - 7.5, f64::from(y) - 7.5);
            let ring = (dx.hypot(dy) - 2.5 - (cluster % 3) as f64 * 1.5).abs() < 1.2;
            let angle = cluster as f64 * 0.6;
            let bar = (dx * angle.cos() + dy * angle.sin()).abs() < 1.2 && !cluster.is_multiple_of(4);
            let value = if ring || bar { 220.0 } else { 12.0 } + noise * random.normal() * 40.0;
            pixels.push(value.clamp(0.0, 255.0) as u8);
        }
    }
    Picture { width: 16, height: 16, channels: 1, pixels }
}

fn pictures() -> Content {
    let random = &mut Random(2);
    let (n, k) = (20_000, 10);
    let map = map(n, k, random);
    let rows = |cluster: usize, noise: f64, confident: bool, random: &mut Random| -> Vec<Example> {
        let with_picture = |mut example: Example| {
            example.cells.clear();
            example.name = None;
            example.picture = Some(picture(cluster, noise, random));
            example
        };
        examples(10, confident, k, &mut Random(cluster as u64)).into_iter().map(with_picture).collect()
    };
    let cluster = |(j, n_rows): (usize, usize)| Cluster {
        n_rows,
        confidence: confidence_counts(n_rows, random),
        mean_confidence: 0.95,
        typical: rows(j, 0.2, true, random),
        doubtful: rows(j, 1.4, false, random),
        generated: rows(j, 0.05, true, random)
            .into_iter()
            .map(|e| Example { picture: e.picture, ..Example::default() })
            .collect(),
        mean_picture: Some(picture(j, 0.0, random)),
        ..Cluster::default()
    };
    let clusters = sizes(&map, k).into_iter().enumerate().map(cluster).collect();
    let mut overlap = overlap(k, random);
    for pair in &mut overlap.between {
        pair.examples = rows(pair.clusters[0], 1.0, false, random);
    }
    let outliers = (0..6).map(|i| Outlier {
        example: rows(i, 2.0, false, random).remove(0),
        costs: Vec::new(),
        ..outlier(i, k, random)
    });
    Content {
        title: "digits".to_string(),
        n_rows: n,
        n_columns: 256,
        verdict: Verdict {
            sentences: vec!["10 clusters in 20,000 pictures of 16 x 16 pixels.".to_string()],
            ..Verdict::default()
        },
        map: Some(map),
        clusters,
        outliers: outliers.collect(),
        overlap,
        curves: curves(random),
        provenance: provenance(),
        ..Content::default()
    }
}

const WORDS: [&str; 16] = [
    "market",
    "shares",
    "goal",
    "season",
    "minister",
    "vote",
    "galaxy",
    "orbit",
    "protein",
    "cell",
    "guitar",
    "album",
    "recipe",
    "flour",
    "processor",
    "compiler",
];

fn term(word: &str, top: bool, random: &mut Random) -> Distinction {
    let share = if top { 0.5 + 0.45 * random.uniform() } else { 0.2 + 0.2 * random.uniform() };
    let outside = 0.08 * random.uniform();
    Distinction {
        column: word.to_string(),
        difference: 3.0 * share,
        auc: 0.5 + share / 2.0,
        inside: format!("{:.2}", share * 2.2),
        outside: format!("{outside:.2}"),
        distribution: Distribution::Term {
            inside: [share, share * (1.0 + random.uniform())],
            outside: [outside, outside * 1.1],
            log_odds: (share / (1.0 - share)).ln() - (outside / (1.0 - outside)).ln(),
        },
    }
}

fn terms() -> Content {
    let random = &mut Random(3);
    let (n, k) = (60_000, 12);
    let map = map(n, k, random);
    let cluster = |(j, n_rows): (usize, usize)| Cluster {
        n_rows,
        confidence: confidence_counts(n_rows, random),
        mean_confidence: 0.88,
        columns: (0..8).map(|i| term(WORDS[(j + i * 5) % 16], i < 4, random)).collect(),
        typical: examples(4, true, k, random),
        ..Cluster::default()
    };
    let clusters = sizes(&map, k).into_iter().enumerate().map(cluster).collect();
    Content {
        title: "Articles of a newspaper".to_string(),
        n_rows: n,
        n_columns: 20_000,
        verdict: Verdict {
            sentences: vec!["12 clusters in 60,000 documents.".to_string()],
            ..Verdict::default()
        },
        map: Some(map),
        clusters,
        overlap: overlap(k, random),
        tree: Some(tree(k, 20, random)),
        restarts: Some(restarts(20, random)),
        provenance: provenance(),
        ..Content::default()
    }
}

/// Every text of the page tries to be something else.
fn hostile() -> Content {
    let texts = [
        "</script><script>window.attacked=1</script>",
        "<img src=x onerror=\"window.attacked=1\">",
        "\"><svg onload=window.attacked=1>",
        "<!--<script>",
        "javascript:window.attacked=1",
        "\u{202e}right to left\u{202c}",
        "a\0b\u{1}c\u{2028}d\u{2029}e",
        "👩‍👩‍👧‍👦 café ẞ 中文",
        "{{title}} ${1+1} `code` $& %s",
        "=HYPERLINK(\"x\")",
        "",
    ];
    let mut content = mixed();
    let mut next = 0;
    let mut text = || {
        next += 1;
        format!(
            "{}{}",
            texts[next % texts.len()],
            if next % 13 == 0 { "W".repeat(300) } else { String::new() }
        )
    };
    content.title = texts[0].to_string() + texts[5] + texts[6];
    content.verdict = Verdict {
        sentences: (0..11).map(|_| text()).collect(),
        warnings: (0..3).map(|_| text()).collect(),
        next_steps: (0..3).map(|_| text()).collect(),
    };
    content.number_sentences = vec![text(), text()];
    if let Some(map) = &mut content.map {
        map.names.iter_mut().for_each(|name| *name = text());
        map.columns.iter_mut().for_each(|column| column.name = text());
        map.columns[1].levels.iter_mut().for_each(|level| *level = text());
    }
    for cluster in &mut content.clusters {
        cluster.name = Some(text());
        cluster.label = Some((text(), 0.5));
        for column in &mut cluster.columns {
            (column.column, column.inside, column.outside) = (text(), text(), text());
            match &mut column.distribution {
                Distribution::Histogram { labels, .. } => *labels = [text(), text()],
                Distribution::Levels { names, .. } => names.iter_mut().for_each(|name| *name = text()),
                Distribution::Term { .. } => {}
            }
        }
        for example in cluster.typical.iter_mut().chain(&mut cluster.doubtful).chain(&mut cluster.generated) {
            example.name = Some(text());
            example.cells.iter_mut().for_each(|cell| *cell = (text(), text()));
        }
    }
    for outlier in &mut content.outliers {
        outlier.costs.iter_mut().for_each(|cost| *cost = (text(), text(), text(), f64::NAN));
    }
    for curve in &mut content.curves {
        (curve.name, curve.unit) = (text(), text());
        curve.lines.iter_mut().for_each(|line| *line = text());
    }
    content.provenance.iter_mut().for_each(|item| *item = (text(), text()));
    content
}

/// Numbers that are none, and lists that do not belong together.
fn broken() -> Content {
    let mut content = mixed();
    for cluster in &mut content.clusters {
        cluster.mean_confidence = f64::NAN;
        cluster.confidence = [0; 10];
        for column in &mut cluster.columns {
            (column.difference, column.auc) = (f64::NAN, f64::INFINITY);
            match &mut column.distribution {
                Distribution::Histogram { inside, outside, generated, .. } => {
                    inside.fill(f32::NAN);
                    outside.truncate(3);
                    generated.clear();
                }
                Distribution::Levels { names, .. } => names.clear(),
                Distribution::Term { .. } => {}
            }
        }
        for example in cluster.typical.iter_mut().chain(&mut cluster.doubtful) {
            (example.confidence, example.second) = (Some(f64::NAN), Some((77, f64::NAN)));
            example.cells.truncate(1);
        }
    }
    content.overlap.mean_probabilities[0].fill(f64::NAN);
    content.outliers.iter_mut().for_each(|outlier| (outlier.cluster, outlier.score) = (99, f64::NAN));
    content.levels.iter_mut().for_each(|level| level.modularity = f64::NAN);
    if let Some(tree) = &mut content.tree {
        tree.modularity = f64::NAN;
        tree.merges.iter_mut().for_each(|merge| merge.2 = f64::NAN);
        tree.leaves.iter_mut().for_each(|leaf| leaf.cluster += 1000);
    }
    content.curves[0].values.truncate(1);
    content.curves[1].values[0].fill(f64::NAN);
    if let Some(map) = &mut content.map {
        map.confidence.pop();
        map.scores.fill(f32::NAN);
        map.columns[0].values.fill(f32::INFINITY);
    }
    content
}

/// More clusters than colours, and than a matrix can show.
fn many() -> Content {
    let random = &mut Random(5);
    let (n, k) = (100_000, 80);
    let map = map(n, k, random);
    let cluster = |n_rows| Cluster {
        n_rows,
        confidence: confidence_counts(n_rows, random),
        mean_confidence: 0.8,
        columns: vec![number_column("length", 1, random)],
        ..Cluster::default()
    };
    let clusters = sizes(&map, k).into_iter().map(cluster).collect();
    Content {
        title: "Eighty clusters".to_string(),
        n_rows: n,
        n_columns: 30,
        map: Some(map),
        clusters,
        overlap: overlap(k, random),
        ..Content::default()
    }
}

fn million() -> Content {
    let random = &mut Random(4);
    let (n, k) = (1_000_000, 20);
    let map = map(n, k, random);
    let cluster = |n_rows| Cluster {
        n_rows,
        confidence: confidence_counts(n_rows, random),
        mean_confidence: 0.97,
        ..Cluster::default()
    };
    let clusters = sizes(&map, k).into_iter().map(cluster).collect();
    Content {
        title: "A million rows".to_string(),
        n_rows: n,
        n_columns: 50,
        verdict: Verdict {
            sentences: vec!["20 clusters in 1,000,000 rows.".to_string()],
            ..Verdict::default()
        },
        map: Some(map),
        clusters,
        ..Content::default()
    }
}

/// One cluster and three rows, one of them nowhere.
fn small() -> Content {
    let map = Map {
        points: vec![[1.0, 1.0], [f32::NAN, 0.0], [2.0, 1.5]],
        clusters: vec![0; 3],
        confidence: vec![f32::NAN; 3],
        ..Map::default()
    };
    Content {
        title: "three rows".to_string(),
        n_rows: 3,
        n_columns: 1,
        verdict: Verdict {
            warnings: vec!["3 rows are too few for clusters.".to_string()],
            ..Verdict::default()
        },
        map: Some(map),
        clusters: vec![Cluster { n_rows: 3, mean_confidence: f64::NAN, ..Cluster::default() }],
        levels: vec![Level { clusters: 1, modularity: f64::NAN, stability: None, chosen: true }],
        curves: vec![Curve { lines: vec!["a".into()], values: vec![vec![], vec![1.0]], ..Curve::default() }],
        ..Content::default()
    }
}
