//! The pools that may steal from each other.
#![forbid(unsafe_code)]

use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::{AtomicI32, AtomicU64, AtomicUsize};
use crate::sys::sync::Mutex;
use std::sync::{Arc, Weak};

/// Items that will wait for less than this are not worth a steal: waking a thief on another CPU
/// takes about as long.
pub(in crate::pool) const WORTH_STEALING_NS: u64 = 15_000;

/// Items that are shorter than this are not worth a steal, however many wait: what limits their
/// rate is their pool's lock, which thieves would need as well.
pub(in crate::pool) const LONG_ENOUGH_NS: u64 = 1_000;
/// Items that are shorter than this do not go to pods under other last-level caches, because
/// carrying them takes about as long.
pub(in crate::pool) const LONG_ENOUGH_FAR_NS: u64 = 3_000;
/// Items that are shorter than this are not worth a wake-up for each. So an issuer whose next item
/// would wait for longer in its pod gives it to another pod.
pub(in crate::pool) const LONG_ENOUGH_ALONE_NS: u64 = 8_000;

/// How many workers are woken at once at most. Each of them takes the lock when it comes, and wakes
/// more if they are still needed. So many items are also the share that an issuer gives a pod
/// before it turns to the next one.
pub(crate) const SHARE: u32 = 4;

/// The pools that may steal from each other: non-strict, of one nice level, for one set of CPUs.
pub(crate) struct Group<P> {
    pub(in crate::pool) members: Mutex<Vec<Weak<P>>>,
    /// Grows after every change of `members`. Relaxed: a thread that finds a new version takes the
    /// lock of the members next.
    pub(in crate::pool) version: AtomicU64,
    /// How many members have a backlog.
    pub(in crate::pool) wanted: AtomicI32,
    /// How many members there are.
    pub(in crate::pool) len: AtomicUsize,
}

impl<P> Group<P> {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Group {
            members: Mutex::new(Vec::new()),
            version: AtomicU64::new(1),
            wanted: AtomicI32::new(0),
            len: AtomicUsize::new(0),
        })
    }

    pub(crate) fn join(&self, pool: &Arc<P>) {
        let mut members = self.members.lock();
        members.push(Arc::downgrade(pool));
        self.len.store(members.len(), Ordering::Relaxed);
        drop(members);
        self.version.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn leave(&self, pool: &Arc<P>) {
        let mut members = self.members.lock();
        members.retain(|member| !std::ptr::eq(member.as_ptr(), Arc::as_ptr(pool)));
        self.len.store(members.len(), Ordering::Relaxed);
        drop(members);
        self.version.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether there is more than one.
    #[inline]
    pub(in crate::pool) fn has_neighbours(&self) -> bool {
        self.len.load(Ordering::Relaxed) > 1
    }

    pub(in crate::pool) fn count_victims(&self, one_more: bool) {
        self.wanted
            .fetch_add(if one_more { 1 } else { -1 }, Ordering::Relaxed);
    }
}
