//! Checks that a device computes every operation correctly: one list of cases, for any device.
//!
//! A case is one operation on one input, with the result that its definition gives in double precision. The tests run the
//! list on the CPU, with every instruction set and with one and two threads; `pervade doctor` runs it on the user's
//! device. A case of a gradient also knows the loss, so that the gradient can be compared with central differences of
//! the device's own forward pass ([`Case::check_differences`]).
//!
//! Where a definition would only repeat the CPU's code, the CPU is the reference; and where an operation is defined by
//! others (an update in one go by gradient and Adam), the same device's results of those are.
//!
//! One file per family of operations, named as in `ops`.
//!
//! ```
//! use pervade_compute::{Cpu, conformance};
//!
//! let device = Cpu::new();
//! for case in conformance::cases().iter().take(5) {
//!     let check = case.check(&device)?;
//!     assert!(check.passed, "{}: off by {}", check.name, check.error);
//! }
//! # Ok::<(), pervade_compute::Error>(())
//! ```

mod batch_norm;
mod case;
mod codes;
mod convolution;
mod exchange;
mod gradient;
mod inputs;
mod latents;
mod layers;
mod likelihood;
mod memory;
mod mixture_posterior;
mod neighbour_term;
mod points;
mod prior;
mod rows;
mod soft_clusters;
mod stick_breaking;
mod typed;
mod typed_rows;
mod updates;

pub use case::{Case, Check, Tolerance};
pub use inputs::numbers;

use crate::{BatchNorm, Codes, Device, MixturePosterior, SoftClusters, StickBreaking};

/// A device with every family of operations: those of VaDE, and those that only the methods it is compared with use.
pub trait EveryOperation:
    Device + BatchNorm + StickBreaking + MixturePosterior + SoftClusters + Codes
{
}

impl<D: Device + BatchNorm + StickBreaking + MixturePosterior + SoftClusters + Codes> EveryOperation for D {}

/// All cases. Nothing is computed before a case is checked.
pub fn cases<D: EveryOperation>() -> Vec<Case<D>> {
    [
        memory::cases(),
        exchange::cases(),
        layers::cases(),
        updates::cases(),
        rows::cases(),
        typed_rows::cases(),
        latents::cases(),
        likelihood::cases(),
        typed::cases(),
        prior::cases(),
        neighbour_term::cases(),
        points::cases(),
        convolution::cases(),
        batch_norm::cases(),
        codes::cases(),
        soft_clusters::cases(),
        stick_breaking::cases(),
        mixture_posterior::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
