//! What the tests of the endpoint share. A process has one endpoint, so they take turns.

#![allow(dead_code, unused_imports, reason = "each test program uses its part")]

#[path = "../../../cmwq/tests/harness/deadline.rs"]
mod deadline;
#[path = "../../../cmwq/tests/harness/random.rs"]
mod random;

use cmwq_control::{Client, Control, ControlBuilder};
pub(crate) use deadline::Deadline;
pub(crate) use random::{Random, seed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::TempDir;

static TURN: Mutex<()> = Mutex::new(());

/// A process that serves.
pub(crate) struct Endpoint {
    pub(crate) control: Control,
    pub(crate) dir: TempDir,
    _deadline: Deadline,
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
            _deadline: Deadline::long("a test of the endpoint"),
            _turn: turn,
        }
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect_to(self.control.path()).expect("it listens")
    }
}
