//! Names of columns: those that say what a column is, and lists of names in messages.

use crate::{Error, Hint};

/// What the name of a column says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::data) enum IdName {
    /// `id`, `patient_id`, `PassengerId`: whole numbers under such a name are no quantity.
    Id,
    /// `index`, `row`, `Unnamed: 0`: row numbers, if they count.
    Index,
    /// No name: row numbers, if they count, as spreadsheets and data frames write them.
    Unnamed,
}

/// Whether a name looks like that of an id or of row numbers.
pub(in crate::data) fn looks_like_id(name: &str) -> Option<IdName> {
    const IDS: [&str; 5] = ["id", "uuid", "guid", "rowid", "row_id"];
    const INDICES: [&str; 8] =
        ["index", "idx", "row", "rowname", "rownames", "row.names", "row_number", "rownumber"];
    let lower = name.trim().to_lowercase();
    let ends = |ending: &str| lower.len() > ending.len() && lower.ends_with(ending);
    // `PassengerId`, `patientID`, but neither `Covid` nor `COVID`.
    let camel = ["Id", "ID"].into_iter().any(|ending| {
        let stem = name.trim().strip_suffix(ending);
        stem.is_some_and(|stem| stem.ends_with(|c: char| c.is_lowercase() || c.is_numeric()))
    });
    if lower.is_empty() {
        Some(IdName::Unnamed)
    } else if IDS.contains(&lower.as_str()) || camel || ["_id", ".id", "-id", " id"].into_iter().any(ends) {
        Some(IdName::Id)
    } else if INDICES.contains(&lower.as_str()) || lower.starts_with("unnamed: ") {
        Some(IdName::Index)
    } else {
        None
    }
}

/// The first few names, and how many more there are.
pub(in crate::data) fn listed<S: AsRef<str>>(names: &[S], most: usize) -> String {
    let shown: Vec<String> = names.iter().take(most).map(|name| format!("`{}`", name.as_ref())).collect();
    let more = names.len() - shown.len();
    if more == 0 { shown.join(", ") } else { format!("{} and {more} more", shown.join(", ")) }
}

/// The error for rows whose columns are not those of the model.
pub(crate) fn other_names(source: &str, missing: &[&str], unexpected: &[&str]) -> Error {
    /// The largest number of names in the message.
    const MOST: usize = 5;
    let mut problems = Vec::new();
    for (what, names) in [("missing", missing), ("unexpected", unexpected)] {
        if !names.is_empty() {
            problems.push(format!("{what}: {}", listed(names, MOST)));
        }
    }
    let problem = format!("its columns are not those that the model was fitted on ({})", problems.join("; "));
    let hint = if missing.is_empty() {
        let remove = Hint::new("remove those columns").also("");
        remove.setting_to("labels", "column:NAME").text(" leaves a column of labels out")
    } else {
        Hint::from(
            "give the columns that the model was fitted on, in any order; rows without names (.npy) go by position",
        )
    };
    Error::data(source, problem).with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_ids_are_recognised() {
        for name in
            ["id", "ID", "Id", "patient_id", "sample.id", "Row ID", "PassengerId", "patientID", "uuid"]
        {
            assert_eq!(looks_like_id(name), Some(IdName::Id), "{name}");
        }
        for name in ["index", "Unnamed: 0", "row.names", " Index "] {
            assert_eq!(looks_like_id(name), Some(IdName::Index), "{name}");
        }
        assert_eq!(looks_like_id(""), Some(IdName::Unnamed));
        for name in ["COVID", "covid", "acid", "paid", "grid", "identity", "body_mass_index", "width", "y"] {
            assert_eq!(looks_like_id(name), None, "{name}");
        }
    }
}
