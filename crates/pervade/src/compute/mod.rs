//! The compute door: devices, their operations, and all unsafe code.

mod mapped;

pub use mapped::Mapped;
