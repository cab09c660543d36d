//! What is in the clusters: `describe`, `map`, `report` and `fit --report`.

use crate::common::{QUICK, Sandbox, digits, sample, two_groups};

const DATA: [&str; 3] = ["x.csv", "--labels", "column:y"];

/// Two groups that differ in the columns a and b, and a model of them.
fn groups() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("x.csv", two_groups(120));
    let fit = ["fit", "x.csv", "--labels", "column:y", "-k", "2", "--out", "m.pervade"];
    let trained =
        ["--hidden", "8", "--latents", "2", "--pretrain-epochs", "20", "--epochs", "2", "--device", "cpu"];
    sandbox.run(&[&fit[..], &trained].concat()).done();
    sandbox
}

fn penguins(flags: &[&str]) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("p.csv", std::fs::read(sample("penguins.csv")).unwrap());
    let fit = ["fit", "p.csv", "-k", "3", "--labels", "column:species", "--out", "m.pervade"];
    sandbox.run(&[&fit[..], &QUICK, flags].concat()).done();
    sandbox
}

/// AUC of a column by its definition.
fn direct_auc(cells: &[f64], clusters: &[u64], cluster: u64) -> f64 {
    let part = |own: bool| {
        let rows = cells.iter().zip(clusters).filter(move |(_, k)| (**k == cluster) == own);
        rows.map(|(&x, _)| x).collect::<Vec<f64>>()
    };
    let (inside, outside) = (part(true), part(false));
    let pairs = inside.iter().flat_map(|a| outside.iter().map(move |b| (a, b)));
    let points = pairs.map(|(a, b)| {
        if a > b {
            1.0
        } else if a == b {
            0.5
        } else {
            0.0
        }
    });
    points.sum::<f64>() / (inside.len() * outside.len()) as f64
}

#[test]
fn describe_finds_the_columns_that_differ() {
    let sandbox = groups();
    let base = [&["describe", "m.pervade"], &DATA[..]].concat();
    let found = sandbox.run(&[&base[..], &["--json"]].concat()).done().json();
    let assigned = sandbox.run(&[&["assign", "m.pervade"], &DATA[..], &["--json"]].concat()).done().json();
    let clusters: Vec<u64> =
        assigned["assignments"].as_array().unwrap().iter().map(|k| k.as_u64().unwrap()).collect();
    let text = String::from_utf8(sandbox.bytes("x.csv")).unwrap();
    let column = |j: usize| -> Vec<f64> {
        text.lines().skip(1).map(|line| line.split(',').nth(j).unwrap().parse().unwrap()).collect()
    };
    for (k, cluster) in found["clusters"].as_array().unwrap().iter().enumerate() {
        assert_eq!(cluster["n_rows"], assigned["occupancy"][k]);
        for (rank, entry) in cluster["columns"].as_array().unwrap().iter().enumerate() {
            let name = entry["name"].as_str().unwrap();
            assert!(rank > 1 || name != "c", "a and b differ, c does not: {cluster}");
            let cells = column(["a", "b", "c"].iter().position(|n| *n == name).unwrap());
            let expected = direct_auc(&cells, &clusters, k as u64);
            assert!((entry["auc"].as_f64().unwrap() - expected).abs() < 1e-6, "{entry}, {expected}");
        }
        let counts = cluster["confidence"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap());
        assert_eq!(counts.sum::<u64>(), cluster["n_rows"].as_u64().unwrap());
        let overlap: f64 = found["overlap"][k].as_array().unwrap().iter().map(|p| p.as_f64().unwrap()).sum();
        assert!((overlap - 1.0).abs() < 1e-5);
    }
    let text = sandbox.run(&[&base[..], &["--columns", "1"]].concat()).done().stdout;
    assert!(
        text.contains("Cluster 0: ") && text.contains("against") && text.contains("typical: row "),
        "{text}"
    );
    sandbox.run(&[&base[..], &["--out", "d.csv"]].concat()).done();
    let lines = String::from_utf8(sandbox.bytes("d.csv")).unwrap();
    assert!(lines.starts_with("cluster,column,difference,auc,inside,outside\n0,"), "{lines}");
    assert_eq!(lines.lines().count(), 1 + 2 * 3);
    let refused = sandbox.run(&[&base[..], &["--out", "d.npy"]].concat());
    assert_eq!(refused.status, 2, "{}", refused.stderr);
}

#[test]
fn categories_and_gaps_are_described_in_their_own_words() {
    let sandbox = penguins(&[]);
    let describe =
        ["describe", "m.pervade", "p.csv", "--labels", "column:species", "--json", "--columns", "99"];
    let found = sandbox.run(&describe).done().json();
    let columns = found["clusters"][0]["columns"].as_array().unwrap();
    let named = |name: &str| columns.iter().find(|column| column["name"] == name);
    let island = named("island: Biscoe").expect("an entry per level");
    assert!(
        island["inside"].as_str().unwrap().ends_with(" %") && island["distribution"]["levels"].is_object()
    );
    let sexes = ["female", "male"].map(|sex| named(&format!("sex: {sex}")).is_some());
    assert!(sexes[0] ^ sexes[1], "two levels say the same");
    let mass = named("body_mass_g").unwrap();
    assert!(mass["inside"].as_str().unwrap().parse::<u32>().is_ok(), "{mass}");
    let outlier = &found["outliers"][0];
    assert!(outlier["costs"][0]["nats"].as_f64().unwrap() > 0.0, "{outlier}");
}

#[test]
fn pages_and_maps_do_not_depend_on_threads() {
    let sandbox = penguins(&["--report", "fit.html"]);
    let both = ["m.pervade", "p.csv", "--labels", "column:species"];
    for threads in ["1", "2"] {
        for (command, ending) in
            [("report", "html"), ("map", "csv"), ("map", "png"), ("map", "svg"), ("map", "npy")]
        {
            let out = format!("{command}{threads}.{ending}");
            sandbox.run(&[&[command], &both[..], &["--threads", threads, "--out", &out]].concat()).done();
        }
    }
    for (command, ending) in
        [("report", "html"), ("map", "csv"), ("map", "png"), ("map", "svg"), ("map", "npy")]
    {
        let of = |threads: usize| sandbox.bytes(&format!("{command}{threads}.{ending}"));
        assert!(of(1) == of(2), "{command}.{ending}");
    }
    let map = String::from_utf8(sandbox.bytes("map1.csv")).unwrap();
    assert!(map.starts_with("cluster,x,y\n") && map.lines().count() == 345, "{map}");
    let page = String::from_utf8(sandbox.bytes("report1.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("island: "));
    assert!(String::from_utf8(sandbox.bytes("fit.html")).unwrap().contains("island: "));
    assert!(
        !page.contains(sandbox.path("p.csv").parent().unwrap().to_str().unwrap()),
        "no folders of the machine"
    );
}

#[test]
fn hostile_names_stay_text() {
    let sandbox = Sandbox::new();
    let hostile = "</script><script>alert(1)</script>";
    let text = two_groups(80).replacen("a,b,c,y", &format!("\"{hostile}\",\"q\"\"'&quot;\",🐧<!--,y"), 1);
    sandbox.write("x.csv", text);
    let fit = ["fit", "x.csv", "--labels", "column:y", "-k", "2", "--out", "m.pervade", "--report", "r.html"];
    sandbox.run(&[&fit[..], &QUICK].concat()).done();
    let page = String::from_utf8(sandbox.bytes("r.html")).unwrap();
    assert!(!page.contains(hostile) && !page.contains("🐧<!--"));
    assert!(page.contains("\\u003c/script\\u003e") && page.contains('🐧'));
    let text = sandbox.run(&["describe", "m.pervade", "x.csv", "--labels", "column:y"]).done().stdout;
    assert!(text.contains(hostile) && text.contains('🐧'), "as text it is what it is: {text}");
}

#[test]
fn tables_that_do_not_belong_to_the_model_are_refused() {
    let sandbox = groups();
    sandbox.write("other.csv", "a,b,z\n1,2,3\n4,5,6\n");
    sandbox.write("empty.csv", "a,b,c\n");
    let before = sandbox.files();
    for (command, out) in [("describe", "o.csv"), ("map", "o.csv"), ("report", "o.html")] {
        for data in ["other.csv", "empty.csv", "missing.csv"] {
            let ran = sandbox.run(&[command, "m.pervade", data, "--out", out]);
            assert_eq!(ran.status, 2, "{command} {data}: {}", ran.stderr);
            assert_eq!(sandbox.files(), before, "{command} {data}");
        }
    }
    let ran = sandbox.run(&[&["map", "m.pervade"], &DATA[..], &["--out", "o.txt"]].concat());
    assert_eq!((ran.status, sandbox.files()), (2, before.clone()), "{}", ran.stderr);
    sandbox.write("o.html", "my own notes");
    let ran = sandbox.run(&[&["report", "m.pervade"], &DATA[..], &["--out", "o.html"]].concat());
    assert!(ran.status == 2 && ran.stderr.contains("not an HTML page"), "{}", ran.stderr);
    let ran = sandbox.run(&[&["report", "m.pervade"], &DATA[..], &["--points", "50"]].concat()).done();
    assert!(ran.stderr.contains("a sample of 50 of the 120 rows"), "{}", ran.stderr);
    assert!(sandbox.files().contains(&"m.report.html".to_string()), "named after the model");
}

#[test]
fn a_page_of_pictures_has_pictures() {
    let sandbox = Sandbox::new();
    sandbox.fit_digits("m.pervade", &["--image", "8x8", "--report", "r.html", "--device", "cpu"]).done();
    let page = String::from_utf8(sandbox.bytes("r.html")).unwrap();
    assert!(page.matches("data:image/png;base64,").count() > 100, "typical, doubtful and generated digits");
    assert!(page.contains("mean_picture") && page.len() < 2_000_000, "{} bytes", page.len());
}

/// The JSON block of a page.
fn content(page: &str) -> serde_json::Value {
    let start = "<script type=\"application/json\" id=\"content\">";
    let from = page.find(start).unwrap() + start.len();
    serde_json::from_str(&page[from..from + page[from..].find("</script>").unwrap()]).unwrap()
}

#[test]
fn merges_lead_to_the_clusters() {
    let sandbox = Sandbox::new();
    // No plain methods are compared, so that the clusters come from merges.
    let fit = |out: &str, more: &[&str]| {
        let flags = ["--image", "8x8", "--choose", "elbo", "--device", "cpu"];
        sandbox.fit_digits(out, &[&flags[..], more].concat()).done();
        let about = sandbox.run(&["inspect", out, "--json"]).done().json();
        let labels = ["--labels", "column:last", "--image", "8x8"];
        let page = format!("{out}.html");
        let digits = digits();
        let report = ["report", out, digits.to_str().unwrap(), "--points", "50", "--out", &page];
        sandbox.run(&[&report[..], &labels].concat()).done();
        (about, content(&String::from_utf8(sandbox.bytes(&page)).unwrap()))
    };
    let (about, page) = fit("m.pervade", &["--components", "40"]);
    let (merges, tree) = (&about["record"]["merges"], &page["tree"]);
    let n_leaves = tree["leaves"].as_array().unwrap().len();
    assert_eq!(merges["merges"].as_array().unwrap().len(), n_leaves - 1, "down to one group");
    assert_eq!(tree["chosen"], about["n_clusters"]);
    let rows: u64 = merges["sizes"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum();
    assert_eq!(rows, about["n_rows"].as_u64().unwrap());
    let modularity = |i: usize| tree["merges"][i][2].as_f64().unwrap();
    let best = (0..n_leaves - 1).max_by(|&a, &b| modularity(a).total_cmp(&modularity(b))).unwrap();
    assert_eq!(merges["natural_clusters"], n_leaves - 1 - best, "where modularity is highest");
    assert!(modularity(n_leaves - 2).abs() < 1e-9, "one group has no modularity");
    let words = page["number_sentences"].to_string();
    assert!(
        words.contains("You asked for 10 clusters") && words.contains("modularity is highest with"),
        "{words}"
    );
    let (about, page) = fit("same.pervade", &["--recipe", "paper", "--components", "10"]);
    assert!(about["record"]["merges"].is_null() && page["tree"].is_null());
    assert!(
        page["number_sentences"].to_string().contains("nothing was merged"),
        "{}",
        page["number_sentences"]
    );
}

#[test]
fn each_pair_of_restarts_is_compared() {
    let sandbox = penguins(&["--restarts", "3", "--report", "r.html"]);
    let about = sandbox.run(&["inspect", "m.pervade", "--json"]).done().json();
    let page = content(&String::from_utf8(sandbox.bytes("r.html")).unwrap());
    let ari = &page["restarts"]["ari"];
    let value = |i: usize, j: usize| ari[i][j].as_f64().unwrap();
    let pairs = [(0, 1), (0, 2), (1, 2)].map(|(i, j)| {
        assert_eq!(value(i, j), value(j, i));
        value(i, j)
    });
    assert!((0..3).all(|i| value(i, i) == 1.0));
    let stability = about["stability"].as_f64().unwrap();
    assert!((pairs.iter().sum::<f64>() / 3.0 - stability).abs() < 1e-12, "{pairs:?} {stability}");
    assert_eq!(about["restarts"][1]["agreement"], ari[1]);
    let text = sandbox.run(&["inspect", "m.pervade"]).done().stdout;
    assert!(text.contains("ARI of restarts") && text.contains(&format!("{:.3}", pairs[0])), "{text}");
}
