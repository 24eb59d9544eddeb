//! How far one request may hold up the replies of others.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex};

use crate::common::{Client, Dir, memory, serve, serve_limited, ways};
use cmwq_nbd::protocol::{Request, command};
use cmwq_nbd::store::{Extent, MemoryStore, Store, ZeroOptions};

#[test]
fn no_request_is_overtaken_without_end() {
    const IN_FLIGHT: u64 = 64;
    const LENGTH: u32 = 256 << 10;
    // A thread that waits for a CPU is overtaken by some; the system's time slices are shorter than
    // this many replies take.
    const MOST: u64 = 30 * IN_FLIGHT;
    let server = serve(memory(1 << 20), None, false);
    let mut client = server.client();
    // The client is slower than the server: there are always replies to send.
    let send = |client: &mut Client| client.send(command::READ, 0, 0, LENGTH, &[]);
    let mut unanswered: BTreeSet<u64> = (0..IN_FLIGHT).map(|_| send(&mut client)).collect();
    for _ in 0..2 * MOST {
        let answered = client.receive().cookie;
        let oldest = *unanswered.first().unwrap();
        assert!(
            answered < oldest + MOST,
            "request {oldest} still waits, and {answered} is answered"
        );
        unanswered.remove(&answered);
        unanswered.insert(send(&mut client));
    }
    for _ in 0..IN_FLIGHT {
        unanswered.remove(&client.receive().cookie);
    }
    assert!(unanswered.is_empty());
}

#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn wait(&self) {
        let (open, changed) = &*self.0;
        let guard = open.lock().unwrap();
        drop(changed.wait_while(guard, |open| !*open));
    }

    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }
}

/// Opens it when dropped, however the test ends.
struct OpenAtLast(Gate);

impl Drop for OpenAtLast {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// Memory whose trims wait for the gate.
struct SlowTrims {
    memory: MemoryStore,
    gate: Gate,
}

impl Store for SlowTrims {
    fn size(&self) -> u64 {
        self.memory.size()
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.memory.read(offset, buf)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.memory.write(offset, data)
    }

    fn zero(&self, offset: u64, length: u64, options: ZeroOptions) -> io::Result<()> {
        self.memory.zero(offset, length, options)
    }

    fn trim(&self, _offset: u64, _length: u64) -> io::Result<()> {
        cmwq::blocking(|| self.gate.wait());
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn extent(&self, offset: u64, length: u64) -> Extent {
        self.memory.extent(offset, length)
    }

    fn memory(&self) -> Option<&MemoryStore> {
        Some(&self.memory)
    }
}

#[test]
fn a_long_request_delays_no_reply_of_those_that_came_with_it() {
    let gate = Gate::default();
    let store = SlowTrims {
        memory: MemoryStore::new(1 << 20).unwrap(),
        gate: gate.clone(),
    };
    let server = serve(Box::new(store), None, false);
    // Before the server, which waits for its requests.
    let gate = OpenAtLast(gate);
    let mut client = server.client();
    // One write of the socket: the server finds both at once.
    let headers =
        [(command::TRIM, 512 << 10), (command::READ, 16 << 10)].map(|(command, length)| {
            let cookie = client.next;
            client.next += 1;
            let is_read = command == command::READ;
            let answer = if is_read { length as usize } else { 0 };
            client.reads.insert(cookie, answer);
            let request = Request {
                command,
                flags: 0,
                cookie,
                offset: 0,
                length,
            };
            request.encode()
        });
    client.stream.write_all(headers.as_flattened()).unwrap();
    let first = client.receive();
    assert_eq!((first.cookie, first.data.len()), (2, 16 << 10));
    drop(gate);
    assert_eq!(client.receive().cookie, 1);
}

#[test]
fn clients_that_read_no_replies_keep_no_other_waiting() {
    // Long reads: the reader leaves them to workers, and a few fill a socket.
    const LENGTH: u32 = 1 << 20;
    const CLIENTS: usize = 2;
    let dir = Dir::new();
    let path = dir.file("image");
    std::fs::write(&path, vec![7; LENGTH as usize]).unwrap();
    let stores = std::iter::once(memory(LENGTH.into())).chain(ways(&path, 1));
    for store in stores {
        let server = serve_limited(store, CLIENTS);
        let silent: Vec<Client> = (0..CLIENTS)
            .map(|_| {
                let mut client = server.client();
                for _ in 0..32 {
                    client.send(command::READ, 0, 0, LENGTH, &[]);
                }
                // Its requests are being carried out.
                client.receive();
                client
            })
            .collect();
        let mut other = server.client();
        for _ in 0..50 {
            assert_eq!(other.read(0, LENGTH).unwrap().len(), LENGTH as usize);
        }
        // What was not read yet is all there.
        for mut client in silent {
            for _ in 1..32 {
                assert_eq!(client.receive().error, 0);
            }
        }
    }
}
