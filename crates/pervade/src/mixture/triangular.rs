//! Triangular factors of small dense row-major matrices.

/// The Cholesky factor L of a symmetric A = L Lᵀ, or `None` if A is not positive definite.
///
/// # Shapes
/// - a: `[n, n]`, result: `[n, n]`, zero above the diagonal
pub fn cholesky(a: &[f64], n: usize) -> Option<Vec<f64>> {
    let mut l = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..=i {
            let (above, below) = (&l[i * n..i * n + j], &l[j * n..j * n + j]);
            let rest = a[i * n + j] - above.iter().zip(below).map(|(x, y)| x * y).sum::<f64>();
            if i != j {
                l[i * n + j] = rest / l[j * n + j];
            } else if rest > 0.0 {
                l[i * n + i] = rest.sqrt();
            } else {
                return None;
            }
        }
    }
    Some(l)
}

/// The inverse of a lower triangular matrix.
///
/// # Shapes
/// - l: `[n, n]`, result: `[n, n]`, zero above the diagonal
pub fn invert_lower(l: &[f64], n: usize) -> Vec<f64> {
    let mut inverse = vec![0.0; n * n];
    for i in 0..n {
        let (done, rest) = inverse.split_at_mut(i * n);
        let row = &mut rest[..n];
        row[i] = 1.0;
        // Row i of L times the inverse is row i of the identity: subtract the contributions of the rows above.
        for j in 0..i {
            let factor = l[i * n + j];
            (0..=j).for_each(|c| row[c] -= factor * done[j * n + c]);
        }
        row[..=i].iter_mut().for_each(|x| *x /= l[i * n + i]);
    }
    inverse
}
