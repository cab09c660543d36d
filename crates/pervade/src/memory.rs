//! Memory limits: how much is available, and an error before more than that is allocated.
//!
//! A failed allocation aborts a Rust program, and a process that outgrows its control group is killed without a
//! message. Work whose size depends on a file or a setting is therefore estimated first ([`Need`]) and compared with
//! what the machine and the limits of the process leave ([`require`]).

use std::fmt::Display;
use std::io;
use std::path::Path;

use crate::units::size;
use crate::{Error, Hint, Result};

/// Smaller needs are not worth querying the system; they are within the margin.
const SMALL: u64 = 16 << 20;

/// Reserved under every limit for what no estimate counts, such as the stacks of threads, the arenas of the allocator
/// (which reserve 64 MiB of address space at a time) and the buffers of readers and writers.
const MARGIN: u64 = 64 << 20;

/// Limits of version 1 control groups at or above this value mean "unlimited".
const NO_LIMIT: u64 = 1 << 62;

/// The peak memory that some work needs, beyond what is already allocated, in bytes by named parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Need {
    parts: Vec<(&'static str, u64)>,
}

impl Need {
    /// A need of one part.
    pub fn of(part: &'static str, bytes: u64) -> Self {
        Self { parts: vec![(part, bytes)] }
    }

    /// Adds a part.
    pub fn and(mut self, part: &'static str, bytes: u64) -> Self {
        self.parts.push((part, bytes));
        self
    }

    /// The sum of all parts.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().fold(0, |sum, part| sum.saturating_add(part.1))
    }

    /// The name of the largest part.
    pub fn largest(&self) -> &'static str {
        self.parts.iter().max_by_key(|part| part.1).map_or("", |part| part.0)
    }

    /// The significant parts, largest first; empty if there is only one.
    fn described(&self) -> String {
        let mut parts = self.parts.clone();
        parts.retain(|part| part.1 >= self.bytes() / 100 && part.1 > 0);
        parts.sort_by_key(|part| std::cmp::Reverse(part.1));
        match parts.as_slice() {
            [] | [_] if self.parts.len() < 2 => String::new(),
            parts => {
                let each = parts.iter().map(|(part, bytes)| format!("{part} {}", size(*bytes)));
                format!(" ({})", each.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// The product of counts and sizes, saturating.
pub fn product(factors: &[usize]) -> u64 {
    factors.iter().fold(1u64, |product, &factor| product.saturating_mul(factor as u64))
}

/// What the tightest limit leaves for this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Available {
    /// Bytes that may still be allocated.
    pub bytes: u64,
    /// The limit as text, with its size.
    pub limit: String,
}

/// The memory that may still be allocated; `None` if the system does not say.
pub fn available() -> Option<Available> {
    if cfg!(target_os = "linux") { tightest(&|path| std::fs::read_to_string(path).ok()) } else { None }
}

/// Whether the address space of this process is limited (`ulimit -v`).
pub fn is_address_space_limited() -> bool {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    cfg!(target_os = "linux") && process_limit(&read, "Max address space").is_some()
}

/// Returns an error if work needs more than is available.
///
/// `what` is the subject of the message, `hint` says what to lower.
pub fn require(what: &str, need: &Need, hint: impl Into<Hint>) -> Result<()> {
    if need.bytes() < SMALL { Ok(()) } else { compare(what, need, hint, available()) }
}

/// Reserves room for `more` elements in `vec`, doubling it if memory allows; an error if memory cannot hold them.
///
/// `what` is the subject of the message, formatted only if there is one.
pub(crate) fn grow<T>(vec: &mut Vec<T>, more: usize, what: &dyn Display, hint: &str) -> Result<()> {
    if vec.capacity() - vec.len() >= more {
        return Ok(());
    }
    let what = what.to_string();
    let (len, least) = (vec.len(), vec.len().saturating_add(more));
    // The whole vector counts, not only what is added: it may have to move.
    let room = |wanted: usize| require(&what, &Need::of("", product(&[wanted, size_of::<T>()])), hint);
    let roomy = [vec.capacity().saturating_mul(2), vec.capacity().saturating_add(vec.capacity() / 8)];
    let roomy =
        roomy.map(|capacity| capacity.max(least)).into_iter().find(|&capacity| room(capacity).is_ok());
    let capacity = match roomy {
        Some(capacity) => capacity,
        None => room(least).map(|()| least)?,
    };
    vec.reserve_exact(capacity - len);
    Ok(())
}

/// The hint for a file that is too large.
pub(crate) const FEWER_ROWS: &str = "raise the limit, or give fewer rows";

/// The error for a file that could not be mapped; with both sizes if there was no room for it.
pub(crate) fn cannot_map(path: &Path, bytes: u64, error: io::Error) -> Error {
    let what = format!("reading `{}`", path.display());
    match compare(&what, &Need::of("", bytes), FEWER_ROWS, available()) {
        Err(refused) if error.kind() == io::ErrorKind::OutOfMemory => refused,
        _ => Error::io("map", path, error),
    }
}

fn compare(what: &str, need: &Need, hint: impl Into<Hint>, available: Option<Available>) -> Result<()> {
    let Some(Available { bytes: available, limit }) = available else { return Ok(()) };
    if need.bytes() <= available {
        return Ok(());
    }
    Err(Error::Memory {
        what: what.to_string(),
        need: need.bytes(),
        parts: need.described(),
        available,
        limit,
        hint: hint.into(),
    })
}

/// Reads a file of the system as text, if possible.
type Read<'r> = &'r dyn Fn(&str) -> Option<String>;

/// The limit that leaves the least.
fn tightest(read: Read<'_>) -> Option<Available> {
    let all = machine(read).into_iter().chain(process_limits(read)).chain(control_groups(read));
    let tightest = all.min_by_key(|candidate| candidate.bytes)?;
    Some(Available { bytes: tightest.bytes.saturating_sub(MARGIN), ..tightest })
}

/// What the machine has left, including swap.
fn machine(read: Read<'_>) -> Option<Available> {
    let text = read("/proc/meminfo")?;
    let total = kilobytes(&text, "MemTotal:")?;
    let free = kilobytes(&text, "MemAvailable:")?;
    let swap = kilobytes(&text, "SwapFree:").unwrap_or(0);
    let limit = format!("the memory of this machine ({})", size(total));
    Some(Available { bytes: free.saturating_add(swap), limit })
}

/// What the limits of the process leave.
fn process_limits(read: Read<'_>) -> Vec<Available> {
    let limits = [
        ("Max address space", "VmSize:", "address-space", "ulimit -v"),
        ("Max data size", "VmData:", "data-segment", "ulimit -d"),
    ];
    let left = |(name, used, kind, command): (&str, &str, &str, &str)| {
        let limit = process_limit(read, name)?;
        let used = kilobytes(&read("/proc/self/status")?, used)?;
        let limit_text = format!("the {kind} limit of {} ({command})", size(limit));
        Some(Available { bytes: limit.saturating_sub(used), limit: limit_text })
    };
    limits.into_iter().filter_map(left).collect()
}

/// The soft limit of that name, if there is one.
fn process_limit(read: Read<'_>, name: &str) -> Option<u64> {
    let text = read("/proc/self/limits")?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// What the control groups of the process leave: its own and all its ancestors.
fn control_groups(read: Read<'_>) -> Vec<Available> {
    let Some(groups) = read("/proc/self/cgroup") else { return Vec::new() };
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        if controllers.is_empty() {
            for mount in ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"] {
                found.extend(ancestors(mount, path).iter().filter_map(|folder| unified_group(read, folder)));
            }
        } else if controllers.split(',').any(|name| name == "memory") {
            let folders = ancestors("/sys/fs/cgroup/memory", path);
            found.extend(folders.iter().filter_map(|folder| older_group(read, folder)));
        }
    }
    found
}

/// The folder of a group and its ancestors. In a container the path may be one of the host, of which only the top is
/// mounted: the reader skips folders that do not exist.
fn ancestors(mount: &str, path: &str) -> Vec<String> {
    let mut path = path.trim_end_matches('/');
    let mut folders = vec![format!("{mount}{path}")];
    while let Some((above, _)) = path.rsplit_once('/') {
        path = above;
        folders.push(format!("{mount}{path}"));
    }
    folders
}

/// A group of version 2: the lower of its hard limit and its throttling limit.
fn unified_group(read: Read<'_>, folder: &str) -> Option<Available> {
    let number = |file: &str| read(&format!("{folder}/{file}"))?.trim().parse::<u64>().ok();
    let limit = [number("memory.max"), number("memory.high")].into_iter().flatten().min()?;
    let statistics = read(&format!("{folder}/memory.stat"));
    Some(group(limit, number("memory.current")?, statistics.as_deref(), "inactive_file "))
}

/// A group of version 1.
fn older_group(read: Read<'_>, folder: &str) -> Option<Available> {
    let number = |file: &str| read(&format!("{folder}/{file}"))?.trim().parse::<u64>().ok();
    let limit = number("memory.limit_in_bytes").filter(|&limit| limit < NO_LIMIT)?;
    let statistics = read(&format!("{folder}/memory.stat"));
    Some(group(limit, number("memory.usage_in_bytes")?, statistics.as_deref(), "total_inactive_file "))
}

/// What a group's limit leaves; inactive file pages count as free, since they are reclaimed under pressure.
fn group(limit: u64, used: u64, statistics: Option<&str>, reclaimable: &str) -> Available {
    let line = statistics.and_then(|text| text.lines().find_map(|line| line.strip_prefix(reclaimable)));
    let reclaimable = line.and_then(|number| number.trim().parse::<u64>().ok()).unwrap_or(0);
    let used = used.saturating_sub(reclaimable);
    let text = format!("the memory limit of {} of the control group (cgroup)", size(limit));
    Available { bytes: limit.saturating_sub(used), limit: text }
}

/// The number of kB after a name, in bytes.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: &str =
        "MemTotal:       24000000 kB\nMemFree: 1 kB\nMemAvailable:   20000000 kB\nSwapFree: 1000 kB\n";
    const LIMITS: &str = "Limit                     Soft Limit           Hard Limit           Units     \n\
        Max data size             unlimited            unlimited            bytes     \n\
        Max address space         1000000000           unlimited            bytes     \n";
    const STATUS: &str = "Name:\tpervade\nVmPeak:\t  200000 kB\nVmSize:\t  100000 kB\nVmData:\t   50000 kB\n";

    fn system(files: &[(&str, &str)]) -> Option<Available> {
        let read = |path: &str| files.iter().find(|file| file.0 == path).map(|file| file.1.to_string());
        tightest(&read)
    }

    #[test]
    fn the_machine_leaves_its_available_memory_and_swap() {
        let found = system(&[("/proc/meminfo", MEMINFO)]).unwrap();
        assert_eq!(found.bytes, 20_001_000 * 1024 - MARGIN);
        assert_eq!(found.limit, "the memory of this machine (24.58 GB)");
    }

    #[test]
    fn the_tightest_limit_counts() {
        let process =
            [("/proc/meminfo", MEMINFO), ("/proc/self/limits", LIMITS), ("/proc/self/status", STATUS)];
        let found = system(&process).unwrap();
        assert_eq!(found.bytes, 1_000_000_000 - 100_000 * 1024 - MARGIN);
        assert_eq!(found.limit, "the address-space limit of 1.00 GB (ulimit -v)");
        let group = [
            ("/proc/self/cgroup", "0::/user/job\n"),
            ("/sys/fs/cgroup/user/memory.max", "700000000\n"),
            ("/sys/fs/cgroup/user/memory.high", "max\n"),
            ("/sys/fs/cgroup/user/memory.current", "300000000\n"),
            ("/sys/fs/cgroup/user/memory.stat", "anon 5\ninactive_file 100000000\n"),
            ("/sys/fs/cgroup/user/job/memory.max", "max\n"),
            ("/sys/fs/cgroup/user/job/memory.current", "1\n"),
        ];
        let found = system(&[&process[..], &group].concat()).unwrap();
        assert_eq!(found.bytes, 500_000_000 - MARGIN);
        assert_eq!(found.limit, "the memory limit of 700.0 MB of the control group (cgroup)");
    }

    #[test]
    fn groups_of_version_1_are_read_where_a_container_mounts_them() {
        let group = |limit| {
            system(&[
                ("/proc/self/cgroup", "5:cpu:/\n4:hugetlb,memory:/docker/abc\n0::/\n"),
                ("/sys/fs/cgroup/memory/memory.limit_in_bytes", limit),
                ("/sys/fs/cgroup/memory/memory.usage_in_bytes", "200000000\n"),
                ("/sys/fs/cgroup/memory/memory.stat", "inactive_file 7\ntotal_inactive_file 50000000\n"),
            ])
        };
        assert_eq!(group("1000000000\n").unwrap().bytes, 850_000_000 - MARGIN);
        assert_eq!(group("9223372036854771712\n"), None);
    }

    #[test]
    fn unreadable_files_are_not_a_limit() {
        assert_eq!(system(&[]), None);
        let damaged = [
            ("/proc/meminfo", "MemTotal: many\nMemAvailable:\n"),
            ("/proc/self/limits", "Max address space\n"),
            ("/proc/self/status", ""),
            ("/proc/self/cgroup", "0\n::\n0::/a\nmemory:memory:memory\n"),
            ("/sys/fs/cgroup/a/memory.max", "-1"),
        ];
        assert_eq!(system(&damaged), None);
    }

    #[test]
    fn the_error_names_need_limit_and_parts() {
        let need = Need::of("parameters", 30_000_000_000).and("activations", 4_400_000_000).and("rows", 5);
        let limit = Available { bytes: 870_000_000, limit: "the limit of 1.00 GB".into() };
        let lower = || Hint::new("lower ").setting("hidden");
        let refused = compare("training", &need, lower(), Some(limit.clone())).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "training needs about 34.40 GB of memory (parameters 30.00 GB, activations 4.40 GB), \
             but the limit of 1.00 GB leaves 870.0 MB"
        );
        assert_eq!(refused.hint(), Some(lower()));
        assert!(compare("training", &Need::of("rows", 870_000_000), "", Some(limit)).is_ok());
        assert!(compare("training", &Need::of("rows", u64::MAX), "", None).is_ok());
        assert_eq!(product(&[usize::MAX, usize::MAX]), u64::MAX);
    }

    /// More than any machine has.
    #[test]
    fn too_much_is_an_error_before_it_is_allocated() {
        if available().is_none() {
            return;
        }
        let mut values: Vec<f32> = Vec::new();
        assert!(grow(&mut values, usize::MAX / 8, &"the table", "give fewer rows").is_err());
        assert_eq!(values.capacity(), 0);
        grow(&mut values, 10, &"the table", "").unwrap();
        assert!(values.capacity() >= 10);
    }
}
