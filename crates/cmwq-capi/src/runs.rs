//! Hooks around every run of an item.

use crate::call::{Wrong, abi};
use crate::handle::Wq;
use cmwq::observe::{ItemRun, set_run_hooks};
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

type Hook = unsafe extern "C-unwind" fn(*const c_void, usize);

static HOOKS: OnceLock<(Hook, Hook)> = OnceLock::new();

/// The ordered workqueues that were made since there are hooks, by their ids, which are even; 0: free.
static ORDERED: [AtomicUsize; 1024] = [const { AtomicUsize::new(0) }; 1024];

/// Where an id may be.
fn slots(id: usize) -> impl Iterator<Item = &'static AtomicUsize> {
    let at = id / 128;
    (at..at + 16).map(|slot| &ORDERED[slot % ORDERED.len()])
}

/// A workqueue was made; one that is gone may have had its id.
pub(crate) fn made(id: usize, is_ordered: bool) {
    if HOOKS.get().is_none() {
        return;
    }
    let replace = |was, new| {
        slots(id).any(|slot| {
            slot.compare_exchange(was, new, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        })
    };
    replace(id, 0);
    if is_ordered {
        replace(0, id);
    }
}

/// The id of an ordered workqueue is odd for the hooks.
fn told(id: usize) -> usize {
    id | usize::from(slots(id).any(|slot| slot.load(Ordering::Relaxed) == id))
}

fn begin(run: ItemRun) {
    if let Some((begin, _)) = HOOKS.get() {
        // SAFETY: the header asks for a function that may be called with any item on any thread.
        let call = || unsafe { begin(std::ptr::without_provenance(run.item), told(run.queue)) };
        let _ = cmwq::raw::call_c(call);
    }
}

fn end(run: ItemRun) {
    if let Some((_, end)) = HOOKS.get() {
        // SAFETY: as above.
        let call = || unsafe { end(std::ptr::without_provenance(run.item), told(run.queue)) };
        let _ = cmwq::raw::call_c(call);
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
