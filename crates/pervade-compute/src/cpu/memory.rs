//! The CPU as a device, and its buffers.

use super::simd::Isa;
use super::tiles::Tiles;
use super::{pages, team};
use crate::{Memory, Params, Recording, Result, Slot, Tick};

/// Parameters from which threads stay awake during a step. Smaller networks would leave them waiting most of the time, at the
/// cost of other programs.
const TEAM_PARAMS: usize = 500_000;

/// The CPU, with a choice of instruction set.
#[derive(Clone, Copy, Debug)]
pub struct Cpu {
    pub(super) isa: Isa,
}

impl Default for Cpu {
    fn default() -> Self {
        Self::new()
    }
}

impl Cpu {
    /// The CPU with the best instruction set it supports.
    pub fn new() -> Self {
        Self { isa: Isa::detect() }
    }

    /// The CPU with a given instruction set, which must be one of [`Isa::available`].
    pub fn with_isa(isa: Isa) -> Option<Self> {
        Isa::available().contains(&isa).then_some(Self { isa })
    }

    /// The instruction set in use.
    pub fn isa(&self) -> Isa {
        self.isa
    }
}

/// The processor's name according to the operating system.
fn processor_name() -> String {
    let about = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let named = |line: &str| Some(line.strip_prefix("model name")?.split_once(':')?.1.trim().to_string());
    about.lines().find_map(named).unwrap_or_else(|| "CPU".to_string())
}

impl Memory for Cpu {
    type Buffer = Vec<f32>;

    fn name(&self) -> String {
        format!("{} ({:?})", processor_name(), self.isa)
    }

    fn product_error(&self) -> f64 {
        // Single precision over sums of a few hundred terms.
        2e-6
    }

    fn is_host(&self) -> bool {
        true
    }

    fn restarts_at_once(&self, _wanted: usize) -> usize {
        // One model keeps all cores busy; a second would only evict its weights from the cache.
        1
    }

    fn zeros(&self, len: usize) -> Result<Vec<f32>> {
        Ok(pages::zeros(len))
    }

    fn clear(&self, buffer: &mut Vec<f32>) -> Result<()> {
        buffer.fill(0.0);
        Ok(())
    }

    fn write(&self, to: &mut Vec<f32>, offset: usize, values: &[f32]) -> Result<()> {
        to[offset..offset + values.len()].copy_from_slice(values);
        Ok(())
    }

    fn read(&self, from: &Vec<f32>, offset: usize, into: &mut [f32]) -> Result<()> {
        into.copy_from_slice(&from[offset..offset + into.len()]);
        Ok(())
    }

    fn moment_index(&self, weight: &Slot, row: usize, column: usize) -> usize {
        Tiles::new(weight.rows, weight.columns).index(row, column)
    }
}

/// The CPU records nothing and runs every step, of large networks with its threads awake from the first operation to the last.
impl Recording for Cpu {
    type Recording = ();

    fn steps_at_once(&self) -> usize {
        1
    }

    fn steps(
        &self,
        ticks: &[Tick],
        _recording: &mut (),
        params: &mut Params<Vec<f32>>,
        mut body: impl FnMut(&mut Params<Vec<f32>>, &Tick) -> Result<()>,
    ) -> Result<()> {
        let is_small = params.values.len() < TEAM_PARAMS;
        let mut run = || ticks.iter().try_for_each(|tick| body(params, tick));
        if is_small { run() } else { team::together(run) }
    }
}
