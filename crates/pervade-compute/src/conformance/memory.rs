//! Buffers and copies, and the running sums of the terms.

use super::inputs::*;
use super::{Case, EveryOperation, Tolerance};
use crate::{Likelihood, Result, Terms};

pub(super) fn cases<D: EveryOperation>() -> Vec<Case<D>> {
    vec![
        Case::new(
            "buffers: written in part, read in part",
            Tolerance::Fixed(0.0),
            || [vec![0.0; 3], wide(&numbers(40, 5)), vec![0.0; 2]].concat(),
            |device: &D| {
                let mut buffer = device.zeros(100)?;
                device.write(&mut buffer, 20, &numbers(40, 5))?;
                read(device, &buffer, 17..62)
            },
        ),
        Case::new(
            "buffers: cleared",
            Tolerance::Fixed(0.0),
            || vec![0.0; 70],
            |device: &D| {
                let mut buffer = device.zeros(70)?;
                device.write(&mut buffer, 0, &numbers(70, 5))?;
                device.clear(&mut buffer)?;
                read(device, &buffer, 0..70)
            },
        ),
        Case::against(
            "sums of terms: stored and continued",
            Tolerance::Fixed(1e-15),
            |device: &D| Ok(sums_of_steps(device, false)?.iter().flat_map(|terms| terms.values()).collect()),
            |device: &D| Ok(sums_of_steps(device, true)?.iter().flat_map(|terms| terms.values()).collect()),
        ),
    ]
}

/// The sums over two steps; `stored` reads them after the first and continues from what was read.
fn sums_of_steps<D: EveryOperation>(device: &D, stored: bool) -> Result<Vec<Terms>> {
    let shape = [2, 5, 7];
    let x = upload(device, shape, &fractions(70, 6))?;
    let mut sums = device.sums(2, 5, 1)?;
    for step in 0..2 {
        let mut output = upload(device, shape, &numbers(70, 7 + step))?;
        device.likelihood(&[Likelihood::Bernoulli; 2], &x, &mut output, &mut sums)?;
        if stored && step == 0 {
            let values = device.read_sums(&sums)?;
            sums = device.sums(2, 5, 1)?;
            device.write_sums(&mut sums, &values)?;
        }
    }
    let taken = device.take_sums(&mut sums)?;
    let rest = device.take_sums(&mut sums)?;
    Ok([taken, rest].concat())
}
