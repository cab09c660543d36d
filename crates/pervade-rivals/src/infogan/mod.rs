//! InfoGAN: a generative adversarial network whose code can be recovered from its images.
//!
//! Paper: Chen, Duan, Houthooft, Schulman, Sutskever and Abbeel, "InfoGAN: interpretable representation learning by
//! information maximizing generative adversarial nets" (2016), the networks for MNIST (appendix C.1) with the settings
//! of the authors' code. The generator G maps one of K categories, two continuous codes and 62 columns of noise, all
//! uniform, to an image; the discriminator D tells fake images from real ones by a logistic loss; Q, which shares all but
//! its head with D, predicts the code of a fake image: log Q(c|x) is a lower bound of the mutual information, up to a
//! constant (Eq. 5), and both networks maximise it. Each update has two phases: D and Q learn from fake and real images,
//! batch-normalised separately; G learns to fool D and to let Q predict its code. The cluster of a row is the category
//! that Q finds most probable.
//! Departures: a transposed convolution has one bias per element of its window, not per channel; the loss of D and Q is
//! the mean over both halves instead of the sum of their means, which Adam's scale invariance cancels; the running
//! statistics for inference are updated only in each network's own phase.
//! It needs square images with one value per pixel and a side that is a multiple of 4.
//! Expected: Jiang et al. (2017) compare its generated digits with VaDE's and give no score; Chen et al. report that the
//! category matches MNIST's classes with an error of 5 %. On all of MNIST the ten categories are visibly the ten digits
//! (repro/figures/samples.png). On the 1,797 digits of 8 x 8 pixels 0.65 after 1,000 updates of
//! networks half as wide (one seed). If Q also predicts the deviations (`learn_deviations`), it becomes so certain of the
//! two continuous codes that they dominate G's gradient: after 600 updates D still won, as it did in PyTorch.

mod discriminator;
mod generator;
#[cfg(test)]
mod tests;
mod trained;
mod training;

pub(crate) use discriminator::{Discriminator, DiscriminatorTape};
pub(crate) use generator::{Generator, GeneratorTape};

use crate::ImageDevice;
use pervade::compute::math::normal_pair;
use pervade::compute::{Affine, NormSlots, Windows};
use pervade::data::{Dataset, Preparation, PrepareKind};
use pervade::record::JointEpoch;
use pervade::seed::{Key, Stream};
use pervade::train::{Control, Event, Observer, Stage};
use pervade::{Clusterer, Clustering, Error, Result};

use self::trained::TrainedInfoGan;
use self::training::Training;
use crate::rows::check_rows;

/// InfoGAN with its settings.
#[derive(Clone, Debug)]
pub struct InfoGan {
    /// The number of clusters, K.
    pub n_clusters: usize,
    /// The number of continuous codes that Q predicts in addition to the category.
    pub n_codes: usize,
    /// The number of noise columns, which Q does not predict.
    pub n_noise: usize,
    /// Channels at half and at a quarter of the image's side.
    pub channels: [usize; 2],
    /// Width of the fully connected layer of both networks.
    pub width: usize,
    /// Width of Q's hidden layer.
    pub recognition: usize,
    /// Whether Q also predicts the deviation of each continuous code; else it is 1, as in the authors' code for MNIST.
    pub learn_deviations: bool,
    /// The weight of the mutual information, lambda.
    pub information_weight: f32,
    /// Real images per update, and as many fake ones.
    pub batch: usize,
    /// Updates per epoch.
    pub updates: usize,
    /// The number of epochs.
    pub epochs: usize,
    /// Learning rates of D and Q, and of G.
    pub learning_rates: [f32; 2],
    /// Adam's decay rate of the first moments.
    pub beta1: f32,
}

impl Default for InfoGan {
    fn default() -> Self {
        Self {
            n_clusters: 10,
            n_codes: 2,
            n_noise: 62,
            channels: [64, 128],
            width: 1024,
            recognition: 128,
            learn_deviations: false,
            information_weight: 1.0,
            batch: 128,
            updates: 100,
            epochs: 50,
            learning_rates: [2e-4, 1e-3],
            beta1: 0.5,
        }
    }
}

/// Sizes of the networks for images of a given side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) side: usize,
    pub(crate) n_clusters: usize,
    pub(crate) n_codes: usize,
    pub(crate) n_noise: usize,
    pub(crate) channels: [usize; 2],
    pub(crate) width: usize,
    pub(crate) recognition: usize,
    pub(crate) learn_deviations: bool,
}

impl Sizes {
    /// Columns of z: category, continuous codes, noise.
    pub(crate) fn n_inputs(&self) -> usize {
        self.n_clusters + self.n_codes + self.n_noise
    }

    /// Columns of Q's output: logits of the category, means and optionally log variances of the continuous codes.
    pub(crate) fn n_outputs(&self) -> usize {
        self.n_clusters + if self.learn_deviations { 2 } else { 1 } * self.n_codes
    }
}

/// Windows of 4 x 4 pixels with stride 2 on images of this side: half as many per side.
pub(crate) fn halving(side: usize, channels: usize) -> Windows {
    Windows { height: side, width: side, channels, size: 4, stride: 2, padding: 1 }
}

impl InfoGan {
    fn sizes(&self, data: &Dataset) -> Result<Sizes> {
        let at_least = |name: &str, value: usize, min: usize| {
            let must = || Error::setting(name, value, format!("must be at least {min}"));
            if value < min { Err(must()) } else { Ok(()) }
        };
        at_least("clusters", self.n_clusters, 2)?;
        at_least("batch", self.batch, 2)?;
        at_least("updates", self.updates, 1)?;
        for width in [self.channels[0], self.channels[1], self.width, self.recognition] {
            at_least("width", width, 1)?;
        }
        check_rows(data, self.n_clusters, 2)?;
        let side = data.n_columns().isqrt();
        if side * side != data.n_columns() || !side.is_multiple_of(4) {
            let problem = format!(
                "InfoGAN needs square images with one value per pixel and a side that is a multiple of 4, but a \
                 row has {} columns",
                data.n_columns()
            );
            let hint = "8 x 8 are 64 columns, 28 x 28 are 784; other methods take any rows";
            return Err(Error::data(data.source(), problem).with_hint(hint));
        }
        let InfoGan { n_clusters, n_codes, n_noise, channels, width, recognition, learn_deviations, .. } =
            *self;
        Ok(Sizes { side, n_clusters, n_codes, n_noise, channels, width, recognition, learn_deviations })
    }
}

impl<D: ImageDevice> Clusterer<D> for InfoGan {
    fn name(&self) -> &'static str {
        "infogan"
    }

    fn cluster(
        &self,
        data: &Dataset,
        device: &D,
        seed: u64,
        observer: &mut dyn Observer,
    ) -> Result<Box<dyn Clustering<D>>> {
        let sizes = self.sizes(data)?;
        // One scale for all pixels: the range of the generator's sigmoid output.
        let preparation = Preparation::fit(PrepareKind::UnitRange, data)?;
        let rows = device.rows(data.view(&preparation))?;
        let (stage, phase, steps) = (Stage::Joint, "adversarial training", self.updates);
        let (restart, done, epochs) = (0, 0, self.epochs);
        observer.event(&Event::StageStarted { restart, stage, phase, epochs, done, steps });
        let mut training = Training::new(self, sizes, device, rows, data.n_rows(), seed)?;
        for epoch in 1..=epochs {
            for step in 0..steps {
                training.update(device, ((epoch - 1) * steps + step) as u64)?;
                if observer.event(&Event::Steps { done: step + 1 }) == Control::Stop {
                    return Err(Error::Interrupted { stage: phase, epoch });
                }
            }
            data.check_unchanged()?;
            let terms = training.take_terms(device)?.scaled(1.0 / steps as f64);
            if !terms.elbo().is_finite() {
                return Err(Error::Diverged { stage: phase, epoch, loss: -terms.elbo() });
            }
            let learning_rate = f64::from(self.learning_rates[0]);
            let entry = JointEpoch { epoch, elbo: terms.elbo(), terms, learning_rate };
            if observer.event(&Event::Trained(0, &entry)) == Control::Stop {
                return Err(Error::Interrupted { stage: phase, epoch });
            }
        }
        observer.event(&Event::StageEnded { restart, stage });
        Ok(Box::new(TrainedInfoGan::new(device, sizes, preparation.clone(), &training)?))
    }
}

/// Initial values as in the authors' code: weights N(0, 0.02), gains N(1, 0.02), running variances one, all else zero.
pub(crate) fn initial_values(
    len: usize,
    layers: &[Affine],
    norms: &[NormSlots],
    seed: u64,
    which: usize,
) -> Vec<f32> {
    const DEVIATION: f32 = 0.02;
    let key = Key::new(seed, Stream::Weights, which);
    let normal = |i: usize| {
        let [a, b, ..] = key.draw(i as u64, 0, 0);
        DEVIATION * normal_pair(a, b)[0]
    };
    let mut values = vec![0.0; len];
    layers.iter().flat_map(|layer| layer.weight.range()).for_each(|i| values[i] = normal(i));
    for norm in norms {
        norm.gain.range().for_each(|i| values[i] = 1.0 + normal(i));
        values[norm.variance.range()].fill(1.0);
    }
    values
}
