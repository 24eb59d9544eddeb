//! One client: a thread that reads its requests, and the items that carry them out.
//!
//! The reader takes a slot for each request, fills it in, and queues the slot's work item. The item
//! is made once, with the connection, and queued again for each request that gets its slot. The
//! worker that runs it sends the reply and frees the slot. Short requests for memory or the page
//! cache take less time than the wake-up of a worker: the reader carries them out itself, unless it
//! has more of them than it keeps up with. It does so too with a request that comes alone, while no
//! other of its client is in work. Neither waits for the client: what its socket does not take is
//! sent by an item of another queue, so that clients that read slowly use up none of what the queue
//! of the requests allows at a time.
//!
//! With io_uring the item ends when the transfer is submitted, and is queued again when the
//! transfer is done, as dm-crypt's items are around the disk. A client that reads no replies fills
//! all slots, and then the reader stops reading from it.
#![forbid(unsafe_code)]

mod reader;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, Scope};

use cmwq::raw::EmbeddedWork;
use cmwq::{Work, Workqueue};

use crate::export::{Data, Export, Next};
use crate::negotiate::Session;
use crate::pool::{Buffer, Pool, SLOTS, SMALL};
use crate::protocol::{Error, Operation, ReplyHeader, Request, command};
use crate::reply::{Batch, Client, Payload, Replies, Reply};
use crate::ring::{Action, Ended, Ring, Transfer};
use crate::scheduling::block_signals;
use crate::server::Queues;
use crate::socket::Input;
use reader::Reader;

/// State shared by the reader and the items of its requests.
struct Connection {
    socket: Arc<OwnedFd>,
    export: Arc<Export>,
    session: Session,
    jobs: Box<[Mutex<Option<Job>>]>,
    pool: Pool,
    replies: Replies,
    queues: Arc<Queues>,
    /// Sends what the socket did not take, on the queue of the replies.
    sender: EmbeddedWork<Connection>,
    /// Reads and writes the file, if by io_uring.
    ring: Option<Ring>,
}

/// A request on its way to a worker.
struct Job {
    request: Request,
    operation: Result<Operation, Error>,
    /// The data of a write, or the buffer of a long read.
    buffer: Option<Buffer>,
    batch: Batch,
    /// The result of its last transfer, or that of a read at once.
    ended: Option<(Action, io::Result<()>)>,
}

/// Serves a client that has been through the handshake, until it leaves or the connection breaks;
/// then waits for its requests that are in flight.
///
/// # Errors
/// Why it ended, unless the client asked for it.
pub(crate) fn serve(
    socket: Arc<OwnedFd>,
    input: &mut Input,
    export: Arc<Export>,
    session: Session,
    queues: Arc<Queues>,
) -> io::Result<()> {
    let ring = export.ring(SLOTS)?;
    let connection = Arc::new(Connection {
        socket,
        export,
        session,
        ring,
        jobs: (0..SLOTS).map(|_| Mutex::new(None)).collect(),
        pool: Pool::new(),
        replies: Replies::new(),
        queues,
        sender: EmbeddedWork::new(|connection: Arc<Connection>| connection.send_due()),
    });
    let queue = &connection.queues.requests;
    let items: Vec<Work> = (0..SLOTS)
        .map(|slot| {
            let connection = connection.clone();
            Work::new(move || connection.run(slot as u16))
        })
        .collect();
    std::thread::scope(|scope| {
        let _in_flight = InFlight::begin(scope, &connection, &items, queue)?;
        let mut reader = Reader::new(&connection, &items, queue);
        let end = reader.read_all(input);
        reader.dispatch();
        end
    })
}

/// Finishes the requests in flight: dropping it waits for them.
struct InFlight<'a>(&'a Connection);

impl<'scope> InFlight<'scope> {
    fn begin(
        scope: &'scope Scope<'scope, '_>,
        connection: &'scope Arc<Connection>,
        items: &'scope [Work],
        queue: &'scope Workqueue,
    ) -> io::Result<Self> {
        if let Some(ring) = &connection.ring {
            let thread = Builder::new().name("nbd-ring".to_owned());
            thread.spawn_scoped(scope, move || {
                block_signals();
                ring.reap_until_stopped(|slot, ended| {
                    connection.take_back(slot, ended);
                    if !queue.queue(&items[usize::from(slot)]).is_accepted() {
                        // The queue is being destroyed: finished here.
                        connection.run(slot);
                    }
                });
            })?;
        }
        Ok(InFlight(connection))
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.pool.wait_idle();
        if let Some(ring) = &self.0.ring {
            ring.stop();
        }
    }
}

impl Connection {
    fn job(&self, slot: u16) -> std::sync::MutexGuard<'_, Option<Job>> {
        self.jobs[usize::from(slot)]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// No request waits for a disk: their replies may wait for each other.
    fn may_batch(&self) -> bool {
        self.export.memory().is_some()
    }

    /// Tries a read of a file without waiting for the disk. `true`: it is done.
    fn read_at_once(&self, slot: u16) -> bool {
        let mut job = self.job(slot);
        let Some(job) = &mut *job else {
            return true;
        };
        let buffer = job.buffer.get_or_insert_with(|| self.pool.small());
        let buffer = &mut buffer[..job.request.length as usize];
        // After a panic a worker tries.
        let read = || self.export.read_at_once(&job.request, buffer);
        let is_read = catch_unwind(AssertUnwindSafe(read)).unwrap_or(false);
        if is_read {
            job.ended = Some((Action::Read, Ok(())));
        }
        is_read
    }

    /// Has the requests that came together answered together.
    fn open_batch(&self, slots: &[u16]) {
        if slots.len() < 2 {
            return;
        }
        let batch = self.replies.open_batch(slots.len());
        for &slot in slots {
            if let Some(job) = &mut *self.job(slot) {
                job.batch = batch;
            }
        }
    }

    /// Carries out, or goes on with, the request of a slot.
    fn run(self: &Arc<Self>, slot: u16) {
        let Some(mut job) = self.job(slot).take() else {
            return;
        };
        // The request is answered also after a panic.
        let advance = || self.advance(&mut job);
        match catch_unwind(AssertUnwindSafe(advance)).unwrap_or(Err(Error::Io)) {
            Ok(Next::Transfer(action)) => self.transfer(slot, job, action),
            Ok(Next::Answer(data)) => self.answer(slot, job, Ok(data)),
            Err(error) => self.answer(slot, job, Err(error)),
        }
    }

    /// Advances a request as far as possible now.
    fn advance(&self, job: &mut Job) -> Result<Next, Error> {
        let (request, operation) = (&job.request, job.operation?);
        let only_answers = matches!(
            operation,
            Operation::Read | Operation::Cache | Operation::BlockStatus { .. }
        );
        if only_answers && self.replies.is_broken() {
            // The socket may hold thousands of them, and the server may be waiting for their end.
            return Err(Error::Shutdown);
        }
        if job.buffer.is_none() && self.export.needs_buffer(&operation) {
            job.buffer = Some(self.pool.small());
        }
        let length = match operation {
            Operation::Read | Operation::Write { .. } => request.length as usize,
            _ => SMALL,
        };
        let buffer = job.buffer.as_deref_mut();
        let buffer = buffer.map_or(&mut [][..], |buffer| &mut buffer[..length]);
        match (&self.ring, job.ended.take()) {
            (_, Some(ended)) => self.export.proceed(ended, request, operation, buffer),
            (Some(_), None) => self.export.begin(request, operation, buffer),
            (None, None) => {
                let data = self.export.execute(request, operation, buffer)?;
                Ok(Next::Answer(data))
            }
        }
    }

    /// Gives a request's range and buffer to the ring.
    fn transfer(self: &Arc<Self>, slot: u16, mut job: Job, action: Action) {
        let Request { offset, length, .. } = job.request;
        let transfer = match (action, &self.ring) {
            (Action::Sync, Some(_)) => Some(Transfer::sync()),
            (_, Some(_)) => {
                let buffer = job.buffer.take();
                buffer.map(|buffer| Transfer::new(action, offset, buffer, length))
            }
            (_, None) => None,
        };
        let (Some(ring), Some(transfer)) = (&self.ring, transfer) else {
            return self.answer(slot, job, Err(Error::Io));
        };
        // First: the transfer may end at once.
        *self.job(slot) = Some(job);
        ring.submit(slot, transfer);
    }

    /// Takes a finished transfer back from the ring.
    fn take_back(&self, slot: u16, ended: Ended) {
        if let Some(job) = &mut *self.job(slot) {
            job.buffer = ended.buffer.or(job.buffer.take());
            job.ended = Some((ended.action, ended.result));
        }
    }

    fn refuse(self: &Arc<Self>, slot: u16) {
        if let Some(job) = self.job(slot).take() {
            self.answer(slot, job, Err(Error::Shutdown));
        }
    }

    fn answer(self: &Arc<Self>, slot: u16, job: Job, result: Result<Data, Error>) {
        let Request {
            command,
            cookie,
            offset,
            length,
            ..
        } = job.request;
        let in_chunks =
            self.session.structured && matches!(command, command::READ | command::BLOCK_STATUS);
        let header = match (in_chunks, result) {
            (false, result) => ReplyHeader::simple(cookie, result.err()),
            (true, Err(error)) => ReplyHeader::error(cookie, error),
            (true, Ok(Data::Buffer(used))) if command == command::BLOCK_STATUS => {
                ReplyHeader::block_status(cookie, used as u32)
            }
            (true, Ok(_)) => ReplyHeader::data(cookie, offset, length),
        };
        let data = result.map_or(Payload::None, |data| Payload::new(data, offset, length));
        let reply = Reply {
            header,
            data,
            slot,
            buffer: job.buffer,
        };
        let is_sent = self.replies.finish(reply, job.batch, &self.client());
        // The reader goes on reading, since the client may send before it takes its replies, and
        // workers go on with other clients'.
        if !is_sent {
            let replies = &self.queues.replies;
            let queued = replies.queue_embedded(self, |connection| &connection.sender);
            if !queued.will_run() {
                self.send_due();
            }
        }
    }

    fn send_due(&self) {
        self.replies.send_due(&self.client());
    }

    fn client(&self) -> Client<'_> {
        Client {
            socket: self.socket.as_fd(),
            memory: self.export.memory(),
            pool: &self.pool,
        }
    }
}
