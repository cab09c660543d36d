//! Filling the gaps of rows.

use super::{Cells, Vade};
use crate::Result;
use crate::compute::Device;
use crate::data::Dataset;
use crate::seed::{Key, Stream};

/// How often the filled rows are encoded again. The first pass encodes rows with their gaps, the next ones with the
/// cells that the last one filled in; after a few the cells hardly change.
const N_PASSES: usize = 3;

impl Vade {
    /// The cells of the rows, [N, D], with missing ones filled in: the mean of p(x|z) (of a category the most likely level)
    /// or, with [`Cells::Draw`], a sample of it. Observed cells are returned as they are.
    pub fn impute<D: Device>(&self, device: &D, data: &Dataset, cells: Cells, seed: u64) -> Result<Vec<f64>> {
        let (d, n) = (self.n_columns(), data.n_rows());
        self.require_memory(device, "filling the gaps", n, self.n_latents() + 6 * d, true)?;
        let data = &*self.matched(data)?;
        let original = data.cells();
        let mut filled = original.clone();
        let is_missing = |i: usize| original[i].is_nan();
        if !(0..filled.len()).any(is_missing) {
            return Ok(filled);
        }
        for _ in 0..N_PASSES {
            let rows = self.reconstruct(device, &data.with_cells(&filled))?;
            self.fill(&original, &rows, &mut filled);
        }
        if cells == Cells::Draw {
            let latents = self.embed(device, &data.with_cells(&filled))?;
            let key = Key::new(seed, Stream::GenerateCells, 0);
            let rows = self.decode_with(device, &latents, Some(key))?;
            self.fill(&original, &rows, &mut filled);
        }
        Ok(filled)
    }

    /// Takes the missing cells from decoded rows.
    fn fill(&self, original: &[f64], rows: &[f32], filled: &mut [f64]) {
        let d = self.n_columns();
        for (i, cell) in filled.iter_mut().enumerate().filter(|(i, _)| original[*i].is_nan()) {
            *cell = self.metadata.preparation.cell(i % d, rows[i]);
        }
    }
}
