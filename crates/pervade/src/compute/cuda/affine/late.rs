//! Weight gradients of many restarts and small batches, all layers at the end of a step (`kernels/weights.cu`).
//!
//! Beside the chain of input gradients they would only take turns with it: with many restarts each kernel fills
//! the device.

use super::super::driver::{Arg, Kernel, Launch};
use super::{Cuda, Epilogue, Product, Result};

/// Rows of a batch at the most, and the sides of a tile.
const MOST_ROWS: u32 = 112;
const TILE: u32 = 64;
/// Restarts from which this wins: fewer leave room for the chain.
const LEAST_RESTARTS: usize = 4;

/// The products that a step being recorded leaves for its end.
#[derive(Default)]
pub(in super::super) struct Late {
    products: Vec<Product>,
    restarts: usize,
}

impl Cuda {
    /// Takes a weight gradient for the end of the step, if one is being recorded and it is of the kind.
    pub(super) fn leave_for_later(&self, p: &mut Product, restarts: usize) -> Result<bool> {
        p.note_width();
        let fits = p.epilogue == Epilogue::Adam && p.inner <= MOST_ROWS && p.b_wide & p.c_wide == 1;
        if !fits || restarts < LEAST_RESTARTS || self.state().is_none() {
            return Ok(false);
        }
        // Two steps of one layer keep their order.
        let again =
            |late: &Late| late.restarts != restarts || late.products.iter().any(|other| other.c == p.c);
        let must_go_first = |late: &Late| !late.products.is_empty() && again(late);
        if self.state().as_ref().is_some_and(|recorded| must_go_first(&recorded.late)) {
            self.launch_late()?;
            self.driver.main_after_side()?;
        }
        if let Some(recorded) = &mut *self.state() {
            recorded.late.restarts = restarts;
            recorded.late.products.push(*p);
        }
        Ok(true)
    }

    /// Launches what was left for later.
    pub(in super::super) fn launch_late(&self) -> Result<()> {
        let Some(mut late) = self.state().as_mut().map(|recorded| std::mem::take(&mut recorded.late)) else {
            return Ok(());
        };
        // Weights that were read last are still near; those of the last layer will be needed first.
        if let Some((_, others)) = late.products.split_last_mut() {
            others.reverse();
        }
        // On both streams in turn: where one layer's last blocks leave room, the next one's begin.
        let forked = !late.products.is_empty() && self.fork()?;
        for (i, p) in late.products.iter().enumerate() {
            let launch = Launch {
                kernel: Kernel::ProductWholeBatch,
                grid: (p.columns.div_ceil(TILE), p.rows.div_ceil(TILE), late.restarts as u32),
                threads: 256,
                shared: 2 * MOST_ROWS * (TILE + 8) * 4,
            };
            self.driver.launch_on(forked && i % 2 == 1, launch, &[Arg::of(p)])?;
        }
        Ok(())
    }
}
