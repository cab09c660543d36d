//! Checks that the processes of a run belong together.

use std::ops::Range;

use serde_json::{Map, Value};

use crate::compute::Ranks;
use crate::config::CheckedSettings;
use crate::origin::{first_difference, origin};
use crate::{Error, Result};

/// Returns an error unless the shares can be divided among the ranks and all ranks have the same version, settings and rows.
pub(crate) fn check_ranks(ranks: &dyn Ranks, settings: &CheckedSettings, checksum: &str) -> Result<()> {
    let (n, shares) = (ranks.size(), settings.settings.shares);
    if n == 1 {
        return Ok(());
    }
    if !shares.is_multiple_of(n) {
        let must = format!("which cannot be divided equally among {n} ranks");
        return Err(Error::setting("shares", shares, must)
            .with_hint("start as many ranks as there are shares, or half as many, or a quarter, .."));
    }
    let all = gather_text(ranks, &Value::Object(origin(settings, checksum)).to_string())?;
    let tables: Vec<Map<String, Value>> =
        all.iter().map(|text| serde_json::from_str(text).unwrap_or_default()).collect();
    for (rank, table) in tables.iter().enumerate() {
        if let Some((name, first, other)) = first_difference(&tables[0], table) {
            let problem =
                format!("the ranks do not agree: `{name}` is {other} on rank {rank} and {first} on rank 0");
            return Err(Error::device(problem)
                .with_hint("start all ranks with the same command, the same files and the same version"));
        }
    }
    Ok(())
}

/// Returns an error unless all ranks continue from the same checkpoint, or none does.
pub(crate) fn check_resumed(ranks: &dyn Ranks, progress: &str) -> Result<()> {
    if ranks.size() == 1 {
        return Ok(());
    }
    let all = gather_text(ranks, progress)?;
    match all.iter().position(|other| *other != all[0]) {
        None => Ok(()),
        Some(rank) => {
            let problem = format!("rank {rank} continues from {}, but rank 0 from {}", all[rank], all[0]);
            Err(Error::device(problem)
                .with_hint("the folder of the checkpoint must be one that all ranks share"))
        }
    }
}

/// The consecutive part of `0..n` that this rank works on.
pub(crate) fn part_of(ranks: &dyn Ranks, n: usize) -> Range<usize> {
    let each = n.div_ceil(ranks.size());
    let first = (ranks.rank() * each).min(n);
    first..(first + each).min(n)
}

/// The results of all ranks in order, `width` values for each of `n` items; `own` are those of [`part_of`].
pub(crate) fn gather_parts<T: bytemuck::Pod>(
    ranks: &dyn Ranks,
    mut own: Vec<T>,
    n: usize,
    width: usize,
) -> Result<Vec<T>> {
    if ranks.size() == 1 {
        return Ok(own);
    }
    let each = n.div_ceil(ranks.size()) * width;
    own.resize(each, T::zeroed());
    let mut all = vec![T::zeroed(); each * ranks.size()];
    ranks.all_gather(bytemuck::cast_slice(&own), bytemuck::cast_slice_mut(&mut all))?;
    // Only the last parts can be shorter.
    all.truncate(n * width);
    Ok(all)
}

/// The texts of all ranks, in order.
fn gather_text(ranks: &dyn Ranks, own: &str) -> Result<Vec<String>> {
    let mut lengths = vec![0u8; 8 * ranks.size()];
    ranks.all_gather(&(own.len() as u64).to_le_bytes(), &mut lengths)?;
    let (lengths, _) = lengths.as_chunks::<8>();
    let lengths: Vec<usize> = lengths.iter().map(|bytes| u64::from_le_bytes(*bytes) as usize).collect();
    let longest = lengths.iter().copied().max().unwrap_or(0);
    let mut padded = own.as_bytes().to_vec();
    padded.resize(longest, b' ');
    let mut all = vec![0u8; longest * ranks.size()];
    ranks.all_gather(&padded, &mut all)?;
    let texts = all.chunks(longest.max(1)).zip(lengths);
    Ok(texts.map(|(text, len)| String::from_utf8_lossy(&text[..len]).into_owned()).collect())
}
