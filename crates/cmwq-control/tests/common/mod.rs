//! What the tests of the endpoint share. A process has one endpoint, so they take turns.

#![allow(dead_code)]

use cmwq_control::{Client, Control, ControlBuilder};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::TempDir;

static TURN: Mutex<()> = Mutex::new(());

/// A process that serves.
pub(crate) struct Endpoint {
    pub(crate) control: Control,
    pub(crate) dir: TempDir,
    _turn: MutexGuard<'static, ()>,
}

pub(crate) fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Endpoint {
    pub(crate) fn new() -> Self {
        Self::with(ControlBuilder::new())
    }

    pub(crate) fn with(builder: ControlBuilder) -> Self {
        let turn = turn();
        let dir = tempfile::tempdir().expect("a folder");
        let control = builder
            .dir(dir.path().join("cmwq"))
            .serve()
            .expect("it serves");
        Endpoint {
            control,
            dir,
            _turn: turn,
        }
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect_to(self.control.path()).expect("it listens")
    }
}

/// xorshift64*: enough for tests, and the same everywhere.
pub(crate) struct Random(u64);

impl Random {
    /// From `CMWQ_TEST_SEED`, or else from the clock; said, so that a failure can be repeated.
    pub(crate) fn new(test: &str) -> Self {
        let seed = std::env::var("CMWQ_TEST_SEED")
            .ok()
            .and_then(|text| text.parse().ok());
        let seed = seed.unwrap_or_else(|| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.map_or(1, |now| now.as_nanos() as u64)
        });
        println!("{test}: CMWQ_TEST_SEED={seed}");
        Random(seed | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 16) % end
    }

    pub(crate) fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len() as u64) as usize]
    }
}
