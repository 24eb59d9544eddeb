//! The raw work item: memory that its user owns, a function, and the PENDING bit.
//!
//! PENDING is ownership. The thread that changes it from 0 to 1 owns the item: the fields that are
//! not atomic are its alone until it hands the item on or clears the bit. In the types, that owner
//! is a [`Pending`]: it cannot be copied, an inbox or a list takes it in and gives it out, and
//! starting the item consumes it.
//!
//! The kernel's promise ("set a flag, then queue; the function reads the flag" never misses an
//! event) needs both ends to be read-modify-writes with acquire and release on the one word:
//! [`Pending::claim`] sets, [`Pending::start`] clears. Either the clear comes first, then the
//! claimer sees 0 and queues a new run; or the set comes first, then the clear reads from it and
//! the function sees what the claimer stored. Neither end may be replaced by a plain load or store,
//! except for an item that no thread ever claims: a [one-shot](Pending::one_shot) item, of which
//! only its queue knows the address.

pub(in crate::item) mod link;
use super::location::Location;
use crate::sys::atomic::{AtomicU32, Ordering};
use crate::sys::cell::Guarded;
use crate::sys::holds::Hold;
use crate::sys::prefetch;
use std::ptr::NonNull;

// Models see where an item is. The virtual machine does not charge for it, since it lies on a line
// that its readers use anyway.
#[cfg(cmwq_loom)]
use crate::sys::atomic::AtomicU64 as LocationWord;
#[cfg(not(cmwq_loom))]
use crate::sys::atomic::plain::AtomicU64 as LocationWord;

/// The function that runs a [`RawWork`], as in the example there. It receives the item that it was
/// queued with, which it may free: the engine does not touch the item after the call. It may unwind;
/// the worker catches and counts the panic.
pub type WorkFn = unsafe extern "C-unwind" fn(NonNull<RawWork>);

/// The address of a function; 0: there is none.
#[inline]
pub(crate) fn address_of(func: Option<WorkFn>) -> usize {
    func.map_or(0, |func| func as usize)
}

/// An item that its user owns and may embed anywhere: 40 bytes, aligned to 8, on 64-bit machines.
///
/// All-zero memory is a valid idle item without a function: running it does nothing. The fields
/// have the order of the kernel's `struct work_struct` (`data`, `entry`, `func`), since C programs
/// lay structures of their own over it.
#[repr(C)]
pub struct RawWork {
    /// PENDING, the other flags, the number of references that the engine holds, and above them the
    /// disable depth.
    state: AtomicU32,
    /// The flush colour of its acceptance.
    colour: Guarded<u32>,
    next: Guarded<*mut RawWork>,
    prev: Guarded<*mut RawWork>,
    func: Guarded<Option<WorkFn>>,
    /// Where it is, and which pool it was last queued on: a [`Location`]. The owner writes it; a
    /// thread that searches the item reads it, and has to check it again under that pool's lock.
    location: LocationWord,
}

// What the C ABI promises.
#[cfg(all(target_pointer_width = "64", not(cmwq_loom)))]
const _: () = {
    use std::mem::offset_of;
    assert!(offset_of!(RawWork, state) == 0 && offset_of!(RawWork, next) == 8);
    assert!(offset_of!(RawWork, func) == 24 && size_of::<RawWork>() == 40);
};

const PENDING: u32 = 1;
/// The bit that says that this is no item but the [node](RawWork::node) of a chunk.
const NODE: u32 = 1 << 1;
/// The bit of a one-shot item: its maker queues it once, and no thread ever claims it. It is the
/// first object in a [block](crate::sys::blocks), or in memory of its own if it is too large for
/// one: its function uses the line after its own as well.
const ONE_SHOT: u32 = 1 << 2;
/// The bit that is set when the user has dropped the last handle. Then the thread that gives back
/// the engine's last reference destroys the item. See [`RawWork::lend`].
const NO_HANDLE: u32 = 1 << 3;
/// One reference that the engine holds, and the mask of their number.
const LENT_STEP: u32 = 1 << 4;
const LENT: u32 = DISABLE_STEP - LENT_STEP;
/// One step of the disable depth, which is the upper half of `state`.
const DISABLE_STEP: u32 = 1 << 16;

// SAFETY: any thread may use the atomics, but only the one owner of PENDING, which `Pending` stands
// for, the guarded fields. `func` is written before the item is shared and only read after.
unsafe impl Sync for RawWork {}
// SAFETY: nothing in the item belongs to a thread.
unsafe impl Send for RawWork {}

/// loom's atomics cannot be made at compile time; everything else is the same.
macro_rules! new_item {
    ($state:expr, $func:expr) => {
        RawWork {
            state: AtomicU32::new($state),
            colour: Guarded::new(0),
            location: LocationWord::new(0),
            func: Guarded::new($func),
            next: Guarded::new(std::ptr::null_mut()),
            prev: Guarded::new(std::ptr::null_mut()),
        }
    };
}

// After the macro, which it uses.
mod node;

impl RawWork {
    /// An idle item that was never queued.
    #[cfg(not(cmwq_loom))]
    pub const fn new(func: WorkFn) -> Self {
        new_item!(0, Some(func))
    }

    /// An idle item that was never queued.
    #[cfg(cmwq_loom)]
    pub fn new(func: WorkFn) -> Self {
        new_item!(0, Some(func))
    }

    /// Prefetches the lines of the item at this address for writing: it may lie on two, and after
    /// it is what its function uses first. A hint: any address is allowed.
    #[inline]
    pub(crate) fn prefetch(address: usize) {
        prefetch::to_write(address);
        prefetch::to_write(address.wrapping_add(size_of::<RawWork>()));
    }

    /// Whether the item is pending: queued and not started, or owned for an instant by a thread
    /// that queues or cancels it. A hint: it may have changed by the time the caller reads the
    /// answer.
    pub fn is_pending(&self) -> bool {
        // Acquire: if it is not, its run has begun, and a caller that waits for that run finds the pool.
        self.state.load(Ordering::Acquire) & PENDING != 0
    }

    /// Whether it has a function: all-zero memory has none.
    #[inline]
    pub fn has_function(&self) -> bool {
        self.func().is_some()
    }

    /// Where it is. Only a hint, unless the lock of the pool that it names is held.
    #[inline]
    pub(crate) fn location(&self) -> Location {
        // Relaxed: checked again under the lock.
        Location::unpack(self.location.load(Ordering::Relaxed))
    }

    #[inline]
    pub(in crate::item) fn set_location(&self, location: Location) {
        #[cfg(all(test, not(cmwq_loom)))]
        super::touched::one();
        self.location.store(location.pack(), Ordering::Relaxed);
    }

    /// The address, to compare with what runs.
    #[inline]
    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// The function. Two items with one address and different functions are different items.
    #[inline]
    pub(crate) fn func(&self) -> Option<WorkFn> {
        // SAFETY: written before the item was shared, and never again.
        unsafe { self.func.get() }
    }

    /// The flush colour of its acceptance, for an item on a list whose lock the caller holds.
    #[inline]
    pub(in crate::item) fn colour_on_list(&self) -> u32 {
        // SAFETY: the list owns the item, and only the holder of its lock touches it.
        unsafe { self.colour.get() }
    }

    /// Whether the disable depth is not 0.
    pub(crate) fn is_disabled(&self) -> bool {
        // Relaxed: the caller owns the item, and has read its state when it became the owner.
        self.state.load(Ordering::Relaxed) >= DISABLE_STEP
    }

    /// Increases the disable depth. Returns `false` if the depth is at its maximum, where it stays.
    pub(crate) fn deeper(&self) -> bool {
        let step = |state: u32| state.checked_add(DISABLE_STEP);
        // A claim that still finds the old depth comes before this in the order of changes of this
        // variable; the caller then finds its item and removes it under a lock. Relaxed: a thread
        // that waits for a run asks first whether the item is pending, and acquires there what the
        // start of the run has released, which this read-modify-write continues. A refused claim is
        // promised nothing.
        self.state
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, step)
            .is_ok()
    }

    /// Decreases the disable depth. Returns whether the item may be queued again, or `None` if the
    /// depth was 0 already.
    pub(crate) fn shallower(&self) -> Option<bool> {
        let step = |state: u32| state.checked_sub(DISABLE_STEP);
        // Release: the run of a later claim sees what was done before this, also if others remove
        // disablers in between.
        let before = self
            .state
            .fetch_update(Ordering::Release, Ordering::Relaxed, step)
            .ok()?;
        Some(before / DISABLE_STEP == 1)
    }

    /// Lends the engine a reference to an item that counts its handles apart
    /// ([`Work`](crate::Work)). Each pending or running instance holds one.
    /// [`Pending::claim_and_lend`] does this in one step with the claim. `false`: it holds as many
    /// as it may.
    pub(in crate::item) fn lend(&self) -> bool {
        let step = |state: u32| (state & LENT != LENT).then(|| state + LENT_STEP);
        // Relaxed: the caller's handle keeps the item.
        self.state
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, step)
            .is_ok()
    }

    /// The engine gives a reference back. `true`: it was the last one, and the user has no handle,
    /// so the caller destroys the item.
    #[inline]
    pub(in crate::item) fn unlend(&self) -> bool {
        // AcqRel: the uses of all references happen before the destruction.
        let before = self.state.fetch_sub(LENT_STEP, Ordering::AcqRel);
        before & (LENT | NO_HANDLE) == LENT_STEP | NO_HANDLE
    }

    /// The user drops the last handle. `true`: the engine holds no reference, so the caller
    /// destroys the item.
    pub(in crate::item) fn drop_last_handle(&self) -> bool {
        // AcqRel: as for `unlend`. Only a thread with a handle lends.
        self.state.fetch_or(NO_HANDLE, Ordering::AcqRel) & LENT == 0
    }
}

pub(crate) const TOO_MANY: &str =
    "an item has more than 4,095 instances that are pending or running";

/// Why an item could not be claimed for queueing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unclaimed {
    /// Another thread holds PENDING.
    AlreadyPending,
    /// The disable depth is not 0.
    Disabled,
    /// It has as many pending and running instances as it may have. This is an error of the
    /// program: the caller panics, at a point where it owns no other item.
    TooMany,
}

/// The owner of an item's PENDING bit, and so of the item.
#[must_use = "a pending item must be handed on, started or released"]
pub(crate) struct Pending(NonNull<RawWork>, Hold);

// SAFETY: ownership of an item may move between threads: its fields are plain data and `RawWork` is
// Send and Sync.
unsafe impl Send for Pending {}

impl Pending {
    /// Takes the PENDING bit of `item` in order to queue it. [`Unclaimed::AlreadyPending`]: the
    /// pending instance has not started its function, and will see everything that the caller
    /// stored before.
    ///
    /// # Safety
    /// `item` stays valid until its function has been called, or the claim is released.
    #[inline]
    pub(crate) unsafe fn claim(item: NonNull<RawWork>) -> Result<Pending, Unclaimed> {
        // SAFETY: the caller's promise.
        unsafe { Self::claim_lending(item, 0) }
    }

    /// As [`claim`](Self::claim), and [lends](RawWork::lend) a reference if the claim succeeds.
    ///
    /// # Safety
    /// The item counts its handles apart, and the caller has one.
    #[inline]
    pub(crate) unsafe fn claim_and_lend(item: NonNull<RawWork>) -> Result<Pending, Unclaimed> {
        // SAFETY: the handle keeps the item until the claim, the lent reference after it.
        unsafe { Self::claim_lending(item, LENT_STEP) }
    }

    /// Safety: as for [`claim`](Self::claim).
    #[inline]
    unsafe fn claim_lending(item: NonNull<RawWork>, lent: u32) -> Result<Pending, Unclaimed> {
        // SAFETY: valid by the caller's promise.
        let state = &unsafe { item.as_ref() }.state;
        let mut before = 0;
        let is_idle = |before| before & PENDING == 0 && before < DISABLE_STEP;
        // A disabled item is not pending even for an instant: a thread that enables and queues it
        // meanwhile would be told that a pending instance will see its stores.
        let after = |before| match is_idle(before) {
            true => before + lent + PENDING,
            false => before,
        };
        // AcqRel: see the module's text; always a write, never a mere load.
        while let Err(now) =
            state.compare_exchange_weak(before, after(before), Ordering::AcqRel, Ordering::Relaxed)
        {
            before = now;
            if lent != 0 && before & LENT == LENT && is_idle(before) {
                return Err(Unclaimed::TooMany);
            }
        }
        match before {
            _ if is_idle(before) => Ok(Pending(item, Hold::new())),
            _ if before & PENDING != 0 => Err(Unclaimed::AlreadyPending),
            _ => Err(Unclaimed::Disabled),
        }
    }

    /// The owner of a new item, which no other thread knows and no thread will ever claim: neither
    /// this nor its start is a read-modify-write. It is the first object in a
    /// [block](crate::sys::blocks), or in memory of its own if it is too large for one.
    ///
    /// # Safety
    /// As for [`claim`](Self::claim).
    #[inline]
    pub(crate) unsafe fn one_shot(item: NonNull<RawWork>) -> Pending {
        // Relaxed: a thread that learns of it, by the publishing, sees this too.
        // SAFETY: valid by the caller's promise.
        unsafe { item.as_ref() }
            .state
            .store(PENDING | ONE_SHOT, Ordering::Relaxed);
        Pending(item, Hold::new())
    }

    /// Takes the PENDING bit of an idle item in order to queue it elsewhere, whatever its disable depth.
    ///
    /// # Safety
    /// As for [`claim`](Self::claim).
    pub(crate) unsafe fn claim_idle(item: NonNull<RawWork>) -> Option<Pending> {
        // Acquire: the caller sees what the last owner did. What the caller did is published with the
        // item.
        // SAFETY: valid by the caller's promise.
        let before = unsafe { item.as_ref() }
            .state
            .fetch_or(PENDING, Ordering::Acquire);
        (before & PENDING == 0).then(|| Pending(item, Hold::new()))
    }

    #[inline]
    pub(in crate::item) fn item(&self) -> &RawWork {
        // SAFETY: `claim` promised validity for as long as this owner exists.
        unsafe { self.0.as_ref() }
    }

    #[inline]
    pub(crate) fn address(&self) -> usize {
        self.0.addr().get()
    }

    #[inline]
    pub(crate) fn func(&self) -> Option<WorkFn> {
        self.item().func()
    }

    /// Whether it was made by [`one_shot`](Self::one_shot).
    #[inline]
    pub(crate) fn is_one_shot(&self) -> bool {
        self.item().state.load(Ordering::Relaxed) & ONE_SHOT != 0
    }

    /// The id of the pool that it was last queued on; 0 if it never was.
    #[inline]
    pub(crate) fn last_pool(&self) -> u32 {
        // The last owner's store happened before this owner's claim.
        Location::pool_in(self.item().location.load(Ordering::Relaxed))
    }

    /// Sets the item's destination: pool workqueue `pwq` of pool `pool`.
    #[inline]
    pub(crate) fn set_destination(&mut self, pool: u32, pwq: u32) {
        self.item().set_location(Location::in_transit(pool, pwq));
    }

    /// Notes that a timer has the item from now on, so that no thread waits for it to come to a
    /// list.
    pub(crate) fn arm(&mut self) {
        self.1.leave();
        self.item().set_location(Location::armed(self.last_pool()));
    }

    /// The timer no longer has it.
    pub(crate) fn disarm(&mut self) {
        self.1.take_back();
        self.set_destination(self.last_pool(), 0);
    }

    /// The pool workqueue of its [destination](Self::set_destination).
    #[inline]
    pub(crate) fn pwq(&self) -> u32 {
        self.item().location().pwq()
    }

    /// Records the flush colour of its acceptance.
    #[inline]
    pub(crate) fn accept(&mut self, colour: u32) {
        // SAFETY: we own the item.
        unsafe { self.item().colour.set(colour) };
    }

    /// The colour that [`accept`](Self::accept) recorded.
    #[inline]
    pub(crate) fn colour(&self) -> u32 {
        // SAFETY: we own the item.
        unsafe { self.item().colour.get() }
    }

    /// Notes the batch, a number other than 0, from which the item is about to be started.
    #[inline]
    pub(crate) fn note_batch(&mut self, ticket: usize) {
        let ticket = std::ptr::without_provenance_mut(ticket);
        // SAFETY: we own the item, and it is on no list, so the link is free.
        unsafe { self.item().prev.set(ticket) };
    }

    /// The batch that its last run was started from; 0: none. For an item on no list, and in no inbox.
    #[inline]
    pub(crate) fn noted_batch(&self) -> usize {
        // SAFETY: we own the item.
        unsafe { self.item().prev.get() }.addr()
    }

    /// Clears PENDING just before the function is called: from here on the item may be queued
    /// again, and only the returned [`Started`] may still use it.
    #[inline]
    pub(crate) fn start(self) -> Started {
        let started = Started {
            item: self.0,
            func: self.func(),
        };
        if self.is_one_shot() {
            // Relaxed: a one-shot item has no next owner, and no issuer was told that it is
            // pending.
            self.item().state.store(ONE_SHOT, Ordering::Relaxed);
        } else {
            // AcqRel: acquires the stores of issuers whose queueing returned false, releases our
            // stores to the next owner.
            self.item().state.fetch_and(!PENDING, Ordering::AcqRel);
        }
        started
    }

    /// Gives up a [one-shot](Self::one_shot) item that its owner will destroy instead of having its
    /// function called.
    #[inline]
    pub(crate) fn discard(self) {
        debug_assert!(self.is_one_shot(), "somebody may claim it");
    }

    /// Gives the item up without running it: it is idle again.
    #[inline]
    pub(crate) fn release(self) {
        // Release: the next owner sees what this one did. It reads nothing afterwards.
        self.item().state.fetch_and(!PENDING, Ordering::Release);
    }

    /// The item's address, as a pointer.
    #[inline]
    pub(in crate::item) fn as_ptr(&self) -> NonNull<RawWork> {
        self.0
    }

    /// Gives up the value, for an inbox or a list that keeps the item by its address.
    #[inline]
    pub(in crate::item) fn into_raw(self) -> NonNull<RawWork> {
        self.0
    }

    /// # Safety
    /// `item` came from [`into_raw`](Self::into_raw) and no other caller took it back.
    #[inline]
    pub(in crate::item) unsafe fn from_raw(item: NonNull<RawWork>) -> Pending {
        Pending(item, Hold::new())
    }
}

/// An item whose PENDING bit was cleared and whose function is about to be called: the last use of
/// its memory.
pub(crate) struct Started {
    pub(in crate::item) item: NonNull<RawWork>,
    pub(in crate::item) func: Option<WorkFn>,
}

// SAFETY: as for `Pending`.
unsafe impl Send for Started {}
