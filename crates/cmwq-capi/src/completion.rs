//! Completions.

use crate::call::{Call, Failed, Wrong, abi};
use cmwq::Completion;
use std::mem::{align_of, size_of};
use std::time::Duration;

// What cmwq.h says of its layout.
const _: () = assert!(size_of::<Completion>() == 4 && align_of::<Completion>() == 4);

impl Call {
    /// # Safety
    /// If not NULL and aligned, it is a completion's memory.
    #[inline]
    unsafe fn with_completion<R: Failed>(
        &self,
        done: *const Completion,
        f: impl FnOnce(&Completion) -> R,
    ) -> R {
        if done.is_null() || !done.is_aligned() {
            return self.wrong(Wrong::NullArgument, "the completion is NULL or misaligned");
        }
        // SAFETY: by the caller's promise.
        f(unsafe { &*done })
    }
}

abi! {
    fn cmwq_reinit_completion(call, done: *mut Completion) {
        // SAFETY: the header asks for a completion.
        unsafe { call.with_completion(done, Completion::reinit) }
    }

    fn cmwq_complete(call, done: *mut Completion) {
        // SAFETY: as above.
        unsafe { call.with_completion(done, Completion::complete_one) }
    }

    fn cmwq_complete_all(call, done: *mut Completion) {
        // SAFETY: as above.
        unsafe { call.with_completion(done, Completion::complete) }
    }

    fn cmwq_wait_for_completion(call, done: *mut Completion) {
        // SAFETY: as above.
        unsafe { call.with_completion(done, Completion::wait) }
    }

    fn cmwq_wait_for_completion_timeout_ns(call, done: *mut Completion, timeout_ns: u64) -> bool {
        // SAFETY: as above.
        unsafe { call.with_completion(done, |done| done.wait_timeout(Duration::from_nanos(timeout_ns))) }
    }

    fn cmwq_try_wait_for_completion(call, done: *mut Completion) -> bool {
        // SAFETY: as above.
        unsafe { call.with_completion(done, Completion::try_wait) }
    }

    fn cmwq_completion_done(call, done: *const Completion) -> bool {
        // SAFETY: as above.
        unsafe { call.with_completion(done, Completion::is_done) }
    }
}
