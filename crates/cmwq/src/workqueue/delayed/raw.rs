//! Delayed items in their user's memory.

use super::{Armed, INHERITED, MoveIf, Parts};
use crate::error::{Error, FlushError};
use crate::item::{Pending, RawWork};
use crate::sys::atomic::Ordering;
use crate::timer::TimerKey;
use crate::workqueue::queue::Workqueue;
use crate::workqueue::task::control::wait_for_run;
use crate::workqueue::task::queued::{Moved, Queued};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// An item with a timer that its user owns and embeds anywhere: 80 bytes, of which a [`RawWork`] is
/// the first 40.
///
/// Memory of zeros only is a valid idle item without a function. From the moment when the item is
/// queued until its function is called or the item is cancelled, its memory must stay valid and
/// must not move: the timer, too, refers to the item by its address.
///
/// ```
/// use cmwq::Workqueue;
/// use cmwq::raw::{RawDelayedWork, RawWork};
/// use std::ptr::NonNull;
/// use std::time::Duration;
///
/// unsafe extern "C-unwind" fn retry(_item: NonNull<RawWork>) {
///     println!("once more");
/// }
///
/// let queue = Workqueue::builder("io").build()?;
/// let item = Box::new(RawDelayedWork::new(retry));
/// // SAFETY: the item stays where it is until the flush below has returned.
/// unsafe { queue.queue_delayed_raw(None, NonNull::from(&*item), Duration::from_millis(1))? };
/// item.flush()?; // does not wait for the timer
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[repr(C)]
pub struct RawDelayedWork {
    work: RawWork,
    /// An item in C is 8 bytes longer than `RawWork`. They are reserved for extensions.
    _reserved: u64,
    timer: TimerKey,
    /// Likewise for the timer.
    _reserved_for_timer: [u64; 2],
}

// The layout is part of the C ABI.
#[cfg(all(target_pointer_width = "64", not(cmwq_loom)))]
const _: () = {
    use std::mem::offset_of;
    assert!(offset_of!(RawDelayedWork, timer) == 48 && size_of::<RawDelayedWork>() == 80);
};

impl RawDelayedWork {
    /// Makes an idle item that was never queued.
    #[cfg(not(cmwq_loom))]
    pub const fn new(func: crate::item::WorkFn) -> Self {
        RawDelayedWork {
            work: RawWork::new(func),
            _reserved: 0,
            timer: TimerKey::new(),
            _reserved_for_timer: [0; 2],
        }
    }

    /// Returns the item without its timer. While the timer is armed, cancelling or disabling that
    /// item waits until the timer fires, so use the methods of this type instead. Flushing it waits
    /// only for a running instance.
    pub fn work(&self) -> &RawWork {
        &self.work
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            work: &self.work,
            whole: NonNull::from(&self.work),
            timer: &self.timer,
        }
    }

    /// Returns the time that is left, as [`DelayedWork::time_left`](crate::DelayedWork::time_left)
    /// does.
    pub fn time_left(&self) -> Duration {
        self.parts().time_left()
    }

    /// Cancels as [`DelayedWork::cancel`](crate::DelayedWork::cancel) does.
    pub fn cancel(&self) -> bool {
        self.parts().cancel()
    }

    /// Cancels as [`DelayedWork::cancel_sync`](crate::DelayedWork::cancel_sync) does.
    pub fn cancel_sync(&self) -> bool {
        let deeper = self.work.disable_once_more();
        let removed = self.cancel();
        wait_for_run(&self.work);
        if deeper {
            self.work.shallower();
        }
        removed
    }

    /// Disables the item as [`RawWork::disable_work`] does, and stops its timer.
    pub fn disable_work(&self) -> bool {
        self.work.disable_once_more();
        self.cancel()
    }

    /// Disables the item as [`disable_work`](Self::disable_work) does, and waits until the function
    /// no longer runs.
    pub fn disable_sync(&self) -> bool {
        let removed = self.disable_work();
        wait_for_run(&self.work);
        removed
    }

    /// Enables the item as [`RawWork::enable_work`] does. If the item was not disabled, a pending
    /// instance is removed from its timer too.
    pub fn enable_work(&self) -> bool {
        self.work.enable_with(|| {
            self.cancel();
        })
    }

    /// Waits as [`DelayedWork::flush`](crate::DelayedWork::flush) does.
    ///
    /// # Errors
    /// As [`RawWork::flush`].
    pub fn flush(&self) -> Result<bool, FlushError> {
        self.parts().flush(RawWork::flush)
    }

    /// Waits as [`flush`](Self::flush) does, but the calling thread runs no item itself.
    ///
    /// # Errors
    /// As [`RawWork::flush`].
    pub fn flush_by_workers(&self) -> Result<bool, FlushError> {
        self.parts().flush(RawWork::flush_by_workers)
    }

    /// Waits as [`flush_by_workers`](Self::flush_by_workers) does, with the difference that
    /// [`RawWork::flush_as_kernel`] has.
    ///
    /// # Errors
    /// As [`RawWork::flush_as_kernel`].
    pub fn flush_as_kernel(&self) -> Result<bool, FlushError> {
        self.parts().flush(RawWork::flush_as_kernel)
    }

    /// Waits as [`DelayedWork::flush_timeout`](crate::DelayedWork::flush_timeout) does.
    ///
    /// # Errors
    /// As [`RawWork::flush_timeout`].
    pub fn flush_timeout(&self, timeout: Duration) -> Result<bool, FlushError> {
        self.parts().flush(|item| item.flush_timeout(timeout))
    }
}

impl Workqueue {
    /// Queues an item in memory of the caller, as [`queue_delayed`](Self::queue_delayed) and
    /// [`queue_delayed_on`](Self::queue_delayed_on) do.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`] if the machine has no such CPU.
    ///
    /// # Safety
    /// As for [`queue_raw`](Self::queue_raw), and `item` stays where it is while its timer is armed.
    pub unsafe fn queue_delayed_raw(
        &self,
        cpu: Option<usize>,
        item: NonNull<RawDelayedWork>,
        delay: Duration,
    ) -> Result<Queued, Error> {
        cpu.map_or(Ok(()), |cpu| self.must_have(cpu))?;
        // SAFETY: valid by the caller's promise; the key is not used once the item may run.
        let timer = unsafe { &(*item.as_ptr()).timer };
        let armed = |claimed| self.armed_raw(cpu, claimed);
        // SAFETY: by the caller's promise; from the caller's own pointer, so that the function may
        // get to the whole.
        Ok(unsafe { self.start_timer(item.cast(), timer, delay, armed) })
    }

    /// Moves an item in memory of the caller, as [`mod_delayed`](Self::mod_delayed) and
    /// [`mod_delayed_on`](Self::mod_delayed_on) do.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`] if the machine has no such CPU.
    ///
    /// # Safety
    /// As for [`queue_delayed_raw`](Self::queue_delayed_raw).
    pub unsafe fn mod_delayed_raw(
        &self,
        cpu: Option<usize>,
        item: NonNull<RawDelayedWork>,
        delay: Duration,
    ) -> Result<Moved, Error> {
        // SAFETY: by the caller's promise.
        let moved = unsafe { self.mod_delayed_raw_if(MoveIf::Always, cpu, item, delay, None)? };
        Ok(moved.unwrap_or(INHERITED))
    }

    /// Moves an item as [`mod_delayed_raw`](Self::mod_delayed_raw) does, if it is in a state that
    /// `which` names; the check and the move are one step. `None`: it is not in such a state, and
    /// stays as it is. If it moves, the number in `note` is stored in the place beside it (`Relaxed`)
    /// before the item is queued, while no other thread can move it.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`] if the machine has no such CPU.
    ///
    /// # Safety
    /// As for [`queue_delayed_raw`](Self::queue_delayed_raw).
    pub unsafe fn mod_delayed_raw_if(
        &self,
        which: MoveIf,
        cpu: Option<usize>,
        item: NonNull<RawDelayedWork>,
        delay: Duration,
        note: Option<(&AtomicU64, u64)>,
    ) -> Result<Option<Moved>, Error> {
        cpu.map_or(Ok(()), |cpu| self.must_have(cpu))?;
        // SAFETY: valid by the caller's promise; the borrows are not used once the item may run.
        let parts = Parts {
            whole: item.cast(),
            ..unsafe { item.as_ref() }.parts()
        };
        let armed = |claimed| {
            // Relaxed: the program's own figure. A C program reads it as a plain number, so it is
            // not written if it is there already.
            if let Some((place, value)) = note
                && place.load(Ordering::Relaxed) != value
            {
                place.store(value, Ordering::Relaxed);
            }
            self.armed_raw(cpu, claimed)
        };
        Ok(parts.move_if(which, &self.core, delay, || (), armed))
    }

    fn armed_raw(&self, cpu: Option<usize>, item: Pending) -> Armed {
        Armed {
            item,
            keep: None,
            queue: self.core.clone(),
            cpu,
        }
    }
}
