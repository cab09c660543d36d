//! TensorBoard: curves of training as event files, and latents as files of its projector.
//!
//! An event file is a list of records (TFRecord): length, masked CRC-32C of the length, a Protocol Buffers message, masked
//! CRC-32C of the message.

use std::io::{self, Write};

use pervade::model::Metadata;
use pervade::train::Event;

use crate::protobuf::Message;

/// A point of a curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Scalar {
    /// Name of the curve, such as `joint/elbo`.
    pub tag: String,
    /// The epoch.
    pub step: i64,
    /// The value.
    pub value: f32,
}

/// The restart that an event of training belongs to, and the points of curves that it adds; none for other events.
pub fn scalars(event: &Event<'_>) -> Option<(usize, Vec<Scalar>)> {
    let points = |step: usize, values: &[(&str, f64)]| {
        let point = |(tag, value): &(&str, f64)| Scalar {
            tag: (*tag).to_string(),
            step: step as i64,
            value: *value as f32,
        };
        values.iter().map(point).collect::<Vec<Scalar>>()
    };
    match event {
        Event::Pretrained(restart, epoch) => {
            let tag = match epoch.phase.as_str() {
                "auto-encoder" => "pretrain/loss".to_string(),
                phase => format!("pretrain/{}_loss", phase.replace(' ', "_")),
            };
            Some((*restart, points(epoch.epoch, &[(&tag, epoch.loss)])))
        }
        Event::Trained(restart, epoch) => {
            let terms = &epoch.terms;
            let values = [
                ("joint/elbo", epoch.elbo),
                ("joint/reconstruction", terms.reconstruction),
                ("joint/latent", terms.latent),
                ("joint/cluster", terms.cluster),
                ("joint/entropy", terms.entropy),
                ("joint/neighbour", terms.neighbour),
                ("joint/learning_rate", epoch.learning_rate),
            ];
            Some((*restart, points(epoch.epoch, &values)))
        }
        Event::Scored(restart, scores) => {
            let mut values = vec![
                ("score/modularity", scores.modularity),
                ("score/silhouette", scores.silhouette),
                ("score/live_clusters", scores.live_clusters as f64),
                ("score/occupancy_entropy", scores.occupancy_entropy),
                ("score/assignment_entropy", scores.assignment_entropy),
            ];
            values.extend(scores.voted.map(|share| ("score/voted", share)));
            Some((*restart, points(scores.epoch, &values)))
        }
        _ => None,
    }
}

/// The result of a fit as points: clusters, modularity and, of several restarts, how they agree.
pub fn result(about: &Metadata) -> Vec<Scalar> {
    let state = about.record.kept_state();
    let values = [
        ("clusters", Some(about.n_clusters as f64)),
        ("live_clusters", state.map(|state| state.live_clusters as f64)),
        ("modularity", state.map(|state| state.modularity)),
        ("modularity_of_rows", about.prepared_modularity),
        ("stability", about.stability),
        ("agreement", about.consensus.as_ref().map(|consensus| consensus.agreement)),
    ];
    let point = |(name, value): (&str, Option<f64>)| {
        Some(Scalar { tag: format!("result/{name}"), step: 0, value: value? as f32 })
    };
    values.into_iter().filter_map(point).collect()
}

/// Writes an event file.
#[derive(Debug)]
pub struct EventWriter<W: Write> {
    out: W,
}

impl<W: Write> EventWriter<W> {
    /// Starts a file; `wall_time` is in seconds since 1970.
    pub fn new(out: W, wall_time: f64) -> io::Result<Self> {
        let mut writer = Self { out };
        writer.record(Message::new().double(1, wall_time).text(3, "brain.Event:2"))?;
        Ok(writer)
    }

    /// Adds points of curves.
    pub fn scalars(&mut self, scalars: &[Scalar], wall_time: f64) -> io::Result<()> {
        for Scalar { tag, step, value } in scalars {
            let value = Message::new().text(1, tag).float(2, *value);
            let event = Message::new().double(1, wall_time).integer(2, *step);
            self.record(event.message(5, &Message::new().message(1, &value)))?;
        }
        Ok(())
    }

    fn record(&mut self, event: Message) -> io::Result<()> {
        let bytes = event.into_bytes();
        let length = (bytes.len() as u64).to_le_bytes();
        self.out.write_all(&length)?;
        self.out.write_all(&masked_crc(&length).to_le_bytes())?;
        self.out.write_all(&bytes)?;
        self.out.write_all(&masked_crc(&bytes).to_le_bytes())
    }

    /// Makes what was written visible to readers.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// CRC-32C (Castagnoli), bit by bit: records are short.
fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 })
    })
}

/// The masked CRC of a record: a CRC of bytes that contain CRCs would be weak.
fn masked_crc(bytes: &[u8]) -> u32 {
    crc(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// A file of the projector.
#[derive(Clone, Debug, PartialEq)]
pub struct ProjectorFile {
    /// Its name in the folder of the run.
    pub name: &'static str,
    /// Its content.
    pub text: String,
}

/// Rows for the projector.
#[derive(Clone, Debug, Default)]
pub struct Projection<'a> {
    /// Latents. `[N, J]`
    pub latents: &'a [f32],
    /// Latent columns, J.
    pub n_latents: usize,
    /// Positions of the rows in the plane; empty, or one per row.
    pub points: &'a [[f32; 2]],
    /// Names and cells of columns to colour by.
    pub columns: Vec<(String, Vec<String>)>,
}

impl Projection<'_> {
    /// The files, the configuration last: latents, positions in the plane, and what is known about each row.
    pub fn files(&self) -> Vec<ProjectorFile> {
        let mut files = vec![ProjectorFile {
            name: "tensors.tsv",
            text: lines(self.latents.chunks_exact(self.n_latents.max(1)).map(numbers)),
        }];
        let mut embeddings = vec![("latents", "tensors.tsv")];
        if !self.points.is_empty() {
            let text = lines(self.points.iter().map(|point| numbers(point)));
            files.push(ProjectorFile { name: "map.tsv", text });
            embeddings.push(("map", "map.tsv"));
        }
        if !self.columns.is_empty() {
            files.push(ProjectorFile { name: "metadata.tsv", text: self.metadata() });
        }
        let metadata = if self.columns.is_empty() { "" } else { "  metadata_path: \"metadata.tsv\"\n" };
        let entry = |(name, path): &(&str, &str)| {
            format!("embeddings {{\n  tensor_name: \"{name}\"\n  tensor_path: \"{path}\"\n{metadata}}}\n")
        };
        let text = embeddings.iter().map(entry).collect();
        files.push(ProjectorFile { name: "projector_config.pbtxt", text });
        files
    }

    /// A single column has no header.
    fn metadata(&self) -> String {
        let n_rows = self.latents.len() / self.n_latents.max(1);
        let cells = |of: &dyn Fn(&(String, Vec<String>)) -> String| {
            self.columns.iter().map(|column| one_line(&of(column))).collect::<Vec<String>>().join("\t")
        };
        let header = (self.columns.len() > 1).then(|| cells(&|(name, _)| name.clone()));
        let row = |i: usize| cells(&|(_, values)| values.get(i).cloned().unwrap_or_default());
        lines(header.into_iter().chain((0..n_rows).map(row)))
    }
}

fn numbers(values: &[f32]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<String>>().join("\t")
}

fn lines(each: impl Iterator<Item = String>) -> String {
    each.map(|line| line + "\n").collect()
}

/// Tabs and line ends separate cells.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3720, B.4.
    #[test]
    fn checksums_are_those_of_the_standard() {
        assert_eq!(crc(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn cells_of_the_projector_stay_in_their_line() {
        let columns = vec![
            ("clus\tter".to_string(), vec!["0".to_string(), "1".to_string()]),
            ("name".to_string(), vec!["a\nb".to_string(), "c".to_string()]),
        ];
        let projection = Projection {
            latents: &[0.5, -1.0, 2.0, 3.0],
            n_latents: 2,
            points: &[[0.0, 1.0], [2.0, 3.0]],
            columns,
        };
        let files = projection.files();
        let text = |name: &str| &files.iter().find(|file| file.name == name).unwrap().text;
        assert_eq!(text("tensors.tsv"), "0.5\t-1\n2\t3\n");
        assert_eq!(text("map.tsv"), "0\t1\n2\t3\n");
        assert_eq!(text("metadata.tsv"), "clus ter\tname\n0\ta b\n1\tc\n");
        assert!(text("projector_config.pbtxt").contains("tensor_path: \"map.tsv\""));
    }
}
