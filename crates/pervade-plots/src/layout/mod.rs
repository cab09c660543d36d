//! A repeatable layout of many rows in the plane.
//!
//! t-SNE as in [`Tsne`](crate::Tsne), with what makes it fast for a million rows: neighbours from a k-d tree, repulsion
//! by interpolation and Fourier transforms (Linderman and others, 2019), and above [`Layout::max_rows`] rows a sample
//! that is laid out, beside whose rows the others are placed.
//!
//! The result depends on the input and the settings only. Sums have a fixed order for any number of threads, there are
//! no random numbers but hashes of row indices, and of the functions that differ between systems' libraries (`exp`,
//! `sin`) none is used.

mod convolution;
mod error;
mod fft;
mod repulsion;
mod sample;
mod start;
mod tree;

use std::borrow::Cow;
use std::ops::Range;

use rayon::prelude::*;

use crate::tsne::{Affinities, Descent, exact_repulsion, gradient};
pub use error::LayoutError;
use repulsion::InterpolatedRepulsion;
use sample::{Anchors, rows_to_lay_out};
use start::initial_layout;
use tree::Tree;

/// What is laid out.
#[derive(Clone, Copy, Debug, Default)]
pub struct LayoutInput<'a> {
    /// `[N, J]`, finite
    pub latents: &'a [f32],
    /// J
    pub n_latents: usize,
    /// The component of each row: components start apart, and rows outside the sample are placed beside rows of
    /// their own component. `[N]`, or empty for a single component
    pub components: &'a [u32],
    /// The rows nearest to each row, if they are known. They are searched for if this is empty, or if not all rows are
    /// laid out. `[N, k]`
    pub neighbours: &'a [u32],
}

/// Settings of a layout.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Layout {
    /// Neighbours that attract each row, if the input has none.
    pub neighbours: usize,
    /// Above this many rows a sample of about this many is laid out, and the others are placed beside its rows.
    pub max_rows: usize,
    /// The number of iterations, including the early ones.
    pub iterations: usize,
    /// The number of initial iterations with `early_exaggeration`.
    pub early_iterations: usize,
    /// The factor of the attraction in the early iterations.
    pub early_exaggeration: f64,
    /// The factor of the attraction afterwards: 1 is t-SNE, and larger ones widen the gaps between islands at the cost
    /// of what is near what within them. If `None`, it is 1 up to 10,000 rows that are laid out, and grows to 1.5 at
    /// 50,000.
    pub late_exaggeration: Option<f64>,
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            neighbours: 15,
            max_rows: 100_000,
            iterations: 750,
            early_iterations: 250,
            early_exaggeration: 12.0,
            late_exaggeration: None,
        }
    }
}

/// Up to this many rows, the sum over all pairs is as fast as interpolation. Seconds of one thread for latents of the digits: 600 rows
/// 0.3 instead of 0.8, 800 rows 0.6 instead of 0.7, 1,300 rows 1.4 instead of 0.8, all 1,797 rows 2.6 instead of 1.0; the
/// trustworthiness is the same within 0.0002 from 400 rows on.
const EXACT_ROWS: usize = 800;
/// Rows between two calls of the progress function.
const BLOCK: usize = 8192;
/// Larger values count as this one, so that squared distances stay finite; it is far from any other latent.
const LARGEST: f32 = 1e15;

/// The shares of the progress at which the neighbours are known, and at which the sample is laid out.
const SEARCHED: f64 = 0.1;
const LAID_OUT: f64 = 0.9;

/// Progress of a part of the work, between two shares of the whole; stops the work if the caller asks for it.
struct Progress<'a> {
    report: &'a mut dyn FnMut(f64) -> bool,
}

impl Progress<'_> {
    fn at(&mut self, part: Range<f64>, done: usize, of: usize) -> Result<(), LayoutError> {
        let share = done as f64 / of.max(1) as f64;
        let goes_on = (self.report)(part.start + share * (part.end - part.start));
        if goes_on { Ok(()) } else { Err(LayoutError::Interrupted) }
    }
}

impl Layout {
    /// Applies a change.
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// The position of each row in the plane, centred at the origin. `progress` is called with the share of the work
    /// that is done, many times a second; the layout ends with [`LayoutError::Interrupted`] once it returns false.
    ///
    /// # Shapes
    /// - result: `[N, 2]`
    pub fn embed(
        &self,
        input: &LayoutInput,
        progress: &mut dyn FnMut(f64) -> bool,
    ) -> Result<Vec<[f32; 2]>, LayoutError> {
        let n = input.check()?;
        let mut progress = Progress { report: progress };
        let latents = within_range(input.latents);
        let components =
            if input.components.is_empty() { Cow::from(vec![0; n]) } else { Cow::from(input.components) };
        let rows = rows_to_lay_out(&latents, input.n_latents, &components, self.max_rows.max(1));
        let of_row =
            |&row: &u32| latents[row as usize * input.n_latents..][..input.n_latents].iter().copied();
        let chosen: Vec<f32> = rows.iter().flat_map(of_row).collect();
        let points = if rows.len() < 3 {
            (0..rows.len()).map(|i| [i as f64, 0.0]).collect()
        } else {
            let (neighbours, k) = if rows.len() == n && !input.neighbours.is_empty() {
                (Cow::from(input.neighbours), input.neighbours.len() / n)
            } else {
                let k = self.neighbours.clamp(1, rows.len() - 1);
                (Cow::from(search(&chosen, input.n_latents, k, &mut progress)?), k)
            };
            let components: Vec<u32> = rows.iter().map(|&row| components[row as usize]).collect();
            let start = initial_layout(&chosen, input.n_latents, &components);
            self.descend(&Affinities::uniform(&neighbours, k), start, &mut progress)?
        };
        let mut positions = vec![[0.0; 2]; n];
        rows.iter().zip(centred(points)).for_each(|(&row, point)| positions[row as usize] = point);
        position_others(&latents, input.n_latents, &components, &rows, &mut positions, &mut progress)?;
        Ok(positions)
    }

    /// Gradient descent on KL(P|Q) from the initial layout.
    fn descend(
        &self,
        affinities: &Affinities,
        start: Vec<[f64; 2]>,
        progress: &mut Progress,
    ) -> Result<Vec<[f64; 2]>, LayoutError> {
        let n = start.len();
        let late_exaggeration = self.late_exaggeration.unwrap_or_else(|| default_late_exaggeration(n));
        let mut interpolated = InterpolatedRepulsion::default();
        let mut descent = Descent::new(start);
        for iteration in 0..self.iterations {
            progress.at(SEARCHED..LAID_OUT, iteration, self.iterations)?;
            let early = iteration < self.early_iterations;
            let (exaggeration, momentum) =
                if early { (self.early_exaggeration, 0.5) } else { (late_exaggeration, 0.8) };
            // Belkina and others (2019): N over the exaggeration, divided by the 4 of the gradient.
            let rate = (n as f64 / exaggeration / 4.0).max(50.0);
            let repulsion = if n <= EXACT_ROWS {
                exact_repulsion(&descent.points)
            } else {
                interpolated.of(&descent.points)
            };
            let slopes = gradient(affinities, &descent.points, exaggeration, &repulsion);
            descent.step(&slopes, rate, momentum);
        }
        Ok(descent.points)
    }
}

/// Chosen by the trustworthiness of 70,000 latents of MNIST, and by eye: 0.9991 with a factor of 1, where islands begin
/// to touch, 0.9979 with 1.5, 0.9943 with 2, and 0.9782 with 4, where well separated clusters become dots.
fn default_late_exaggeration(n_rows: usize) -> f64 {
    let share = (n_rows as f64 - 10_000.0) / 40_000.0;
    1.0 + 0.5 * share.clamp(0.0, 1.0)
}

/// Values within ±[`LARGEST`].
fn within_range(values: &[f32]) -> Cow<'_, [f32]> {
    if values.iter().all(|x| x.abs() <= LARGEST) {
        return Cow::from(values);
    }
    values.iter().map(|x| x.clamp(-LARGEST, LARGEST)).collect()
}

/// The k nearest rows of each row. `[N, k]`
fn search(
    rows: &[f32],
    n_columns: usize,
    k: usize,
    progress: &mut Progress,
) -> Result<Vec<u32>, LayoutError> {
    let n = rows.len() / n_columns;
    let tree = Tree::new(rows, n_columns);
    let mut neighbours = Vec::with_capacity(n * k);
    for start in (0..n).step_by(BLOCK) {
        progress.at(0.0..SEARCHED, start, n)?;
        neighbours.extend(tree.all_nearest(rows, start..(start + BLOCK).min(n), k));
    }
    Ok(neighbours)
}

/// Positions the rows that were not laid out beside those that were.
fn position_others(
    latents: &[f32],
    n_latents: usize,
    components: &[u32],
    laid_out: &[u32],
    positions: &mut [[f32; 2]],
    progress: &mut Progress,
) -> Result<(), LayoutError> {
    let is_other = |row: &u32| laid_out.binary_search(row).is_err();
    let others: Vec<u32> = (0..positions.len() as u32).filter(is_other).collect();
    if others.is_empty() {
        return Ok(());
    }
    let anchors = Anchors::new(latents, n_latents, components, laid_out, positions);
    for (block, rows) in others.chunks(BLOCK).enumerate() {
        progress.at(LAID_OUT..1.0, block * BLOCK, others.len())?;
        let placed: Vec<[f32; 2]> = rows.par_iter().map(|&row| anchors.position(row, positions)).collect();
        rows.iter().zip(placed).for_each(|(&row, position)| positions[row as usize] = position);
    }
    Ok(())
}

/// Positions around their mean.
fn centred(points: Vec<[f64; 2]>) -> impl Iterator<Item = [f32; 2]> {
    let n = points.len() as f64;
    let mean = [0, 1].map(|axis| points.iter().map(|p| p[axis]).sum::<f64>() / n);
    points.into_iter().map(move |p| [0, 1].map(|axis| (p[axis] - mean[axis]) as f32))
}

#[cfg(test)]
mod tests;
