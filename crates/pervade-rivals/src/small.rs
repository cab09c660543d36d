//! Small dense row-major matrices: factors, eigenvectors and rotations of a few to a few hundred columns.

pub(crate) use pervade::mixture::{cholesky, invert_lower};

/// Sweeps of Jacobi rotations; convergence is quadratic, so that ten are usually enough.
const MAX_SWEEPS: usize = 60;

/// Eigenvalues, ascending, and eigenvectors (as columns) of a symmetric matrix, by Jacobi rotations.
///
/// # Shapes
/// - a: `[n, n]`, result: `[n]`, `[n, n]`
pub(crate) fn symmetric_eigen(a: &[f64], n: usize) -> (Vec<f64>, Vec<f64>) {
    let mut a = a.to_vec();
    let mut v = identity(n);
    for _ in 0..MAX_SWEEPS {
        let off: f64 = (0..n * n).filter(|index| index / n != index % n).map(|index| a[index].powi(2)).sum();
        let all: f64 = a.iter().map(|x| x * x).sum();
        if off <= 1e-30 * all {
            break;
        }
        for p in 0..n {
            for q in p + 1..n {
                let Some((c, s)) = rotation(a[p * n + p], a[q * n + q], a[p * n + q]) else { continue };
                rotate_columns(&mut a, n, p, q, c, s);
                for k in 0..n {
                    let (x, y) = (a[p * n + k], a[q * n + k]);
                    (a[p * n + k], a[q * n + k]) = (c * x - s * y, s * x + c * y);
                }
                rotate_columns(&mut v, n, p, q, c, s);
            }
        }
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| a[i * n + i].total_cmp(&a[j * n + j]));
    let values = order.iter().map(|&i| a[i * n + i]).collect();
    let vectors = (0..n * n).map(|index| v[index / n * n + order[index % n]]).collect();
    (values, vectors)
}

/// The orthogonal matrix nearest to M = U S Vᵀ, which is U Vᵀ (Schönemann, 1966), by one-sided Jacobi. If M is
/// rank-deficient, the missing directions of U are arbitrary ones orthogonal to the others.
///
/// # Shapes
/// - m: `[n, n]`, result: `[n, n]`
pub(crate) fn nearest_rotation(m: &[f64], n: usize) -> Vec<f64> {
    let mut u = m.to_vec();
    let mut v = identity(n);
    for _ in 0..MAX_SWEEPS {
        let mut rotated = false;
        for p in 0..n {
            for q in p + 1..n {
                let dot = |x: usize, y: usize| (0..n).map(|k| u[k * n + x] * u[k * n + y]).sum::<f64>();
                let (pp, qq, pq) = (dot(p, p), dot(q, q), dot(p, q));
                if pq.abs() <= 1e-15 * (pp * qq).sqrt() {
                    continue;
                }
                let Some((c, s)) = rotation(pp, qq, pq) else { continue };
                rotate_columns(&mut u, n, p, q, c, s);
                rotate_columns(&mut v, n, p, q, c, s);
                rotated = true;
            }
        }
        if !rotated {
            break;
        }
    }
    unit_columns(&mut u, n);
    let entry = |i: usize, j: usize| (0..n).map(|k| u[i * n + k] * v[j * n + k]).sum();
    (0..n * n).map(|index| entry(index / n, index % n)).collect()
}

/// Normalises orthogonal columns to length one; zero columns are replaced by an orthonormal completion.
fn unit_columns(u: &mut [f64], n: usize) {
    let length = |u: &[f64], c: usize| (0..n).map(|k| u[k * n + c].powi(2)).sum::<f64>().sqrt();
    let longest = (0..n).map(|c| length(u, c)).fold(0.0, f64::max);
    let (full, empty): (Vec<usize>, Vec<usize>) =
        (0..n).partition(|&c| length(u, c) > 1e-12 * longest && longest > 0.0);
    let mut ready = full;
    for &c in &ready {
        let scale = length(u, c);
        (0..n).for_each(|k| u[k * n + c] /= scale);
    }
    for c in empty {
        // The axis that the finished columns cover least has the longest remainder.
        let covered = |axis: usize| ready.iter().map(|&r| u[axis * n + r].powi(2)).sum::<f64>();
        let axis = (0..n).min_by(|&a, &b| covered(a).total_cmp(&covered(b))).unwrap_or(0);
        (0..n).for_each(|k| u[k * n + c] = f64::from(u8::from(k == axis)));
        for _ in 0..2 {
            for &r in &ready {
                let shared: f64 = (0..n).map(|k| u[k * n + c] * u[k * n + r]).sum();
                (0..n).for_each(|k| u[k * n + c] -= shared * u[k * n + r]);
            }
        }
        let scale = length(u, c);
        (0..n).for_each(|k| u[k * n + c] /= scale);
        ready.push(c);
    }
}

/// Cosine and sine of the rotation that makes the off-diagonal element `pq` zero.
fn rotation(pp: f64, qq: f64, pq: f64) -> Option<(f64, f64)> {
    if pq == 0.0 {
        return None;
    }
    let theta = (qq - pp) / (2.0 * pq);
    let t = theta.signum() / (theta.abs() + (1.0 + theta * theta).sqrt());
    let c = 1.0 / (1.0 + t * t).sqrt();
    Some((c, t * c))
}

fn rotate_columns(a: &mut [f64], n: usize, p: usize, q: usize, c: f64, s: f64) {
    for row in a.chunks_exact_mut(n) {
        let (x, y) = (row[p], row[q]);
        (row[p], row[q]) = (c * x - s * y, s * x + c * y);
    }
}

fn identity(n: usize) -> Vec<f64> {
    (0..n * n).map(|index| f64::from(u8::from(index / n == index % n))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product(a: &[f64], b: &[f64], n: usize) -> Vec<f64> {
        let entry = |i: usize, j: usize| (0..n).map(|k| a[i * n + k] * b[k * n + j]).sum();
        (0..n * n).map(|index| entry(index / n, index % n)).collect()
    }

    fn transposed(a: &[f64], n: usize) -> Vec<f64> {
        (0..n * n).map(|index| a[index % n * n + index / n]).collect()
    }

    fn assert_near(a: &[f64], b: &[f64]) {
        assert!(a.iter().zip(b).all(|(x, y)| (x - y).abs() < 1e-12), "{a:?} is not {b:?}");
    }

    fn some_matrix(n: usize) -> Vec<f64> {
        (0..n * n).map(|index| ((index * index + 3 * index) as f64 * 0.37).sin()).collect()
    }

    #[test]
    fn factors_eigenvectors_and_rotations_satisfy_their_definitions() {
        let n = 6;
        let m = some_matrix(n);
        let a = product(&m, &transposed(&m, n), n);
        let l = cholesky(&a, n).unwrap();
        assert_near(&product(&l, &transposed(&l, n), n), &a);
        assert_near(&product(&l, &invert_lower(&l, n), n), &identity(n));
        let (values, v) = symmetric_eigen(&a, n);
        let scaled: Vec<f64> = (0..n * n).map(|index| v[index] * values[index % n]).collect();
        assert_near(&product(&scaled, &transposed(&v, n), n), &a);
        assert!(values.is_sorted());
        let rotation = nearest_rotation(&m, n);
        assert_near(&product(&rotation, &transposed(&rotation, n), n), &identity(n));
        // Rotationᵀ M is symmetric and positive definite: the polar decomposition of M.
        let stretch = product(&transposed(&rotation, n), &m, n);
        assert_near(&stretch, &transposed(&stretch, n));
        assert!(symmetric_eigen(&stretch, n).0[0] > 0.0);
    }

    #[test]
    fn a_rotation_is_found_for_rank_deficient_matrices() {
        let n = 4;
        let mut m = some_matrix(n);
        m[..n].fill(0.0);
        for m in [m, vec![0.0; n * n]] {
            let rotation = nearest_rotation(&m, n);
            assert_near(&product(&rotation, &transposed(&rotation, n), n), &identity(n));
        }
        assert!(cholesky(&[1.0, 2.0, 2.0, 1.0], 2).is_none());
    }
}
