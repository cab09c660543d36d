//! `pervade map`: all rows in the plane.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use pervade::data::OutputTable;
use pervade::files::write_atomically;
use pervade::{Result, on_device};
use pervade_plots::{Classes, ScatterPanel, class_colour, class_shape, scatter_panels};
use serde_json::json;

use crate::args::{Common, ModelAndData, NamesArg};
use crate::console::Console;
use crate::files::Kind;
use crate::layout::lay_out;
use crate::{Outcome, outputs, words};

/// Lay all rows out in the plane, so that neighbours in the latent space stay neighbours
#[derive(Args)]
#[command(after_help = "Examples:
  pervade map digits.pervade digits.csv.gz --labels column:last --out map.png
  pervade map table.pervade table.csv --out coordinates.csv

Distances between islands mean little; what is on one island belongs together.")]
pub(crate) struct MapArgs {
    #[command(flatten)]
    both: ModelAndData,
    /// A table of coordinates and clusters (.csv, .npy, .parquet) or a picture (.png, .svg)
    #[arg(long, short, value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    names: NamesArg,
}

/// Names are drawn over the points of a cluster if there are at most so many rows: finding the densest points takes the square
/// of their number.
const NAMED_ROWS: usize = 20_000;
/// Pixels per unit of the page.
const PNG_SCALE: f64 = 4.0;

/// Runs it.
pub(crate) fn run(args: &MapArgs, common: &Common, console: &Console) -> Result<Outcome> {
    let out = &args.out;
    let kind = Kind::picture(out).map_or_else(|| Kind::table(out), Ok)?;
    let _claim = args
        .both
        .files(common)
        .maybe_input("--names", args.names.names.as_deref())
        .output("--out", out, kind)
        .claim(console)?;
    args.names.check_format(kind)?;
    let (device, model, table, names) = super::open_named(&args.both, &args.names, common, console)?;
    let (found, latents) = on_device!(&device, device => {
        (model.assign(device, &table.data)?, model.embed(device, &table.data)?)
    });
    let points = lay_out(&latents, model.n_latents(), &found.clusters, console)?;
    if matches!(kind, Kind::Table(_)) {
        let axis = |a: usize| points.iter().map(|point| point[a]).collect::<Vec<f32>>();
        let (x, y) = (axis(0), axis(1));
        let (kept, clusters) = (table.kept.as_ref(), Some(found.clusters.as_slice()));
        let singles = vec![("x", x.as_slice()), ("y", y.as_slice())];
        let names = names.as_ref().map(super::cluster_names);
        OutputTable { kept, clusters, cluster_names: names.as_deref(), singles, ..OutputTable::default() }
            .write(out)?;
    } else {
        let name = |k: usize| names.as_ref().and_then(|names| names.name(k));
        let legend = |k: usize| name(k).map_or_else(|| k.to_string(), |name| format!("{k} {}", short(name)));
        let legend: Vec<String> = (0..found.n_clusters).map(legend).collect();
        draw(&outputs::name_of(&args.both.data), &points, &found.clusters, legend, out)?;
    }
    let rows = points.len();
    console.say(&format!("wrote {}: {} in the plane", out.display(), words::counted(rows, "row")));
    let object = json!({"rows": rows, "clusters": found.n_clusters, "out": out.display().to_string()});
    console.result(&object, "")?;
    Ok(Outcome::Done)
}

/// A name for the legend and the map, on which long ones would cover the points.
fn short(name: &str) -> String {
    const LONGEST: usize = 24;
    if name.chars().count() <= LONGEST {
        return name.to_string();
    }
    name.chars().take(LONGEST - 1).chain(['…']).collect()
}

/// A scatter plot with a legend.
pub(super) fn draw(
    title: &str,
    points: &[[f32; 2]],
    clusters: &[u32],
    names: Vec<String>,
    out: &Path,
) -> Result<()> {
    let k = names.len();
    let panel = ScatterPanel {
        title: words::counted(points.len(), "row"),
        points: points.iter().map(|point| point.map(f64::from)).collect(),
        classes: clusters.to_vec(),
        set: 0,
    };
    let classes = Classes {
        names,
        looks: (0..k).map(|cluster| (class_colour(cluster), class_shape(cluster))).collect(),
        named_in_place: points.len() <= NAMED_ROWS,
    };
    let page = scatter_panels(title, &[panel], &[classes], 1, &[]);
    if Kind::picture(out) == Some(Kind::Svg) {
        return outputs::text(out, &page.svg());
    }
    write_atomically(out, |file| file.write_all(&page.png(PNG_SCALE)?))
}
