//! The layout of a file of little-endian `f32` values: `layout IN COLUMNS OUT [NAME=VALUE ..]`.
//!
//! Names are those of settings; `components=FILE` and `classes=FILE` read a little-endian `u32` value per row, and
//! `picture=FILE` draws a PNG that is coloured by class. `scripts/check-tsne` scores the positions.

use std::error::Error;
use std::io::Write;
use std::time::Instant;

use pervade_plots::{Classes, Layout, LayoutInput, ScatterPanel, class_colour, class_shape, scatter_panels};

#[derive(Default)]
struct Options {
    layout: Layout,
    components: Vec<u32>,
    classes: Vec<u32>,
    picture: Option<String>,
}

impl Options {
    fn set(&mut self, name: &str, value: &str) -> Result<(), Box<dyn Error>> {
        match name {
            "neighbours" => self.layout.neighbours = value.parse()?,
            "max_rows" => self.layout.max_rows = value.parse()?,
            "iterations" => self.layout.iterations = value.parse()?,
            "early_iterations" => self.layout.early_iterations = value.parse()?,
            "early_exaggeration" => self.layout.early_exaggeration = value.parse()?,
            "late_exaggeration" => self.layout.late_exaggeration = Some(value.parse()?),
            "components" => self.components = words(value)?.map(u32::from_le_bytes).collect(),
            "classes" => self.classes = words(value)?.map(u32::from_le_bytes).collect(),
            "picture" => self.picture = Some(value.to_string()),
            _ => return Err(format!("no setting `{name}`").into()),
        }
        Ok(())
    }
}

/// A file in pieces of four bytes.
fn words(path: &str) -> std::io::Result<impl Iterator<Item = [u8; 4]>> {
    let bytes = std::fs::read(path)?;
    Ok((0..bytes.len() / 4).map(move |i| [0, 1, 2, 3].map(|b| bytes[4 * i + b])))
}

/// The most memory that this process has had, where the system tells.
fn peak_memory() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| Some(line.strip_prefix("VmHWM:")?.trim().to_string()))
}

fn picture(points: &[[f32; 2]], classes: Vec<u32>) -> std::io::Result<Vec<u8>> {
    let n_classes = classes.iter().max().map_or(1, |&largest| largest as usize + 1);
    let set = Classes {
        names: (0..n_classes).map(|class| class.to_string()).collect(),
        looks: (0..n_classes).map(|class| (class_colour(class), class_shape(class))).collect(),
        named_in_place: true,
    };
    let points: Vec<[f64; 2]> = points.iter().map(|p| p.map(f64::from)).collect();
    let panel = ScatterPanel { title: format!("{} rows", points.len()), points, classes, set: 0 };
    scatter_panels("Layout", &[panel], &[set], 1, &[]).png(4.0)
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, input, columns, output, settings @ ..] = args.as_slice() else {
        return Err("layout IN COLUMNS OUT [NAME=VALUE ..]".into());
    };
    let mut options = Options::default();
    for setting in settings {
        let (name, value) = setting.split_once('=').ok_or("a setting is NAME=VALUE")?;
        options.set(name, value)?;
    }
    let latents: Vec<f32> = words(input)?.map(f32::from_le_bytes).collect();
    let input = LayoutInput {
        latents: &latents,
        n_latents: columns.parse()?,
        components: &options.components,
        neighbours: &[],
    };
    let (start, mut reported) = (Instant::now(), 0);
    let points = options.layout.embed(&input, &mut |share| {
        let tenth = (share * 10.0) as u32;
        if tenth > reported {
            reported = tenth;
            let _ =
                writeln!(std::io::stderr(), "{}% after {:.1} s", 10 * tenth, start.elapsed().as_secs_f64());
        }
        true
    })?;
    let (seconds, peak) = (start.elapsed().as_secs_f64(), peak_memory().unwrap_or("?".into()));
    writeln!(std::io::stderr(), "{} rows in {seconds:.1} s, peak memory {peak}", points.len())?;
    let bytes: Vec<u8> = points.iter().flatten().flat_map(|x| x.to_le_bytes()).collect();
    std::fs::write(output, bytes)?;
    if let Some(path) = options.picture {
        let classes = if options.classes.is_empty() { vec![0; points.len()] } else { options.classes };
        std::fs::write(path, picture(&points, classes)?)?;
    }
    Ok(())
}
