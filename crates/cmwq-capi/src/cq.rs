//! Completion queues.

use crate::call::{Call, FULL, Failed, Wrong, abi, set_errno};
use crate::handle::Wq;
use cmwq::types::{Completed, NotPosted, NotSubmitted};
use cmwq::{CompletionQueue, Refused};
use std::ffi::{c_int, c_uint, c_void};
use std::os::fd::AsRawFd;
use std::time::Duration;

const EVENTFD: c_uint = 1;

/// What C has of a completion queue: one owner.
pub struct Cq {
    queue: CompletionQueue<i64>,
}

/// An entry as C sees it.
#[repr(C)]
pub struct Cqe {
    token: u64,
    result: i64,
}

// What cmwq.h says of its layout.
const _: () = assert!(size_of::<Cqe>() == 16 && std::mem::offset_of!(Cqe, result) == 8);

/// A function and its argument, which C hands to another thread.
struct Func(unsafe extern "C-unwind" fn(*mut c_void) -> i64, *mut c_void);

// SAFETY: the header says that it is called by a worker.
unsafe impl Send for Func {}

impl Func {
    fn call(self) -> i64 {
        let Func(func, arg) = self;
        // SAFETY: as the header asks.
        cmwq::raw::call_item_code(|| unsafe { func(arg) })
    }
}

impl Cq {
    fn to_c(queue: CompletionQueue<i64>) -> *mut Cq {
        Box::into_raw(Box::new(Cq { queue }))
    }
}

impl Call {
    /// # Safety
    /// If not NULL and aligned, it is a completion queue that was not destroyed.
    #[inline]
    unsafe fn with_cq<R: Failed>(&self, cq: *mut Cq, f: impl FnOnce(&Cq) -> R) -> R {
        if cq.is_null() || !cq.is_aligned() {
            return self.wrong(
                Wrong::NullArgument,
                "the completion queue is NULL or misaligned",
            );
        }
        // SAFETY: by the caller's promise.
        f(unsafe { &*cq })
    }

    /// Calls `take` for entries, and hands them to C.
    ///
    /// # Safety
    /// As for [`with_cq`](Self::with_cq), and there are `max` entries.
    unsafe fn entries(
        &self,
        cq: *mut Cq,
        entries: *mut Cqe,
        max: usize,
        take: impl FnOnce(&CompletionQueue<i64>, &mut Vec<Completed<i64>>) -> usize,
    ) -> usize {
        if max == 0 {
            return 0;
        }
        if entries.is_null() || !entries.is_aligned() {
            return self.wrong(
                Wrong::NullArgument,
                "the array of entries is NULL or misaligned",
            );
        }
        // SAFETY: by the contract.
        unsafe {
            self.with_cq(cq, |cq| {
                let mut taken = Vec::new();
                let count = take(&cq.queue, &mut taken);
                for (index, Completed { token, result }) in taken.into_iter().enumerate() {
                    // C functions do not panic.
                    let result = result.unwrap_or(i64::MIN);
                    entries.add(index).write(Cqe { token, result });
                }
                count
            })
        }
    }
}

abi! {
    fn cmwq_cq_create(call, flags: c_uint, capacity: usize) -> *mut Cq {
        if flags & !EVENTFD != 0 {
            return call.wrong(Wrong::Flags, "unknown flags");
        }
        let mut builder = CompletionQueue::<i64>::builder();
        if capacity > 0 {
            builder = builder.capacity(capacity);
        }
        if flags & EVENTFD != 0 {
            builder = builder.eventfd();
        }
        match builder.build() {
            Ok(queue) => Cq::to_c(queue),
            Err(error) => {
                set_errno(error.raw_os_error().unwrap_or(libc::ENOMEM));
                std::ptr::null_mut()
            }
        }
    }

    fn cmwq_cq_clone(call, cq: *mut Cq) -> *mut Cq {
        // SAFETY: the header asks for a completion queue.
        unsafe { call.with_cq(cq, |cq| Cq::to_c(cq.queue.clone())) }
    }

    fn cmwq_cq_destroy(_call, cq: *mut Cq) {
        if !cq.is_null() {
            // SAFETY: made by `to_c`, and the header asks that no thread uses it any more.
            drop(unsafe { Box::from_raw(cq) });
        }
    }

    fn cmwq_cq_fd(call, cq: *mut Cq) -> c_int {
        // SAFETY: as above.
        unsafe {
            call.with_cq(cq, |cq| match cq.queue.fd() {
                Some(fd) => fd.as_raw_fd(),
                None => -libc::EINVAL,
            })
        }
    }

    fn cmwq_cq_post(call, cq: *mut Cq, token: u64, result: i64) -> c_int {
        // SAFETY: as above.
        unsafe {
            call.with_cq(cq, |cq| match cq.queue.post(token, result) {
                Ok(()) => 0,
                Err(NotPosted::Full(_)) => -libc::ENOSPC,
                // It has an owner: this one.
                Err(NotPosted::Closed(_)) => call.wrong(Wrong::Forked, "the completion queue is the parent's"),
            })
        }
    }

    fn cmwq_cq_execute(
        call,
        cq: *mut Cq,
        wq: *mut Wq,
        func: Option<unsafe extern "C-unwind" fn(*mut c_void) -> i64>,
        arg: *mut c_void,
        token: u64,
    ) -> c_int {
        let Some(func) = func else {
            return call.wrong(Wrong::NoFunction, "the function is NULL");
        };
        let shown = func as usize;
        let func = Func(func, arg);
        // SAFETY: as above.
        unsafe {
            call.with_cq(cq, |cq| {
                call.with(wq, |queue| match cq.queue.submit_as(&queue, token, shown, move || func.call()) {
                    Ok(()) => 0,
                    Err(NotSubmitted::Full) => -libc::ENOSPC,
                    Err(NotSubmitted::Refused(Refused::Draining)) => -libc::ESHUTDOWN,
                    Err(NotSubmitted::Refused(Refused::Full)) => -FULL,
                    Err(NotSubmitted::Refused(why)) => call.wrong(Wrong::Forked, &why.to_string()),
                })
            })
        }
    }

    fn cmwq_cq_drain(call, cq: *mut Cq, entries: *mut Cqe, max: usize) -> usize {
        // SAFETY: as above; the header asks for `max` entries.
        unsafe { call.entries(cq, entries, max, |queue, taken| queue.drain(max, taken)) }
    }

    fn cmwq_cq_arm(call, cq: *mut Cq) -> bool {
        // SAFETY: as above.
        unsafe {
            call.with_cq(cq, |cq| match cq.queue.fd() {
                Some(_) => cq.queue.arm(),
                None => call.wrong(Wrong::Unsuitable, "the completion queue has no eventfd"),
            })
        }
    }

    fn cmwq_cq_wait(call, cq: *mut Cq, entries: *mut Cqe, max: usize) -> usize {
        // SAFETY: as above.
        unsafe { call.entries(cq, entries, max, |queue, taken| queue.wait(max, taken)) }
    }

    fn cmwq_cq_wait_timeout_ns(call, cq: *mut Cq, entries: *mut Cqe, max: usize, timeout_ns: u64) -> usize {
        let timeout = Duration::from_nanos(timeout_ns);
        // SAFETY: as above.
        unsafe { call.entries(cq, entries, max, |queue, taken| queue.wait_timeout(max, taken, timeout)) }
    }
}
