//! The side of the thread that makes bundles: it adds to the last one until that is full or taken, or the thread publishes otherwise.

use super::{AHEAD, Bundle, CLOSED, Load, MOST, Serial, TOGETHER};
use crate::sys::atomic::Ordering;
use crate::sys::fork;
use crate::work::closure::Small;
use crate::work::raw::Pending;
use std::cell::Cell;
use std::ptr::NonNull;

/// The bundle that a thread adds to. It holds it.
pub(crate) struct Open {
    /// Which bundles it is one of; `None`: there is none.
    of: Cell<Option<Serial>>,
    bundle: Cell<Option<NonNull<Bundle>>>,
    number: Cell<usize>,
    /// The next place.
    next: Cell<usize>,
    /// The fork generation of the process whose bundle it is.
    born: Cell<u32>,
}

impl Open {
    pub(crate) const fn none() -> Self {
        Open {
            of: Cell::new(None),
            bundle: Cell::new(None),
            number: Cell::new(0),
            next: Cell::new(0),
            born: Cell::new(0),
        }
    }

    /// Which bundles it is one of.
    #[inline]
    pub(crate) fn of(&self) -> Option<Serial> {
        self.of.get()
    }

    /// It, if it is one of these, for such as this, and has room. It is held until it is [left](Self::leave).
    #[inline]
    fn fitting<L: Load>(&self, of: Serial, load: &L) -> Option<NonNull<Bundle>> {
        let fits = self.of.get() == Some(of)
            && of.contents == L::CONTENTS
            && self.next.get() < MOST
            && self.number.get() == load.number();
        self.bundle.get().filter(|_| fits)
    }

    /// Adds `load` to the `bundle` that is [fitting](Self::fitting). `true`: it is published, and handed on. Nobody need be
    /// told: somebody will come for what else is in the bundle. `false`: it was closed, and is left.
    #[inline]
    fn add<L: Load>(&self, bundle: NonNull<Bundle>, load: &L) -> bool {
        let place = self.next.get();
        // SAFETY: held, and not used after it is left below: it may be gone then.
        let bundle = unsafe { bundle.as_ref() };
        if place % TOGETHER == TOGETHER / 2 {
            bundle.ask_for(place + AHEAD);
        }
        // SAFETY: nobody looks at it before it is counted.
        unsafe { load.put(bundle, place) };
        // Release: who takes it sees it.
        if bundle.filled.fetch_add(1, Ordering::Release) & CLOSED != 0 {
            self.leave();
            return false;
        }
        self.next.set(place + 1);
        true
    }

    /// Adds a closure, if it is one of these bundles and has room. `true`: it is published, and handed on.
    #[inline]
    pub(crate) fn add_closure(&self, of: Serial, closure: &Small) -> bool {
        self.fitting(of, closure)
            .is_some_and(|bundle| self.add(bundle, closure))
    }

    #[inline]
    fn put_item(&self, bundle: NonNull<Bundle>, item: Pending) -> Result<(), Pending> {
        if !self.add(bundle, &item) {
            return Err(item);
        }
        item.hand_on();
        Ok(())
    }

    /// The same for an item that is aimed where these bundles go. Given back if it cannot be added.
    #[inline]
    pub(crate) fn add_item(&self, of: Serial, item: Pending) -> Result<(), Pending> {
        match self.fitting(of, &item) {
            Some(bundle) => self.put_item(bundle, item),
            None => Err(item),
        }
    }

    /// The same for an item that is aimed nowhere yet, if it runs nowhere.
    #[inline]
    pub(crate) fn add_item_again(&self, of: Serial, mut item: Pending) -> Result<(), Pending> {
        let Some(bundle) = self.fitting(of, &item) else {
            return Err(item);
        };
        {
            // SAFETY: held.
            let aim = &unsafe { bundle.as_ref() }.about.aim;
            let last_pool = item.last_pool();
            if (last_pool != 0 && last_pool != aim.pool) || !aim.oldest.is_after(item.noted_batch())
            {
                return Err(item);
            }
            item.aim(aim.pool, aim.pwq);
        }
        self.put_item(bundle, item)
    }

    /// The calling thread has made `bundle`, one of these, and put something with this number into its first place.
    pub(super) fn begin(&self, of: Serial, bundle: NonNull<Bundle>, number: usize) {
        self.bundle.set(Some(bundle));
        self.number.set(number);
        self.next.set(1);
        self.born.set(fork::generation());
        self.of.set(Some(of));
    }

    /// Nothing more is added to it: what the thread publishes from now on comes after what is in it.
    #[inline]
    pub(crate) fn leave(&self) {
        if self.of.take().is_some() {
            self.let_go();
        }
    }

    /// As [`leave`](Self::leave); returns how many items were added to it, 0 if it was left before.
    pub(crate) fn end(&self) -> usize {
        self.leave();
        self.next.replace(0)
    }

    #[cold]
    fn let_go(&self) {
        // In a fork's child it is the parent's.
        if let Some(bundle) = self.bundle.take()
            && self.born.get() == fork::generation()
        {
            // SAFETY: held, and not any more.
            unsafe { Bundle::let_go(bundle) };
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.leave();
    }
}
