//! Model files; what is accepted must also be usable.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pervade::compute::Cpu;
use pervade::data::Dataset;
use pervade::model::Vade;

fuzz_target!(|bytes: &[u8]| {
    let Ok(model) = Vade::from_bytes(bytes, std::path::Path::new("fuzzed")) else { return };
    let (cpu, d) = (Cpu::new(), model.n_columns());
    let row = Dataset::from_rows(1, d, (0..d).map(|i| i as f32 / d as f32).collect()).unwrap();
    let _ = model.assign(&cpu, &row);
    let _ = model.score(&cpu, &row);
    let _ = model.generate(&cpu, None, 2, 0);
    assert!(model.to_bytes().is_ok());
});
