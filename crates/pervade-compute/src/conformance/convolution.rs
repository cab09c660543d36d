//! Windows of images.

use super::gradient::{LINEAR, Step, Tensor, gradient_cases};
use super::inputs::*;
use super::{Case, EveryOperation, Tolerance};
use crate::{Result, Windows};

pub(super) fn cases<D: EveryOperation>() -> Vec<Case<D>> {
    // Images that are not square, windows that overlap and leave a rest at the edges.
    let small = Windows { height: 7, width: 6, channels: 2, size: 3, stride: 2, padding: 1 };
    let large = Windows { height: 13, width: 10, channels: 5, size: 4, stride: 2, padding: 1 };
    [of_windows(small, 2, Some(LINEAR)), of_windows(large, 3, None)].into_iter().flatten().collect()
}

const RESTARTS: usize = 2;

/// Shapes of the images and of their windows.
fn shapes(windows: &Windows, n_images: usize) -> [[usize; 3]; 2] {
    let [down, across] = windows.count();
    [[RESTARTS, n_images, windows.image_len()], [RESTARTS, n_images * down * across, windows.window_len()]]
}

/// For every number of every window the number of the image that it is, or None beyond the edges.
fn sources(windows: &Windows, n_numbers: usize) -> Vec<Option<usize>> {
    let ([down, across], window_len) = (windows.count(), windows.window_len());
    let source = |i: usize| {
        let (window, inside) = (i / window_len % (down * across), i % window_len / windows.channels);
        let pixel = |step: usize, offset: usize, end: usize| {
            (step * windows.stride + offset).checked_sub(windows.padding).filter(|&pixel| pixel < end)
        };
        let row = pixel(window / across, inside / windows.size, windows.height)?;
        let column = pixel(window % across, inside % windows.size, windows.width)?;
        let image = i / window_len / (down * across);
        let pixel = (image * windows.height + row) * windows.width + column;
        Some(pixel * windows.channels + i % windows.channels)
    };
    (0..n_numbers).map(source).collect()
}

fn unfolded(windows: &Windows, images: &[f64], n_numbers: usize) -> Vec<f64> {
    sources(windows, n_numbers).iter().map(|source| source.map_or(0.0, |i| images[i])).collect()
}

fn folded(windows: &Windows, values: &[f64], n_numbers: usize) -> Vec<f64> {
    let mut images = vec![0.0; n_numbers];
    for (source, value) in sources(windows, values.len()).iter().zip(values) {
        source.iter().for_each(|&i| images[i] += value);
    }
    images
}

fn unfold<D: EveryOperation>(device: &D, windows: &Windows, n: usize, images: &[f32]) -> Result<Vec<f32>> {
    let [image_shape, window_shape] = shapes(windows, n);
    let (x, mut y) = (upload(device, image_shape, images)?, occupied(device, window_shape)?);
    device.unfold(windows, &x, &mut y)?;
    download(device, &y)
}

fn fold<D: EveryOperation>(device: &D, windows: &Windows, n: usize, values: &[f32]) -> Result<Vec<f32>> {
    let [image_shape, window_shape] = shapes(windows, n);
    let (x, mut y) = (upload(device, window_shape, values)?, occupied(device, image_shape)?);
    device.fold(windows, &x, &mut y)?;
    download(device, &y)
}

/// Unfold and fold, which are each the other's gradient.
fn of_windows<D: EveryOperation>(windows: Windows, n: usize, step: Option<Step>) -> Vec<Case<D>> {
    let [n_pixels, n_values] = shapes(&windows, n).map(|shape| shape.iter().product::<usize>());
    let (images, values) = (numbers(n_pixels, 74), numbers(n_values, 75));
    let [height, width] = [windows.height, windows.width];
    let unfold_name = format!("windows of images {height}x{width}");
    let fold_name = format!("images from windows {height}x{width}");
    let (wide_images, wide_values) = (wide(&images), wide(&values));
    let (images_of_run, values_of_run) = (images.clone(), values.clone());
    let mut cases = vec![
        Case::new(
            unfold_name.clone(),
            Tolerance::Fixed(0.0),
            move || unfolded(&windows, &wide_images, n_values),
            move |device: &D| unfold(device, &windows, n, &images_of_run),
        ),
        Case::new(
            fold_name.clone(),
            Tolerance::Fixed(1e-6),
            move || folded(&windows, &wide_values, n_pixels),
            move |device: &D| fold(device, &windows, n, &values_of_run),
        ),
    ];
    let (d_windows, d_images) = (values.clone(), images.clone());
    let (wide_d_windows, wide_d_images) = (wide(&values), wide(&images));
    cases.extend(gradient_cases(
        &unfold_name,
        Tolerance::Fixed(1e-6),
        vec![Tensor::new("images", images, step)],
        move |_| vec![folded(&windows, &wide_d_windows, n_pixels)],
        move |device: &D, at| {
            let loss = weighted_sum(&d_windows, &unfold(device, &windows, n, &at[0])?);
            Ok((loss, vec![fold(device, &windows, n, &d_windows)?]))
        },
    ));
    cases.extend(gradient_cases(
        &fold_name,
        Tolerance::Fixed(0.0),
        vec![Tensor::new("windows", values, step)],
        move |_| vec![unfolded(&windows, &wide_d_images, n_values)],
        move |device: &D, at| {
            let loss = weighted_sum(&d_images, &fold(device, &windows, n, &at[0])?);
            Ok((loss, vec![unfold(device, &windows, n, &d_images)?]))
        },
    ));
    cases
}
