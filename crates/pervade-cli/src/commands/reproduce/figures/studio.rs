//! Makes figures: each trains what its record lacks, and VaDE is trained once for all of them.

use std::collections::BTreeMap;
use std::path::Path;

use pervade::config::Settings;
use pervade::data::{Dataset, Labels, Table};
use pervade::{Error, Result};
use pervade_plots::Tsne;
use pervade_rivals::RivalDevice;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::record::{Accuracy, FigureRecord, PicturePanel, Pictures, PointPanel, Points, rounded};
use super::vade::VadeFit;
use super::{Figure, PAPER, VADE};
use crate::commands::reproduce::rows::{DataSet, Row, RowsFile};
use crate::commands::reproduce::runs::Runner;
use crate::commands::reproduce::{Quick, labels_of};
use crate::console::Console;

/// Rows in the t-SNE plot, as in the paper.
const POINTS: usize = 2_000;
/// Methods whose generated images are shown, with VaDE last.
const GENERATORS: [(&str, &str); 3] = [("gmm", "GMM"), ("vae", "VAE"), ("infogan", "InfoGAN")];
/// Methods whose representations are shown, with VaDE last.
const EMBEDDERS: [(&str, &str); 2] = [("vae+gmm", "VAE+GMM"), ("dec", "DEC")];
/// Numbers of clusters that differ from the number of classes.
const OTHER_CLUSTERS: [usize; 2] = [7, 14];

/// Everything needed to make figures.
pub(in crate::commands::reproduce) struct Studio<'s, D: RivalDevice> {
    pub(super) set: &'s DataSet,
    pub(super) rows: &'s RowsFile,
    pub(super) data: Dataset<'s>,
    pub(super) labels: Labels,
    pub(super) quick: &'s Quick,
    pub(super) seeds: Option<usize>,
    pub(super) again: bool,
    pub(super) out: &'s Path,
    pub(super) device: &'s D,
    pub(super) device_name: String,
    pub(super) console: &'s Console,
    /// Models trained for one figure and used by the others, by method name.
    fits: BTreeMap<&'static str, VadeFit>,
}

impl<'s, D: RivalDevice> Studio<'s, D> {
    /// Creates a studio for a data set; `take` keeps only its first rows.
    pub(in crate::commands::reproduce) fn new(
        set: &'s DataSet,
        rows: &'s RowsFile,
        table: &'s Table,
        quick: &'s Quick,
        (seeds, again, out): (Option<usize>, bool, &'s Path),
        (device, device_name): (&'s D, String),
        console: &'s Console,
    ) -> Result<Self> {
        let n = quick.take.map_or(table.data.n_rows(), |take| take.min(table.data.n_rows()));
        let ids: Vec<i64> = labels_of(table)?.ids()[..n].iter().map(|&id| i64::from(id)).collect();
        let (data, labels) = (table.data.slice(0..n), Labels::from_integers(&ids));
        Ok(Self {
            set,
            rows,
            data,
            labels,
            quick,
            seeds,
            again,
            out,
            device,
            device_name,
            console,
            fits: BTreeMap::new(),
        })
    }

    /// Makes what the figure's record lacks.
    pub(in crate::commands::reproduce) fn make(&mut self, figure: Figure) -> Result<()> {
        match figure {
            Figure::Accuracy => self.accuracy(),
            Figure::Latents => self.latents(),
            Figure::Samples => self.samples(),
            Figure::Embeddings => self.embeddings(),
            Figure::Clusters => self.clusters(),
        }
    }

    /// The figure's record, or an empty one.
    fn begin<B>(&self, figure: Figure) -> Result<FigureRecord<B>>
    where
        B: Default + Serialize + DeserializeOwned,
    {
        let row = self.row(figure.method())?;
        let overrides = self.quick.settings();
        let how = Runner::<D>::of(row, self.set.clusters, &overrides)?;
        let mut settings = how.settings(row, self.set.clusters, &overrides);
        settings.insert("restarts".to_string(), self.seeds.unwrap_or(row.seeds).into());
        let fresh = FigureRecord {
            figure: figure.name().to_string(),
            data: self.set.name.clone(),
            title: self.set.title.clone(),
            rows: self.data.n_rows(),
            data_checksum: self.data.checksum(),
            settings,
            overrides: self.quick.all(),
            device: self.device_name.clone(),
            version: env!("CARGO_PKG_VERSION").to_string(),
            numbers: B::default(),
        };
        if self.again {
            return Ok(fresh);
        }
        match FigureRecord::load(self.out, figure)? {
            Some(earlier) => fresh.check_same(&earlier, self.out, figure).map(|()| earlier),
            None => Ok(fresh),
        }
    }

    /// The row of table 2 with the settings of a method; one without settings if the method has none.
    pub(super) fn row(&self, method: &str) -> Result<&Row> {
        let own = |row: &&Row| row.data == self.set.name && row.method == method;
        self.rows.rows.iter().find(own).ok_or_else(|| {
            let problem =
                format!("table 2 has no row `{}:{method}`, whose settings the figure needs", self.set.name);
            Error::data("rows", problem)
        })
    }

    fn settings(&self, method: &str, clusters: usize) -> Result<Settings> {
        let row = self.row(method)?;
        match Runner::<D>::of(row, clusters, &self.quick.settings())? {
            Runner::Vade(settings) => Ok((*settings).with(|s| s.restarts = self.seeds.unwrap_or(row.seeds))),
            Runner::Rival(_) => {
                Err(Error::data("rows", format!("the row `{}:{method}` has no recipe", self.set.name)))
            }
        }
    }

    /// Rows that are drawn as points, evenly spaced.
    fn sample(&self) -> Vec<usize> {
        let (n, count) = (self.data.n_rows(), POINTS.min(self.data.n_rows()));
        (0..count).map(|i| i * n / count).collect()
    }

    /// VaDE with as many clusters as classes, trained at the first call.
    fn fit(&mut self, method: &'static str) -> Result<&VadeFit> {
        if !self.fits.contains_key(method) {
            let (settings, sample) = (self.settings(method, self.set.clusters)?, self.sample());
            let watched = method == PAPER;
            let (data, labels) = (&self.data, &self.labels);
            let fit = VadeFit::new(data, labels, &sample, settings, watched, self.device, self.console)?;
            self.fits.insert(method, fit);
        }
        self.fits.get(method).ok_or_else(|| Error::data("VaDE", "no restart was trained"))
    }

    fn accuracy(&mut self) -> Result<()> {
        let mut record = self.begin::<Accuracy>(Figure::Accuracy)?;
        if record.numbers.restarts.is_empty() {
            let fit = self.fit(PAPER)?;
            record.numbers = Accuracy { restarts: fit.accuracy.clone(), chosen: fit.chosen };
            record.save(self.out, Figure::Accuracy)?;
        }
        Ok(())
    }

    fn latents(&mut self) -> Result<()> {
        let mut record = self.begin::<Points>(Figure::Latents)?;
        if !record.numbers.panels.is_empty() {
            return Ok(());
        }
        let (console, sample) = (self.console, self.sample());
        (record.numbers.labels, record.numbers.names) = self.sampled_labels(&sample);
        let fit = self.fit(PAPER)?;
        let (accuracy, snapshots) = (&fit.accuracy[fit.chosen], &fit.snapshots[fit.chosen]);
        for snapshot in snapshots {
            let name =
                if snapshot.epoch == 0 { "start".to_string() } else { format!("epoch {}", snapshot.epoch) };
            console.say(&format!("t-SNE of the latents, {name}"));
            let j = snapshot.latents.len() / sample.len();
            record.numbers.panels.push(PointPanel {
                name,
                accuracy: accuracy[snapshot.epoch],
                points: rounded(Tsne::default().embed(&snapshot.latents, j)),
                right: Vec::new(),
            });
        }
        record.save(self.out, Figure::Latents)
    }

    /// Labels of some rows, and the names of all labels.
    fn sampled_labels(&self, sample: &[usize]) -> (Vec<u32>, Vec<String>) {
        let labels = sample.iter().map(|&row| self.labels.ids()[row]).collect();
        (labels, self.labels.names().to_vec())
    }

    fn samples(&mut self) -> Result<()> {
        let shape = self.pictures()?;
        let mut record = self.begin::<Pictures>(Figure::Samples)?;
        (record.numbers.width, record.numbers.notes) = (shape.width, Vec::new());
        for (name, title) in GENERATORS {
            if record.numbers.panels.iter().any(|panel| panel.name == name) {
                continue;
            }
            let Some(found) = self.rival(name, &mut record.numbers.notes)? else { continue };
            match self.picture_lines(found.as_ref(), shape) {
                Ok((names, lines)) => {
                    let (name, title) = (name.to_string(), title.to_string());
                    record.numbers.panels.push(PicturePanel { name, title, names, lines });
                }
                Err(error) => record.numbers.notes.push(format!("{title} is left out: {error}.")),
            }
            record.save(self.out, Figure::Samples)?;
        }
        if !record.numbers.panels.iter().any(|panel| panel.name == VADE) {
            self.fit(VADE)?;
            let (names, lines) = self.picture_lines(self.fits[VADE].model()?, shape)?;
            let (name, title) = (VADE.to_string(), "VaDE".to_string());
            record.numbers.panels.push(PicturePanel { name, title, names, lines });
        }
        let order =
            |panel: &PicturePanel| GENERATORS.iter().position(|(name, _)| *name == panel.name).unwrap_or(9);
        record.numbers.panels.sort_by_key(order);
        record.save(self.out, Figure::Samples)
    }

    fn embeddings(&mut self) -> Result<()> {
        let mut record = self.begin::<Points>(Figure::Embeddings)?;
        let sample = self.sample();
        (record.numbers.labels, record.numbers.names) = self.sampled_labels(&sample);
        record.numbers.notes.clear();
        for (name, title) in EMBEDDERS {
            if record.numbers.panels.iter().any(|panel| panel.name == title) {
                continue;
            }
            let Some(found) = self.rival(name, &mut record.numbers.notes)? else { continue };
            record.numbers.panels.push(self.point_panel(title, found.as_ref(), &sample)?);
            record.save(self.out, Figure::Embeddings)?;
        }
        if !record.numbers.panels.iter().any(|panel| panel.name == "VaDE") {
            self.fit(VADE)?;
            record.numbers.panels.push(self.point_panel("VaDE", self.fits[VADE].model()?, &sample)?);
        }
        let order =
            |panel: &PointPanel| EMBEDDERS.iter().position(|(_, title)| *title == panel.name).unwrap_or(9);
        record.numbers.panels.sort_by_key(order);
        record.save(self.out, Figure::Embeddings)
    }

    fn clusters(&mut self) -> Result<()> {
        let shape = self.pictures()?;
        let mut record = self.begin::<Pictures>(Figure::Clusters)?;
        record.numbers.width = shape.width;
        for k in OTHER_CLUSTERS {
            let name = format!("{k}");
            if record.numbers.panels.iter().any(|panel| panel.name == name) {
                continue;
            }
            let settings = self.settings(VADE, k)?;
            let fit =
                VadeFit::new(&self.data, &self.labels, &[], settings, false, self.device, self.console)?;
            let (_, lines) = self.picture_lines(fit.model()?, shape)?;
            let (title, names) = (format!("{k} clusters"), Vec::new());
            record.numbers.panels.push(PicturePanel { name, title, names, lines });
            record.save(self.out, Figure::Clusters)?;
        }
        Ok(())
    }
}
