//! Passes over the latents of all rows: the E-steps of EM and k-means, and k-means++.

use std::ops::Range;

use super::block::argmax;
use super::{Cpu, neighbours};
use crate::parallel::{collect_rows, map_chunks};
use crate::{Components, Moments, Points, Result};

/// The latents of all rows, with their last assignment.
#[derive(Debug)]
pub struct CpuPoints<'a> {
    pub(super) latents: &'a [f32],
    pub(super) n_latent: usize,
    /// The component of each row. `[N]`
    pub(super) assignment: Vec<u32>,
    /// Minus twice the row's log joint with it. `[N]`
    pub(super) squares: Vec<f64>,
}

impl<'a> CpuPoints<'a> {
    pub(super) fn new(latents: &'a [f32], n_latent: usize) -> Self {
        Self { latents, n_latent, assignment: Vec::new(), squares: Vec::new() }
    }

    fn n_rows(&self) -> usize {
        self.latents.len() / self.n_latent
    }
}

impl Points for Cpu {
    type Points<'a> = CpuPoints<'a>;

    fn points<'a>(&self, latents: &'a [f32], n_latent: usize) -> Result<CpuPoints<'a>> {
        Ok(CpuPoints::new(latents, n_latent))
    }

    fn kmeans_plus_plus(
        &self,
        points: &mut CpuPoints<'_>,
        sample: &[u32],
        draws: &[f64],
    ) -> Result<Vec<u32>> {
        let (latents, n_latent) = (points.latents, points.n_latent);
        let row = |position: usize| {
            let row = sample[position] as usize;
            latents[row * n_latent..(row + 1) * n_latent].iter().map(|&z| f64::from(z))
        };
        let mut nearest_square = vec![f64::INFINITY; sample.len()];
        let mut next = 0;
        let mut chosen = Vec::with_capacity(draws.len());
        for draw in draws {
            chosen.push(sample[next]);
            let newest: Vec<f64> = row(next).collect();
            nearest_square = collect_rows(sample.len(), |positions| {
                let square =
                    |position| row(position).zip(&newest).map(|(z, centre)| (z - centre).powi(2)).sum();
                positions.map(|position| nearest_square[position].min(square(position))).collect()
            });
            let total: f64 = nearest_square.iter().sum();
            next = position_of_mass(&nearest_square, draw * total)
                .unwrap_or((draw * sample.len() as f64) as usize);
        }
        Ok(chosen)
    }

    fn e_step(&self, points: &mut CpuPoints<'_>, components: &Components) -> Result<(Moments, f64)> {
        let chunks = map_chunks(points.n_rows(), |rows| {
            let mut moments = components.zero_moments();
            let mut log_density = 0.0;
            components.for_each_block(points.latents, rows, |block| {
                let log_densities = block.softmax();
                log_density += log_densities[..block.rows.len()].iter().sum::<f64>();
                moments.add(block);
            });
            (moments, log_density)
        });
        let mut moments = components.zero_moments();
        let mut log_density = 0.0;
        for (chunk, chunk_log_density) in &chunks {
            moments.merge(chunk);
            log_density += chunk_log_density;
        }
        Ok((moments, log_density))
    }

    fn assign(&self, points: &mut CpuPoints<'_>, components: &Components) -> Result<(Moments, bool)> {
        let latents = points.latents;
        let chunks = map_chunks(points.n_rows(), |rows| {
            let mut nearest = Vec::with_capacity(rows.len());
            let mut moments = components.zero_moments();
            components.for_each_block(latents, rows, |block| {
                for row in block.rows_mut(components.n_padded) {
                    let m = argmax(row);
                    nearest.push((m as u32, -2.0 * row[m]));
                    row.fill(0.0);
                    row[m] = 1.0;
                }
                moments.add(block);
            });
            (nearest, moments)
        });
        let mut moments = components.zero_moments();
        for (_, chunk) in &chunks {
            moments.merge(chunk);
        }
        let (assignment, squares) = chunks.into_iter().flat_map(|(nearest, _)| nearest).unzip();
        let moved = points.assignment != assignment;
        (points.assignment, points.squares) = (assignment, squares);
        Ok((moments, moved))
    }

    fn assigned(&self, points: &CpuPoints<'_>) -> Result<(Vec<u32>, Vec<f64>)> {
        Ok((points.assignment.clone(), points.squares.clone()))
    }

    fn neighbours(
        &self,
        points: &CpuPoints<'_>,
        rows: &[u32],
        queries: Range<usize>,
        n_neighbours: usize,
        keep_going: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<u32>> {
        neighbours::neighbours(points.latents, points.n_latent, rows, queries, n_neighbours, keep_going)
    }
}

/// The position where the cumulative sum exceeds `mass`, or `None` if all masses are zero.
fn position_of_mass(masses: &[f64], mass: f64) -> Option<usize> {
    let mut sum = 0.0;
    let passed = masses.iter().position(|&each| {
        sum += each;
        sum > mass
    });
    passed.or_else(|| masses.iter().rposition(|&each| each > 0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_found_where_the_mass_is_exceeded() {
        let masses = [0.0, 2.0, 0.0, 1.0, 0.0];
        for (mass, position) in [(0.0, 1), (1.9, 1), (2.0, 3), (2.5, 3), (3.0, 3)] {
            assert_eq!(position_of_mass(&masses, mass), Some(position), "{mass}");
        }
        assert_eq!(position_of_mass(&[0.0; 3], 0.0), None);
    }

    #[test]
    fn kmeans_plus_plus_chooses_distant_rows_and_handles_duplicates() {
        let latents = [0.0f32, 0.0, 5.0, 5.0, 9.0];
        let mut points = CpuPoints::new(&latents, 1);
        let chosen =
            Cpu::new().kmeans_plus_plus(&mut points, &[3, 0, 1, 2, 4], &[0.1, 0.6, 0.99, 0.5]).unwrap();
        // Centre 5: squares 0, 25, 25, 0, 16; 0.1 of their sum selects row 0. Centres 5 and 0: 0.6 of 16 selects row 4.
        // Then every row is on a centre, and 0.99 of the sample is its last row.
        assert_eq!(chosen, [3, 0, 4, 4]);
    }

    #[test]
    fn assign_reports_whether_any_row_moved() {
        let latents = [0.0f32, 1.0, 9.0, 10.0];
        let (cpu, mut points) = (Cpu::new(), CpuPoints::new(&latents, 1));
        let around = |centres: &[f64]| Components::new(&[0.0; 2], centres, |_| 1.0, &[5.0]);
        let (moments, moved) = cpu.assign(&mut points, &around(&[0.0, 8.0])).unwrap();
        assert!(moved && moments.mass(0) == 2.0 && moments.mass(1) == 2.0);
        assert_eq!(points.squares, [0.0, 1.0, 1.0, 4.0]);
        assert!(!cpu.assign(&mut points, &around(&[1.0, 9.0])).unwrap().1);
        assert!(cpu.assign(&mut points, &around(&[-20.0, 0.0])).unwrap().1);
        assert_eq!(points.assignment, [1; 4]);
    }
}
