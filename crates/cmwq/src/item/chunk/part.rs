//! The side of those who take chunks: a chunk is closed and taken as a whole, and split into parts, whose places are emptied one by one.

use super::entries::{CLOSED, Chunk, Contents, Found, HANDLE, Places, TOGETHER};
use crate::item::raw::{Pending, RawWork, WorkFn};
use crate::sys::atomic::Ordering;
use crate::sys::prefetch;
use std::ptr::NonNull;

/// Some places of a chunk that was taken; it holds the chunk.
pub(crate) struct Part {
    chunk: NonNull<Chunk>,
    next: usize,
    end: usize,
}

// SAFETY: chunks may be used from anywhere, and each place of a part is taken by one thread.
unsafe impl Send for Part {}

impl Part {
    /// About how much is in a chunk that is not closed yet.
    ///
    /// # Safety
    /// `node` is the node of a chunk that was published, and that the caller has taken.
    pub(in crate::item) unsafe fn weigh(node: NonNull<RawWork>) -> u32 {
        // SAFETY: who takes it holds it.
        let chunk = unsafe { node.cast::<Chunk>().as_ref() };
        chunk.filled.load(Ordering::Relaxed) & !HANDLE
    }

    /// Closes a chunk, and takes all that is in it; apart from the rest, what comes last and has a handle.
    ///
    /// # Safety
    /// As for [`weigh`](Self::weigh), and once.
    #[inline]
    pub(in crate::item) unsafe fn close(node: NonNull<RawWork>) -> (Self, Option<Pending>) {
        let chunk = node.cast::<Chunk>();
        // Acquire: what is in it. What the maker counts after this is nothing, and will not be looked at.
        // SAFETY: who takes it holds it.
        let filled = unsafe { chunk.as_ref() }
            .filled
            .fetch_or(CLOSED, Ordering::Acquire);
        debug_assert_eq!(filled & CLOSED, 0, "it is taken once");
        let last = (filled & HANDLE != 0).then(|| {
            // SAFETY: put there before the bit was set; closed with the bit, it is the caller's.
            let item = unsafe { chunk.as_ref().about.with_handle.get() };
            let item = item.expect("it was put there before the bit was set");
            // SAFETY: handed on by who has put it there, and taken once.
            unsafe { Pending::from_raw(item) }
        });
        let part = Part {
            chunk,
            next: 0,
            end: (filled & !HANDLE) as usize - usize::from(last.is_some()),
        };
        (part, last)
    }

    #[inline]
    fn chunk(&self) -> &Chunk {
        // SAFETY: held.
        unsafe { self.chunk.as_ref() }
    }

    /// The pool workqueue.
    #[inline]
    pub(crate) fn pwq(&self) -> u32 {
        self.chunk().about.destination.pwq
    }

    /// How many places are left.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.end - self.next
    }

    /// The same places, for who takes others of them.
    pub(crate) fn share(&self) -> Part {
        // Relaxed: the hold that is there keeps the chunk.
        self.chunk().holds.fetch_add(1, Ordering::Relaxed);
        Part {
            chunk: self.chunk,
            next: self.next,
            end: self.end,
        }
    }

    /// What is in the next place, as an item.
    pub(in crate::item) fn pop_item(&mut self) -> Pending {
        self.next += 1;
        self.chunk().take_item(self.next - 1)
    }

    /// Its first places, as many as `most` and as `fits` the addresses and functions of what is there.
    #[inline]
    pub(in crate::item) fn split(
        &mut self,
        most: usize,
        fits: Option<impl Fn(usize, Option<WorkFn>) -> bool>,
    ) -> Part {
        let mut end = self.end.min(self.next + most);
        if let Some(fits) = fits {
            let unfit = |&place: &usize| {
                let (address, func) = self.chunk().name(place);
                !fits(address, func)
            };
            end = (self.next..end).find(unfit).unwrap_or(end);
        }
        let mut part = self.share();
        part.end = end;
        self.next = end;
        part
    }

    /// What is in the place at `index`, from 0 on; once.
    #[inline]
    pub(crate) fn take(&self, index: usize) -> Found {
        self.chunk().take(self.next + index)
    }

    /// The same, as an item.
    pub(crate) fn take_item(&self, index: usize) -> Pending {
        self.chunk().take_item(self.next + index)
    }

    /// The address and the function of what is, or was, in the place at `index`.
    pub(crate) fn name(&self, index: usize) -> (usize, Option<WorkFn>) {
        self.chunk().name(self.next + index)
    }

    /// Asks for what is at `index` and soon after it, if there is something.
    #[inline]
    pub(crate) fn prefetch(&self, index: usize) {
        let place = self.next + index;
        if place >= self.end {
            return;
        }
        let chunk = self.chunk();
        match chunk.about.destination.contents {
            Contents::Items => chunk.prefetch_item(place),
            Contents::Closures if place.is_multiple_of(TOGETHER) => {
                Places::lines(&chunk.about.closures, place, prefetch::to_read);
            }
            Contents::Closures => {}
        }
    }
}

impl Drop for Part {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: held until now.
        unsafe { Chunk::let_go(self.chunk) };
    }
}
