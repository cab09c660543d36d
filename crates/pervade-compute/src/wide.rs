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

/// The instructions to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// What every processor of the target has.
    Portable,
    /// 256 bits.
    Avx2,
    /// 512 bits.
    Avx512,
}

impl Width {
    /// Whether this machine has them.
    pub(crate) fn is_here(self) -> bool {
        match self {
            Width::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Width::Avx2 => is_x86_feature_detected!("avx2"),
            #[cfg(target_arch = "x86_64")]
            Width::Avx512 => is_x86_feature_detected!("avx512f"),
            #[cfg(not(target_arch = "x86_64"))]
            Width::Avx2 | Width::Avx512 => false,
        }
    }
}

/// Runs `kernel` with the widest instructions of this machine.
pub(crate) fn run_widest<K: Kernel>(kernel: K) -> K::Output {
    let here = [Width::Avx512, Width::Avx2].into_iter().find(|width| width.is_here());
    run_at(here.unwrap_or(Width::Portable), kernel)
}

/// Runs `kernel` with the instructions of `width`, or the portable ones if they are not here.
#[inline]
pub(crate) fn run_at<K: Kernel>(width: Width, kernel: K) -> K::Output {
    match width {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the guard has found the instructions on this machine.
        Width::Avx512 if width.is_here() => unsafe { run_avx512(kernel) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the guard has found the instructions on this machine.
        Width::Avx2 if width.is_here() => unsafe { run_avx2(kernel) },
        _ => kernel.run(),
    }
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

/// Every width of this machine, for tests that they agree.
#[cfg(test)]
pub(crate) fn widths_here() -> impl Iterator<Item = Width> {
    [Width::Portable, Width::Avx2, Width::Avx512].into_iter().filter(|width| width.is_here())
}
