//! Types of columns as users name them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// What the cells of a column mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ColumnType {
    /// Numbers on a linear scale.
    #[serde(rename = "number")]
    Number,
    /// Amounts that are never negative and strongly skewed, which are compared on a logarithmic scale.
    #[serde(rename = "positive")]
    Positive,
    /// Whole numbers that count something.
    #[serde(rename = "count")]
    Count,
    /// One of two levels.
    #[serde(rename = "yes/no")]
    YesNo,
    /// One of several levels without an order.
    #[serde(rename = "category")]
    Category,
    /// One of several levels in an order.
    #[serde(rename = "ordered")]
    Ordered,
    /// Dates or timestamps.
    #[serde(rename = "date")]
    Date,
    /// Not clustered: goes along to the results.
    #[serde(rename = "keep")]
    Kept,
}

impl ColumnType {
    /// All types, in the order of the help text.
    pub const ALL: [ColumnType; 8] = [
        ColumnType::Number,
        ColumnType::Positive,
        ColumnType::Count,
        ColumnType::YesNo,
        ColumnType::Category,
        ColumnType::Ordered,
        ColumnType::Date,
        ColumnType::Kept,
    ];

    /// The name that users type.
    pub fn name(self) -> &'static str {
        match self {
            ColumnType::Number => "number",
            ColumnType::Positive => "positive",
            ColumnType::Count => "count",
            ColumnType::YesNo => "yes/no",
            ColumnType::Category => "category",
            ColumnType::Ordered => "ordered",
            ColumnType::Date => "date",
            ColumnType::Kept => "keep",
        }
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The type that a user gives to a column: its name, for `ordered` with the levels in order.
///
/// ```
/// # use pervade::data::{ColumnSpec, ColumnType};
/// let spec: ColumnSpec = "ordered: small < medium < large".parse()?;
/// assert_eq!((spec.kind, spec.order.len()), (ColumnType::Ordered, 3));
/// # Ok::<(), pervade::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnSpec {
    /// The type.
    pub kind: ColumnType,
    /// The levels of an ordered column, the lowest first; if empty, numbers are in their own order.
    pub order: Vec<String>,
}

impl From<ColumnType> for ColumnSpec {
    fn from(kind: ColumnType) -> Self {
        Self { kind, order: Vec::new() }
    }
}

impl FromStr for ColumnSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let must = "must be one of number, positive, count, yes/no, category, date, keep, ordered, or \
                    `ordered: LEVEL < LEVEL < ..`";
        let refuse = || Error::setting("type", format!("`{text}`"), must);
        let (name, order) = text.split_once(':').map_or((text, None), |(name, order)| (name, Some(order)));
        let name = match name.trim() {
            "yesno" | "yes-no" => "yes/no",
            name => name,
        };
        let kind = ColumnType::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(refuse)?;
        let Some(order) = order else { return Ok(kind.into()) };
        let order: Vec<String> = order.split('<').map(|level| level.trim().to_string()).collect();
        let mut different = order.clone();
        different.sort_unstable();
        different.dedup();
        if kind != ColumnType::Ordered || order.len() < 2 || different.len() < order.len() {
            return Err(refuse());
        }
        Ok(Self { kind, order })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_parse_as_typed() {
        for kind in ColumnType::ALL {
            assert_eq!(kind.name().parse::<ColumnSpec>().unwrap(), kind.into());
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{kind}\""));
        }
        assert_eq!("yesno".parse::<ColumnSpec>().unwrap().kind, ColumnType::YesNo);
        let ordered: ColumnSpec = "ordered:low<mid< high ".parse().unwrap();
        assert_eq!(ordered.order, ["low", "mid", "high"]);
        for wrong in ["", "numbers", "count: a < b", "ordered: a", "ordered: a < a", "ordered:"] {
            let error = wrong.parse::<ColumnSpec>().unwrap_err().to_string();
            assert!(error.contains("must be one of number, positive, count, yes/no"), "{error}");
        }
    }
}
