//! What a C program wants of the threads that run items: hooks, names, stacks, signals.

use crate::call::{Wrong, abi};
use cmwq::types::WorkerThread;
use cmwq::{Engine, Error, WorkerThreads};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::{offset_of, size_of};

/// `struct cmwq_worker`.
#[repr(C)]
pub struct Worker {
    size: u32,
    id: u32,
    pool: i32,
    cpu: i32,
    nice: i32,
    reserved: u32,
    name: *const c_char,
    rescuer_of: *const c_char,
}

type Hook = unsafe extern "C-unwind" fn(*const Worker, *mut c_void);

/// `struct cmwq_thread_attrs`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ThreadAttrs {
    /// How much of it the caller knows.
    size: u32,
    flags: u32,
    stack_size: u64,
    name: *const c_char,
    worker_start: Option<Hook>,
    worker_exit: Option<Hook>,
    arg: *mut c_void,
}

// What cmwq.h says of their layout.
const _: () = assert!(size_of::<Worker>() == 40 && offset_of!(Worker, name) == 24);
const _: () = assert!(size_of::<ThreadAttrs>() == 48 && offset_of!(ThreadAttrs, name) == 16);

const RESTORE_NAMES: u32 = 1 << 0;
const BLOCK_SIGNALS: u32 = 1 << 1;

/// `struct cmwq_threads`.
pub struct Threads(pub(crate) WorkerThreads);

/// A hook and what it is to be called with.
#[derive(Clone, Copy)]
struct Called(Hook, *mut c_void);

// SAFETY: the header says that any worker may call it with this argument.
unsafe impl Send for Called {}
// SAFETY: as above.
unsafe impl Sync for Called {}

impl Called {
    fn call(&self, worker: &WorkerThread<'_>) {
        let name = text(worker.name());
        let queue = worker.rescuer_of().map(text);
        let number = |number: Option<usize>| number.map_or(-1, |number| number as i32);
        let worker = Worker {
            size: size_of::<Worker>() as u32,
            id: worker.id(),
            pool: number(worker.pool().map(|pool| pool as usize)),
            cpu: number(worker.cpu()),
            nice: worker.nice(),
            reserved: 0,
            name: name.as_ptr(),
            rescuer_of: queue
                .as_ref()
                .map_or(std::ptr::null(), |queue| queue.as_ptr()),
        };
        // SAFETY: the header asks for a function that may be called with this on the thread that it is about.
        let _ = cmwq::raw::call_c(|| unsafe { (self.0)(&worker, self.1) });
    }
}

fn text(name: &str) -> CString {
    CString::new(name).unwrap_or_default()
}

impl ThreadAttrs {
    /// # Safety
    /// The name, if there is one, is a string that ends with 0.
    unsafe fn to_rust(self) -> WorkerThreads {
        let mut threads = WorkerThreads::new()
            .restore_names(self.flags & RESTORE_NAMES != 0)
            .block_signals(self.flags & BLOCK_SIGNALS != 0);
        if self.stack_size != 0 {
            threads = threads.stack_size(self.stack_size as usize);
        }
        if !self.name.is_null() {
            // SAFETY: by the caller's promise.
            let name = unsafe { CStr::from_ptr(self.name) };
            threads = threads.name(&name.to_string_lossy());
        }
        if let Some(hook) = self.worker_start {
            let hook = Called(hook, self.arg);
            threads = threads.on_start(move |worker| hook.call(worker));
        }
        if let Some(hook) = self.worker_exit {
            let hook = Called(hook, self.arg);
            threads = threads.on_exit(move |worker| hook.call(worker));
        }
        threads
    }
}

abi! {
    fn cmwq_alloc_threads(call, attrs: *const ThreadAttrs) -> *mut Threads {
        if attrs.is_null() {
            return call.wrong(Wrong::NullArgument, "the attributes are NULL");
        }
        // SAFETY: not NULL, and the size is there in every version.
        let size = unsafe { (&raw const (*attrs).size).read() } as usize;
        if size < size_of::<ThreadAttrs>() {
            return call.wrong(Wrong::NullArgument, "the attributes' size is not set: they were not initialised");
        }
        // SAFETY: the header asks for attributes, and they are at least that long.
        let attrs = unsafe { attrs.read() };
        if attrs.flags & !(RESTORE_NAMES | BLOCK_SIGNALS) != 0 {
            return call.wrong(Wrong::Flags, "unknown flags");
        }
        // SAFETY: the header asks for a string.
        let threads = unsafe { attrs.to_rust() };
        match threads.check() {
            Ok(()) => Box::into_raw(Box::new(Threads(threads))),
            Err(error) => call.error(&error),
        }
    }

    fn cmwq_free_threads(_call, threads: *mut Threads) {
        if !threads.is_null() {
            // SAFETY: the header asks for what cmwq_alloc_threads returned, once.
            drop(unsafe { Box::from_raw(threads) });
        }
    }

    fn cmwq_set_default_threads(call, threads: *const Threads) -> c_int {
        if threads.is_null() {
            return call.wrong(Wrong::NullArgument, "the threads are NULL");
        }
        // SAFETY: not NULL; the header asks for what cmwq_alloc_threads returned.
        let threads = unsafe { &(*threads).0 }.clone();
        match Engine::builder().worker_threads(threads).build_global() {
            Ok(_) => 0,
            Err(Error::AlreadyInUse) => -libc::EBUSY,
            Err(error) => call.error(&error),
        }
    }
}
