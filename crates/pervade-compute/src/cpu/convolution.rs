//! Extracts the windows of images (`unfold`), and adds windows up to images (`fold`). One task per image.

use rayon::prelude::*;

use super::team::TeamForEach;
use super::{Cpu, M};
use crate::{Convolution, Result, Windows};

impl Convolution for Cpu {
    fn unfold(&self, windows: &Windows, x: &M, y: &mut M) -> Result<()> {
        windows.n_images(x, y);
        let images = x.data.par_chunks_exact(windows.image_len());
        y.data.par_chunks_exact_mut(windows.all_len()).zip(images).team_for_each(|(y, x)| {
            y.fill(0.0);
            for_each_row(windows, |window, image, len| {
                y[window..window + len].copy_from_slice(&x[image..image + len]);
            });
        });
        Ok(())
    }

    // The terms of a pixel are added in the order of the windows.
    fn fold(&self, windows: &Windows, x: &M, y: &mut M) -> Result<()> {
        windows.n_images(y, x);
        let unfolded = x.data.par_chunks_exact(windows.all_len());
        y.data.par_chunks_exact_mut(windows.image_len()).zip(unfolded).team_for_each(|(y, x)| {
            y.fill(0.0);
            for_each_row(windows, |window, image, len| {
                y[image..image + len].iter_mut().zip(&x[window..window + len]).for_each(|(y, x)| *y += x);
            });
        });
        Ok(())
    }
}

/// Calls `visit(offset in the windows, offset in the image, length)` for the part of every row of every window
/// that is inside the image.
#[inline(always)]
fn for_each_row(windows: &Windows, mut visit: impl FnMut(usize, usize, usize)) {
    let Windows { height, width, channels, size, stride, padding } = *windows;
    let [down, across] = windows.count();
    for index in 0..down * across {
        let (top, left) = (index / across * stride, index % across * stride);
        // The window's columns `first..end` are inside the image.
        let first = padding.saturating_sub(left).min(size);
        let end = (width + padding).saturating_sub(left).clamp(first, size);
        for row in 0..size {
            let Some(y) = (top + row).checked_sub(padding).filter(|&y| y < height) else { continue };
            let window = ((index * size + row) * size + first) * channels;
            // Skips rows entirely in the padding.
            if first < end {
                visit(window, (y * width + left + first - padding) * channels, (end - first) * channels);
            }
        }
    }
}
