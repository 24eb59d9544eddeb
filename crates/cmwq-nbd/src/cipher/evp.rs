//! The library's cipher contexts. The only code that calls it, besides [`secret`](crate::secret),
//! which has the memory.

use std::io;
use std::ptr::{self, NonNull};

use aws_lc_sys::{
    EVP_CIPHER, EVP_CIPHER_CTX, EVP_CIPHER_CTX_free, EVP_CIPHER_CTX_new,
    EVP_CIPHER_CTX_set_padding, EVP_CipherInit_ex, EVP_CipherUpdate, EVP_aes_128_ecb,
    EVP_aes_256_xts,
};

use crate::key::KeyError;

/// An expanded key and a direction. Freeing it wipes it.
pub(super) struct Context(NonNull<EVP_CIPHER_CTX>);

// SAFETY: it belongs to no thread; the library only asks that it is not used by two at a time.
unsafe impl Send for Context {}

impl Context {
    /// AES-256-XTS.
    pub(super) fn xts_256(key: &[u8; 64], encrypts: bool) -> Result<Self, KeyError> {
        // SAFETY: a static object of the library.
        Self::new(unsafe { EVP_aes_256_xts() }, key, encrypts)
    }

    /// AES-128, each block by itself.
    pub(super) fn ecb_128(key: &[u8; 16], encrypts: bool) -> Result<Self, KeyError> {
        // SAFETY: a static object of the library.
        let context = Self::new(unsafe { EVP_aes_128_ecb() }, key, encrypts)?;
        // SAFETY: initialised. Without padding no block is held back.
        unsafe { EVP_CIPHER_CTX_set_padding(context.0.as_ptr(), 0) };
        Ok(context)
    }

    /// `key` has the length that `cipher` expects.
    fn new(cipher: *const EVP_CIPHER, key: &[u8], encrypts: bool) -> Result<Self, KeyError> {
        // SAFETY: no conditions; null on failure.
        let context = NonNull::new(unsafe { EVP_CIPHER_CTX_new() })
            .map(Context)
            .ok_or_else(|| KeyError::refused("out of memory"))?;
        // SAFETY: the context is new, the key long enough; a vector, where there is one, comes later.
        let ok = unsafe {
            EVP_CipherInit_ex(
                context.0.as_ptr(),
                cipher,
                ptr::null_mut(),
                key.as_ptr(),
                ptr::null(),
                i32::from(encrypts),
            )
        };
        if ok == 1 {
            Ok(context)
        } else {
            Err(KeyError::refused("the cipher's library refuses the key"))
        }
    }

    /// The initial vector of what comes next; key and direction stay.
    pub(super) fn set_vector(&mut self, vector: &[u8; 16]) -> io::Result<()> {
        // SAFETY: initialised; the vector is copied, and no cipher here has one of more than 16 bytes.
        let ok = unsafe {
            EVP_CipherInit_ex(
                self.0.as_ptr(),
                ptr::null(),
                ptr::null_mut(),
                ptr::null(),
                vector.as_ptr(),
                -1,
            )
        };
        if ok == 1 { Ok(()) } else { Err(failed()) }
    }

    /// Reads `len` bytes, whole blocks, and writes as many.
    ///
    /// # Safety
    /// `from` is valid for reading and `to` for writing `len` bytes; they are the same or do not overlap.
    pub(super) unsafe fn update(
        &mut self,
        from: *const u8,
        to: *mut u8,
        len: usize,
    ) -> io::Result<()> {
        let Ok(expected) = i32::try_from(len) else {
            return Err(failed());
        };
        let mut done = 0;
        // SAFETY: by this function's contract.
        let ok = unsafe { EVP_CipherUpdate(self.0.as_ptr(), to, &mut done, from, expected) };
        if ok == 1 && done == expected {
            Ok(())
        } else {
            Err(failed())
        }
    }
}

fn failed() -> io::Error {
    io::Error::other("the cipher's library failed")
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: ours alone, freed once.
        unsafe { EVP_CIPHER_CTX_free(self.0.as_ptr()) };
    }
}
