//! Data that a lock guards move with it: which lines of them a holder has written is seen when the
//! lock is released, by comparing them with what they were when it was taken.
//!
//! So nothing is assumed about a holder's code or about the layout of the data: both are the real
//! ones. Lines that are only read are not seen, nor what the data refer to.

use crate::memory::Access;
use crate::os;
use crate::vm::with;

const LINE: usize = 64;

/// What the data were when the lock was taken.
#[derive(Debug)]
pub struct Held {
    /// Visible operations that its thread had done, if they are counted.
    since: Option<u64>,
    address: usize,
    before: Vec<u8>,
}

/// The calling thread has taken the lock of these data.
///
/// # Safety
/// So many bytes are allocated there, and no other thread writes them until [`release`].
#[must_use]
pub unsafe fn hold(address: usize, bytes: usize) -> Held {
    let mut before = with(|vm| vm.copies.pop()).unwrap_or_default();
    before.clear();
    before.reserve(bytes);
    // SAFETY: the bytes are there by the caller's promise, and there is room for them. They are
    // copied and compared only, so it does not matter that padding has no value of its own.
    unsafe {
        std::ptr::copy_nonoverlapping(address as *const u8, before.as_mut_ptr(), bytes);
        before.set_len(bytes);
    }
    with(|vm| crate::steer::holds(vm, address, true));
    Held {
        since: None,
        address,
        before,
    }
}

impl Held {
    /// What its thread does until the release counts for
    /// [`Totals::longest_hold`](crate::os::Totals::longest_hold).
    pub fn count(&mut self) {
        self.since = Some(steps_of_caller());
    }
}

fn steps_of_caller() -> u64 {
    with(|vm| vm.threads[vm.tid.index()].operations)
}

/// The calling thread is about to release the lock. It fetches the lines that it has written, each
/// with the right to write, and waits for one after the other.
///
/// # Safety
/// The data are still there.
pub unsafe fn release(held: Held) {
    let Held {
        since,
        address,
        before,
    } = held;
    with(|vm| crate::steer::holds(vm, address, false));
    // With a plan costs decide nothing.
    let end = match with(|vm| vm.is_steered()) {
        true => address,
        false => address + before.len(),
    };
    let mut from = address;
    while from < end {
        let to = (from / LINE * LINE + LINE).min(end);
        // SAFETY: the part lies in the data, and in the copy at the same place.
        let is_written = unsafe {
            let now = from as *const libc::c_void;
            libc::memcmp(now, before[from - address..].as_ptr().cast(), to - from) != 0
        };
        if is_written {
            os::prefetch(from, true);
            os::access(os::line_at(from), Access::Read);
        }
        from = to;
    }
    let steps = since.map_or(0, |since| steps_of_caller() - since);
    with(|vm| {
        vm.longest_hold = vm.longest_hold.max(steps);
        vm.copies.push(before);
    });
}
