//! Files of other tools: `export`, `card` and `fit --tensorboard`. The Python tests run the graphs and read the curves.

use crate::common::{QUICK, Sandbox, sample, two_groups};

fn penguins() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("p.csv", std::fs::read(sample("penguins.csv")).unwrap());
    let fit =
        ["fit", "p.csv", "-k", "3", "--labels", "column:species", "--out", "m.pervade", "--restarts", "3"];
    sandbox.run(&[&fit[..], &QUICK].concat()).done();
    sandbox
}

fn text(sandbox: &Sandbox, name: &str) -> String {
    String::from_utf8(sandbox.bytes(name)).unwrap()
}

#[test]
fn exports_do_not_depend_on_threads_and_say_what_they_take() {
    let sandbox = penguins();
    for threads in ["1", "2"] {
        let (onnx, card) = (format!("{threads}.onnx"), format!("{threads}.md"));
        let ran = sandbox.run(&["export", "m.pervade", "--onnx", &onnx, "--threads", threads]).done();
        assert!(ran.stderr.contains("island (string [batch, 1])"), "{}", ran.stderr);
        sandbox.run(&["card", "m.pervade", "--out", &card, "--threads", threads]).done();
    }
    assert_eq!(sandbox.bytes("1.onnx"), sandbox.bytes("2.onnx"));
    assert_eq!(sandbox.bytes("1.md"), sandbox.bytes("2.md"));
    let summary =
        sandbox.run(&["export", "m.pervade", "--onnx", "1.onnx", "--no-score", "--json"]).done().json();
    assert_eq!(
        (&summary["score"], &summary["inputs"][1]["type"]),
        (&serde_json::Value::Null, &"float64".into())
    );
    assert_eq!(summary["bytes"].as_u64().unwrap(), sandbox.bytes("1.onnx").len() as u64);
    assert!(sandbox.bytes("1.onnx").len() < sandbox.bytes("2.onnx").len());
}

#[test]
fn a_card_says_what_the_model_is() {
    let sandbox = penguins();
    let card = sandbox.run(&["card", "m.pervade"]).done().stdout;
    assert!(card.starts_with("---\nlibrary_name: pervade\n# license:"), "{card}");
    let inspected = sandbox.run(&["inspect", "m.pervade", "--json"]).done().json();
    let stability = format!("| stability | {:.4} |", inspected["stability"].as_f64().unwrap());
    let facts = [
        "- tabular\n",
        "Fitted to 344 rows and 7 columns",
        "| island | category | Biscoe, Dream, Torgersen |",
        "pervade export m.pervade --onnx m.onnx",
        "VaDE.load(\"m.pervade\")",
        "| seed | 0 |",
        &stability,
        inspected["checksum"].as_str().unwrap(),
    ];
    facts.iter().for_each(|fact| assert!(card.contains(*fact), "{fact} is not in {card}"));
    for (cluster, rows) in inspected["occupancy"].as_array().unwrap().iter().enumerate() {
        assert!(card.contains(&format!("| {cluster} | {rows} | ")), "{card}");
    }
    assert_eq!(sandbox.run(&["card", "m.pervade", "--json"]).done().json()["card"], card);
}

#[test]
fn hostile_names_stay_text_on_a_card() {
    let sandbox = Sandbox::new();
    let names = "\"</td><script>alert(1)</script>|\",\"[x](http://y) `code`\n# title\",🐧\u{202e}<!--,y";
    sandbox.write("x.csv", two_groups(80).replacen("a,b,c,y", names, 1));
    let fit = ["fit", "x.csv", "--labels", "column:y", "-k", "2", "--out", "m.pervade"];
    sandbox.run(&[&fit[..], &QUICK].concat()).done();
    let card = sandbox.run(&["card", "m.pervade"]).done().stdout;
    // What is left without escaped characters.
    let mut markup = card.clone();
    while let Some(at) = markup.find('\\') {
        let escaped = markup[at + 1..].chars().next().map_or(0, char::len_utf8);
        markup.replace_range(at..at + 1 + escaped, "");
    }
    for hostile in ["<script", "[x](", "`code`", "\n# title", "<!--", "\u{202e}"] {
        assert!(!markup.contains(hostile), "{hostile:?} in {card}");
    }
    assert!(card.contains("\\<script\\>alert(1)") && card.contains('🐧'), "{card}");
    sandbox.run(&["export", "m.pervade", "--onnx", "m.onnx"]).done();
}

#[test]
fn what_cannot_be_exported_or_overwritten_is_refused() {
    let sandbox = penguins();
    sandbox.write("notes.md", "# My own notes\n");
    sandbox.write("damaged.pervade", &sandbox.bytes("m.pervade")[..5000]);
    std::fs::create_dir(sandbox.path("folder")).unwrap();
    let before = sandbox.files();
    let cases: [(&[&str], &str); 9] = [
        (&["export", "m.pervade", "--onnx", "m.pervade"], "is the same file as MODEL"),
        (&["export", "p.csv", "--onnx", "o.onnx"], "not a pervade model"),
        (&["export", "damaged.pervade", "--onnx", "o.onnx"], "not a pervade model"),
        (&["export", "missing.pervade", "--onnx", "o.onnx"], "cannot read"),
        (&["export", "m.pervade", "--onnx", "notes.md"], "is not an ONNX file"),
        (&["export", "m.pervade", "--onnx", "folder"], "this is a folder"),
        (&["export", "m.pervade", "--onnx", "none/o.onnx"], "cannot write"),
        (&["card", "m.pervade", "--out", "m.pervade"], "is the same file as MODEL"),
        (&["card", "m.pervade", "--out", "notes.md"], "is not a card of a pervade model"),
    ];
    for (args, wanted) in cases {
        let ran = sandbox.run(args);
        assert_eq!(ran.status, 2, "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(wanted), "{args:?}: {}", ran.stderr);
        assert_eq!(sandbox.files(), before, "{args:?}");
    }
    assert_eq!(text(&sandbox, "notes.md"), "# My own notes\n");
    sandbox.run(&["card", "m.pervade", "--out", "notes.md", "--force"]).done();
    sandbox.run(&["card", "m.pervade", "--out", "notes.md"]).done();
    assert!(text(&sandbox, "notes.md").starts_with("---\nlibrary_name: pervade\n"));
    let usage = sandbox.run(&["export", "m.pervade"]);
    assert!(usage.status == 2 && usage.stderr.contains("--onnx"), "{}", usage.stderr);
}

/// The interrupted run and the resumed one are the same run; a folder of images gets no other files.
#[test]
fn runs_of_tensorboard_keep_to_their_folders() {
    let sandbox = Sandbox::new();
    sandbox.write("x.csv", two_groups(80));
    std::fs::create_dir_all(sandbox.path("pictures/one")).unwrap();
    let fit =
        ["fit", "x.csv", "--labels", "column:y", "-k", "2", "--out", "m.pervade", "--tensorboard", "runs"];
    let runs = || {
        let entries = std::fs::read_dir(sandbox.path("runs")).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    sandbox.run(&[&fit[..], &QUICK].concat()).done();
    assert_eq!(runs(), ["m"]);
    sandbox.run(&[&fit[..], &QUICK, &["--resume"]].concat()).done();
    assert_eq!(runs(), ["m"]);
    sandbox.run(&[&fit[..], &QUICK].concat()).done();
    assert_eq!(runs(), ["m", "m-2"]);
    let inside = ["fit", "pictures", "-k", "2", "--tensorboard", "pictures/runs"];
    let ran = sandbox.run(&[&inside[..], &QUICK].concat());
    assert!(ran.status == 2 && ran.stderr.contains("lies in DATA"), "{}", ran.stderr);
    assert!(!sandbox.path("pictures/runs").exists());
}
