use super::*;

/// A repeatable number in [-0.5, 0.5].
fn noise(i: usize) -> f32 {
    let bits = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((bits ^ (bits >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40) as f32 / 16_777_216.0 - 0.5
}

/// Rows of `n_classes` groups in J columns, and their classes.
fn blobs(n: usize, j: usize, n_classes: usize) -> (Vec<f32>, Vec<u32>) {
    let centre = |class: usize, c: usize| 12.0 * noise(1_000_000 + class * j + c);
    let value = |i: usize, c: usize| centre(i % n_classes, c) + noise(i * j + c) + noise(500_000 + i * j + c);
    let rows = (0..n).flat_map(|i| (0..j).map(move |c| value(i, c))).collect();
    (rows, (0..n).map(|i| (i % n_classes) as u32).collect())
}

/// The share of rows whose nearest row on the map is of the same class.
fn purity(points: &[[f32; 2]], classes: &[u32]) -> f64 {
    let flat: Vec<f32> = points.iter().flatten().copied().collect();
    let nearest = search(&flat, 2, 1, &mut Progress { report: &mut |_| true }).unwrap();
    let same = nearest.iter().zip(classes).filter(|&(&other, &class)| classes[other as usize] == class);
    same.count() as f64 / classes.len() as f64
}

/// Fewer iterations than the default.
fn quick() -> Layout {
    Layout::default().with(|layout| (layout.iterations, layout.early_iterations) = (150, 60))
}

fn embed(layout: &Layout, input: &LayoutInput) -> Vec<[f32; 2]> {
    layout.embed(input, &mut |_| true).unwrap()
}

/// Finite, and nearly all different: rows with the same neighbours can meet.
fn assert_apart(points: &[[f32; 2]]) {
    let mut bits: Vec<[u32; 2]> = points.iter().map(|p| p.map(f32::to_bits)).collect();
    bits.sort_unstable();
    bits.dedup();
    assert!(bits.len() + points.len() / 500 >= points.len(), "{} of {}", bits.len(), points.len());
    assert!(points.iter().flatten().all(|x| x.is_finite()));
}

/// With interpolation, a sample, duplicates and several components.
#[test]
fn the_number_of_threads_changes_no_bit() {
    let (mut latents, components) = blobs(6000, 4, 7);
    // Rows 0 to 99 again as 700 to 799, which are of the same classes.
    latents.copy_within(0..400, 2800);
    let input = LayoutInput { latents: &latents, n_latents: 4, components: &components, neighbours: &[] };
    let layout = quick().with(|layout| layout.max_rows = 4000);
    let with_threads = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| embed(&layout, &input))
    };
    let points = with_threads(1);
    assert!(points == with_threads(2) && points == with_threads(3));
    assert_apart(&points);
    assert!(purity(&points, &components) > 0.99);
}

/// Also without components, exactly (up to 2,000 rows) and with interpolation.
#[test]
fn separate_groups_stay_separate() {
    for n in [600, 2500] {
        let (latents, classes) = blobs(n, 10, 12);
        let input = LayoutInput { latents: &latents, n_latents: 10, ..LayoutInput::default() };
        let found = purity(&embed(&quick(), &input), &classes);
        assert!(found > 0.99, "{n}: {found}");
        // Negative control: neighbours that have nothing to do with the groups.
        let wrong: Vec<u32> = (0..n * 5).map(|i| ((i * 7919 + i / 5) % n) as u32).collect();
        let found = purity(&embed(&quick(), &LayoutInput { neighbours: &wrong, ..input }), &classes);
        assert!(found < 0.5, "{n}: negative control must fail: {found}");
    }
}

#[test]
fn neighbours_of_the_caller_are_used() {
    let (latents, _) = blobs(300, 3, 4);
    let input = LayoutInput { latents: &latents, n_latents: 3, ..LayoutInput::default() };
    let neighbours = search(&latents, 3, 15, &mut Progress { report: &mut |_| true }).unwrap();
    let given = LayoutInput { neighbours: &neighbours, ..input };
    assert_eq!(embed(&quick(), &input), embed(&quick(), &given));
}

#[test]
fn few_rows_are_apart() {
    for n in 0..=6 {
        let (latents, _) = blobs(n, 3, 2);
        let points = embed(
            &Layout::default(),
            &LayoutInput { latents: &latents, n_latents: 3, ..LayoutInput::default() },
        );
        assert_eq!(points.len(), n);
        assert_apart(&points);
    }
}

/// Equal rows share a location, and each has its own position.
#[test]
fn equal_rows_are_together_but_apart() {
    let equal = vec![2.5f32; 5000 * 2];
    let input = LayoutInput { latents: &equal, n_latents: 2, ..LayoutInput::default() };
    assert_apart(&embed(&quick(), &input));
    let (mut latents, _) = blobs(900, 3, 5);
    for row in 1..300 {
        latents.copy_within(0..3, 3 * row);
    }
    let points = embed(&quick(), &LayoutInput { latents: &latents, n_latents: 3, ..LayoutInput::default() });
    assert_apart(&points);
    let classes: Vec<u32> = (0..900).map(|row| if row < 300 { 9 } else { row % 5 }).collect();
    assert!(purity(&points, &classes) > 0.98);
}

#[test]
fn one_column_and_constant_columns_are_fine() {
    let line: Vec<f32> = (0..3000).map(|i| i as f32).collect();
    assert_apart(&embed(&quick(), &LayoutInput { latents: &line, n_latents: 1, ..LayoutInput::default() }));
    let (mut latents, classes) = blobs(400, 6, 3);
    latents.iter_mut().skip(2).step_by(6).for_each(|x| *x = 7.0);
    let points = embed(&quick(), &LayoutInput { latents: &latents, n_latents: 6, ..LayoutInput::default() });
    let found = purity(&points, &classes);
    assert!(found > 0.98, "{found}");
}

/// Outliers do not squeeze the others: up to values whose squares are not finite.
#[test]
fn outliers_leave_the_others_in_place() {
    for (n, far) in [(500, 1e6), (2500, 1e6), (500, 1e30), (500, f32::MAX)] {
        let (mut latents, classes) = blobs(n, 4, 3);
        latents[0] = far;
        latents[5] = -far;
        let points =
            embed(&quick(), &LayoutInput { latents: &latents, n_latents: 4, ..LayoutInput::default() });
        assert_apart(&points);
        let found = purity(&points, &classes);
        assert!(found > 0.98, "{far}: {found}");
    }
}

/// A component of ten rows in 6,000 keeps its island, and rows outside the sample are beside their own kind.
#[test]
fn a_sample_keeps_small_components() {
    let (mut latents, mut components) = blobs(6000, 4, 6);
    for row in 0..10 {
        components[row * 600] = 99;
        (0..4).for_each(|c| latents[row * 2400 + c] = 40.0 + noise(row * 4 + c));
    }
    let input = LayoutInput { latents: &latents, n_latents: 4, components: &components, neighbours: &[] };
    let layout = quick().with(|layout| layout.max_rows = 600);
    let rows = rows_to_lay_out(&latents, 4, &components, layout.max_rows);
    assert!((590..=630).contains(&rows.len()), "{}", rows.len());
    assert!((0..10).all(|row| rows.contains(&(row * 600))));
    let points = embed(&layout, &input);
    assert_apart(&points);
    assert!(purity(&points, &components) > 0.99);
}

#[test]
fn input_that_does_not_fit_is_refused() {
    let refused = |input: LayoutInput| quick().embed(&input, &mut |_| true).unwrap_err();
    let latents = [1.0, 2.0, 3.0, f32::NAN];
    let input = LayoutInput { latents: &latents, n_latents: 2, ..LayoutInput::default() };
    assert_eq!(refused(input), LayoutError::NotFinite { row: 1 });
    assert_eq!(
        refused(LayoutInput { latents: &[f32::INFINITY], n_latents: 1, ..input }),
        LayoutError::NotFinite { row: 0 }
    );
    let finite = LayoutInput { latents: &latents[..2], n_latents: 1, ..input };
    assert_eq!(
        refused(LayoutInput { neighbours: &[1, 2], ..finite }),
        LayoutError::NoSuchNeighbour { row: 1 }
    );
    let wrong = [
        LayoutInput { n_latents: 0, ..input },
        LayoutInput { n_latents: 3, ..input },
        LayoutInput { components: &[0], ..finite },
        LayoutInput { neighbours: &[0, 1, 0], ..finite },
    ];
    assert!(wrong.into_iter().all(|input| matches!(refused(input), LayoutError::Shape(_))));
}

#[test]
fn progress_grows_and_can_stop_the_layout() {
    let (latents, _) = blobs(3000, 3, 4);
    let input = LayoutInput { latents: &latents, n_latents: 3, ..LayoutInput::default() };
    let layout = quick().with(|layout| layout.max_rows = 2500);
    let mut shares = vec![0.0];
    layout.embed(&input, &mut |share| (shares.push(share), true).1).unwrap();
    assert!(shares.is_sorted() && shares.len() > 100 && shares[shares.len() - 1] <= 1.0);
    let stopped = layout.embed(&input, &mut |share| share < 0.5);
    assert_eq!(stopped, Err(LayoutError::Interrupted));
}
