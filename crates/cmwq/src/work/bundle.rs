//! Bundles: many items that an inbox holds as one. See `pool/publish.rs` for when, and `pool/PROTOCOL.md` for why nothing is lost.
//!
//! Items that wait in an inbox link to each other: who takes them has to read each one's own line before he knows the next, with the pool's
//! lock held. A bundle is an array instead, of addresses of items, or of [small closures](super::closure). It lies in the inbox like an item; while it
//! is the newest that is there, those who publish for the same pool workqueue add to it, and whoever takes it gets up to [`MOST`] items
//! without touching one.
//!
//! One word counts the places that were given out, a [`Run`] of them at a time, so that each thread fills lines that no other one writes.
//! Whoever holds the pool's lock and takes the bundle closes it with one read-modify-write on the same word; after that no run
//! is given out. A place of one that was given out and is not filled when its turn comes is filled by who is there, so he waits for nobody: who
//! wanted to fill it finds that, and publishes his item in another way.
//!
//! The word also counts the *holds*: of each run that a thread has, and of each who has taken items and not fetched them. A closed bundle that
//! nobody holds is used again, for the same pool workqueue. It is freed only with its [`Bundles`], or when all who were publishing have
//! done so; so whoever publishes may look at the one that was on top a moment ago, whatever has become of it. He gets a run by a compare-exchange, so from an open one only.

use super::closure::{Payload, Small};
use super::raw::{Pending, RawWork, WorkFn};
use crate::sys::atomic::plain::AtomicU64 as PlainU64;
use crate::sys::atomic::{AtomicPtr, AtomicU64, Ordering};
use crate::sys::cell::Guarded;
use crate::sys::sync::Mutex;
use crate::sys::{fork, prefetch};
use crossbeam_utils::CachePadded;
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

/// Places of a bundle.
pub(crate) const MOST: usize = if cfg!(cmwq_loom) { 4 } else { 64 };
/// Places of a run: a line of them.
const RUN: usize = if cfg!(cmwq_loom) { 2 } else { 8 };

/// So many that nobody uses are kept in any case.
const KEPT: usize = 4;
/// Bytes of a cache line.
const LINE: usize = 64;

/// In the word: no more runs are given out.
const CLOSED: u64 = 1 << 63;
/// None is given out yet but the first, which is its maker's.
const NEW: u64 = 1 << 62;
/// Below: how many places were given out.
const PLACES_SHIFT: u32 = 32;
const ONE_RUN: u64 = (RUN as u64) << PLACES_SHIFT;
/// Below that: how many holds there are.
const HOLDS: u64 = (1 << PLACES_SHIFT) - 1;

#[inline]
fn places_of(word: u64) -> usize {
    ((word & !(CLOSED | NEW)) >> PLACES_SHIFT) as usize
}

/// Whether a run may be had.
#[inline]
fn takes_more(word: u64) -> bool {
    word & (CLOSED | NEW) == 0 && places_of(word) < MOST
}

/// Stands in a place that stays empty.
const TOO_LATE: *mut RawWork = std::ptr::without_provenance_mut(1);

/// What is in a bundle.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Contents {
    Items,
    Closures,
}

/// The first field makes it something that an inbox can hold.
#[repr(C)]
struct Bundle {
    node: RawWork,
    home: Weak<Bundles>,
    contents: Contents,
    pool: u32,
    pwq: u32,
    word: CachePadded<AtomicU64>,
    /// What all that is in it have in common: the function of the items, or the kind of the closures.
    number: PlainU64,
    /// Items, and for closures something that is no null.
    places: CachePadded<[AtomicPtr<RawWork>; MOST]>,
    /// Closures; of items there are none.
    payloads: Box<[Payloads]>,
}

/// Those of a run.
#[repr(align(64))]
struct Payloads([Guarded<Payload>; RUN]);

// SAFETY: what is in it is handed from thread to thread through its places; items are owned as `Pending`s, which are Send, as closures are.
unsafe impl Sync for Bundle {}
// SAFETY: as above.
unsafe impl Send for Bundle {}

/// The bundles of one pool workqueue, of items or of closures.
pub(crate) struct Bundles {
    /// No others of the process have or had it; not 0.
    serial: u64,
    contents: Contents,
    pool: u32,
    pwq: u32,
    me: Weak<Bundles>,
    /// The bundle that was made last, by its node. It is looked at only by who sees it on top of the inbox.
    newest: CachePadded<AtomicPtr<RawWork>>,
    spare: CachePadded<Mutex<Spares>>,
}

/// The bundles that nobody uses.
#[derive(Default)]
struct Spares {
    /// The next one to be used: it was asked for, and its lines are on their way.
    next: Option<Spare>,
    others: Vec<Spare>,
    /// The fewest that there were of the others since somebody last looked.
    fewest: usize,
}

impl Spares {
    fn take(&mut self) -> Option<Spare> {
        let found = self.next.take().or_else(|| self.others.pop());
        self.next = self.others.pop();
        if let Some(next) = &self.next {
            next.ask_for();
        }
        self.fewest = self.fewest.min(self.others.len());
        found
    }
}

/// Bundles that are to be dropped: see [`Bundles::unused`].
pub(crate) struct Unused(Vec<Spare>);

impl Unused {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A bundle that is in no inbox, and that nobody holds.
struct Spare(NonNull<Bundle>);

// SAFETY: it owns its bundle.
unsafe impl Send for Spare {}

impl Spare {
    fn into_inner(self) -> NonNull<Bundle> {
        let bundle = self.0;
        std::mem::forget(self);
        bundle
    }

    /// Its lines will be written soon.
    fn ask_for(&self) {
        let first = self.0.addr().get();
        (0..size_of::<Bundle>())
            .step_by(LINE)
            .for_each(|at| prefetch::to_write(first + at));
        // SAFETY: nobody else uses it.
        unsafe { self.0.as_ref() }.ask_for_payloads(0);
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        // SAFETY: made by `Box::leak`. Who looks at a bundle that he does not hold has its `Bundles`, which owns this.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// What is added to a bundle.
trait Load {
    const CONTENTS: Contents;
    /// What it must have in common with all others.
    fn number(&self) -> usize;
    /// What goes into its place.
    fn place(&self) -> *mut RawWork;
    /// What goes beside it.
    fn payload(&self) -> Option<Payload>;
}

impl Load for Pending {
    const CONTENTS: Contents = Contents::Items;

    #[inline]
    fn number(&self) -> usize {
        self.func().map_or(0, |func| func as usize)
    }

    #[inline]
    fn place(&self) -> *mut RawWork {
        self.as_ptr()
    }

    #[inline]
    fn payload(&self) -> Option<Payload> {
        None
    }
}

impl Load for Small {
    const CONTENTS: Contents = Contents::Closures;

    #[inline]
    fn number(&self) -> usize {
        Small::number(self)
    }

    #[inline]
    fn place(&self) -> *mut RawWork {
        // Any address of an item that is none.
        std::ptr::without_provenance_mut(align_of::<RawWork>())
    }

    #[inline]
    fn payload(&self) -> Option<Payload> {
        Some(Small::payload(self))
    }
}

/// What was found in a place.
pub(crate) enum Found {
    Item(Pending),
    Closure(Small),
}

impl Found {
    /// As an item that is aimed where its bundle was for.
    fn into_item(self, pool: u32, pwq: u32) -> Pending {
        match self {
            Found::Item(item) => item,
            Found::Closure(small) => {
                let mut item = small.into_item();
                item.aim(pool, pwq);
                item
            }
        }
    }
}

/// The places of a bundle that a thread may fill, and nobody else. It holds the bundle.
pub(crate) struct Run {
    /// The serial number of its bundles; 0: there are no places.
    of: Cell<u64>,
    bundle: Cell<Option<NonNull<Bundle>>>,
    number: Cell<usize>,
    next: Cell<u32>,
    end: Cell<u32>,
    /// The fork generation of the process whose bundle it is.
    born: Cell<u32>,
}

impl Run {
    /// Of no places.
    pub(crate) const fn new() -> Self {
        Run {
            of: Cell::new(0),
            bundle: Cell::new(None),
            number: Cell::new(0),
            next: Cell::new(0),
            end: Cell::new(0),
            born: Cell::new(0),
        }
    }

    /// Gives up what is left: what the thread adds from now on comes after what it publishes otherwise.
    #[inline]
    pub(crate) fn give_up(&self) {
        if self.of.get() != 0 {
            self.of.set(0);
            self.let_go();
        }
    }

    #[cold]
    fn let_go(&self) {
        // In a fork's child it is the parent's.
        if let Some(bundle) = self.bundle.take()
            && self.born.get() == fork::generation()
        {
            // SAFETY: the run held it, and does not any more.
            unsafe { Bundle::let_go(bundle) };
        }
    }

    /// Gives up what is left. Returns how many places it has come to: 0 if it is at its end, or there were none.
    pub(crate) fn end(&self) -> u32 {
        self.give_up();
        self.next.replace(0) % RUN as u32
    }

    #[inline]
    fn set(&self, bundles: &Bundles, bundle: NonNull<Bundle>, number: usize, places: [usize; 2]) {
        self.bundle.set(Some(bundle));
        self.number.set(number);
        self.next.set(places[0] as u32);
        self.end.set(places[1] as u32);
        self.born.set(fork::generation());
        self.of.set(bundles.serial);
        // SAFETY: the run holds it.
        unsafe { bundle.as_ref() }.ask_for_payloads(places[1] / RUN);
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// A bundle with one item that is about to be published: to be [opened](Made::open) then.
pub(super) struct Made(NonNull<Bundle>);

impl Made {
    /// What the inbox is given.
    #[inline]
    pub(super) fn node(&self) -> NonNull<RawWork> {
        self.0.cast()
    }

    /// It was published: others may add to it, unless it was taken already.
    #[inline]
    pub(super) fn open(self) {
        // Release: the places are empty.
        // SAFETY: the maker's run holds it.
        unsafe { self.0.as_ref() }
            .word
            .fetch_and(!NEW, Ordering::Release);
    }
}

impl Bundles {
    /// Those of items that are aimed at pool workqueue `pwq` of pool `pool`.
    pub(crate) fn of_items(pool: u32, pwq: u32) -> Arc<Self> {
        Self::new(Contents::Items, pool, pwq)
    }

    /// Those of small closures that are.
    pub(crate) fn of_closures(pool: u32, pwq: u32) -> Arc<Self> {
        Self::new(Contents::Closures, pool, pwq)
    }

    fn new(contents: Contents, pool: u32, pwq: u32) -> Arc<Self> {
        static SERIAL: PlainU64 = PlainU64::new(1);
        Arc::new_cyclic(|me| Bundles {
            serial: SERIAL.fetch_add(1, Ordering::Relaxed),
            contents,
            pool,
            pwq,
            me: me.clone(),
            newest: CachePadded::new(AtomicPtr::new(std::ptr::null_mut())),
            spare: CachePadded::new(Mutex::new(Spares::default())),
        })
    }

    /// Adds `load` where `run`, the calling thread's, has a place; `false` if it has none. If it was added, it is handed on.
    ///
    /// It comes before whatever was published after the run was given out, so the thread must have [given it
    /// up](Run::give_up) if it has published otherwise since.
    #[inline]
    fn add<L: Load>(&self, load: &L, run: &Run) -> bool {
        debug_assert!(self.contents == L::CONTENTS);
        let place = run.next.get();
        let fits = run.of.get() == self.serial
            && place < run.end.get()
            && run.number.get() == load.number();
        let Some(bundle) = run.bundle.get().filter(|_| fits) else {
            return false;
        };
        run.next.set(place + 1);
        // SAFETY: the run holds it.
        unsafe { bundle.as_ref() }.fill_place(place as usize, load) || {
            run.give_up();
            false
        }
    }

    /// Gives the calling thread a run of the newest bundle, for `load` and its like, if that bundle is `head`, the newest of the inbox.
    #[inline]
    fn extend<L: Load>(&self, head: *mut RawWork, load: &L, run: &Run) -> bool {
        // Acquire: it was made before.
        let newest = self.newest.load(Ordering::Acquire);
        let Some(bundle) = NonNull::new(newest).filter(|_| head == newest) else {
            return false;
        };
        let bundle = bundle.cast::<Bundle>();
        // SAFETY: it is one of ours, which are not freed before `self`.
        let this = unsafe { bundle.as_ref() };
        let number = load.number();
        if this.number.load(Ordering::Relaxed) as usize != number {
            return false;
        }
        let held = run.of.get() == self.serial && run.bundle.get() == Some(bundle);
        let step = |word: u64| takes_more(word).then(|| word + ONE_RUN + u64::from(!held));
        // Acquire: what the maker has put down, and that the places are empty (`Made::open` releases that).
        let taken = this
            .word
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, step);
        let Ok(word) = taken else {
            return false;
        };
        if !held {
            run.give_up();
        }
        let first = places_of(word);
        run.set(self, bundle, number, [first, first + RUN]);
        // Until it was held it may have been taken and made anew for others. Then the places stay empty.
        this.number.load(Ordering::Relaxed) as usize == number || {
            run.give_up();
            false
        }
    }

    /// A bundle with `load` in it, which is handed on, to be published in its stead, and a run of it for the calling thread. `None` if
    /// somebody else is here.
    fn make<L: Load>(&self, load: &L, run: &Run) -> Option<Made> {
        run.give_up();
        let spare = self.spare.try_lock()?.take();
        let bundle = match spare {
            Some(spare) => spare.into_inner(),
            None => NonNull::from(Box::leak(Box::new(Bundle::new(self)))),
        };
        // SAFETY: nobody else holds it.
        unsafe { bundle.as_ref() }.begin(load);
        run.set(self, bundle, load.number(), [1, RUN]);
        // Release: who finds it here finds it made.
        self.newest.store(bundle.cast().as_ptr(), Ordering::Release);
        Some(Made(bundle))
    }

    /// Those that were not used since this was asked last, but for a few. Somebody may still look at one of them: they are to be dropped when all who
    /// publish now have done so.
    pub(crate) fn unused(&self) -> Unused {
        let mut spare = self.spare.lock();
        let from = spare.others.len() - spare.fewest.saturating_sub(KEPT);
        let unused = spare.others.split_off(from);
        spare.fewest = spare.others.len();
        Unused(unused)
    }

    /// Publishes `item` where `run`, the calling thread's, has a place, or in the bundle that was published last, if that is one of these
    /// and takes more. Given back otherwise. `head` is the newest of the inbox.
    #[inline]
    pub(super) fn add_item(
        &self,
        item: Pending,
        head: impl FnOnce() -> *mut RawWork,
        run: &Run,
    ) -> Result<(), Pending> {
        if !self.add_or_extend(&item, head, run) {
            return Err(item);
        }
        item.hand_on();
        Ok(())
    }

    /// The same for a closure, which is handed on if this returns `true`.
    #[inline]
    pub(super) fn add_closure(
        &self,
        closure: &Small,
        head: impl FnOnce() -> *mut RawWork,
        run: &Run,
    ) -> bool {
        self.add_or_extend(closure, head, run)
    }

    #[inline]
    fn add_or_extend<L: Load>(
        &self,
        load: &L,
        head: impl FnOnce() -> *mut RawWork,
        run: &Run,
    ) -> bool {
        self.add(load, run) || self.extend(head(), load, run) && self.add(load, run)
    }

    /// A bundle with `item` in it, to be published in its stead. Given back if somebody else is here.
    pub(super) fn make_of_item(&self, item: Pending, run: &Run) -> Result<Made, Pending> {
        match self.make(&item, run) {
            Some(made) => {
                item.hand_on();
                Ok(made)
            }
            None => Err(item),
        }
    }

    /// The same for a closure, which is handed on unless this returns `None`.
    pub(super) fn make_of_closure(&self, closure: &Small, run: &Run) -> Option<Made> {
        self.make(closure, run)
    }
}

impl Bundle {
    fn new(home: &Bundles) -> Self {
        let payloads = match home.contents {
            Contents::Items => 0,
            Contents::Closures => MOST / RUN,
        };
        let no_payload = || Guarded::new([MaybeUninit::uninit(); 3]);
        Bundle {
            node: RawWork::node(),
            home: home.me.clone(),
            contents: home.contents,
            pool: home.pool,
            pwq: home.pwq,
            word: CachePadded::new(AtomicU64::new(CLOSED)),
            number: PlainU64::new(0),
            places: CachePadded::new(std::array::from_fn(
                |_| AtomicPtr::new(std::ptr::null_mut()),
            )),
            payloads: (0..payloads)
                .map(|_| Payloads(std::array::from_fn(|_| no_payload())))
                .collect(),
        }
    }

    /// Begins a new use: `load` is in the first place, and the others are empty.
    fn begin<L: Load>(&self, load: &L) {
        for place in &self.places[..] {
            place.store(std::ptr::null_mut(), Ordering::Relaxed);
        }
        self.number.store(load.number() as u64, Ordering::Relaxed);
        // The holds of who will take it, and of the maker's run. Somebody who saw it on top long ago may look at this, and
        // gets nothing until it is published.
        self.word.store(NEW | ONE_RUN | 2, Ordering::Relaxed);
        self.fill_place(0, load);
    }

    /// `false`: it is too late.
    #[inline]
    fn fill_place<L: Load>(&self, place: usize, load: &L) -> bool {
        if let Some(payload) = load.payload() {
            // SAFETY: the place is the caller's, until it is filled; who fills it for the caller does not read this.
            unsafe { self.payload(place).set(payload) };
        }
        // Release: who takes it sees its fields, or its payload.
        let filled = self.places[place].compare_exchange(
            std::ptr::null_mut(),
            load.place(),
            Ordering::Release,
            Ordering::Relaxed,
        );
        filled.is_ok()
    }

    /// Those of this run will be written soon.
    #[inline]
    fn ask_for_payloads(&self, run: usize) {
        if let Some(payloads) = self.payloads.get(run) {
            let first = std::ptr::from_ref(payloads).addr();
            (0..size_of::<Payloads>())
                .step_by(LINE)
                .for_each(|at| prefetch::to_write(first + at));
        }
    }

    #[inline]
    fn payload(&self, place: usize) -> &Guarded<Payload> {
        &self.payloads[place / RUN].0[place % RUN]
    }

    /// Once for each place that was given out, by who has taken it. `None`: nothing will come.
    #[inline]
    fn take(&self, place: usize) -> Option<Found> {
        // Acquire: as `fill_place` releases.
        let mut found = self.places[place].load(Ordering::Acquire);
        if found.is_null() {
            found = self.do_without(place)?;
        }
        let number = self.number.load(Ordering::Relaxed) as usize;
        // SAFETY: put there by who was given the place, and taken out once.
        unsafe {
            Some(match self.contents {
                Contents::Items => Found::Item(Pending::from_raw(NonNull::new(found)?)),
                Contents::Closures => Found::Closure(Small::from_parts(
                    self.payload(place).get(),
                    number,
                    self.address(place),
                )),
            })
        }
    }

    #[cold]
    fn do_without(&self, place: usize) -> Option<*mut RawWork> {
        // Who was given it holds the bundle until he has seen this.
        self.places[place]
            .compare_exchange(
                std::ptr::null_mut(),
                TOO_LATE,
                Ordering::Relaxed,
                Ordering::Acquire,
            )
            .err()
    }

    /// What names the closure in a place.
    #[inline]
    fn address(&self, place: usize) -> usize {
        std::ptr::from_ref(&self.places[place]).addr()
    }

    /// The address and the function of what is, or was, in a place; `None`: nothing.
    fn name(&self, place: usize) -> Option<(usize, Option<WorkFn>)> {
        let found = self.places[place].load(Ordering::Relaxed);
        if found.is_null() || found == TOO_LATE {
            return None;
        }
        let number = self.number.load(Ordering::Relaxed) as usize;
        // SAFETY: it is the number of what was put there: of a kind of closures, or of a function, and an `Option` of a function is 0 for `None`.
        unsafe {
            Some(match self.contents {
                Contents::Items => (
                    found.addr(),
                    std::mem::transmute::<usize, Option<WorkFn>>(number),
                ),
                Contents::Closures => (self.address(place), Some(Small::func_of(number))),
            })
        }
    }

    /// One hold less. The last one of a closed bundle has it used again.
    ///
    /// # Safety
    /// The caller held it, and does not use it any more.
    #[inline]
    unsafe fn let_go(bundle: NonNull<Bundle>) {
        // SAFETY: by the contract.
        let this = unsafe { bundle.as_ref() };
        // AcqRel: all that was done with it comes before its next use.
        let word = this.word.fetch_sub(1, Ordering::AcqRel);
        if word & HOLDS != 1 {
            return;
        }
        debug_assert!(word & CLOSED != 0, "who will take it holds it");
        let spare = Spare(bundle);
        // Without a home nobody can look at it any more.
        if let Some(home) = this.home.upgrade() {
            home.spare.lock().others.push(spare);
        }
    }
}

/// Some places of a bundle that was taken; it holds the bundle.
pub(crate) struct Part {
    bundle: NonNull<Bundle>,
    next: usize,
    end: usize,
}

// SAFETY: bundles may be used from anywhere, and each place of a part is taken by one thread.
unsafe impl Send for Part {}

impl Part {
    /// How many places of a bundle that is being taken were given out so far.
    ///
    /// # Safety
    /// `node` is the node of a bundle, which the caller has taken.
    pub(super) unsafe fn weigh(node: NonNull<RawWork>) -> u32 {
        // SAFETY: who takes it holds it.
        let bundle = unsafe { node.cast::<Bundle>().as_ref() };
        places_of(bundle.word.load(Ordering::Relaxed)) as u32
    }

    /// The same places, for who takes others of them.
    pub(crate) fn share(&self) -> Part {
        // Relaxed: the hold that is there keeps the bundle.
        self.bundle().word.fetch_add(1, Ordering::Relaxed);
        Part {
            bundle: self.bundle,
            next: self.next,
            end: self.end,
        }
    }

    /// By who takes everything out of an inbox: closes the bundle whose node this is, and takes all of it.
    ///
    /// # Safety
    /// `node` is the node of a bundle; it was in an inbox, and the caller has taken it out.
    #[inline]
    pub(super) unsafe fn close(node: NonNull<RawWork>) -> Self {
        let bundle = node.cast::<Bundle>();
        // Relaxed: what is in its places is acquired with them.
        // SAFETY: who takes it holds it.
        let word = unsafe { bundle.as_ref() }
            .word
            .fetch_or(CLOSED, Ordering::Relaxed);
        debug_assert_eq!(word & CLOSED, 0, "it is taken once");
        let end = match word & NEW {
            0 => places_of(word),
            _ => RUN,
        };
        Part {
            bundle,
            next: 0,
            end,
        }
    }

    #[inline]
    fn bundle(&self) -> &Bundle {
        // SAFETY: held.
        unsafe { self.bundle.as_ref() }
    }

    /// The pool workqueue.
    #[inline]
    pub(crate) fn pwq(&self) -> u32 {
        self.bundle().pwq
    }

    /// How many places are left, at most.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.end - self.next
    }

    /// The next place, as an item. `None`: there is nothing in it.
    pub(super) fn pop_item(&mut self) -> Option<Pending> {
        let bundle = self.bundle();
        let found = bundle.take(self.next);
        let (pool, pwq) = (bundle.pool, bundle.pwq);
        self.next += 1;
        found.map(|found| found.into_item(pool, pwq))
    }

    /// Its first places, as many as `most` and as `fits` the address and the function of what is there, if they are there already.
    #[inline]
    pub(super) fn split(
        &mut self,
        most: usize,
        fits: Option<impl Fn(usize, Option<WorkFn>) -> bool>,
    ) -> Part {
        let mut end = self.end.min(self.next + most);
        if let Some(fits) = fits {
            let bundle = self.bundle();
            let unfit = |&place: &usize| {
                bundle
                    .name(place)
                    .is_none_or(|(address, func)| !fits(address, func))
            };
            end = (self.next..end).find(unfit).unwrap_or(end);
        }
        let mut part = self.share();
        part.end = end;
        self.next = end;
        part
    }

    /// What is in the place at `index`, from 0 on; once. `None`: nothing.
    #[inline]
    pub(crate) fn take(&self, index: usize) -> Option<Found> {
        self.bundle().take(self.next + index)
    }

    /// The same, as an item.
    pub(crate) fn take_item(&self, index: usize) -> Option<Pending> {
        let bundle = self.bundle();
        self.take(index)
            .map(|found| found.into_item(bundle.pool, bundle.pwq))
    }

    /// The address and the function of what was taken out of the place at `index`.
    pub(crate) fn name(&self, index: usize) -> Option<(usize, Option<WorkFn>)> {
        self.bundle().name(self.next + index)
    }

    /// Asks for what is at `index` and soon after it, if there is something.
    #[inline]
    pub(crate) fn ask_for(&self, index: usize) {
        let place = self.next + index;
        if place >= self.end || cfg!(cmwq_loom) {
            return;
        }
        let bundle = self.bundle();
        match bundle.contents {
            Contents::Items => {
                prefetch::to_write(bundle.places[place].load(Ordering::Relaxed).addr());
            }
            Contents::Closures if place.is_multiple_of(RUN) => {
                prefetch::to_read(std::ptr::from_ref(&bundle.places[place]).addr());
                let payloads = std::ptr::from_ref(&bundle.payloads[place / RUN]).addr();
                (0..size_of::<Payloads>())
                    .step_by(LINE)
                    .for_each(|at| prefetch::to_read(payloads + at));
            }
            Contents::Closures => {}
        }
    }
}

impl Drop for Part {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: held until now.
        unsafe { Bundle::let_go(self.bundle) };
    }
}
