//! Whatever a client sends, there is an answer: requests that were mutilated at random, from a seed.
//!
//! `CMWQ_TEST_OPS` sets how many, `CMWQ_TEST_SEED` repeats a run.

#[path = "../../cmwq/tests/harness/random.rs"]
mod random;

use crate::connection::{Connection, Framing};
use crate::http;
use crate::methods::answer;
use crate::protocol::{EndpointCounts, MAX_REQUEST_BYTES, Reply};
use crate::trace::Tracer;
use cmwq::Engine;
use cmwq::topology::Topology;
use random::{Random, number, seed};
use std::io::{self, Read, Write};
use std::time::Instant;

const ROUNDS: u64 = 5_000;

/// Sound requests, to be spoilt.
const SEEDS: [&str; 16] = [
    r#"{"method":"hello"}"#,
    r#"{"method":"queues","id":7}"#,
    r#"{"method":"state","params":{}}"#,
    r#"{"method":"busy"}"#,
    r#"{"method":"get","params":{"queue":"fuzzed"}}"#,
    r#"{"method":"get","params":{"queue":"fuzzed","attribute":"cpumask"}}"#,
    r#"{"method":"set","params":{"queue":"fuzzed","attribute":"cpumask","value":"ff,0000000f"}}"#,
    r#"{"method":"set","params":{"queue":"fuzzed","attribute":"affinity_scope","value":"cache_shard\n"}}"#,
    r#"{"method":"set","params":{"queue":"fuzzed","attribute":"max_active","value":"-12345678901234567890"}}"#,
    r#"{"method":"set","params":{"queue":"fuzzed#1","attribute":"nice","value":" 19x"}}"#,
    r#"{"method":"param","params":{"name":"watchdog_thresh","value":"0x10"}}"#,
    r#"{"method":"param","params":{"name":"cpu_intensive_thresh_us","value":"077"}}"#,
    r#"{"method":"param","params":{"engine":1,"name":"debug_force_rr_cpu","value":"Y"}}"#,
    r#"{"method":"metrics","id":{"a":[1,2,{"b":null}]}}"#,
    r#"{"method":"trace_read"}"#,
    "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: */*",
];

const PIECES: [&str; 20] = [
    "\"",
    "\\",
    "\\u0000",
    "\\ud800",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "null",
    "1e999",
    "-0",
    "\u{0}",
    "\u{ff}",
    "\r\n\r\n",
    "\n",
    "99999999999999999999",
    "ffffffff,",
    "HTTP/1.1",
];

fn spoilt(random: &mut Random) -> Vec<u8> {
    let mut line = SEEDS[random.below(SEEDS.len())].as_bytes().to_vec();
    for _ in 0..random.below(6) {
        let at = random.below(line.len() + 1);
        match random.below(6) {
            0 if at < line.len() => line[at] = random.bits() as u8,
            1 if at < line.len() => line[at] ^= 1 << random.below(8),
            2 => {
                let end = at + random.below(line.len() - at + 1);
                line.drain(at..end);
            }
            3 => {
                let end = at + random.below(line.len() - at + 1);
                let copy = line[at..end].to_vec();
                let times = 1 + random.below(20);
                line.splice(at..at, copy.repeat(times));
            }
            4 => {
                let other = SEEDS[random.below(SEEDS.len())].as_bytes();
                line.splice(at.., other[random.below(other.len())..].iter().copied());
            }
            _ => {
                let piece = PIECES[random.below(PIECES.len())].as_bytes();
                line.splice(at..at, piece.iter().copied());
            }
        }
    }
    line
}

/// A client's input, in pieces of any size; its output is checked.
struct Wire {
    incoming: Vec<u8>,
    most: usize,
    outgoing: Vec<u8>,
}

impl Read for Wire {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let count = self.incoming.len().min(self.most).min(to.len());
        to[..count].copy_from_slice(&self.incoming[..count]);
        self.incoming.drain(..count);
        Ok(count)
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.outgoing.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn every_mutilated_request_has_an_answer_of_one_line() {
    let mut random = Random::new(seed("fuzz"));
    let topology = Topology::from_synthetic("l3:2 core:2 pu:2").expect("valid");
    let engine = Engine::builder()
        .topology(topology)
        .build()
        .expect("an engine");
    let _queue = engine.workqueue("fuzzed").build().expect("a queue");
    cmwq::observe::set_warning_handler(|_| {});
    let counts = EndpointCounts::default();
    let mut tracer = Tracer::default();
    for _ in 0..number("CMWQ_TEST_OPS", ROUNDS) {
        let line = spoilt(&mut random);
        let head = http::answer(&line, &counts);
        assert!(head.starts_with(b"HTTP/1.1 "));

        let mut incoming = line;
        incoming.push(b'\n');
        let bytes = incoming.len();
        let lines = incoming.iter().filter(|byte| **byte == b'\n').count();
        let wire = Wire {
            incoming,
            most: 1 + random.below(100),
            outgoing: Vec::new(),
        };
        let now = Instant::now();
        let mut connection = Connection::new(wire, Framing::Lines, MAX_REQUEST_BYTES, now);
        let mut answers = 0;
        while answers < lines {
            let request = match connection.next_request() {
                Ok(Some(request)) => request,
                Ok(None) => {
                    let _ = connection.receive(now);
                    continue;
                }
                // Duplicated too often: a real client would be cut off here.
                Err(()) => {
                    assert!(bytes > MAX_REQUEST_BYTES, "a request of {bytes} bytes");
                    break;
                }
            };
            let reply = answer(&request, &mut tracer, &counts);
            let text = serde_json::to_vec(&reply).expect("it has a form in JSON");
            assert!(!text.contains(&b'\n'));
            let again: Reply = serde_json::from_slice(&text).expect("and can be read again");
            assert!(again.result.is_some() != again.error.is_some());
            answers += 1;
        }
    }
}
