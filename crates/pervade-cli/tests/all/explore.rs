//! `pervade explore`: what its server answers, and what it refuses.
#![cfg(unix)]

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use crate::common::server::{Got, Served};
use crate::common::{QUICK, Sandbox, sample};
use serde_json::{Value, json};

/// The penguins with a quick model of three clusters.
fn penguins() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("p.csv", std::fs::read(sample("penguins.csv")).unwrap());
    let fit = ["fit", "p.csv", "-k", "3", "--labels", "column:species", "--out", "m.pervade"];
    let longer = ["--pretrain-epochs", "10", "--epochs", "3"];
    sandbox.run(&[&fit[..], &QUICK[..4], &longer, &["--device", "cpu"]].concat()).done();
    sandbox
}

const BOTH: [&str; 4] = ["m.pervade", "p.csv", "--labels", "column:species"];

/// Rows as digits.
fn hex(n: usize, is_in: impl Fn(usize) -> bool) -> String {
    let digit = |i: usize| {
        let bits = (0..4).filter(|b| i * 4 + b < n && is_in(i * 4 + b)).map(|b| 1 << b).sum();
        char::from_digit(bits, 16).unwrap()
    };
    (0..n.div_ceil(4)).map(digit).collect()
}

fn assigned(sandbox: &Sandbox, more: &[&str]) -> Vec<u64> {
    let found = sandbox.run(&[&["assign"], &BOTH[..], more, &["--json"]].concat()).done().json();
    found["assignments"].as_array().unwrap().iter().map(|k| k.as_u64().unwrap()).collect()
}

#[test]
fn questions_are_answered() {
    let sandbox = penguins();
    let served = Served::start(&sandbox, &BOTH);
    assert_eq!((&served.started["rows"], &served.started["clusters"]), (&json!(344), &json!(3)));
    let page = served.page();
    assert!(page.status == 200 && page.body.contains("id=\"explorer\"") && page.body.ends_with("</html>\n"));
    assert!(page.body.contains("connect-src 'self'") && page.head.contains("frame-ancestors 'none'"));
    let clusters = assigned(&sandbox, &[]);
    profile_and_comparison(&served, &clusters);
    let near = served.ask("row", &json!({"row": 3})).ok();
    assert_eq!((&near["row"]["row"], near["nearest"]["examples"].as_array().unwrap().len()), (&json!(3), 12));
    let distances: Vec<f64> =
        near["distances"].as_array().unwrap().iter().map(|d| d.as_f64().unwrap()).collect();
    assert!(distances.is_sorted(), "{distances:?}");
    assert_eq!(near["cluster"], clusters[3]);
    searches(&served);
    filters(&served, &clusters);
    let walk = served.ask("walk", &json!({"from": 0, "to": 2, "steps": 5})).ok();
    let steps = walk["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 5);
    let cell = |step: &Value, name: &str| {
        let cells = step["cells"].as_array().unwrap();
        cells.iter().find(|cell| cell[0] == name).unwrap()[1].as_str().unwrap().to_string()
    };
    for step in steps {
        assert!(
            ["Biscoe", "Dream", "Torgersen"].contains(&cell(step, "island").as_str()),
            "in the table's own words: {step}"
        );
        assert!(cell(step, "body_mass_g").parse::<f64>().is_ok());
    }
    for (at, cluster) in [(0, 0), (4, 2)] {
        let p: Vec<f64> =
            walk["probabilities"][at].as_array().unwrap().iter().map(|p| p.as_f64().unwrap()).collect();
        assert!(
            (p.iter().sum::<f64>() - 1.0).abs() < 1e-9 && p[cluster] == p.iter().copied().fold(0.0, f64::max),
            "{p:?}"
        );
    }
}

fn profile_and_comparison(served: &Served, clusters: &[u64]) {
    let n = clusters.len();
    let of = |k: u64| json!({"rows": hex(n, |row| clusters[row] == k)});
    let profile = served.ask("compare", &json!({"a": of(1), "b": "rest"})).ok();
    let by_cluster = served.ask("compare", &json!({"a": {"clusters": [1]}, "b": "rest"})).ok();
    assert_eq!(profile, by_cluster, "the same rows, named in two ways");
    let size = clusters.iter().filter(|k| **k == 1).count();
    assert_eq!(profile["sizes"], json!([size, n - size]));
    let pair = served.ask("compare", &json!({"a": of(0), "b": of(1)})).ok();
    let columns = pair["columns"].as_array().unwrap();
    assert!(!columns.is_empty() && pair["both"] == 0);
    let reversed = served.ask("compare", &json!({"a": of(1), "b": of(0)})).ok();
    let auc = |found: &Value, name: &Value| {
        let columns = found["columns"].as_array().unwrap();
        columns.iter().find(|column| column["column"] == *name).map(|column| column["auc"].as_f64().unwrap())
    };
    let name = json!("body_mass_g");
    let (one, other) = (auc(&pair, &name).unwrap(), auc(&reversed, &name).unwrap());
    assert!((one + other - 1.0).abs() < 1e-9, "{one} {other}");
    let all = served.ask("compare", &json!({"a": {"rows": hex(n, |_| true)}, "b": of(0)})).ok();
    assert_eq!(all["both"], clusters.iter().filter(|k| **k == 0).count());
    let none = served.ask("compare", &json!({"a": {"rows": hex(n, |_| false)}, "b": "rest"})).ok();
    assert_eq!(none["sizes"][0], 0);
}

fn searches(served: &Served) {
    let search = |text: &str| served.ask("search", &json!({"text": text})).ok();
    let adelie = search("adelie");
    assert!(adelie["total"].as_u64().unwrap() > 100, "labels are searched: {}", adelie["total"]);
    let numbered = search("row 17");
    assert_eq!(numbered["list"]["examples"][0]["row"], 16);
    let island = search("island: torg");
    assert_eq!((&island["searched"], &island["total"]), (&json!("island"), &json!(52)));
    assert_eq!(search("body_mass_g: 3750")["searched"], "body_mass_g");
    assert_eq!(search("<script>alert(1)</script>")["total"], 0);
    for bad in
        [json!({"text": " "}), json!({"text": "x".repeat(10_000)}), json!({}), json!([]), json!({"text": 3})]
    {
        assert_eq!(served.ask("search", &bad).status, 400, "{bad}");
    }
}

fn filters(served: &Served, clusters: &[u64]) {
    let filter = |conditions: Value| served.ask("filter", &json!({"conditions": conditions})).ok();
    let two = filter(json!([{"on": "cluster", "levels": [2]}]));
    assert_eq!(two["rows"], hex(clusters.len(), |row| clusters[row] == 2));
    let both = filter(json!([{"on": "confidence", "low": "0.5"}, {"on": {"column": 0}, "levels": [0]}]));
    assert!(both["total"].as_u64().unwrap() < clusters.len() as u64);
    for bad in [
        json!([{"on": {"column": 99}}]),
        json!([{"on": {"kept": 0}, "text": "x"}]),
        json!([{"on": "confidence", "low": "many"}]),
        json!([{"on": "nothing"}]),
    ] {
        assert_eq!(served.ask("filter", &json!({"conditions": bad})).status, 400, "{bad}");
    }
}

#[test]
fn pictures_are_shown_as_pictures() {
    let sandbox = Sandbox::new();
    sandbox.fit_digits("m.pervade", &["--image", "8x8", "--device", "cpu"]).done();
    let digits = crate::common::digits();
    let served = Served::start(&sandbox, &["m.pervade", digits.to_str().unwrap(), "--labels", "column:last"]);
    let is_picture =
        |value: &Value| value.as_str().is_some_and(|url| url.starts_with("data:image/png;base64,"));
    let walk = served.ask("walk", &json!({"from": 1, "to": 7, "steps": 7})).ok();
    assert!(walk["steps"].as_array().unwrap().iter().all(|step| is_picture(&step["picture"])));
    let profile = served.ask("compare", &json!({"a": {"clusters": [1]}, "b": {"clusters": [2, 3]}})).ok();
    assert!(
        is_picture(&profile["means"][0]) && is_picture(&profile["examples"][1]["examples"][0]["picture"])
    );
    let near = served.ask("row", &json!({"row": 1796})).ok();
    assert!(is_picture(&near["nearest"]["examples"][0]["picture"]));
}

/// Status of a refusal, which must name no file and hold no data.
fn refused(got: &Got) -> u16 {
    assert!(got.status >= 400 && got.body.len() < 300 && !got.body.contains("Biscoe"), "{got:?}");
    assert!(!got.head.contains("access-control"), "{got:?}");
    got.status
}

#[test]
fn strangers_are_refused() {
    let sandbox = penguins();
    let served = Served::start(&sandbox, &BOTH);
    let token = served.token_header();
    let wrong = format!("X-Pervade-Token: {}", "0".repeat(served.token.len()));
    let (ask, body) = ("/api/row", "{\"row\": 0}");
    assert_eq!(refused(&served.request("POST", ask, &[], body)), 403);
    assert_eq!(refused(&served.request("POST", ask, &[&wrong], body)), 403);
    assert_eq!(refused(&served.request("POST", ask, &[&token[..token.len() - 1]], body)), 403);
    assert_eq!(refused(&served.request("GET", "/", &[], "")), 403);
    assert_eq!(refused(&served.request("GET", "/?token=", &[], "")), 403);
    let page = format!("/?token={}", served.token);
    for host in ["evil.example", "evil.example:80", "127.0.0.1", "localhost:1", "0.0.0.0"] {
        let host = format!("Host: {host}");
        assert_eq!(refused(&served.request("GET", &page, &[&host], "")), 403, "{host}");
        assert_eq!(refused(&served.request("POST", ask, &[&host, &token], body)), 403, "{host}");
    }
    let two = [format!("Host: 127.0.0.1:{}", served.port), "Host: evil.example".to_string()];
    assert_eq!(refused(&served.request("GET", &page, &[&two[0], &two[1]], "")), 400);
    assert_eq!(refused(&served.request("POST", ask, &[&token, "Origin: http://evil.example"], body)), 403);
    assert_eq!(refused(&served.request("OPTIONS", ask, &["Origin: http://evil.example"], "")), 403);
    for path in [
        "/../../etc/passwd",
        "/..%2f..%2fetc/passwd",
        "/api/../m.pervade",
        "//etc/passwd",
        "/m.pervade",
        "/api/row/",
        "/%00",
    ] {
        assert_eq!(refused(&served.request("GET", path, &[&token], "")), 404, "{path}");
        assert_eq!(refused(&served.request("GET", path, &[], "")), 403, "{path}");
    }
    assert_eq!(refused(&served.request("GET", ask, &[&token], "")), 405);
    assert_eq!(refused(&served.request("DELETE", "/", &[&token], "")), 404);
    let local = format!("Host: localhost:{}", served.port);
    assert_eq!(served.request("POST", ask, &[&token, &local], body).status, 200);
    assert_eq!(served.request("GET", "/api/alive", &[&token], "").ok(), json!({"alive": true}));
    let written: Vec<String> = sandbox.files().into_iter().filter(|name| !name.starts_with('.')).collect();
    assert_eq!(written, ["m.pervade", "p.csv"], "nothing was written, the lock aside");
}

#[test]
fn malformed_and_oversized_requests_do_no_harm() {
    let sandbox = penguins();
    let served = Served::start(&sandbox, &BOTH);
    let (token, port) = (served.token_header(), served.port);
    for body in [
        "",
        "{",
        "null",
        "[[[[[[",
        "{\"row\": -1}",
        "{\"row\": 1e99}",
        "{\"row\": 344}",
        "{\"row\": 0, \"x\": 1}",
        "\u{0}\u{1}",
    ] {
        assert_eq!(refused(&served.request("POST", "/api/row", &[&token], body)), 400, "{body:?}");
    }
    let deep = "[".repeat(100_000);
    assert_eq!(refused(&served.request("POST", "/api/compare", &[&token], &deep)), 400);
    assert_eq!(served.request("POST", "/api/compare", &[&token], &"x".repeat(5_000_000)).status, 413);
    let claimed = format!(
        "POST /api/row HTTP/1.1\r\nHost: localhost:{port}\r\n{token}\r\nContent-Length: 1000000000\r\n\r\n{{"
    );
    assert_eq!(served.raw(claimed.as_bytes()).unwrap().status, 413, "a claimed gigabyte is refused at once");
    let unknown = claimed.replace(&token, "X-Nothing: 1");
    assert_eq!(served.raw(unknown.as_bytes()).unwrap().status, 403);
    let head = format!(
        "POST /api/row HTTP/1.1\r\nHost: localhost:{port}\r\n{token}\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    let endless = format!("{head}{}", format!("10000\r\n{}\r\n", "x".repeat(0x10000)).repeat(20));
    assert_eq!(served.raw(endless.as_bytes()).unwrap().status, 413);
    for garbage in [
        &b"\x16\x03\x01\x02\x00\x01\x00"[..],
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\r\n\r\n\r\n\r\n\0",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        assert!(served.raw(garbage).is_none_or(|got| got.status >= 400));
    }
    let long = format!("GET /{} HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n", "a".repeat(1 << 20));
    assert!(served.raw(long.as_bytes()).is_none_or(|got| got.status >= 400));
    let many = "X-A: b\r\n".repeat(5000);
    let many = format!("GET / HTTP/1.1\r\nHost: localhost:{port}\r\n{many}\r\n");
    assert!(served.raw(many.as_bytes()).is_none_or(|got| got.status >= 400));
    assert_eq!(served.page().status, 200, "and it still answers");
}

#[test]
fn slow_clients_are_cut_off_while_others_are_answered() {
    let sandbox = penguins();
    let served = Served::start(&sandbox, &BOTH);
    let mut slow: Vec<_> = (0..40).map(|_| served.connect()).collect();
    slow.iter_mut().for_each(|stream| stream.write_all(b"GET / HTTP/1.1\r\nHost: ").unwrap());
    let start = Instant::now();
    assert_eq!(served.ask("row", &json!({"row": 0})).status, 200);
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    let mut rest = Vec::new();
    // Whatever it says, it closes the connection.
    let _ = slow[0].read_to_end(&mut rest);
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn refusals_take_no_memory_and_many_questions_are_answered() {
    let sandbox = penguins();
    let served = Served::start(&sandbox, &BOTH);
    let refuse = |i: usize| match i % 4 {
        0 => served.request("POST", "/api/row", &[], "{}").status,
        1 => served.request("GET", "/?token=0000", &[], "").status,
        2 => served.request("GET", "/", &["Host: evil.example"], "").status,
        _ => served.request("POST", "/api/row", &["X-Pervade-Token: x"], &"y".repeat(100_000)).status,
    };
    (0..100).for_each(|i| assert_eq!(refuse(i), 403));
    #[cfg(target_os = "linux")]
    let before = served.memory();
    (0..1000).for_each(|i| assert_eq!(refuse(i), 403));
    #[cfg(target_os = "linux")]
    {
        let after = served.memory();
        assert!(after <= before + 2000, "{before} kB, then {after} kB");
    }
    std::thread::scope(|scope| {
        let ask = |i: usize| {
            let found = served.ask("row", &json!({"row": i})).ok();
            assert_eq!(found["row"]["row"], i);
        };
        let threads: Vec<_> = (0..200).map(|i| scope.spawn(move || ask(i))).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn it_ends_with_a_signal_and_a_port_in_use_is_an_error() {
    let sandbox = penguins();
    let served = Served::start(&sandbox, &BOTH);
    let port = served.port.to_string();
    let other = sandbox
        .run(&[&["explore"], &BOTH[..], &["--no-open", "--port", &port, "--names", "n.json"]].concat());
    assert_eq!(other.status, 2, "{}", other.stderr);
    assert!(other.stderr.contains(&port) && other.stderr.contains("--port"), "{}", other.stderr);
    let same = sandbox.run(&[&["explore"], &BOTH[..], &["--no-open"]].concat());
    assert!(same.status == 2 && same.stderr.contains("explore"), "one writer of the names: {}", same.stderr);
    assert_eq!(served.end("-INT"), 0);
    let again = Served::start(&sandbox, &[&BOTH[..], &["--port", &port]].concat());
    assert_eq!(again.port.to_string(), port);
    assert_eq!(again.end("-TERM"), 0);
    assert_eq!(sandbox.files(), ["m.pervade", "p.csv"].map(String::from));
}
