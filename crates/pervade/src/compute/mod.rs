//! The compute door: devices, their operations, and all unsafe code.

pub(crate) mod host_simd;
mod mapped;

pub use mapped::Mapped;
