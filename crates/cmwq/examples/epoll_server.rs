//! A server with an event loop of its own: one thread waits in epoll for its connections and for
//! the eventfd of a completion queue, through which the workqueue hands results back.
//!
//! A request is a line with a number; the answer is a line with what a slow function makes of it.
//! The clients are here as well, so that it ends:
//!
//! ```text
//! cargo run --release -p cmwq --example epoll_server
//! ```

use cmwq::types::{Completed, NotSubmitted};
use cmwq::{CompletionQueue, Workqueue};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;

const CLIENTS: u64 = 8;
const REQUESTS: u64 = 64;
/// Results that may be outstanding: then the server reads no more requests until it has answered some.
const OUTSTANDING: usize = 128;
/// What epoll names the listener and the completion queue; connections have numbers from 2 on.
const LISTENER: u64 = 0;
const RESULTS: u64 = 1;

/// Some tens of microseconds.
fn slow(number: u64) -> u64 {
    (0..20_000).fold(number, |sum, step| sum.rotate_left(5) ^ step)
}

struct Connection {
    stream: TcpStream,
    /// What has been read of requests that are not submitted.
    input: Vec<u8>,
}

struct Server {
    epoll: OwnedFd,
    listener: TcpListener,
    queue: Workqueue,
    done: CompletionQueue<u64>,
    connections: HashMap<u64, Connection>,
    next: u64,
    /// Connections whose next request found no room.
    full: Vec<u64>,
}

/// A connection is watched while no request of it is under way.
const ONCE: EventFlags = EventFlags::IN.union(EventFlags::ONESHOT);

impl Server {
    fn new() -> Result<Self, Box<dyn std::error::Error>> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let done = CompletionQueue::builder()
            .capacity(OUTSTANDING)
            .eventfd()
            .build()?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(
            &epoll,
            &listener,
            EventData::new_u64(LISTENER),
            EventFlags::IN,
        )?;
        let fd = done.fd().expect("it was asked for");
        epoll::add(&epoll, fd, EventData::new_u64(RESULTS), EventFlags::IN)?;
        Ok(Server {
            epoll,
            listener,
            queue: Workqueue::builder("requests").build()?,
            done,
            connections: HashMap::new(),
            next: RESULTS + 1,
            full: Vec::new(),
        })
    }

    /// Serves until so many connections have been closed.
    fn run(&mut self, until: u64) -> Result<(), Box<dyn std::error::Error>> {
        let (mut answered, mut closed) = (0, 0);
        let mut events = Vec::with_capacity(64);
        while closed < until {
            answered += self.answer()?;
            // `false`: a result has come meanwhile.
            if !self.done.arm() {
                continue;
            }
            events.clear();
            epoll::wait(&self.epoll, spare_capacity(&mut events), None)?;
            for event in &events {
                match event.data.u64() {
                    RESULTS => {}
                    LISTENER => self.accept()?,
                    number => closed += u64::from(self.read(number)?),
                }
            }
        }
        println!("{answered} requests answered");
        Ok(())
    }

    fn accept(&mut self) -> io::Result<()> {
        let (stream, _) = match self.listener.accept() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            accepted => accepted?,
        };
        stream.set_nonblocking(true)?;
        epoll::add(&self.epoll, &stream, EventData::new_u64(self.next), ONCE)?;
        let input = Vec::new();
        self.connections
            .insert(self.next, Connection { stream, input });
        self.next += 1;
        Ok(())
    }

    /// Reads what a connection has sent. Returns whether the client has closed it.
    fn read(&mut self, number: u64) -> io::Result<bool> {
        let Some(connection) = self.connections.get_mut(&number) else {
            return Ok(false);
        };
        let mut bytes = [0; 4096];
        match connection.stream.read(&mut bytes) {
            Ok(0) => {
                self.connections.remove(&number);
                return Ok(true);
            }
            Ok(read) => connection.input.extend_from_slice(&bytes[..read]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        self.submit_next(number)?;
        Ok(false)
    }

    /// Submits the next request of a connection; if it has sent none, watches it again.
    fn submit_next(&mut self, number: u64) -> io::Result<()> {
        let Some(connection) = self.connections.get_mut(&number) else {
            return Ok(());
        };
        let Some(end) = connection.input.iter().position(|&byte| byte == b'\n') else {
            let data = EventData::new_u64(number);
            return Ok(epoll::modify(&self.epoll, &connection.stream, data, ONCE)?);
        };
        let line = String::from_utf8_lossy(&connection.input[..end]);
        let request = line.trim().parse().map_err(io::Error::other)?;
        match self.done.submit(&self.queue, number, move || slow(request)) {
            Ok(()) => drop(connection.input.drain(..=end)),
            // The next answers make room. Until then the connection is not read, and TCP slows the
            // client down.
            Err(NotSubmitted::Full) => self.full.push(number),
            Err(refused) => return Err(io::Error::other(refused)),
        }
        Ok(())
    }

    /// Writes the results that have come, and submits what waits behind them.
    fn answer(&mut self) -> Result<usize, Box<dyn std::error::Error>> {
        let (mut entries, mut answered) = (Vec::new(), 0);
        while self.done.drain(64, &mut entries) > 0 {
            for Completed { token, result } in entries.drain(..) {
                answered += 1;
                if let Some(connection) = self.connections.get_mut(&token) {
                    // A line is short, and the client reads each: the socket has room for it.
                    writeln!(connection.stream, "{}", result?)?;
                }
                self.submit_next(token)?;
            }
            for number in std::mem::take(&mut self.full) {
                self.submit_next(number)?;
            }
        }
        Ok(answered)
    }
}

fn ask(server: SocketAddr, client: u64) -> io::Result<()> {
    let mut stream = TcpStream::connect(server)?;
    let mut answers = BufReader::new(stream.try_clone()?).lines();
    for request in 0..REQUESTS {
        let number = client * REQUESTS + request;
        writeln!(stream, "{number}")?;
        let answer = answers.next().ok_or(io::ErrorKind::UnexpectedEof)??;
        assert_eq!(answer, slow(number).to_string());
    }
    Ok(())
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut server = Server::new()?;
    let address = server.listener.local_addr()?;
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| std::thread::spawn(move || ask(address, client)))
        .collect();
    server.run(CLIENTS)?;
    for client in clients {
        client.join().expect("a client panicked")?;
    }
    Ok(())
}
