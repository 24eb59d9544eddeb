//! What the tests share: a server in this process, and a client that sends what the test wants,
//! right or wrong.
#![allow(dead_code, unused_imports, reason = "each test program uses its part")]

#[path = "../../../cmwq/tests/harness/deadline.rs"]
mod deadline;
#[path = "../../../cmwq/tests/harness/random.rs"]
mod random;

pub(crate) use deadline::Deadline;
pub(crate) use random::{Random, seed};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cmwq::Workqueue;
use cmwq_nbd::cipher::Cipher;
use cmwq_nbd::export::Export;
use cmwq_nbd::key::Key;
use cmwq_nbd::protocol::{OPTION_MAGIC, Request, command, handshake, option, option_reply};
use cmwq_nbd::server::{Endpoint, Queues, Server};
use cmwq_nbd::store::{FileStore, MemoryStore, Store};

/// A directory that goes with the test.
pub(crate) struct Dir(tempfile::TempDir);

impl Dir {
    pub(crate) fn new() -> Self {
        Dir(tempfile::tempdir().unwrap())
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// Not random, and its halves differ.
pub(crate) fn key(bytes: usize) -> Key {
    let bytes: Vec<u8> = (0..bytes as u8)
        .map(|n| n.wrapping_mul(37) ^ 0x5a)
        .collect();
    Key::new(&bytes).unwrap()
}

pub(crate) fn cipher(key_bytes: usize, sector: usize) -> Cipher {
    Cipher::new(&key(key_bytes), sector, 4).unwrap()
}

pub(crate) fn memory(size: u64) -> Box<dyn Store> {
    Box::new(MemoryStore::new(size).unwrap())
}

/// A store in a file in each way that this system has: waited for, and by io_uring. Says if it
/// lacks the second.
pub(crate) fn ways(path: &Path, block: u32) -> impl Iterator<Item = Box<dyn Store>> {
    [false, true].into_iter().filter_map(move |by_io_uring| {
        let store = open_again(path, block);
        if !by_io_uring {
            return Some(Box::new(store) as Box<dyn Store>);
        }
        match store.by_io_uring() {
            Ok(store) => Some(Box::new(store)),
            Err(why) => {
                println!("skipped, because {why}");
                None
            }
        }
    })
}

/// The last thread of a server that was dropped may hold the file for another moment.
fn open_again(path: &Path, block: u32) -> FileStore {
    let until = std::time::Instant::now() + PATIENCE;
    loop {
        match FileStore::open(path, false, block) {
            Err(error) if std::time::Instant::now() < until => {
                assert!(error.to_string().contains("in use"), "{error}");
                std::thread::yield_now();
            }
            store => return store.unwrap(),
        }
    }
}

/// A server at a socket of its own, for as long as it lives.
pub(crate) struct Serving {
    pub(crate) server: Server,
    pub(crate) socket: PathBuf,
    pub(crate) dir: Dir,
    _deadline: Deadline,
}

pub(crate) fn serve(store: Box<dyn Store>, cipher: Option<Cipher>, read_only: bool) -> Serving {
    start(Export::new("disk", store, cipher, read_only), 0)
}

/// A server that carries out so many requests at a time.
pub(crate) fn serve_limited(store: Box<dyn Store>, max_active: usize) -> Serving {
    start(Export::new("disk", store, None, false), max_active)
}

pub(crate) fn queues(max_active: usize) -> Queues {
    let queue = |name, max_active| {
        let queue = Workqueue::builder(name).mem_reclaim();
        queue.max_active(max_active).build().unwrap()
    };
    Queues {
        requests: queue("kcryptd/test", max_active),
        replies: queue("replies/test", 64),
        inline: true,
    }
}

fn start(export: Export, max_active: usize) -> Serving {
    let dir = Dir::new();
    let socket = dir.file("socket");
    let endpoint = Endpoint::Unix(socket.clone());
    let server = Server::start(Arc::new(export), queues(max_active), &endpoint, 64).unwrap();
    Serving {
        server,
        socket,
        dir,
        _deadline: Deadline::long("a test of the server"),
    }
}

impl Serving {
    pub(crate) fn client(&self) -> Client {
        Client::connect(&self.socket, true)
    }

    pub(crate) fn simple_client(&self) -> Client {
        Client::connect(&self.socket, false)
    }
}

/// One answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) cookie: u64,
    pub(crate) error: u32,
    pub(crate) data: Vec<u8>,
}

/// A client that has been through the handshake.
pub(crate) struct Client {
    pub(crate) stream: UnixStream,
    pub(crate) structured: bool,
    pub(crate) next: u64,
    /// Of what was sent: cookie to the length of a read's answer.
    pub(crate) reads: std::collections::HashMap<u64, usize>,
    pub(crate) size: u64,
    pub(crate) flags: u16,
}

/// Nothing here takes as long: a hang becomes a failure.
const PATIENCE: Duration = Duration::from_secs(60);

impl Client {
    /// Says hello, and nothing more.
    pub(crate) fn greet(socket: &Path) -> UnixStream {
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        let mut hello = [0; 18];
        stream.read_exact(&mut hello).unwrap();
        assert_eq!(&hello[..16], b"NBDMAGICIHAVEOPT");
        let flags = u32::from(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES);
        stream.write_all(&flags.to_be_bytes()).unwrap();
        stream
    }

    pub(crate) fn connect(socket: &Path, structured: bool) -> Client {
        let mut stream = Self::greet(socket);
        if structured {
            send_option(&mut stream, option::STRUCTURED_REPLY, &[]);
            assert_eq!(read_option(&mut stream).1, option_reply::ACK);
            let mut query = 0u32.to_be_bytes().to_vec();
            query.extend(1u32.to_be_bytes());
            query.extend(15u32.to_be_bytes());
            query.extend(b"base:allocation");
            send_option(&mut stream, option::SET_META_CONTEXT, &query);
            assert_eq!(read_option(&mut stream).1, option_reply::META_CONTEXT);
            assert_eq!(read_option(&mut stream).1, option_reply::ACK);
        }
        // No name; the block sizes are asked for.
        let go = [&0u32.to_be_bytes()[..], &[0, 1, 0, 3]].concat();
        send_option(&mut stream, option::GO, &go);
        let (mut size, mut flags) = (0, 0);
        loop {
            let (_, kind, data) = read_option(&mut stream);
            match kind {
                option_reply::ACK => break,
                option_reply::INFO if data[..2] == [0, 0] => {
                    size = u64::from_be_bytes(data[2..10].try_into().unwrap());
                    flags = u16::from_be_bytes(data[10..].try_into().unwrap());
                }
                option_reply::INFO => {}
                other => panic!("reply {other:x} to GO"),
            }
        }
        Client {
            stream,
            structured,
            next: 1,
            reads: Default::default(),
            size,
            flags,
        }
    }

    /// Sends a request without waiting for its answer; its cookie.
    pub(crate) fn send(
        &mut self,
        command: u16,
        flags: u16,
        offset: u64,
        length: u32,
        data: &[u8],
    ) -> u64 {
        let cookie = self.next;
        self.next += 1;
        let length_of_answer = if command == command::READ {
            length as usize
        } else {
            0
        };
        self.reads.insert(cookie, length_of_answer);
        let request = Request {
            command,
            flags,
            cookie,
            offset,
            length,
        };
        self.stream.write_all(&request.encode()).unwrap();
        self.stream.write_all(data).unwrap();
        cookie
    }

    /// Answers to reads that another thread sends over the same connection.
    pub(crate) fn expect_reads(&mut self, cookies: std::ops::RangeInclusive<u64>, length: usize) {
        self.reads.extend(cookies.map(|cookie| (cookie, length)));
    }

    /// The next answer, whichever it is.
    pub(crate) fn receive(&mut self) -> Answer {
        let magic: [u8; 4] = self.take();
        match u32::from_be_bytes(magic) {
            0x6744_6698 => {
                let error = u32::from_be_bytes(self.take());
                let cookie = u64::from_be_bytes(self.take());
                let length = self.reads.remove(&cookie).expect("a cookie that was sent");
                let data = if error == 0 {
                    self.bytes(length)
                } else {
                    Vec::new()
                };
                assert!(length == 0 || !self.structured, "a simple reply to a read");
                Answer {
                    cookie,
                    error,
                    data,
                }
            }
            0x668e_33ef if self.structured => {
                let flags = u16::from_be_bytes(self.take());
                assert_eq!(flags, 1, "one chunk is the whole reply");
                let kind = u16::from_be_bytes(self.take());
                let cookie = u64::from_be_bytes(self.take());
                let length = u32::from_be_bytes(self.take()) as usize;
                let payload = self.bytes(length);
                let expected = self.reads.remove(&cookie).expect("a cookie that was sent");
                match kind {
                    // Data at an offset.
                    1 => {
                        assert_eq!(length, expected + 8);
                        Answer {
                            cookie,
                            error: 0,
                            data: payload[8..].to_vec(),
                        }
                    }
                    5 => {
                        assert_eq!(payload[..4], [0, 0, 0, 1], "the context's number");
                        Answer {
                            cookie,
                            error: 0,
                            data: payload[4..].to_vec(),
                        }
                    }
                    0x8001 => {
                        assert_eq!(payload.len(), 6);
                        Answer {
                            cookie,
                            error: u32::from_be_bytes(payload[..4].try_into().unwrap()),
                            data: Vec::new(),
                        }
                    }
                    other => panic!("chunk of kind {other}"),
                }
            }
            other => panic!("{other:x} begins no reply"),
        }
    }

    /// One request and its answer: the error, or the data.
    pub(crate) fn ask(
        &mut self,
        command: u16,
        flags: u16,
        offset: u64,
        length: u32,
        data: &[u8],
    ) -> Result<Vec<u8>, u32> {
        let cookie = self.send(command, flags, offset, length, data);
        let answer = self.receive();
        assert_eq!(answer.cookie, cookie);
        match answer.error {
            0 => Ok(answer.data),
            error => Err(error),
        }
    }

    pub(crate) fn read(&mut self, offset: u64, length: u32) -> Result<Vec<u8>, u32> {
        self.ask(command::READ, 0, offset, length, &[])
    }

    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), u32> {
        let done = self.ask(command::WRITE, 0, offset, data.len() as u32, data);
        done.map(|nothing| assert!(nothing.is_empty()))
    }

    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Whether no further answer comes: waits for one or the end.
    pub(crate) fn at_end(&mut self) -> bool {
        let mut byte = [0; 1];
        let flags = rustix::net::RecvFlags::PEEK;
        let peek = || rustix::net::recv(&self.stream, &mut byte, flags);
        rustix::io::retry_on_intr(peek).unwrap().1 == 0
    }

    /// Whether the server has closed the connection, which it does at once or never.
    pub(crate) fn is_closed(&mut self) -> bool {
        matches!(self.stream.read(&mut [0; 1]), Ok(0) | Err(_))
    }
}

pub(crate) fn send_option(stream: &mut UnixStream, option: u32, data: &[u8]) {
    let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
    bytes.extend(option.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    stream.write_all(&bytes).unwrap();
}

/// The option it answers, its kind, its data.
pub(crate) fn read_option(stream: &mut UnixStream) -> (u32, u32, Vec<u8>) {
    let mut header = [0; 20];
    stream.read_exact(&mut header).unwrap();
    let at = |from: usize| u32::from_be_bytes(header[from..from + 4].try_into().unwrap());
    assert_eq!(&header[..8], &0x0003_e889_0455_65a9_u64.to_be_bytes());
    let mut data = vec![0; at(16) as usize];
    stream.read_exact(&mut data).unwrap();
    (at(8), at(12), data)
}

/// Bytes that encode their offset and their generation.
pub(crate) fn pattern(offset: u64, length: usize, generation: u8) -> Vec<u8> {
    (0..length as u64)
        .map(|n| {
            let at = offset + n;
            (at ^ (at >> 8) ^ (at >> 16)) as u8 ^ generation
        })
        .collect()
}
