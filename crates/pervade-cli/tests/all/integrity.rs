//! The command with damaged or older files.

use crate::common::Sandbox;

/// A folder with a tiny model and its data.
fn fitted() -> Sandbox {
    let sandbox = Sandbox::new();
    let row = |i: usize| format!("{},{}\n", if i.is_multiple_of(2) { 4 } else { -4 }, i % 5);
    sandbox.write("t.csv", format!("a,b\n{}", (0..40).map(row).collect::<String>()));
    let fit = ["fit", "t.csv", "-k", "2", "--device", "cpu", "--out", "m.pervade", "--hidden", "4"];
    sandbox.run(&[&fit[..], &["--latents", "1", "--pretrain-epochs", "1", "--epochs", "1"]].concat()).done();
    sandbox
}

const USES: [&[&str]; 5] = [
    &["assign", "m.pervade", "t.csv", "--device", "cpu"],
    &["score", "m.pervade", "t.csv", "--device", "cpu"],
    &["generate", "m.pervade", "--device", "cpu"],
    &["inspect", "m.pervade"],
    &["inspect", "m.pervade", "--json"],
];

#[test]
fn a_damaged_model_is_refused_by_every_command() {
    let sandbox = fitted();
    let whole = sandbox.bytes("m.pervade");
    // The lowest bit of a weight: only one number of the file changes.
    let mut damaged = whole.clone();
    let at = damaged.len() - 40;
    damaged[at] ^= 1;
    sandbox.write("m.pervade", &damaged);
    for args in USES {
        let ran = sandbox.run(args);
        assert_eq!(ran.status, 2, "{args:?}: {}", ran.stderr);
        let expected = "error: `m.pervade`: the file is damaged: its checksum does not match its content";
        assert!(ran.stderr.contains(expected) && ran.stderr.contains("hint:"), "{args:?}: {}", ran.stderr);
    }
    sandbox.write("m.pervade", &whole);
    USES.iter().for_each(|args| drop(sandbox.run(args).done()));
}

/// A file of an earlier version: the entry is removed from the header, which keeps its length.
fn without_checksum(bytes: &[u8]) -> Vec<u8> {
    let entry = br#",\"checksum\":\"xxh3-128:"#;
    let at = bytes.windows(entry.len()).position(|window| window == entry).unwrap();
    let len = entry.len() + 32 + 2;
    let end = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    [&bytes[..at], &bytes[at + len..end], &vec![b' '; len][..], &bytes[end..]].concat()
}

#[test]
fn an_older_model_is_used_with_a_note() {
    let sandbox = fitted();
    let expected: Vec<String> = USES[..3].iter().map(|args| sandbox.run(args).done().stdout).collect();
    sandbox.write("m.pervade", without_checksum(&sandbox.bytes("m.pervade")));
    let note = "note: m.pervade has no checksum (written by an earlier version of pervade); its weights could not be verified";
    for args in USES {
        let ran = sandbox.run(args).done();
        assert!(ran.stderr.contains(note), "{args:?}: {}", ran.stderr);
    }
    let now: Vec<String> = USES[..3].iter().map(|args| sandbox.run(args).done().stdout).collect();
    assert_eq!(now, expected);
    let quiet = sandbox.run(&["inspect", "m.pervade", "--quiet"]).done();
    assert_eq!(quiet.stderr, "");
}
