//! Elementary functions, the log-gamma function and its derivatives in double precision, from additions, products,
//! quotients and bit operations in a fixed order: bit-identical on every machine, as in `math.rs`.

/// The recurrence raises arguments to this before the asymptotic series is used; the first omitted term of the series
/// is then below 3e-14.
const SERIES_START: f64 = 8.0;

/// The bits of sqrt(1/2): mantissas are taken in [sqrt 1/2, sqrt 2).
const SQRT_HALF: u64 = 0x3fe6_a09e_667f_3bcd;

/// ln(x) for positive normal x.
pub(crate) fn ln(x: f64) -> f64 {
    let shifted = x.to_bits().wrapping_sub(SQRT_HALF) as i64;
    let exponent = (shifted >> 52) as f64;
    let mantissa = f64::from_bits(x.to_bits().wrapping_sub((shifted as u64) & !0x000f_ffff_ffff_ffff));
    exponent * std::f64::consts::LN_2 + ln_of_mantissa(mantissa)
}

/// ln(m) = 2 artanh s with |s| < 0.172, for m in [sqrt 1/2, sqrt 2).
#[inline(always)]
fn ln_of_mantissa(mantissa: f64) -> f64 {
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    const SERIES: [f64; 11] = [
        1.0,
        1.0 / 3.0,
        1.0 / 5.0,
        1.0 / 7.0,
        1.0 / 9.0,
        1.0 / 11.0,
        1.0 / 13.0,
        1.0 / 15.0,
        1.0 / 17.0,
        1.0 / 19.0,
        1.0 / 21.0,
    ];
    2.0 * s * polynomial(s * s, &SERIES)
}

/// e^x.
pub(crate) fn exp(x: f64) -> f64 {
    if x > 0.0 { 1.0 / exp_lanes(-x) } else { exp_lanes(x) }
}

/// ln(1 + x) for x > -1, without cancellation near zero; NaN for others.
pub(crate) fn ln_1p(x: f64) -> f64 {
    let sum = 1.0 + x;
    if sum == 1.0 {
        x
    } else if sum > 0.0 {
        // What rounding changed in the sum is corrected by the ratio.
        ln(sum) * (x / (sum - 1.0))
    } else {
        f64::NAN
    }
}

/// ln(1 + x) for x >= 0, without a branch or a call, so that it runs in vector lanes.
#[inline(always)]
pub(crate) fn ln_1p_nonnegative(x: f64) -> f64 {
    /// Its last bits have the value of an integer below 2^52.
    const SHIFT: u64 = 0x4330_0000_0000_0000;
    let sum = 1.0 + x;
    let shifted = sum.to_bits().wrapping_sub(SQRT_HALF);
    let exponent = f64::from_bits(SHIFT | (shifted >> 52)) - f64::from_bits(SHIFT);
    let mantissa = f64::from_bits(sum.to_bits().wrapping_sub(shifted & !0x000f_ffff_ffff_ffff));
    // What rounding changed in the sum, divided by the sum.
    let rest = (x - (sum - 1.0)) / sum;
    exponent * std::f64::consts::LN_2 + (ln_of_mantissa(mantissa) + rest)
}

/// Up to this, Gamma(r + k) / Gamma(r) is a product of k factors.
const MOST_FACTORS: f64 = 16.0;

/// ln of Gamma(r + k) / (Gamma(r) k!) and psi(r + k) - psi(r), for positive r and k >= 0. As a product for small whole k: nothing
/// cancels, however large r is.
pub(crate) fn log_coefficient(r: f64, k: f64) -> (f64, f64) {
    if k <= MOST_FACTORS && k.trunc() == k {
        let (mut product, mut slope, mut factorial) = (1.0, 0.0, 1.0);
        for i in 0..k as u32 {
            let factor = r + f64::from(i);
            slope = slope * factor + product;
            product *= factor;
            factorial *= f64::from(i + 1);
        }
        return (ln(product / factorial), slope / product);
    }
    let (above, below) = (ln_gamma_and_digamma(r + k), ln_gamma_and_digamma(r));
    (above.0 - below.0 - ln_gamma_and_digamma(k + 1.0).0, above.1 - below.1)
}

/// ln Gamma(x) and psi(x) for positive x.
pub(crate) fn ln_gamma_and_digamma(x: f64) -> (f64, f64) {
    // The product of the arguments so far and its derivative; their ratio is the sum of the inverses.
    let (mut x, mut product, mut slope) = (x, 1.0, 0.0);
    while x < SERIES_START {
        slope = slope * x + product;
        product *= x;
        x += 1.0;
    }
    let (log, inverse) = (ln(x), 1.0 / x);
    let square = inverse * inverse;
    const HALF_LN_TAU: f64 = 0.918_938_533_204_672_8;
    let tail = polynomial(
        square,
        &[1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0, -1.0 / 1680.0, 1.0 / 1188.0, -691.0 / 360_360.0],
    );
    let ln_gamma = (x - 0.5) * log - x + HALF_LN_TAU + inverse * tail - ln(product);
    let tail = polynomial(
        square,
        &[1.0 / 12.0, -1.0 / 120.0, 1.0 / 252.0, -1.0 / 240.0, 1.0 / 132.0, -691.0 / 32_760.0],
    );
    (ln_gamma, log - 0.5 * inverse - square * tail - slope / product)
}

/// psi'(x) for positive x.
pub(crate) fn trigamma(x: f64) -> f64 {
    let (mut x, mut below) = (x, 0.0);
    while x < SERIES_START {
        below += 1.0 / (x * x);
        x += 1.0;
    }
    let inverse = 1.0 / x;
    let square = inverse * inverse;
    let tail =
        polynomial(square, &[1.0 / 6.0, -1.0 / 30.0, 1.0 / 42.0, -1.0 / 30.0, 5.0 / 66.0, -691.0 / 2730.0]);
    inverse + 0.5 * square + inverse * square * tail + below
}

/// Below this the exponential is flushed to zero: it would be subnormal.
const EXP_UNDERFLOW: f64 = -708.0;

/// e^x for x up to 700, without a branch or a call, so that it runs in vector lanes.
///
/// x = n ln 2 + r with |r| <= ln 2 / 2, e^r by its series to r^13 (the next term is below 5e-18),
/// 2^n through the bits of the exponent.
#[inline(always)]
pub(crate) fn exp_lanes(x: f64) -> f64 {
    /// Adding it leaves the nearest integer in the low bits of the sum.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    /// ln 2 in two parts; the first has zeros at its end, so that n times it is exact.
    const LN2_HIGH: f64 = 6.931_471_803_691_238e-1;
    const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    const SERIES: [f64; 14] = [
        1.0 / 6_227_020_800.0,
        1.0 / 479_001_600.0,
        1.0 / 39_916_800.0,
        1.0 / 3_628_800.0,
        1.0 / 362_880.0,
        1.0 / 40_320.0,
        1.0 / 5_040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ];
    let bounded = if x < EXP_UNDERFLOW { EXP_UNDERFLOW } else { x };
    let rounded = bounded * std::f64::consts::LOG2_E + ROUND;
    let n = rounded - ROUND;
    let r = (bounded - n * LN2_HIGH) - n * LN2_LOW;
    let mut series = SERIES[0];
    for coefficient in &SERIES[1..] {
        series = series * r + coefficient;
    }
    let power_of_two = f64::from_bits((rounded.to_bits() << 52).wrapping_add(1023 << 52));
    if x < EXP_UNDERFLOW { 0.0 } else { series * power_of_two }
}

/// c_0 + c_1 x + ...
#[inline(always)]
fn polynomial<const N: usize>(x: f64, coefficients: &[f64; N]) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_agrees_with_the_standard_library() {
        for step in 0..700_000 {
            let x = -f64::from(step) * 1.0113e-3;
            let (ours, theirs) = (exp_lanes(x), x.exp());
            assert!((ours - theirs).abs() <= 1e-14 * theirs, "exp({x}) = {ours}, expected {theirs}");
            let inverse = exp_lanes(-x.max(-700.0)) * x.max(-700.0).exp();
            assert!((inverse - 1.0).abs() <= 1e-14, "exp({})", -x);
        }
        assert_eq!(exp_lanes(0.0), 1.0);
        assert_eq!(exp_lanes(-800.0), 0.0);
        assert_eq!(exp_lanes(f64::NEG_INFINITY), 0.0);
    }

    /// Against the standard library, and against sums of logarithms and inverses.
    #[test]
    fn logarithms_near_one_and_coefficients() {
        for i in 0..1000 {
            let x = 10f64.powf(f64::from(i) * 0.04 - 20.0);
            assert!((ln_1p(x) / x.ln_1p() - 1.0).abs() < 1e-15, "ln_1p({x}) = {}", ln_1p(x));
            let below = -x.min(0.999);
            assert!((ln_1p_nonnegative(x) / x.ln_1p() - 1.0).abs() < 1e-15, "{x}: {}", ln_1p_nonnegative(x));
            assert!((ln_1p(below) / below.ln_1p() - 1.0).abs() < 1e-13, "ln_1p({below})");
        }
        assert!(ln_1p(0.0) == 0.0 && ln_1p_nonnegative(0.0) == 0.0);
        assert!(ln_1p(-1.0).is_nan() && ln_1p(-2.0).is_nan() && ln_1p(f64::NAN).is_nan());
        for r in [1e-5, 1e-3, 0.3, 1.0, 7.9, 250.0, 2e4] {
            for k in [0, 1, 2, 15, 16, 17, 100, 3000] {
                let factors = (0..k).map(|i| r + f64::from(i));
                let logs: f64 = factors.clone().enumerate().map(|(i, x)| (x / (i + 1) as f64).ln()).sum();
                let inverses: f64 = factors.map(f64::recip).sum();
                let (log, slope) = log_coefficient(r, f64::from(k));
                assert!((log - logs).abs() <= 1e-12 * logs.abs().max(1e3), "{r}, {k}: {log}, not {logs}");
                assert!((slope - inverses).abs() <= 3e-13 * inverses.max(1.0), "{r}, {k}: {slope}");
            }
            // Not whole: Gamma(3/2) is half the root of pi.
            let (log, next) = (log_coefficient(r, 0.5).0, log_coefficient(r + 0.5, 0.5).0);
            let expected = r.ln() - (std::f64::consts::PI / 4.0).ln();
            assert!((log + next - expected).abs() < 1e-10, "{r}");
        }
    }

    /// Against the standard library and known values: Gamma(n) is a factorial, psi(1) = -Euler's constant,
    /// psi(1/2) = psi(1) - 2 ln 2, psi'(1) = pi^2 / 6, psi'(1/2) = pi^2 / 2; and the recurrences.
    #[test]
    fn known_values_and_recurrences_hold() {
        const EULER: f64 = 0.577_215_664_901_532_9;
        let pi_squared = std::f64::consts::PI.powi(2);
        let close = |a: f64, b: f64, what: &str| {
            assert!((a - b).abs() < 3e-13 * b.abs().max(1.0), "{what}: {a}, expected {b}");
        };
        for i in 1..4000 {
            let x = 1e-4 * f64::from(i).powi(2);
            close(ln(x), x.ln(), "ln");
            close(exp(x.min(600.0)) / x.min(600.0).exp(), 1.0, "exp");
            close(exp(-x), (-x).exp(), "exp");
            let ((ln_gamma, digamma), next) = (ln_gamma_and_digamma(x), ln_gamma_and_digamma(x + 1.0));
            close(next.0, ln_gamma + x.ln(), "ln Gamma(x + 1)");
            close(next.1 - 1.0 / x, digamma, "psi(x)");
            close(trigamma(x + 1.0) + x.powi(-2), trigamma(x), "psi'(x)");
        }
        close(ln_gamma_and_digamma(11.0).0, 3_628_800f64.ln(), "10!");
        close(ln_gamma_and_digamma(0.5).0, 0.5 * std::f64::consts::PI.ln(), "Gamma(1/2)");
        close(ln_gamma_and_digamma(1.0).1, -EULER, "psi(1)");
        close(ln_gamma_and_digamma(0.5).1, -EULER - 2.0 * std::f64::consts::LN_2, "psi(1/2)");
        close(trigamma(1.0), pi_squared / 6.0, "psi'(1)");
        close(trigamma(0.5), pi_squared / 2.0, "psi'(1/2)");
    }
}
