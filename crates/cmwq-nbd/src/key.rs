//! The key: read from a file, never printed, kept in [locked memory](crate::secret), wiped when dropped.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::secret::Secret;

/// A key of AES-XTS: two keys of AES-128 or of AES-256, one after the other.
///
/// ```
/// use cmwq_nbd::key::Key;
///
/// let bytes: Vec<u8> = (0..64).collect(); // of a real key: random
/// let key = Key::new(&bytes)?;
/// assert_eq!(key.bits(), 512);
/// # Ok::<(), cmwq_nbd::key::KeyError>(())
/// ```
pub struct Key(Secret);

/// Why a key cannot be used. Says what was wrong and nothing of the key.
///
/// ```
/// use cmwq_nbd::key::Key;
///
/// let error = Key::new(b"secret").err().expect("it is too short");
/// assert!(error.to_string().starts_with("the key is 6 bytes long"));
/// ```
#[derive(Debug)]
pub struct KeyError(String);

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for KeyError {}

impl KeyError {
    pub(crate) fn refused(why: &str) -> Self {
        KeyError(why.to_owned())
    }
}

impl Key {
    /// Lengths in bytes: 256 and 512 bits.
    pub const LENGTHS: [usize; 2] = [32, 64];

    /// Takes a key. `bytes` is copied; wiping the original is the caller's.
    ///
    /// # Errors
    /// A length that is none of [`LENGTHS`](Self::LENGTHS), or two equal halves, with which the
    /// mode is not secure.
    pub fn new(bytes: &[u8]) -> Result<Key, KeyError> {
        let allowed = "it must be 32 bytes (256 bits) or 64 bytes (512 bits), and nothing else";
        if !Self::LENGTHS.contains(&bytes.len()) {
            return Err(KeyError(format!(
                "the key is {} bytes long: {allowed}",
                bytes.len()
            )));
        }
        let (data, tweak) = bytes.split_at(bytes.len() / 2);
        if data == tweak {
            return Err(KeyError(
                "the two halves of the key are equal: they must differ".to_owned(),
            ));
        }
        let mut key = Secret::new(bytes.len()).map_err(|error| KeyError(error.to_string()))?;
        key.copy_from_slice(bytes);
        Ok(Key(key))
    }

    /// Reads a key file: the key's bytes as they are, as `cryptsetup --key-file` does in plain mode.
    ///
    /// # Errors
    /// A file that cannot be read, or what [`new`](Self::new) refuses.
    pub fn read(path: &Path) -> Result<Key, KeyError> {
        let in_file = |what: &dyn fmt::Display| KeyError(format!("{}: {what}", path.display()));
        let file = File::open(path).map_err(|error| in_file(&error))?;
        // One more than the longest: enough to see that a file is too long, without growing, which
        // would leave copies behind.
        let most = Self::LENGTHS[1] + 1;
        let mut bytes = Secret::new(most).map_err(|error| in_file(&error))?;
        let mut len = 0;
        while len < most {
            match (&file).read(&mut bytes[len..]) {
                Ok(0) => break,
                Ok(n) => len += n,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(in_file(&error)),
            }
        }
        if len == most {
            return Err(in_file(&format_args!(
                "the key is more than 64 bytes long: it must be 32 bytes (256 bits) or 64 bytes (512 bits), and nothing else"
            )));
        }
        Key::new(&bytes[..len]).map_err(|error| in_file(&error))
    }

    /// The length in bits.
    pub fn bits(&self) -> usize {
        self.0.len() * 8
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({} bits)", self.bits())
    }
}
