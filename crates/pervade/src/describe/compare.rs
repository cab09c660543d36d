//! How two groups of rows differ, whichever they are.

use super::distinctions::{self, Clusters};
use super::{ColumnTexts, Distinction, SAMPLE_ROWS};
use crate::data::Dataset;
use crate::model::Vade;
use crate::rows::sample_rows;
use crate::seed::{Key, Stream};
use crate::{Error, Result};

/// Two groups of rows.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Comparison {
    /// Rows in each group.
    pub sizes: [usize; 2],
    /// Columns that tell the first group from the second, the most telling first.
    pub columns: Vec<Distinction>,
    /// The mean row of each group, if rows are pictures.
    pub mean_rows: Option<[Vec<f32>; 2]>,
}

/// Compares two groups of rows: `groups` has 0 for each row of the first, 1 for each of the second, and a larger number
/// for rows that are in neither. At most `limit` columns are returned. There are no p-values, as in
/// [`describe`](super::describe). Columns are [matched](Vade::matched) by name.
pub fn compare_groups(model: &Vade, data: &Dataset, groups: &[u32], limit: usize) -> Result<Comparison> {
    let data = &*model.matched(data)?;
    if groups.len() != data.n_rows() {
        let must = format!("must have one entry for each of the {} rows", data.n_rows());
        return Err(Error::setting("groups", format!("{} entries", groups.len()), must));
    }
    let clusters = Clusters::new(data, groups, 2);
    let sizes = [clusters.sizes()[0], clusters.sizes()[1]];
    let members: Vec<u32> = (0..groups.len() as u32).filter(|&row| groups[row as usize] < 2).collect();
    let sample = sample_rows(members.len(), SAMPLE_ROWS, Key::new(0, Stream::Sample, 0));
    let sample: Vec<u32> = sample.into_iter().map(|i| members[i as usize]).collect();
    let limit = if sizes.contains(&0) { 0 } else { limit };
    let columns = distinctions::of_all(&clusters, &ColumnTexts::new(model), &sample, limit);
    let is_picture = data.image().or(model.image()).is_some();
    let mean_rows = is_picture.then(|| [clusters.mean_row(0), clusters.mean_row(1)]);
    let found = Comparison { sizes, columns: columns.into_iter().next().unwrap_or_default(), mean_rows };
    data.unless_changed(Ok(found))
}
