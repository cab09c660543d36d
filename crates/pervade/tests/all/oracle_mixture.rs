//! The mixture against scikit-learn; `testdata/oracle/make_mixture.py` wrote the values.

use crate::common::{Oracle, assert_close};
use pervade::compute::Cpu;
use pervade::mixture::{DiagonalMixture, EmOptions, fit_from};

const N_LATENT: usize = 4;

fn given(oracle: &Oracle) -> DiagonalMixture {
    let tensor = |name| oracle.f64(name);
    DiagonalMixture::new(tensor("log_weights"), tensor("means"), tensor("variances"), N_LATENT).unwrap()
}

#[test]
fn densities_and_responsibilities() {
    let oracle = Oracle::open("mixture.safetensors");
    let (mixture, latents) = (given(&oracle), oracle.f32("latents"));
    assert_close(&mixture.log_joint(&latents).unwrap(), &oracle.f64("log_joint"), 1e-12, "log joint");
    assert_close(&mixture.log_density(&latents).unwrap(), &oracle.f64("log_density"), 1e-12, "log density");
    let responsibilities = mixture.responsibilities(&latents).unwrap();
    assert_close(&responsibilities, &oracle.f64("responsibilities"), 1e-12, "responsibilities");
    assert_eq!(mixture.assign(&latents).unwrap(), oracle.u32("assignment"));
}

#[test]
fn parameters_after_iterations_of_em() {
    let oracle = Oracle::open("mixture.safetensors");
    let latents = oracle.f32("latents");
    for max_iterations in [1, 20] {
        let options = EmOptions::default().with(|o| {
            o.max_iterations = max_iterations;
            o.tolerance = 0.0;
        });
        let fit = fit_from(&Cpu::new(), &latents, given(&oracle), &options).unwrap();
        assert_eq!(fit.trace.len(), max_iterations + 1);
        let theirs = |name: &str| oracle.f64(&format!("{name}_{max_iterations}"));
        // The reference expands squares around the origin, which costs a few digits.
        assert_close(&fit.mixture.log_weights, &theirs("log_weights"), 1e-9, "log weights");
        assert_close(&fit.mixture.means, &theirs("means"), 1e-9, "means");
        assert_close(&fit.mixture.variances, &theirs("variances"), 1e-9, "variances");
        assert_close(&[fit.log_likelihood], &theirs("log_likelihood"), 1e-10, "log likelihood");
    }
}
