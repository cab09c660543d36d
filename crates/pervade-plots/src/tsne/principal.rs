//! The principal plane of rows, and the initial embedding from it.

/// Standard deviation of the initial embedding along its first axis.
const INITIAL_DEVIATION: f64 = 1e-4;

/// Scales an embedding to the initial standard deviation along its first axis.
pub(crate) fn initially_scaled(plane: Vec<[f64; 2]>) -> Vec<[f64; 2]> {
    let n = plane.len() as f64;
    let deviation = (plane.iter().map(|p| p[0] * p[0]).sum::<f64>() / n).sqrt().max(f64::MIN_POSITIVE);
    plane.into_iter().map(|p| p.map(|x| x / deviation * INITIAL_DEVIATION)).collect()
}

/// Projects centred rows of J columns onto their first two principal axes, by power iteration with the second
/// axis kept orthogonal to the first.
pub fn principal_plane(rows: &[f32], j: usize) -> Vec<[f64; 2]> {
    let n = (rows.len() / j).max(1) as f64;
    let mut mean = vec![0.0; j];
    rows.chunks_exact(j).for_each(|row| mean.iter_mut().zip(row).for_each(|(m, &x)| *m += f64::from(x) / n));
    let centred: Vec<f64> = rows.iter().enumerate().map(|(i, &x)| f64::from(x) - mean[i % j]).collect();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut axes: Vec<Vec<f64>> = Vec::new();
    for _ in 0..2 {
        let mut axis: Vec<f64> = (0..j).map(|i| 1.0 + i as f64 / j as f64).collect();
        for _ in 0..100 {
            let mut next = vec![0.0; j];
            for row in centred.chunks_exact(j) {
                let along = dot(row, &axis);
                next.iter_mut().zip(row).for_each(|(sum, x)| *sum += along * x);
            }
            for earlier in &axes {
                let shared = dot(&next, earlier);
                next.iter_mut().zip(earlier).for_each(|(x, e)| *x -= shared * e);
            }
            let length = dot(&next, &next).sqrt().max(f64::MIN_POSITIVE);
            axis = next.into_iter().map(|x| x / length).collect();
        }
        axes.push(axis);
    }
    centred.chunks_exact(j).map(|row| [dot(row, &axes[0]), dot(row, &axes[1])]).collect()
}
