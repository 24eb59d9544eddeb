//! AES-128-XTS, which the library does not have as a whole: its AES-128 in the mode of IEEE 1619.
//!
//! Block j of a sector is xored with a tweak before and after it is ciphered. The first tweak is the ciphered vector, and each
//! next one the one before times α in GF(2^128), which is a shift.

use std::io;

use zeroize::Zeroize;

use super::evp::Context;
use crate::key::KeyError;

const BLOCK: usize = 16;
/// Blocks of the longest sector.
const MAX_BLOCKS: usize = 4096 / BLOCK;
/// x^128 = x^7 + x^2 + x + 1.
const REDUCTION: u128 = 0x87;

/// One direction of a key.
pub(super) struct Xts128 {
    data: Context,
    /// Tweaks are enciphered in both directions.
    tweak: Context,
    tweaks: [u128; MAX_BLOCKS],
}

impl Xts128 {
    pub(super) fn new(key: &[u8; 32], encrypts: bool) -> Result<Self, KeyError> {
        let (data, tweak) = key.split_first_chunk().expect("longer than a half");
        let tweak = tweak.first_chunk().expect("the other half");
        Ok(Xts128 {
            data: Context::ecb_128(data, encrypts)?,
            tweak: Context::ecb_128(tweak, true)?,
            tweaks: [0; MAX_BLOCKS],
        })
    }

    /// Ciphers one sector in place.
    pub(super) fn sector(&mut self, vector: [u8; BLOCK], sector: &mut [u8]) -> io::Result<()> {
        let mut first = vector;
        let start = first.as_mut_ptr();
        // SAFETY: a block, in place.
        unsafe { self.tweak.update(start, start, BLOCK)? };
        let mut tweak = u128::from_le_bytes(first);
        let tweaks = &mut self.tweaks[..sector.len() / BLOCK];
        for each in tweaks.iter_mut() {
            *each = tweak;
            tweak = (tweak << 1) ^ (REDUCTION & (tweak >> 127).wrapping_neg());
        }
        xor(sector, tweaks);
        let start = sector.as_mut_ptr();
        // SAFETY: whole blocks, in place.
        unsafe { self.data.update(start, start, sector.len())? };
        xor(sector, tweaks);
        Ok(())
    }
}

fn xor(sector: &mut [u8], tweaks: &[u128]) {
    let (blocks, _) = sector.as_chunks_mut::<BLOCK>();
    for (block, tweak) in blocks.iter_mut().zip(tweaks) {
        *block = (u128::from_le_bytes(*block) ^ tweak).to_le_bytes();
    }
}

impl Drop for Xts128 {
    fn drop(&mut self) {
        self.tweaks.zeroize();
    }
}
