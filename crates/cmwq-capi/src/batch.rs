//! Many items at once, and the fates of items.

use crate::call::{Call, FULL, Failed, Wrong, abi, set_errno};
use crate::handle::Wq;
use crate::queue::from_c;
use crate::work::with_function;
use cmwq::Refused;
use cmwq::raw::RawWork;
use cmwq::types::{Moved, Queued};
use std::ffi::c_int;
use std::mem::{align_of, size_of};
use std::ptr::NonNull;

const ACCEPTED: c_int = 0;
const PENDING: c_int = 1;
const DISABLED: c_int = 2;
const DRAINING: c_int = 3;
const MOVED: c_int = 4;
const REMOVED: c_int = 5;
/// No array of pointers has more.
const MOST: usize = isize::MAX as usize / size_of::<*mut RawWork>();

// An array of the one is an array of the other.
const _: () = assert!(
    size_of::<NonNull<RawWork>>() == size_of::<*mut RawWork>()
        && align_of::<NonNull<RawWork>>() == align_of::<*mut RawWork>()
);

impl Call {
    /// What C is told of an attempt to queue.
    pub(crate) fn fate(&self, queued: Queued) -> c_int {
        match queued {
            Queued::Accepted => ACCEPTED,
            Queued::AlreadyPending => PENDING,
            Queued::Disabled => DISABLED,
            Queued::Refused(Refused::Draining) => DRAINING,
            Queued::Refused(Refused::Full) => -FULL,
            // The library has warned.
            Queued::Refused(Refused::OwnItem) => Failed::failed(Wrong::OwnItem),
            Queued::Refused(why @ Refused::Forked) => self.wrong(Wrong::Forked, &why.to_string()),
            Queued::Refused(why) => self.wrong(Wrong::NoThread, &why.to_string()),
        }
    }

    /// What C is told of an attempt to move a delayed item.
    pub(crate) fn fate_of_moved(&self, moved: Moved) -> c_int {
        match moved {
            Moved::Pending => MOVED,
            Moved::Accepted => ACCEPTED,
            Moved::Disabled => DISABLED,
            Moved::Refused {
                why: Refused::Draining,
                was_pending: true,
            } => REMOVED,
            Moved::Refused { why, .. } => self.fate(Queued::Refused(why)),
        }
    }

    /// Queues one item.
    ///
    /// # Safety
    /// As the header asks.
    unsafe fn try_queue(&self, wq: *mut Wq, work: *mut RawWork) -> c_int {
        // SAFETY: by the contract.
        unsafe {
            self.with_function(work, |item| {
                match from_c(wq).map(|handle| handle.queue_raw(item)) {
                    Some(Ok(queued)) => self.fate(queued),
                    _ => self.no_queue(wq),
                }
            })
        }
    }

    /// Queues the items, and calls `fate` with the index and the fate of each that was not
    /// accepted. Returns how many were.
    ///
    /// # Safety
    /// As the header asks.
    unsafe fn queue_batch(
        &self,
        wq: *mut Wq,
        works: *const *mut RawWork,
        n: usize,
        mut fate: impl FnMut(usize, c_int),
    ) -> usize {
        let mut fate = |index, fate_of: c_int| {
            if fate_of < 0 {
                set_errno(-fate_of);
            }
            fate(index, fate_of);
        };
        if n == 0 {
            return 0;
        }
        if n > MOST {
            return self.wrong(Wrong::NullArgument, "there cannot be so many items");
        }
        if works.is_null() || !works.is_aligned() {
            let wrong: c_int = self.wrong(
                Wrong::NullArgument,
                "the array of items is NULL or misaligned",
            );
            (0..n).for_each(|index| fate(index, wrong));
            return 0;
        }
        // SAFETY: by the contract.
        let works = unsafe { std::slice::from_raw_parts(works, n) };
        // SAFETY: as above.
        let fits = |&work: &*mut RawWork| unsafe { with_function(work) }.is_some();
        if !works.iter().all(fits) {
            // One by one: what can be queued is.
            let mut accepted = 0;
            for (index, &work) in works.iter().enumerate() {
                // SAFETY: as above.
                match unsafe { self.try_queue(wq, work) } {
                    ACCEPTED => accepted += 1,
                    other => fate(index, other),
                }
            }
            return accepted;
        }
        // SAFETY: none is null, and the types have the same layout.
        let items =
            unsafe { std::slice::from_raw_parts(works.as_ptr().cast::<NonNull<RawWork>>(), n) };
        // SAFETY: by the contract.
        match from_c(wq).map(|handle| unsafe { handle.queue_raw_batch(items) }) {
            Some(Ok(queued)) => {
                for &(index, why_not) in queued.not_accepted() {
                    fate(index, self.fate(why_not));
                }
                queued.accepted()
            }
            _ => {
                let wrong: c_int = self.no_queue(wq);
                (0..n).for_each(|index| fate(index, wrong));
                0
            }
        }
    }
}

abi! {
    fn cmwq_try_queue_work(call, wq: *mut Wq, work: *mut RawWork) -> c_int {
        // SAFETY: the header asks for an item that stays until its function is called.
        unsafe { call.try_queue(wq, work) }
    }

    fn cmwq_queue_work_batch(call, wq: *mut Wq, works: *const *mut RawWork, n: usize) -> usize {
        // SAFETY: as above, for each of `n`.
        unsafe { call.queue_batch(wq, works, n, |_, _| ()) }
    }

    fn cmwq_queue_work_batch_fates(call, wq: *mut Wq, works: *const *mut RawWork, n: usize, fates: *mut c_int) -> usize {
        if (fates.is_null() || !fates.is_aligned()) && n > 0 {
            return call.wrong(Wrong::NullArgument, "the array of fates is NULL or misaligned");
        }
        // With more, nothing is queued.
        for index in 0..if n > MOST { 0 } else { n } {
            // SAFETY: the header asks for `n` of them.
            unsafe { fates.add(index).write(ACCEPTED) };
        }
        // SAFETY: as above.
        unsafe { call.queue_batch(wq, works, n, |index, fate| fates.add(index).write(fate)) }
    }
}
