//! Means over ranks, through host memory.

use std::sync::Mutex;

use super::inputs::*;
use super::{Case, EveryOperation, Tolerance};
use crate::{Ranks, Result};

/// Odd, so that the slices of two ranks have different lengths.
const LEN: usize = 301;

pub(super) fn cases<D: EveryOperation>() -> Vec<Case<D>> {
    let own = || numbers(LEN, 90);
    let theirs = || numbers(LEN, 91);
    vec![Case::new(
        "mean over two ranks",
        Tolerance::Fixed(0.0),
        move || own().iter().zip(theirs()).map(|(&a, b)| f64::from(0.5 * (a + b))).collect(),
        move |device: &D| {
            let ranks = SecondRank::new(theirs());
            let mut buffer = device.zeros(LEN)?;
            device.write(&mut buffer, 0, &own())?;
            let mut mean = device.rank_mean(&ranks, LEN)?;
            // The other rank of this case has no device to exchange with.
            assert_eq!(device.device_exchange(), None);
            device.average_over_ranks(&mut mean, &ranks, &mut buffer)?;
            read(device, &buffer, 0..LEN)
        },
    )]
}

/// The first of two ranks, with a second one that is only played.
struct SecondRank {
    /// The second rank's buffer, in whole slices.
    buffer: Vec<f32>,
    /// The mean of the slice that the second rank averages.
    averaged: Mutex<Vec<f32>>,
}

impl SecondRank {
    fn new(mut buffer: Vec<f32>) -> Self {
        buffer.resize(buffer.len().next_multiple_of(2), 0.0);
        Self { buffer, averaged: Mutex::default() }
    }
}

impl Ranks for SecondRank {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        2
    }

    fn all_to_all(&self, send: &[u8], received: &mut [u8]) -> Result<()> {
        let slice = send.len() / 2;
        let theirs: &[u8] = bytemuck::cast_slice(&self.buffer);
        received[..slice].copy_from_slice(&send[..slice]);
        received[slice..].copy_from_slice(&theirs[..slice]);
        let mine = send[slice..].as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
        let averaged = mine.zip(&self.buffer[slice / 4..]).map(|(a, b)| 0.5 * (a + b));
        *self.averaged.lock().expect("one thread") = averaged.collect();
        Ok(())
    }

    /// Before there is a mean, the second rank sends zeros: it has no library for devices.
    fn all_gather(&self, mine: &[u8], all: &mut [u8]) -> Result<()> {
        let (own, theirs) = all.split_at_mut(mine.len());
        own.copy_from_slice(mine);
        let averaged = self.averaged.lock().expect("one thread");
        match averaged.len() {
            0 => theirs.fill(0),
            _ => theirs.copy_from_slice(bytemuck::cast_slice(&averaged)),
        }
        Ok(())
    }
}
