//! Sizes of networks, batches and epochs that suit the number of rows and columns.

use super::{NetworkKind, PRETRAIN_STEPS};
use crate::{Error, Hint, Result};

/// The widths of the paper's networks.
const PAPER: [usize; 3] = [500, 500, 2000];
/// Latent columns of the paper.
pub(super) const PAPER_LATENTS: usize = 10;
/// Latent columns of wide tables. Mean ACC of thirty restarts with 10 and 12: MNIST 97.4 (worst 96.1) and 97.5 (97.3), UCI HAR 83.7
/// (68.0) and 85.0 (80.9). With 15 and 20 most restarts are better still, but one in ten has a bad start (docs/paper.md).
const LATENTS: usize = 12;
/// Rows from which the paper's networks suit wide tables.
const LARGE_ROWS: usize = 5_000;
/// Inputs from which the paper's networks suit large tables.
const WIDE_INPUTS: usize = 200;
/// Inputs up to which two small layers are enough.
const SHORT_INPUTS: usize = 32;
/// Steps per epoch that small tables get by smaller batches: a batch of all rows would leave too few steps.
const SMALL_TABLE_STEPS: usize = 10;
/// The smallest such batch.
const LEAST_BATCH: usize = 16;
/// Steps of joint training that a small data set gets, within the limits below: USPS gains one percent from its second
/// 40 epochs and nothing after 80.
const JOINT_STEPS: usize = 3_000;
/// The fewest and the most epochs of joint training: 40 have most of the gain on MNIST, in an acceptable time on two cores.
const JOINT_EPOCHS: [usize; 2] = [40, 80];
/// The same where batches are smaller than asked for: those epochs are short.
const SMALL_JOINT_EPOCHS: [usize; 2] = [40, 150];
/// The fewest and the most epochs of pretraining.
const PRETRAIN_EPOCHS: [usize; 2] = [30, 200];
/// Steps after which either stage ends even if it had fewer epochs than that: MNIST has 8,190 and 10,920, and a million short
/// rows need no more.
const MAX_STEPS: usize = 12_000;

/// Trials of each restart of wide tables with at most `TRIAL_ROWS` rows: the paper's networks are large for so few rows, one mixture
/// start in ten goes wrong, and pretraining is cheap (docs/paper.md: USPS, least of thirty restarts 87.4 with one trial and
/// 94.0 with three).
const TRIALS: usize = 3;
const TRIAL_ROWS: usize = 20_000;

/// Trials of each restart for a table of so many rows and network inputs.
pub(super) fn starts(n_rows: usize, n_inputs: usize) -> usize {
    let is_wide = n_inputs >= WIDE_INPUTS && (LARGE_ROWS..=TRIAL_ROWS).contains(&n_rows);
    if is_wide { TRIALS } else { 1 }
}

/// Widths of the hidden layers for a table of so many rows and network inputs.
pub(super) fn hidden(network: NetworkKind, n_rows: usize, n_inputs: usize) -> Vec<usize> {
    match network {
        NetworkKind::Conv => network.default_hidden(),
        NetworkKind::Dense if n_inputs >= WIDE_INPUTS && n_rows >= LARGE_ROWS => PAPER.to_vec(),
        NetworkKind::Dense if n_inputs <= SHORT_INPUTS => vec![64, 64],
        NetworkKind::Dense if n_inputs < WIDE_INPUTS => vec![128, 128, 512],
        NetworkKind::Dense => vec![256, 256, 512],
    }
}

/// Latent columns for D columns: more than half of them would leave nothing to compress.
pub(super) fn latents(n_columns: usize) -> usize {
    LATENTS.min((n_columns / 2).max(2))
}

/// Rows per step: what was asked for, but fewer for small tables, so that an epoch has several steps.
pub(super) fn batch(wanted: usize, n_rows: usize, is_chosen: bool) -> usize {
    let small = (n_rows / SMALL_TABLE_STEPS).max(LEAST_BATCH);
    if is_chosen { wanted.min(n_rows) } else { wanted.min(small).min(n_rows) }
}

/// Rows per step that can be divided into equal shares: the next smaller number, unless the number was asked for.
pub(super) fn in_shares(name: &str, batch: usize, shares: usize, is_chosen: bool) -> Result<usize> {
    let divisible = batch / shares * shares;
    if divisible == batch || divisible > 0 && !is_chosen {
        return Ok(divisible);
    }
    let must = format!("cannot be divided into {shares} shares of the same number of rows");
    Err(Error::setting(name, batch, must).with_hint(
        Hint::new("make it a multiple of ").setting("shares").text(", or lower ").setting("shares"),
    ))
}

/// Epochs of pretraining with so many steps each.
pub(super) fn pretrain_epochs(steps: usize) -> usize {
    let [least, most] = PRETRAIN_EPOCHS;
    limited(PRETRAIN_STEPS.div_ceil(steps).clamp(least, most), steps)
}

/// Epochs of joint training with so many steps each; `is_small` if batches are smaller than asked for.
pub(super) fn joint_epochs(steps: usize, is_small: bool) -> usize {
    let [least, most] = if is_small { SMALL_JOINT_EPOCHS } else { JOINT_EPOCHS };
    limited(JOINT_STEPS.div_ceil(steps).clamp(least, most), steps)
}

/// Long tables need steps, not epochs.
fn limited(epochs: usize, steps: usize) -> usize {
    epochs.min((MAX_STEPS / steps).max(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MNIST, USPS, UCI HAR, Reuters-10K-like and the CIFAR-10 features: rows, columns, epochs of both stages.
    #[test]
    fn large_tables_have_the_papers_networks_and_many_epochs() {
        let tables = [
            (70_000, 784, 30, 40),
            (9_298, 256, 56, 80),
            (10_299, 549, 50, 75),
            (10_000, 2_000, 52, 77),
            (13_000, 2_048, 40, 60),
        ];
        for (n, d, pretrain, joint) in tables {
            assert_eq!(starts(n, d), if n == 70_000 { 1 } else { 3 });
            assert_eq!(hidden(NetworkKind::Dense, n, d), PAPER);
            assert_eq!((latents(d), batch(256, n, false)), (12, 256));
            assert_eq!((pretrain_epochs(n / 256), joint_epochs(n / 256, false)), (pretrain, joint), "{n}");
        }
    }

    #[test]
    fn small_and_long_tables_have_small_networks_and_enough_steps() {
        assert_eq!(hidden(NetworkKind::Dense, 150, 4), [64, 64]);
        assert_eq!((starts(150, 4), starts(10_000, 20), starts(1_000_000, 784)), (1, 1, 1));
        assert_eq!((latents(4), latents(1), latents(13)), (2, 2, 6));
        assert_eq!((batch(256, 150, false), batch(256, 150, true), batch(100, 10, false)), (16, 150, 10));
        assert_eq!(pretrain_epochs(150 / 16), 200);
        let steps = 1_000_000 / 256;
        assert_eq!((pretrain_epochs(steps), joint_epochs(steps, false)), (3, 3));
        assert_eq!(pretrain_epochs(1_000_000), 2);
    }
}
