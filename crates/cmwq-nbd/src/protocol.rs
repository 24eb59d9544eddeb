//! The NBD protocol's words: numbers, the request header, what makes a request valid, and the
//! replies' headers.
//!
//! Pure functions over bytes; nothing here reads or writes a socket. All integers on the wire are big endian.

/// Sent first by the server.
pub const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// "IHAVEOPT": the server speaks newstyle; each option of the client begins with it.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Begins each reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Handshake flags, which the client answers with its own of the same value.
pub mod handshake {
    /// Options after which the handshake goes on.
    pub const FIXED_NEWSTYLE: u16 = 1;
    /// No 124 zero bytes after the answer to an old-fashioned export name.
    pub const NO_ZEROES: u16 = 2;
}

/// The export's features, sent in the handshake.
pub mod transmission {
    pub(crate) const HAS_FLAGS: u16 = 1;
    pub(crate) const READ_ONLY: u16 = 1 << 1;
    pub(crate) const SEND_FLUSH: u16 = 1 << 2;
    pub(crate) const SEND_FUA: u16 = 1 << 3;
    pub(crate) const SEND_TRIM: u16 = 1 << 5;
    pub(crate) const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub(crate) const SEND_DF: u16 = 1 << 7;
    pub(crate) const CAN_MULTI_CONN: u16 = 1 << 8;
    pub(crate) const SEND_CACHE: u16 = 1 << 10;
    pub(crate) const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Options of the handshake.
pub mod option {
    /// Choose an export and begin, without an answer that could refuse.
    pub const EXPORT_NAME: u32 = 1;
    /// End.
    pub const ABORT: u32 = 2;
    /// List the exports.
    pub const LIST: u32 = 3;
    /// Tell about an export.
    pub const INFO: u32 = 6;
    /// Choose an export and begin.
    pub const GO: u32 = 7;
    /// Replies in chunks from now on.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// Which metadata contexts there are.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Choose metadata contexts.
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Kinds of replies to an option.
pub mod option_reply {
    /// Done.
    pub const ACK: u32 = 1;
    /// One export of a list.
    pub const SERVER: u32 = 2;
    /// One piece of information about an export.
    pub const INFO: u32 = 3;
    /// One metadata context.
    pub const META_CONTEXT: u32 = 4;
    /// The option is not known here.
    pub const ERR_UNSUP: u32 = (1 << 31) + 1;
    /// The option's data make no sense.
    pub const ERR_INVALID: u32 = (1 << 31) + 3;
    /// There is no such export.
    pub const ERR_UNKNOWN: u32 = (1 << 31) + 6;
    /// The option's data are too long.
    pub const ERR_TOO_BIG: u32 = (1 << 31) + 9;
}

/// Kinds of information about an export.
pub mod info {
    /// Its size and what it can do.
    pub const EXPORT: u16 = 0;
    /// Its name.
    pub const NAME: u16 = 1;
    /// Its block sizes.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Requests.
pub mod command {
    /// Read.
    pub const READ: u16 = 0;
    /// Write; the data follow the header.
    pub const WRITE: u16 = 1;
    /// The client goes; nothing is answered.
    pub const DISCONNECT: u16 = 2;
    /// What has been answered before becomes durable.
    pub const FLUSH: u16 = 3;
    /// The contents are no longer needed.
    pub const TRIM: u16 = 4;
    /// Read ahead.
    pub const CACHE: u16 = 5;
    /// Write zeroes.
    pub const WRITE_ZEROES: u16 = 6;
    /// Which parts are holes.
    pub const BLOCK_STATUS: u16 = 7;
}

mod flag {
    pub(super) const FUA: u16 = 1;
    pub(super) const NO_HOLE: u16 = 1 << 1;
    pub(super) const DF: u16 = 1 << 2;
    pub(super) const REQ_ONE: u16 = 1 << 3;
    pub(super) const FAST_ZERO: u16 = 1 << 4;
}

const CHUNK_DONE: u16 = 1;
const CHUNK_OFFSET_DATA: u16 = 1;
const CHUNK_BLOCK_STATUS: u16 = 5;
const CHUNK_ERROR: u16 = (1 << 15) + 1;

/// The most that one request may read or write, announced as the maximum block size.
pub const MAX_PAYLOAD: u32 = 32 << 20;
/// The one metadata context.
pub const BASE_ALLOCATION: &str = "base:allocation";
/// Its number in this server's replies.
pub const BASE_ALLOCATION_ID: u32 = 1;

/// The protocol's errors, with the numbers that it fixes.
///
/// ```
/// use cmwq_nbd::protocol::Error;
///
/// let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
/// assert_eq!(Error::from(full), Error::NoSpace);
/// assert_eq!(Error::NoSpace as u32, 28); // what the client receives
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Error {
    /// Not permitted: the export is read-only.
    Perm = 1,
    /// The medium failed.
    Io = 5,
    /// Out of memory.
    NoMemory = 12,
    /// The request makes no sense.
    Invalid = 22,
    /// No space left, or a write beyond the end.
    NoSpace = 28,
    /// Cannot be done, or not fast.
    NotSupported = 95,
    /// The server is going down.
    Shutdown = 108,
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        use std::io::ErrorKind;
        match error.kind() {
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Error::Perm,
            ErrorKind::OutOfMemory => Error::NoMemory,
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                Error::NoSpace
            }
            ErrorKind::Unsupported => Error::NotSupported,
            _ => Error::Io,
        }
    }
}

/// A request as it came from a client: nothing is checked but how it begins.
///
/// ```
/// use cmwq_nbd::protocol::{Request, command};
///
/// let read = Request { command: command::READ, flags: 0, cookie: 1, offset: 0, length: 4096 };
/// assert_eq!(Request::parse(&read.encode()), Some(read));
/// assert_eq!(Request::parse(&[0; Request::SIZE]), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Which [`command`].
    pub command: u16,
    /// Its flags.
    pub flags: u16,
    /// Given back in the reply.
    pub cookie: u64,
    /// In bytes.
    pub offset: u64,
    /// In bytes.
    pub length: u32,
}

impl Request {
    /// Bytes of a header.
    pub const SIZE: usize = 28;

    /// Reads a header. `None`: it does not begin as one, and where the next one begins cannot be known.
    pub fn parse(bytes: &[u8; Self::SIZE]) -> Option<Request> {
        if be32(bytes, 0) != REQUEST_MAGIC {
            return None;
        }
        Some(Request {
            flags: be16(bytes, 4),
            command: be16(bytes, 6),
            cookie: be64(bytes, 8),
            offset: be64(bytes, 16),
            length: be32(bytes, 24),
        })
    }

    /// The header's bytes, for clients.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.command.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_be_bytes());
        bytes[24..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }

    /// Bytes of data that follow the header, whether the request is valid or not.
    pub fn payload(&self) -> u32 {
        match self.command {
            command::WRITE => self.length,
            _ => 0,
        }
    }
}

/// What a valid request asks for, from [`Limits::check`].
///
/// ```
/// use cmwq_nbd::protocol::{Limits, Operation, Request, command};
///
/// let limits = Limits {
///     size: 1 << 20,
///     min_block: 512,
///     read_only: false,
///     structured: false,
///     block_status: false,
/// };
/// let flush = Request { command: command::FLUSH, flags: 0, cookie: 1, offset: 0, length: 0 };
/// assert_eq!(limits.check(&flush), Ok(Operation::Flush));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Read.
    Read,
    /// Write, durably if `fua`.
    Write {
        /// Durable before it is answered.
        fua: bool,
    },
    /// Make what has been answered durable.
    Flush,
    /// Forget contents.
    Trim {
        /// Durable before it is answered.
        fua: bool,
    },
    /// Write zeroes.
    WriteZeroes {
        /// Durable before it is answered.
        fua: bool,
        /// May leave a hole.
        may_trim: bool,
        /// Refuse rather than write them out.
        only_fast: bool,
    },
    /// Read ahead.
    Cache,
    /// Tell holes from data.
    BlockStatus {
        /// One extent is enough.
        one: bool,
    },
}

/// What requests are checked against: the export, and what the client has chosen.
///
/// ```
/// use cmwq_nbd::protocol::{Error, Limits, Request, command};
///
/// let limits = Limits {
///     size: 1 << 20,
///     min_block: 512,
///     read_only: true,
///     structured: false,
///     block_status: false,
/// };
/// let write = Request { command: command::WRITE, flags: 0, cookie: 1, offset: 0, length: 512 };
/// assert_eq!(limits.check(&write), Err(Error::Perm));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Of the export, in bytes.
    pub size: u64,
    /// Offsets and lengths must be multiples of it.
    pub min_block: u32,
    /// Nothing may be changed.
    pub read_only: bool,
    /// The client has chosen structured replies.
    pub structured: bool,
    /// The client has chosen the metadata context.
    pub block_status: bool,
}

impl Limits {
    /// What the request asks for, or why it is refused.
    ///
    /// # Errors
    /// As the protocol says: `EPERM` for a change of a read-only export, `ENOSPC` for a write
    /// beyond the end, and `EINVAL`.
    pub fn check(&self, request: &Request) -> Result<Operation, Error> {
        let flags = request.flags;
        let has = |bit| flags & bit != 0;
        let only = |allowed: u16| {
            if flags & !allowed == 0 {
                Ok(())
            } else {
                Err(Error::Invalid)
            }
        };
        let fua = has(flag::FUA);
        match request.command {
            command::READ => {
                only(flag::FUA | if self.structured { flag::DF } else { 0 })?;
                self.range(request, Error::Invalid)?;
                self.payload(request)?;
                Ok(Operation::Read)
            }
            command::WRITE => {
                self.writable()?;
                only(flag::FUA)?;
                self.payload(request)?;
                self.range(request, Error::NoSpace)?;
                Ok(Operation::Write { fua })
            }
            command::FLUSH => {
                only(flag::FUA)?;
                if request.offset != 0 || request.length != 0 {
                    return Err(Error::Invalid);
                }
                Ok(Operation::Flush)
            }
            command::TRIM => {
                self.writable()?;
                only(flag::FUA)?;
                self.range(request, Error::Invalid)?;
                Ok(Operation::Trim { fua })
            }
            command::WRITE_ZEROES => {
                self.writable()?;
                only(flag::FUA | flag::NO_HOLE | flag::FAST_ZERO)?;
                self.range(request, Error::NoSpace)?;
                Ok(Operation::WriteZeroes {
                    fua,
                    may_trim: !has(flag::NO_HOLE),
                    only_fast: has(flag::FAST_ZERO),
                })
            }
            command::CACHE => {
                only(flag::FUA)?;
                self.range(request, Error::Invalid)?;
                Ok(Operation::Cache)
            }
            command::BLOCK_STATUS if self.block_status => {
                only(flag::FUA | flag::REQ_ONE)?;
                self.range(request, Error::Invalid)?;
                let one = has(flag::REQ_ONE);
                Ok(Operation::BlockStatus { one })
            }
            _ => Err(Error::Invalid),
        }
    }

    fn writable(&self) -> Result<(), Error> {
        if self.read_only {
            Err(Error::Perm)
        } else {
            Ok(())
        }
    }

    fn payload(&self, request: &Request) -> Result<(), Error> {
        if request.length > MAX_PAYLOAD {
            Err(Error::Invalid)
        } else {
            Ok(())
        }
    }

    fn range(&self, request: &Request, beyond: Error) -> Result<(), Error> {
        let block = u64::from(self.min_block);
        let length = u64::from(request.length);
        if length == 0 || !length.is_multiple_of(block) || !request.offset.is_multiple_of(block) {
            return Err(Error::Invalid);
        }
        match request.offset.checked_add(length) {
            Some(end) if end <= self.size => Ok(()),
            _ => Err(beyond),
        }
    }
}

/// The bytes in front of a reply's data, or all of the reply where there is none.
///
/// ```
/// use cmwq_nbd::protocol::{Error, ReplyHeader};
///
/// let refused = ReplyHeader::simple(7, Some(Error::Perm));
/// assert_eq!(refused.bytes().len(), 16);
/// assert_eq!(refused.bytes()[4..8], [0, 0, 0, 1]); // the error, big endian
/// ```
#[derive(Clone, Copy)]
pub struct ReplyHeader {
    bytes: [u8; Self::CAPACITY],
    len: u8,
}

impl ReplyHeader {
    const CAPACITY: usize = 28;

    fn new() -> Self {
        ReplyHeader {
            bytes: [0; Self::CAPACITY],
            len: 0,
        }
    }

    fn put(mut self, bytes: &[u8]) -> Self {
        let from = usize::from(self.len);
        self.bytes[from..from + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len() as u8;
        self
    }

    /// The simple reply: `error`, or 0 and then the data of a read.
    pub fn simple(cookie: u64, error: Option<Error>) -> Self {
        Self::new()
            .put(&SIMPLE_REPLY_MAGIC.to_be_bytes())
            .put(&error.map_or(0, |error| error as u32).to_be_bytes())
            .put(&cookie.to_be_bytes())
    }

    fn chunk(cookie: u64, kind: u16, length: u32) -> Self {
        Self::new()
            .put(&STRUCTURED_REPLY_MAGIC.to_be_bytes())
            .put(&CHUNK_DONE.to_be_bytes())
            .put(&kind.to_be_bytes())
            .put(&cookie.to_be_bytes())
            .put(&length.to_be_bytes())
    }

    /// The only chunk of a read's reply; `length` bytes of data follow.
    pub fn data(cookie: u64, offset: u64, length: u32) -> Self {
        Self::chunk(cookie, CHUNK_OFFSET_DATA, 8 + length).put(&offset.to_be_bytes())
    }

    /// The only chunk of a failed read's reply.
    pub fn error(cookie: u64, error: Error) -> Self {
        Self::chunk(cookie, CHUNK_ERROR, 6)
            .put(&(error as u32).to_be_bytes())
            .put(&0u16.to_be_bytes())
    }

    /// The only chunk of a reply about extents; `length` bytes of descriptors follow.
    pub fn block_status(cookie: u64, length: u32) -> Self {
        Self::chunk(cookie, CHUNK_BLOCK_STATUS, 4 + length).put(&BASE_ALLOCATION_ID.to_be_bytes())
    }

    /// What goes on the wire.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// # Panics
/// If `bytes` is shorter than `at` + 2.
pub(crate) fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// # Panics
/// If `bytes` is shorter than `at` + 4.
pub(crate) fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from(be16(bytes, at)) << 16 | u32::from(be16(bytes, at + 2))
}

/// # Panics
/// If `bytes` is shorter than `at` + 8.
pub(crate) fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from(be32(bytes, at)) << 32 | u64::from(be32(bytes, at + 4))
}
