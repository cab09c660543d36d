//! Too little memory: an error with both sizes before anything is allocated, and never an abort.
#![cfg(target_os = "linux")]

use std::fs::File;
use std::io::Write;
use std::process::{Command, Stdio};

use crate::common::{Ran, Sandbox, TINY, finish};

/// The limit of most tests, in kB for `ulimit -v`, and as in messages.
const GIGABYTE: usize = 1_000_000;
const LIMIT: &str = "the address-space limit of 1.02 GB (ulimit -v) leaves ";

/// The command in an address space of `kilobytes` kB.
fn limited(sandbox: &Sandbox, kilobytes: usize, args: &[&str]) -> Command {
    let inner = sandbox.command(args);
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("ulimit -v {kilobytes} && exec \"$0\" \"$@\""));
    command.arg(inner.get_program()).args(inner.get_args());
    command.current_dir(sandbox.path("")).env_remove("RAYON_NUM_THREADS").env("RUST_BACKTRACE", "0");
    command
}

fn run(sandbox: &Sandbox, args: &[&str]) -> Ran {
    finish(limited(sandbox, GIGABYTE, args))
}

/// Exit 2, one error that names the need and the limit, a hint, and no files written.
#[track_caller]
fn assert_refused(sandbox: &Sandbox, args: &[&str], advice: &str) {
    let before = sandbox.files();
    let ran = run(sandbox, args);
    assert_eq!(ran.status, 2, "{args:?}: {}", ran.stderr);
    let errors: Vec<&str> = ran.stderr.lines().filter(|line| line.starts_with("error:")).collect();
    let [error] = errors.as_slice() else { panic!("{args:?}: {}", ran.stderr) };
    assert!(error.contains(" needs about ") && error.contains(" of memory"), "{error}");
    assert!(error.contains(LIMIT), "{error}");
    assert!(ran.stderr.contains(&format!("hint: {advice}")), "{}", ran.stderr);
    assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
    assert_eq!(sandbox.files(), before, "{args:?}");
}

/// A sparse `.npy` file of zeros that takes no space on disk.
fn zeros(sandbox: &Sandbox, name: &str, descr: &str, n_rows: u64, n_columns: u64) {
    let mut header =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({n_rows}, {n_columns}), }}");
    header.extend(std::iter::repeat_n(' ', 63 - (10 + header.len()) % 64));
    header.push('\n');
    let mut file = File::create(sandbox.path(name)).unwrap();
    file.write_all(b"\x93NUMPY\x01\x00").unwrap();
    file.write_all(&(header.len() as u16).to_le_bytes()).unwrap();
    file.write_all(header.as_bytes()).unwrap();
    file.set_len(10 + header.len() as u64 + n_rows * n_columns).unwrap();
}

/// A table of 600 rows in three groups.
fn table(sandbox: &Sandbox) {
    let row = |i: usize| {
        let value = |j: usize| (i % 3 * 5) as f64 + ((i * 6 + j) as f64 * 0.37).sin();
        (0..6).map(|j| format!("{:.4}", value(j))).collect::<Vec<_>>().join(",")
    };
    sandbox.write("x.csv", (0..600).map(|i| row(i) + "\n").collect::<String>());
}

/// A PNG of black pixels, one bit each in the file.
fn black(sandbox: &Sandbox, name: &str, side: u32) {
    let file = File::create(sandbox.path(name)).unwrap();
    let mut encoder = png::Encoder::new(file, side, side);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::One);
    encoder.set_compression(png::Compression::Fast);
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(&vec![0; side as usize * (side as usize).div_ceil(8)]).unwrap();
    writer.finish().unwrap();
}

#[test]
fn an_ordinary_fit_fits_into_a_gigabyte() {
    let sandbox = Sandbox::new();
    table(&sandbox);
    for threads in ["2", "64"] {
        let args =
            [&["fit", "x.csv", "-k", "3", "-o", "m.pervade", "--threads", threads], &TINY[..]].concat();
        run(&sandbox, &args).done();
        run(&sandbox, &["assign", "m.pervade", "x.csv", "--threads", threads]).done();
    }
    // With the default networks, too.
    let brief = ["--pretrain-epochs", "1", "--epochs", "1", "--device", "cpu"];
    run(&sandbox, &[&["fit", "x.csv", "-k", "3", "-o", "m.pervade"], &brief[..]].concat()).done();
}

#[test]
fn networks_that_do_not_fit_are_refused() {
    let sandbox = Sandbox::new();
    table(&sandbox);
    let fit = ["fit", "x.csv", "-k", "3", "--device", "cpu", "-o", "m.pervade"];
    assert_refused(&sandbox, &[&fit[..], &["--hidden", "65536,65536"]].concat(), "lower `--hidden`");
    assert_refused(&sandbox, &[&fit[..], &["--samples", "65536"]].concat(), "lower `--batch`, `--samples`");
}

#[test]
fn tables_with_too_many_columns_are_refused() {
    let sandbox = Sandbox::new();
    sandbox.write("wide.svm", "1 1:1\n2 16777216:1\n");
    let rows =
        (0..3).map(|i| (0..1_000_000).map(|j| [b'0' + (i * 7 + j) as u8 % 5, b',']).collect::<Vec<_>>());
    let text: Vec<u8> =
        rows.flat_map(|row| [&row.as_flattened()[..2 * row.len() - 1], b"\n"].concat()).collect();
    sandbox.write("wide.csv", text);
    for data in ["wide.svm", "wide.csv"] {
        assert_refused(
            &sandbox,
            &["fit", data, "-k", "2", "--device", "cpu", "-o", "m.pervade"],
            "lower `--hidden`",
        );
    }
    let compare = ["compare", "wide.svm", "-k", "2", "--methods", "k-means", "--device", "cpu"];
    let ran = run(&sandbox, &compare);
    assert!(!ran.stderr.contains("panicked") && (ran.status == 0 || ran.status == 2), "{}", ran.stderr);
}

#[test]
fn small_integers_are_refused_if_they_do_not_fit_as_floats() {
    let sandbox = Sandbox::new();
    zeros(&sandbox, "x.npy", "|i1", 3_000_000, 100);
    assert_refused(&sandbox, &["fit", "x.npy", "-k", "3", "-o", "m.pervade"], "give fewer rows");
}

#[test]
fn pixels_are_counted_before_they_are_unpacked() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("one")).unwrap();
    black(&sandbox, "one/a.png", 30_000);
    assert_refused(&sandbox, &["fit", "one", "-k", "1", "-o", "m.pervade"], "give ");
    std::fs::create_dir(sandbox.path("three")).unwrap();
    for name in ["a", "b", "c"] {
        std::fs::copy(sandbox.path("one/a.png"), sandbox.path(&format!("three/{name}.png"))).unwrap();
    }
    assert_refused(&sandbox, &["fit", "three", "-k", "2", "-o", "m.pervade"], "give smaller images");
}

#[test]
fn results_are_refused_if_they_do_not_fit_and_streamed_otherwise() {
    let sandbox = Sandbox::new();
    sandbox.fit_digits("d.pervade", &["--image", "8x8"]).done();
    let generate = ["generate", "d.pervade", "-n", "1000000", "-o", "g.png", "--device", "cpu"];
    assert_refused(&sandbox, &generate, "lower `--count`");
    zeros(&sandbox, "long.npy", "|u1", 5_000_000, 64);
    let reconstruct = ["reconstruct", "d.pervade", "long.npy", "--json", "--device", "cpu"];
    assert_refused(&sandbox, &reconstruct, "take fewer rows");
    // 25 MB of numbers; as JSON values and text they took 350 MB.
    zeros(&sandbox, "long.npy", "|u1", 100_000, 64);
    let args = ["reconstruct", "d.pervade", "long.npy", "--json", "--threads", "2", "--device", "cpu", "-q"];
    let streamed = limited(&sandbox, 300_000, &args).stdout(Stdio::null()).output().unwrap();
    assert!(streamed.status.success(), "{}", String::from_utf8_lossy(&streamed.stderr));
}

/// A file that cannot even be mapped.
#[test]
fn files_larger_than_the_limit_are_refused() {
    let sandbox = Sandbox::new();
    zeros(&sandbox, "long.npy", "|u1", 20_000_000, 64);
    assert_refused(&sandbox, &["fit", "long.npy", "-k", "3", "-o", "m.pervade"], "raise the limit");
}

/// Allocations that no estimate covers also end with an error.
#[test]
fn no_limit_leads_to_an_abort() {
    let sandbox = Sandbox::new();
    table(&sandbox);
    let fit = ["fit", "x.csv", "-k", "3", "--pretrain-epochs", "1", "--epochs", "1", "-o", "m.pervade"];
    let fit = [&fit[..], &["--hidden", "500,500,2000"]].concat();
    let compare = ["compare", "x.csv", "-k", "3", "--methods", "k-means,gmm-full,spectral", "--seeds", "1"];
    for kilobytes in [100_000, 200_000, 300_000] {
        for (args, threads) in
            [(&fit[..], "2"), (&fit, "64"), (&compare, "2"), (&compare, "64"), (&["doctor"], "2")]
        {
            let args = [args, &["--threads", threads, "--device", "cpu"]].concat();
            let ran = finish(limited(&sandbox, kilobytes, &args));
            assert!([0, 2].contains(&ran.status), "{kilobytes} {args:?}: {} {}", ran.status, ran.stderr);
            assert!(!ran.stderr.contains("panicked"), "{kilobytes} {args:?}: {}", ran.stderr);
        }
    }
}
