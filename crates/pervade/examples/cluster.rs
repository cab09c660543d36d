//! Clusters a table and saves the model: `cargo run --release --example cluster -- TABLE K`.
#![expect(clippy::print_stdout, reason = "a program for the terminal")]

use pervade::{Clusters, Cpu, Dataset, Recipe, Settings, Silent, fit};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let table =
        args.next().unwrap_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/examples/table.csv").to_string());
    let clusters: Clusters = args.next().as_deref().unwrap_or("auto").parse()?;
    let data = Dataset::read(&table)?;
    let settings = Settings::recipe(Recipe::Robust, clusters).with(|s| s.hidden = Some(vec![100, 100]));
    let device = Cpu::new();
    let model = fit(&data, &settings.check(&data)?, &device, &mut Silent, None)?.model;
    println!("{} clusters of {} rows, saved as model.pervade", model.n_clusters(), data.n_rows());
    model.save("model.pervade".as_ref())?;
    Ok(())
}
