//! The work of a request: the SHA-256 of a message, and the message compressed.

use flate2::{Compress, Compression, FlushCompress};
use sha2::{Digest, Sha256};
use std::cell::RefCell;
use std::thread;
use std::time::{Duration, Instant};

/// The bytes of a SHA-256.
pub(crate) const HASH: usize = 32;
/// How many different messages a client sends.
const MESSAGES: u64 = 16;
const WORDS: [&str; 16] = [
    "account",
    "balance",
    "created",
    "currency",
    "customer",
    "description",
    "false",
    "id",
    "item",
    "null",
    "order",
    "price",
    "quantity",
    "status",
    "true",
    "updated",
];

/// What a server does besides hashing and compressing.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    /// Each request makes a compressor of its own (about 220 KB) instead of using its thread's.
    pub(crate) fresh: bool,
    /// Every so many requests one sleeps for a millisecond, as if it waited for a disk.
    pub(crate) sleep_every: u32,
}

thread_local! {
    static COMPRESSOR: RefCell<Compress> = RefCell::new(compressor());
}

fn compressor() -> Compress {
    Compress::new(Compression::fast(), false)
}

/// The answer to a message: its hash, and the message compressed.
pub(crate) fn answer(message: &[u8], fresh: bool) -> Vec<u8> {
    if fresh {
        return answer_with(&mut compressor(), message);
    }
    COMPRESSOR.with_borrow_mut(|compressor| {
        compressor.reset();
        answer_with(compressor, message)
    })
}

fn answer_with(compressor: &mut Compress, message: &[u8]) -> Vec<u8> {
    let mut answer = Vec::with_capacity(HASH + message.len() + 64);
    answer.extend_from_slice(&Sha256::digest(message));
    let done = compressor.compress_vec(message, &mut answer, FlushCompress::Finish);
    assert!(matches!(done, Ok(flate2::Status::StreamEnd)), "{done:?}");
    answer
}

/// A request that waits: the system call during which the thread does not compute.
pub(crate) fn sleep() {
    thread::sleep(Duration::from_millis(1));
}

/// Messages like the text of a web service, and the hash of each; the same in every run.
pub(crate) fn messages(bytes: usize) -> Vec<(Vec<u8>, [u8; HASH])> {
    let message = |seed: u64| {
        let mut random = Random(seed);
        let mut message = Vec::new();
        while message.len() < bytes {
            let word = WORDS[random.next() as usize % WORDS.len()];
            let number = random.next() % 10_000;
            message.extend_from_slice(format!("\"{word}\":{number},").as_bytes());
        }
        message.truncate(bytes);
        let hash = Sha256::digest(&message).into();
        (message, hash)
    };
    (1..=MESSAGES).map(message).collect()
}

/// How long one request takes on this thread, in microseconds: the median of some hundred.
pub(crate) fn microseconds(bytes: usize, fresh: bool) -> f64 {
    let messages = messages(bytes);
    let mut times: Vec<f64> = (0..400)
        .map(|number| {
            let start = Instant::now();
            std::hint::black_box(answer(&messages[number % messages.len()].0, fresh));
            start.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Marsaglia's xorshift: the same numbers in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// The time to the next arrival, in seconds, if arrivals are independent and `rate` come a second.
    pub(crate) fn gap(&mut self, rate: f64) -> f64 {
        let share = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        -(1.0 - share).ln() / rate
    }
}
