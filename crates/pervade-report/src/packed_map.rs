//! The map's arrays, quantised and packed into one compressed block.
//!
//! Arrays follow each other in the order of [`MapHeader::arrays`], each as byte planes: the most significant byte of all
//! points, then the next, which compresses better than whole numbers. Points stay in the order of the table, so that
//! a map of all rows needs no row numbers; the page sorts them along a Morton curve when it opens.

use serde::Serialize;

use crate::Map;
use crate::encode::gzip_base64;

/// What the page must know to read the block.
#[derive(Serialize)]
pub(crate) struct MapHeader<'a> {
    /// Number of points.
    n: usize,
    arrays: Vec<ArrayHeader>,
    score: Option<Scale>,
    columns: Vec<ColumnHeader<'a>>,
    has_names: bool,
}

/// One array of the block.
#[derive(Serialize)]
struct ArrayHeader {
    name: String,
    /// Bytes per point: 1, 2 or 4.
    width: usize,
}

/// How bytes 0 to 254 stand for numbers; 255 is a missing value.
#[derive(Serialize)]
struct Scale {
    low: f64,
    high: f64,
    /// Whether smaller values were set to `low`.
    clipped_low: bool,
    /// Whether larger values were set to `high`.
    clipped_high: bool,
}

#[derive(Serialize)]
struct ColumnHeader<'a> {
    name: &'a str,
    levels: &'a [String],
    /// None for levels.
    scale: Option<Scale>,
}

/// A map ready for the page.
pub(crate) struct PackedMap<'a> {
    pub(crate) header: MapHeader<'a>,
    /// The arrays, compressed, as base64.
    pub(crate) block: String,
    /// The points' names as a JSON list, compressed, as base64; empty if there are none.
    pub(crate) names: String,
    /// One more than the largest cluster index.
    pub(crate) n_clusters: usize,
}

const MISSING: u8 = 255;
const LARGEST_CLUSTER: u32 = 65_000;
const MOST_LEVELS: usize = 65_000;

/// None if there is nothing to draw: no finite point, or not one cluster per point. Points without a finite position
/// are left out, and so are lists that do not have one entry per point.
pub(crate) fn pack(map: &Map) -> Option<PackedMap<'_>> {
    let n = map.points.len();
    if map.clusters.len() != n {
        return None;
    }
    let drawable = |&i: &usize| {
        let [x, y] = map.points[i];
        x.is_finite() && y.is_finite() && map.clusters[i] <= LARGEST_CLUSTER
    };
    let kept: Vec<usize> = (0..n).filter(drawable).collect();
    let n_clusters = kept.iter().map(|&i| map.clusters[i] as usize + 1).max()?;
    let mut packer = Packer { bytes: Vec::new(), arrays: Vec::new() };
    pack_positions(&mut packer, map, &kept);
    let cluster_width = if n_clusters <= 256 { 1 } else { 2 };
    packer.push("cluster", cluster_width, kept.iter().map(|&i| map.clusters[i]));
    if map.confidence.len() == n {
        packer.push("confidence", 1, kept.iter().map(|&i| share_as_byte(map.confidence[i])));
    }
    let score = pack_numbers(&mut packer, "score", &map.scores, n, &kept);
    let columns = pack_columns(&mut packer, map, &kept);
    let names = names_block(map, &kept);
    let has_names = !names.is_empty();
    let header = MapHeader { n: kept.len(), arrays: packer.arrays, score, columns, has_names };
    Some(PackedMap { header, block: gzip_base64(&packer.bytes), names, n_clusters })
}

struct Packer {
    bytes: Vec<u8>,
    arrays: Vec<ArrayHeader>,
}

impl Packer {
    fn push(&mut self, name: &str, width: usize, values: impl Iterator<Item = u32> + Clone) {
        for plane in (0..width).rev() {
            self.bytes.extend(values.clone().map(|value| (value >> (8 * plane)) as u8));
        }
        self.arrays.push(ArrayHeader { name: name.to_string(), width });
    }
}

/// Rows and coordinates. Both axes have the same scale, and the second one points up on the screen.
fn pack_positions(packer: &mut Packer, map: &Map, kept: &[usize]) {
    let is_sample = map.rows.len() == map.points.len();
    if is_sample || kept.len() < map.points.len() {
        let row = |i: usize| if is_sample { map.rows[i] } else { i as u32 };
        let before = |j: usize| if j == 0 { 0 } else { row(kept[j - 1]) };
        // Differences of increasing numbers are small and compress well.
        packer.push("row", 4, (0..kept.len()).map(|j| row(kept[j]).wrapping_sub(before(j))));
    }
    let axis = |a: usize| kept.iter().map(move |&i| f64::from(map.points[i][a]));
    let range = |a: usize| (axis(a).fold(f64::INFINITY, f64::min), axis(a).fold(f64::NEG_INFINITY, f64::max));
    let ((left, right), (bottom, top)) = (range(0), range(1));
    let side = (right - left).max(top - bottom);
    let side = if side > 0.0 { side } else { 1.0 };
    let steps = f64::from(u16::MAX);
    let quantised = move |distance: f64| ((0.5 + distance / side) * steps).round().clamp(0.0, steps) as u32;
    let (center_x, center_y) = (f64::midpoint(left, right), f64::midpoint(bottom, top));
    packer.push("x", 2, axis(0).map(|x| quantised(x - center_x)));
    packer.push("y", 2, axis(1).map(|y| quantised(center_y - y)));
}

/// A probability in steps of 1/254; NaN is missing.
fn share_as_byte(share: f32) -> u32 {
    if share.is_nan() { u32::from(MISSING) } else { (share.clamp(0.0, 1.0) * 254.0).round() as u32 }
}

fn pack_columns<'a>(packer: &mut Packer, map: &'a Map, kept: &[usize]) -> Vec<ColumnHeader<'a>> {
    let mut headers = Vec::new();
    for column in map.columns.iter().filter(|column| column.values.len() == map.points.len()) {
        let name = format!("column {}", headers.len());
        let levels = column.levels.get(..MOST_LEVELS).unwrap_or(&column.levels);
        let scale = if levels.is_empty() {
            let scale = pack_numbers(packer, &name, &column.values, map.points.len(), kept);
            if scale.is_none() {
                continue;
            }
            scale
        } else {
            let (width, missing) = if levels.len() <= 255 { (1, 255) } else { (2, 65_535) };
            let level = |&i: &usize| {
                let value = column.values[i];
                if value >= 0.0 && (value as usize) < levels.len() { value as u32 } else { missing }
            };
            packer.push(&name, width, kept.iter().map(level));
            None
        };
        headers.push(ColumnHeader { name: &column.name, levels, scale });
    }
    headers
}

/// None, and nothing packed, if there is not one value per point or no finite one.
fn pack_numbers(packer: &mut Packer, name: &str, values: &[f32], n: usize, kept: &[usize]) -> Option<Scale> {
    if values.len() != n {
        return None;
    }
    let scale = Scale::of(kept.iter().map(|&i| values[i]))?;
    packer.push(name, 1, kept.iter().map(|&i| scale.byte(values[i])));
    Some(scale)
}

impl Scale {
    /// From the smallest value to the largest. If a few values lie far outside, the range of the others is used:
    /// one extreme row should not take all contrast from the rest.
    fn of(values: impl Iterator<Item = f32>) -> Option<Scale> {
        let mut sorted: Vec<f32> = values.filter(|value| value.is_finite()).collect();
        sorted.sort_unstable_by(f32::total_cmp);
        let (&smallest, &largest) = (sorted.first()?, sorted.last()?);
        let at = |share: f64| f64::from(sorted[((sorted.len() - 1) as f64 * share).round() as usize]);
        let (smallest, largest) = (f64::from(smallest), f64::from(largest));
        let (low, high) = (at(0.005), at(0.995));
        let spread = high - low;
        let far = |distance: f64| spread > 0.0 && distance > 0.5 * spread;
        let (clipped_low, clipped_high) = (far(low - smallest), far(largest - high));
        Some(Scale {
            low: if clipped_low { low } else { smallest },
            high: if clipped_high { high } else { largest },
            clipped_low,
            clipped_high,
        })
    }

    fn byte(&self, value: f32) -> u32 {
        if value.is_nan() {
            return u32::from(MISSING);
        }
        let spread = self.high - self.low;
        let share = if spread > 0.0 { (f64::from(value) - self.low) / spread } else { 0.5 };
        (share.clamp(0.0, 1.0) * 254.0).round() as u32
    }
}

fn names_block(map: &Map, kept: &[usize]) -> String {
    if map.names.len() != map.points.len() {
        return String::new();
    }
    let names: Vec<&str> = kept.iter().map(|&i| map.names[i].as_str()).collect();
    gzip_base64(&serde_json::to_vec(&names).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_ignores_a_few_extreme_values() {
        let mut values: Vec<f32> = (0..=1000).map(|i| i as f32).collect();
        let scale = Scale::of(values.iter().copied()).unwrap();
        assert_eq!(
            (scale.low, scale.high, scale.clipped_low, scale.clipped_high),
            (0.0, 1000.0, false, false)
        );
        assert_eq!([0.0, 500.0, 1000.0, f32::NAN].map(|value| scale.byte(value)), [0, 127, 254, 255]);
        values.push(-1e30);
        let scale = Scale::of(values.into_iter()).unwrap();
        assert!(scale.clipped_low && !scale.clipped_high && scale.low > 0.0);
        assert_eq!([-1e30, f32::NEG_INFINITY, f32::INFINITY].map(|value| scale.byte(value)), [0, 0, 254]);
    }

    #[test]
    fn equal_values_and_no_values() {
        let scale = Scale::of([3.0, 3.0, f32::NAN].into_iter()).unwrap();
        assert_eq!(scale.byte(3.0), 127);
        assert!(Scale::of([f32::NAN, f32::INFINITY].into_iter()).is_none());
    }

    #[test]
    fn points_without_a_position_are_left_out() {
        let map = Map {
            points: vec![[0.0, 0.0], [f32::NAN, 1.0], [1.0, 2.0]],
            clusters: vec![0, 5, 1],
            scores: vec![1.0; 2],
            ..Map::default()
        };
        let packed = pack(&map).unwrap();
        assert_eq!((packed.header.n, packed.n_clusters), (2, 2));
        let arrays: Vec<_> = packed.header.arrays.iter().map(|a| (a.name.as_str(), a.width)).collect();
        assert_eq!(arrays, [("row", 4), ("x", 2), ("y", 2), ("cluster", 1)]);
        assert!(packed.header.score.is_none(), "two scores for three points");
        assert!(pack(&Map { clusters: vec![0], ..map }).is_none());
        assert!(pack(&Map::default()).is_none());
    }
}
