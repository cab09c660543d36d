//! What the columns of a table were taken for, in a paragraph.

use super::infer::Outcome;
use super::typed::Looked;
use super::{Column, ColumnType};

/// The largest number of columns, and of levels, that are named.
const MAX_NAMES: usize = 12;
const MAX_SHOWN_LEVELS: usize = 4;

/// The clustered columns by type, the others with a reason, and how many cells are missing.
pub(super) fn describe(looked: &[Looked]) -> String {
    let mut groups = Vec::new();
    for (kind, title) in [
        (ColumnType::Number, "numbers"),
        (ColumnType::Positive, "amounts, on a logarithmic scale"),
        (ColumnType::Count, "counts"),
        (ColumnType::YesNo, "yes/no"),
        (ColumnType::Category, "categories"),
        (ColumnType::Ordered, "ordered"),
        (ColumnType::Date, "dates"),
    ] {
        let of_kind = |column: &Looked| match &column.outcome {
            Outcome::Clustered(cells) if cells.column.kind == kind => Some(column_in_words(&cells.column)),
            _ => None,
        };
        groups.extend(group(title, looked.iter().filter_map(of_kind).collect()));
    }
    let others = looked.iter().filter_map(|column| match &column.outcome {
        Outcome::Clustered(_) => None,
        Outcome::Kept(reason) | Outcome::LeftOut(reason, _) => Some(format!("{} ({reason})", column.name)),
    });
    groups.extend(group("left out", others.collect()));
    groups.extend(gaps(looked));
    groups.join("; ")
}

/// A title and the first few names.
fn group(title: &str, names: Vec<String>) -> Option<String> {
    let shown = names.iter().take(MAX_NAMES).cloned().collect::<Vec<_>>().join(", ");
    match names.len() {
        0 => None,
        n if n > MAX_NAMES => Some(format!("{title}: {shown} and {} more", n - MAX_NAMES)),
        _ => Some(format!("{title}: {shown}")),
    }
}

/// The name of a column, and its levels if it has some.
fn column_in_words(column: &Column) -> String {
    let name = &column.name;
    match column.kind {
        ColumnType::YesNo if column.levels == ["0", "1"] => name.clone(),
        ColumnType::YesNo => format!("{name} ({})", column.levels.join(" or ")),
        ColumnType::Ordered if column.levels.len() <= MAX_SHOWN_LEVELS => {
            format!("{name} ({})", column.levels.join(" < "))
        }
        ColumnType::Category | ColumnType::Ordered => {
            let rare = if column.is_pooled() { ", rare ones as one" } else { "" };
            format!("{name} ({} levels{rare})", column.levels.len())
        }
        _ => name.clone(),
    }
}

/// How many cells are missing.
fn gaps(looked: &[Looked]) -> Option<String> {
    let missing = looked.iter().filter_map(|column| match &column.outcome {
        Outcome::Clustered(cells) if cells.column.has_gaps => {
            Some((&column.name, cells.values.iter().filter(|x| x.is_nan()).count()))
        }
        _ => None,
    });
    let missing: Vec<(&String, usize)> = missing.collect();
    let n: usize = missing.iter().map(|(_, n)| n).sum();
    match missing.as_slice() {
        [] => None,
        [(name, 1)] => Some(format!("1 cell is missing, in {name}")),
        [(name, n)] => Some(format!("{n} cells are missing, all in {name}")),
        columns => Some(format!("{n} cells are missing in {} columns", columns.len())),
    }
}
