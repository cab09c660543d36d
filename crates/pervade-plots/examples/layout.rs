//! The layout of a file of little-endian `f32` values: `layout IN COLUMNS OUT [NAME=VALUE ..]`; `scripts/check-tsne`
//! scores it. Names are those of settings, and `components=FILE` reads little-endian `u32` values.

use std::error::Error;
use std::io::Write;
use std::time::Instant;

use pervade_plots::{Layout, LayoutInput};

fn set(layout: &mut Layout, name: &str, value: &str) -> Result<(), Box<dyn Error>> {
    match name {
        "neighbours" => layout.neighbours = value.parse()?,
        "max_rows" => layout.max_rows = value.parse()?,
        "iterations" => layout.iterations = value.parse()?,
        "early_iterations" => layout.early_iterations = value.parse()?,
        "early_exaggeration" => layout.early_exaggeration = value.parse()?,
        "late_exaggeration" => layout.late_exaggeration = Some(value.parse()?),
        _ => return Err(format!("no setting `{name}`").into()),
    }
    Ok(())
}

fn words(path: &str) -> std::io::Result<Vec<[u8; 4]>> {
    Ok(std::fs::read(path)?.chunks_exact(4).map(|b| [b[0], b[1], b[2], b[3]]).collect())
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, input, columns, output, settings @ ..] = args.as_slice() else {
        return Err("layout IN COLUMNS OUT [NAME=VALUE ..]".into());
    };
    let (mut layout, mut components) = (Layout::default(), Vec::new());
    for setting in settings {
        match setting.split_once('=').ok_or("a setting is NAME=VALUE")? {
            ("components", path) => components = words(path)?.into_iter().map(u32::from_le_bytes).collect(),
            (name, value) => set(&mut layout, name, value)?,
        }
    }
    let latents: Vec<f32> = words(input)?.into_iter().map(f32::from_le_bytes).collect();
    let input = LayoutInput {
        latents: &latents,
        n_latents: columns.parse()?,
        components: &components,
        neighbours: &[],
    };
    let (start, mut reported) = (Instant::now(), 0);
    let points = layout.embed(&input, &mut |share| {
        let tenth = (share * 10.0) as u32;
        if tenth > reported {
            reported = tenth;
            let _ =
                writeln!(std::io::stderr(), "{}% after {:.1} s", 10 * tenth, start.elapsed().as_secs_f64());
        }
        true
    })?;
    writeln!(std::io::stderr(), "{} rows in {:.1} s", points.len(), start.elapsed().as_secs_f64())?;
    let bytes: Vec<u8> = points.iter().flatten().flat_map(|x| x.to_le_bytes()).collect();
    Ok(std::fs::write(output, bytes)?)
}
