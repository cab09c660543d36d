//! Every case of the list on the CPU: agreement with its definition, the same bytes with every instruction set and number
//! of threads, and gradients that agree with central differences.

use std::collections::BTreeSet;
use std::path::Path;

use pervade_compute::conformance::{Case, cases};
use pervade_compute::cpu::simd::Isa;
use pervade_compute::{Cpu, Error};

/// All failures of the list at once, one per line.
fn assert_each(list: &[Case<Cpu>], check: impl Fn(&Case<Cpu>) -> Result<Option<String>, Error>) {
    let failures: Vec<String> = list.iter().filter_map(|case| check(case).unwrap()).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_operation_agrees_with_its_definition() {
    assert_each(&cases(), |case| {
        let check = case.check(&Cpu::new())?;
        let failure = format!("{}: off by {:e}, at most {:e}", check.name, check.error, check.tolerance);
        Ok((!check.passed).then_some(failure))
    });
}

#[test]
fn gradients_agree_with_finite_differences() {
    let list = cases::<Cpu>();
    assert_each(&list, |case| {
        let Some(check) = case.check_differences(&Cpu::new()).transpose()? else { return Ok(None) };
        let failure = format!("{}: off by {:e}, at most {:e}", check.name, check.error, check.tolerance);
        Ok((!check.passed).then_some(failure))
    });
}

#[test]
fn instruction_sets_and_threads_do_not_show() {
    let pools = [1, 2].map(|threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap());
    let bits = |values: Vec<f64>| values.into_iter().map(f64::to_bits).collect::<Vec<u64>>();
    assert_each(&cases(), |case| {
        let mut first: Option<Vec<u64>> = None;
        for (isa, pool) in Isa::available().into_iter().flat_map(|isa| pools.iter().map(move |p| (isa, p))) {
            let cpu = Cpu::with_isa(isa).unwrap();
            let result = bits(pool.install(|| case.run(&cpu))?);
            if *first.get_or_insert_with(|| result.clone()) != result {
                let threads = pool.current_num_threads();
                return Ok(Some(format!("{} differs on {isa:?}, {threads} threads", case.name())));
            }
        }
        Ok(None)
    });
}

#[test]
fn names_tell_cases_apart() {
    let list = cases::<Cpu>();
    let names: BTreeSet<&str> = list.iter().map(Case::name).collect();
    assert_eq!(names.len(), list.len());
}

fn sources(folder: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(folder);
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.map(|path| std::fs::read_to_string(path).unwrap()).collect::<Vec<_>>().join("\n")
}

/// What describes a device rather than computes, and the inverse that only restoring a checkpoint needs.
const NOT_COMPUTED: [&str; 7] = [
    "name",
    "product_error",
    "is_host",
    "restarts_at_once",
    "steps_at_once",
    "moments_from_rows",
    "moment_index",
];

#[test]
fn every_operation_has_a_case() {
    let (operations, list) = (sources("ops"), sources("conformance"));
    let mut missing = Vec::new();
    let mut n_operations = 0;
    for block in operations.split("pub trait ").skip(1) {
        let block = block.split("\n}").next().unwrap();
        for method in block.lines().filter_map(|line| line.strip_prefix("    fn ")) {
            let name = method.split(['(', '<']).next().unwrap();
            n_operations += 1;
            if !NOT_COMPUTED.contains(&name) && !list.contains(&format!("device.{name}(")) {
                missing.push(name.to_string());
            }
        }
    }
    assert!(n_operations > 40, "only {n_operations} operations were found");
    assert!(missing.is_empty(), "operations without a case: {}", missing.join(", "));
}
