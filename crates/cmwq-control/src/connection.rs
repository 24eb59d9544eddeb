//! One client: its input so far, the output that it has not read yet, and the time limits of both.

use crate::sys::ClosedInChild;
use rustix::fd::AsFd;
use std::io::{self, ErrorKind, Read, Write};
use std::time::{Duration, Instant};

/// A client that is silent in the middle of a request, or does not take its answer, is cut off after this.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// Read from the socket in one go.
const READ_BYTES: usize = 16 * 1024;
/// Requests that one client may send at once, and for how long one more is earned.
const BURST: u32 = 200;
const EARNED_EVERY: Duration = Duration::from_millis(5);

/// So many requests at once, and then one now and then.
pub(crate) struct Allowance {
    left: u32,
    since: Instant,
}

impl Allowance {
    pub(crate) fn new(now: Instant) -> Self {
        Allowance {
            left: BURST,
            since: now,
        }
    }

    fn earn(&mut self, now: Instant) {
        let earned =
            now.saturating_duration_since(self.since).as_micros() / EARNED_EVERY.as_micros();
        let earned = u32::try_from(earned).unwrap_or(u32::MAX);
        self.left = self.left.saturating_add(earned).min(BURST);
        // What does not make a whole request stays.
        self.since = if self.left == BURST {
            now
        } else {
            self.since + EARNED_EVERY * earned
        };
    }

    /// `None`: a request may be answered now. Otherwise: when.
    pub(crate) fn until(&mut self, now: Instant) -> Option<Instant> {
        self.earn(now);
        (self.left == 0).then(|| self.since + EARNED_EVERY)
    }

    pub(crate) fn spend(&mut self) {
        self.left = self.left.saturating_sub(1);
    }
}

/// Where the next request ends in what was read.
pub(crate) enum Framing {
    /// Requests are lines.
    Lines,
    /// One HTTP request, up to its first empty line.
    Http,
}

/// The state of the client's socket after a poll.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The connection is open.
    Open,
    /// The connection is closed.
    Closed,
}

/// The buffers of one connection. `S` is its socket, which does not block.
pub(crate) struct Connection<S> {
    // Before the socket.
    closed_in_child: Option<ClosedInChild>,
    pub(crate) socket: S,
    framing: Framing,
    most_bytes: usize,
    input: Vec<u8>,
    /// No request ends before this.
    searched: usize,
    output: Vec<u8>,
    written: usize,
    /// The client sends nothing more.
    ended: bool,
    /// Nothing more is read; gone once the output is.
    closing: bool,
    abandoned: bool,
    /// Since when a request is incomplete or an answer not taken.
    waiting_since: Option<Instant>,
    pub(crate) last_request: Instant,
    pub(crate) allowance: Allowance,
}

impl<S: Read + Write> Connection<S> {
    pub(crate) fn new(socket: S, framing: Framing, most_bytes: usize, now: Instant) -> Self {
        let mut new = Connection {
            closed_in_child: None,
            socket,
            framing,
            most_bytes,
            input: Vec::new(),
            searched: 0,
            output: Vec::new(),
            written: 0,
            ended: false,
            closing: false,
            abandoned: false,
            waiting_since: None,
            last_request: now,
            allowance: Allowance::new(now),
        };
        new.note_waiting(now);
        new
    }

    /// A fork's child does not keep it open.
    pub(crate) fn closed_in_child(mut self) -> Self
    where
        S: AsFd,
    {
        self.closed_in_child = Some(ClosedInChild::new(&self.socket));
        self
    }

    /// Whether anything is to be read: not while an answer waits to be taken, so a client has one
    /// request at a time.
    pub(crate) fn wants_input(&self) -> bool {
        !self.closing && !self.ended && self.output.is_empty() && self.request_end().is_none()
    }

    pub(crate) fn wants_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Takes what has arrived.
    pub(crate) fn receive(&mut self, now: Instant) -> Progress {
        let mut bytes = [0; READ_BYTES];
        loop {
            match self.socket.read(&mut bytes) {
                Ok(0) => {
                    self.ended = true;
                    break;
                }
                Ok(count) => {
                    self.input.extend_from_slice(&bytes[..count]);
                    break;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return Progress::Closed,
            }
        }
        self.note_waiting(now);
        if self.ended && self.output.is_empty() && self.request_end().is_none() {
            return Progress::Closed;
        }
        Progress::Open
    }

    fn request_end(&self) -> Option<usize> {
        if self.closing {
            return None;
        }
        let fresh = &self.input[self.searched..];
        match self.framing {
            Framing::Lines => {
                let at = fresh.iter().position(|&byte| byte == b'\n')?;
                Some(self.searched + at + 1)
            }
            Framing::Http => {
                let at = fresh.windows(4).position(|four| four == b"\r\n\r\n")?;
                Some(self.searched + at + 4)
            }
        }
    }

    /// The next request without its end, if it is complete; `Err`: it is longer than allowed.
    pub(crate) fn next_request(&mut self) -> Result<Option<Vec<u8>>, ()> {
        if self.closing || !self.output.is_empty() {
            return Ok(None);
        }
        let Some(end) = self.request_end() else {
            // The end of an HTTP request may be cut in two.
            self.searched = self.input.len().saturating_sub(match self.framing {
                Framing::Lines => 0,
                Framing::Http => 3,
            });
            return if self.input.len() > self.most_bytes {
                Err(())
            } else {
                Ok(None)
            };
        };
        if end > self.most_bytes {
            return Err(());
        }
        let rest = self.input.split_off(end);
        let mut request = std::mem::replace(&mut self.input, rest);
        self.searched = 0;
        while request
            .last()
            .is_some_and(|byte| matches!(byte, b'\n' | b'\r'))
        {
            request.pop();
        }
        Ok(Some(request))
    }

    /// As [`next_request`](Self::next_request), but a complete request stays until `may` says that
    /// it is its turn.
    pub(crate) fn next_request_if(
        &mut self,
        may: impl FnOnce(&mut Allowance) -> bool,
    ) -> Result<Option<Vec<u8>>, ()> {
        if self.has_request() && !may(&mut self.allowance) {
            return Ok(None);
        }
        self.next_request()
    }

    /// The connection is to be dropped.
    pub(crate) fn abandon(&mut self) {
        self.abandoned = true;
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned
    }

    /// Queues an answer and sends what the client takes of it at once.
    pub(crate) fn send(&mut self, answer: Vec<u8>, now: Instant) -> Progress {
        self.output = answer;
        self.written = 0;
        self.flush(now)
    }

    /// As [`send`](Self::send), as the last answer.
    pub(crate) fn send_last(&mut self, answer: Vec<u8>, now: Instant) -> Progress {
        self.closing = true;
        self.input = Vec::new();
        self.searched = 0;
        self.send(answer, now)
    }

    /// Sends what the client takes.
    pub(crate) fn flush(&mut self, now: Instant) -> Progress {
        while self.written < self.output.len() {
            match self.socket.write(&self.output[self.written..]) {
                Ok(0) => return Progress::Closed,
                Ok(count) => {
                    self.written += count;
                    self.waiting_since = None;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.note_waiting(now);
                    return Progress::Open;
                }
                Err(_) => return Progress::Closed,
            }
        }
        self.output = Vec::new();
        self.written = 0;
        self.note_waiting(now);
        let finished = self.closing || (self.ended && self.request_end().is_none());
        if finished {
            Progress::Closed
        } else {
            Progress::Open
        }
    }

    fn note_waiting(&mut self, now: Instant) {
        // An HTTP client owes its request from the beginning.
        let begun = matches!(self.framing, Framing::Http) || !self.input.is_empty();
        let incomplete = begun && self.request_end().is_none();
        if incomplete || !self.output.is_empty() {
            self.waiting_since.get_or_insert(now);
        } else {
            self.waiting_since = None;
        }
    }

    /// When it is cut off, unless something happens.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        Some(self.waiting_since? + PATIENCE)
    }

    /// A complete request waits to be answered.
    pub(crate) fn has_request(&self) -> bool {
        self.output.is_empty() && self.request_end().is_some()
    }
}

/// Sends one line to a client that is not let in, if it takes it at once.
pub(crate) fn turn_away(mut socket: impl Write, line: &[u8]) {
    let _: io::Result<()> = socket.write_all(line);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    fn pair(most: usize) -> (UnixStream, Connection<UnixStream>) {
        let (client, server) = UnixStream::pair().expect("sockets");
        server.set_nonblocking(true).expect("a socket");
        (
            client,
            Connection::new(server, Framing::Lines, most, Instant::now()),
        )
    }

    #[test]
    fn requests_come_one_at_a_time_however_they_are_cut() {
        let (mut client, mut own) = pair(100);
        let now = Instant::now();
        client.write_all(b"one\ntw").expect("sent");
        assert_eq!(own.receive(now), Progress::Open);
        assert_eq!(own.next_request(), Ok(Some(b"one".to_vec())));
        assert_eq!(own.next_request(), Ok(None));
        assert_eq!(own.send(b"1\n".to_vec(), now), Progress::Open);
        assert!(own.deadline().is_some(), "half a request");
        client.write_all(b"o\r\nthree\n").expect("sent");
        own.receive(now);
        assert!(!own.wants_input(), "there is one to answer first");
        assert_eq!(own.next_request(), Ok(Some(b"two".to_vec())));
        assert_eq!(own.next_request(), Ok(Some(b"three".to_vec())));
        assert_eq!(own.send(b"3\n".to_vec(), now), Progress::Open);
        assert!(own.deadline().is_none(), "nothing is owed");
        drop(client);
        assert_eq!(own.receive(now), Progress::Closed);
    }

    #[test]
    fn a_line_that_is_too_long_is_an_error_before_it_ends() {
        let (mut client, mut own) = pair(10);
        client.write_all(b"0123456789\n").expect("sent");
        own.receive(Instant::now());
        assert_eq!(own.next_request(), Err(()));
        let (mut client, mut own) = pair(10);
        client.write_all(b"0123456789a").expect("sent");
        own.receive(Instant::now());
        assert_eq!(own.next_request(), Err(()));
        let (mut client, mut own) = pair(11);
        client.write_all(b"0123456789\n").expect("sent");
        own.receive(Instant::now());
        assert_eq!(own.next_request(), Ok(Some(b"0123456789".to_vec())));
    }

    #[test]
    fn an_answer_that_is_not_taken_has_a_deadline_and_stops_the_reading() {
        let (client, mut own) = pair(100);
        let now = Instant::now();
        assert_eq!(own.send(vec![b'x'; 10_000_000], now), Progress::Open);
        assert!(own.wants_output() && !own.wants_input());
        assert_eq!(own.deadline(), Some(now + PATIENCE));
        drop(client);
        assert_eq!(own.flush(now), Progress::Closed);
    }

    #[test]
    fn a_client_of_http_that_says_nothing_has_a_deadline() {
        let (mut client, server) = UnixStream::pair().expect("sockets");
        server.set_nonblocking(true).expect("a socket");
        let now = Instant::now();
        let mut own = Connection::new(server, Framing::Http, 100, now);
        assert_eq!(own.deadline(), Some(now + PATIENCE));
        assert_eq!(own.receive(now + PATIENCE / 2), Progress::Open);
        client.write_all(b"GET").expect("sent");
        own.receive(now + PATIENCE / 2);
        assert_eq!(own.deadline(), Some(now + PATIENCE));
    }

    #[test]
    fn a_burst_is_answered_and_then_one_every_few_milliseconds() {
        let begin = Instant::now();
        let mut allowance = Allowance::new(begin);
        let mut answered = |at: Duration| {
            let mut count = 0;
            while allowance.until(begin + at).is_none() {
                allowance.spend();
                count += 1;
            }
            count
        };
        assert_eq!(answered(Duration::ZERO), BURST);
        assert_eq!(answered(EARNED_EVERY / 2), 0);
        assert_eq!(answered(EARNED_EVERY * 3), 3);
        assert_eq!(answered(EARNED_EVERY * 3), 0);
        assert_eq!(answered(EARNED_EVERY * 1_000_000), BURST);
    }
}
