//! The panels of figures: a method's generated images, and its representation in a plane.

use pervade::data::ImageShape;
use pervade::metrics::Contingency;
use pervade::{Clustering, Error, Result};
use pervade_plots::Tsne;
use pervade_rivals::RivalDevice;

use super::record::{PointPanel, hex, rounded};
use super::studio::Studio;
use crate::commands::reproduce::rows::Row;
use crate::commands::reproduce::runs::Runner;
use crate::methods;
use crate::report::LabelScores;

/// Images per cluster.
const PICTURES: usize = 10;

impl<D: RivalDevice> Studio<'_, D> {
    pub(super) fn pictures(&self) -> Result<ImageShape> {
        self.data.image().filter(|shape| shape.channels == 1).ok_or_else(|| {
            Error::data(&self.set.name, "the rows are not grey pictures")
                .with_hint("the data set needs `image = \"28x28\"`")
        })
    }

    /// A rival fitted to the rows with seed 0; `None` and a note if it does not exist or fails.
    pub(super) fn rival(
        &self,
        name: &str,
        notes: &mut Vec<String>,
    ) -> Result<Option<Box<dyn Clustering<D>>>> {
        if pervade_rivals::method::<D>(name).is_none() {
            self.console.say(&format!("{name} is left out: this version has no such method"));
            notes.push(format!("{name} is left out: this version has no such method."));
            return Ok(None);
        }
        let row = self.row(name).cloned().unwrap_or(Row {
            data: self.set.name.clone(),
            method: name.to_string(),
            seeds: 1,
            ..Row::default()
        });
        let fitted = Runner::<D>::of(&row, self.set.clusters, &self.quick.settings()).and_then(|how| {
            self.console.say(&format!("{name} on {}", self.set.name));
            let mut observer = methods::observer(name, None, self.console);
            match how {
                Runner::Rival(method) => method.cluster(&self.data, self.device, 0, observer.as_mut()),
                Runner::Vade(_) => Err(Error::data("rows", format!("`{name}` is not a rival"))),
            }
        });
        match fitted {
            Ok(found) => Ok(Some(found)),
            Err(error @ Error::Interrupted { .. }) => Err(error),
            Err(error) => {
                self.console.say(&format!("{name} is left out: {error}"));
                notes.push(format!("{name} is left out: {error}."));
                Ok(None)
            }
        }
    }

    /// One line of generated images per cluster, sorted by the most frequent label of the cluster.
    pub(super) fn picture_lines(
        &self,
        found: &dyn Clustering<D>,
        shape: ImageShape,
    ) -> Result<(Vec<String>, Vec<Vec<String>>)> {
        let (k, d) = (found.n_clusters(), shape.height * shape.width);
        let generate = |cluster: usize, count: usize| {
            found
                .generate(self.device, cluster, count, 0)?
                .ok_or_else(|| Error::data("method", "it cannot generate rows"))
        };
        let (low, high) = self.data.range();
        // Dark on light, like ink.
        let ink =
            |x: &f32| (255.0 * (1.0 - (f64::from(*x) - low) / (high - low)).clamp(0.0, 1.0)).round() as u8;
        let texts = |rows: &[f32]| -> Vec<String> {
            rows.chunks_exact(d).map(|row| hex(&row.iter().map(ink).collect::<Vec<u8>>())).collect()
        };
        if k == 1 {
            let all = texts(&generate(0, PICTURES * PICTURES)?);
            return Ok((Vec::new(), all.chunks(PICTURES).map(<[String]>::to_vec).collect()));
        }
        let (order, names) = self.order(&found.assign(self.device, &self.data)?, k)?;
        let lines = order.iter().map(|&cluster| Ok(texts(&generate(cluster, PICTURES)?)));
        Ok((names, lines.collect::<Result<_>>()?))
    }

    /// Clusters sorted by their most frequent label, and those labels; empty clusters last.
    fn order(&self, clusters: &[u32], k: usize) -> Result<(Vec<usize>, Vec<String>)> {
        let table = Contingency::new(clusters, self.labels.ids())?;
        let width = table.second_values.len();
        let label = |cluster: usize| {
            let line = table.first_values.iter().position(|&value| value as usize == cluster)?;
            let counts = &table.counts[line * width..(line + 1) * width];
            (0..width)
                .max_by_key(|&index| (counts[index], width - index))
                .map(|index| table.second_values[index] as usize)
        };
        let mut order: Vec<usize> = (0..k).collect();
        order.sort_by_key(|&cluster| label(cluster).unwrap_or(usize::MAX));
        let name = |&cluster: &usize| {
            label(cluster).map_or("?".to_string(), |label| self.labels.names()[label].clone())
        };
        let names = order.iter().map(name).collect();
        Ok((order, names))
    }

    pub(super) fn point_panel(
        &self,
        title: &str,
        found: &dyn Clustering<D>,
        sample: &[usize],
    ) -> Result<PointPanel> {
        let all = found
            .embed(self.device, &self.data)?
            .ok_or_else(|| Error::data(title, "it has no representation"))?;
        let j = all.len() / self.data.n_rows();
        let rows: Vec<f32> = sample.iter().flat_map(|&row| all[row * j..(row + 1) * j].to_vec()).collect();
        let clusters = found.assign(self.device, &self.data)?;
        let table = Contingency::new(&clusters, self.labels.ids())?;
        let matched = table.matching();
        let right = |&row: &usize| {
            let line = table.first_values.iter().position(|&value| value == clusters[row]);
            let label = line.and_then(|line| matched[line]).map(|index| table.second_values[index]);
            label == Some(self.labels.ids()[row])
        };
        self.console.say(&format!("t-SNE of {title}'s representation"));
        Ok(PointPanel {
            name: title.to_string(),
            accuracy: LabelScores::new(&clusters, &self.labels)?.accuracy,
            points: rounded(Tsne::default().embed(&rows, j)),
            right: sample.iter().map(right).collect(),
        })
    }
}
