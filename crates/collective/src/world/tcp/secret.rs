//! The secret of a world, and how both ends of a connection prove that they know it.

use std::{
    fmt,
    hash::{BuildHasher, Hasher, RandomState},
    hint::black_box,
    sync::Arc,
};

use millstream::groups::sha256;

/// The bytes of a block of SHA-256, as HMAC pads its key.
const BLOCK: usize = 64;

/// A random number that is used once, or a proof.
pub(super) type Token = [u8; 32];

/// A secret that all ranks of a world share. The empty one admits every rank.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct Secret(pub(crate) Arc<[u8]>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// The facts that a proof is about.
#[derive(Clone, Copy)]
pub(super) struct Facts {
    pub(super) size: usize,
    pub(super) rank: usize,
    /// The random numbers of rank 0 and of the other rank.
    pub(super) nonces: [Token; 2],
}

impl Facts {
    /// Returns the proof of one end: HMAC-SHA-256 of the facts. `by` differs between the ends, so
    /// that neither can send the other's proof back.
    pub(super) fn prove(&self, secret: &Secret, by: &[u8]) -> Token {
        let numbers = [self.size as u64, self.rank as u64].map(u64::to_le_bytes);
        let text = [by, &numbers.concat(), &self.nonces.concat()].concat();
        hmac(&sha256(&secret.0), &text)
    }
}

/// Compares two proofs in a time that does not depend on where they differ.
pub(super) fn is_same(one: &Token, other: &Token) -> bool {
    let difference = one
        .iter()
        .zip(other)
        .fold(0, |all, (a, b)| black_box(all | (a ^ b)));
    black_box(difference) == 0
}

/// Returns a number that no connection has used, from the random keys that the system gives the
/// standard library.
pub(super) fn nonce() -> Token {
    let mut token = [0; 32];
    for part in token.chunks_exact_mut(8) {
        part.copy_from_slice(&RandomState::new().build_hasher().finish().to_le_bytes());
    }
    token
}

/// Returns the HMAC-SHA-256 of a text under a key of at most [`BLOCK`] bytes.
fn hmac(key: &[u8], text: &[u8]) -> Token {
    let mut block = [0; BLOCK];
    block[..key.len()].copy_from_slice(key);
    let inner = sha256(&[&block.map(|byte| byte ^ 0x36)[..], text].concat());
    sha256(&[&block.map(|byte| byte ^ 0x5c)[..], &inner].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cases 2 and 4 of RFC 4231.
    #[test]
    fn proofs_are_hmac_sha_256() {
        let ascending: Vec<u8> = (1..=25).collect();
        for (key, text, expected) in [
            (
                &b"Jefe"[..],
                &b"what do ya want for nothing?"[..],
                [0x5b, 0xdc, 0xc1, 0x46],
            ),
            (&ascending, &[0xcd; 50], [0x82, 0x55, 0x8a, 0x38]),
        ] {
            assert_eq!(hmac(key, text)[..4], expected);
        }
        assert!(is_same(&[7; 32], &[7; 32]) && !is_same(&[7; 32], &nonce()));
        assert_ne!(nonce(), nonce());
    }
}
