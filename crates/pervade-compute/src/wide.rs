//! Wide vector instructions where the machine has them, without requiring them at build time.
//!
//! A [`VectorKernel`] is ordinary Rust that the compiler vectorises; it is compiled once per width
//! and the widest version that this machine supports is run. Rust neither contracts multiply-adds nor
//! reorders sums, so every width gives bit-identical results.

/// A computation to compile for several vector widths.
pub(crate) trait VectorKernel {
    /// The result.
    type Output;
    /// The computation. Mark it and everything it calls `#[inline(always)]`: only code that is inlined
    /// here gets the wide instructions.
    fn run(self) -> Self::Output;
}

/// The instructions to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// The baseline of the target.
    Portable,
    /// 256 bits.
    Avx2,
    /// 512 bits.
    Avx512,
}

impl Width {
    /// Whether this machine supports it.
    pub(crate) fn is_supported(self) -> bool {
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
pub(crate) fn run_widest<K: VectorKernel>(kernel: K) -> K::Output {
    let widest = [Width::Avx512, Width::Avx2].into_iter().find(|width| width.is_supported());
    run_at(widest.unwrap_or(Width::Portable), kernel)
}

/// Runs `kernel` with the instructions of `width`, or the portable ones if it is not supported.
#[inline]
pub(crate) fn run_at<K: VectorKernel>(width: Width, kernel: K) -> K::Output {
    match width {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the guard has checked that this machine has the instructions.
        Width::Avx512 if width.is_supported() => unsafe { run_avx512(kernel) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the guard has checked that this machine has the instructions.
        Width::Avx2 if width.is_supported() => unsafe { run_avx2(kernel) },
        _ => kernel.run(),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn run_avx512<K: VectorKernel>(kernel: K) -> K::Output {
    kernel.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn run_avx2<K: VectorKernel>(kernel: K) -> K::Output {
    kernel.run()
}

/// Every width that this machine supports, for tests that they agree.
#[cfg(test)]
pub(crate) fn supported_widths() -> impl Iterator<Item = Width> {
    [Width::Portable, Width::Avx2, Width::Avx512].into_iter().filter(|width| width.is_supported())
}
