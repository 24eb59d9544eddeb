//! The list of pending items that a pool's lock guards: first in, first out, any item removable.

use super::chunk::Part;
use super::location::ListKind;
use super::raw::{Pending, RawWork, WorkFn, link};
use std::ptr::NonNull;

/// An intrusive list. It owns every item on it, as the [`Pending`] that was pushed, and notes in
/// each item that it is on this list.
pub(crate) struct List {
    /// What it notes in its items: which list of a pool, a pool workqueue or a run this is.
    kind: ListKind,
    first: Option<NonNull<RawWork>>,
    last: Option<NonNull<RawWork>>,
    len: usize,
    /// Where searches for the items of pool workqueues continue: see [`List::take_next_of`].
    cursors: Vec<(u32, NonNull<RawWork>)>,
}

// SAFETY: the list owns its items, and ownership of items may move between threads (`Pending: Send`).
unsafe impl Send for List {}

impl List {
    pub(crate) const fn new(kind: ListKind) -> Self {
        List {
            kind,
            first: None,
            last: None,
            len: 0,
            cursors: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn push_back(&mut self, item: Pending) {
        let item = item.into_raw();
        // SAFETY: the list owns `item` from here on, and owns its own last item.
        unsafe {
            link::set_next(item, None);
            link::set_prev(item, self.last);
            match self.last {
                Some(last) => link::set_next(last, Some(item)),
                None => self.first = Some(item),
            }
            let item = item.as_ref();
            item.set_location(item.location().on_list(self.kind));
        }
        self.last = Some(item);
        self.len += 1;
    }

    /// Puts an item before all others.
    pub(crate) fn push_front(&mut self, item: Pending) {
        let item = item.into_raw();
        // SAFETY: the list owns `item` from here on, and owns its own first item.
        unsafe {
            link::set_prev(item, None);
            link::set_next(item, self.first);
            match self.first {
                Some(first) => link::set_prev(first, Some(item)),
                None => self.last = Some(item),
            }
            let item = item.as_ref();
            item.set_location(item.location().on_list(self.kind));
        }
        self.first = Some(item);
        self.len += 1;
    }

    /// The oldest item, and the flush colour of its acceptance.
    #[inline]
    pub(crate) fn front(&self) -> Option<(&RawWork, u32)> {
        // SAFETY: the list owns its items, so they are valid, and it is borrowed.
        let item = unsafe { self.first?.as_ref() };
        Some((item, item.colour_on_list()))
    }

    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<Pending> {
        let item = self.first?;
        // SAFETY: the list owns all items linked in it; `item` leaves it here and is handed out once.
        unsafe {
            self.first = link::next(item);
            match self.first {
                Some(next) => link::set_prev(next, None),
                None => self.last = None,
            }
            Some(self.let_go(item))
        }
    }

    /// Removes any item.
    ///
    /// # Safety
    /// `item` is on this very list: it notes this list's kind, and the caller found the list by the
    /// rest of the item's location, under the lock that guards both.
    pub(crate) unsafe fn remove(&mut self, item: &RawWork) -> Pending {
        let item = NonNull::from(item);
        // SAFETY: the list owns `item`, by the caller's promise, and its neighbours.
        unsafe {
            let (prev, next) = (link::prev(item), link::next(item));
            match prev {
                Some(prev) => link::set_next(prev, next),
                None => self.first = next,
            }
            match next {
                Some(next) => link::set_prev(next, prev),
                None => self.last = prev,
            }
            self.let_go(item)
        }
    }

    /// The address of the first item.
    pub(crate) fn head(&self) -> Option<usize> {
        self.iter().next().map(RawWork::address)
    }

    /// The items, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &RawWork> {
        // SAFETY: the list owns its items, so they are valid, and it is borrowed.
        self.nodes().map(|item| unsafe { item.as_ref() })
    }

    /// For each entry its address, its function and a count. The count is 1 for an item. For
    /// closures that are [left in a chunk](Part::park) it is their number, and the address is that
    /// of the first.
    pub(crate) fn names(&self) -> impl Iterator<Item = (usize, Option<WorkFn>, usize)> {
        // SAFETY: the list owns its items, and it is borrowed.
        self.nodes().map(|item| unsafe { Part::names_of(item) })
    }

    fn nodes(&self) -> impl Iterator<Item = NonNull<RawWork>> {
        let mut next = self.first;
        std::iter::from_fn(move || {
            let item = next?;
            #[cfg(all(test, not(cmwq_loom)))]
            super::touched::one();
            // SAFETY: the list owns its items, and it is borrowed, so they stay linked.
            next = unsafe { link::next(item) };
            Some(item)
        })
    }

    /// Removes an item of pool workqueue `pwq`: the oldest one behind the place where the last
    /// search for this pool workqueue ended, or, if there is none, the oldest one. So a list full
    /// of other items is not walked again for every item. Returns `None` if none was found among
    /// `most` items; the next call continues from there.
    pub(crate) fn take_next_of(&mut self, pwq: u32, most: usize) -> Option<Pending> {
        let own = self.cursors.iter().position(|&(of, _)| of == pwq);
        let mut next = own.map(|own| self.cursors.swap_remove(own).1);
        for _ in 0..most {
            // At the end it begins anew.
            let item = next.or(self.first)?;
            #[cfg(all(test, not(cmwq_loom)))]
            super::touched::one();
            // SAFETY: the list owns its items; the cursor is one of them, or it would have been cleared.
            let (its_own, after) =
                unsafe { (item.as_ref().location().pwq() == pwq, link::next(item)) };
            if its_own {
                // SAFETY: found on this list just now.
                let item = unsafe { self.remove(item.as_ref()) };
                self.cursors.extend(after.map(|after| (pwq, after)));
                return Some(item);
            }
            next = after;
        }
        self.cursors.extend(next.map(|next| (pwq, next)));
        None
    }

    /// # Safety
    /// `item` was on this list and has just been unlinked.
    #[inline]
    unsafe fn let_go(&mut self, item: NonNull<RawWork>) -> Pending {
        self.len -= 1;
        if !self.cursors.is_empty() {
            self.cursors.retain(|&(_, at)| at != item);
        }
        // SAFETY: the list owned it, and hands it out once.
        unsafe {
            let location = item.as_ref().location();
            item.as_ref().set_location(location.on_list(ListKind::None));
            // Clears what a later owner could mistake for the number of a batch.
            link::set_prev(item, None);
            Pending::from_raw(item)
        }
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    extern "C-unwind" fn nothing(_: NonNull<RawWork>) {}

    #[test]
    fn the_items_of_one_pool_workqueue_are_found_in_order_among_others() {
        let items: Vec<RawWork> = (0..9).map(|_| RawWork::new(nothing)).collect();
        let mut list = List::new(ListKind::Worklist);
        for (n, item) in items.iter().enumerate() {
            // SAFETY: the items outlive the list, and every claim is released below.
            let mut item = unsafe { Pending::claim(NonNull::from(item)) }.expect("idle");
            item.set_destination(1, n as u32 % 3);
            list.push_back(item);
        }
        let at = |n: usize| items[n].address();
        let take = |list: &mut List, pwq| {
            list.take_next_of(pwq, 2 * items.len()).map(|item| {
                let address = item.address();
                item.release();
                address
            })
        };
        let claim = |n: usize, pwq| {
            // SAFETY: as above.
            let mut item = unsafe { Pending::claim(NonNull::from(&items[n])) }.expect("idle");
            item.set_destination(1, pwq);
            item
        };
        assert_eq!(take(&mut list, 1), Some(at(1)));
        // The item at the cursor is removed: the search begins anew, wherever that item is then.
        // SAFETY: it is on the list.
        unsafe { list.remove(&items[2]) }.release();
        list.push_back(claim(2, 1));
        assert_eq!(take(&mut list, 1), Some(at(4)));
        assert_eq!(take(&mut list, 0), Some(at(0)));
        assert_eq!(take(&mut list, 1), Some(at(7)));
        assert_eq!(take(&mut list, 1), Some(at(2)));
        assert_eq!(take(&mut list, 1), None);
        // An item is found though the search has passed it.
        list.push_back(claim(4, 1));
        list.push_back(claim(0, 0));
        assert_eq!(take(&mut list, 1), Some(at(4)));
        list.push_front(claim(1, 1));
        assert_eq!(take(&mut list, 1), Some(at(1)));
        let left: Vec<usize> = list.iter().map(RawWork::address).collect();
        assert_eq!(left, [at(3), at(5), at(6), at(8), at(0)]);
        while let Some(item) = list.pop_front() {
            item.release();
        }
    }

    #[test]
    fn all_searches_that_ended_at_an_item_begin_anew_when_it_is_removed() {
        for searched in [1, 2] {
            let items = [0, 0].map(|_| RawWork::new(nothing));
            let [mut list, mut elsewhere] = [ListKind::Worklist, ListKind::Inactive].map(List::new);
            let claim = |n: usize, pwq| {
                // SAFETY: the items outlive the lists, and every claim is released below.
                let mut item = unsafe { Pending::claim(NonNull::from(&items[n])) }.expect("idle");
                item.set_destination(1, pwq);
                item
            };
            (0..2).for_each(|n| list.push_back(claim(n, 0)));
            for pwq in [1, 2] {
                assert!(list.take_next_of(pwq, 1).is_none());
            }
            // SAFETY: it is on the list.
            unsafe { list.remove(&items[1]) }.release();
            elsewhere.push_back(claim(1, searched));
            let found = list.take_next_of(searched, 2).map(|item| item.address());
            assert_eq!(found, None, "{searched}");
            for list in [&mut list, &mut elsewhere] {
                list.pop_front().expect("one is left").release();
            }
        }
    }

    #[test]
    fn a_list_full_of_other_items_is_walked_once_for_all_of_a_pool_workqueue() {
        let (others, own) = (500, 50);
        let items: Vec<RawWork> = (0..others + own).map(|_| RawWork::new(nothing)).collect();
        let mut list = List::new(ListKind::Worklist);
        for (n, item) in items.iter().enumerate() {
            // SAFETY: the items outlive the list, and every claim is released below.
            let mut item = unsafe { Pending::claim(NonNull::from(item)) }.expect("idle");
            item.set_destination(1, u32::from(n >= others));
            list.push_back(item);
        }
        let before = crate::item::touched::so_far();
        for item in &items[others..] {
            let found = list.take_next_of(1, items.len()).expect("it is there");
            assert_eq!(found.address(), item.address());
            found.release();
        }
        let walked = crate::item::touched::so_far() - before;
        assert!(walked < 2 * items.len(), "{walked} steps");
        while let Some(item) = list.pop_front() {
            item.release();
        }
    }

    #[test]
    fn an_item_put_before_all_others_can_be_taken_out_whatever_it_has_noted() {
        let items = [(); 2].map(|()| RawWork::new(nothing));
        let mut list = List::new(ListKind::Worklist);
        for item in &items {
            // SAFETY: the items outlive the list, and every claim is released below.
            let mut item = unsafe { Pending::claim(NonNull::from(item)) }.expect("idle");
            // As when it comes back from a batch that was closed.
            item.note_batch(16);
            list.push_front(item);
        }
        // SAFETY: it was pushed above.
        unsafe { list.remove(&items[1]) }.release();
        assert_eq!(list.head(), Some(items[0].address()));
        // SAFETY: as above.
        unsafe { list.remove(&items[0]) }.release();
        assert!(list.is_empty());
    }

    #[test]
    fn any_item_can_be_taken_out_and_the_rest_keeps_its_order() {
        let items: Vec<RawWork> = (0..5).map(|_| RawWork::new(nothing)).collect();
        for taken in 0..5 {
            let mut list = List::new(ListKind::Worklist);
            for item in &items {
                // SAFETY: the items outlive the list, and every claim is released below.
                list.push_back(unsafe { Pending::claim(NonNull::from(item)) }.expect("idle"));
                assert_eq!(item.location().list, ListKind::Worklist);
            }
            // SAFETY: it was pushed above.
            unsafe { list.remove(&items[taken]) }.release();
            assert_eq!(items[taken].location().list, ListKind::None);
            let mut rest = Vec::new();
            while let Some(item) = list.pop_front() {
                rest.push(item.address());
                item.release();
            }
            let expected: Vec<usize> = items
                .iter()
                .enumerate()
                .filter(|(n, _)| *n != taken)
                .map(|(_, item)| item.address())
                .collect();
            assert_eq!(rest, expected);
            assert!(list.is_empty());
        }
    }
}
