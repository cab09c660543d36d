//! Fourier transforms of sides 2^a and 3 x 2^a, many at once.
//!
//! [`LANES`] transforms run side by side, so that the inner loops are over independent lanes: a compiler may use
//! vectors of any width, and the results are the same. No sine or cosine of the system's library is used either.

/// Transforms that run side by side.
pub(super) const LANES: usize = 8;
/// One value in each of the transforms.
pub(super) type Lanes = [f32; LANES];

/// One complex value in each of the transforms.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Complex {
    pub(super) re: Lanes,
    pub(super) im: Lanes,
}

impl Complex {
    #[inline(always)]
    fn map2(self, other: Self, f: impl Fn([f32; 2], [f32; 2]) -> [f32; 2]) -> Self {
        let mut result = Self::default();
        for l in 0..LANES {
            let [re, im] = f([self.re[l], self.im[l]], [other.re[l], other.im[l]]);
            (result.re[l], result.im[l]) = (re, im);
        }
        result
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.map2(other, |a, b| [a[0] + b[0], a[1] + b[1]])
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self.map2(other, |a, b| [a[0] - b[0], a[1] - b[1]])
    }

    /// The product in each lane.
    #[inline(always)]
    pub(super) fn times(self, other: Self) -> Self {
        self.map2(other, |a, b| [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]])
    }

    /// The product of every lane with one number.
    #[inline(always)]
    fn rotated(self, [re, im]: [f32; 2]) -> Self {
        self.times(Self { re: [re; LANES], im: [im; LANES] })
    }
}

/// X_k = sum_j x_j exp(-2 pi i j k / n); the inverse has the other sign and no factor 1 / n.
pub(super) struct Fft {
    /// exp(-2 pi i k / n). `[n]`
    twiddles: Vec<[f32; 2]>,
    radices: Vec<usize>,
    inverse: bool,
}

impl Fft {
    /// A transform of n = 2^a or 3 x 2^a values.
    pub(super) fn new(n: usize, inverse: bool) -> Self {
        let sign = if inverse { -1.0 } else { 1.0 };
        let twiddles =
            roots_of_unity(n).into_iter().map(|[re, im]| [re as f32, (sign * im) as f32]).collect();
        let mut radices = Vec::new();
        let mut rest = n;
        for radix in [3, 4, 2] {
            while rest.is_multiple_of(radix) && rest > 1 {
                radices.push(radix);
                rest /= radix;
            }
        }
        debug_assert_eq!(rest, 1);
        Self { twiddles, radices, inverse }
    }

    /// The number of values.
    pub(super) fn len(&self) -> usize {
        self.twiddles.len()
    }

    /// Transforms `values` in place; `scratch` has the same length.
    ///
    /// Stockham's algorithm: each stage reads one buffer and writes the other in an order that needs no sorting.
    pub(super) fn run(&self, values: &mut [Complex], scratch: &mut [Complex]) {
        let n = self.twiddles.len();
        let (mut from, mut to) = (values, scratch);
        let mut stride = 1;
        for &radix in &self.radices {
            match radix {
                2 => self.stage::<2>(from, to, stride, |[a, b]| [a.add(b), a.sub(b)]),
                3 => self.stage::<3>(from, to, stride, |x| self.butterfly3(x)),
                _ => self.stage::<4>(from, to, stride, |x| self.butterfly4(x)),
            }
            stride *= radix;
            (from, to) = (to, from);
        }
        debug_assert_eq!(stride, n);
        if self.radices.len() % 2 == 1 {
            to.copy_from_slice(from);
        }
    }

    /// One stage: transforms of R values, `stride` of them interleaved, followed by twiddle factors.
    #[inline(always)]
    fn stage<const R: usize>(
        &self,
        from: &[Complex],
        to: &mut [Complex],
        stride: usize,
        butterfly: impl Fn([Complex; R]) -> [Complex; R],
    ) {
        let part = from.len() / R;
        for (p, block) in to.chunks_exact_mut(R * stride).enumerate() {
            // p * stride * j is below n for all j < R.
            let twiddles: [[f32; 2]; R] = std::array::from_fn(|j| self.twiddles[p * stride * j]);
            for q in 0..stride {
                let outputs = butterfly(std::array::from_fn(|k| from[k * part + p * stride + q]));
                block[q] = outputs[0];
                for j in 1..R {
                    block[j * stride + q] = outputs[j].rotated(twiddles[j]);
                }
            }
        }
    }

    /// x times -i, or i in the inverse.
    #[inline(always)]
    fn quarter(&self, x: Complex) -> Complex {
        let negative = |lanes: Lanes| lanes.map(|v| -v);
        if self.inverse {
            Complex { re: negative(x.im), im: x.re }
        } else {
            Complex { re: x.im, im: negative(x.re) }
        }
    }

    #[inline(always)]
    fn butterfly3(&self, [a, b, c]: [Complex; 3]) -> [Complex; 3] {
        const HALF_SQRT_3: f32 = 0.866_025_4;
        let (sum, difference) = (b.add(c), self.quarter(b.sub(c)));
        let middle = a.sub(Complex { re: sum.re.map(|v| 0.5 * v), im: sum.im.map(|v| 0.5 * v) });
        let turn = Complex {
            re: difference.re.map(|v| HALF_SQRT_3 * v),
            im: difference.im.map(|v| HALF_SQRT_3 * v),
        };
        [a.add(sum), middle.add(turn), middle.sub(turn)]
    }

    #[inline(always)]
    fn butterfly4(&self, [a, b, c, d]: [Complex; 4]) -> [Complex; 4] {
        let (even, odd) = ([a.add(c), a.sub(c)], [b.add(d), self.quarter(b.sub(d))]);
        [even[0].add(odd[0]), even[1].add(odd[1]), even[0].sub(odd[0]), even[1].sub(odd[1])]
    }
}

/// exp(-2 pi i k / n) for n = 2^a or 3 x 2^a, by half-angle formulas: square roots are rounded the same everywhere.
fn roots_of_unity(n: usize) -> Vec<[f64; 2]> {
    let third = 0.75f64.sqrt();
    let (mut roots, mut first) = if n.is_multiple_of(3) {
        (vec![[1.0, 0.0], [-0.5, -third], [-0.5, third]], [-0.5, -third])
    } else {
        (vec![[1.0, 0.0]], [1.0, 0.0])
    };
    while roots.len() < n {
        first = match roots.len() {
            1 => [-1.0, 0.0],
            2 => [0.0, -1.0],
            _ => {
                let cosine = (0.5 + 0.5 * first[0]).sqrt();
                [cosine, first[1] / (2.0 * cosine)]
            }
        };
        let between = |[re, im]: [f64; 2]| [re * first[0] - im * first[1], re * first[1] + im * first[0]];
        roots = roots.into_iter().flat_map(|root| [root, between(root)]).collect();
    }
    roots
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, in double precision.
    fn naive(values: &[Complex], lane: usize, sign: f64) -> Vec<[f64; 2]> {
        let n = values.len();
        let value = |k: usize| {
            (0..n).fold([0.0, 0.0], |sum: [f64; 2], j| {
                let angle = sign * std::f64::consts::TAU * (j * k % n) as f64 / n as f64;
                let (re, im) = (f64::from(values[j].re[lane]), f64::from(values[j].im[lane]));
                let (sin, cos) = angle.sin_cos();
                [sum[0] + re * cos - im * sin, sum[1] + re * sin + im * cos]
            })
        };
        (0..n).map(value).collect()
    }

    #[test]
    fn it_is_the_naive_transform() {
        for (n, inverse) in [1, 2, 3, 4, 6, 8, 12, 16, 48, 128, 192, 512, 768]
            .into_iter()
            .zip([false, true].into_iter().cycle())
        {
            let noise = |i: usize| ((i * 7919 + 13) % 1009) as f32 / 1009.0 - 0.5;
            let values: Vec<Complex> = (0..n)
                .map(|i| Complex {
                    re: std::array::from_fn(|l| noise(31 * i + l)),
                    im: std::array::from_fn(|l| noise(17 * i + 5 * l)),
                })
                .collect();
            let mut found = values.clone();
            Fft::new(n, inverse).run(&mut found, &mut vec![Complex::default(); n]);
            for lane in [0, LANES - 1] {
                let expected = naive(&values, lane, if inverse { 1.0 } else { -1.0 });
                for (found, expected) in found.iter().zip(expected) {
                    let error = (f64::from(found.re[lane]) - expected[0])
                        .hypot(f64::from(found.im[lane]) - expected[1]);
                    assert!(error < 2e-7 * n as f64, "n = {n}: {error}");
                }
            }
        }
    }

    #[test]
    fn roots_are_those_of_the_library() {
        for n in [1, 2, 3, 4, 6, 96, 2048, 3072] {
            for (k, root) in roots_of_unity(n).into_iter().enumerate() {
                let (sin, cos) = (-std::f64::consts::TAU * k as f64 / n as f64).sin_cos();
                assert!((root[0] - cos).abs() < 1e-14 && (root[1] - sin).abs() < 1e-14, "{k} of {n}");
            }
        }
    }
}
