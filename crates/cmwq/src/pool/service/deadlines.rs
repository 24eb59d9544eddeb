//! Pools, each with the time at which something is due for it. It reads no clock, so its tests run
//! in virtual time.
#![forbid(unsafe_code)]

use crate::pool::state::pool::Pool;
use std::sync::{Arc, Weak};

/// A pool that may be gone by now; comparable with others.
#[derive(Clone)]
pub(in crate::pool) struct PoolRef(Weak<Pool>);

impl PoolRef {
    pub(in crate::pool) fn to(pool: &Arc<Pool>) -> Self {
        PoolRef(Arc::downgrade(pool))
    }

    pub(in crate::pool) fn get(&self) -> Option<Arc<Pool>> {
        self.0.upgrade()
    }

    pub(in crate::pool) fn into_weak(self) -> Weak<Pool> {
        self.0
    }
}

impl PartialEq for PoolRef {
    fn eq(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0)
    }
}

/// Unordered: there are few, and all are scanned at once.
pub(in crate::pool) struct Deadlines<P>(Vec<(u64, P)>);

impl<P> Default for Deadlines<P> {
    fn default() -> Self {
        Deadlines(Vec::new())
    }
}

impl<P: PartialEq> Deadlines<P> {
    /// Something is due for `pool` at `at`, instead of at its previous time.
    pub(in crate::pool) fn set(&mut self, at: u64, pool: P) {
        self.0.retain(|(_, own)| *own != pool);
        self.0.push((at, pool));
    }

    /// The pools that are due, in the order in which they were set.
    pub(in crate::pool) fn take_due(&mut self, now: u64) -> Vec<P> {
        let due = self.0.extract_if(.., |(at, _)| *at <= now);
        due.map(|(_, pool)| pool).collect()
    }

    pub(in crate::pool) fn earliest(&self) -> Option<u64> {
        self.0.iter().map(|(at, _)| *at).min()
    }
}
