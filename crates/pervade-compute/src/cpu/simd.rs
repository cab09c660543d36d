//! Vector types for the matrix product, selected at run time.
//!
//! Every type does the same operations in the same order (one fused multiply-add per term of a
//! sum, in increasing order of the index), so that results do not depend on the
//! instruction set: the same bytes with AVX-512, AVX2, NEON and portable code.

/// A vector instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// 512-bit vectors with fused multiply-add.
    Avx512,
    /// 256-bit vectors with fused multiply-add.
    Avx2,
    /// 128-bit vectors with fused multiply-add, on ARM.
    Neon,
    /// Portable code.
    Plain,
}

impl Isa {
    /// The best instruction set of this machine.
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            // Every processor with the first two has the third, which finds the nonzero elements that products do not skip.
            let avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("bmi1");
            let avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq");
            if avx2 && avx512 {
                return Isa::Avx512;
            }
            if avx2 {
                return Isa::Avx2;
            }
        }
        // Every 64-bit ARM processor has NEON.
        if cfg!(target_arch = "aarch64") { Isa::Neon } else { Isa::Plain }
    }

    /// Whether this machine supports it. (The detection is cached: this costs a few loads.)
    pub fn is_available(self) -> bool {
        let best = Self::detect();
        self == Isa::Plain || self == best || self == Isa::Avx2 && best == Isa::Avx512
    }

    /// Every instruction set that this machine supports, for tests.
    pub fn available() -> Vec<Self> {
        let all = [Isa::Avx512, Isa::Avx2, Isa::Neon, Isa::Plain];
        all.into_iter().filter(|isa| isa.is_available()).collect()
    }
}

/// A vector of `f32`. All methods must be inlined into a function compiled for
/// the matching instruction set; that is why they are unsafe to call.
pub(super) trait Vector: Copy {
    /// Elements per vector.
    const LANES: usize;
    /// Rows of the product's register tile: 2 x `TILE_ROWS` accumulators fill the registers.
    const TILE_ROWS: usize;
    /// Vectors per row of a pair of rows that are summed together, see `product/skip.rs`.
    const PAIR_VECTORS: usize;
    unsafe fn zero() -> Self;
    unsafe fn splat(x: f32) -> Self;
    unsafe fn load(from: *const f32) -> Self;
    unsafe fn store(self, to: *mut f32);
    /// self + a * b, rounded once.
    unsafe fn add_product(self, a: Self, b: Self) -> Self;
    /// Bit i is set if element i is not zero.
    #[inline(always)]
    unsafe fn nonzero_bits(self) -> u64 {
        let mut values = [0.0f32; 4];
        assert!(Self::LANES == values.len(), "wider vectors have their own");
        // SAFETY: room for LANES elements.
        unsafe { self.store(values.as_mut_ptr()) };
        values.iter().rev().fold(0, |bits, &x| bits << 1 | u64::from(x != 0.0))
    }
    /// Fetches the cache line that contains `at` into the second-level cache; any address is allowed.
    #[inline(always)]
    fn prefetch(_at: *const f32) {}
    /// The same for a line that is written soon: it is taken from the other cores, which would otherwise hold up the write.
    #[inline(always)]
    fn prefetch_for_write(_at: *const f32) {}
    /// Writes the 8 x 8 block at `from` (rows `from_stride` apart) transposed to `to`.
    unsafe fn transpose8(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
        for row in 0..8 {
            for column in 0..8 {
                // SAFETY: both blocks are valid, as the caller guarantees.
                unsafe { *to.add(column * to_stride + row) = *from.add(row * from_stride + column) };
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    // SAFETY (all methods): called only from functions compiled for the instruction set, which run
    // only after `Isa::detect` found it; pointers are valid for LANES elements, as the caller guarantees.
    impl super::Vector for __m512 {
        const LANES: usize = 16;
        const TILE_ROWS: usize = 14;
        const PAIR_VECTORS: usize = 8;
        #[inline(always)]
        unsafe fn zero() -> Self {
            // SAFETY: see the impl.
            unsafe { _mm512_setzero_ps() }
        }
        #[inline(always)]
        unsafe fn splat(x: f32) -> Self {
            // SAFETY: see the impl.
            unsafe { _mm512_set1_ps(x) }
        }
        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            // SAFETY: see the impl.
            unsafe { _mm512_loadu_ps(from) }
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            // SAFETY: see the impl.
            unsafe { _mm512_storeu_ps(to, self) }
        }
        #[inline(always)]
        unsafe fn add_product(self, a: Self, b: Self) -> Self {
            // SAFETY: see the impl.
            unsafe { _mm512_fmadd_ps(a, b, self) }
        }
        #[inline(always)]
        unsafe fn nonzero_bits(self) -> u64 {
            // SAFETY: see the impl.
            unsafe { u64::from(_mm512_cmp_ps_mask::<_CMP_NEQ_UQ>(self, _mm512_setzero_ps())) }
        }
        #[inline(always)]
        fn prefetch(at: *const f32) {
            // SAFETY: a hint; it faults on no address.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) }
        }
        #[inline(always)]
        fn prefetch_for_write(at: *const f32) {
            prefetch_for_write(at);
        }
        #[inline(always)]
        unsafe fn transpose8(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
            // SAFETY: both blocks are valid, as the caller guarantees.
            unsafe { transpose8(from, from_stride, to, to_stride) }
        }
    }

    impl super::Vector for __m256 {
        const LANES: usize = 8;
        const TILE_ROWS: usize = 6;
        const PAIR_VECTORS: usize = 6;
        #[inline(always)]
        unsafe fn zero() -> Self {
            // SAFETY: see the impl above.
            unsafe { _mm256_setzero_ps() }
        }
        #[inline(always)]
        unsafe fn splat(x: f32) -> Self {
            // SAFETY: see the impl above.
            unsafe { _mm256_set1_ps(x) }
        }
        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            // SAFETY: see the impl above.
            unsafe { _mm256_loadu_ps(from) }
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            // SAFETY: see the impl above.
            unsafe { _mm256_storeu_ps(to, self) }
        }
        #[inline(always)]
        unsafe fn add_product(self, a: Self, b: Self) -> Self {
            // SAFETY: see the impl above.
            unsafe { _mm256_fmadd_ps(a, b, self) }
        }
        #[inline(always)]
        unsafe fn nonzero_bits(self) -> u64 {
            // SAFETY: see the impl above.
            let bits = unsafe { _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_NEQ_UQ>(self, _mm256_setzero_ps())) };
            u64::from(bits as u8)
        }
        #[inline(always)]
        fn prefetch(at: *const f32) {
            // SAFETY: a hint; it faults on no address.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) }
        }
        #[inline(always)]
        fn prefetch_for_write(at: *const f32) {
            prefetch_for_write(at);
        }
        #[inline(always)]
        unsafe fn transpose8(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
            // SAFETY: both blocks are valid, as the caller guarantees.
            unsafe { transpose8(from, from_stride, to, to_stride) }
        }
    }

    /// `_mm_prefetch` has a hint for this, too, but without a feature that cannot be detected the compiler emits a prefetch for reading.
    /// Processors that do not know the instruction ignore it.
    #[inline(always)]
    fn prefetch_for_write(at: *const f32) {
        // SAFETY: a hint; it faults on no address.
        unsafe { std::arch::asm!("prefetchw [{0}]", in(reg) at, options(nostack, preserves_flags, readonly)) }
    }

    /// Exchanges pairs, then quads, then halves of the rows.
    #[inline(always)]
    unsafe fn transpose8(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
        // SAFETY: the caller guarantees eight readable and eight writable rows of eight elements; the
        // instructions are available as in the impls above.
        unsafe {
            let line = |i: usize| _mm256_loadu_ps(from.add(i * from_stride));
            let (a0, a1, a2, a3) = (line(0), line(1), line(2), line(3));
            let (a4, a5, a6, a7) = (line(4), line(5), line(6), line(7));
            let (b0, b1) = (_mm256_unpacklo_ps(a0, a1), _mm256_unpackhi_ps(a0, a1));
            let (b2, b3) = (_mm256_unpacklo_ps(a2, a3), _mm256_unpackhi_ps(a2, a3));
            let (b4, b5) = (_mm256_unpacklo_ps(a4, a5), _mm256_unpackhi_ps(a4, a5));
            let (b6, b7) = (_mm256_unpacklo_ps(a6, a7), _mm256_unpackhi_ps(a6, a7));
            let (c0, c1) = (_mm256_shuffle_ps::<0x44>(b0, b2), _mm256_shuffle_ps::<0xEE>(b0, b2));
            let (c2, c3) = (_mm256_shuffle_ps::<0x44>(b1, b3), _mm256_shuffle_ps::<0xEE>(b1, b3));
            let (c4, c5) = (_mm256_shuffle_ps::<0x44>(b4, b6), _mm256_shuffle_ps::<0xEE>(b4, b6));
            let (c6, c7) = (_mm256_shuffle_ps::<0x44>(b5, b7), _mm256_shuffle_ps::<0xEE>(b5, b7));
            for (i, (low, high)) in [(c0, c4), (c1, c5), (c2, c6), (c3, c7)].into_iter().enumerate() {
                _mm256_storeu_ps(to.add(i * to_stride), _mm256_permute2f128_ps::<0x20>(low, high));
                _mm256_storeu_ps(to.add((i + 4) * to_stride), _mm256_permute2f128_ps::<0x31>(low, high));
            }
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use std::arch::aarch64::*;

    // SAFETY (all methods): every 64-bit ARM processor has the instructions; pointers are valid for LANES elements, as the
    // caller guarantees.
    impl super::Vector for float32x4_t {
        const LANES: usize = 4;
        const TILE_ROWS: usize = 12;
        const PAIR_VECTORS: usize = 8;
        #[inline(always)]
        unsafe fn zero() -> Self {
            // SAFETY: see the impl.
            unsafe { vdupq_n_f32(0.0) }
        }
        #[inline(always)]
        unsafe fn splat(x: f32) -> Self {
            // SAFETY: see the impl.
            unsafe { vdupq_n_f32(x) }
        }
        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            // SAFETY: see the impl.
            unsafe { vld1q_f32(from) }
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            // SAFETY: see the impl.
            unsafe { vst1q_f32(to, self) }
        }
        #[inline(always)]
        unsafe fn add_product(self, a: Self, b: Self) -> Self {
            // SAFETY: see the impl.
            unsafe { vfmaq_f32(self, a, b) }
        }
    }
}

impl Vector for [f32; 4] {
    const LANES: usize = 4;
    const TILE_ROWS: usize = 6;
    const PAIR_VECTORS: usize = 6;
    #[inline(always)]
    unsafe fn zero() -> Self {
        [0.0; 4]
    }
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        [x; 4]
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller guarantees a pointer valid for four elements.
        unsafe { from.cast::<[f32; 4]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller guarantees a pointer valid for four elements.
        unsafe { to.cast::<[f32; 4]>().write_unaligned(self) }
    }
    #[inline(always)]
    unsafe fn add_product(self, a: Self, b: Self) -> Self {
        std::array::from_fn(|i| a[i].mul_add(b[i], self[i]))
    }
}

/// Compiles a function body for each instruction set and runs the version for `isa`.
///
/// The compiler vectorises loops in the body but cannot reorder sums, so that sums are written with
/// a fixed number of lanes.
macro_rules! for_isa {
    ($(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident: $kind:ty),* $(,)?) $body:block) => {
        $(#[$doc])*
        #[inline]
        $vis fn $name(isa: $crate::cpu::simd::Isa, $($arg: $kind),*) {
            #[inline(always)]
            fn body($($arg: $kind),*) $body
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")]
            fn avx512($($arg: $kind),*) { body($($arg),*) }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn avx2($($arg: $kind),*) { body($($arg),*) }
            match isa {
                // SAFETY: `Isa::detect` found these instructions on this machine.
                #[cfg(target_arch = "x86_64")]
                $crate::cpu::simd::Isa::Avx512 => unsafe { avx512($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::cpu::simd::Isa::Avx2 => unsafe { avx2($($arg),*) },
                _ => body($($arg),*),
            }
        }
    };
}
pub(crate) use for_isa;
