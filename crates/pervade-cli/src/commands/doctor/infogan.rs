//! The first updates of InfoGAN on a device against the CPU's: networks for images.

use pervade::compute::Cpu;
use pervade::compute::conformance::{Check, numbers};
use pervade::data::Dataset;
use pervade::train::{Control, Event, Observer};
use pervade::{Clusterer, Result};
use pervade_rivals::{InfoGan, RivalDevice};

/// The losses of discriminator and recognition network after each update.
struct Losses(Vec<f64>);

impl Observer for Losses {
    fn event(&mut self, event: &Event<'_>) -> Control {
        if let Event::Trained(_, entry) = event {
            self.0.extend([entry.terms.reconstruction, entry.terms.cluster, entry.terms.latent]);
        }
        Control::Continue
    }
}

/// The first updates of InfoGAN on images of 12 x 12 pixels.
pub(super) fn against_cpu<D: RivalDevice>(device: &D) -> Result<Check> {
    const UPDATES: usize = 8;
    let (n, d) = (300, 144);
    let values = numbers(n * d, 69).iter().map(|x| 0.5 + 0.5 * x).collect();
    let data = Dataset::from_rows(n, d, values)?;
    let method = InfoGan {
        n_clusters: 5,
        channels: [16, 24],
        width: 128,
        recognition: 32,
        updates: 1,
        epochs: UPDATES,
        ..InfoGan::default()
    };
    let (mut ours, mut reference) = (Losses(Vec::new()), Losses(Vec::new()));
    method.cluster(&data, device, 1, &mut ours)?;
    method.cluster(&data, &Cpu::new(), 1, &mut reference)?;
    // A rounding error changes the sign of gradients that are nearly zero, and Adam makes full steps of them.
    let tolerance = (5.0 * device.product_error()).max(5e-3);
    let name = format!("first {UPDATES} updates of InfoGAN against the CPU");
    Ok(Check::new(name, tolerance, &ours.0, &reference.0))
}
