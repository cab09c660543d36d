//! t-SNE of a file of little-endian `f32` values: `tsne IN COLUMNS OUT`; `scripts/check-tsne` scores it.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, input, columns, output] = args.as_slice() else { return Err("tsne IN COLUMNS OUT".into()) };
    let values: Vec<f32> =
        std::fs::read(input)?.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    let points = pervade_plots::Tsne::default().embed(&values, columns.parse()?);
    let bytes: Vec<u8> = points.iter().flatten().flat_map(|&x| (x as f32).to_le_bytes()).collect();
    Ok(std::fs::write(output, bytes)?)
}
