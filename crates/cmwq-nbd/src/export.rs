//! The export: a store, and the cipher in front of it.
#![forbid(unsafe_code)]

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;

use crate::cipher::Cipher;
use crate::note::note;
use crate::protocol::{Error, Limits, Operation, Request};
use crate::ring::{Action, Ring};
use crate::store::{Extent, MemoryStore, Store, ZeroOptions};

/// Zeroes to encipher, and how many are enciphered at a time.
static ZEROES: [u8; ZERO_STEP] = [0; ZERO_STEP];
const ZERO_STEP: usize = 32 << 10;
/// Extents in one reply.
const MAX_EXTENTS: usize = 128;
/// A hole that reads as zeroes, as the metadata context says it.
const HOLE_AND_ZERO: u32 = 3;

/// What clients see as a disk: a store, and a cipher in front of it or none.
///
/// ```
/// use cmwq_nbd::{export::Export, store::MemoryStore};
///
/// let store = MemoryStore::new(64 << 20)?;
/// let export = Export::new("scratch", Box::new(store), None, false);
/// assert_eq!((export.name(), export.size()), ("scratch", 64 << 20));
/// let requests = export.requests();
/// println!("{} of {} without a work item", requests.inline, requests.all);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Export {
    name: String,
    store: Box<dyn Store>,
    cipher: Option<Cipher>,
    read_only: bool,
    /// A sync has failed.
    lost: AtomicBool,
    /// Requests so far, and how many of them readers carried out.
    requests: CachePadded<AtomicU64>,
    inline: AtomicU64,
    /// Readers that poll for their client's next request.
    pollers: AtomicUsize,
}

/// How many requests an [`Export`] has had, as in the example there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Of all clients, also those that were answered with an error.
    pub all: u64,
    /// Those that the reader of a connection carried out itself. All others were work items.
    pub inline: u64,
}

/// Data of a request that is carried out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Data {
    /// Nothing to send.
    None,
    /// The first so many bytes of the buffer.
    Buffer(usize),
    /// What was asked for lies in the store's memory as it is.
    Memory,
}

/// What comes next for a request that waits for no file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Next {
    /// The file: with the request's range and buffer, but for a sync.
    Transfer(Action),
    /// The end.
    Answer(Data),
}

/// Whether it is answered only after a sync.
fn is_durable(operation: Operation) -> bool {
    match operation {
        Operation::Flush => true,
        Operation::Write { fua } | Operation::Trim { fua } => fua,
        Operation::WriteZeroes { fua, .. } => fua,
        Operation::Read | Operation::Cache | Operation::BlockStatus { .. } => false,
    }
}

impl Export {
    /// `name` is what clients may ask for; the empty name is always this export too.
    pub fn new(name: &str, store: Box<dyn Store>, cipher: Option<Cipher>, read_only: bool) -> Self {
        Export {
            name: name.to_owned(),
            store,
            cipher,
            read_only,
            lost: AtomicBool::new(false),
            requests: CachePadded::default(),
            inline: AtomicU64::new(0),
            pollers: AtomicUsize::new(0),
        }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many requests there were.
    pub fn requests(&self) -> Requests {
        // Those inline are a part of all, and are counted later: read first, they are no more.
        let inline = self.inline.load(Ordering::Acquire);
        let all = self.requests.load(Ordering::Relaxed);
        Requests { all, inline }
    }

    /// Counts what a reader has taken from its socket.
    pub(crate) fn count(&self, some: Requests) {
        self.requests.fetch_add(some.all, Ordering::Relaxed);
        if some.inline > 0 {
            self.inline.fetch_add(some.inline, Ordering::Release);
        }
    }

    /// Runs `poll`, unless another reader does so: clients and workers need the other CPUs.
    pub(crate) fn as_poller(&self, poll: impl FnOnce()) {
        if self.pollers.fetch_add(1, Ordering::Relaxed) == 0 {
            poll();
        }
        self.pollers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether nothing may be changed.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// In bytes: whole blocks.
    pub fn size(&self) -> u64 {
        let size = self.store.size();
        size - size % u64::from(self.min_block())
    }

    /// Offsets and lengths must be multiples of it: a sector if there is a cipher.
    pub fn min_block(&self) -> u32 {
        self.cipher
            .as_ref()
            .map_or(1, |cipher| cipher.sector_size() as u32)
    }

    /// The store, if it is memory: no request ever waits for a disk then.
    pub(crate) fn memory(&self) -> Option<&MemoryStore> {
        self.store.memory()
    }

    /// Makes durable what has been written.
    pub(crate) fn sync(&self) -> io::Result<()> {
        if self.read_only {
            return Ok(());
        }
        self.synced(self.store.sync())
    }

    /// The answer to a sync that has ended. After one that failed no other succeeds: the system
    /// reports an error once, forgets what it could not write, and the next sync, perhaps another
    /// client's, finds nothing to do. (One that runs at the same time may still be answered before
    /// this is known.)
    fn synced(&self, result: io::Result<()>) -> io::Result<()> {
        match &result {
            Err(error) if !self.lost.swap(true, Ordering::Relaxed) => note(&format!(
                "a sync failed: {error}; every flush fails until the server is started again"
            )),
            Ok(()) if self.lost.load(Ordering::Relaxed) => {
                return Err(io::Error::other("an earlier sync failed"));
            }
            _ => {}
        }
        result
    }

    pub(crate) fn limits(&self, structured: bool, block_status: bool) -> Limits {
        Limits {
            size: self.size(),
            min_block: self.min_block(),
            read_only: self.read_only,
            structured,
            block_status,
        }
    }

    /// Whether carrying `operation` out needs a buffer, for what is read or to cipher into.
    pub(crate) fn needs_buffer(&self, operation: &Operation) -> bool {
        match operation {
            Operation::Read => self.cipher.is_some() || self.memory().is_none(),
            Operation::WriteZeroes { only_fast, .. } => self.cipher.is_some() && !only_fast,
            Operation::BlockStatus { .. } => true,
            Operation::Write { .. }
            | Operation::Flush
            | Operation::Trim { .. }
            | Operation::Cache => false,
        }
    }

    /// Whether there is a way to write zeroes without writing them out. Ciphered zeroes look like
    /// any other data.
    pub(crate) fn has_fast_zeroes(&self) -> bool {
        !self.read_only && self.cipher.is_none() && self.store.has_fast_zeroes()
    }

    /// The io_uring of a connection with so many slots, if the store's file is used that way.
    pub(crate) fn ring(&self, places: usize) -> io::Result<Option<Ring>> {
        let file = self.store.file_for_ring();
        file.map(|file| Ring::new(file, places)).transpose()
    }

    /// Carries a valid request out. `buffer` holds what is to be written; it is as long as the
    /// request's payload, or else as what is read, or at least [`ZERO_STEP`].
    pub(crate) fn execute(
        &self,
        request: &Request,
        operation: Operation,
        buffer: &mut [u8],
    ) -> Result<Data, Error> {
        let data = self.carry_out(request, operation, buffer)?;
        if is_durable(operation) {
            self.sync()?;
        }
        Ok(data)
    }

    /// Reads what is stored, as it is, if that needs no waiting. `true`: it is done, and
    /// [`proceed`](Self::proceed) comes next.
    pub(crate) fn read_at_once(&self, request: &Request, buffer: &mut [u8]) -> bool {
        self.store.read_at_once(request.offset, buffer)
    }

    /// Whether a write hardly waits for the disk.
    pub(crate) fn writes_into_cache(&self) -> bool {
        self.store.writes_into_cache()
    }

    /// As [`execute`](Self::execute), but stops where it would have to wait for a file. What the
    /// page cache answers or takes is done here: by way of the ring it would cost another item and
    /// two switches of threads.
    pub(crate) fn begin(
        &self,
        request: &Request,
        operation: Operation,
        buffer: &mut [u8],
    ) -> Result<Next, Error> {
        match operation {
            Operation::Read => match self.read_at_once(request, buffer) {
                true => self.proceed((Action::Read, Ok(())), request, operation, buffer),
                false => Ok(Next::Transfer(Action::Read)),
            },
            Operation::Write { .. } => {
                if let Some(cipher) = &self.cipher {
                    cipher.encryptor().in_place(request.offset, buffer)?;
                }
                match self.store.write_at_once(request.offset, buffer) {
                    Some(end) => self.proceed((Action::Write, end), request, operation, buffer),
                    None => Ok(Next::Transfer(Action::Write)),
                }
            }
            // These may wait.
            _ => {
                let data = self.carry_out(request, operation, buffer)?;
                Ok(self.sync_or_answer(operation, data))
            }
        }
    }

    /// Goes on with a request whose `action` has ended.
    pub(crate) fn proceed(
        &self,
        (action, result): (Action, io::Result<()>),
        request: &Request,
        operation: Operation,
        buffer: &mut [u8],
    ) -> Result<Next, Error> {
        match action {
            Action::Sync => self.synced(result)?,
            Action::Read | Action::Write => result?,
        }
        match action {
            Action::Read => {
                if let Some(cipher) = &self.cipher {
                    cipher.decryptor().in_place(request.offset, buffer)?;
                }
                Ok(Next::Answer(Data::Buffer(buffer.len())))
            }
            Action::Write => Ok(self.sync_or_answer(operation, Data::None)),
            Action::Sync => Ok(Next::Answer(Data::None)),
        }
    }

    fn sync_or_answer(&self, operation: Operation, data: Data) -> Next {
        if is_durable(operation) && !self.read_only {
            Next::Transfer(Action::Sync)
        } else {
            Next::Answer(data)
        }
    }

    /// All but the sync.
    fn carry_out(
        &self,
        request: &Request,
        operation: Operation,
        buffer: &mut [u8],
    ) -> Result<Data, Error> {
        let (offset, length) = (request.offset, u64::from(request.length));
        match operation {
            Operation::Read => return self.read(offset, request.length as usize, buffer),
            Operation::BlockStatus { one } => {
                return Ok(self.block_status(offset, length, one, buffer));
            }
            Operation::Cache => self.store.prefetch(offset, length),
            Operation::Flush => {}
            Operation::Write { .. } => self.write(offset, buffer)?,
            Operation::Trim { .. } => self.store.trim(offset, length)?,
            Operation::WriteZeroes {
                may_trim,
                only_fast,
                ..
            } => {
                let options = ZeroOptions {
                    may_trim,
                    only_fast,
                };
                self.write_zeroes(offset, length, options, buffer)?;
            }
        }
        Ok(Data::None)
    }

    fn read(&self, offset: u64, length: usize, buffer: &mut [u8]) -> Result<Data, Error> {
        match (self.store.memory(), &self.cipher) {
            (Some(_), None) => return Ok(Data::Memory),
            (Some(memory), Some(cipher)) => {
                let mut sectors = cipher.decryptor();
                memory.read_with(offset, length, |at, piece| {
                    let to = &mut buffer[at..at + piece.len()];
                    sectors.copy(offset + at as u64, piece, to)
                })?;
            }
            (None, cipher) => {
                let buffer = &mut buffer[..length];
                self.store.read(offset, buffer)?;
                if let Some(cipher) = cipher {
                    cipher.decryptor().in_place(offset, buffer)?;
                }
            }
        }
        Ok(Data::Buffer(length))
    }

    fn write(&self, offset: u64, data: &mut [u8]) -> io::Result<()> {
        match (self.store.memory(), &self.cipher) {
            (Some(memory), Some(cipher)) => {
                let mut sectors = cipher.encryptor();
                memory.write_with(offset, data.len(), |at, piece| {
                    sectors.copy(offset + at as u64, &data[at..at + piece.len()], piece)
                })
            }
            (None, Some(cipher)) => {
                cipher.encryptor().in_place(offset, data)?;
                self.store.write(offset, data)
            }
            (_, None) => self.store.write(offset, data),
        }
    }

    fn write_zeroes(
        &self,
        offset: u64,
        length: u64,
        options: ZeroOptions,
        buffer: &mut [u8],
    ) -> io::Result<()> {
        let Some(cipher) = &self.cipher else {
            return self.store.zero(offset, length, options);
        };
        if options.only_fast {
            return Err(io::ErrorKind::Unsupported.into());
        }
        // Ciphered zeroes look like any other data.
        let mut at = offset;
        while at < offset + length {
            let n = (offset + length - at).min(ZERO_STEP as u64) as usize;
            cipher
                .encryptor()
                .copy(at, &ZEROES[..n], &mut buffer[..n])?;
            self.store.write(at, &buffer[..n])?;
            at += n as u64;
        }
        Ok(())
    }

    fn block_status(&self, offset: u64, length: u64, one: bool, buffer: &mut [u8]) -> Data {
        let most = if one { 1 } else { MAX_EXTENTS };
        let mut used = 0;
        let mut at = offset;
        for descriptor in buffer.chunks_exact_mut(8).take(most) {
            let left = offset + length - at;
            if left == 0 {
                break;
            }
            let extent = if self.cipher.is_some() {
                // A hole does not decipher to zeroes.
                Extent {
                    length: left,
                    hole: false,
                }
            } else {
                self.store.extent(at, left)
            };
            let flags = if extent.hole { HOLE_AND_ZERO } else { 0 };
            // At most the request's length, which has 32 bits.
            descriptor[..4].copy_from_slice(&(extent.length as u32).to_be_bytes());
            descriptor[4..].copy_from_slice(&flags.to_be_bytes());
            used += 8;
            at += extent.length;
        }
        Data::Buffer(used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::command;

    /// The actions on the file in turn, until the answer.
    fn actions(export: &Export, operation: Operation) -> Vec<Action> {
        let request = Request {
            command: command::WRITE,
            flags: 0,
            cookie: 0,
            offset: 0,
            length: 512,
        };
        let mut buffer = vec![0; ZERO_STEP];
        let mut done = vec![];
        let mut next = export.begin(&request, operation, &mut buffer[..512]);
        while let Next::Transfer(action) = next.unwrap() {
            done.push(action);
            next = export.proceed((action, Ok(())), &request, operation, &mut buffer[..512]);
        }
        done
    }

    #[test]
    fn what_must_be_durable_ends_with_a_sync() {
        use Action::{Read, Sync, Write};
        let store = || Box::new(MemoryStore::new(4096).unwrap());
        let export = Export::new("disk", store(), None, false);
        let zeroes = |fua| Operation::WriteZeroes {
            fua,
            may_trim: true,
            only_fast: false,
        };
        let cases: [(Operation, &[Action]); 9] = [
            (Operation::Read, &[Read]),
            (Operation::Write { fua: false }, &[Write]),
            (Operation::Write { fua: true }, &[Write, Sync]),
            (Operation::Flush, &[Sync]),
            (Operation::Trim { fua: false }, &[]),
            (Operation::Trim { fua: true }, &[Sync]),
            (zeroes(false), &[]),
            (zeroes(true), &[Sync]),
            (Operation::Cache, &[]),
        ];
        for (operation, expected) in cases {
            assert_eq!(actions(&export, operation), expected, "{operation:?}");
        }
        let read_only = Export::new("disk", store(), None, true);
        assert_eq!(actions(&read_only, Operation::Flush), []);
    }

    #[test]
    fn by_io_uring_too_no_sync_succeeds_after_one_that_failed() {
        let store = Box::new(MemoryStore::new(4096).unwrap());
        let export = Export::new("disk", store, None, false);
        let flush = Request {
            command: command::FLUSH,
            flags: 0,
            cookie: 0,
            offset: 0,
            length: 0,
        };
        let ends_with = |result| {
            let ended = (Action::Sync, result);
            let next = export.proceed(ended, &flush, Operation::Flush, &mut []);
            next.map(|_| ())
        };
        assert_eq!(ends_with(Ok(())), Ok(()));
        let full = io::ErrorKind::StorageFull;
        assert_eq!(ends_with(Err(full.into())), Err(Error::NoSpace));
        assert_eq!(ends_with(Ok(())), Err(Error::Io));
        assert!(export.sync().is_err(), "the server's last");
    }
}
