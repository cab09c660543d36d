//! Made-up parts of reports.

use pervade_report::*;

/// SplitMix64: repeatable numbers without a dependency.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Nearly normal: a sum of uniform numbers.
    pub(crate) fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.uniform() * n as f64) as usize
    }
}

/// Islands of different sizes and shapes, the first clusters the largest.
pub(crate) fn map(n: usize, k: usize, random: &mut Random) -> Map {
    let centers: Vec<[f64; 4]> = (0..k)
        .map(|j| {
            let angle = j as f64 * 2.4;
            let radius = 3.2 * (j as f64 + 0.5).sqrt();
            [radius * angle.cos(), radius * angle.sin(), 0.6 + random.uniform(), 0.6 + random.uniform()]
        })
        .collect();
    let mut map = Map::default();
    for _ in 0..n {
        let cluster = ((random.uniform() * random.uniform().sqrt()) * k as f64) as usize;
        let [x, y, width, height] = centers[cluster];
        let (dx, dy) = (random.normal(), random.normal());
        // A curved tail makes islands less like ellipses.
        let curve = dx * dx * 0.25;
        map.points.push([(x + width * dx * 0.8) as f32, (y + height * (dy + curve) * 0.7) as f32]);
        map.clusters.push(cluster as u32);
        map.confidence
            .push((1.0 - 0.5 * random.uniform().powi(8) * (dx * dx + dy * dy) / 6.0).clamp(0.3, 1.0) as f32);
        map.scores.push((-20.0 - dx * dx - dy * dy - 3.0 * random.uniform()) as f32);
    }
    map
}

pub(crate) fn sizes(map: &Map, k: usize) -> Vec<usize> {
    let mut sizes = vec![0; k];
    for &cluster in &map.clusters {
        sizes[cluster as usize] += 1;
    }
    sizes
}

/// A histogram of a bell curve.
pub(crate) fn bell(mean: f64, sd: f64, random: &mut Random) -> Vec<f32> {
    let weights: Vec<f64> = (0..24)
        .map(|bin| {
            let z = ((f64::from(bin) + 0.5) / 24.0 - mean) / sd;
            (-0.5 * z * z).exp() * (0.85 + 0.3 * random.uniform())
        })
        .collect();
    let total: f64 = weights.iter().sum();
    weights.iter().map(|weight| (weight / total) as f32).collect()
}

pub(crate) fn number_column(name: &str, k: usize, random: &mut Random) -> Distinction {
    let (inside, outside) = (0.15 + 0.7 * random.uniform(), 0.5);
    let in_units = |share: f64| format!("{:.1}", 30.0 + 40.0 * share + k as f64);
    Distinction {
        column: name.to_string(),
        difference: (inside - outside) * 5.0,
        auc: (0.5 + (inside - outside) * 1.4).clamp(0.01, 0.99),
        inside: in_units(inside),
        outside: in_units(outside),
        distribution: Distribution::Histogram {
            range: [30.0, 70.0],
            labels: ["30".to_string(), "70".to_string()],
            inside: bell(inside, 0.09, random),
            outside: bell(outside, 0.2, random),
            generated: bell(inside + 0.01, 0.1, random),
        },
    }
}

pub(crate) fn level_column(name: &str, names: &[&str], random: &mut Random) -> Distinction {
    let mut shares = || {
        let weights: Vec<f64> = names.iter().map(|_| random.uniform().powi(3)).collect();
        let total: f64 = weights.iter().sum();
        weights.iter().map(|weight| (weight / total) as f32).collect::<Vec<f32>>()
    };
    let (inside, outside) = (shares(), shares());
    let most = |shares: &[f32]| {
        let best = (0..names.len()).max_by(|&a, &b| shares[a].total_cmp(&shares[b])).unwrap_or(0);
        format!("{} ({:.0} %)", names[best], 100.0 * shares[best])
    };
    let generated = inside.iter().zip(&outside).map(|(a, b)| 0.9 * a + 0.1 * b).collect();
    Distinction {
        column: name.to_string(),
        difference: f64::from(inside[0] - outside[0]) * 2.0,
        auc: 0.5 + 0.5 * f64::from(inside[0] - outside[0]),
        inside: most(&inside),
        outside: most(&outside),
        distribution: Distribution::Levels {
            names: names.iter().map(ToString::to_string).collect(),
            inside,
            outside,
            generated,
        },
    }
}

pub(crate) const ISLANDS: [&str; 8] =
    ["Biscoe", "Dream", "Torgersen", "Anvers", "Brabant", "Doumer", "Wiencke", "a very long island name"];
pub(crate) const MEASURES: [&str; 4] =
    ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"];

pub(crate) fn cells(random: &mut Random) -> Vec<(String, String)> {
    let mut cells: Vec<(String, String)> = Vec::new();
    for name in MEASURES {
        let value = if random.uniform() < 0.1 {
            String::new()
        } else {
            format!("{:.1}", 30.0 + 40.0 * random.uniform())
        };
        cells.push((name.to_string(), value));
    }
    cells.push(("island".to_string(), ISLANDS[random.below(3)].to_string()));
    cells.push(("sex".to_string(), ["female", "male", ""][random.below(3)].to_string()));
    cells
}

pub(crate) fn examples(n: usize, confident: bool, k: usize, random: &mut Random) -> Vec<Example> {
    let example = |_| {
        let confidence =
            if confident { 0.98 + 0.02 * random.uniform() } else { 0.4 + 0.2 * random.uniform() };
        let row = random.below(1200);
        Example {
            row: Some(row),
            name: Some(format!("N{}A{}", row / 2, row % 2 + 1)),
            confidence: Some(confidence),
            second: (!confident).then(|| (random.below(k), 1.0 - confidence - 0.02)),
            cells: cells(random),
            picture: None,
        }
    };
    (0..n).map(example).collect()
}

pub(crate) fn generated(n: usize, random: &mut Random) -> Vec<Example> {
    (0..n).map(|_| Example { cells: cells(random), ..Example::default() }).collect()
}

pub(crate) fn confidence_counts(n: usize, random: &mut Random) -> [usize; 10] {
    let mut counts = [0; 10];
    for _ in 0..n.min(5000) {
        counts[((1.0 - random.uniform().powi(6) * 0.7) * 9.99) as usize] += 1;
    }
    counts
}

pub(crate) fn overlap(k: usize, random: &mut Random) -> Overlap {
    let mut overlap = Overlap::default();
    for j in 0..k {
        let mut row: Vec<f64> = (0..k).map(|_| 0.06 * random.uniform().powi(6)).collect();
        row[j] = 0.0;
        row[j] = 1.0 - row.iter().sum::<f64>();
        overlap.mean_probabilities.push(row);
        for other in j + 1..k {
            if other == j + 1 || random.uniform() < 0.4 {
                let examples = examples(4, false, k, random);
                overlap.between.push(Between {
                    clusters: [j, other],
                    n_rows: random.below(60) + 4,
                    examples,
                });
            }
        }
    }
    overlap
}

pub(crate) fn levels(chosen: usize) -> Vec<Level> {
    let level = |clusters: usize| {
        let distance = (clusters as f64 - chosen as f64) / 10.0;
        let modularity = 0.82 - distance * distance * if distance < 0.0 { 4.0 } else { 0.4 };
        let stability = clusters.is_multiple_of(2).then_some(0.97 - distance.abs() * 0.5);
        Level { clusters, modularity, stability, chosen: clusters == chosen }
    };
    (2..=20).map(level).collect()
}

/// `per_cluster` components of each cluster, merged within the clusters first; one of them is moved afterwards.
pub(crate) fn tree(k: usize, per_cluster: usize, random: &mut Random) -> MergeTree {
    let leaf = |component: usize| Leaf {
        component,
        n_rows: 3 + random.below(400) as u64,
        cluster: if component == 1 { k - 1 } else { component / per_cluster },
    };
    let leaves: Vec<Leaf> = (0..k * per_cluster).map(leaf).collect();
    let within = (1..per_cluster).flat_map(|i| (0..k).map(move |j| (j * per_cluster, j * per_cluster + i)));
    let between = (1..k).map(|j| (0, j * per_cluster));
    let n = leaves.len();
    let merge = |(i, (a, b)): (usize, (usize, usize))| {
        let left = (n - 1 - i) as f64;
        (
            a,
            b,
            if left >= k as f64 { 0.8 - 0.5 * (left - k as f64) / n as f64 } else { 0.8 * left / k as f64 },
        )
    };
    let merges = within.chain(between).enumerate().map(merge).collect();
    MergeTree { leaves, modularity: 0.25, merges, chosen: k }
}

pub(crate) fn restarts(n: usize, random: &mut Random) -> Restarts {
    let mut ari = vec![vec![1.0; n]; n];
    for i in 0..n {
        for j in 0..i {
            ari[i][j] = 0.85 + 0.14 * random.uniform();
            ari[j][i] = ari[i][j];
        }
    }
    Restarts { ari, stability: 0.93, outcome: format!("Consensus of {n} restarts.") }
}

pub(crate) fn curves(random: &mut Random) -> Vec<Curve> {
    let mut falling = |from: f64, to: f64| -> Vec<f64> {
        (0..80)
            .map(|e| {
                to + (from - to) * (-f64::from(e) / 15.0).exp() + random.normal() * (from - to).abs() * 0.006
            })
            .collect()
    };
    let terms = vec![falling(-60.0, -21.0), falling(-58.0, -15.0), falling(-2.0, -6.0)];
    let mut live: Vec<f64> = (0..80).map(|epoch| f64::from(50 - epoch / 3)).collect();
    live[..10].fill(f64::NAN);
    vec![
        Curve {
            name: "ELBO and its terms".to_string(),
            unit: "nats per row".to_string(),
            lines: ["ELBO", "reconstruction", "minus KL"].map(String::from).to_vec(),
            values: terms,
        },
        Curve {
            name: "Live components".to_string(),
            unit: String::new(),
            lines: vec!["restart 1".to_string()],
            values: vec![live],
        },
    ]
}

pub(crate) fn provenance() -> Vec<(String, String)> {
    let items = [
        ("Command", "pervade fit penguins.csv --keep column:id --restarts 5 --report penguins.html"),
        ("Settings", "latent 10, layers 500 500 2000, epochs 300, batch 100"),
        ("Seed", "1"),
        ("Data checksum", "xxh3 5f1c9a60d2b8e437"),
        ("Version", "pervade 0.1.0"),
    ];
    items.map(|(name, value)| (name.to_string(), value.to_string())).to_vec()
}
