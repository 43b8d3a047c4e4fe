//! SHA-256, also in constants: `kernels!` compares the hash of a source when a program is compiled.

/// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
const ROUND: [u32; 64] = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
];

/// The first 32 bits of the fractional parts of the square roots of the first 8 primes.
const INITIAL: [u32; 8] = [
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
];

const BLOCK: usize = 64;

/// The length of the number of bits at the end of the padding, in bytes.
const LENGTH: usize = 8;

/// Returns the SHA-256 of `bytes`.
#[must_use]
pub const fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut state = INITIAL;
    let whole = bytes.len() / BLOCK;
    let mut block = 0;
    while block < whole {
        let (_, rest) = bytes.split_at(block * BLOCK);
        let (first, _) = rest.split_at(BLOCK);
        state = compress(state, first);
        block += 1;
    }
    let (_, rest) = bytes.split_at(whole * BLOCK);
    let mut last = [0; 2 * BLOCK];
    let mut at = 0;
    while at < rest.len() {
        last[at] = rest[at];
        at += 1;
    }
    last[at] = 0x80;
    let end = if at + 1 + LENGTH <= BLOCK {
        BLOCK
    } else {
        2 * BLOCK
    };
    let bits = (bytes.len() as u64 * 8).to_be_bytes();
    let mut at = 0;
    while at < LENGTH {
        last[end - LENGTH + at] = bits[at];
        at += 1;
    }
    let (first, second) = last.split_at(BLOCK);
    state = compress(state, first);
    if end > BLOCK {
        state = compress(state, second);
    }
    let mut hash = [0; 32];
    let mut at = 0;
    while at < hash.len() {
        hash[at] = state[at / 4].to_be_bytes()[at % 4];
        at += 1;
    }
    hash
}

const fn compress(state: [u32; 8], block: &[u8]) -> [u32; 8] {
    let mut words = [0_u32; 64];
    let mut at = 0;
    while at < 16 {
        words[at] = ((block[4 * at] as u32) << 24)
            | ((block[4 * at + 1] as u32) << 16)
            | ((block[4 * at + 2] as u32) << 8)
            | block[4 * at + 3] as u32;
        at += 1;
    }
    while at < 64 {
        let (near, far) = (words[at - 15], words[at - 2]);
        let near = near.rotate_right(7) ^ near.rotate_right(18) ^ (near >> 3);
        let far = far.rotate_right(17) ^ far.rotate_right(19) ^ (far >> 10);
        words[at] = words[at - 16]
            .wrapping_add(near)
            .wrapping_add(words[at - 7])
            .wrapping_add(far);
        at += 1;
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = state;
    let mut at = 0;
    while at < 64 {
        let choice = (e & f) ^ (!e & g);
        let first = h
            .wrapping_add(e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25))
            .wrapping_add(choice)
            .wrapping_add(ROUND[at])
            .wrapping_add(words[at]);
        let majority = (a & b) ^ (a & c) ^ (b & c);
        let second =
            (a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22)).wrapping_add(majority);
        (h, g, f, e) = (g, f, e, d.wrapping_add(first));
        (d, c, b, a) = (c, b, a, first.wrapping_add(second));
        at += 1;
    }
    let [a0, b0, c0, d0, e0, f0, g0, h0] = state;
    [
        a0.wrapping_add(a),
        b0.wrapping_add(b),
        c0.wrapping_add(c),
        d0.wrapping_add(d),
        e0.wrapping_add(e),
        f0.wrapping_add(f),
        g0.wrapping_add(g),
        h0.wrapping_add(h),
    ]
}

pub(super) fn hex(hash: &[u8; 32]) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_standard() {
        for (text, expected) in [
            (
                "",
                "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            ),
            (
                "abc",
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            ),
            (
                "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
            ),
        ] {
            assert_eq!(hex(&sha256(text.as_bytes())), expected, "{text}");
        }
        let million = vec![b'a'; 1_000_000];
        assert_eq!(
            hex(&sha256(&million)),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"
        );
    }

    #[test]
    fn every_length_around_a_block_is_padded_differently() {
        let hashes: std::collections::BTreeSet<_> =
            (0..200).map(|len| sha256(&vec![0; len])).collect();
        assert_eq!(hashes.len(), 200);
        const IN_A_CONSTANT: [u8; 32] = sha256(&[0; 56]);
        assert_eq!(IN_A_CONSTANT, sha256(&[0; 56]));
    }
}
