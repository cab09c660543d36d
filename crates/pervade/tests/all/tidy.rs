//! Invariants of the architecture, checked in the source code.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const LONGEST_FUNCTION: usize = 70;
const LONGEST_FILE: usize = 600;

/// A source file without its tests: the crate and the path below its `src`, as `pervade/data/read.rs`; and its lines.
struct Source {
    path: String,
    lines: Vec<String>,
}

impl Source {
    /// Numbered lines without comments.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.lines.iter().enumerate().map(|(i, line)| (i + 1, line.split("//").next().unwrap_or("")))
    }

    fn is_in(&self, folder: &str) -> bool {
        self.path.starts_with(folder)
    }
}

/// The folder of all crates.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

const COMPUTE: &str = "pervade-compute/src";

fn sources() -> Vec<Source> {
    fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, found);
            } else if path.extension().is_some_and(|e| e == "rs") {
                found.push(path);
            }
        }
    }
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(root()).unwrap() {
        collect(&entry.unwrap().path().join("src"), &mut paths);
    }
    paths.sort();
    assert!(paths.len() > 200, "only {} files below {}", paths.len(), root().display());
    let below = |path: &Path| {
        let path = path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/");
        path.replacen("/src/", "/", 1)
    };
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        Source { path: below(&path), lines: without_tests(&text) }
    };
    paths.into_iter().map(read).collect()
}

fn without_tests(text: &str) -> Vec<String> {
    let lines: Vec<String> = text.lines().map(String::from).collect();
    let tests = |pair: &[String]| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ");
    let end = lines.windows(2).position(tests).unwrap_or(lines.len());
    lines[..end].to_vec()
}

/// Lines outside `allowed` that contain one of the words, as `path:line: word`.
fn mentions(words: &[&str], allowed: impl Fn(&Source) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources().iter().filter(|source| !allowed(source)) {
        for (number, line) in source.code() {
            for word in words.iter().filter(|word| holds_word(line, word)) {
                found.push(format!("{}:{number}: {word}", source.path));
            }
        }
    }
    found
}

/// Whether `word` occurs in the line as a whole word: `Labels`, not `LabelsOf`.
fn holds_word(line: &str, word: &str) -> bool {
    let part_of_name = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back().is_some_and(part_of_name);
        let after = line[at + word.len()..].chars().next().is_some_and(part_of_name);
        !(before && word.starts_with(part_of_name) || after && word.ends_with(part_of_name))
    })
}

#[track_caller]
fn assert_none(found: Vec<String>, rule: &str) {
    assert!(found.is_empty(), "{rule}:\n{}", found.join("\n"));
}

/// Besides arithmetic and MPI, only memory mapping and the allocator need it.
#[test]
fn unsafe_code_is_confined() {
    let homes = ["pervade/data/mapped.rs", "pervade/data/bus_error.rs", "pervade-cli/allocator.rs"];
    let allowed = |s: &Source| {
        s.is_in("pervade-compute/") || s.is_in("pervade-mpi/") || homes.contains(&s.path.as_str())
    };
    assert_none(mentions(&["unsafe"], allowed), "unsafe outside its homes");
}

#[test]
fn the_library_never_prints_exits_or_reads_the_clock() {
    let words = [
        "println!",
        "eprintln!",
        "print!",
        "eprint!",
        "dbg!",
        "std::process",
        "std::env",
        "Instant",
        "SystemTime",
        "thread_rng",
        "getrandom",
    ];
    let front_ends = ["pervade-cli/", "pervade-python/"];
    let allowed = |s: &Source| front_ends.iter().any(|crate_name| s.is_in(crate_name));
    assert_none(mentions(&words, allowed), "the library prints, exits, or asks the system");
}

/// No function that fits a model can take labels: the type is not even named there.
#[test]
fn labels_are_for_scoring_only() {
    let allowed = |s: &Source| {
        s.is_in("pervade/data/")
            || s.is_in("pervade/metrics/")
            || s.is_in("pervade-cli/")
            || s.is_in("pervade-python/")
    };
    assert_none(mentions(&["Labels"], allowed), "labels outside data, metrics and the front ends");
}

/// Flags belong to the command; a hint names settings with [`pervade::Hint::setting`], and each front end formats them.
#[test]
fn the_library_names_no_flags() {
    let mut found = Vec::new();
    // The CUDA compiler has flags, too.
    let is_library =
        |s: &Source| s.is_in("pervade/") || s.is_in("pervade-compute/") && !s.path.ends_with("compile.rs");
    for source in sources().iter().filter(|source| is_library(source)) {
        let is_flag = |line: &str| {
            line.match_indices("--")
                .any(|(at, _)| line[at + 2..].starts_with(|c: char| c.is_ascii_lowercase()))
        };
        let flags = source.code().filter(|(_, line)| is_flag(line));
        found.extend(flags.map(|(number, line)| format!("{}:{number}: {line}", source.path)));
    }
    assert_none(found, "flags of the command in the library");
}

#[test]
fn only_compute_knows_cuda() {
    let words = ["cudarc", "feature = \"cuda\""];
    assert_none(mentions(&words, |s| s.is_in("pervade-compute/")), "CUDA outside pervade-compute");
}

fn kernel_files() -> impl Iterator<Item = (PathBuf, String)> {
    let folder = std::fs::read_dir(root().join(COMPUTE).join("cuda/kernels")).unwrap();
    folder.map(|entry| entry.unwrap().path()).map(|path| {
        let text = std::fs::read_to_string(&path).unwrap();
        (path, text)
    })
}

/// A kernel that is launched before the previous one has ended, and does not wait for its output, would read stale
/// data.
#[test]
fn kernels_that_start_early_wait() {
    let driver = std::fs::read_to_string(root().join(COMPUTE).join("cuda/driver.rs")).unwrap();
    let launch = std::fs::read_to_string(root().join(COMPUTE).join("cuda/driver/launch.rs")).unwrap();
    let (_, list) = launch.split_once("EARLY_KERNELS").unwrap();
    let listed = list.split_once("];").unwrap().0;
    let mut early = Vec::new();
    for variant in listed.split("Kernel::").skip(1).map(|rest| rest.split_once(',').unwrap().0) {
        let (_, name) = driver.split_once(&format!(" {variant} = \"")).unwrap();
        early.push(name.split_once('"').unwrap().0);
    }
    let mut found = Vec::new();
    let mut n_waiting = 0;
    for (file, text) in kernel_files() {
        for kernel in text.split("extern \"C\" __global__").skip(1) {
            // Kernels that macros make have a name there, not here: their templates wait.
            let Some((_, rest)) = kernel.split_once(" void ") else { continue };
            let name = rest.split_once('(').unwrap().0;
            let waits = kernel.contains("after_previous();");
            n_waiting += usize::from(waits);
            if name != "name" && early.contains(&name) != waits {
                found.push(format!("{}: {name}", file.display()));
            }
        }
        let made =
            text.lines().filter_map(|line| line.strip_prefix("KERNEL(").or(line.strip_prefix("MANY(")));
        for (name, rest) in made.filter_map(|line| line.split_once(',')) {
            let is_weight_gradient = rest.starts_with(" 4, true");
            if early.contains(&name) == is_weight_gradient {
                found.push(format!("{}: {name}", file.display()));
            }
        }
    }
    assert_none(found, "a kernel starts early and does not wait, or waits for nothing");
    assert!(n_waiting >= 5 && early.len() >= 13, "the kernels were found");
}

/// NVRTC 13 omits the check for the remainder of a loop that it unrolls by a number that is not a power of two: the
/// loop then runs past its end.
#[test]
fn kernels_unroll_by_powers_of_two() {
    let mut found = Vec::new();
    for (file, text) in kernel_files() {
        let counts = text.lines().filter_map(|line| line.trim().strip_prefix("#pragma unroll "));
        let odd = counts.filter(|count| !count.parse::<u32>().is_ok_and(u32::is_power_of_two));
        found.extend(odd.map(|count| format!("{}: unroll {count}", file.display())));
    }
    assert_none(found, "a loop is unrolled by a number that is no power of two");
}

/// A small constant added against a division by zero or the logarithm of zero hides errors.
#[test]
fn nothing_tiny_is_added() {
    let tiny = |line: &str| {
        let mut rest = line;
        while let Some(at) = rest.find("+ 1e-").or_else(|| rest.find("+1e-")) {
            if !rest[..at].ends_with(char::is_numeric) {
                return true;
            }
            rest = &rest[at + 4..];
        }
        line.contains("+ f32::EPSILON") || line.contains("+ f64::EPSILON")
    };
    let mut found = Vec::new();
    // Where ticks of an axis are placed, a tolerance is meant.
    for source in sources().into_iter().filter(|source| !source.is_in("pervade-plots/")) {
        let lines = source.code().filter(|(_, line)| tiny(line));
        found.extend(lines.map(|(number, line)| format!("{}:{number}: {}", source.path, line.trim())));
    }
    assert_none(found, "a tiny number is added");
}

/// Which modules of a crate use which others, from `crate::` paths: (user, used) with a file as evidence. A re-export
/// of the root counts as the module that it comes from.
fn module_uses(crate_name: &str) -> BTreeMap<(String, String), String> {
    let all = sources();
    let of_crate: Vec<&Source> = all.iter().filter(|s| s.is_in(&format!("{crate_name}/"))).collect();
    let module = |path: &str| {
        let below = path.split_once('/').unwrap().1;
        below.split('/').next().unwrap().trim_end_matches(".rs").to_string()
    };
    let modules: BTreeSet<String> = of_crate.iter().map(|s| module(&s.path)).collect();
    let root = of_crate.iter().find(|s| module(&s.path) == "lib").expect("a library");
    let mut exported = BTreeMap::new();
    for (_, line) in root.code() {
        let Some((_, rest)) = line.split_once("pub use ") else { continue };
        let Some((from, names)) = rest.split_once("::") else { continue };
        for name in names_in(names) {
            exported.insert(name, from.to_string());
        }
    }
    let mut uses = BTreeMap::new();
    for source in of_crate.iter().filter(|s| module(&s.path) != "lib" && !s.path.ends_with("tests.rs")) {
        let user = module(&source.path);
        let text = source.code().map(|(_, line)| line).collect::<Vec<_>>().join(" ");
        for (at, _) in text.match_indices("crate::").filter(|(at, _)| !text[..*at].ends_with('$')) {
            let rest = &text[at + "crate::".len()..];
            let group = rest.strip_prefix('{').map(|rest| rest.split('}').next().unwrap_or(""));
            let first = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or("");
            let names = group.map_or_else(|| vec![first.to_string()], names_in);
            for name in names {
                let used = if modules.contains(&name) {
                    name
                } else {
                    exported.get(&name).cloned().unwrap_or_default()
                };
                if modules.contains(&used) && used != user {
                    uses.entry((user.clone(), used)).or_insert_with(|| source.path.clone());
                }
            }
        }
    }
    uses
}

/// The names in a list such as `{self, Error, memory::size}`: the first of each path.
fn names_in(list: &str) -> Vec<String> {
    let first = |part: &str| {
        let word = part.trim_matches(|c: char| !c.is_alphanumeric() && c != '_');
        word.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or("").to_string()
    };
    list.split(',').map(first).filter(|name| !name.is_empty()).collect()
}

/// A chain of uses that ends where it started.
fn cycle(uses: &BTreeMap<(String, String), String>) -> Option<Vec<String>> {
    fn follow(
        at: &str,
        uses: &BTreeMap<(String, String), String>,
        path: &mut Vec<String>,
        done: &mut BTreeSet<String>,
    ) -> Option<Vec<String>> {
        if let Some(start) = path.iter().position(|module| module == at) {
            return Some([&path[start..], &[at.to_string()]].concat());
        }
        if done.contains(at) {
            return None;
        }
        path.push(at.to_string());
        let next: Vec<&String> = uses.keys().filter(|(user, _)| user == at).map(|(_, used)| used).collect();
        let found = next.into_iter().find_map(|used| follow(used, uses, path, done));
        path.pop();
        done.insert(at.to_string());
        found
    }
    let mut done = BTreeSet::new();
    uses.keys().find_map(|(user, _)| follow(user, uses, &mut Vec::new(), &mut done))
}

#[test]
fn modules_use_each_other_in_one_direction() {
    for crate_name in ["pervade-compute", "pervade", "pervade-rivals", "pervade-plots", "pervade-export"] {
        let uses = module_uses(crate_name);
        if let Some(cycle) = cycle(&uses) {
            let steps = cycle.windows(2).map(|pair| {
                let file = &uses[&(pair[0].clone(), pair[1].clone())];
                format!("{} -> {} ({file})", pair[0], pair[1])
            });
            panic!("{crate_name}: {}", steps.collect::<Vec<_>>().join(", "));
        }
        // A planted cycle is found.
        if let Some((user, used)) = uses.keys().next().cloned() {
            let mut planted = uses.clone();
            planted.insert((used, user), "planted".to_string());
            assert!(cycle(&planted).is_some(), "{crate_name}");
        }
    }
    let uses = module_uses("pervade");
    for (user, used) in
        [("train", "infer"), ("model", "infer"), ("fit", "train"), ("data", "memory"), ("infer", "nn")]
    {
        assert!(uses.contains_key(&(user.to_string(), used.to_string())), "{user} uses {used}");
    }
}

/// Lines of the function that starts at `start`; rustfmt aligns its closing brace with its first letter.
fn function_length(lines: &[String], start: usize) -> Option<usize> {
    let first = &lines[start];
    let indent = &first[..first.len() - first.trim_start().len()];
    let closing = format!("{indent}}}");
    if first.ends_with('}') {
        return Some(1);
    }
    let mut opened = false;
    for (count, line) in lines[start..].iter().enumerate() {
        opened |= line.ends_with('{');
        if !opened && line.ends_with(';') {
            return None; // a declaration in a trait
        }
        if opened && line == &closing {
            return Some(count + 1);
        }
    }
    panic!("`{}` does not end", first.trim());
}

fn starts_function(line: &str) -> bool {
    let mut words = line.split("//").next().unwrap_or("").split_whitespace();
    let before = |w: &str| {
        ["const", "unsafe", "async", "extern", "$vis"].contains(&w) || w.starts_with("pub") || w == "\"C\""
    };
    words.find(|w| !before(w)) == Some("fn")
}

#[test]
fn functions_and_files_fit_a_screen() {
    let (mut found, mut n_functions) = (Vec::new(), 0);
    for Source { path, lines } in sources() {
        if lines.len() > LONGEST_FILE {
            found.push(format!("{path}: {} lines", lines.len()));
        }
        for start in (0..lines.len()).filter(|&i| starts_function(&lines[i])) {
            let length = function_length(&lines, start).unwrap_or(0);
            n_functions += usize::from(length > 0);
            if length > LONGEST_FUNCTION {
                found.push(format!("{path}:{}: {length} lines: {}", start + 1, lines[start].trim()));
            }
        }
    }
    assert!(n_functions > 300, "only {n_functions} functions were found");
    assert_none(found, "longer than a screen");
}

/// A file of tests that no other file declares as a module would not be compiled.
#[test]
fn every_file_of_tests_is_compiled() {
    fn collect(folder: &Path, parent: &Path, found: &mut Vec<String>) -> usize {
        let declared = std::fs::read_to_string(parent).unwrap();
        let mut n_files = 0;
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let module = path.file_stem().unwrap().to_str().unwrap();
            let (inner, beside) = (path.join("mod.rs"), path.with_extension("rs"));
            if path.is_dir() {
                n_files += collect(&path, if inner.exists() { &inner } else { &beside }, found);
            } else if path == parent {
                continue;
            }
            n_files += 1;
            if !declared
                .lines()
                .any(|line| line.trim_start_matches("pub(crate) ") == format!("mod {module};"))
            {
                found.push(path.display().to_string());
            }
        }
        n_files
    }
    let (mut found, mut n_files) = (Vec::new(), 0);
    for crate_name in ["pervade", "pervade-cli", "pervade-rivals"] {
        let folder = root().join(crate_name).join("tests/all");
        n_files += collect(&folder, &folder.join("main.rs"), &mut found);
    }
    assert!(n_files > 60, "only {n_files} files were found");
    assert_none(found, "files of tests that are not compiled");
}

/// The example in the crate's README also runs as a test.
#[test]
fn both_readmes_have_the_same_example() {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let example = |path: PathBuf| {
        let text = std::fs::read_to_string(path).unwrap();
        let (_, rest) = text.split_once("```rust\n").expect("an example in Rust");
        rest.split_once("```").expect("which ends").0.to_string()
    };
    assert_eq!(example(crate_folder.join("README.md")), example(crate_folder.join("../../README.md")));
}
