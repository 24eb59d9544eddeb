//! One client: a thread that reads its requests, and the items that carry them out.
//!
//! The reader takes a place for each request, fills it in, and queues the work item that belongs to the place. The item
//! is made once, with the connection, and queued again for each request that gets its place. The worker that runs it sends the
//! reply and frees the place. A client that reads no replies has all places taken in the end, and then nothing more is read
//! from it.
#![forbid(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use cmwq::{Work, Workqueue};

use crate::export::{Data, Export};
use crate::negotiate::Session;
use crate::pool::{Buffer, Pool, SLOTS, SMALL};
use crate::protocol::{Error, Limits, Operation, ReplyHeader, Request, command};
use crate::reply::{Batch, MAX_BATCH, Payload, Replies, Reply};
use crate::socket::Input;

/// What its reader and the items of its requests share.
struct Connection {
    socket: Arc<OwnedFd>,
    export: Arc<Export>,
    session: Session,
    jobs: Box<[Mutex<Option<Job>>]>,
    pool: Pool,
    replies: Replies,
}

/// A request on its way to a worker.
struct Job {
    request: Request,
    operation: Result<Operation, Error>,
    /// The data of a write, or room for a long read.
    buffer: Option<Buffer>,
    batch: Batch,
}

/// Serves a client that has been through the handshake, until it leaves or the connection breaks; then waits for its
/// requests that are in flight.
///
/// # Errors
/// Why it ended, if not by the client's wish.
pub(crate) fn serve(
    socket: Arc<OwnedFd>,
    input: &mut Input,
    export: Arc<Export>,
    session: Session,
    queue: &Workqueue,
) -> io::Result<()> {
    let connection = Arc::new(Connection {
        socket,
        export,
        session,
        jobs: (0..SLOTS).map(|_| Mutex::new(None)).collect(),
        pool: Pool::new(),
        replies: Replies::new(),
    });
    let items = (0..SLOTS)
        .map(|slot| {
            let connection = connection.clone();
            Work::new(move || connection.run(slot as u16))
        })
        .collect();
    let mut reader = Reader {
        connection: &connection,
        limits: connection
            .export
            .limits(session.structured, session.block_status),
        items,
        queue,
        parsed: Vec::with_capacity(MAX_BATCH),
    };
    let end = reader.read_all(input);
    reader.dispatch();
    connection.pool.wait_idle();
    end
}

struct Reader<'a> {
    connection: &'a Connection,
    limits: Limits,
    /// By place.
    items: Vec<Work>,
    queue: &'a Workqueue,
    /// Places of requests that have been read and not been queued.
    parsed: Vec<u16>,
}

impl Reader<'_> {
    fn read_all(&mut self, input: &mut Input) -> io::Result<()> {
        loop {
            let Some(header) = input.take() else {
                self.dispatch();
                match input.fill(self.connection.socket.as_fd()) {
                    // Between two requests: the client left without a word.
                    Err(error)
                        if error.kind() == io::ErrorKind::UnexpectedEof
                            && input.available() == 0 =>
                    {
                        return Ok(());
                    }
                    filled => filled?,
                }
                continue;
            };
            let Some(request) = Request::parse(&header) else {
                return Err(io::Error::other("what came is no NBD request"));
            };
            if request.command == command::DISCONNECT {
                return Ok(());
            }
            self.read_one(request, input)?;
        }
    }

    fn read_one(&mut self, request: Request, input: &mut Input) -> io::Result<()> {
        let operation = self.limits.check(&request);
        let fd = self.connection.socket.as_fd();
        let payload = request.payload();
        if payload as usize > input.available() {
            // The rest may be long in coming.
            self.dispatch();
        }
        let mut buffer = None;
        match operation {
            Err(_) => input.discard(fd, payload)?,
            Ok(Operation::Write { .. }) => {
                let mut data = self.buffer(payload as usize);
                input.read(fd, &mut data[..payload as usize])?;
                buffer = Some(data);
            }
            // Short ones take theirs when they are carried out, and the same few are used again and again.
            Ok(Operation::Read) if request.length as usize > SMALL => {
                if self.connection.export.needs_buffer(&Operation::Read) {
                    buffer = Some(self.buffer(request.length as usize));
                }
            }
            Ok(_) => {}
        }
        let slot = self.slot();
        *self.connection.job(slot) = Some(Job {
            request,
            operation,
            buffer,
            batch: Batch::NONE,
        });
        self.parsed.push(slot);
        if self.parsed.len() == MAX_BATCH || !self.connection.may_batch() {
            self.dispatch();
        }
        Ok(())
    }

    fn slot(&mut self) -> u16 {
        let pool = &self.connection.pool;
        pool.try_slot().unwrap_or_else(|| {
            self.dispatch();
            pool.slot()
        })
    }

    fn buffer(&mut self, length: usize) -> Buffer {
        if length <= SMALL {
            return self.connection.pool.small();
        }
        self.dispatch();
        self.connection.pool.large(length)
    }

    /// Queues what has been read.
    fn dispatch(&mut self) {
        let connection = self.connection;
        if self.parsed.len() > 1 && connection.may_batch() {
            let batch = connection.replies.open_batch(self.parsed.len());
            for &slot in &self.parsed {
                if let Some(job) = &mut *connection.job(slot) {
                    job.batch = batch;
                }
            }
        }
        for slot in self.parsed.drain(..) {
            if !self.queue.queue(&self.items[usize::from(slot)]) {
                // The queue is being destroyed: answered here.
                connection.refuse(slot);
            }
        }
    }
}

impl Connection {
    fn job(&self, slot: u16) -> std::sync::MutexGuard<'_, Option<Job>> {
        self.jobs[usize::from(slot)]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Replies wait for each other only where no request waits for a disk.
    fn may_batch(&self) -> bool {
        self.export.memory().is_some()
    }

    /// The work item of a place.
    fn run(&self, slot: u16) {
        let Some(mut job) = self.job(slot).take() else {
            return;
        };
        let result = job.operation.and_then(|operation| {
            if job.buffer.is_none() && self.export.needs_buffer(&operation) {
                job.buffer = Some(self.pool.small());
            }
            let length = match operation {
                Operation::Read | Operation::Write { .. } => job.request.length as usize,
                _ => SMALL,
            };
            let buffer = job.buffer.as_deref_mut();
            let buffer = buffer.map_or(&mut [][..], |buffer| &mut buffer[..length]);
            // A panic must not leave the request without an answer.
            let execute = || self.export.execute(&job.request, operation, buffer);
            catch_unwind(AssertUnwindSafe(execute)).unwrap_or(Err(Error::Io))
        });
        self.answer(slot, job, result);
    }

    fn refuse(&self, slot: u16) {
        if let Some(job) = self.job(slot).take() {
            self.answer(slot, job, Err(Error::Shutdown));
        }
    }

    fn answer(&self, slot: u16, job: Job, result: Result<Data, Error>) {
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
        self.replies.finish(
            reply,
            job.batch,
            self.socket.as_fd(),
            self.export.memory(),
            &self.pool,
        );
    }
}
