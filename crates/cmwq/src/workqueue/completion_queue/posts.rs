//! The lock-free part of a completion queue. Posters push entries onto a list, and an owner takes
//! all of them at once. Marks in the same word tell a poster which owners it has to wake. The
//! invariant is described in `COMPLETION_QUEUE.md` beside this file.

use crate::sys::atomic::{AtomicPtr, Ordering};
use crate::sys::blocks;
use crate::sys::cell::alone;
use crate::trace::dispose;
use std::alloc::Layout;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// The mark of owners that sleep until the eventfd is readable.
pub(crate) const FD: Marks = Marks(1);
/// The mark of owners that sleep in `wait`.
pub(crate) const THREAD: Marks = Marks(2);
/// Set when the last owner is gone.
const CLOSED: usize = 4;

/// Which owners the next poster has to wake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marks(usize);

impl Marks {
    const ALL: usize = 3;

    #[inline]
    pub(crate) fn contains(self, other: Marks) -> bool {
        self.0 & other.0 != 0
    }
}

/// What the poster has to do after a post.
pub(crate) enum Posted<T> {
    /// Nothing: an owner is awake, or another poster wakes the owners.
    Quiet,
    /// Wake these owners. Only this poster has taken the marks, so no other poster wakes them.
    MustSignal(Marks),
    /// Nothing was posted, because there is no owner any more. The caller gets the value back.
    Closed(T),
}

// The alignment keeps the lowest bits of an entry's address free for the marks.
#[repr(align(8))]
struct PostEntry<T> {
    below: *mut PostEntry<T>,
    value: T,
}

/// The head of a completion queue.
pub(crate) struct Posts<T> {
    head: AtomicPtr<PostEntry<T>>,
    owns: PhantomData<T>,
}

// SAFETY: values go from the poster's thread to the owner's, and one thread at a time uses them.
unsafe impl<T: Send> Sync for Posts<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Posts<T> {}

fn is_entry<T>(head: *mut PostEntry<T>) -> bool {
    head.addr() & !(Marks::ALL | CLOSED) != 0
}

fn marks_only<T>(marks: usize) -> *mut PostEntry<T> {
    std::ptr::without_provenance_mut(marks)
}

impl<T> PostEntry<T> {
    fn make(value: T) -> NonNull<Self> {
        let entry = blocks::take(Layout::new::<Self>()).cast::<Self>();
        // SAFETY: this function owns the memory, which is of this layout.
        unsafe {
            entry.write(PostEntry {
                below: std::ptr::null_mut(),
                value,
            });
        }
        alone(entry.as_ptr());
        entry
    }

    /// # Safety
    /// The caller owns the entry, and does not use it any more.
    unsafe fn into_value(entry: NonNull<Self>) -> T {
        // SAFETY: by the contract; made by `make`.
        unsafe {
            let value = entry.read().value;
            blocks::give(entry.cast(), Layout::new::<Self>());
            value
        }
    }
}

impl<T> Posts<T> {
    pub(crate) fn new() -> Self {
        Posts {
            head: AtomicPtr::new(std::ptr::null_mut()),
            owns: PhantomData,
        }
    }

    /// Posts `value`.
    pub(crate) fn post(&self, value: T) -> Posted<T> {
        let entry = PostEntry::make(value);
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            if head.addr() == CLOSED {
                // SAFETY: it was not posted.
                return Posted::Closed(unsafe { PostEntry::into_value(entry) });
            }
            let marks = if is_entry(head) { 0 } else { head.addr() };
            let below = if is_entry(head) {
                head
            } else {
                std::ptr::null_mut()
            };
            // SAFETY: the poster owns the entry until the exchange succeeds.
            unsafe { (*entry.as_ptr()).below = below };
            // Release: the owner that takes the entry reads its value. The marks order nothing: what a
            // poster reads for its signal (the tasks) is behind a lock, which the owner had before it
            // armed. Had this poster had that lock first, it would have read a mark that was set
            // after its exchange.
            match self.head.compare_exchange_weak(
                head,
                entry.as_ptr(),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) if marks == 0 => return Posted::Quiet,
                Ok(_) => return Posted::MustSignal(Marks(marks)),
                Err(now) => head = now,
            }
        }
    }

    /// Whether there is an entry to take. The answer may be out of date when the caller reads it.
    #[inline]
    pub(crate) fn has_entries(&self) -> bool {
        is_entry(self.head.load(Ordering::Relaxed))
    }

    /// Whether the last owner is gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.head.load(Ordering::Relaxed).addr() == CLOSED
    }

    /// Takes all entries. If there are none, the marks stay.
    pub(crate) fn take(&self) -> TakenPosts<T> {
        if !self.has_entries() {
            return TakenPosts { oldest: None };
        }
        // Acquire pairs with the Release of the posters, whose exchanges form one release sequence.
        // Only owners make the list empty, and they hold their lock here.
        TakenPosts::of(self.head.swap(std::ptr::null_mut(), Ordering::Acquire))
    }

    /// Tells the next poster to signal for `mark`. `false`: there are entries to take, and nothing
    /// was changed.
    pub(crate) fn arm(&self, mark: Marks) -> bool {
        self.change_marks(|marks| marks | mark.0)
    }

    /// Removes the mark, so that the next poster need not signal for it.
    pub(crate) fn disarm(&self, mark: Marks) {
        self.change_marks(|marks| marks & !mark.0);
    }

    fn change_marks(&self, change: impl Fn(usize) -> usize) -> bool {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            if is_entry(head) || head.addr() == CLOSED {
                return false;
            }
            let marks = change(head.addr());
            if marks == head.addr() {
                return true;
            }
            // Relaxed: owners change marks under their lock, and what a poster needs is behind a lock
            // (see `post`). As a read-modify-write it continues what posters have released.
            match self.head.compare_exchange(
                head,
                marks_only(marks),
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => head = now,
            }
        }
    }

    /// Closes the list, so that no value can be posted any more. The caller gets the entries that
    /// are left.
    pub(crate) fn close(&self) -> TakenPosts<T> {
        // Acquire: the entries. A poster that finds it closed learns nothing else.
        TakenPosts::of(self.head.swap(marks_only(CLOSED), Ordering::Acquire))
    }
}

impl<T> Drop for Posts<T> {
    fn drop(&mut self) {
        drop(self.close());
    }
}

/// Entries that an owner has taken, oldest first.
pub(crate) struct TakenPosts<T> {
    oldest: Option<NonNull<PostEntry<T>>>,
}

// SAFETY: it owns its entries.
unsafe impl<T: Send> Send for TakenPosts<T> {}

impl<T> TakenPosts<T> {
    /// Takes over the entries below this head, which the caller has removed from the list.
    fn of(head: *mut PostEntry<T>) -> Self {
        let mut taken = TakenPosts { oldest: None };
        let mut next = NonNull::new(head).filter(|head| is_entry(head.as_ptr()));
        while let Some(entry) = next {
            alone(entry.as_ptr());
            // SAFETY: the exchange made this owner the only user of the chain.
            unsafe {
                next = NonNull::new((*entry.as_ptr()).below);
                (*entry.as_ptr()).below =
                    taken.oldest.map_or(std::ptr::null_mut(), NonNull::as_ptr);
            }
            taken.oldest = Some(entry);
        }
        taken
    }
}

impl<T> Iterator for TakenPosts<T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        let entry = self.oldest?;
        // SAFETY: `self` owns the entry and does not use it after this.
        unsafe {
            self.oldest = NonNull::new((*entry.as_ptr()).below);
            Some(PostEntry::into_value(entry))
        }
    }
}

impl<T> Drop for TakenPosts<T> {
    fn drop(&mut self) {
        // Each entry is dropped by itself, because the destructor of any of them may panic.
        self.for_each(dispose);
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// In the child of a fork no thread closes the list before it is dropped.
    #[test]
    fn entries_that_nobody_takes_are_dropped_with_the_list() {
        let value = Arc::new(());
        let posts = Posts::new();
        for _ in 0..3 {
            assert!(matches!(posts.post(value.clone()), Posted::Quiet));
        }
        let mut taken = posts.take();
        assert!(taken.next().is_some());
        drop(taken);
        assert_eq!(Arc::strong_count(&value), 1, "the rest of what was taken");
        assert!(matches!(posts.post(value.clone()), Posted::Quiet));
        drop(posts);
        assert_eq!(Arc::strong_count(&value), 1);
    }
}
