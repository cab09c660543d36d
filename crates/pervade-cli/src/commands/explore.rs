//! `pervade explore`: the report's page with a server behind it.

use std::path::PathBuf;

use clap::Args;
use pervade::{Result, on_device};
use serde_json::json;

use crate::args::{Common, ModelAndData};
use crate::console::Console;
use crate::explore::{self, Explored, NamesFile, Server, Worker};
use crate::page::MAX_POINTS;
use crate::{Outcome, outputs, shell, words};

/// Explore the clusters in a browser: compare groups of rows, search, walk between clusters, name and merge them
#[derive(Args)]
#[command(after_help = "Example:
  pervade explore penguins.pervade penguins.csv --labels column:species

A server on this machine, which no other machine can reach, answers the page; Ctrl-C ends it. Names and merges of
clusters are saved to a file beside the model, which `pervade assign --names FILE` and others use.")]
pub(crate) struct ExploreArgs {
    #[command(flatten)]
    both: ModelAndData,
    /// Port of the server [default: any that is free]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Only print the address instead of opening a browser
    #[arg(long)]
    no_open: bool,
    /// File with the names of the clusters, read and written [default: MODEL's name with .names.json, beside it]
    #[arg(long, value_name = "FILE.json")]
    names: Option<PathBuf>,
    /// Rows on the map, at most; of more rows a sample is shown
    #[arg(long, value_name = "N", default_value_t = MAX_POINTS)]
    points: usize,
}

/// Runs it.
pub(crate) fn run(args: &ExploreArgs, common: &Common, console: &Console) -> Result<Outcome> {
    let names_file = NamesFile::new(args.names.as_deref(), &args.both.model);
    let _claim = names_file.claimed(args.both.files(common)).claim(console)?;
    if let Some(reason) = names_file.read_only() {
        console.say(&format!("note: names of clusters cannot be saved: {reason}"));
    }
    let device = common.open_device(console)?;
    let model = super::load(&args.both.model, console)?;
    let names = names_file.load(&model)?;
    let table = super::read_rows(&args.both, &model, console)?;
    // Before the work: a port in use should not be found out after it.
    let server = Server::listen(args.port, table.data.n_rows())?;
    let rows = words::counted(table.data.n_rows(), "row");
    console.say(&format!("preparing the page about {rows}"));
    let explored = Explored {
        model: &model,
        table: &table,
        model_name: shell::word(&outputs::name_of(&args.both.model)).into_owned(),
        data: args.both.read.typed(outputs::name_of(&args.both.data).as_ref()),
        title: outputs::name_of(&args.both.data),
        points: args.points,
    };
    let url = server.guard().url();
    let object = json!({
        "url": url,
        "names": names_file.path().display().to_string(),
        "rows": table.data.n_rows(),
        "clusters": model.n_clusters(),
    });
    let opened = (!args.no_open).then(|| server.guard().url_for_opening());
    on_device!(&device, device => {
        let worker = Worker::new(explored, device, names, names_file, console)?;
        explore::serve(worker, server, || {
            console.result(&object, &url)?;
            console.say("open this address in a browser on this machine; Ctrl-C ends the server");
            opened.iter().for_each(|url| explore::open_browser(url));
            Ok(())
        })?;
    });
    console.say("the server has ended");
    Ok(Outcome::Done)
}
