//! The log-gamma function and its derivatives in double precision, from additions, products, quotients and bit
//! operations in a fixed order: bit-identical on every machine, as in `math.rs`.

use super::block::exp_nonpositive;

/// The recurrence raises arguments to this before the asymptotic series is used; the first omitted term of the series
/// is then below 3e-14.
const SERIES_START: f64 = 8.0;

/// ln(x) for positive normal x.
pub(super) fn ln(x: f64) -> f64 {
    // The mantissa in [sqrt 1/2, sqrt 2).
    let shifted = x.to_bits().wrapping_sub(0x3fe6_a09e_667f_3bcd) as i64;
    let exponent = (shifted >> 52) as f64;
    let mantissa = f64::from_bits(x.to_bits().wrapping_sub((shifted as u64) & !0x000f_ffff_ffff_ffff));
    // ln m = 2 artanh s, |s| < 0.172
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
    exponent * std::f64::consts::LN_2 + 2.0 * s * polynomial(s * s, &SERIES)
}

/// e^x.
pub(super) fn exp(x: f64) -> f64 {
    if x > 0.0 { 1.0 / exp_nonpositive(-x) } else { exp_nonpositive(x) }
}

/// ln Gamma(x) and psi(x) for positive x.
pub(super) fn ln_gamma_and_digamma(x: f64) -> (f64, f64) {
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
pub(super) fn trigamma(x: f64) -> f64 {
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

/// c_0 + c_1 x + ...
#[inline(always)]
fn polynomial<const N: usize>(x: f64, coefficients: &[f64; N]) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c)
}

#[cfg(test)]
mod tests {
    use super::*;

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
