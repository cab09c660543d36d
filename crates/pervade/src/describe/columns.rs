//! Names of columns, and cells as text.

use crate::data::{Column, ColumnType, Schema};
use crate::model::Vade;

/// Names and cells of a model's columns as text in the units of the table.
#[derive(Clone, Debug)]
pub struct ColumnTexts {
    schema: Schema,
}

/// Digits of rounded numbers, and of cells that are shown.
const DIGITS: usize = 4;
const SHOWN_DIGITS: usize = 6;

impl ColumnTexts {
    /// Those of a model: `column_1` and so on if the table has no names, the position of a pixel for pictures.
    pub fn new(model: &Vade) -> Self {
        if let Some(schema) = model.schema() {
            return Self { schema: schema.clone() };
        }
        let name = |j: usize| match (model.column_names(), model.image()) {
            (Some(names), _) => names[j].clone(),
            (None, Some(image)) => {
                let (pixel, channel) = (j / image.channels, j % image.channels);
                let name = format!("pixel {},{}", pixel / image.width + 1, pixel % image.width + 1);
                if image.channels == 1 { name } else { format!("{name} channel {}", channel + 1) }
            }
            (None, None) => format!("column_{}", j + 1),
        };
        let columns = (0..model.n_columns()).map(|j| Column::new(name(j), ColumnType::Number)).collect();
        Self { schema: Schema { columns, ..Schema::default() } }
    }

    /// The name of column `j`.
    pub fn name(&self, j: usize) -> &str {
        &self.schema.columns[j].name
    }

    /// The levels of column `j`; empty for numbers and dates.
    pub fn levels(&self, j: usize) -> &[String] {
        &self.schema.columns[j].levels
    }

    /// Whether the levels of column `j` have no order, so that only their shares can be compared.
    pub fn is_unordered(&self, j: usize) -> bool {
        matches!(self.schema.columns[j].kind, ColumnType::YesNo | ColumnType::Category)
            && !self.levels(j).is_empty()
    }

    /// Whether cells of column `j` are amounts, for which zero means none.
    pub(super) fn is_amount(&self, j: usize) -> bool {
        use ColumnType::{Count, Number, Positive};
        matches!(self.schema.columns[j].kind, Count | Number | Positive)
    }

    /// A cell of column `j` as it is written in the table; empty if it is missing.
    pub fn text(&self, j: usize, value: f64) -> String {
        self.schema.cell_to_text(j, value)
    }

    /// The cell that a text stands for, as [`ColumnTexts::text`] writes it; none if it is no value of column `j`.
    pub fn parse(&self, j: usize, text: &str) -> Option<f64> {
        self.schema.cell_from_text(j, text)
    }

    /// [`ColumnTexts::text`] with at most four digits, for numbers that are not cells of the table.
    pub fn rounded(&self, j: usize, value: f64) -> String {
        self.text(j, if self.is_amount(j) { rounded(value) } else { value })
    }

    /// [`ColumnTexts::text`] with at most six digits for numbers that are not whole: more would only hide what differs.
    pub fn shown(&self, j: usize, value: f64) -> String {
        let is_long = self.is_amount(j) && value.fract() != 0.0;
        self.text(j, if is_long { to_digits(value, SHOWN_DIGITS) } else { value })
    }
}

/// A number with at most four digits that count.
pub(super) fn rounded(value: f64) -> f64 {
    to_digits(value, DIGITS)
}

/// A number with so many digits that count; all digits before the decimal point do.
fn to_digits(value: f64, digits: usize) -> f64 {
    if value.abs() >= 10f64.powi(digits as i32) {
        return value.round();
    }
    format!("{value:.*e}", digits - 1).parse().unwrap_or(value)
}

/// A share as `62 %`.
pub(super) fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent > 0.0 && percent < 1.0 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}
