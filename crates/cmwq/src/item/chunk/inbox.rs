//! The inbox of a pool: where issuers publish, without its lock.
//!
//! The inbox is one word: the address of the newest item, or 0 if it is empty. Each item links to
//! the one before it. Publishing is one compare-exchange. The lock holder takes the whole chain
//! with one swap, and [turns it round](super::taken) bit by bit, so items come out in the order in
//! which they were published. A node may be a [chunk](super::entries) of items instead of an item.
//!
//! The lowest bit of an *empty* inbox is [`NOTIFY`]: "the next issuer must make sure that a worker
//! is woken". It is in the same word as the items, and is set only while there are none, so either
//! the thread that sets it sees the published item, or the issuer sees the bit. On the issuer's
//! side this is the whole argument that no wake-up is lost; see `pool/PROTOCOL.md`.

use super::chain::Chain;
use super::entries::ChunkStore;
use super::load::Load;
use super::open::OpenChunk;
use crate::item::raw::{Pending, RawWork, link};
use crate::sys::atomic::plain::{AtomicBool, AtomicU64};
use crate::sys::atomic::{AtomicPtr, Ordering};
use crate::sys::prefetch;
use std::ptr::NonNull;

const NOTIFY: usize = 1;

/// What the issuer has to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// Nothing: either a worker that is awake will poll, or other items were published before.
    Quiet,
    /// Nothing, as above; and no other item is published.
    Alone,
    /// Make sure that a worker is woken: this issuer, and no other, took the NOTIFY bit.
    MustNotify,
}

#[derive(Default)]
pub(crate) struct Inbox {
    head: AtomicPtr<RawWork>,
    /// Tells a spinning worker that another thread has accepted published items, which wait on the
    /// worklist now. It lies beside the head, which the worker polls anyway. It is a hint: a worker
    /// that parks relies on the head alone.
    accepted: AtomicBool,
    /// Tells an issuer that has to wake a worker that one is awake, runs an item, and will poll
    /// when that ends. A hint.
    worked: AtomicBool,
    /// The number of the worker that searches, or did last, and its CPU plus one; 0: unknown. A hint.
    searcher: AtomicU64,
}

/// The word that names a worker and the CPU on which it is expected, if that is known.
fn searcher(worker: u32, cpu: Option<usize>) -> u64 {
    u64::from(worker) << 32 | cpu.map_or(0, |cpu| cpu as u64 + 1)
}

impl Inbox {
    /// Publishes `item`.
    #[inline]
    pub(crate) fn push(&self, item: Pending) -> Pushed {
        let item = item.into_raw();
        self.push_nodes(item, item)
    }

    /// Publishes `load` in a new chunk, which owns it and is the calling thread's open chunk from
    /// now on, until it has `most` entries.
    pub(crate) fn push_in_chunk<L: Load>(
        &self,
        load: L,
        chunks: &ChunkStore,
        open: &OpenChunk,
        most: usize,
    ) -> Pushed {
        let node = chunks.make(load, open, most);
        self.push_nodes(node, node)
    }

    /// Publishes the whole chain.
    pub(crate) fn push_chain(&self, chain: Chain<'_>) -> Pushed {
        match chain.into_ends() {
            Some((newest, oldest)) => self.push_nodes(newest, oldest),
            None => Pushed::Quiet,
        }
    }

    /// The caller owns what the nodes from `newest` to `oldest` stand for, which link to each other.
    #[inline]
    fn push_nodes(&self, newest: NonNull<RawWork>, oldest: NonNull<RawWork>) -> Pushed {
        prefetch::to_write(std::ptr::from_ref(&self.head).addr());
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            let notify = head.addr() & NOTIFY;
            let below = if notify != 0 {
                None
            } else {
                NonNull::new(head)
            };
            // SAFETY: we own `oldest` until the exchange succeeds.
            unsafe { link::set_next(oldest, below) };
            // Release: publishes the items' fields, which the taker acquires. An issuer that takes
            // NOTIFY need not acquire: it takes the pool's lock next, after the thread that has set
            // the bit under it. Before, it would have unlocked before the bit that it has read was
            // set.
            match self.head.compare_exchange_weak(
                head,
                newest.as_ptr(),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    return if notify != 0 {
                        Pushed::MustNotify
                    } else if below.is_none() {
                        Pushed::Alone
                    } else {
                        Pushed::Quiet
                    };
                }
                Err(now) => head = now,
            }
        }
    }

    /// Whether there is nothing to take.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed).addr() & !NOTIFY == 0
    }

    /// Whether a spinning worker has something to take.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        !self.is_empty() || self.accepted.load(Ordering::Relaxed)
    }

    /// Called by a spinning worker that has found something, probably a single item, and is about
    /// to take it: prefetches all lines that the worker will write.
    #[inline]
    pub(crate) fn prefetch_item(&self) {
        prefetch::to_write(std::ptr::from_ref(&self.head).addr());
        RawWork::prefetch(self.head.load(Ordering::Relaxed).addr());
    }

    /// Signals a spinning worker: items were accepted that no worker has taken.
    #[inline]
    pub(crate) fn tell_accepted(&self) {
        if !self.accepted.load(Ordering::Relaxed) {
            self.accepted.store(true, Ordering::Relaxed);
        }
    }

    /// Called with the pool's lock held, after the caller has seen that nothing waits: takes the
    /// signal back.
    #[inline]
    pub(crate) fn none_accepted(&self) {
        if self.accepted.load(Ordering::Relaxed) {
            self.accepted.store(false, Ordering::Relaxed);
        }
    }

    /// The worker of this number searches, or will, on `cpu`.
    #[inline]
    pub(crate) fn expect_searcher(&self, worker: u32, cpu: Option<usize>) {
        self.set_searcher(searcher(worker, cpu));
    }

    /// As [`expect_searcher`](Self::expect_searcher), unless another thread has said something else
    /// since the worker was expected on the CPU `from`.
    pub(crate) fn searcher_is_woken(&self, worker: u32, from: Option<usize>, cpu: Option<usize>) {
        let _ = self.searcher.compare_exchange(
            searcher(worker, from),
            searcher(worker, cpu),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
    }

    #[inline]
    fn set_searcher(&self, word: u64) {
        // Usually it is the same, and issuers use this line, so it is not written in vain.
        if self.searcher.load(Ordering::Relaxed) != word {
            self.searcher.store(word, Ordering::Relaxed);
        }
    }

    /// No worker searches there.
    pub(crate) fn no_searcher(&self) {
        self.set_searcher(0);
    }

    /// Whether a worker may search on some CPU.
    #[inline]
    pub(crate) fn has_searcher(&self) -> bool {
        self.searcher.load(Ordering::Relaxed) as u32 != 0
    }

    /// The worker that searches on this CPU, or did last.
    #[inline]
    pub(crate) fn searcher_on(&self, cpu: usize) -> Option<u32> {
        let word = self.searcher.load(Ordering::Relaxed);
        (word as u32 as usize == cpu + 1).then_some((word >> 32) as u32)
    }

    /// A worker begins to run what it has taken, or the last one parks.
    #[inline]
    pub(crate) fn set_worked(&self, worked: bool) {
        // Nearly always the value is the same.
        if self.worked.load(Ordering::Relaxed) != worked {
            self.worked.store(worked, Ordering::Relaxed);
        }
    }

    /// Whether a worker is awake, and will poll when its item has ended.
    #[inline]
    pub(crate) fn is_worked(&self) -> bool {
        cfg!(cmwq_loom) || self.worked.load(Ordering::Relaxed)
    }

    /// Takes all nodes, which the caller owns from then on. Returns the newest one; each links to
    /// the one before it. If there are none, NOTIFY stays as it is.
    #[inline]
    pub(in crate::item) fn take_chain(&self) -> Option<NonNull<RawWork>> {
        if self.is_empty() {
            return None;
        }
        // Acquire pairs with the issuers' Release: their chain of exchanges is one release sequence.
        NonNull::new(self.head.swap(std::ptr::null_mut(), Ordering::Acquire))
    }

    /// Sets NOTIFY, which asks the next issuer for a wake-up. Returns `false`, and does not set it,
    /// if there are items.
    #[inline]
    pub(crate) fn ask_notify(&self) -> bool {
        let asked = std::ptr::without_provenance_mut(NOTIFY);
        let head = self.head.load(Ordering::Relaxed);
        if head == asked {
            return true;
        }
        // Relaxed: the issuer that takes the bit takes the pool's lock next, which this thread
        // holds. So it sees what this thread did before, such as its entry in the idle list.
        match self.head.compare_exchange(
            std::ptr::null_mut(),
            asked,
            Ordering::Relaxed,
            Ordering::Relaxed,
        ) {
            Ok(_) => true,
            Err(now) => now == asked,
        }
    }

    /// Takes NOTIFY back: a worker is awake and will poll by itself.
    #[inline]
    pub(crate) fn drop_notify(&self) {
        let asked = std::ptr::without_provenance_mut(NOTIFY);
        if self.head.load(Ordering::Relaxed) == asked {
            // A failure means that an issuer took it first; it will find the searching worker and do nothing.
            let _ = self.head.compare_exchange(
                asked,
                std::ptr::null_mut(),
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
    }
}
