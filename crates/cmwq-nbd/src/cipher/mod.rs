//! AES-XTS by sectors, as dm-crypt's `aes-xts-plain64` lays them out.
//!
//! Each sector is enciphered by itself. Its initial vector is its number, little endian, in 16
//! bytes, counted in units of 512 bytes whatever the sector size (as dm-crypt does unless told
//! otherwise). The cipher is the library AWS-LC, which uses the widest AES instructions that the
//! CPU has.

mod evp;
mod xts_128;

use std::io;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

use crossbeam_utils::CachePadded;

use self::evp::Context;
use self::xts_128::Xts128;
use crate::key::{Key, KeyError};

/// Initial vectors count in this unit.
const VECTOR_UNIT: u64 = 512;
/// Initial vectors that are made together, before the first is used. The library loads each as a
/// whole: right after the two halves were stored, a load would wait for both.
const GROUP: usize = 8;

/// Enciphers and deciphers sectors with a key, for any number of threads at the same time. Its
/// memory is wiped when it is dropped.
///
/// ```
/// use cmwq_nbd::{cipher::Cipher, key::Key};
///
/// let bytes: Vec<u8> = (0..64).collect(); // of a real key: random
/// let key = Key::new(&bytes)?;
/// let cipher = Cipher::new(&key, 4096, 1)?;
/// let (text, mut stored, mut back) = ([7; 4096], [0; 4096], [0; 4096]);
/// cipher.encryptor().copy(0, &text, &mut stored)?;
/// cipher.decryptor().copy(0, &stored, &mut back)?;
/// assert!(stored != text && back == text);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Cipher {
    /// Two threads cannot use one of the library's contexts at a time. There are several, and a
    /// thread takes a free one.
    contexts: Box<[CachePadded<Mutex<Contexts>>]>,
    sector_size: usize,
}

struct Contexts {
    encrypt: Direction,
    decrypt: Direction,
}

enum Direction {
    Bits256(Box<Xts128>),
    Bits512(Context),
}

impl Direction {
    fn new(key: &Key, encrypts: bool) -> Result<Self, KeyError> {
        match (key.bytes().first_chunk(), key.bytes().first_chunk()) {
            (_, Some(long)) => Ok(Direction::Bits512(Context::xts_256(long, encrypts)?)),
            (Some(short), None) => {
                let mode = Box::new(Xts128::new(short, encrypts)?);
                Ok(Direction::Bits256(mode))
            }
            (None, None) => unreachable!("a key has one of two lengths"),
        }
    }
}

impl Cipher {
    /// `sector_size` is 512 or 4096; `threads`: how many are expected to use it at the same time.
    ///
    /// # Errors
    /// A key that the library refuses.
    ///
    /// # Panics
    /// If `sector_size` is another.
    pub fn new(key: &Key, sector_size: usize, threads: usize) -> Result<Cipher, KeyError> {
        assert!(
            [512, 4096].contains(&sector_size),
            "sector size {sector_size}: must be 512 or 4096"
        );
        let contexts = (0..threads.max(1))
            .map(|_| {
                Ok(CachePadded::new(Mutex::new(Contexts {
                    encrypt: Direction::new(key, true)?,
                    decrypt: Direction::new(key, false)?,
                })))
            })
            .collect::<Result<_, KeyError>>()?;
        Ok(Cipher {
            contexts,
            sector_size,
        })
    }

    /// Sectors are 512 or 4096 bytes.
    pub fn sector_size(&self) -> usize {
        self.sector_size
    }

    fn contexts(&self) -> MutexGuard<'_, Contexts> {
        // Threads of different CPUs start at different contexts; two users on one CPU are rare.
        let first = rustix::thread::sched_getcpu();
        for nth in 0..self.contexts.len() {
            if let Ok(free) = self.contexts[(first + nth) % self.contexts.len()].try_lock() {
                return free;
            }
        }
        // No code panics while it holds a context.
        self.contexts[first % self.contexts.len()]
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Enciphers many pieces, for one request.
    pub fn encryptor(&self) -> Sectors<'_> {
        Sectors {
            contexts: self.contexts(),
            encrypts: true,
            sector_size: self.sector_size,
        }
    }

    /// Deciphers many pieces, for one request.
    pub fn decryptor(&self) -> Sectors<'_> {
        Sectors {
            encrypts: false,
            ..self.encryptor()
        }
    }
}

/// Enciphers, or deciphers, the sectors of one request: one direction of a [`Cipher`], held by one
/// thread.
///
/// ```
/// use cmwq_nbd::{cipher::Cipher, key::Key};
///
/// let bytes: Vec<u8> = (0..64).collect(); // of a real key: random
/// let key = Key::new(&bytes)?;
/// let cipher = Cipher::new(&key, 512, 1)?;
/// let mut request = [7; 1024];
/// let mut sectors = cipher.encryptor();
/// sectors.in_place(4096, &mut request[..512])?;
/// sectors.in_place(4608, &mut request[512..])?;
/// assert!(request[..512] != request[512..], "each sector is enciphered by its place");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Sectors<'a> {
    contexts: MutexGuard<'a, Contexts>,
    encrypts: bool,
    sector_size: usize,
}

impl Sectors<'_> {
    /// Reads `from`, which lies at `offset` on the device, and writes `to`, which is as long.
    /// Offset and length are whole sectors.
    ///
    /// # Errors
    /// If the library fails, which it has no reason to.
    ///
    /// # Panics
    /// If the lengths differ or are no whole sectors.
    pub fn copy(&mut self, offset: u64, from: &[u8], to: &mut [u8]) -> io::Result<()> {
        assert_eq!(from.len(), to.len());
        self.each(offset, from.len(), |direction, vectors, group, size| {
            let (from, to) = (&from[group.clone()], &mut to[group]);
            match direction {
                Direction::Bits512(context) => {
                    let sectors = from.chunks_exact(size).zip(to.chunks_exact_mut(size));
                    for ((from, to), vector) in sectors.zip(vectors) {
                        context.set_vector(vector)?;
                        // SAFETY: two slices of one length, one of them borrowed exclusively.
                        unsafe { context.update(from.as_ptr(), to.as_mut_ptr(), size)? };
                    }
                    Ok(())
                }
                Direction::Bits256(mode) => {
                    to.copy_from_slice(from);
                    mode.sectors(vectors, to)
                }
            }
        })
    }

    /// As [`copy`](Self::copy), in place.
    ///
    /// # Errors
    /// As [`copy`](Self::copy).
    ///
    /// # Panics
    /// As [`copy`](Self::copy).
    pub fn in_place(&mut self, offset: u64, data: &mut [u8]) -> io::Result<()> {
        self.each(offset, data.len(), |direction, vectors, group, size| {
            let group = &mut data[group];
            match direction {
                Direction::Bits512(context) => {
                    for (sector, vector) in group.chunks_exact_mut(size).zip(vectors) {
                        context.set_vector(vector)?;
                        let start = sector.as_mut_ptr();
                        // SAFETY: borrowed exclusively; in place is allowed.
                        unsafe { context.update(start, start, size)? };
                    }
                    Ok(())
                }
                Direction::Bits256(mode) => mode.sectors(vectors, group),
            }
        })
    }

    /// Calls `f` with the initial vectors of some sectors, their place in the range, and the size of each.
    fn each(
        &mut self,
        offset: u64,
        length: usize,
        mut f: impl FnMut(&mut Direction, &[[u8; 16]], Range<usize>, usize) -> io::Result<()>,
    ) -> io::Result<()> {
        let size = self.sector_size;
        let mut vectors = self.vectors(offset, length);
        let direction = self.direction();
        for start in (0..length).step_by(GROUP * size) {
            let ready: [_; GROUP] = std::array::from_fn(|_| vectors.next().unwrap_or_default());
            let end = length.min(start + GROUP * size);
            f(direction, &ready[..(end - start) / size], start..end, size)?;
        }
        Ok(())
    }

    fn direction(&mut self) -> &mut Direction {
        if self.encrypts {
            &mut self.contexts.encrypt
        } else {
            &mut self.contexts.decrypt
        }
    }

    /// The initial vectors of a range's sectors.
    fn vectors(&self, offset: u64, length: usize) -> impl Iterator<Item = [u8; 16]> + use<> {
        let size = self.sector_size as u64;
        assert!(
            (length as u64).is_multiple_of(size) && offset.is_multiple_of(size),
            "{length} bytes at {offset} are no whole sectors of {size}"
        );
        (offset / VECTOR_UNIT..)
            .step_by((size / VECTOR_UNIT) as usize)
            .map(|number| u128::from(number).to_le_bytes())
    }
}
