//! `pervade demo`: handwritten digits, without labels, in under a minute.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use pervade::compute::Device;
use pervade::config::{Clusters, Recipe, Settings};
use pervade::data::{Dataset, ImageShape, Labels, OutputFormat, OutputTable, ReadOptions, Table, read_bytes};
use pervade::files::require_space;
use pervade::metrics::Contingency;
use pervade::model::Cells;
use pervade::{Error, Fit, Result, on_device};
use serde_json::json;

use crate::args::Common;
use crate::console::Console;
use crate::files::{Files, Kind};
use crate::layout::lay_out;
use crate::page::{self, Caller, MAX_POINTS, Subject};
use crate::picture::{self, Tone};
use crate::report::LabelScores;
use crate::{Outcome, interrupt, shell, words};

/// See it work: cluster 1,797 handwritten digits without their labels, and draw new ones
#[derive(Args)]
#[command(after_help = "Example:
  pervade demo --out pervade-demo

The digits: UCI Optical Recognition of Handwritten Digits, E. Alpaydin and C. Kaynak, CC BY 4.0.")]
pub(crate) struct DemoArgs {
    /// Folder for the model, the clusters and the images
    #[arg(long, short, value_name = "DIR", default_value = "pervade-demo")]
    out: PathBuf,
    /// Seed of all random numbers
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
}

static DIGITS: &[u8] = include_bytes!("../../assets/digits.csv.gz");
const SHAPE: ImageShape = ImageShape { height: 8, width: 8, channels: 1 };
/// Images per cluster on either side of `clusters.png`.
const SHOWN: usize = 10;

/// More than the bytes of all files.
const ROOM: u64 = 2 << 20;

/// Runs it.
pub(crate) fn run(args: &DemoArgs, common: &Common, console: &Console) -> Result<Outcome> {
    let started = Instant::now();
    let device = common.open_device(console)?;
    std::fs::create_dir_all(&args.out).map_err(|e| Error::io("create", &args.out, e))?;
    let _claim = Files::new(common.force)
        .output("--out", &args.out.join("digits.pervade"), Kind::Model)
        .output("--out", &args.out.join("assignments.csv"), Kind::Table(OutputFormat::Csv))
        .output("--out", &args.out.join("clusters.png"), Kind::Png)
        .output("--out", &args.out.join("latents.png"), Kind::Png)
        .output("--out", &args.out.join("report.html"), Kind::Html)
        .claim(console)?;
    require_space(&args.out, ROOM, "the demo's files", "out")?;
    let (data, labels) = digits()?;
    console.say(&format!(
        "{} handwritten digits of 8 x 8 pixels; their labels are not used until the end",
        words::count(data.n_rows())
    ));
    let _polled = interrupt::poll();
    let settings = settings(args.seed);
    let table = Table::new(data, None);
    let (fit, _) = on_device!(&device, device => super::fit::fit_table(&table, settings, device, console)?);
    fit.model.save(&args.out.join("digits.pervade"))?;
    let clusters = &fit.clusters;
    OutputTable { clusters: Some(clusters), ..OutputTable::default() }
        .write(&args.out.join("assignments.csv"))?;
    on_device!(&device, device => {
        draw_clusters(&fit, &table.data, device, args.seed, &args.out.join("clusters.png"))?;
        draw_latents(&fit, &table.data, device, &args.out.join("latents.png"), console)?;
        page::write(&subject(&fit, &table), device, &args.out.join("report.html"), console)?;
    });
    let scores = LabelScores::new(clusters, &labels)?;
    let took = started.elapsed();
    console.say(&summary(&fit, &labels, &scores, &args.out, took)?);
    let files = ["digits.pervade", "assignments.csv", "clusters.png", "latents.png", "report.html"];
    console.result(
        &json!({
            "out": args.out.display().to_string(),
            "files": files,
            "rows": table.data.n_rows(),
            "clusters": fit.model.n_clusters(),
            "occupancy": fit.model.metadata().occupancy,
            "stability": fit.stability(),
            "accuracy": scores.accuracy,
            "nmi": scores.nmi,
            "ari": scores.ari,
            "seconds": took.as_secs_f64(),
        }),
        "",
    )?;
    Ok(Outcome::Done)
}

/// What the page is about. The digits are embedded in the program, so that no command can name them.
fn subject<'a>(fit: &'a Fit, table: &'a Table) -> Subject<'a> {
    Subject {
        model: &fit.model,
        table: table.into(),
        caller: Caller::Command { model: "digits.pervade".to_string(), data: "your-digits.csv".to_string() },
        title: "1,797 handwritten digits".to_string(),
        points: MAX_POINTS,
        names: None,
    }
}

/// The recipe with networks that suit 64 columns; the best of three restarts, chosen without labels.
fn settings(seed: u64) -> Settings {
    let recipe = Settings::recipe(Recipe::Robust, Clusters::Fixed(10));
    recipe.with(|s| {
        s.seed = seed;
        s.hidden = Some(vec![100, 100, 400]);
        s.restarts = 3;
    })
}

/// The embedded digits, 8 x 8 pixels from 0 to 16, and their labels.
pub fn digits() -> Result<(Dataset<'static>, Labels)> {
    let table = read_bytes(DIGITS, "csv", &ReadOptions::with_labels("column:last")?)?;
    let labels = table.labels.ok_or_else(|| Error::data("embedded digits", "the labels are missing"))?;
    Ok((table.data.with_image(SHAPE), labels))
}

/// One line per cluster: real rows on the left, generated ones on the right.
fn draw_clusters<D: Device>(fit: &Fit, data: &Dataset, device: &D, seed: u64, path: &Path) -> Result<()> {
    let (clusters, d) = (&fit.clusters, data.n_columns());
    let mut lines = Vec::new();
    for cluster in 0..fit.model.n_clusters() {
        let mut real = Vec::new();
        let members = (0..clusters.len()).filter(|&row| clusters[row] as usize == cluster);
        for row in members.take(SHOWN) {
            real.resize(real.len() + d, 0.0);
            let start = real.len() - d;
            data.row_into(row, &mut real[start..]);
        }
        // The new rows of a small cluster stay in their columns.
        real.resize(SHOWN * d, 0.0);
        lines.push((
            Some(cluster),
            vec![real, fit.model.generate(device, Some(cluster), SHOWN, seed, Cells::Auto)?.rows],
        ));
    }
    let (low, high) = data.range();
    let tone = Tone::of_rows([low as f32, high as f32].into_iter()).as_ink();
    picture::grid(SHAPE, &lines, tone).write(path)
}

/// All rows in the plane, one colour per cluster, with a legend.
fn draw_latents<D: Device>(
    fit: &Fit,
    data: &Dataset,
    device: &D,
    path: &Path,
    console: &Console,
) -> Result<()> {
    let latents = fit.model.embed(device, data)?;
    let points = lay_out(&latents, fit.model.n_latents(), &fit.clusters, console)?;
    let names = (0..fit.model.n_clusters()).map(|cluster| cluster.to_string()).collect();
    super::map::draw("Handwritten digits by cluster", &points, &fit.clusters, names, path)
}

/// An explanation for first-time users.
fn summary(fit: &Fit, labels: &Labels, scores: &LabelScores, out: &Path, took: Duration) -> Result<String> {
    let about = fit.model.metadata();
    let table = Contingency::new(&fit.clusters, labels.ids())?;
    let width = table.second_values.len();
    let mut text = String::from("\nThe clusters it found, and the digit that each one turned out to be:\n\n");
    for (line, matched) in table.matching().into_iter().enumerate() {
        let counts = &table.counts[line * width..(line + 1) * width];
        let (rows, own) = (counts.iter().sum::<u64>(), matched.map_or(0, |label| counts[label]));
        let name = matched.map_or("?", |label| labels.names()[table.second_values[label] as usize].as_str());
        let bar = words::bar(own, about.occupancy.iter().copied().max().unwrap_or(1), 20);
        text.push_str(&format!(
            "  cluster {:>2}: {rows:>4} rows, {own:>4} are a {name}  {bar}\n",
            table.first_values[line]
        ));
    }
    let (folder, model) = (out.display(), out.join("digits.pervade"));
    let model = shell::word(&model.to_string_lossy()).into_owned();
    text.push_str(&format!(
        "\nIt never saw a label, and {} of the digits are in the right group after {} on this machine\n\
         (NMI {:.3}, ARI {:.3}).\n\n\
         Beside the page below it wrote:\n  \
         {folder}/clusters.png     one line per cluster: real digits left, generated digits right\n  \
         {folder}/latents.png      every digit as a point, similar digits close to each other\n  \
         {folder}/assignments.csv  the cluster of every row\n  \
         {folder}/digits.pervade   the model: try `pervade inspect {model}`\n\n\
         Now your own table (.csv, .npy, .npz, .parquet, images, ...):\n  \
         pervade fit your-table.csv --clusters 10\n  \
         pervade fit your-table.csv --clusters auto      if you do not know how many\n\n\
         All of it on one page, to open in a browser:\n  {folder}/report.html",
        words::percent(scores.accuracy),
        words::duration(took),
        scores.nmi,
        scores.ari
    ));
    Ok(text)
}
