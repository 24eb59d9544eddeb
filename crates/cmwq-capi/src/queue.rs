//! Workqueues: made, waited for, limited, destroyed.

use crate::call::{Call, Failed, Wrong, abi};
use crate::flags;
use crate::group::Group;
use crate::handle::{FIRST_HANDLE, Wq, cpu_from_c, name_of};
use crate::system;
use crate::threads::Threads;
use cmwq::observe::LiveQueue;
use cmwq::raw::WorkqueueHandle;
use cmwq::types::FlushError;
use cmwq::{Engine, Workqueue, WorkqueueBuilder};
use std::ffi::{c_char, c_int, c_long, c_uint};
use std::sync::Arc;
use std::time::Duration;

#[inline]
pub(crate) fn from_c(wq: *mut Wq) -> Option<WorkqueueHandle> {
    let bits = wq.addr() as u64;
    if bits < FIRST_HANDLE {
        return system::of_constant(bits);
    }
    WorkqueueHandle::from_bits(bits)
}

impl Call {
    /// Calls `f` with the workqueue.
    pub(crate) fn with<R: Failed>(&self, wq: *mut Wq, f: impl FnOnce(Arc<Workqueue>) -> R) -> R {
        match from_c(wq).map(WorkqueueHandle::get) {
            Some(Ok(queue)) => f(queue),
            _ => self.no_queue(wq),
        }
    }

    /// Says which of the two it was.
    #[cold]
    pub(crate) fn no_queue<R: Failed>(&self, wq: *mut Wq) -> R {
        if wq.is_null() {
            self.wrong(Wrong::NullQueue, "the workqueue is NULL")
        } else if let Some(error) = system::why_not(wq.addr() as u64) {
            self.error(&error)
        } else {
            self.wrong(
                Wrong::NoQueue,
                "there is no such workqueue: it was destroyed, or never was",
            )
        }
    }

    pub(crate) fn waited(&self, result: Result<(), FlushError>) -> c_int {
        match result {
            Ok(()) => 0,
            // The library has warned.
            Err(FlushError::OwnItem | FlushError::InWaker) => Failed::failed(Wrong::OwnItem),
            Err(FlushError::TimedOut) => -libc::ETIMEDOUT,
            Err(why) => self.wrong(Wrong::Forked, &why.to_string()),
        }
    }

    fn changed(&self, result: Result<(), cmwq::Error>) -> c_int {
        match result {
            Ok(()) => 0,
            Err(error) => self.error(&error),
        }
    }
}

/// `struct cmwq_workqueue_options`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Options {
    /// How much of it the caller knows.
    size: u32,
    /// A bool in C: any byte that is not 0 is true.
    ordered: u8,
    threads: *const Threads,
    group: *const Group,
    /// 0: no bound.
    max_waiting: usize,
}

/// How long they were in the first version, without `max_waiting`.
const FIRST_OPTIONS: usize = 24;

// What cmwq.h says of its layout.
const _: () = assert!(size_of::<Options>() == 32);

impl Options {
    /// # Safety
    /// They are NULL, or as long as they say.
    unsafe fn known(options: *const Options) -> Option<Options> {
        if options.is_null() {
            return None;
        }
        // SAFETY: the size comes first, and is there in every version.
        let size = unsafe { (&raw const (*options).size).read() } as usize;
        if size < FIRST_OPTIONS {
            return None;
        }
        // SAFETY: zeros are a value of each field.
        let mut known: Options = unsafe { std::mem::zeroed() };
        let length = size.min(size_of::<Options>());
        // SAFETY: by the caller's promise they are so long.
        unsafe {
            (&raw mut known)
                .cast::<u8>()
                .copy_from_nonoverlapping(options.cast(), length);
        }
        Some(known)
    }

    /// # Safety
    /// What they point to is there.
    unsafe fn apply(&self, mut builder: WorkqueueBuilder) -> WorkqueueBuilder {
        if !self.threads.is_null() {
            // SAFETY: by the caller's promise.
            builder = builder.worker_threads(unsafe { &(*self.threads).0 }.clone());
        }
        if !self.group.is_null() {
            // SAFETY: by the caller's promise.
            builder = builder.group(unsafe { &(*self.group).0 });
        }
        if self.max_waiting > 0 {
            builder = builder.max_waiting(self.max_waiting);
        }
        builder
    }
}

/// A workqueue of the process by its name.
fn live(name: &str) -> Option<LiveQueue> {
    let queues = Engine::global().ok()?.live_queues();
    queues.into_iter().find(|queue| queue.name() == name)
}

abi! {
    fn cmwq_alloc_workqueue(call, name: *const c_char, flags: c_uint, max_active: c_int) -> *mut Wq {
        // SAFETY: the header asks for a string.
        match unsafe { name_of(name) } {
            Some(name) => flags::make(call, &name, flags, max_active, flags::Order::Free, |builder| builder),
            None => call.wrong(Wrong::NullArgument, "the name is NULL"),
        }
    }

    fn cmwq_alloc_ordered_workqueue(call, name: *const c_char, flags: c_uint) -> *mut Wq {
        // SAFETY: as above.
        match unsafe { name_of(name) } {
            Some(name) => flags::make(call, &name, flags, 1, flags::Order::Ordered, |builder| builder),
            None => call.wrong(Wrong::NullArgument, "the name is NULL"),
        }
    }

    fn cmwq_alloc_workqueue_with(call, name: *const c_char, flags: c_uint, max_active: c_int, options: *const Options) -> *mut Wq {
        // SAFETY: the header asks for options, and for a string.
        let (options, name) = unsafe { (Options::known(options), name_of(name)) };
        let Some(name) = name else {
            return call.wrong(Wrong::NullArgument, "the name is NULL");
        };
        let Some(options) = options else {
            return call.wrong(Wrong::NullArgument, "the options are NULL, or their size is not set");
        };
        let order = match options.ordered {
            0 => flags::Order::Free,
            _ => flags::Order::Ordered,
        };
        // SAFETY: the header asks for what cmwq_alloc_threads() and cmwq_alloc_group() returned.
        flags::make(call, &name, flags, max_active, order, |builder| unsafe { options.apply(builder) })
    }

    fn cmwq_destroy_workqueue(call, wq: *mut Wq) -> c_int {
        let Some(handle) = from_c(wq) else {
            return call.no_queue(wq);
        };
        if system::is_system(handle) {
            return call.wrong(Wrong::SystemQueue, "a system workqueue cannot be destroyed");
        }
        match handle.destroy() {
            Ok(()) => 0,
            Err(_) => call.no_queue(wq),
        }
    }

    fn cmwq_flush_workqueue(call, wq: *mut Wq) -> c_int {
        match from_c(wq).and_then(system::of_handle) {
            Some(system) => call.waited(system.flush()),
            None => call.with(wq, |queue| call.waited(queue.flush())),
        }
    }

    fn cmwq_drain_workqueue(call, wq: *mut Wq) -> c_int {
        call.with(wq, |queue| call.waited(queue.drain()))
    }

    fn cmwq_flush_workqueue_timeout_ns(call, wq: *mut Wq, timeout_ns: u64) -> c_int {
        call.with(wq, |queue| call.waited(queue.flush_timeout(Duration::from_nanos(timeout_ns))))
    }

    fn cmwq_drain_workqueue_timeout_ns(call, wq: *mut Wq, timeout_ns: u64) -> c_int {
        call.with(wq, |queue| call.waited(queue.drain_timeout(Duration::from_nanos(timeout_ns))))
    }

    fn cmwq_destroy_workqueue_timeout_ns(call, wq: *mut Wq, timeout_ns: u64) -> c_int {
        let Some(handle) = from_c(wq) else {
            return call.no_queue(wq);
        };
        if system::is_system(handle) {
            return call.wrong(Wrong::SystemQueue, "a system workqueue cannot be destroyed");
        }
        call.with(wq, |queue| {
            // A caller that must not wait for the queue is told so before the queue is closed.
            let now = queue.flush_timeout(Duration::ZERO);
            if let Err(why @ (FlushError::OwnItem | FlushError::InWaker)) = now {
                return call.waited(Err(why));
            }
            let mut end = Workqueue::clone(&queue).shutdown();
            let ended = end.wait_timeout(Duration::from_nanos(timeout_ns));
            let why = ended.err().map(|unfinished| unfinished.why);
            match why {
                // The child of a fork has nothing to wait for, and forgets its parent's queue.
                None | Some(FlushError::Forked) => match handle.destroy() {
                    Ok(()) => 0,
                    Err(_) => call.no_queue(wq),
                },
                Some(why) => call.waited(Err(why)),
            }
        })
    }

    fn cmwq_workqueue_unfinished(call, wq: *mut Wq, text: *mut c_char, size: usize) -> c_long {
        if text.is_null() && size > 0 {
            return call.wrong(Wrong::NullArgument, "the memory for the text is NULL");
        }
        call.with(wq, |queue| {
            let unfinished = queue.unfinished().to_string();
            if size > 0 {
                let length = unfinished.len().min(size - 1);
                // SAFETY: the header asks for so much memory, and the NUL has a place behind the text.
                unsafe {
                    text.cast::<u8>().copy_from_nonoverlapping(unfinished.as_ptr(), length);
                    text.add(length).write(0);
                }
            }
            unfinished.len() as c_long
        })
    }

    fn cmwq_workqueue_set_max_active(call, wq: *mut Wq, max_active: c_int) -> c_int {
        call.with(wq, |queue| {
            // Here, and not in the library, which would not be told of a negative value.
            let used = flags::clamp_max_active(max_active);
            let changed = queue.set_max_active(used);
            if changed.is_ok() {
                flags::warn_if_clamped(call, queue.name(), max_active, used);
            }
            call.changed(changed)
        })
    }

    fn cmwq_workqueue_set_max_waiting(call, wq: *mut Wq, max_waiting: usize) -> c_int {
        call.with(wq, |queue| call.changed(queue.set_max_waiting(max_waiting)))
    }

    fn cmwq_workqueue_set_min_active(call, wq: *mut Wq, min_active: c_int) -> c_int {
        call.with(wq, |queue| {
            call.changed(queue.set_min_active(usize::try_from(min_active).unwrap_or(0)))
        })
    }

    fn cmwq_workqueue_write_attribute(call, name: *const c_char, attribute: *const c_char, text: *const c_char) -> c_int {
        // SAFETY: the header asks for strings.
        let (Some(name), Some(attribute), Some(text)) = (unsafe { (name_of(name), name_of(attribute), name_of(text)) }) else {
            return call.wrong(Wrong::NullArgument, "a string is NULL");
        };
        match live(&name).map(|queue| queue.set_attribute(&attribute, &text)) {
            None => -libc::ENOENT,
            Some(Ok(())) => 0,
            Some(Err(error)) => -error.errno.code(),
        }
    }

    fn cmwq_workqueue_read_attribute(call, name: *const c_char, attribute: *const c_char, text: *mut c_char, size: usize) -> c_long {
        // SAFETY: the header asks for strings.
        let (Some(name), Some(attribute)) = (unsafe { (name_of(name), name_of(attribute)) }) else {
            return call.wrong(Wrong::NullArgument, "a string is NULL");
        };
        if text.is_null() && size > 0 {
            return call.wrong(Wrong::NullArgument, "the memory for the text is NULL");
        }
        match live(&name).map(|queue| queue.attribute(&attribute)) {
            None => -c_long::from(libc::ENOENT),
            Some(Err(error)) => -c_long::from(error.errno.code()),
            Some(Ok(value)) => {
                let value = value + "\n";
                // SAFETY: the header asks for so much memory.
                unsafe { text.cast::<u8>().copy_from_nonoverlapping(value.as_ptr(), value.len().min(size)) };
                value.len() as c_long
            }
        }
    }

    fn cmwq_workqueue_congested(call, cpu: c_int, wq: *mut Wq) -> bool {
        call.with(wq, |queue| {
            let cpu = cpu_from_c(cpu).unwrap_or_else(crate::process::real_cpu);
            match queue.is_congested(cpu) {
                Ok(congested) => congested,
                Err(error) => call.error(&error),
            }
        })
    }
}
