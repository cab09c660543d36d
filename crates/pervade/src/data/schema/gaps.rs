//! Gaps that mean something: for each column with missing cells, a yes/no column that tells where they are.

use super::{Column, ColumnType, Schema};
use crate::Result;
use crate::data::Dataset;
use crate::data::options::{ReadOptions, Table};

/// The note for a table without gaps, if gaps are to count.
pub const NO_GAPS: &str = "no cell is missing: there are no gaps that could tell clusters apart";

impl Schema {
    /// The columns of the table itself: all but those that tell where others have gaps.
    pub fn source_columns(&self) -> &[Column] {
        let n = self.columns.iter().position(|column| column.gap_of.is_some());
        &self.columns[..n.unwrap_or(self.columns.len())]
    }

    /// Whether some columns tell where others have gaps.
    pub fn has_gap_columns(&self) -> bool {
        self.source_columns().len() < self.columns.len()
    }

    /// Rows without the columns that tell where others have gaps.
    pub fn source_cells(&self, rows: &[f32]) -> Vec<f32> {
        let n = self.source_columns().len();
        rows.chunks_exact(self.columns.len()).flat_map(|row| row[..n].iter().copied()).collect()
    }

    /// Removes the cells of each row that its gap columns say are missing. `[N, D]`
    pub(crate) fn blank_gaps(&self, rows: &mut [f32]) {
        for row in rows.chunks_exact_mut(self.columns.len()) {
            for (j, column) in self.columns.iter().enumerate() {
                if let Some(of) = column.gap_of.filter(|_| row[j] >= 0.5) {
                    row[of] = f32::NAN;
                }
            }
        }
    }

    /// Adds a column for each that has gaps.
    fn add_gap_columns(&mut self) {
        let with_gaps: Vec<usize> = (0..self.columns.len()).filter(|&j| self.columns[j].has_gaps).collect();
        for of in with_gaps {
            let mut column = Column::new(String::new(), ColumnType::YesNo);
            column.levels = vec!["no".to_string(), "yes".to_string()];
            column.gap_of = Some(of);
            self.columns.push(column);
        }
        self.name_gap_columns();
    }

    /// Names the gap columns after the columns that they belong to.
    fn name_gap_columns(&mut self) {
        let mut names: Vec<String> = self.source_columns().iter().map(|column| column.name.clone()).collect();
        for j in names.len()..self.columns.len() {
            let of = self.columns[j].gap_of.map_or("", |of| names[of].as_str());
            let mut name = format!("{of} is missing");
            while names.contains(&name) {
                name.push('*');
            }
            names.push(name.clone());
            self.columns[j].name = name;
        }
    }

    /// Gives the columns of the table other names.
    pub(in crate::data) fn rename(&mut self, names: &[String]) {
        self.columns.iter_mut().zip(names).for_each(|(column, name)| column.name.clone_from(name));
        self.name_gap_columns();
    }

    /// The cells of the gap columns, column by column, from those of the others.
    pub(super) fn gap_values(&self, values: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let is_gap = |x: &f64| f64::from(u8::from(x.is_nan()));
        let sources = self.columns.iter().filter_map(|column| column.gap_of);
        sources.map(|of| values[of].iter().map(is_gap).collect()).collect()
    }
}

/// Adds a column to a table for each of its columns that has gaps; says in words for which.
pub(super) fn add(schema: &mut Schema, values: &mut Vec<Vec<f64>>) -> Option<String> {
    schema.add_gap_columns();
    let gaps = schema.gap_values(values);
    values.extend(gaps);
    let n = schema.columns.len() - schema.source_columns().len();
    let columns = if n == 1 { "1 column".to_string() } else { format!("{n} columns") };
    (n > 0).then(|| format!("that a cell is missing counts as a value of its own in {columns}"))
}

/// What is wrong with the gap columns of a schema that was read from a file.
pub(super) fn check(columns: &[Column]) -> std::result::Result<(), String> {
    let n = columns.iter().position(|column| column.gap_of.is_some()).unwrap_or(columns.len());
    let is_right =
        |column: &Column| column.gap_of.is_some_and(|of| of < n) && column.kind == ColumnType::YesNo;
    match columns[n..].iter().find(|column| !is_right(column)) {
        None => Ok(()),
        Some(column) => Err(format!("column `{}` tells the gaps of no column", column.name)),
    }
}

impl Table {
    /// The table with a note if gaps are to count, but there are none.
    pub(in crate::data) fn noting_absent_gaps(mut self, options: &ReadOptions) -> Self {
        let has_gap_columns = self.data.schema().is_some_and(|schema| schema.has_gap_columns());
        if options.missing_informative && !has_gap_columns && !self.notes.iter().any(|note| note == NO_GAPS) {
            self.notes.push(NO_GAPS.to_string());
        }
        self
    }
}

impl Dataset<'_> {
    /// Number of columns of the table itself, without those that tell where others have gaps.
    pub fn n_source_columns(&self) -> usize {
        self.schema().map_or(self.n_columns(), |schema| schema.source_columns().len())
    }

    /// A copy with a yes/no column for each column that has missing cells, so that a fit learns where cells are missing; see
    /// [`ReadOptions::missing_informative`]. Without gaps it is just a copy.
    pub fn with_informative_gaps(&self) -> Result<Dataset<'static>> {
        let Some(mut schema) = self.schema().map(|schema| (**schema).clone()) else {
            return Ok(self.with_columns(&(0..self.n_columns()).collect::<Vec<usize>>()));
        };
        schema.columns.truncate(self.n_source_columns());
        schema.add_gap_columns();
        self.with_gap_columns(&schema)
    }

    /// A copy with the columns of `schema`, whose gap columns this table lacks.
    pub(crate) fn with_gap_columns(&self, schema: &Schema) -> Result<Dataset<'static>> {
        let n_source = schema.source_columns().len();
        let sources: Vec<usize> = schema.columns.iter().filter_map(|column| column.gap_of).collect();
        let mut cells = Vec::with_capacity(self.n_rows() * schema.columns.len());
        for i in 0..self.n_rows() {
            cells.extend((0..n_source).map(|j| self.cell(i, j)));
            cells.extend(sources.iter().map(|&of| f64::from(u8::from(self.cell(i, of).is_nan()))));
        }
        let first_row = self.row_number(0) - 1;
        let data = Dataset::typed(cells, schema.clone().into(), self.source().to_string())?;
        Ok(data.with_first_row(first_row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Schema {
        let mut a = Column::new("a", ColumnType::Number);
        a.has_gaps = true;
        let b = Column::new("a is missing", ColumnType::Number);
        let mut schema = Schema { columns: vec![a, b], is_named: true, ..Schema::default() };
        schema.add_gap_columns();
        schema
    }

    #[test]
    fn gap_columns_follow_the_others_and_have_names_of_their_own() {
        let mut schema = schema();
        assert_eq!(schema.names(), ["a", "a is missing", "a is missing*"]);
        assert_eq!((schema.source_columns().len(), schema.columns[2].gap_of), (2, Some(0)));
        schema.rename(&["x".to_string(), "y".to_string()]);
        assert_eq!(schema.names(), ["x", "y", "x is missing"]);
        let text = serde_json::to_string(&schema).unwrap();
        assert_eq!(serde_json::from_str::<Schema>(&text).unwrap(), schema);
        let wrong = text.replace("\"gap_of\":0", "\"gap_of\":2");
        assert!(serde_json::from_str::<Schema>(&wrong).unwrap_err().to_string().contains("tells the gaps"));
    }

    #[test]
    fn cells_of_gap_columns_tell_what_is_missing() {
        let schema = schema();
        assert_eq!(schema.gap_values(&[vec![1.0, f64::NAN], vec![2.0, 3.0]]), [[0.0, 1.0]]);
        let mut rows = [1.0, 2.0, 0.0, 3.0, 4.0, 1.0];
        schema.blank_gaps(&mut rows);
        assert!(rows[3].is_nan() && rows[..3] == [1.0, 2.0, 0.0] && rows[4..] == [4.0, 1.0]);
    }
}
