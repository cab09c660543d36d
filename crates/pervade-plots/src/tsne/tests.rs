use super::*;

/// Three groups of rows in five columns.
fn groups(n: usize) -> Vec<f32> {
    let noise = |i: usize, j: usize| ((i * 7919 + j * 104_729) % 1000) as f32 / 1000.0 - 0.5;
    (0..n).flat_map(|i| (0..5).map(move |j| if i % 3 == j { 6.0 } else { 0.0 } + noise(i, j))).collect()
}

#[test]
fn groups_stay_together_for_any_number_of_threads() {
    let rows = groups(150);
    let tsne = Tsne { iterations: 400, exaggerated: 100, perplexity: 15.0, ..Tsne::default() };
    let embed = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| tsne.embed(&rows, 5))
    };
    let points = embed(1);
    assert_eq!(points, embed(3));
    let distance = |a: usize, b: usize| (points[a][0] - points[b][0]).hypot(points[a][1] - points[b][1]);
    let nearest = |i: usize| {
        let others = (0..150).filter(|&j| j != i);
        others.min_by(|&a, &b| distance(i, a).total_cmp(&distance(i, b))).unwrap()
    };
    assert!((0..150).all(|i| nearest(i) % 3 == i % 3));
}

/// KL(P|Q) by its definition.
fn divergence(affinities: &Affinities, points: &[[f64; 2]]) -> f64 {
    let n = points.len();
    let q = |i: usize, j: usize| {
        1.0 / (1.0 + (points[i][0] - points[j][0]).powi(2) + (points[i][1] - points[j][1]).powi(2))
    };
    let total: f64 = (0..n).map(|i| (0..n).filter(|&j| j != i).map(|j| q(i, j)).sum::<f64>()).sum();
    let of_row = |i: usize| affinities.of_row(i).filter(|&(_, p)| p > 0.0).map(move |(j, p)| (i, j, p));
    (0..n).flat_map(of_row).map(|(i, j, p)| p * (p * total / q(i, j)).ln()).sum()
}

/// Central differences of KL(P|Q), for both kinds of affinities.
#[test]
fn the_gradient_is_that_of_the_divergence() {
    let points: Vec<[f64; 2]> =
        (0..40).map(|i| [f64::from(i).sin() * 2.0, (f64::from(i) * 1.7).cos()]).collect();
    let ring: Vec<u32> = (0..40).flat_map(|i| [(i + 1) % 40, (i + 3) % 40]).collect();
    for affinities in [Affinities::with_perplexity(&groups(40), 5, 5.0), Affinities::uniform(&ring, 2)] {
        let slopes = gradient(&affinities, &points, 1.0, &exact_repulsion(&points));
        for (i, axis) in [0, 7, 39].into_iter().flat_map(|i| [(i, 0), (i, 1)]) {
            let moved = |by: f64| {
                let mut points = points.clone();
                points[i][axis] += by;
                divergence(&affinities, &points)
            };
            let expected = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            assert!((slopes[i][axis] - expected).abs() < 1e-6, "{} {expected}", slopes[i][axis]);
        }
    }
}
