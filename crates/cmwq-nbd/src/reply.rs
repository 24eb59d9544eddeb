//! Replies: the worker that finishes a request sends its reply, and others that are ready.
//!
//! One thread at a time sends, and also sends what becomes ready meanwhile. Requests that came in
//! one read of the socket form a batch, and their replies are sent together: the worker that
//! finishes the last one sends them. Batches are used only where no request waits for a disk, are
//! bounded in number and bytes, and have no long request.
#![forbid(unsafe_code)]

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::export::Data;
use crate::pool::{Buffer, Pool, SLOTS};
use crate::protocol::ReplyHeader;
use crate::socket::{self, Full, Piece};
use crate::store::MemoryStore;

/// The most requests in one batch.
pub(crate) const MAX_BATCH: usize = 16;
/// Ready replies of so many bytes are sent at once, even if their batch is unfinished.
const ENOUGH_BYTES: usize = 128 << 10;
/// The most replies in one system call.
const MAX_TOGETHER: usize = 32;

/// Requests that came together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Batch(u16);

impl Batch {
    /// No batch: answered at once.
    pub(crate) const NONE: Batch = Batch(u16::MAX);
}

/// The answer to one request, and what is freed when it is sent.
pub(crate) struct Reply {
    pub(crate) header: ReplyHeader,
    pub(crate) data: Payload,
    pub(crate) slot: u16,
    pub(crate) buffer: Option<Buffer>,
}

/// Where a reply's data lie.
pub(crate) enum Payload {
    None,
    /// In its buffer: the first so many bytes.
    Buffer(usize),
    /// In the store's memory.
    Memory {
        offset: u64,
        length: usize,
    },
}

impl Payload {
    pub(crate) fn new(data: Data, offset: u64, length: u32) -> Self {
        match data {
            Data::None => Payload::None,
            Data::Buffer(length) => Payload::Buffer(length),
            Data::Memory => Payload::Memory {
                offset,
                length: length as usize,
            },
        }
    }

    fn len(&self) -> usize {
        match self {
            Payload::None => 0,
            Payload::Buffer(length) | Payload::Memory { length, .. } => *length,
        }
    }
}

impl Reply {
    fn len(&self) -> usize {
        self.header.bytes().len() + self.data.len()
    }

    fn data<'a>(&'a self, memory: Option<&'a MemoryStore>) -> Piece<'a> {
        match (&self.data, &self.buffer, memory) {
            (Payload::Buffer(length), Some(buffer), _) => Piece::new(&buffer[..*length]),
            (Payload::Memory { offset, length }, _, Some(memory)) => {
                Piece::of_memory(memory, *offset, *length)
            }
            _ => Piece::EMPTY,
        }
    }
}

/// The replies of one connection that are ready.
pub(crate) struct Replies {
    state: Mutex<State>,
    /// The connection is broken: nothing can be sent any more.
    broken: AtomicBool,
}

struct State {
    ready: Vec<Reply>,
    ready_bytes: usize,
    /// Bytes of the first ready reply that are sent already.
    begun: usize,
    /// Empty; swapped with `ready`.
    spare: Vec<Reply>,
    sending: bool,
    /// Ready replies must be sent now.
    due: bool,
    /// Requests of each batch that are not finished.
    unfinished: Box<[u16]>,
    next_batch: u16,
}

impl Replies {
    pub(crate) fn new() -> Self {
        Replies {
            state: Mutex::new(State {
                ready: Vec::with_capacity(SLOTS),
                ready_bytes: 0,
                begun: 0,
                spare: Vec::with_capacity(SLOTS),
                sending: false,
                due: false,
                unfinished: vec![0; SLOTS].into(),
                next_batch: 0,
            }),
            broken: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a reply could not be sent: no client will get any other.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    /// Opens a batch of `requests`, all of which will be finished.
    pub(crate) fn open_batch(&self, requests: usize) -> Batch {
        let mut state = self.lock();
        let next = state.next_batch;
        state.next_batch = (next + 1) % SLOTS as u16;
        match &mut state.unfinished[usize::from(next)] {
            left @ 0 => {
                *left = requests as u16;
                Batch(next)
            }
            // The number's last batch is unfinished.
            _ => Batch::NONE,
        }
    }

    /// Takes the reply of a finished request, and sends what is due and what the socket takes.
    /// `false`: it is full, and some thread must call [`send_due`](Self::send_due) and wait.
    pub(crate) fn finish(&self, reply: Reply, batch: Batch, to: &Client<'_>) -> bool {
        let mut state = self.lock();
        let ends_batch = match state.unfinished.get_mut(usize::from(batch.0)) {
            Some(left) => {
                *left -= 1;
                *left == 0
            }
            None => true,
        };
        let running = Some(reply.slot);
        state.ready_bytes += reply.data.len();
        state.ready.push(reply);
        state.due |=
            ends_batch || state.ready_bytes >= ENOUGH_BYTES || state.ready.len() >= MAX_TOGETHER;
        self.send(state, running, Full::Return, to)
    }

    /// Sends what is due, and waits for the client where it must.
    pub(crate) fn send_due(&self, to: &Client<'_>) {
        self.send(self.lock(), None, Full::Wait, to);
    }

    /// `running`: the slot whose item the caller runs. It becomes free last: while there is more
    /// and more to send the item does not end, and the next request of the slot, queued meanwhile,
    /// would wait for that.
    fn send<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        running: Option<u16>,
        full: Full,
        to: &Client<'_>,
    ) -> bool {
        if state.sending {
            return true;
        }
        state.sending = true;
        let (mut is_kept, mut is_sent) = (false, true);
        while state.due {
            state.due = false;
            state.ready_bytes = 0;
            let spare = std::mem::take(&mut state.spare);
            let mut replies = std::mem::replace(&mut state.ready, spare);
            let begun = state.begun;
            drop(state);
            let sent = match self.is_broken() {
                true => None,
                false => send_all(&replies, begun, full, to).ok(),
            };
            let (sent, begun) = sent.unwrap_or_else(|| {
                self.broken.store(true, Ordering::Relaxed);
                // Wakes the reader, which ends the connection.
                let _ = rustix::net::shutdown(to.socket, rustix::net::Shutdown::Both);
                (replies.len(), 0)
            });
            to.pool.give_back(replies.drain(..sent).map(|reply| {
                let is_running = Some(reply.slot) == running;
                is_kept |= is_running;
                ((!is_running).then_some(reply.slot), reply.buffer)
            }));
            state = self.lock();
            state.begun = begun;
            if !replies.is_empty() {
                // What became ready meanwhile follows it.
                replies.append(&mut state.ready);
                state.ready_bytes = replies.iter().map(|reply| reply.data.len()).sum();
                state.due = true;
                state.spare = std::mem::replace(&mut state.ready, replies);
                is_sent = false;
                break;
            }
            state.spare = replies;
        }
        state.sending = false;
        drop(state);
        if is_kept {
            to.pool.give_back(std::iter::once((running, None)));
        }
        is_sent
    }
}

/// Where replies go, and what is freed by sending them.
pub(crate) struct Client<'a> {
    pub(crate) socket: BorrowedFd<'a>,
    pub(crate) memory: Option<&'a MemoryStore>,
    pub(crate) pool: &'a Pool,
}

/// Sends replies, the first one without the bytes of it that were sent before. Returns how many are
/// sent as a whole, and how many bytes of the next one.
fn send_all(
    replies: &[Reply],
    mut begun: usize,
    full: Full,
    to: &Client<'_>,
) -> std::io::Result<(usize, usize)> {
    for (nth, some) in replies.chunks(MAX_TOGETHER).enumerate() {
        let mut pieces = [Piece::EMPTY; 2 * MAX_TOGETHER];
        for (pair, reply) in pieces.chunks_exact_mut(2).zip(some) {
            pair[0] = Piece::new(reply.header.bytes());
            pair[1] = reply.data(to.memory);
        }
        let pieces = &mut pieces[..2 * some.len()];
        socket::skip(pieces, begun);
        let mut sent = begun + socket::send(to.socket, pieces, full)?;
        for (before, reply) in some.iter().enumerate() {
            if sent < reply.len() {
                return Ok((nth * MAX_TOGETHER + before, sent));
            }
            sent -= reply.len();
        }
        begun = 0;
    }
    Ok((replies.len(), 0))
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// A reply with data of `slot`'s number, in a buffer.
    fn reply(slot: u16, pool: &Pool) -> Reply {
        let mut buffer = pool.small();
        buffer[..8192].fill(slot as u8);
        Reply {
            header: ReplyHeader::simple(slot.into(), None),
            data: Payload::Buffer(8192),
            slot,
            buffer: Some(buffer),
        }
    }

    #[test]
    fn replies_that_a_full_socket_refuses_are_sent_later_from_where_they_were_cut() {
        let (socket, mut other) = UnixStream::pair().unwrap();
        rustix::net::sockopt::set_socket_send_buffer_size(&socket, 4096).unwrap();
        let (pool, replies) = (Pool::new(), Replies::new());
        let client = Client {
            socket: socket.as_fd(),
            memory: None,
            pool: &pool,
        };
        let slots: Vec<u16> = (0..100).map(|_| pool.try_slot().unwrap()).collect();
        let mut expected = vec![];
        let mut refused = 0;
        for &slot in &slots {
            let reply = reply(slot, &pool);
            expected.extend(reply.header.bytes());
            expected.extend([slot as u8; 8192]);
            refused += usize::from(!replies.finish(reply, Batch::NONE, &client));
        }
        assert!(
            refused > 50,
            "the socket takes some kilobytes; refused: {refused}"
        );
        let mut got = vec![0; expected.len()];
        std::thread::scope(|scope| {
            scope.spawn(|| other.read_exact(&mut got).unwrap());
            replies.send_due(&client);
        });
        assert!(got == expected);
        // All slots are back.
        pool.wait_idle();
    }
}
