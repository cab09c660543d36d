//! Trained networks: Q assigns rows to clusters, G generates new rows.

use crate::ImageDevice;
use pervade::compute::{Params, RowSelection};
use pervade::data::{Dataset, Preparation};
use pervade::seed::{Key, Stream};
use pervade::{Clustering, Error, Result};

use super::training::Training;
use super::{Discriminator, DiscriminatorTape, Generator, GeneratorTape, Sizes};

/// Rows per forward pass.
const BLOCK: usize = 256;

/// The result of training.
pub(crate) struct TrainedInfoGan {
    sizes: Sizes,
    preparation: Preparation,
    /// Parameters of G, and of D and Q.
    generator_params: Vec<f32>,
    discriminator_params: Vec<f32>,
}

impl TrainedInfoGan {
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
        Ok(Self {
            sizes,
            preparation,
            generator_params: values(&training.generator_params)?,
            discriminator_params: values(&training.discriminator_params)?,
        })
    }

    /// Codes of a cluster: [count, inputs].
    fn codes(&self, cluster: usize, count: usize, seed: u64) -> Vec<f32> {
        let (key, columns) = (Key::new(seed, Stream::Generate, cluster), self.sizes.n_inputs());
        let value = |i: usize| match i % columns {
            category if category < self.sizes.n_clusters => f32::from(u8::from(category == cluster)),
            column => (2.0 * key.uniform((i / columns) as u64, column as u32, 0) - 1.0) as f32,
        };
        (0..count * columns).map(value).collect()
    }
}

impl<D: ImageDevice> Clustering<D> for TrainedInfoGan {
    fn n_clusters(&self) -> usize {
        self.sizes.n_clusters
    }

    fn assign(&self, device: &D, data: &Dataset) -> Result<Vec<u32>> {
        self.preparation.check_columns(data)?;
        let discriminator = Discriminator::new(&self.sizes);
        let params = Params::fixed(device, &self.discriminator_params)?;
        let rows = device.rows(data.view(&self.preparation))?;
        let n = BLOCK.min(data.n_rows());
        let mut batch = device.batch(&rows, 1, n)?;
        let mut tape = DiscriminatorTape::new(device, &self.sizes, n, 1, false)?;
        let mut output = vec![0.0; n * self.sizes.n_outputs()];
        let mut clusters = Vec::with_capacity(data.n_rows());
        for first in (0..data.n_rows()).step_by(n) {
            device.gather(&rows, RowSelection::Range { first }, &mut batch)?;
            device.copy_columns(device.batch_rows(&batch), 0..data.n_columns(), &mut tape.images, [0, 0])?;
            discriminator.forward(device, &params, true, &mut tape)?;
            device.read(&tape.output.data, 0, &mut output)?;
            let k = self.sizes.n_clusters;
            let argmax = |row: &[f32]| (1..k).fold(0, |best, m| if row[m] > row[best] { m } else { best });
            let outputs = output.chunks_exact(self.sizes.n_outputs()).take(data.n_rows() - first);
            clusters.extend(outputs.map(|row| argmax(row) as u32));
        }
        Ok(clusters)
    }

    /// `None`: Q predicts a category and a few codes, and no layer is meant as a representation of the row.
    fn embed(&self, _device: &D, _data: &Dataset) -> Result<Option<Vec<f32>>> {
        Ok(None)
    }

    fn generate(&self, device: &D, cluster: usize, count: usize, seed: u64) -> Result<Option<Vec<f32>>> {
        if cluster >= self.sizes.n_clusters {
            let must = format!("must be below {}, the number of clusters", self.sizes.n_clusters);
            return Err(Error::setting("cluster", cluster, must));
        }
        let generator = Generator::new(&self.sizes);
        let params = Params::fixed(device, &self.generator_params)?;
        let columns = self.preparation.n_columns();
        let (n, codes) = (BLOCK.min(count.max(1)), self.codes(cluster, count, seed));
        let mut fake = GeneratorTape::new(device, &self.sizes, n, false)?;
        let mut rows = vec![0.0; count * columns];
        for (rows, codes) in rows.chunks_mut(n * columns).zip(codes.chunks(n * self.sizes.n_inputs())) {
            // The last block may be shorter: the remaining codes are those of the block before, and are not read.
            device.write(&mut fake.z.data, 0, codes)?;
            generator.forward(device, &params, true, &mut fake)?;
            device.read(&fake.images.data, 0, rows)?;
        }
        rows.chunks_exact_mut(columns).for_each(|row| self.preparation.undo(row));
        Ok(Some(rows))
    }
}
