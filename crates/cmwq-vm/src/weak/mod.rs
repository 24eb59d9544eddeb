//! Weak memory: loads that return older values, as far as the orderings allow it.
//!
//! The machine keeps, for each atomic variable, the last stores in modification order, and for each
//! thread a vector clock of what happens before its next step. A load returns any store that is not
//! older than one that the thread knows; knowing is *happens before*, as C++20 and RC11 define it:
//!
//! - An acquiring load of a store that was released joins the clock of that store. A
//!   read-modify-write hands on what the store that it reads has released (release sequences), and
//!   always reads the newest store; a compare-exchange that fails is a load.
//! - A release fence releases with every later store; an acquire fence acquires what was read before.
//! - Coherence: a thread that knows of a read knows of the store that was read.
//! - `SeqCst`: accesses and fences take place in the order of the run. A `SeqCst` load reads no store
//!   older than the last `SeqCst` store of its variable, nor than one that happens before an earlier
//!   `SeqCst` fence. After a `SeqCst` fence a thread knows what happens before all earlier ones, and all
//!   earlier `SeqCst` stores. This is `psc` of RC11 (Lahav et al., 2017), whose order is the run's.
//! - A store takes its place in the modification order before stores that it does not know of, now and then.
//!
//! Stores take effect in the order of the run, so no load returns a value that is stored later: load
//! buffering, which RC11 forbids and Arm allows for relaxed accesses, is outside of this model.
//!
//! Other threads see a store after [`WeakMemory::late_ns`] at the latest, as with any real store
//! buffer: loops that wait end. What is not atomic but watched ([`access_plain`]) is checked for
//! races.

mod clock;
mod location;
mod plain;

use crate::random::Random;
use crate::thread::Tid;
use crate::vm::{is_inside, with};
use clock::{Clock, joined};
use location::{Location, Reader, Store};
use plain::Plain;
pub(crate) use plain::race;
pub use plain::{access_plain, end_plain, forget_plain};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ptr::null_mut;
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// How weak the memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeakMemory {
    /// Where the choices come from.
    pub seed: u64,
    /// Of loads that may return an older store, in parts per million: those that return any of the
    /// stores that they may.
    pub stale_ppm: u32,
    /// Of stores, in parts per million: those that come before stores which they may come before.
    pub early_ppm: u32,
    /// Of weak compare-exchanges, in parts per million: those that fail for nothing.
    pub spurious_ppm: u32,
    /// After this time all threads see a store.
    pub late_ns: u64,
}

/// What a thread knows.
#[derive(Default)]
struct View {
    clock: Clock,
    /// What an acquire fence would add.
    acquirable: Clock,
    /// What stores release since the last release fence.
    fenced: Option<Rc<Clock>>,
    /// What threads that woke this one know.
    woken: Clock,
}

struct Memory {
    options: WeakMemory,
    random: Random,
    locations: BTreeMap<usize, Location>,
    plain: BTreeMap<usize, Plain>,
    views: Vec<View>,
    /// Of what is synchronised outside the machine's memory.
    outside: BTreeMap<usize, Clock>,
    /// What happens before the `SeqCst` fences so far.
    fences: Clock,
    /// `SeqCst` stores so far.
    seq_cst_stores: u64,
    race: Option<String>,
}

thread_local! {
    static MEMORY: Cell<*mut Memory> = const { Cell::new(null_mut()) };
}

/// The machine's memory is weak from now on: for the threads that exist and those that they start.
///
/// # Panics
/// Outside a machine.
pub fn set_weak_memory(options: WeakMemory) {
    assert!(is_inside(), "not on a virtual machine");
    switch_off();
    let memory = Box::new(Memory {
        options,
        random: Random::new(options.seed),
        locations: BTreeMap::new(),
        plain: BTreeMap::new(),
        views: Vec::new(),
        outside: BTreeMap::new(),
        fences: Clock::default(),
        seq_cst_stores: 0,
        race: None,
    });
    MEMORY.set(Box::into_raw(memory));
}

pub(crate) fn switch_off() {
    let memory = MEMORY.replace(null_mut());
    if !memory.is_null() {
        // SAFETY: it came from `Box::into_raw`, and the cell was its only owner.
        drop(unsafe { Box::from_raw(memory) });
    }
}

/// Whether the machine's memory is weak.
#[inline]
#[must_use]
pub fn is_weak() -> bool {
    !MEMORY.get().is_null()
}

/// Calls `f` with the memory, if it is weak. The memory that `f` itself allocates and frees is no
/// concern of it.
#[inline]
fn with_memory<R>(f: impl FnOnce(&mut Memory) -> R) -> Option<R> {
    let memory = MEMORY.replace(null_mut());
    if memory.is_null() {
        return None;
    }
    // SAFETY: it came from `Box::into_raw` and is dropped by `switch_off` only, which does not find it while
    // the cell is empty; nothing else finds it either, so this is the only reference.
    let result = f(unsafe { &mut *memory });
    MEMORY.set(memory);
    Some(result)
}

/// As [`with_memory`], with the number of the calling thread and the time.
#[inline]
fn on_thread<R>(f: impl FnOnce(&mut Memory, usize, u64) -> R) -> Option<R> {
    let (thread, now) = with(|vm| (vm.tid.index(), vm.now()));
    with_memory(|memory| {
        memory.view(thread);
        f(memory, thread, now)
    })
}

const WEAK: &str = "the memory is weak";

/// A load of the variable at an address, of which `newest` is the newest value.
///
/// # Panics
/// If the memory is not weak.
#[must_use]
pub fn load(address: usize, newest: u64, order: Ordering) -> u64 {
    let load = |memory: &mut Memory, thread, now| {
        let index = memory.draw(address, newest, order, thread, now);
        memory.read(address, index, order, thread)
    };
    on_thread(load).expect(WEAK)
}

/// A store; `true`: the value is the newest from now on.
///
/// # Panics
/// If the memory is not weak.
#[must_use]
pub fn store(address: usize, newest: u64, value: u64, order: Ordering) -> bool {
    on_thread(|memory, thread, now| memory.store(address, newest, value, order, thread, now))
        .expect(WEAK)
}

/// A read-modify-write, which finds the newest value and stores this one.
///
/// # Panics
/// If the memory is not weak.
pub fn update(address: usize, newest: u64, value: u64, order: Ordering) {
    on_thread(|memory, thread, now| memory.update(address, newest, value, order, thread, now))
        .expect(WEAK);
}

/// What a compare-exchange finds that fails; `None`: it succeeds, which is an [`update`].
///
/// # Panics
/// If the memory is not weak.
#[must_use]
pub fn compare(
    address: usize,
    newest: u64,
    expected: u64,
    may_fail: bool,
    order: Ordering,
) -> Option<u64> {
    let compare = |memory: &mut Memory, thread, now| {
        let mut index = memory.draw(address, newest, order, thread, now);
        let location = &memory.locations[&address];
        let fails_for_nothing =
            may_fail && memory.random.chance_ppm(memory.options.spurious_ppm) && newest == expected;
        if fails_for_nothing {
            index = location.last();
        } else if location.at(index).value == expected {
            // What it would change is the newest store.
            index = location.last();
            if newest == expected {
                return None;
            }
        }
        Some(memory.read(address, index, order, thread))
    };
    on_thread(compare).expect(WEAK)
}

/// A fence of the calling thread, if the memory is weak.
pub fn fence(order: Ordering) {
    if is_weak() {
        on_thread(|memory, thread, _| memory.fence(order, thread));
    }
}

/// The calling thread has seen the newest value of the variable at this address, in a system call.
pub fn observe(address: usize, newest: u64) {
    if is_weak() {
        on_thread(|memory, thread, _| {
            let index = memory.location(address, newest).last();
            memory.read(address, index, Ordering::Relaxed, thread)
        });
    }
}

/// The calling thread takes a lock that the machine does not know of, or does the like: what other
/// threads did before they met here has happened.
pub fn meet(address: usize) {
    if is_weak() {
        on_thread(|memory, thread, _| {
            let clock = &mut memory.views[thread].clock;
            let here = memory.outside.entry(address).or_default();
            clock.join(here);
            clock.step(thread);
            here.join(clock);
        });
    }
}

/// What was there is freed: what comes there next is new.
pub(crate) fn freed(address: usize, bytes: usize) {
    with_memory(|memory| {
        let range = address..address + bytes;
        forget(&mut memory.locations, range.clone());
        forget(&mut memory.plain, range.clone());
        forget(&mut memory.outside, range);
    });
}

fn forget<T>(map: &mut BTreeMap<usize, T>, range: std::ops::Range<usize>) {
    while let Some((&address, _)) = map.range(range.clone()).next() {
        map.remove(&address);
    }
}

/// The calling thread has started this one.
pub(crate) fn started(thread: Tid) {
    on_thread(|memory, parent, _| {
        memory.views[parent].clock.step(parent);
        let clock = memory.views[parent].clock.clone();
        memory.view(thread.index()).clock = clock;
    });
}

/// The calling thread is the only one that is left: all that the others did has happened.
pub(crate) fn forked() {
    on_thread(|memory, thread, _| {
        let mut all = std::mem::take(&mut memory.views[thread].clock);
        memory.views.iter().for_each(|view| all.join(&view.clock));
        memory.views[thread].clock = all;
    });
}

/// The calling thread has woken this one by name.
pub(crate) fn woke(thread: Tid) {
    on_thread(|memory, waker, _| {
        memory.views[waker].clock.step(waker);
        let clock = memory.views[waker].clock.clone();
        memory.view(thread.index()).woken.join(&clock);
    });
}

/// The calling thread was woken by name.
pub(crate) fn awoke() {
    on_thread(|memory, thread, _| {
        let view = &mut memory.views[thread];
        view.clock.join(&view.woken);
    });
}

fn acquires(order: Ordering) -> bool {
    matches!(
        order,
        Ordering::Acquire | Ordering::AcqRel | Ordering::SeqCst
    )
}

fn releases(order: Ordering) -> bool {
    matches!(
        order,
        Ordering::Release | Ordering::AcqRel | Ordering::SeqCst
    )
}

impl Memory {
    fn view(&mut self, thread: usize) -> &mut View {
        if self.views.len() <= thread {
            self.views.resize_with(thread + 1, View::default);
        }
        &mut self.views[thread]
    }

    /// The variable at this address. If its newest value is not what was stored last, it was
    /// written without an atomic operation, by a thread that had it for itself.
    fn location(&mut self, address: usize, newest: u64) -> &mut Location {
        let new = || Location::new(newest);
        let location = self.locations.entry(address).or_insert_with(new);
        if location.newest().value != newest {
            *location = Location::new(newest);
        }
        location
    }

    /// The oldest store that the thread may read.
    fn oldest(&mut self, address: usize, order: Ordering, thread: usize, now: u64) -> usize {
        let reader = Reader {
            clock: &self.views[thread].clock,
            fences: (order == Ordering::SeqCst).then_some(&self.fences),
            seen_ns: now.saturating_sub(self.options.late_ns),
        };
        self.locations[&address].oldest(&reader)
    }

    /// Draws the store that a load returns.
    fn draw(
        &mut self,
        address: usize,
        newest: u64,
        order: Ordering,
        thread: usize,
        now: u64,
    ) -> usize {
        let last = self.location(address, newest).last();
        if last == 0 {
            return 0;
        }
        let oldest = self.oldest(address, order, thread, now);
        if oldest == last || !self.random.chance_ppm(self.options.stale_ppm) {
            return last;
        }
        oldest + self.random.below((last - oldest + 1) as u64) as usize
    }

    /// Returns the value of a store that the thread reads.
    fn read(&mut self, address: usize, index: usize, order: Ordering, thread: usize) -> u64 {
        let view = &mut self.views[thread];
        let step = view.clock.step(thread);
        let location = self.locations.get_mut(&address).expect("it was drawn from");
        let message = location.read(index, step);
        if let Some(released) = &message.released {
            view.learn(released, order);
        }
        message.value
    }

    fn new_store(&mut self, value: u64, order: Ordering, thread: usize) -> Store {
        let view = &mut self.views[thread];
        let by = view.clock.step(thread);
        if order == Ordering::SeqCst {
            self.seq_cst_stores += 1;
        }
        Store {
            value,
            by,
            seq_cst: match order {
                Ordering::SeqCst => self.seq_cst_stores,
                _ => 0,
            },
            released: match releases(order) {
                true => Some(Rc::new(view.clock.clone())),
                false => view.fenced.clone(),
            },
            is_update: false,
        }
    }

    fn store(
        &mut self,
        address: usize,
        newest: u64,
        value: u64,
        order: Ordering,
        thread: usize,
        now: u64,
    ) -> bool {
        let mut index = self.location(address, newest).last();
        if index > 0 && self.random.chance_ppm(self.options.early_ppm) {
            let oldest = self.oldest(address, order, thread, now);
            let drawn = oldest + self.random.below((index - oldest + 1) as u64) as usize;
            if self.locations[&address].has_room(drawn) {
                index = drawn;
            }
        }
        let store = self.new_store(value, order, thread);
        self.location(address, newest).insert(index, store, now)
    }

    fn update(
        &mut self,
        address: usize,
        newest: u64,
        value: u64,
        order: Ordering,
        thread: usize,
        now: u64,
    ) {
        let read = self.location(address, newest).newest().released.clone();
        if let Some(released) = &read {
            self.views[thread].learn(released, order);
        }
        let mut store = self.new_store(value, order, thread);
        store.released = joined(store.released, read.as_ref());
        store.is_update = true;
        let location = self.location(address, newest);
        location.insert(location.last(), store, now);
    }

    fn fence(&mut self, order: Ordering, thread: usize) {
        let view = &mut self.views[thread];
        view.clock.step(thread);
        if acquires(order) {
            view.clock.join(&view.acquirable);
        }
        if order == Ordering::SeqCst {
            view.clock.seq_cst = self.seq_cst_stores;
            view.clock.join(&self.fences);
            self.fences.join(&view.clock);
        }
        if releases(order) {
            view.fenced = Some(Rc::new(view.clock.clone()));
        }
    }
}

impl View {
    /// The thread reads what was stored with this clock.
    fn learn(&mut self, released: &Clock, order: Ordering) {
        match acquires(order) {
            true => self.clock.join(released),
            false => self.acquirable.join(released),
        }
    }
}
