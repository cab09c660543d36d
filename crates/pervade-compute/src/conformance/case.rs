//! A case, and what came of it.

use serde::Serialize;

use super::gradient::Differences;
use super::inputs::wide;
use crate::{Memory, Result};

/// How far a result may be off, relative to the largest expected value.
///
/// A sum of n products in single precision is off by about 6e-8 sqrt(n): 1e-6 covers n of a few hundred.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tolerance {
    /// The same for every device.
    Fixed(f64),
    /// A multiple of the device's [`product_error`](Memory::product_error).
    Products(f64),
    /// No difference at all on the CPU; on other devices a multiple of [`product_error`](Memory::product_error).
    ExactOnHost(f64),
}

impl Tolerance {
    /// The tolerance for this device.
    pub fn on<D: Memory>(self, device: &D) -> f64 {
        match self {
            Tolerance::Fixed(tolerance) => tolerance,
            Tolerance::Products(factor) => factor * device.product_error(),
            Tolerance::ExactOnHost(_) if device.is_host() => 0.0,
            Tolerance::ExactOnHost(factor) => factor * device.product_error(),
        }
    }
}

/// A result that was compared with the expected one.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// What was compared.
    pub name: String,
    /// Largest difference, relative to the largest expected value.
    pub error: f64,
    /// The largest error that passes.
    pub tolerance: f64,
    /// Whether the error is within the tolerance.
    pub passed: bool,
}

impl Check {
    /// Compares a result with the expected one; a value that is NaN fails, as does a different number of values.
    pub fn new<T: Copy + Into<f64>>(
        name: impl Into<String>,
        tolerance: f64,
        result: &[T],
        expected: &[f64],
    ) -> Self {
        let largest = expected.iter().fold(f64::MIN_POSITIVE, |most, x| most.max(x.abs()));
        let difference = |(&x, &y): (&T, &f64)| (x.into() - y).abs() / largest;
        let worst = result
            .iter()
            .zip(expected)
            .map(difference)
            .fold(0.0, |a: f64, b| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) });
        let error = if result.len() == expected.len() { worst } else { f64::NAN };
        Self { name: name.into(), error, tolerance, passed: error <= tolerance }
    }
}

pub(super) type Compute<D> = Box<dyn Fn(&D) -> Result<Vec<f64>> + Send + Sync>;

/// One operation on one input: the device's result, and the expected one.
pub struct Case<D> {
    name: String,
    tolerance: Tolerance,
    run: Compute<D>,
    expected: Compute<D>,
    pub(super) differences: Option<Differences<D>>,
}

impl<D: Memory> Case<D> {
    /// A case with an expected result that does not depend on the device.
    pub(super) fn new(
        name: impl Into<String>,
        tolerance: Tolerance,
        expected: impl Fn() -> Vec<f64> + Send + Sync + 'static,
        run: impl Fn(&D) -> Result<Vec<f32>> + Send + Sync + 'static,
    ) -> Self {
        Self::against(name, tolerance, move |_| Ok(expected()), move |device| Ok(wide(&run(device)?)))
    }

    /// A case with results in double precision, compared with what another computation gives, maybe on the same device.
    pub(super) fn against(
        name: impl Into<String>,
        tolerance: Tolerance,
        expected: impl Fn(&D) -> Result<Vec<f64>> + Send + Sync + 'static,
        run: impl Fn(&D) -> Result<Vec<f64>> + Send + Sync + 'static,
    ) -> Self {
        let name = name.into();
        Self { name, tolerance, run: Box::new(run), expected: Box::new(expected), differences: None }
    }

    /// The operation and its input, in words; no two cases have the same.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The device's result.
    pub fn run(&self, device: &D) -> Result<Vec<f64>> {
        (self.run)(device)
    }

    /// Compares the device's result with the expected one.
    pub fn check(&self, device: &D) -> Result<Check> {
        let (result, expected) = (self.run(device)?, (self.expected)(device)?);
        Ok(Check::new(&self.name, self.tolerance.on(device), &result, &expected))
    }

    /// Compares the device's gradient with central differences of its forward pass. None for a case without a
    /// gradient, and for inputs that are so large that their differences would be lost in rounding errors.
    pub fn check_differences(&self, device: &D) -> Option<Result<Check>> {
        let differences = self.differences.as_ref()?;
        let compare = || {
            let (gradient, slopes) = (self.run(device)?, differences.compute(device)?);
            let name = format!("{}, against finite differences", self.name);
            let mut check = Check::new(name, differences.tolerance(), &gradient, &slopes);
            // A loss that does not move would agree with a gradient of zero.
            check.passed &= slopes.iter().any(|slope| *slope != 0.0);
            Ok(check)
        };
        Some(compare())
    }
}

#[cfg(test)]
mod tests {
    use super::Check;

    #[test]
    fn nan_and_missing_values_fail() {
        let passes = |result: &[f64]| Check::new("", 1.0, result, &[1.0, 2.0, 3.0]).passed;
        assert!(passes(&[1.0, 2.0, 3.5]));
        for index in 0..3 {
            let mut result = [1.0, 2.0, 3.0];
            result[index] = f64::NAN;
            assert!(!passes(&result), "at {index}");
        }
        assert!(!passes(&[1.0, 2.0]));
    }
}
