//! Wide instructions where the machine has them, without asking for them at build time.
//!
//! A [`Kernel`] is ordinary Rust that the compiler vectorises; it is compiled once for each width
//! and the widest that this machine has is run. Rust neither fuses a product into a sum nor
//! reorders sums, so every width gives the same bits.

/// A computation to compile for several vector widths.
pub(crate) trait Kernel {
    /// What it gives.
    type Output;
    /// The computation. Mark it and what it calls `#[inline(always)]`: only code that is inlined
    /// here gets the wide instructions.
    fn run(self) -> Self::Output;
}

/// Runs `kernel` with the widest instructions of this machine.
pub(crate) fn run_widest<K: Kernel>(kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the instructions were found on this machine on the line above.
            return unsafe { run_avx512(kernel) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the instructions were found on this machine on the line above.
            return unsafe { run_avx2(kernel) };
        }
    }
    kernel.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn run_avx512<K: Kernel>(kernel: K) -> K::Output {
    kernel.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn run_avx2<K: Kernel>(kernel: K) -> K::Output {
    kernel.run()
}
