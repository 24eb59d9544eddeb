//! Nothing is allocated per request: neither by the reader nor by the workers, whatever the request.
//!
//! The allocator counts for the whole process, while a client that allocates nothing itself keeps
//! requests in flight. The thread that ticks for the engine is left out: on one CPU a window is
//! longer than a tick. Others may allocate now and then, for events that come with time and not
//! with items (a pool asks to be watched); so the measure is windows of requests, most of which
//! must be with few, and some with none.

mod common;
#[path = "../../cmwq/tests/harness/allocations.rs"]
mod count;

use std::io::{Read, Write};

use cmwq_nbd::protocol::{Request, command};
use cmwq_nbd::store::Store;
use common::{Client, Dir, cipher, memory, serve, ways};

const SIZE: u64 = 4 << 20;
const DEPTH: usize = 32;
/// Bytes in flight: they fit into the socket.
const AT_ONCE: usize = 512 << 10;
const WINDOWS: usize = 60;
/// Buffers are made at first use, tables have grown to their size.
const WARM_UP: usize = 30;

/// Sends `DEPTH` requests, some at a time, and reads all answers, in memory made before.
fn window(client: &mut Client, rounds: usize, requests: &[u8], answers: &mut [u8]) {
    for _ in 0..rounds {
        client.stream.write_all(requests).unwrap();
        client.stream.read_exact(answers).unwrap();
    }
}

/// How many at a time: few enough that no reply waits for the client, since such a wait replaces a worker.
fn together(length: u32) -> usize {
    (AT_ONCE / length as usize).clamp(1, DEPTH)
}

fn requests(kind: u16, length: u32) -> Vec<u8> {
    let mut bytes = vec![];
    for n in 0..together(length) as u64 {
        let request = Request {
            command: kind,
            flags: 0,
            cookie: n,
            offset: n * u64::from(length) % SIZE,
            length,
        };
        bytes.extend(request.encode());
        bytes.extend(vec![7; request.payload() as usize]);
    }
    bytes
}

fn check(store: Box<dyn Store>, encrypted: bool, what: &str) {
    let server = serve(store, encrypted.then(|| cipher(64, 512)), false);
    // Short, whole small buffers, and one size of large ones.
    for length in [4096u32, 32 << 10, 256 << 10] {
        for (kind, answer) in [
            (command::READ, 16 + length as usize),
            (command::WRITE, 16),
            (command::WRITE_ZEROES, 16),
        ] {
            if length > 64 << 10 && kind == command::WRITE_ZEROES {
                continue;
            }
            let mut client = server.simple_client();
            let requests = requests(kind, length);
            let mut answers = vec![0; answer * together(length)];
            let (mut few, mut none) = (0, 0);
            for n in 0..WARM_UP + WINDOWS {
                let before = count::of_items();
                window(
                    &mut client,
                    DEPTH / together(length),
                    &requests,
                    &mut answers,
                );
                let made = count::of_items() - before;
                if n >= WARM_UP {
                    few += usize::from(made < DEPTH as u64 / 4);
                    none += usize::from(made == 0);
                }
            }
            assert!(
                few > WINDOWS / 2 && none > 0,
                "{what}: command {kind} of {length} bytes: of {WINDOWS} windows {none} were without allocation, {few} with few"
            );
        }
    }
}

// One test: the count is the process's.
#[test]
fn a_request_allocates_nothing() {
    check(memory(SIZE), true, "memory, encrypted");
    check(memory(SIZE), false, "memory, plain");
    let dir = Dir::new();
    let path = dir.file("image");
    std::fs::write(&path, vec![0; SIZE as usize]).unwrap();
    for encrypted in [true, false] {
        for store in ways(&path, 512) {
            let how = match store.file_for_ring() {
                Some(_) => "file, by io_uring",
                None => "file",
            };
            check(store, encrypted, how);
        }
    }
}
