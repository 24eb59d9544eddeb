//! What the requests of one connection use, and a bound on it: slots and buffers.
#![forbid(unsafe_code)]

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The most requests of one connection in flight. At this number the reader stops reading.
pub(crate) const SLOTS: usize = 256;
/// Requests of at most this length use a small buffer. Each slot has one, made at first use and kept.
pub(crate) const SMALL: usize = 64 << 10;
/// Bytes of all buffers of longer requests together, in use or kept.
const LARGE_TOTAL: usize = 64 << 20;

/// Memory for a request's data.
pub(crate) type Buffer = Box<[u8]>;

/// The slots and buffers of one connection.
pub(crate) struct Pool {
    inner: Mutex<Inner>,
    /// A slot or buffer came back while the reader waited.
    freed: Condvar,
}

struct Inner {
    /// Free slots. The slot freed last is taken first, and so are the buffers: they are still in the cache.
    slots: Vec<u16>,
    small: Vec<Buffer>,
    large: Vec<Buffer>,
    /// Bytes of all large buffers, in use or not.
    large_bytes: usize,
    waiting: bool,
}

impl Inner {
    fn take_large(&mut self, length: usize) -> Option<Buffer> {
        if let Some(fits) = self.large.iter().position(|buffer| buffer.len() == length) {
            return Some(self.large.swap_remove(fits));
        }
        while self.large_bytes + length > LARGE_TOTAL {
            self.large_bytes -= self.large.pop()?.len();
        }
        self.large_bytes += length;
        Some(vec![0; length].into())
    }
}

impl Pool {
    pub(crate) fn new() -> Self {
        Pool {
            inner: Mutex::new(Inner {
                slots: (0..SLOTS as u16).rev().collect(),
                // The reader may hold a buffer before it has a slot.
                small: Vec::with_capacity(SLOTS + 1),
                large: Vec::with_capacity(SLOTS),
                large_bytes: 0,
                waiting: false,
            }),
            freed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No code panics under this lock.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `take` finds something.
    fn wait<T>(&self, mut take: impl FnMut(&mut Inner) -> Option<T>) -> T {
        let mut inner = self.lock();
        loop {
            if let Some(taken) = take(&mut inner) {
                return taken;
            }
            inner.waiting = true;
            inner = self
                .freed
                .wait(inner)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A free slot, if there is one.
    pub(crate) fn try_slot(&self) -> Option<u16> {
        self.lock().slots.pop()
    }

    /// Whether exactly one slot is in use.
    pub(crate) fn has_one_in_use(&self) -> bool {
        self.lock().slots.len() == SLOTS - 1
    }

    /// Waits for a free slot.
    pub(crate) fn slot(&self) -> u16 {
        self.wait(|inner| inner.slots.pop())
    }

    /// A buffer of [`SMALL`] bytes. The holder of a slot always gets one.
    pub(crate) fn small(&self) -> Buffer {
        let kept = self.lock().small.pop();
        kept.unwrap_or_else(|| vec![0; SMALL].into())
    }

    /// A buffer of at least `length` bytes, more than [`SMALL`] and at most half of what may be in
    /// use. Waits until there is room.
    pub(crate) fn large(&self, length: usize) -> Buffer {
        let length = length.next_power_of_two();
        self.wait(|inner| inner.take_large(length))
    }

    /// Takes back slots and buffers of answered requests.
    pub(crate) fn give_back(&self, used: impl Iterator<Item = (Option<u16>, Option<Buffer>)>) {
        let mut inner = self.lock();
        for (slot, buffer) in used {
            inner.slots.extend(slot);
            if let Some(buffer) = buffer {
                if buffer.len() == SMALL {
                    inner.small.push(buffer);
                } else {
                    inner.large.push(buffer);
                }
            }
        }
        if std::mem::take(&mut inner.waiting) {
            self.freed.notify_all();
        }
    }

    /// Waits until no request is in flight.
    pub(crate) fn wait_idle(&self) {
        self.wait(|inner| (inner.slots.len() == SLOTS).then_some(()));
    }
}
