//! Elementary functions in single precision that the compiler can vectorise and that are bit-identical
//! on every machine: only additions, fused multiply-adds and bit operations in a fixed order.
//! The system's `exp` and `ln` differ between C libraries.

pub(crate) mod double;

/// exp(x), within 2 ulp; 0 below -87.3 and the largest finite power above 88.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    const LOG2_E: f32 = std::f32::consts::LOG2_E;
    // ln 2 in two parts, so that n ln 2 is subtracted without rounding.
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let clamped = x.clamp(-87.3, 88.3);
    let n = round(clamped * LOG2_E);
    let r = n.mul_add(-LN2_LOW, n.mul_add(-LN2_HIGH, clamped));
    // Taylor coefficients of (e^r - 1 - r) / r^2, adjusted to the interval |r| <= ln 2 / 2.
    let mut p = 1.987_569_1e-4_f32;
    p = p.mul_add(r, 1.398_199_9e-3);
    p = p.mul_add(r, 8.333_452e-3);
    p = p.mul_add(r, 4.166_579_6e-2);
    p = p.mul_add(r, 1.666_666_5e-1);
    p = p.mul_add(r, 0.5);
    let value = p.mul_add(r * r, r) + 1.0;
    let power = f32::from_bits((((n as i32) + 127) << 23) as u32);
    if x < -87.3 { 0.0 } else { value * power }
}

/// ln(x) for positive normal x, within 2 ulp.
#[inline(always)]
pub fn ln(x: f32) -> f32 {
    let bits = x.to_bits() as i32;
    // The mantissa is taken in [sqrt 1/2, sqrt 2), so that the polynomial's argument is small.
    let shifted = bits.wrapping_sub(0x3f35_04f3);
    let exponent = (shifted >> 23) as f32;
    let mantissa = f32::from_bits((bits.wrapping_sub(shifted & !0x007f_ffff)) as u32);
    let r = mantissa - 1.0;
    let mut p = 7.037_683_6e-2_f32;
    p = p.mul_add(r, -1.151_461e-1);
    p = p.mul_add(r, 1.167_699_9e-1);
    p = p.mul_add(r, -1.242_014_1e-1);
    p = p.mul_add(r, 1.424_932_3e-1);
    p = p.mul_add(r, -1.666_805_8e-1);
    p = p.mul_add(r, 2.000_071_5e-1);
    p = p.mul_add(r, -2.499_999_4e-1);
    p = p.mul_add(r, 3.333_333e-1);
    let square = r * r;
    let tail = (p * square).mul_add(r, exponent.mul_add(-2.121_944_4e-4, -0.5 * square));
    exponent.mul_add(0.693_359_4, r + tail)
}

/// ln(1 + x) for x > -1, without cancellation near zero; NaN for others.
#[inline(always)]
pub fn ln_1p(x: f32) -> f32 {
    let sum = 1.0 + x;
    if sum == 1.0 {
        x
    } else if sum > 0.0 {
        // What rounding changed in the sum is corrected by the ratio.
        ln(sum) * (x / (sum - 1.0))
    } else {
        f32::NAN
    }
}

/// ln(1 + e^x) and its derivative, the logistic function of x.
#[inline(always)]
pub fn softplus_and_logistic(x: f32) -> (f32, f32) {
    let e = exp(-x.abs());
    let inverse = 1.0 / (1.0 + e);
    let logistic = if x >= 0.0 { inverse } else { e * inverse };
    (x.max(0.0) + ln(1.0 + e), logistic)
}

/// Two independent standard normal numbers from two random words (Box-Muller transform).
#[inline(always)]
pub fn normal_pair(a: u32, b: u32) -> [f32; 2] {
    // In (0, 1], so that the logarithm is finite.
    let u = ((a >> 8) as f32 + 1.0) * (1.0 / 16_777_216.0);
    let radius = (-2.0 * ln(u)).sqrt();
    let (sine, cosine) = sine_and_cosine_of_turn(b);
    [radius * cosine, radius * sine]
}

/// Sine and cosine of `turn` / 2^32 full turns.
#[inline(always)]
fn sine_and_cosine_of_turn(turn: u32) -> (f32, f32) {
    // Nearest quarter turn, and the rest as an angle of at most pi / 4.
    let quarter = turn.wrapping_add(1 << 29) >> 30;
    let rest = turn.wrapping_sub(quarter << 30) as i32;
    let angle = rest as f32 * (std::f32::consts::TAU / 4_294_967_296.0);
    let square = angle * angle;
    let sine = (-1.951_529_6e-4_f32).mul_add(square, 8.332_161e-3).mul_add(square, -1.666_665_5e-1);
    let sine = (sine * square).mul_add(angle, angle);
    let cosine = 2.443_315_7e-5_f32.mul_add(square, -1.388_731_6e-3).mul_add(square, 4.166_664_6e-2);
    let cosine = (cosine * square).mul_add(square, (-0.5_f32).mul_add(square, 1.0));
    match quarter & 3 {
        0 => (sine, cosine),
        1 => (cosine, -sine),
        2 => (-sine, -cosine),
        _ => (-cosine, sine),
    }
}

/// Rounds to the nearest integer, for |x| below 2^22.
#[inline(always)]
fn round(x: f32) -> f32 {
    const SHIFT: f32 = 12_582_912.0; // 1.5 * 2^23: adding it leaves no bits for a fraction
    (x + SHIFT) - SHIFT
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference is the standard library in double precision.
    #[test]
    fn functions_agree_with_double_precision() {
        for i in -8700..8800 {
            let x = i as f32 * 0.01;
            let expected = f64::from(x).exp();
            assert!((f64::from(exp(x)) / expected - 1.0).abs() < 3e-7, "exp({x}) = {}", exp(x));
            let (soft, logistic) = softplus_and_logistic(x);
            let e = f64::from(x);
            let expected = e.max(0.0) + (-e.abs()).exp().ln_1p();
            assert!((f64::from(soft) - expected).abs() < 2e-7 * (1.0 + expected), "softplus({x}) = {soft}");
            let expected = 1.0 / (1.0 + (-e).exp());
            assert!((f64::from(logistic) - expected).abs() < 2e-7, "logistic({x}) = {logistic}");
        }
        for i in 1..20_000 {
            let x = (i as f32 * 0.01).powi(3);
            let expected = f64::from(x).ln();
            assert!(
                (f64::from(ln(x)) - expected).abs() < 2e-7 * (1.0 + expected.abs()),
                "ln({x}) = {}",
                ln(x)
            );
        }
        for i in 0..1000 {
            let x = 10f32.powf(i as f32 * 0.03 - 20.0);
            let expected = f64::from(x).ln_1p();
            assert!((f64::from(ln_1p(x)) / expected - 1.0).abs() < 4e-7, "ln_1p({x}) = {}", ln_1p(x));
        }
        assert!(ln_1p(0.0) == 0.0 && ln_1p(-1.0).is_nan() && ln_1p(f32::NAN).is_nan());
        for i in 0..10_000u32 {
            let turn = i.wrapping_mul(429_497);
            let (sine, cosine) = sine_and_cosine_of_turn(turn);
            let angle = f64::from(turn) / 4_294_967_296.0 * std::f64::consts::TAU;
            assert!(
                (f64::from(sine) - angle.sin()).abs() < 3e-7
                    && (f64::from(cosine) - angle.cos()).abs() < 3e-7
            );
        }
    }

    #[test]
    fn extremes_stay_finite() {
        assert_eq!(exp(-1e30), 0.0);
        assert!(exp(1e30).is_finite());
        let (soft, logistic) = softplus_and_logistic(-1e4);
        assert!(soft.abs() < 1e-30 && logistic.abs() < 1e-30);
        assert_eq!(softplus_and_logistic(1e4), (1e4, 1.0));
        assert!(normal_pair(0, 0).iter().chain(&normal_pair(u32::MAX, u32::MAX)).all(|x| x.is_finite()));
    }

    #[test]
    fn normal_numbers_have_the_moments_of_a_normal_distribution() {
        use crate::random::Key;
        let key = Key::new(5, 6u32, 0);
        let mut draws = Vec::new();
        for i in 0..50_000 {
            let [a, b, c, d] = key.draw(i, 0, 0);
            draws.extend(normal_pair(a, b));
            draws.extend(normal_pair(c, d));
        }
        let n = draws.len() as f64;
        let moment = |p: i32| draws.iter().map(|&x| f64::from(x).powi(p)).sum::<f64>() / n;
        // Five standard errors of each moment: a false alarm once in a million.
        assert!(moment(1).abs() < 5.0 / n.sqrt());
        assert!((moment(2) - 1.0).abs() < 5.0 * (2.0 / n).sqrt());
        assert!(moment(3).abs() < 5.0 * (15.0 / n).sqrt());
        assert!((moment(4) - 3.0).abs() < 5.0 * (96.0 / n).sqrt());
    }
}
