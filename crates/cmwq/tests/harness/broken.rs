//! Broken promises: an assertion inside a work function is only one more panic to the engine.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::sync::{Mutex, MutexGuard, PoisonError};

/// As many are written down.
const MOST: usize = 20;

/// Broken promises, written down by work functions and issuers, read at the end.
#[derive(Default)]
pub(crate) struct Broken(Mutex<Vec<String>>);

impl Broken {
    pub(crate) fn expect(&self, kept: bool, promise: impl FnOnce() -> String) {
        if !kept {
            let promise = promise();
            let mut texts = self.texts();
            if texts.len() < MOST {
                texts.push(promise);
            }
        }
    }

    fn texts(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn first(&self) -> Option<String> {
        self.texts().first().cloned()
    }

    /// Panics with all of them.
    pub(crate) fn none(&self) {
        let texts = self.texts();
        assert!(texts.is_empty(), "broken promises:\n{}", texts.join("\n"));
    }
}

/// Unwinds out of a work function without the message that `panic!` prints.
pub(crate) fn quiet_panic() -> ! {
    std::panic::resume_unwind(Box::new("on purpose"))
}
