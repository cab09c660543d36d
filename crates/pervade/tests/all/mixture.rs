//! Properties of any mixture, and recovery of planted clusters.

use crate::common::{assert_close, planted, same_on_any_number_of_threads};
use pervade::compute::Cpu;
use pervade::metrics::{accuracy, ari};
use pervade::mixture::{self, DiagonalMixture, EmOptions, FullMixture};
use pervade::seed::{Key, Stream};
use proptest::prelude::*;

fn key() -> Key {
    Key::new(3, Stream::Mixture, 0)
}

fn options(components: usize) -> EmOptions {
    EmOptions::default().with(|o| {
        o.components = components;
        o.restarts = 3;
        o.max_iterations = 50;
        o.tolerance = 1e-7;
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Rows on a coarse grid, so that repeated rows and constant columns are common.
    #[test]
    fn em_never_lowers_the_likelihood(
        n_latent in 1usize..4,
        components in 1usize..12,
        grid in prop::collection::vec(-6i8..6, 36..240),
        scale in prop::sample::select(vec![1e-20f32, 1e-3, 1.0, 1e5]),
    ) {
        let n_values = grid.len() / n_latent * n_latent;
        let latents: Vec<f32> = grid[..n_values].iter().map(|&value| f32::from(value) * 0.37 * scale).collect();
        let options = options(components).with(|o| {
o.restarts = 1;
o.tolerance = 0.0;
});
        let fit = mixture::fit(&Cpu::new(), &latents, n_latent, &options, key()).unwrap();
        for pair in fit.trace.windows(2) {
            prop_assert!(pair[1] >= pair[0] - 1e-7 * pair[0].abs().max(1.0), "{:?}", fit.trace);
        }
        let weight: f64 = fit.mixture.log_weights.iter().map(|w| w.exp()).sum();
        prop_assert!((weight - 1.0).abs() < 1e-9);
        prop_assert!(fit.mixture.variances.iter().all(|&s2| s2.is_finite() && s2 > 0.0));
        prop_assert!(fit.mixture.means.iter().all(|mean| mean.is_finite()));
    }

    #[test]
    fn responsibilities_sum_to_one_far_away(
        direction in prop::collection::vec(-1.0f64..1.0, 3),
        deviations in prop::sample::select(vec![0.0, 1.0, 1e2, 1e4, 1e6]),
    ) {
        let std = [0.1, 2.0, 30.0];
        let variances: Vec<f64> = (0..5 * 3).map(|index| std[index % 3] * std[index % 3]).collect();
        let means: Vec<f64> = (0..5 * 3).map(|index| (index as f64).sin() * std[index % 3]).collect();
        let log_weights = vec![0.2f64.ln(); 5];
        let mixture = DiagonalMixture::new(log_weights, means, variances, 3).unwrap();
        let latents: Vec<f32> = (0..3).map(|j| (direction[j] * deviations * std[j]) as f32).collect();
        let gamma = mixture.responsibilities(&latents).unwrap();
        prop_assert!((gamma.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{gamma:?}");
        prop_assert!(mixture.log_density(&latents).unwrap()[0].is_finite());
    }
}

#[test]
fn planted_clusters_are_found_and_a_wrong_number_is_not() {
    let (latents, labels) = planted(3000, 4, 6);
    let found = |components| {
        let fit = mixture::fit(&Cpu::new(), &latents, 4, &options(components), key()).unwrap();
        (accuracy(&fit.mixture.assign(&latents).unwrap(), &labels).unwrap(), fit.log_likelihood)
    };
    let (right, right_likelihood) = found(6);
    assert!(right > 0.999, "{right}");
    for wrong in [1, 3, 12] {
        let (accuracy, likelihood) = found(wrong);
        assert!(accuracy < 0.9, "{wrong} components gave {accuracy}");
        assert!(wrong > 6 || likelihood < right_likelihood - 0.5, "{likelihood} against {right_likelihood}");
    }
    let clusters = mixture::kmeans(&Cpu::new(), &latents, 4, 6, key(), 0).unwrap();
    assert!(ari(&clusters.assignment, &labels).unwrap() > 0.7, "one start of k-means");
}

#[test]
fn the_most_likely_restart_is_kept() {
    let (latents, _) = planted(600, 3, 7);
    let likelihood = |seed, restarts| {
        let options = options(7).with(|o| o.restarts = restarts);
        let fit =
            mixture::fit(&Cpu::new(), &latents, 3, &options, Key::new(seed, Stream::Mixture, 0)).unwrap();
        assert_eq!(Some(&fit.log_likelihood), fit.trace.last());
        fit.log_likelihood
    };
    let gains: Vec<f64> = (0..5).map(|seed| likelihood(seed, 6) - likelihood(seed, 1)).collect();
    assert!(gains.iter().all(|&gain| gain >= 0.0) && gains.iter().any(|&gain| gain > 0.0), "{gains:?}");
}

#[test]
fn the_same_bits_on_any_number_of_threads() {
    let (latents, _) = planted(4000, 3, 7);
    same_on_any_number_of_threads(|| {
        let fit =
            mixture::fit(&Cpu::new(), &latents, 3, &options(20).with(|o| o.restarts = 2), key()).unwrap();
        let gamma = fit.mixture.responsibilities(&latents).unwrap();
        (fit.mixture, fit.trace, gamma)
    });
    let other = Key::new(4, Stream::Mixture, 0);
    let fits =
        [key(), other].map(|key| mixture::fit(&Cpu::new(), &latents, 3, &options(20), key).unwrap().mixture);
    assert_ne!(fits[0], fits[1], "another seed");
}

#[test]
fn scaling_the_latents_only_changes_the_scale() {
    let (latents, _) = planted(1000, 3, 4);
    let assignment = |factor: f32| {
        let latents: Vec<f32> = latents.iter().map(|z| z * factor).collect();
        mixture::fit(&Cpu::new(), &latents, 3, &options(8), key()).unwrap().mixture.assign(&latents).unwrap()
    };
    assert_eq!(assignment(1.0), assignment(1024.0));
}

#[test]
fn repeated_rows_and_constant_columns_are_supported() {
    let same = vec![0.5f32; 60];
    let fit = mixture::fit(&Cpu::new(), &same, 3, &options(20), key()).unwrap();
    assert!(fit.log_likelihood.is_finite());
    assert_close(&fit.mixture.means, &[0.5; 60], 1e-12, "means");
    let two: Vec<f32> = (0..40).flat_map(|row| [f32::from(u8::from(row % 2 == 0)), 7.0]).collect();
    let fit = mixture::fit(&Cpu::new(), &two, 2, &options(5), key()).unwrap();
    let assignment = fit.mixture.assign(&two).unwrap();
    let floor = 1e-6 * 0.25 / 2.0; // the columns' variances are 1/4 and 0
    assert!(fit.mixture.variances.iter().all(|&s2| s2 >= floor), "{:?}", fit.mixture.variances);
    assert!(
        mixture::kmeans(&Cpu::new(), &two, 2, 5, key(), 0).unwrap().iterations <= 3,
        "no row is left to move"
    );
    let halves: Vec<u32> = (0..40).map(|row| row % 2).collect();
    assert_eq!(ari(&assignment, &halves).unwrap(), 1.0);
}

#[test]
fn impossible_fits_give_an_error() {
    let message = |latents: &[f32], components| {
        mixture::fit(&Cpu::new(), latents, 2, &options(components), key()).unwrap_err().to_string()
    };
    assert_eq!(message(&[0.0; 8], 5), "`components` is 5, must be between 1 and 4, the number of rows");
    assert_eq!(message(&[0.0; 8], 0), "`components` is 0, must be between 1 and 4, the number of rows");
    assert_eq!(
        message(&[0.0, 1.0, f32::NAN, 0.0], 1),
        "`latents`: row 2, column 1 is NaN, not a finite number"
    );
    assert_eq!(message(&[], 1), "`latents`: 0 values do not make rows of 2 columns");
    assert!(DiagonalMixture::new(vec![0.0], vec![0.0], vec![0.0], 1).is_err(), "a variance of zero");
}

/// The density of the observed cells is the integral over the missing one, and one Gaussian has the moments of the mixture.
#[test]
fn full_mixtures_integrate_missing_cells_out() {
    let covariances = vec![vec![1.0, 0.6, 0.6, 2.0], vec![0.5, -0.2, -0.2, 0.4]];
    let mixture =
        FullMixture::new(vec![0.3f64.ln(), 0.7f64.ln()], vec![-1.0, 0.5, 2.0, -0.5], covariances).unwrap();
    let step = 0.01;
    let grid = || (-1500..1500).map(|i| i as f32 * step as f32);
    for x in [-2.0, 0.3, 2.5] {
        let integral: f64 = grid().map(|y| mixture.log_density(&[x, y]).exp() * step).sum();
        let marginal = mixture.log_density(&[x, f32::NAN]).exp();
        assert!((integral - marginal).abs() < 1e-6, "{integral}, {marginal}");
    }
    assert_eq!(mixture.log_density(&[f32::NAN, f32::NAN]), 0.0);
    let one = mixture.merged().unwrap();
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a}, {b}");
    close(one.means[0], 0.7 * 2.0 - 0.3);
    close(one.covariances[0][0], 0.3 * 1.0 + 0.7 * 0.5 + 0.3 * 0.7 * 9.0);
    close(one.covariances[0][1], 0.3 * 0.6 - 0.7 * 0.2 - 0.3 * 0.7 * 3.0);
    assert!(FullMixture::new(vec![0.0], vec![0.0, 0.0], vec![vec![1.0, 2.0, 2.0, 1.0]]).is_err());
}
