//! Hooks around every run of an item.

use crate::call::{Wrong, abi};
use crate::queue::Wq;
use cmwq::observe::{ItemRun, set_run_hooks};
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

type Hook = unsafe extern "C" fn(*const c_void, usize);

static HOOKS: OnceLock<(Hook, Hook)> = OnceLock::new();

fn begin(run: ItemRun) {
    if let Some((begin, _)) = HOOKS.get() {
        // SAFETY: the header asks for a function that may be called with any item on any thread.
        unsafe { begin(std::ptr::without_provenance(run.item), run.queue) };
    }
}

fn end(run: ItemRun) {
    if let Some((_, end)) = HOOKS.get() {
        // SAFETY: as above.
        unsafe { end(std::ptr::without_provenance(run.item), run.queue) };
    }
}

abi! {
    fn cmwq_set_run_hooks(call, begin_hook: Option<Hook>, end_hook: Option<Hook>) -> c_int {
        let (Some(begin_hook), Some(end_hook)) = (begin_hook, end_hook) else {
            return call.wrong(Wrong::NullArgument, "a hook is NULL");
        };
        if HOOKS.set((begin_hook, end_hook)).is_err() {
            return -libc::EBUSY;
        }
        match set_run_hooks(begin, end) {
            true => 0,
            false => -libc::EBUSY,
        }
    }

    fn cmwq_workqueue_id(call, wq: *mut Wq) -> u64 {
        call.with(wq, |queue| queue.id() as u64)
    }
}
