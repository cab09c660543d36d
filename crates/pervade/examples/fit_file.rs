//! Fits a file and prints scores: `fit_file DATA LABELS K [SEED] [key=value]`.
#![expect(clippy::print_stdout, reason = "printing is what it is for")]

use pervade::compute::Cpu;
use pervade::config::{Clusters, Recipe, Settings};
use pervade::data::{ReadOptions, read};
use pervade::train::{Control, Event, Observer};
use std::path::Path;
use std::time::Instant;

struct Talk(Instant);
impl Observer for Talk {
    fn event(&mut self, event: &Event<'_>) -> Control {
        let t = self.0.elapsed().as_secs_f64();
        match event {
            Event::Steps { .. } => {}
            Event::Pretrained(_, e) if e.epoch % 5 != 0 => {}
            Event::Trained(_, e) if e.epoch % 5 != 0 => {}
            other => println!("{t:.1} {other:?}"),
        }
        Control::Continue
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let t = Instant::now();
    let table = read(Path::new(&args[1]), &ReadOptions::with_labels(&args[2]).unwrap()).unwrap();
    let labels = table.labels.unwrap();
    println!("read {:.2}", t.elapsed().as_secs_f64());
    let mut settings = Settings::recipe(Recipe::Robust, args[3].parse::<Clusters>().unwrap());
    settings.seed = args.get(4).map_or(0, |s| s.parse().unwrap());
    let mut json = serde_json::to_value(&settings).unwrap();
    for pair in args.iter().skip(5) {
        let (k, v) = pair.split_once('=').unwrap();
        json[k] = serde_json::from_str(v).unwrap_or_else(|_| serde_json::Value::String(v.into()));
    }
    let settings: Settings = serde_json::from_value(json).unwrap();
    let checked = settings.check(&table.data).unwrap();
    println!(
        "{} {:?} C={} pre={} joint={}",
        checked.preparation.kind(),
        checked.likelihood,
        checked.n_components,
        checked.pretrain_epochs,
        checked.epochs
    );
    let fit = pervade::fit(&table.data, &checked, &Cpu::new(), &mut Talk(t), None).unwrap();
    let c = pervade::metrics::confusion(&fit.assignments[0], labels.ids()).unwrap();
    println!(
        "seconds {:.1} kept {} ACC {:.4} NMI {:.4} ARI {:.4} K {}",
        t.elapsed().as_secs_f64(),
        fit.restarts[0].kept,
        c.accuracy(),
        c.nmi(),
        c.ari(),
        fit.model.n_clusters()
    );
}
