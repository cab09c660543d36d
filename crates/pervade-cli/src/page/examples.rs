//! Rows as examples: some of their cells as text, or a picture.

use pervade::data::{ImageShape, Values};
use pervade::describe::ColumnTexts;
use pervade::model::Vade;
use pervade_report::{Example, Picture};

use super::TableView;
use super::cards::CELLS;
use crate::picture::Tone;

/// Larger pictures are reduced to about this many pixels per side.
const PICTURE_SIDE: usize = 48;
/// Characters of a row's name.
const LONGEST_NAME: usize = 80;

/// Makes examples of rows.
pub(crate) struct Examples<'a> {
    table: TableView<'a>,
    texts: &'a ColumnTexts,
    pictures: Option<(ImageShape, Tone)>,
}

impl<'a> Examples<'a> {
    pub(crate) fn new(model: &Vade, table: TableView<'a>, texts: &'a ColumnTexts) -> Self {
        let pictures = model.image().map(|shape| {
            let (low, high) = table.data.range();
            (shape, Tone::of_model(model.metadata(), [low as f32, high as f32].into_iter()))
        });
        Self { table, texts, pictures }
    }

    /// What the columns that go along say about a row; none if there are none.
    pub(crate) fn name(&self, row: usize) -> Option<String> {
        let kept = self.table.kept?;
        let cells = kept.columns.iter().map(|column| column[row].as_str()).filter(|cell| !cell.is_empty());
        let name = cells.collect::<Vec<_>>().join(" · ");
        (!name.is_empty()).then(|| name.chars().take(LONGEST_NAME).collect())
    }

    /// A row of the table, with these columns unless it is a picture or sparse.
    pub(crate) fn of_row(&self, row: usize, columns: &[usize]) -> Example {
        let data = self.table.data;
        let cell = |&j: &usize| (self.texts.name(j).to_string(), self.texts.shown(j, data.cell(row, j)));
        let picture = self.pictures.and_then(|_| {
            let mut values = vec![0.0; data.n_columns()];
            data.row_into(row, &mut values);
            self.picture(&values)
        });
        let cells = match data.values() {
            _ if picture.is_some() => Vec::new(),
            Values::Csr(csr) => {
                let (columns, values) = csr.row(row);
                self.largest(columns.iter().zip(values).map(|(&j, &x)| (j as usize, f64::from(x))).collect())
            }
            _ => columns.iter().map(cell).collect(),
        };
        Example { row: Some(row), name: self.name(row), cells, picture, ..Example::default() }
    }

    /// A row that the model made.
    pub(crate) fn generated(&self, row: &[f32], columns: &[usize]) -> Example {
        if self.pictures.is_none() && matches!(self.table.data.values(), Values::Csr(_)) {
            let entries = row.iter().enumerate().map(|(j, &x)| (j, f64::from(x)));
            return Example { cells: self.largest(entries.collect()), ..Example::default() };
        }
        self.with_columns(row, columns)
    }

    /// A row that the model made, with these columns unless it is a picture.
    pub(crate) fn with_columns(&self, row: &[f32], columns: &[usize]) -> Example {
        let cell = |&j: &usize| (self.texts.name(j).to_string(), self.texts.rounded(j, f64::from(row[j])));
        let picture = self.picture(row);
        let cells = if picture.is_some() { Vec::new() } else { columns.iter().map(cell).collect() };
        Example { cells, picture, ..Example::default() }
    }

    /// The largest entries of a sparse row in one cell: it has few of the columns that other rows have.
    fn largest(&self, mut entries: Vec<(usize, f64)>) -> Vec<(String, String)> {
        entries.retain(|&(_, x)| x > 0.0);
        entries.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let entry = |&(j, x): &(usize, f64)| format!("{} {}", self.texts.name(j), self.texts.rounded(j, x));
        let shown: Vec<String> = entries.iter().take(CELLS).map(entry).collect();
        vec![("largest entries".to_string(), shown.join(", "))]
    }

    /// A row as a picture, reduced by a whole factor if it is large; none if rows are no pictures.
    pub(crate) fn picture(&self, row: &[f32]) -> Option<Picture> {
        let (ImageShape { height, width, channels }, tone) = self.pictures?;
        let factor = height.max(width).div_ceil(PICTURE_SIDE).max(1);
        let (small_height, small_width) = (height.div_ceil(factor), width.div_ceil(factor));
        let mut pixels = Vec::with_capacity(small_height * small_width * channels);
        for i in 0..small_height {
            for j in 0..small_width {
                for channel in 0..channels {
                    let (mut sum, mut n) = (0.0, 0.0);
                    for y in i * factor..((i + 1) * factor).min(height) {
                        for x in j * factor..((j + 1) * factor).min(width) {
                            sum += row[(y * width + x) * channels + channel];
                            n += 1.0;
                        }
                    }
                    pixels.push(tone.of(sum / n));
                }
            }
        }
        Some(Picture { width: small_width, height: small_height, channels, pixels })
    }
}
