//! Which items of a pool run, and on which threads: non-reentrance looks them up here.
#![forbid(unsafe_code)]

use super::slab::Slab;
use crate::item::{Completion, List, ListKind, WorkFn, address_of};
use crate::sys::atomic::{AtomicU32, Ordering};
use crate::sys::map::HashMap;
use crate::sys::{clock, thread};
use crossbeam_utils::CachePadded;
use std::sync::Arc;

/// How many buckets the table has, as in the kernel.
const BUCKETS: usize = if cfg!(cmwq_loom) { 1 } else { 64 };
const NONE: u32 = u32::MAX;

/// One running item. Its memory may be gone: the address is only compared.
pub(crate) struct Running {
    pub(crate) address: usize,
    pub(crate) func: Option<WorkFn>,
    pub(crate) pwq: u32,
    /// Items that met a run of themselves: they run on the same worker, right after it (non-reentrance).
    pub(crate) scheduled: List,
    /// Completions for the end of this run.
    pub(crate) waiters: Vec<Arc<Completion>>,
    /// The thread that runs it, and when it began, by the coarse clock.
    pub(crate) by: Executor,
    pub(crate) since_ns: u64,
    next: u32,
}

/// A thread that runs items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Executor {
    /// The kernel's thread id.
    pub(crate) tid: i32,
    pub(crate) rescuer: bool,
    /// Whether its run has a description. This is in a word that is written anyway, so a run
    /// without one costs nothing.
    pub(crate) described: bool,
}

impl Executor {
    /// The calling worker.
    #[inline]
    pub(crate) fn worker() -> Self {
        Self::thread(thread::current_tid())
    }

    /// The worker of this thread id.
    #[inline]
    pub(crate) fn thread(tid: i32) -> Self {
        Executor {
            tid,
            rescuer: false,
            described: false,
        }
    }

    /// The calling rescuer.
    pub(crate) fn rescuer() -> Self {
        Executor {
            rescuer: true,
            ..Self::worker()
        }
    }
}

/// The first run of each bucket. Only the holder of the pool's lock changes them; any thread may read
/// them.
pub(crate) struct Buckets(CachePadded<[AtomicU32; BUCKETS]>);

impl Buckets {
    fn new() -> Arc<Self> {
        let empty = std::array::from_fn(|_| AtomicU32::new(NONE));
        Arc::new(Buckets(CachePadded::new(empty)))
    }

    /// Whether it is certain that no item at this address runs. The caller owns the item. Then what
    /// the runs of the item did in this pool happened before.
    ///
    /// The caller acquired the item after its last run had begun, and the run was entered before
    /// that. So what is read is the entry of the run, or was written later, under the pool's lock.
    #[inline]
    pub(crate) fn has_none(&self, address: usize) -> bool {
        // Acquire pairs with the Release of the thread that has emptied the bucket: it took the lock
        // after the run was removed, or removed it itself.
        self.0[bucket(address)].load(Ordering::Acquire) == NONE
    }

    /// For the holder of the pool's lock. Relaxed, since only such holders write.
    #[inline]
    fn first(&self, bucket: usize) -> u32 {
        self.0[bucket].load(Ordering::Relaxed)
    }

    /// For the holder of the pool's lock. Release: see [`has_none`](Self::has_none).
    #[inline]
    fn set_first(&self, bucket: usize, key: u32) {
        self.0[bucket].store(key, Ordering::Release);
    }
}

/// The running items, found by address and function.
pub(crate) struct BusyTable {
    heads: Arc<Buckets>,
    entries: Slab<Running>,
    /// The descriptions, by the key of the run. An entry is valid only if the run's executor is
    /// `described`; others are left over from earlier runs.
    descriptions: HashMap<u32, String>,
}

#[inline]
fn bucket(address: usize) -> usize {
    // Items are aligned to 8 and often to a line; multiplying by an odd constant (2^64 over the
    // golden ratio) and taking the top bits spreads both.
    let spread = (address as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (((spread >> 32) * BUCKETS as u64) >> 32) as usize
}

impl BusyTable {
    pub(crate) fn new() -> Self {
        BusyTable {
            heads: Buckets::new(),
            entries: Slab::new(),
            descriptions: HashMap::default(),
        }
    }

    pub(crate) fn buckets(&self) -> Arc<Buckets> {
        self.heads.clone()
    }

    /// Whether nothing runs.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.len() == 0
    }

    /// The run of the item with this address and this function, if there is one; of two, the one
    /// that began later: see [`insert_last`](Self::insert_last).
    #[inline]
    pub(crate) fn find(&self, address: usize, func: Option<WorkFn>) -> Option<u32> {
        let mut key = self.heads.first(bucket(address));
        while key != NONE {
            let running = &self.entries[key];
            if running.address == address && address_of(running.func) == address_of(func) {
                return Some(key);
            }
            key = running.next;
        }
        None
    }

    pub(crate) fn get(&self, key: u32) -> &Running {
        &self.entries[key]
    }

    pub(crate) fn get_mut(&mut self, key: u32) -> &mut Running {
        &mut self.entries[key]
    }

    #[inline]
    pub(crate) fn insert(
        &mut self,
        address: usize,
        func: Option<WorkFn>,
        pwq: u32,
        by: Executor,
    ) -> u32 {
        let bucket = bucket(address);
        let next = self.heads.first(bucket);
        let key = self.entries.insert(Running {
            address,
            func,
            pwq,
            scheduled: List::new(ListKind::Scheduled),
            waiters: Vec::new(),
            by,
            since_ns: clock::coarse_ns(),
            next,
        });
        self.heads.set_first(bucket, key);
        key
    }

    /// As [`insert`](Self::insert), for a run that began before those in the table. If another run
    /// with the same address and function is in the table, this run's item was freed by its own
    /// function and its memory was used for a new item: then look-ups must find the other run.
    pub(crate) fn insert_last(
        &mut self,
        address: usize,
        func: Option<WorkFn>,
        pwq: u32,
        by: Executor,
    ) -> u32 {
        let key = self.insert(address, func, pwq, by);
        let bucket = bucket(address);
        let mut last = self.entries[key].next;
        if last == NONE {
            return key;
        }
        self.heads.set_first(bucket, last);
        while self.entries[last].next != NONE {
            last = self.entries[last].next;
        }
        self.entries[last].next = key;
        self.entries[key].next = NONE;
        key
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Running> {
        self.entries.iter().map(|(_, running)| running)
    }

    /// Describes the run of this item on the thread `tid`. Returns the description if there is no such run.
    pub(crate) fn describe(
        &mut self,
        (address, func): (usize, usize),
        tid: i32,
        description: String,
    ) -> Result<(), String> {
        let is_meant = |run: &Running| {
            run.by.tid == tid && run.address == address && address_of(run.func) == func
        };
        let Some(key) = self.entries.iter().find(|(_, run)| is_meant(run)) else {
            return Err(description);
        };
        let key = key.0;
        self.entries[key].by.described = true;
        self.descriptions.insert(key, description);
        Ok(())
    }

    /// All runs, with their descriptions.
    pub(crate) fn iter_described(&self) -> impl Iterator<Item = (&Running, Option<&str>)> {
        self.entries.iter().map(|(key, run)| {
            let described = run.by.described.then(|| self.descriptions.get(&key));
            (run, described.flatten().map(String::as_str))
        })
    }

    /// Ends a run whose private list is empty.
    #[inline]
    pub(crate) fn remove(&mut self, key: u32) {
        let running = self.entries.remove(key);
        debug_assert!(
            running.scheduled.is_empty(),
            "a run ended with items scheduled behind it"
        );
        let bucket = bucket(running.address);
        let first = self.heads.first(bucket);
        if first == key {
            self.heads.set_first(bucket, running.next);
            return;
        }
        let mut before = first;
        while self.entries[before].next != key {
            before = self.entries[before].next;
        }
        self.entries[before].next = running.next;
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;
    use crate::item::RawWork;
    use std::ptr::NonNull;

    extern "C-unwind" fn one(_: NonNull<RawWork>) {
        std::hint::black_box(1);
    }
    extern "C-unwind" fn two(_: NonNull<RawWork>) {
        std::hint::black_box(2);
    }

    #[test]
    fn an_item_is_its_address_and_its_function() {
        let mut busy = BusyTable::new();
        let key = busy.insert(0x1000, Some(one), 7, Executor::worker());
        assert_eq!(busy.find(0x1000, Some(one)), Some(key));
        assert_eq!(
            busy.find(0x1000, Some(two)),
            None,
            "an address reused for another function is another item"
        );
        assert_eq!(busy.find(0x1008, Some(one)), None);
        busy.remove(key);
        assert_eq!(busy.find(0x1000, Some(one)), None);
    }

    #[test]
    fn of_two_runs_at_one_address_the_one_that_began_later_is_found() {
        let one: WorkFn = std::hint::black_box(one);
        let mut busy = BusyTable::new();
        let by = Executor::worker;
        // Alone in its bucket: there is no other.
        let alone = busy.insert_last(0x1000, Some(one), 1, by());
        assert_eq!(busy.find(0x1000, Some(one)), Some(alone));
        busy.remove(alone);
        // The memory of the older run's item is used again, and the new item runs already.
        let later = busy.insert(0x1000, Some(one), 2, by());
        let older = busy.insert_last(0x1000, Some(one), 1, by());
        assert_eq!(busy.find(0x1000, Some(one)), Some(later));
        // As many others, so that every bucket has some: they go before it, and behind it.
        let others: Vec<u32> = (1..1000)
            .map(|n| busy.insert(0x10_0000 + n * 8, Some(one), 0, by()))
            .collect();
        let oldest = busy.insert_last(0x1000, Some(one), 0, by());
        assert_eq!(busy.find(0x1000, Some(one)), Some(later));
        busy.remove(later);
        assert_eq!(busy.find(0x1000, Some(one)), Some(older));
        busy.remove(older);
        assert_eq!(busy.find(0x1000, Some(one)), Some(oldest));
        others.into_iter().for_each(|key| busy.remove(key));
        busy.remove(oldest);
        assert_eq!(busy.find(0x1000, Some(one)), None);
        assert!(busy.is_empty());
    }

    #[test]
    fn removal_keeps_the_rest_of_a_crowded_bucket() {
        // One value: a function may have several addresses.
        let one: WorkFn = std::hint::black_box(one);
        let mut busy = BusyTable::new();
        let keys: Vec<(usize, u32)> = (1..500)
            .map(|n| (n * 8, busy.insert(n * 8, Some(one), 0, Executor::worker())))
            .collect();
        for &(address, key) in keys.iter().filter(|(address, _)| address % 24 == 0) {
            busy.remove(key);
            assert_eq!(busy.find(address, Some(one)), None);
        }
        for &(address, key) in keys.iter().filter(|(address, _)| address % 24 != 0) {
            assert_eq!(busy.find(address, Some(one)), Some(key));
        }
        assert_eq!(
            busy.entries.len(),
            keys.iter().filter(|(address, _)| address % 24 != 0).count()
        );
    }
}
