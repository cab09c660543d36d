//! Counter-based random numbers (Philox 4x32-10), keyed by seed, stream and restart
//! and counted by step, row and column. The same counter gives the same number with any number of threads and
//! on any device; there is no sequence and no state.

/// The key of one stream of one restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    words: [u32; 2],
}

/// Round multipliers and key increments of Philox 4x32 (Salmon et al., 2011).
const PHILOX_M: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const PHILOX_W: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const FEISTEL_ROUNDS: u32 = 8;

impl Key {
    /// The key for `stream` of restart `restart` under the user's `seed`. Parts of a program that draw independently use
    /// different streams.
    pub fn new(seed: u64, stream: impl Into<u32>, restart: usize) -> Self {
        // One Philox call mixes all four words into 64 bits, so that neighbouring seeds give unrelated keys.
        let mixed = philox(
            [seed as u32, (seed >> 32) as u32, stream.into(), restart as u32],
            [0x7065_7276, 0x6164_6521],
        );
        Self { words: [mixed[0], mixed[1]] }
    }

    /// The key's two words, for a device with its own implementation of the generator.
    pub fn words(self) -> [u32; 2] {
        self.words
    }

    /// Four random words for the counter (`a`, `b`, `c`).
    #[inline]
    pub fn draw(self, a: u64, b: u32, c: u32) -> [u32; 4] {
        philox([a as u32, (a >> 32) as u32, b, c], self.words)
    }

    /// A number in [0, 1) with 53 random bits.
    #[inline]
    pub fn uniform(self, a: u64, b: u32, c: u32) -> f64 {
        let [x, y, ..] = self.draw(a, b, c);
        ((u64::from(x) << 21) ^ u64::from(y >> 11)) as f64 * (1.0 / 9_007_199_254_740_992.0)
    }

    /// An index below `n`.
    #[inline]
    pub fn index(self, n: usize, a: u64, b: u32, c: u32) -> usize {
        ((self.uniform(a, b, c) * n as f64) as usize).min(n - 1)
    }

    /// The image of `i` under shuffle `round` of `0..n`.
    ///
    /// A Feistel network over the next even power of two, walked until it lands below `n`: a
    /// permutation without a table, so that a device can compute any single entry.
    #[inline]
    pub fn permute(self, i: usize, n: usize, round: u64) -> usize {
        let half_bits = (usize::BITS - (n.max(2) - 1).leading_zeros()).div_ceil(2);
        let mask = (1u32 << half_bits) - 1;
        let mut index = i;
        loop {
            let (mut left, mut right) = ((index >> half_bits) as u32 & mask, index as u32 & mask);
            for step in 0..FEISTEL_ROUNDS {
                let mixed = self.draw(round, right, step)[0] & mask;
                (left, right) = (right, left ^ mixed);
            }
            index = ((left as usize) << half_bits) | right as usize;
            if index < n {
                return index;
            }
        }
    }
}

/// Philox 4x32 with ten rounds.
#[inline]
fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let low = u64::from(PHILOX_M[0]) * u64::from(counter[0]);
        let high = u64::from(PHILOX_M[1]) * u64::from(counter[2]);
        counter = [
            (high >> 32) as u32 ^ counter[1] ^ key[0],
            high as u32,
            (low >> 32) as u32 ^ counter[3] ^ key[1],
            low as u32,
        ];
        key = [key[0].wrapping_add(PHILOX_W[0]), key[1].wrapping_add(PHILOX_W[1])];
    }
    counter
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The generator's authors publish them as kat_vectors of Random123.
    #[test]
    fn philox_matches_the_published_test_vectors() {
        let zero = philox([0; 4], [0; 2]);
        assert_eq!(zero, [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        let ones = philox([u32::MAX; 4], [u32::MAX; 2]);
        assert_eq!(ones, [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        let digits_of_pi =
            philox([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]);
        assert_eq!(digits_of_pi, [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]);
    }

    #[test]
    fn permute_is_a_permutation_and_differs_by_round() {
        let key = Key::new(7, 5u32, 0);
        for n in [1, 2, 3, 10, 257, 1000] {
            let mut seen = vec![false; n];
            for i in 0..n {
                let index = key.permute(i, n, 3);
                assert!(!seen[index], "{index} twice for n = {n}");
                seen[index] = true;
            }
        }
        let fixed = (0..1000).filter(|&i| key.permute(i, 1000, 0) == key.permute(i, 1000, 1)).count();
        assert!(fixed < 10, "two shuffles share {fixed} of 1000 positions");
    }

    #[test]
    fn uniform_has_the_right_mean_and_variance() {
        let key = Key::new(1, 7u32, 0);
        let draws: Vec<f64> = (0..20_000).map(|i| key.uniform(i, 0, 0)).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|u| (u - mean).powi(2)).sum::<f64>() / draws.len() as f64;
        assert!((mean - 0.5).abs() < 0.01 && (variance - 1.0 / 12.0).abs() < 0.005);
        assert!(draws.iter().all(|&u| (0.0..1.0).contains(&u)));
    }
}
