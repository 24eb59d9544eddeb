//! The thread that reads a connection: it queues the requests, and carries out itself those that
//! take less time than the wake-up of a worker.
#![forbid(unsafe_code)]

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cmwq::{Work, Workqueue};

use super::{Connection, Job};
use crate::export::Requests;
use crate::pool::{Buffer, SLOTS, SMALL};
use crate::protocol::{Error, Limits, Operation, Request, command};
use crate::reply::{Batch, MAX_BATCH};
use crate::socket::{self, Input};

/// Requests of at most this length are short.
const SHORT: u32 = 8 << 10;
/// So many short requests in a row, without a read that empties the socket, are more than the
/// reader keeps up with.
const KEEPS_UP: usize = SLOTS;

/// A request that comes so early after the reply to the one before it comes soon.
const SOON: Duration = Duration::from_micros(100);
/// After so many requests that came alone and soon the client seems to have one at a time, and the
/// reader polls for the next one.
const FEW: usize = 8;
/// It polls for so long, less than what the wake-ups of two threads take on a virtual machine.
const POLL: Duration = Duration::from_micros(30);
/// A write that takes longer than this has waited for the disk: the page cache takes no more.
const WAITS: Duration = Duration::from_millis(10);
/// Workers carry out the writes for so long then.
const FOR_WORKERS: Duration = Duration::from_secs(1);

/// Whether the page cache may carry it out without the disk.
fn uses_cache(operation: Result<Operation, Error>) -> bool {
    matches!(
        operation,
        Ok(Operation::Read | Operation::Write { fua: false })
    )
}

/// Whether the queue asks for no particular treatment of its items, as for caller-runs joins:
/// otherwise no reader carries out requests. Asked once, when a client connects.
fn treats_all_alike(queue: &Workqueue) -> bool {
    let attrs = queue.attrs();
    !attrs.affinity_strict && attrs.cpumask.is_none() && attrs.nice == 0
}

/// See the module.
pub(super) struct Reader<'a> {
    connection: &'a Arc<Connection>,
    limits: Limits,
    /// By slot.
    items: &'a [Work],
    queue: &'a Workqueue,
    /// Whether the reader carries out short requests.
    carries_out: bool,
    /// Slots of requests that are read, which the reader will carry out.
    short: Vec<u16>,
    /// The same of those that it will queue.
    long: Vec<u16>,
    /// Short requests that were read since the socket was empty.
    in_a_row: usize,
    /// Requests, one by one, that each came soon after the reply to the one before it.
    soon_in_a_row: usize,
    /// Requests that the export has not counted yet.
    counted: Requests,
    /// When a write into the page cache has waited for the disk.
    waited: Option<Instant>,
}

impl<'a> Reader<'a> {
    /// `items`: by slot.
    pub(super) fn new(
        connection: &'a Arc<Connection>,
        items: &'a [Work],
        queue: &'a Workqueue,
    ) -> Self {
        let session = connection.session;
        Reader {
            connection,
            limits: connection
                .export
                .limits(session.structured, session.block_status),
            items,
            queue,
            carries_out: connection.queues.inline && treats_all_alike(queue),
            short: Vec::with_capacity(MAX_BATCH),
            long: Vec::with_capacity(MAX_BATCH),
            in_a_row: 0,
            soon_in_a_row: 0,
            counted: Requests::default(),
            waited: None,
        }
    }

    /// Reads until the client leaves or the connection breaks.
    ///
    /// # Errors
    /// Why it ended, unless the client asked for it.
    pub(super) fn read_all(&mut self, input: &mut Input) -> io::Result<()> {
        loop {
            let Some(header) = input.take() else {
                let was_alone = self.carry_out_alone(input);
                self.keep_last(input);
                self.dispatch();
                let since = was_alone.then(Instant::now);
                if was_alone && self.soon_in_a_row >= FEW {
                    self.poll();
                }
                match input.fill(self.connection.socket.as_fd()) {
                    // Between two requests: the client left without `DISCONNECT`.
                    Err(error)
                        if error.kind() == io::ErrorKind::UnexpectedEof
                            && input.available() == 0 =>
                    {
                        return Ok(());
                    }
                    filled => filled?,
                }
                let came_soon = since.is_some_and(|since| since.elapsed() < SOON);
                self.soon_in_a_row = if came_soon { self.soon_in_a_row + 1 } else { 0 };
                continue;
            };
            let Some(request) = Request::parse(&header) else {
                return Err(io::Error::other("this is not an NBD request"));
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
            // The rest may take long to arrive.
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
            // Short requests take a buffer when they are carried out, so a few buffers are reused.
            Ok(Operation::Read) if request.length as usize > SMALL => {
                if self.connection.export.needs_buffer(&Operation::Read) {
                    buffer = Some(self.buffer(request.length as usize));
                }
            }
            Ok(_) => {}
        }
        let slot = self.slot();
        self.counted.all += 1;
        *self.connection.job(slot) = Some(Job {
            request,
            operation,
            buffer,
            batch: Batch::NONE,
            ended: None,
        });
        let is_carried_out = self.is_carried_out(&request, operation, input);
        let is_long = request.length as usize > SMALL;
        if !is_carried_out && is_long {
            // In no batch: the others would not be answered before it is done.
            self.queue(slot);
            return Ok(());
        }
        let parsed = match is_carried_out {
            true => &mut self.short,
            false => &mut self.long,
        };
        parsed.push(slot);
        if parsed.len() == MAX_BATCH {
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

    /// Whether the reader carries a request out itself, if it need not wait.
    fn is_carried_out(
        &mut self,
        request: &Request,
        operation: Result<Operation, Error>,
        input: &Input,
    ) -> bool {
        let is_quick =
            request.length <= SHORT && (self.connection.may_batch() || uses_cache(operation));
        if !self.carries_out || !is_quick {
            return false;
        }
        self.in_a_row = if input.emptied() {
            0
        } else {
            self.in_a_row + 1
        };
        self.in_a_row <= KEEPS_UP
    }

    /// Carries out a request that came alone, while no other of its client is in work: there is
    /// nothing that a worker could do beside it.
    fn carry_out_alone(&mut self, input: &Input) -> bool {
        let connection = self.connection;
        let parsed = self.short.len() + self.long.len();
        if !self.carries_out || parsed != 1 || !input.emptied() || !connection.pool.has_one_in_use()
        {
            return false;
        }
        let parsed = [&mut self.short, &mut self.long];
        let Some((slot, from)) = parsed
            .into_iter()
            .find_map(|from| Some((*from.first()?, from)))
        else {
            return false;
        };
        from.clear();
        if !self.is_quick(slot) {
            self.queue(slot);
            return false;
        }
        self.counted.inline += 1;
        self.dispatch();
        self.carry_out(slot);
        true
    }

    /// Keeps the last of the requests that came together for this thread: nothing is left to read,
    /// so it works beside the workers that have the others, and one worker less is woken. Not of
    /// those for a file: there no gain was measured.
    fn keep_last(&mut self, input: &Input) {
        if self.carries_out
            && self.connection.may_batch()
            && input.emptied()
            && let Some(last) = self.long.pop()
        {
            self.short.push(last);
        }
    }

    /// Whether a request need not wait for a disk. If it is a read of a file, it is done then.
    fn is_quick(&self, slot: u16) -> bool {
        let connection = self.connection;
        if connection.may_batch() {
            return true;
        }
        let operation = connection.job(slot).as_ref().map(|job| job.operation);
        match operation {
            Some(Ok(Operation::Read)) => connection.read_at_once(slot),
            Some(Ok(Operation::Write { fua: false })) => {
                let has_waited = self.waited.is_some_and(|at| at.elapsed() < FOR_WORKERS);
                connection.export.writes_into_cache() && !has_waited
            }
            _ => false,
        }
    }

    /// Carries a request out, and notes if that took so long that a disk must have been waited for.
    fn carry_out(&mut self, slot: u16) {
        let since = (!self.connection.may_batch()).then(Instant::now);
        self.connection.run(slot);
        if since.is_some_and(|since| since.elapsed() > WAITS) {
            self.waited = Some(Instant::now());
        }
    }

    /// Waits a little for the client's next request without sleeping. A client that has one request
    /// at a time does not wait for the wake-up of this thread then.
    fn poll(&self) {
        let socket = self.connection.socket.as_fd();
        self.connection.export.as_poller(|| {
            let since = Instant::now();
            while !socket::is_readable(socket) && since.elapsed() < POLL {
                // The client may share this CPU.
                std::thread::yield_now();
            }
        });
    }

    fn queue(&self, slot: u16) {
        let queued = self.queue.queue(&self.items[usize::from(slot)]);
        if !queued.is_accepted() {
            // The queue is being destroyed: answered here.
            self.connection.refuse(slot);
        }
    }

    /// Queues the requests read so far, and carries out the short ones.
    pub(super) fn dispatch(&mut self) {
        let connection = self.connection;
        if connection.may_batch() {
            connection.open_batch(&self.long);
        }
        for &slot in &self.long {
            self.queue(slot);
        }
        self.long.clear();
        let mut short = std::mem::take(&mut self.short);
        short.retain(|&slot| {
            let is_quick = self.is_quick(slot);
            if !is_quick {
                self.queue(slot);
            }
            is_quick
        });
        self.counted.inline += short.len() as u64;
        connection.export.count(std::mem::take(&mut self.counted));
        connection.open_batch(&short);
        for slot in short.drain(..) {
            self.carry_out(slot);
        }
        self.short = short;
    }
}
