//! AES-128-XTS, which the library does not have as a whole: its AES-128 in the mode of IEEE 1619.
//!
//! Block j of a sector is xored with a tweak before and after it is ciphered. The first tweak is
//! the ciphered vector, and each next one the one before times α in GF(2^128), which is a shift.
//!
//! That is a chain in which each step waits for the one before. So sectors are ciphered several at
//! a time, and a long one in pieces: their chains do not wait for each other, and the library is
//! called once for all of them.

use std::io;

use zeroize::Zeroize;

use super::evp::Context;
use super::{GROUP, VECTOR_UNIT};
use crate::key::KeyError;

const BLOCK: usize = 16;
/// Bytes with a chain of their own: a short sector, or a part of a long one.
const PIECE: usize = VECTOR_UNIT as usize;
/// Blocks of a piece.
const BLOCKS: usize = PIECE / BLOCK;
/// Chains that advance in turns.
const CHAINS: usize = 4;
/// x^128 = x^7 + x^2 + x + 1.
const REDUCTION: u128 = 0x87;

/// One direction of a key.
pub(super) struct Xts128 {
    data: Context,
    /// Tweaks are enciphered in both directions.
    tweak: Context,
    tweaks: [[u128; BLOCKS]; GROUP],
}

impl Xts128 {
    pub(super) fn new(key: &[u8; 32], encrypts: bool) -> Result<Self, KeyError> {
        let (data, tweak) = key.split_first_chunk().expect("longer than a half");
        let tweak = tweak.first_chunk().expect("the other half");
        Ok(Xts128 {
            data: Context::ecb_128(data, encrypts)?,
            tweak: Context::ecb_128(tweak, true)?,
            tweaks: [[0; BLOCKS]; GROUP],
        })
    }

    /// Ciphers sectors in place, one for each vector: [`GROUP`] at most.
    pub(super) fn sectors(&mut self, vectors: &[[u8; BLOCK]], data: &mut [u8]) -> io::Result<()> {
        let mut first = [[0; BLOCK]; GROUP];
        let first = &mut first[..vectors.len()];
        first.copy_from_slice(vectors);
        let start = first.as_mut_ptr().cast();
        // SAFETY: whole blocks, in place.
        unsafe { self.tweak.update(start, start, size_of_val(first))? };
        let sector = data.len() / vectors.len();
        if sector == PIECE {
            let starts =
                std::array::from_fn(|at| first.get(at).map_or(0, |of| u128::from_le_bytes(*of)));
            return self.pieces(starts, data);
        }
        for (sector, first) in data.chunks_exact_mut(sector).zip(first) {
            let mut next = u128::from_le_bytes(*first);
            let starts = std::array::from_fn(|_| {
                let start = next;
                next = far(start);
                start
            });
            self.pieces(starts, sector)?;
        }
        Ok(())
    }

    /// Ciphers as many pieces as `data` has, each from its first tweak on.
    fn pieces(&mut self, starts: [u128; GROUP], data: &mut [u8]) -> io::Result<()> {
        let (pieces, _) = data.as_chunks_mut::<PIECE>();
        let groups = pieces
            .chunks_mut(CHAINS)
            .zip(self.tweaks.chunks_mut(CHAINS));
        for ((pieces, tweaks), starts) in groups.zip(starts.chunks(CHAINS)) {
            match (pieces, tweaks.first_chunk_mut(), starts.first_chunk()) {
                ([a, b, c, d], Some(tweaks), Some(starts)) => {
                    chains::<CHAINS>([a, b, c, d], tweaks, *starts);
                }
                (pieces, ..) => {
                    for ((piece, tweaks), start) in pieces.iter_mut().zip(tweaks).zip(starts) {
                        chains([piece], std::array::from_mut(tweaks), [*start]);
                    }
                }
            }
        }
        let start = data.as_mut_ptr();
        // SAFETY: whole blocks, in place.
        unsafe { self.data.update(start, start, data.len())? };
        let (blocks, _) = data.as_chunks_mut::<BLOCK>();
        for (block, tweak) in blocks.iter_mut().zip(self.tweaks.as_flattened()) {
            xor(block, *tweak);
        }
        Ok(())
    }
}

/// Xors pieces with their tweaks, which are kept for the second time.
fn chains<const N: usize>(
    pieces: [&mut [u8; PIECE]; N],
    tweaks: &mut [[u128; BLOCKS]; N],
    mut next: [u128; N],
) {
    let pieces = pieces.map(|piece| piece.as_chunks_mut::<BLOCK>().0);
    for at in 0..BLOCKS {
        for chain in 0..N {
            let tweak = next[chain];
            tweaks[chain][at] = tweak;
            xor(&mut pieces[chain][at], tweak);
            next[chain] = (tweak << 1) ^ (REDUCTION & (tweak >> 127).wrapping_neg());
        }
    }
}

fn xor(block: &mut [u8; BLOCK], tweak: u128) {
    *block = (u128::from_le_bytes(*block) ^ tweak).to_le_bytes();
}

/// The tweak [`BLOCKS`] later: times α to that power.
fn far(tweak: u128) -> u128 {
    let over = tweak >> (128 - BLOCKS);
    (tweak << BLOCKS) ^ over ^ (over << 1) ^ (over << 2) ^ (over << 7)
}

impl Drop for Xts128 {
    fn drop(&mut self) {
        self.tweaks.as_flattened_mut().zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_begins_where_the_one_before_ends() {
        let first = 0x8000_0000_0000_0000_dead_beef_0123_4567;
        let mut tweaks = [[0; BLOCKS]; 2];
        chains(
            [&mut [0; PIECE]],
            std::array::from_mut(&mut tweaks[0]),
            [first],
        );
        let last = tweaks[0][BLOCKS - 1];
        let next = (last << 1) ^ (REDUCTION & (last >> 127).wrapping_neg());
        assert_eq!(far(first), next);
    }
}
