//! Inputs of the graph for tables whose columns have types, and their cells as numbers: indices of levels, seconds since the
//! origin of dates, NaN where missing.

use pervade::compute::ColumnFamily;
use pervade::data::{Column, ColumnType, DateFormat, LevelKind, Schema};
use pervade::model::Vade;

use super::graph::{Attribute, Dimension, Element, Graph, PREFIX, Value};

/// How the cells of a column are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Given {
    /// Numbers; NaN is missing.
    Number,
    /// Seconds since 1970-01-01 UTC; NaN is missing.
    Date,
    /// Words.
    Word,
}

impl Given {
    pub(super) fn of(column: &Column) -> Self {
        match column.kind {
            ColumnType::Date => Given::Date,
            _ if !column.levels.is_empty() && column.level_kind == LevelKind::Words => Given::Word,
            _ => Given::Number,
        }
    }
}

/// The columns of a typed table and the inputs of the graph that hold them.
pub(super) struct TypedInputs<'m> {
    schema: &'m Schema,
    /// Levels that the networks know, of each column; zero if it has none.
    n_levels: Vec<usize>,
    missing_words: Vec<String>,
    missing_numbers: Vec<f64>,
}

/// The input of a table as one matrix.
pub(super) const ROWS: &str = "rows";
/// Outputs of the graph.
pub(super) const OUTPUTS: [&str; 4] = ["cluster", "probabilities", "latents", "score"];

impl<'m> TypedInputs<'m> {
    pub(super) fn new(model: &'m Vade, schema: &'m Schema) -> Self {
        let families = model.metadata().preparation.columns().iter().map(|column| column.family);
        let n_levels = families.map(|family| match family {
            ColumnFamily::Categorical { levels } => levels as usize,
            ColumnFamily::Bernoulli => 2,
            // Ordered levels are numbers.
            ColumnFamily::Gaussian | ColumnFamily::Count => usize::MAX,
        });
        let (missing_words, missing_numbers) = schema.missing_cells();
        Self { schema, n_levels: n_levels.collect(), missing_words, missing_numbers }
    }

    /// Whether all columns are numbers, which are then one input.
    pub(super) fn is_matrix(&self) -> bool {
        self.schema.source_columns().iter().all(|column| Given::of(column) == Given::Number)
    }

    /// Names of the inputs: those of the columns, changed where ONNX could confuse them with others.
    pub(super) fn names(&self) -> Vec<String> {
        if self.is_matrix() {
            return vec![ROWS.to_string()];
        }
        let mut names: Vec<String> = Vec::new();
        for (j, column) in self.schema.source_columns().iter().enumerate() {
            let plain: String = column.name.chars().map(|c| if c.is_control() { '_' } else { c }).collect();
            let is_taken = plain.is_empty() || plain.starts_with(PREFIX) || OUTPUTS.contains(&plain.as_str());
            let mut name = if is_taken { format!("column.{plain}") } else { plain };
            if names.contains(&name) {
                name = format!("column.{}.{name}", j + 1);
            }
            names.push(name);
        }
        names
    }

    /// Adds the inputs; returns the cells in double precision, those that tell where others are missing among them. `[batch, D]`
    pub(super) fn cells(&self, g: &mut Graph) -> Value {
        let cells = self.source_cells(g);
        if !self.schema.has_gap_columns() {
            return cells;
        }
        let sources: Vec<usize> = self.schema.columns.iter().filter_map(|column| column.gap_of).collect();
        let of = g.columns(&cells, &sources);
        let is_missing = g.op("IsNaN", &[&of]);
        let gaps = g.cast(&is_missing, Element::Double);
        g.concat(&[cells, gaps])
    }

    /// The cells of the columns that the table itself has.
    fn source_cells(&self, g: &mut Graph) -> Value {
        let names = self.names();
        let columns = self.schema.source_columns();
        let d = columns.len();
        if self.is_matrix() {
            let dims = [Dimension::Batch, Dimension::Fixed(d)];
            g.input(ROWS, Element::Double, &dims, "One row per row of the table; NaN is a missing cell.");
        } else {
            let one = [Dimension::Batch, Dimension::Fixed(1)];
            for (column, name) in columns.iter().zip(&names) {
                let element = if Given::of(column) == Given::Word { Element::Text } else { Element::Double };
                g.input(name, element, &one, &description(column));
            }
        }
        let numeric: Vec<usize> = (0..d).filter(|&j| Given::of(&columns[j]) == Given::Number).collect();
        let mut parts = Vec::new();
        let mut order: Vec<usize> = Vec::new();
        if !numeric.is_empty() {
            let inputs: Vec<Value> = numeric.iter().map(|&j| names[j.min(names.len() - 1)].clone()).collect();
            let given = if self.is_matrix() { ROWS.to_string() } else { g.concat(&inputs) };
            self.numbers(g, &given, &numeric, &mut parts, &mut order);
        }
        for (j, column) in columns.iter().enumerate() {
            match Given::of(column) {
                Given::Number => continue,
                Given::Date => parts.push(dates(g, column, &names[j])),
                Given::Word => parts.push(self.words(g, j, &names[j])),
            }
            order.push(j);
        }
        let cells = g.concat(&parts);
        if order.is_sorted() {
            return cells;
        }
        let position = |j: usize| order.iter().position(|&other| other == j).unwrap_or(0);
        g.columns(&cells, &(0..d).map(position).collect::<Vec<usize>>())
    }

    /// Columns given as numbers: what stands for missing cells becomes NaN, and numbers that are levels their indices.
    fn numbers(
        &self,
        g: &mut Graph,
        given: &str,
        numeric: &[usize],
        parts: &mut Vec<Value>,
        order: &mut Vec<usize>,
    ) {
        let columns: Vec<&Column> = numeric.iter().map(|&j| &self.schema.columns[j]).collect();
        let mut x = given.to_string();
        for &number in &self.missing_numbers {
            let (number, nan) = (g.double(number), g.double(f64::NAN));
            let is_missing = g.op("Equal", &[&x, &number]);
            x = g.op("Where", &[&is_missing, &nan, &x]);
        }
        let amounts: Vec<bool> =
            columns.iter().map(|c| matches!(c.kind, ColumnType::Positive | ColumnType::Count)).collect();
        if amounts.contains(&true) {
            let (zero, nan) = (g.double(0.0), g.double(f64::NAN));
            let (amounts, below) = (g.bools(&amounts), g.op("Less", &[&x, &zero]));
            let is_missing = g.op("And", &[&amounts, &below]);
            x = g.op("Where", &[&is_missing, &nan, &x]);
        }
        let others: Vec<bool> = columns.iter().map(|column| !is_zero_one(column)).collect();
        if others.contains(&false) {
            let [zero, one, nan] = [0.0, 1.0, f64::NAN].map(|value| g.double(value));
            let [zeros, ones] = [&zero, &one].map(|value| g.op("Equal", &[&x, value]));
            let (either, others) = (g.op("Or", &[&zeros, &ones]), g.bools(&others));
            let is_known = g.op("Or", &[&either, &others]);
            x = g.op("Where", &[&is_known, &x, &nan]);
        }
        let is_mapped = |i: &usize| !columns[*i].levels.is_empty() && others[*i];
        let plain: Vec<usize> = (0..columns.len()).filter(|i| !is_mapped(i)).collect();
        if plain.len() == columns.len() {
            parts.push(x);
        } else {
            if !plain.is_empty() {
                parts.push(g.columns(&x, &plain));
            }
            for i in (0..columns.len()).filter(is_mapped) {
                let column = g.columns(&x, &[i]);
                parts.push(self.level_numbers(g, numeric[i], &column));
            }
        }
        order.extend(plain.iter().map(|&i| numeric[i]));
        order.extend((0..columns.len()).filter(is_mapped).map(|i| numeric[i]));
    }

    /// The cell of each level of a column, and of all others: NaN, or the last level if rare ones are pooled there.
    fn level_cells(&self, j: usize) -> (Vec<f32>, f32) {
        let column = &self.schema.columns[j];
        let cell = |level: usize| if level < self.n_levels[j] { level as f32 } else { f32::NAN };
        let cells: Vec<f32> = (0..column.levels.len()).map(cell).collect();
        let other = if column.is_pooled() { cells.last().copied() } else { None };
        (cells, other.unwrap_or(f32::NAN))
    }

    /// Numbers that are names of levels.
    fn level_numbers(&self, g: &mut Graph, j: usize, x: &str) -> Value {
        let (cells, other) = self.level_cells(j);
        let levels = self.schema.columns[j].levels.iter();
        let known: Vec<(f64, f64)> = levels
            .zip(cells)
            .filter_map(|(level, cell)| Some((level.parse().ok()?, f64::from(cell))))
            .filter(|(_, cell)| !cell.is_nan())
            .collect();
        let (numbers, cells): (Vec<f64>, Vec<f64>) = known.into_iter().unzip();
        let (numbers, cells) = (g.doubles(&numbers), g.doubles(&cells));
        let (zero, nan, other) = (g.double(0.0), g.double(f64::NAN), g.double(f64::from(other)));
        let is_level = g.op("Equal", &[x, &numbers]);
        let is_level = g.cast(&is_level, Element::Double);
        let chosen = g.mul(&is_level, &cells);
        let [chosen, n_chosen] = [&chosen, &is_level].map(|of| g.sum(of, 1, true));
        let is_known = g.op("Greater", &[&n_chosen, &zero]);
        let is_missing = g.op("IsNaN", &[x]);
        let otherwise = g.op("Where", &[&is_missing, &nan, &other]);
        g.op("Where", &[&is_known, &chosen, &otherwise])
    }

    /// Words that are names of levels.
    fn words(&self, g: &mut Graph, j: usize, input: &str) -> Value {
        let (mut cells, other) = self.level_cells(j);
        let mut words = self.schema.columns[j].levels.clone();
        for word in self.missing_words.iter().filter(|_| !other.is_nan()) {
            if !words.contains(word) {
                words.push(word.clone());
                cells.push(f32::NAN);
            }
        }
        let attributes = [
            Attribute::Texts("keys_strings", &words),
            Attribute::Floats("values_floats", &cells),
            Attribute::Float("default_float", other),
        ];
        let cells = g.op_with("LabelEncoder", &[input], &attributes);
        g.cast(&cells, Element::Double)
    }
}

/// Whether the cells are the levels' indices themselves.
fn is_zero_one(column: &Column) -> bool {
    match column.level_kind {
        LevelKind::Truth => column.levels == ["false", "true"],
        LevelKind::Numbers => column.levels == ["0", "1"],
        LevelKind::Words => false,
    }
}

/// Seconds since the origin of the column; dates far away stand for something else, such as "never".
fn dates(g: &mut Graph, column: &Column, input: &str) -> Value {
    let origin = column.date.map_or(0, |date| date.origin);
    let [first, last, origin, nan] =
        [DateFormat::YEARS[0], DateFormat::YEARS[1], origin as f64, f64::NAN].map(|x| g.double(x));
    let early = g.op("Less", &[input, &first]);
    let late = g.op("GreaterOrEqual", &[input, &last]);
    let absurd = g.op("Or", &[&early, &late]);
    let seconds = g.sub(input, &origin);
    g.op("Where", &[&absurd, &nan, &seconds])
}

/// What the input of a column holds.
fn description(column: &Column) -> String {
    match Given::of(column) {
        Given::Number => format!("{}; NaN is missing", column.kind),
        Given::Date => "seconds since 1970-01-01 UTC; NaN is missing".to_string(),
        Given::Word if column.is_pooled() => {
            format!("{}; an empty text is missing, other words are one level", column.kind)
        }
        Given::Word => format!("{}; other words are missing", column.kind),
    }
}
