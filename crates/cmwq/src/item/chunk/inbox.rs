//! The inbox of a pool: where issuers publish, without its lock.
//!
//! One word: the address of the newest item, each item linking to the one before it, or nothing. Publishing is one
//! compare-exchange. Whoever holds the pool's lock takes the whole chain with one swap and turns it around, so items come
//! out in the order in which they were published. In the place of an item there may be a [chunk](super::chunk) of them.
//!
//! The lowest bit of an *empty* inbox is [`NOTIFY`]: "whoever publishes next must see to it that a worker is woken". It is in
//! the same word as the items, so setting it (only while there are none) and publishing can not pass each other by: that
//! is the whole of the no-lost-wake-up argument on the issuer's side, see `pool/PROTOCOL.md`.

use super::chain::Chain;
use super::entries::Chunks;
use super::open::Open;
use super::part::Part;
use crate::item::closure::Small;
use crate::item::raw::{Pending, RawWork, WorkFn, link};
use crate::sys::atomic::plain::AtomicBool;
use crate::sys::atomic::{AtomicPtr, Ordering};
use crate::sys::prefetch;
use std::ptr::NonNull;

const NOTIFY: usize = 1;

/// What the publisher has to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// Nothing: a worker that is awake will look.
    Quiet,
    /// See to it that a worker is woken: the publisher took the NOTIFY bit, and is the only one who did.
    MustNotify,
}

pub(crate) struct Inbox {
    head: AtomicPtr<RawWork>,
    /// For a worker that waits awake: what was published has been accepted by somebody else, and waits on the worklist. Beside the
    /// head, where such a worker looks anyway. A hint: who sleeps relies on the head alone.
    accepted: AtomicBool,
    /// For a publisher whose duty it is to call somebody: a worker that is awake runs something, and will look when that ends. A hint.
    worked: AtomicBool,
}

impl Inbox {
    pub(crate) fn new() -> Self {
        Inbox {
            head: AtomicPtr::new(std::ptr::null_mut()),
            accepted: AtomicBool::new(false),
            worked: AtomicBool::new(false),
        }
    }

    /// Publishes `item`.
    #[inline]
    pub(crate) fn push(&self, item: Pending) -> Pushed {
        self.push_node(item.into_raw())
    }

    /// Publishes `item` in a new chunk, to which the calling thread adds from now on.
    pub(crate) fn push_chunk(&self, item: Pending, chunks: &Chunks, open: &Open) -> Pushed {
        self.push_node(chunks.make_of_item(item, open))
    }

    /// The same for a closure, which is handed on.
    pub(crate) fn push_closure(&self, closure: &Small, chunks: &Chunks, open: &Open) -> Pushed {
        self.push_node(chunks.make_of_closure(closure, open))
    }

    /// The same for what has a handle: `item`, which is bound already.
    pub(crate) fn push_with_handle(
        &self,
        closure: &Small,
        item: Pending,
        chunks: &Chunks,
        open: &Open,
    ) -> Pushed {
        self.push_node(chunks.make_with_handle(closure, item, open))
    }

    /// Publishes all that is in the chain.
    pub(crate) fn push_chain(&self, chain: Chain<'_>) -> Pushed {
        match chain.into_ends() {
            Some((newest, oldest)) => self.push_nodes(newest, oldest),
            None => Pushed::Quiet,
        }
    }

    /// The caller owns what the node stands for.
    #[inline]
    fn push_node(&self, item: NonNull<RawWork>) -> Pushed {
        self.push_nodes(item, item)
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
            // Release publishes the items' fields; on success the taker's Acquire reads them. Acquire: taking NOTIFY makes what
            // was done before it was set visible to the publisher, who goes on to the pool's lock anyway; it keeps the
            // argument local.
            match self.head.compare_exchange_weak(
                head,
                newest.as_ptr(),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    return if notify != 0 {
                        Pushed::MustNotify
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

    /// Whether a worker that waits awake has something to look for.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        !self.is_empty() || self.accepted.load(Ordering::Relaxed)
    }

    /// A worker that waits awake has found something, probably a single item, and is about to take it: all lines that it will write to are asked for at once.
    #[inline]
    pub(crate) fn prefetch_item(&self) {
        prefetch::to_write(std::ptr::from_ref(&self.head).addr());
        RawWork::prefetch(self.head.load(Ordering::Relaxed).addr());
    }

    /// Calls a worker that waits awake: items were accepted that nobody has taken.
    #[inline]
    pub(crate) fn tell_accepted(&self) {
        if !self.accepted.load(Ordering::Relaxed) {
            self.accepted.store(true, Ordering::Relaxed);
        }
    }

    /// The caller, who holds the pool's lock, has seen that nothing waits.
    #[inline]
    pub(crate) fn none_accepted(&self) {
        if self.accepted.load(Ordering::Relaxed) {
            self.accepted.store(false, Ordering::Relaxed);
        }
    }

    /// A worker begins to run what it has taken, or the last one goes to sleep.
    #[inline]
    pub(crate) fn set_worked(&self, worked: bool) {
        // Nearly always it is that already.
        if self.worked.load(Ordering::Relaxed) != worked {
            self.worked.store(worked, Ordering::Relaxed);
        }
    }

    /// Whether a worker is awake, and will look when what it runs has ended.
    #[inline]
    pub(crate) fn is_worked(&self) -> bool {
        cfg!(cmwq_loom) || self.worked.load(Ordering::Relaxed)
    }

    /// Moves all items behind those in `taken`, oldest first. NOTIFY stays as it is if there are none.
    #[inline]
    pub(crate) fn take_all(&self, taken: &mut Taken) {
        if self.is_empty() {
            return;
        }
        // Acquire pairs with the publishers' Release: their chain of exchanges is one release sequence.
        let newest = NonNull::new(self.head.swap(std::ptr::null_mut(), Ordering::Acquire));
        let (mut item, mut behind) = (newest, None);
        while let Some(this) = item {
            // SAFETY: the swap made the chain ours; each item on it was published exactly once.
            unsafe {
                item = link::next(this);
                link::set_next(this, behind);
                taken.len += weigh(this);
            }
            behind = Some(this);
        }
        let Some(newest) = newest else { return };
        match taken.newest.replace(newest) {
            // SAFETY: it is owned by `taken`.
            Some(last) => unsafe { link::set_next(last, behind) },
            None => taken.oldest = behind,
        }
    }

    /// Asks the next publisher for a wake-up. `false`: there are items already, nothing was asked.
    #[inline]
    pub(crate) fn ask_notify(&self) -> bool {
        let asked = std::ptr::without_provenance_mut(NOTIFY);
        let head = self.head.load(Ordering::Relaxed);
        if head == asked {
            return true;
        }
        // Release: who takes the bit (Acquire) sees what the asker did before, such as its entry in the idle list.
        match self.head.compare_exchange(
            std::ptr::null_mut(),
            asked,
            Ordering::AcqRel,
            Ordering::Relaxed,
        ) {
            Ok(_) => true,
            Err(now) => now == asked,
        }
    }

    /// Takes the request back: a worker is awake and will look by itself.
    #[inline]
    pub(crate) fn drop_notify(&self) {
        let asked = std::ptr::without_provenance_mut(NOTIFY);
        if self.head.load(Ordering::Relaxed) == asked {
            // A failure means that a publisher took it first; it will find the searching worker and do nothing.
            let _ = self.head.compare_exchange(
                asked,
                std::ptr::null_mut(),
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
    }
}

/// About how many items a node stands for that is being taken.
///
/// # Safety
/// The caller owns what the node stands for.
#[inline]
unsafe fn weigh(node: NonNull<RawWork>) -> usize {
    // SAFETY: by the contract.
    unsafe {
        if !node.as_ref().is_node() {
            return 1;
        }
        let items = Part::weigh(node);
        node.as_ref().set_weight(items);
        items as usize
    }
}

/// Items taken from an inbox that nobody has accepted yet, oldest first. Whoever owns it has to use it up: an item in it has no
/// other owner.
#[derive(Default)]
pub(crate) struct Taken {
    oldest: Option<NonNull<RawWork>>,
    newest: Option<NonNull<RawWork>>,
    /// What is left of the chunk that was the oldest, which is before it.
    part: Option<Part>,
    /// About how many items there are from the oldest on.
    len: usize,
}

// SAFETY: it owns its items, and ownership of items may move between threads (`Pending: Send`).
unsafe impl Send for Taken {}

impl Taken {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.oldest.is_none() && self.part.is_none()
    }

    /// About how many items there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len + self.part.as_ref().map_or(0, Part::len)
    }

    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<Pending> {
        if let Some(part) = self.oldest_part() {
            let item = part.pop_item();
            self.leave_empty_part();
            return Some(item);
        }
        let item = self.pop_node()?;
        // SAFETY: it is no chunk, and was published as what it is.
        Some(unsafe { Pending::from_raw(item) })
    }

    /// Whether the oldest item is in a chunk.
    #[inline]
    pub(crate) fn begins_with_chunk(&self) -> bool {
        // SAFETY: the chain is ours (`take_all`).
        self.part.is_some()
            || self
                .oldest
                .is_some_and(|node| unsafe { node.as_ref() }.is_node())
    }

    /// The pool workqueue that the oldest item is for, if that is in a chunk.
    #[inline]
    pub(crate) fn pwq_of_chunk(&mut self) -> Option<u32> {
        self.oldest_part().map(|part| part.pwq())
    }

    /// The oldest items, up to `most` of one chunk, if the oldest is in one; as long as `fits` their addresses and functions.
    /// Nothing of an item is touched.
    #[inline]
    pub(crate) fn split_chunk(
        &mut self,
        most: usize,
        fits: Option<impl Fn(usize, Option<WorkFn>) -> bool>,
    ) -> Option<Part> {
        let part = self.oldest_part()?.split(most, fits);
        self.leave_empty_part();
        (part.len() > 0).then_some(part)
    }

    /// What is left of the oldest, if that is a chunk.
    #[inline]
    fn oldest_part(&mut self) -> Option<&mut Part> {
        if self.part.is_none() {
            let node = self.oldest?;
            // SAFETY: the chain is ours (`take_all`), and a node in it that is none of an item is that of a chunk that was published.
            unsafe {
                if !node.as_ref().is_node() {
                    return None;
                }
                self.pop_node();
                let (part, last) = Part::close(node);
                if let Some(item) = last {
                    self.push_front(item);
                }
                self.part = Some(part);
            }
            self.leave_empty_part();
        }
        self.part.as_mut()
    }

    /// The item is the oldest but for what is left of the chunk.
    fn push_front(&mut self, item: Pending) {
        let item = item.into_raw();
        // SAFETY: it is owned by `self` from now on.
        unsafe { link::set_next(item, self.oldest) };
        self.newest = self.newest.or(Some(item));
        self.oldest = Some(item);
        self.len += 1;
    }

    #[inline]
    fn leave_empty_part(&mut self) {
        if self.part.as_ref().is_some_and(|part| part.len() == 0) {
            self.part = None;
        }
    }

    #[inline]
    fn pop_node(&mut self) -> Option<NonNull<RawWork>> {
        let node = self.oldest?;
        // SAFETY: the chain is ours, and each node is given out once.
        unsafe {
            self.oldest = link::next(node);
            self.len -= match node.as_ref().is_node() {
                true => node.as_ref().weight() as usize,
                false => 1,
            };
        }
        if self.oldest.is_none() {
            self.newest = None;
        }
        Some(node)
    }
}
