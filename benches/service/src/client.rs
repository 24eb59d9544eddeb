//! The client: one thread that keeps all connections busy, or sends when a request is due, and
//! times every answer.

use crate::server::ASK_USAGE;
use crate::usage::Usage;
use crate::work::{HASH, Random, messages};
use flate2::read::DeflateDecoder;
use hdrhistogram::Histogram;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// A request of length 0 is sent, on a connection of its own, so long after the last one was
/// answered: often enough to be timed many times, and rarely enough not to wait for one another.
const LIGHT_PAUSE: Duration = Duration::from_millis(2);

pub(crate) struct Plan {
    pub(crate) connections: usize,
    /// How many requests come a second; without it the next one is sent when the last is answered.
    pub(crate) rate: Option<f64>,
    pub(crate) bytes: usize,
    pub(crate) warm_up: Duration,
    pub(crate) time: Duration,
    pub(crate) seed: u64,
}

/// What came of a run.
pub(crate) struct Times {
    pub(crate) requests_per_s: f64,
    /// From when a request was due to its whole answer, in nanoseconds.
    pub(crate) latency: Histogram<u64>,
    /// The same of requests that need no computing.
    pub(crate) light: Histogram<u64>,
    pub(crate) cpu_us: f64,
    pub(crate) page_faults: f64,
    pub(crate) threads: u64,
}

struct Connection {
    stream: TcpStream,
    /// What is still to be sent.
    output: Vec<u8>,
    /// Whether the socket had no room for it.
    blocked: bool,
    input: Vec<u8>,
    /// When the request that is under way was due, or the next one will be.
    due: Instant,
    busy: bool,
    /// The hash that the answer must begin with, unless it is empty.
    hash: Option<[u8; HASH]>,
    answered: usize,
}

fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("three digits are possible")
}

impl Connection {
    fn new(address: SocketAddr, due: Instant) -> io::Result<Connection> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Connection {
            stream,
            output: Vec::new(),
            blocked: false,
            input: Vec::new(),
            due,
            busy: false,
            hash: None,
            answered: 0,
        })
    }

    /// Sends what is left to send. Whether all of it went.
    fn write(&mut self) -> io::Result<bool> {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(sent) => drop(self.output.drain(..sent)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Reads what has come. Whether that completes the answer, which is checked.
    fn read(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 16384];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.input.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
            let Some((length, answer)) = self.input.split_first_chunk::<4>() else {
                continue;
            };
            if answer.len() < u32::from_be_bytes(*length) as usize {
                continue;
            }
            if let Some(hash) = self.hash {
                assert!(
                    answer.starts_with(&hash),
                    "the server answered something else"
                );
            }
            self.busy = false;
            self.answered += 1;
            return Ok(true);
        }
    }
}

struct Client<'a> {
    plan: &'a Plan,
    epoll: OwnedFd,
    messages: Vec<(Vec<u8>, [u8; HASH])>,
    /// The last one sends the light requests.
    connections: Vec<Connection>,
    random: Random,
}

impl<'a> Client<'a> {
    fn new(address: SocketAddr, plan: &'a Plan) -> io::Result<Client<'a>> {
        let mut random = Random(plan.seed);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let now = Instant::now();
        let mut connections = Vec::new();
        for number in 0..=plan.connections {
            let first = plan
                .rate
                .map_or(0.0, |rate| random.gap(rate / plan.connections as f64));
            let connection = Connection::new(address, now + Duration::from_secs_f64(first))?;
            let data = EventData::new_u64(number as u64);
            epoll::add(&epoll, &connection.stream, data, EventFlags::IN)?;
            connections.push(connection);
        }
        Ok(Client {
            plan,
            epoll,
            messages: messages(plan.bytes),
            connections,
            random,
        })
    }

    /// Sends a request on each connection where one is due, and says when the next one will be.
    fn send(&mut self, now: Instant) -> io::Result<Option<Instant>> {
        let mut next = None;
        for number in 0..self.connections.len() {
            let connection = &mut self.connections[number];
            if connection.busy {
                continue;
            }
            if connection.due > now {
                next = Some(next.map_or(connection.due, |next| connection.due.min(next)));
                continue;
            }
            connection.busy = true;
            if number < self.plan.connections {
                let message = (number + connection.answered) % self.messages.len();
                let (message, hash) = &self.messages[message];
                connection
                    .output
                    .extend_from_slice(&(message.len() as u32).to_be_bytes());
                connection.output.extend_from_slice(message);
                connection.hash = Some(*hash);
            } else {
                connection.output.extend_from_slice(&0_u32.to_be_bytes());
            }
            self.push(number)?;
        }
        Ok(next)
    }

    /// Writes. If something is left, the connection is watched until it can be written, and no longer.
    fn push(&mut self, number: usize) -> io::Result<()> {
        let connection = &mut self.connections[number];
        let all = connection.write()?;
        if all == connection.blocked {
            connection.blocked = !all;
            let out = if all {
                EventFlags::empty()
            } else {
                EventFlags::OUT
            };
            let data = EventData::new_u64(number as u64);
            epoll::modify(&self.epoll, &connection.stream, data, EventFlags::IN | out)?;
        }
        Ok(())
    }

    /// When the request after the one that was just answered is due.
    fn next_due(&mut self, number: usize, now: Instant) -> Instant {
        let due = self.connections[number].due;
        match self.plan.rate {
            _ if number == self.plan.connections => now + LIGHT_PAUSE,
            None => now,
            Some(rate) => {
                let gap = self.random.gap(rate / self.plan.connections as f64);
                due + Duration::from_secs_f64(gap)
            }
        }
    }

    /// Sends and receives until a time.
    fn run(&mut self, end: Instant, times: &mut Times) -> io::Result<u64> {
        let mut events = Vec::with_capacity(self.connections.len());
        let mut answered = 0;
        loop {
            let now = Instant::now();
            if now >= end {
                return Ok(answered);
            }
            let next = self.send(now)?.map_or(end, |next| next.min(end));
            let left = next.saturating_duration_since(Instant::now());
            let timeout = Timespec {
                tv_sec: left.as_secs() as i64,
                tv_nsec: i64::from(left.subsec_nanos()),
            };
            events.clear();
            epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&timeout))?;
            for event in &events {
                let number = event.data.u64() as usize;
                if { event.flags }.contains(EventFlags::OUT) {
                    self.push(number)?;
                }
                if !self.connections[number].read()? {
                    continue;
                }
                let now = Instant::now();
                let took = now.saturating_duration_since(self.connections[number].due);
                let light = number == self.plan.connections;
                let histogram = if light {
                    &mut times.light
                } else {
                    &mut times.latency
                };
                histogram
                    .record(took.as_nanos() as u64)
                    .map_err(io::Error::other)?;
                answered += u64::from(!light);
                if self.connections[number].answered == 1 && !light {
                    self.check(number)?;
                }
                self.connections[number].input.clear();
                self.connections[number].due = self.next_due(number, now);
            }
        }
    }

    /// What was compressed is the message.
    fn check(&self, number: usize) -> io::Result<()> {
        let mut message = Vec::new();
        DeflateDecoder::new(&self.connections[number].input[4 + HASH..])
            .read_to_end(&mut message)?;
        assert!(
            message == self.messages[number % self.messages.len()].0,
            "another message"
        );
        Ok(())
    }
}

/// What the server has used so far.
fn usage(server: &mut TcpStream) -> io::Result<Usage> {
    server.write_all(&ASK_USAGE.to_be_bytes())?;
    let mut length = [0; 4];
    server.read_exact(&mut length)?;
    let mut bytes = vec![0; u32::from_be_bytes(length) as usize];
    server.read_exact(&mut bytes)?;
    Usage::from_bytes(&bytes)
}

/// Sends requests as planned, and measures.
pub(crate) fn run(address: SocketAddr, plan: &Plan) -> io::Result<Times> {
    // Otherwise a request may be sent 50 µs late.
    let _ = rustix::thread::set_current_timer_slack(NonZero::new(1));
    let mut control = TcpStream::connect(address)?;
    let mut times = Times {
        requests_per_s: 0.0,
        latency: histogram(),
        light: histogram(),
        cpu_us: 0.0,
        page_faults: 0.0,
        threads: 0,
    };
    let mut client = Client::new(address, plan)?;
    client.run(Instant::now() + plan.warm_up, &mut times)?;
    let before = usage(&mut control)?;
    let start = Instant::now();
    times.latency.reset();
    times.light.reset();
    let answered = client.run(start + plan.time, &mut times)?;
    let seconds = start.elapsed().as_secs_f64();
    let after = usage(&mut control)?;
    let each = |before: u64, after: u64| (after - before) as f64 / answered.max(1) as f64;
    times.requests_per_s = answered as f64 / seconds;
    times.cpu_us = each(before.cpu_ns, after.cpu_ns) / 1000.0;
    times.page_faults = each(before.page_faults, after.page_faults);
    times.threads = after.threads;
    Ok(times)
}
