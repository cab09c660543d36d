//! InfoGAN: a generative adversarial network whose code can be read off its images.
//!
//! Paper: Chen, Duan, Houthooft, Schulman, Sutskever and Abbeel, "InfoGAN: interpretable representation learning by
//! information maximizing generative adversarial nets" (2016), the networks for MNIST (appendix C.1) with the settings
//! of the authors' code. G makes an image of a choice of one of K, two numbers and 62 of noise, all uniform; D tells
//! made images from real ones by a logistic loss; Q, which shares all but its head with D, finds the code of a made
//! image: log Q(c|x) is a lower bound of the mutual information, up to a constant (Eq. 5), and both networks raise it.
//! Each update has two phases: D and Q learn from made and real images, each half normalised by itself; G learns to
//! deceive D and to be read by Q. The cluster of a row is the choice that Q finds most probable.
//! Departures: the bias of a transposed convolution belongs to a number of its window, not to a channel; the loss of D
//! and Q is the mean over both halves instead of the sum of their means, of which Adam sees nothing; the running
//! statistics that serve fitted networks follow each network's own updates alone.
//! It needs images: square, one number a pixel, with a side that is a multiple of 4.
//! Expected: Jiang et al. (2017) compare its generated digits with VaDE's and give no score; Chen et al. report that the
//! choice matches MNIST's classes with an error of 5 %. On all of MNIST the ten choices are the ten digits to the eye
//! (repro/figures/samples.png). On the 1,797 digits of 8 x 8 pixels 0.65 after 1,000 updates of
//! networks half as wide (one seed). Where Q also finds the deviations (`learn_deviations`), it grows so sure of the two
//! numbers that G hears little else: after 600 updates D still won, here and in PyTorch alike.

mod discriminator;
mod generator;
#[cfg(test)]
mod tests;
mod trained;
mod training;

pub(crate) use discriminator::{Discriminator, Judged};
pub(crate) use generator::{Generator, Made};

use crate::ImageDevice;
use pervade::compute::cpu::math::normal_pair;
use pervade::compute::{Affine, NormSlots, Windows};
use pervade::data::{Dataset, Preparation, PrepareKind};
use pervade::record::JointEpoch;
use pervade::seed::{Key, Stream};
use pervade::train::{Control, Event, Observer, Stage};
use pervade::{Clusterer, Clustering, Error, Result};

use self::trained::Trained;
use self::training::Training;
use crate::rows::check_rows;

/// InfoGAN with its settings.
#[derive(Clone, Debug)]
pub struct InfoGan {
    /// K.
    pub n_clusters: usize,
    /// Numbers of the code that Q finds beside the choice.
    pub n_codes: usize,
    /// Numbers of the code that nobody looks for.
    pub n_noise: usize,
    /// Channels of the images at half and at a quarter of their side.
    pub channels: [usize; 2],
    /// Width of the layer without convolution, of either network.
    pub width: usize,
    /// Width of Q's hidden layer.
    pub recognition: usize,
    /// Whether Q finds how sure it is of each number, too; else its deviation is 1, as the authors have it for MNIST.
    pub learn_deviations: bool,
    /// How much the mutual information counts, lambda.
    pub information_weight: f32,
    /// Real images of an update, and as many made ones.
    pub batch: usize,
    /// Updates of an epoch.
    pub updates: usize,
    /// Epochs.
    pub epochs: usize,
    /// Learning rates of D and Q, and of G.
    pub learning_rates: [f32; 2],
    /// Adam's share of the old value in its first moments.
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
    /// Columns of z: choice, numbers, noise.
    pub(crate) fn n_inputs(&self) -> usize {
        self.n_clusters + self.n_codes + self.n_noise
    }

    /// Columns of Q's output: logits of the choice, means and perhaps log variances of the numbers.
    pub(crate) fn n_outputs(&self) -> usize {
        self.n_clusters + if self.learn_deviations { 2 } else { 1 } * self.n_codes
    }
}

/// Windows of 4 x 4 pixels, two apart, on images of this side: half as many a side.
pub(crate) fn halving(side: usize, channels: usize) -> Windows {
    Windows { height: side, width: side, channels, size: 4, stride: 2, padding: 1 }
}

impl InfoGan {
    fn sizes(&self, data: &Dataset) -> Result<Sizes> {
        let at_least = |name: &str, value: usize, least: usize| {
            let must = || Error::setting(name, value, format!("must be at least {least}"));
            if value < least { Err(must()) } else { Ok(()) }
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
                "InfoGAN needs square images, one number a pixel, with a side that is a multiple of 4, and a row \
                 has {} columns",
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
        // One scale for all pixels: what a generator's logistic output can reach, and nothing else.
        let preparation = Preparation::fit(PrepareKind::UnitRange, data)?;
        let rows = device.rows(data.view(&preparation))?;
        let (stage, phase, steps) = (Stage::Joint, "adversarial training", self.updates);
        let (restart, done, epochs) = (0, 0, self.epochs);
        observer.event(&Event::StageStarted { restart, stage, phase, epochs, done, steps });
        let mut training = Training::new(self, sizes, device, rows, data.n_rows(), seed)?;
        for epoch in 1..=epochs {
            for number in 0..steps {
                training.update(device, ((epoch - 1) * steps + number) as u64)?;
                if observer.event(&Event::Steps { done: number + 1 }) == Control::Stop {
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
        Ok(Box::new(Trained::new(device, sizes, preparation.clone(), &training)?))
    }
}

/// Start values as the authors draw them: weights N(0, 0.02), gains N(1, 0.02), all else zero but the kept variances.
pub(crate) fn start_values(
    len: usize,
    layers: &[Affine],
    norms: &[NormSlots],
    seed: u64,
    which: usize,
) -> Vec<f32> {
    const DEVIATION: f32 = 0.02;
    let key = Key::new(seed, Stream::Weights, which);
    let normal = |place: usize| {
        let [a, b, ..] = key.draw(place as u64, 0, 0);
        DEVIATION * normal_pair(a, b)[0]
    };
    let mut values = vec![0.0; len];
    layers.iter().flat_map(|layer| layer.weight.range()).for_each(|place| values[place] = normal(place));
    for norm in norms {
        norm.gain.range().for_each(|place| values[place] = 1.0 + normal(place));
        values[norm.variance.range()].fill(1.0);
    }
    values
}
