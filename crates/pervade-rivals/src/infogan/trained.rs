//! Trained networks: Q finds the clusters of rows, G makes new rows.

use crate::ImageDevice;
use pervade::compute::{Params, RowSelection};
use pervade::data::{Dataset, Preparation};
use pervade::seed::{Key, Stream};
use pervade::{Clustering, Error, Result};

use super::training::Training;
use super::{Discriminator, Generator, Judged, Made, Sizes};

/// Rows that go through a network at once.
const BLOCK: usize = 256;

/// What training leaves.
pub(crate) struct Trained {
    sizes: Sizes,
    preparation: Preparation,
    /// The networks' numbers: G's, and those of D and Q.
    made_by: Vec<f32>,
    judged_by: Vec<f32>,
}

impl Trained {
    pub(crate) fn new<D: ImageDevice>(
        device: &D,
        sizes: Sizes,
        preparation: Preparation,
        training: &Training<'_, D>,
    ) -> Result<Self> {
        let values = |params: &Params<D::Buffer>| {
            let mut values = vec![0.0; params.stride];
            device.read(&params.values, 0, &mut values)?;
            Ok::<_, Error>(values)
        };
        let (made_by, judged_by) = (values(&training.made_by)?, values(&training.judged_by)?);
        Ok(Self { sizes, preparation, made_by, judged_by })
    }

    /// Codes with that choice: [count, inputs].
    fn codes(&self, cluster: usize, count: usize, seed: u64) -> Vec<f32> {
        let (key, columns) = (Key::new(seed, Stream::Generate, cluster), self.sizes.n_inputs());
        let value = |i: usize| match i % columns {
            choice if choice < self.sizes.n_clusters => f32::from(u8::from(choice == cluster)),
            column => (2.0 * key.uniform((i / columns) as u64, column as u32, 0) - 1.0) as f32,
        };
        (0..count * columns).map(value).collect()
    }
}

impl<D: ImageDevice> Clustering<D> for Trained {
    fn n_clusters(&self) -> usize {
        self.sizes.n_clusters
    }

    fn assign(&self, device: &D, data: &Dataset) -> Result<Vec<u32>> {
        self.preparation.check_columns(data)?;
        let discriminator = Discriminator::new(&self.sizes);
        let params = Params::fixed(device, &self.judged_by)?;
        let rows = device.rows(data.view(&self.preparation))?;
        let n = BLOCK.min(data.n_rows());
        let mut batch = device.batch(&rows, 1, n)?;
        let mut judged = Judged::new(device, &self.sizes, n, 1, false)?;
        let mut output = vec![0.0; n * self.sizes.n_outputs()];
        let mut clusters = Vec::with_capacity(data.n_rows());
        for first in (0..data.n_rows()).step_by(n) {
            device.gather(&rows, RowSelection::Range { first }, &mut batch)?;
            device.copy_columns(
                device.batch_rows(&batch),
                0..data.n_columns(),
                &mut judged.images,
                [0, 0],
            )?;
            discriminator.forward(device, &params, true, &mut judged)?;
            device.read(&judged.output.data, 0, &mut output)?;
            let k = self.sizes.n_clusters;
            let greatest = |row: &[f32]| (1..k).fold(0, |best, m| if row[m] > row[best] { m } else { best });
            let there = output.chunks_exact(self.sizes.n_outputs()).take(data.n_rows() - first);
            clusters.extend(there.map(|row| greatest(row) as u32));
        }
        Ok(clusters)
    }

    /// None: what Q finds is a choice and a few numbers, and no layer is meant to stand for the row.
    fn embed(&self, _device: &D, _data: &Dataset) -> Result<Option<Vec<f32>>> {
        Ok(None)
    }

    fn generate(&self, device: &D, cluster: usize, count: usize, seed: u64) -> Result<Option<Vec<f32>>> {
        if cluster >= self.sizes.n_clusters {
            let must = format!("must be below {}, the number of clusters", self.sizes.n_clusters);
            return Err(Error::setting("cluster", cluster, must));
        }
        let generator = Generator::new(&self.sizes);
        let params = Params::fixed(device, &self.made_by)?;
        let columns = self.preparation.n_columns();
        let (n, codes) = (BLOCK.min(count.max(1)), self.codes(cluster, count, seed));
        let mut made = Made::new(device, &self.sizes, n, false)?;
        let mut rows = vec![0.0; count * columns];
        for (rows, codes) in rows.chunks_mut(n * columns).zip(codes.chunks(n * self.sizes.n_inputs())) {
            // The last block may be shorter: what is left of the one before is made again and not read.
            device.write(&mut made.z.data, 0, codes)?;
            generator.forward(device, &params, true, &mut made)?;
            device.read(&made.images.data, 0, rows)?;
        }
        rows.chunks_exact_mut(columns).for_each(|row| self.preparation.undo(row));
        Ok(Some(rows))
    }
}
