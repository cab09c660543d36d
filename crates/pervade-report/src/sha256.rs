//! SHA-256 (FIPS 180-4), for the hashes in the page's security policy.

/// The digest of `message`.
pub(crate) fn sha256(message: &[u8]) -> [u8; 32] {
    let round_constants = round_constants();
    let mut state = initial_state();
    for block in padded(message).as_chunks::<64>().0 {
        compress(&mut state, block, &round_constants);
    }
    let mut digest = [0; 32];
    for (bytes, word) in digest.as_chunks_mut::<4>().0.iter_mut().zip(state) {
        *bytes = word.to_be_bytes();
    }
    digest
}

/// The message, a one bit, zeros, and the length in bits, in whole blocks.
fn padded(message: &[u8]) -> Vec<u8> {
    let mut bytes = message.to_vec();
    bytes.push(0x80);
    bytes.resize((bytes.len() + 8).next_multiple_of(64) - 8, 0);
    bytes.extend((message.len() as u64 * 8).to_be_bytes());
    bytes
}

fn compress(state: &mut [u32; 8], block: &[u8; 64], round_constants: &[u32; 64]) {
    let mut schedule = [0_u32; 64];
    for (word, bytes) in schedule.iter_mut().zip(block.as_chunks::<4>().0) {
        *word = u32::from_be_bytes(*bytes);
    }
    for t in 16..64 {
        let (early, late) = (schedule[t - 15], schedule[t - 2]);
        let sigma0 = early.rotate_right(7) ^ early.rotate_right(18) ^ (early >> 3);
        let sigma1 = late.rotate_right(17) ^ late.rotate_right(19) ^ (late >> 10);
        schedule[t] =
            schedule[t - 16].wrapping_add(sigma0).wrapping_add(schedule[t - 7]).wrapping_add(sigma1);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for t in 0..64 {
        let sum1 = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let choice = (e & f) ^ (!e & g);
        let t1 = [sum1, choice, round_constants[t], schedule[t]].into_iter().fold(h, u32::wrapping_add);
        let sum0 = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let majority = (a & b) ^ (a & c) ^ (b & c);
        (h, g, f, e, d, c, b, a) =
            (g, f, e, d.wrapping_add(t1), c, b, a, t1.wrapping_add(sum0).wrapping_add(majority));
    }
    for (word, new) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *word = word.wrapping_add(new);
    }
}

/// First 32 bits of the fractional parts of the square roots of the first eight primes.
fn initial_state() -> [u32; 8] {
    let mut primes = primes();
    std::array::from_fn(|_| fraction_of_root(primes.next().unwrap_or(2), 2))
}

/// First 32 bits of the fractional parts of the cube roots of the first 64 primes.
fn round_constants() -> [u32; 64] {
    let mut primes = primes();
    std::array::from_fn(|_| fraction_of_root(primes.next().unwrap_or(2), 3))
}

fn primes() -> impl Iterator<Item = u128> {
    (2..).filter(|&n| (2..n).take_while(|d| d * d <= n).all(|d| n % d != 0))
}

/// floor(2^32 root(n)) mod 2^32, exactly: the largest r with r^degree <= n 2^(32 degree), by bisection.
fn fraction_of_root(n: u128, degree: u32) -> u32 {
    let target = n << (32 * degree);
    let (mut low, mut high) = (0_u128, 1 << 37);
    while high - low > 1 {
        let middle = u128::midpoint(low, high);
        if middle.pow(degree) <= target { low = middle } else { high = middle }
    }
    low as u32
}

#[cfg(test)]
mod tests {
    use super::sha256;

    fn hex(message: &[u8]) -> String {
        let bytes = sha256(message).map(|byte| format!("{byte:02x}"));
        bytes.concat()
    }

    /// The examples of FIPS 180-4, and lengths around the end of a block (from coreutils' `sha256sum`).
    #[test]
    fn known_digests() {
        assert_eq!(hex(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(hex(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(
            hex(b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
        );
        assert_eq!(hex(&[b'a'; 55]), "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
        assert_eq!(hex(&[b'a'; 64]), "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
        assert_eq!(hex(&[b'a'; 119]), "31eba51c313a5c08226adf18d4a359cfdfd8d2e816b13f4af952f7ea6584dcfb");
    }
}
