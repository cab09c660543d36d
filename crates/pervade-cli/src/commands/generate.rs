//! `pervade generate`: new rows of any cluster.

use std::path::{Path, PathBuf};

use clap::Args;
use pervade::compute::Device;
use pervade::data::{OutputCells, OutputFormat, OutputRows, OutputTable};
use pervade::memory::{self, Need};
use pervade::model::{Cells, Vade};
use pervade::{Error, Result, on_device};
use serde_json::json;

use crate::args::Common;
use crate::console::Console;
use crate::files::{Files, Kind};
use crate::json::{Object, cells_as_json};
use crate::picture::{self, Tone};
use crate::{Outcome, outputs, words};

/// Generate new rows, of one cluster or of all in the proportions of the data
#[derive(Args)]
#[command(after_help = "Examples:
  pervade generate pictures.pervade --out new.png             ten pictures of every cluster
  pervade generate table.pervade --cluster 3 --count 500 --out new.csv")]
pub(crate) struct GenerateArgs {
    /// A model that `pervade fit` wrote
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Only this cluster, counted from 0 [default: all]
    #[arg(long, short, value_name = "c")]
    cluster: Option<usize>,
    /// Number of rows; in a .png, images of each cluster [default: 10]
    #[arg(long, short = 'n', value_name = "n", default_value_t = 10, hide_default_value = true)]
    count: usize,
    /// Seed of the random numbers: the same seed gives the same rows
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Means of p(x|z), and the most likely levels [default: samples of it; means for pictures and values in [0, 1]]
    #[arg(long, conflicts_with = "draw")]
    mean: bool,
    /// Samples of p(x|z), also for pictures and values in [0, 1]
    #[arg(long)]
    draw: bool,
    /// A .csv, .npy, .parquet or, if the data are images, .png file [default: CSV on stdout]
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl GenerateArgs {
    fn cells(&self) -> Cells {
        match (self.mean, self.draw) {
            (true, _) => Cells::Mean,
            (_, true) => Cells::Draw,
            _ => Cells::Auto,
        }
    }
}

/// Maximum number of generated values: 4 GiB of memory.
const MAX_VALUES: usize = 1 << 30;

/// Runs it.
pub(crate) fn run(args: &GenerateArgs, common: &Common, console: &Console) -> Result<Outcome> {
    let picture = args.out.as_deref().filter(|out| is_png(out));
    let kind = match args.out.as_deref() {
        Some(out) if !is_png(out) => Kind::table(out)?,
        _ => Kind::Png,
    };
    let files = Files::new(common.force).input("MODEL", &args.model);
    let _claim = files.maybe_output("--out", args.out.as_deref(), kind).claim(console)?;
    let device = common.open_device(console)?;
    let model = super::load(&args.model, console)?;
    if let Kind::Table(format) = kind {
        OutputTable::check_format(model.schema(), format)?;
    }
    let lines = if picture.is_some() && args.cluster.is_none() { model.n_clusters() } else { 1 };
    let values = args.count.checked_mul(model.n_columns()).and_then(|n| n.checked_mul(lines));
    if args.count == 0 || values.is_none_or(|n| n > MAX_VALUES) {
        let most = MAX_VALUES / model.n_columns() / lines;
        return Err(Error::setting("count", args.count, format!("must be between 1 and {most}")));
    }
    if picture.is_some() {
        require_picture(args, &model, lines)?;
    }
    let (clusters, generated) = match picture {
        Some(out) => on_device!(&device, device => draw(args, &model, device, out)?),
        None => on_device!(&device, device => write(args, &model, device, console)?),
    };
    let rows = clusters.len();
    console.say(&format!("generated {}", words::counted(rows, "row")));
    let columns = model.metadata().n_source_columns();
    let object =
        Object::new([("rows", json!(rows)), ("columns", json!(columns)), ("seed", json!(args.seed))]);
    let object = match &args.out {
        Some(out) => object.value("out", json!(out.display().to_string())),
        None => {
            let object = object.whole("clusters", &clusters);
            let cells = || generated.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>();
            match model.schema() {
                Some(schema) => object.value("generated", cells_as_json(schema, &cells())),
                None => object.rows("generated", &generated, columns),
            }
        }
    };
    console.result(&object, "")?;
    Ok(Outcome::Done)
}

fn is_png(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("png"))
}

/// Returns an error if the images do not fit into memory, before any is generated.
fn require_picture(args: &GenerateArgs, model: &Vade, lines: usize) -> Result<()> {
    let Some(shape) = model.image() else { return Ok(()) };
    let rows = memory::product(&[args.count, model.n_columns(), lines, size_of::<f32>()]);
    let page = picture::grid_bytes(shape, lines, args.count);
    let need = Need::of("the page", page).and("the rows", rows);
    let what = format!("drawing {} pictures of each cluster", args.count);
    memory::require(&what, &need, "lower `--count`, or write a .npy file")
}

/// The cluster of each new row, and all rows if they are not drawn.
type GeneratedRows = (Vec<u32>, Vec<f32>);

/// Writes a table of new rows; `.npy` holds only the rows, the others also the cluster of each.
fn write<D: Device>(
    args: &GenerateArgs,
    model: &Vade,
    device: &D,
    console: &Console,
) -> Result<GeneratedRows> {
    let made = model.generate(device, args.cluster, args.count, args.seed, args.cells())?;
    let named = || (0..model.n_columns()).map(|j| format!("column_{j}")).collect();
    let names: Vec<String> = model.column_names().map_or_else(named, <[String]>::to_vec);
    let rows = OutputRows { values: &made.rows, n_columns: model.n_columns(), names: Some(&names) };
    let cells: Vec<f64> = made.rows.iter().map(|&x| f64::from(x)).collect();
    let typed = model.schema().map(|schema| OutputCells { schema, cells: &cells, pooled: &[] });
    let is_npy = args.out.as_deref().map(OutputFormat::of).transpose()? == Some(OutputFormat::Npy);
    let clusters = (!is_npy).then_some(made.clusters.as_slice());
    let (rows, cells) = (typed.is_none().then_some(rows), typed);
    let written = OutputTable { clusters, rows, cells, ..OutputTable::default() };
    outputs::table(&written, args.out.as_deref(), console)?;
    Ok((made.clusters, made.rows))
}

/// Draws one line of images per cluster, or only the requested one.
fn draw<D: Device>(args: &GenerateArgs, model: &Vade, device: &D, out: &Path) -> Result<GeneratedRows> {
    let Some(shape) = model.image() else {
        return Err(Error::setting("out", out.display(), "but the model's data are not images")
            .with_hint("write a .csv, .npy or .parquet file, or fit with `--image HEIGHTxWIDTH`"));
    };
    let clusters: Vec<usize> = args.cluster.map_or_else(|| (0..model.n_clusters()).collect(), |c| vec![c]);
    let mut drawn = Vec::new();
    let mut lines = Vec::new();
    for cluster in clusters {
        let made = model.generate(device, Some(cluster), args.count, args.seed, args.cells())?;
        drawn.extend(made.clusters);
        lines.push((Some(cluster), vec![made.rows]));
    }
    let values = lines.iter().flat_map(|(_, groups)| groups).flatten().copied();
    picture::grid(shape, &lines, Tone::of_model(model.metadata(), values)).write(out)?;
    Ok((drawn, Vec::new()))
}
