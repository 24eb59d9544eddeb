//! Delayed items in their user's memory.

use super::{Armed, INHERITED, MoveIf, Parts};
use crate::error::{Error, FlushError};
use crate::item::{Pending, RawWork};
use crate::timer::TimerKey;
use crate::workqueue::queue::Workqueue;
use crate::workqueue::task::control::wait_for_run;
use crate::workqueue::task::queued::{Moved, Queued};
use std::ptr::NonNull;
use std::time::Duration;

/// An item with a timer that its user owns and embeds anywhere: 80 bytes, of which a [`RawWork`] is
/// the first 40.
///
/// All-zero memory is a valid idle item without a function. Its memory must stay valid, and must not move, from the moment it is queued
/// until its function is called, or it is cancelled: the timer, too, refers to it by its address.
///
/// ```
/// use cmwq::{RawDelayedWork, RawWork, Workqueue};
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
    /// Items in C are 8 bytes longer than `RawWork`, reserved for extensions.
    _reserved: u64,
    timer: TimerKey,
    /// The same for the timer.
    _reserved_for_timer: [u64; 2],
}

// The layout of the C ABI.
#[cfg(all(target_pointer_width = "64", not(cmwq_loom)))]
const _: () = {
    use std::mem::offset_of;
    assert!(offset_of!(RawDelayedWork, timer) == 48 && size_of::<RawDelayedWork>() == 80);
};

impl RawDelayedWork {
    /// An idle item that was never queued.
    #[cfg(not(cmwq_loom))]
    pub const fn new(func: crate::item::WorkFn) -> Self {
        RawDelayedWork {
            work: RawWork::new(func),
            _reserved: 0,
            timer: TimerKey::new(),
            _reserved_for_timer: [0; 2],
        }
    }

    /// The item without its timer. While the timer is armed, cancelling or disabling this item waits until the timer fires: use the methods
    /// here instead. Flushing it waits for a running instance only.
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

    /// As [`DelayedWork::time_left`](crate::DelayedWork::time_left).
    pub fn time_left(&self) -> Duration {
        self.parts().time_left()
    }

    /// As [`DelayedWork::cancel`](crate::DelayedWork::cancel).
    pub fn cancel(&self) -> bool {
        self.parts().cancel()
    }

    /// As [`DelayedWork::cancel_sync`](crate::DelayedWork::cancel_sync).
    pub fn cancel_sync(&self) -> bool {
        let deeper = self.work.disable_once_more();
        let removed = self.cancel();
        wait_for_run(&self.work);
        if deeper {
            self.work.shallower();
        }
        removed
    }

    /// As [`RawWork::disable_work`]; the timer is stopped too.
    pub fn disable_work(&self) -> bool {
        self.work.disable_once_more();
        self.cancel()
    }

    /// As [`disable_work`](Self::disable_work), and waits until the function no longer runs.
    pub fn disable_sync(&self) -> bool {
        let removed = self.disable_work();
        wait_for_run(&self.work);
        removed
    }

    /// As [`RawWork::enable_work`]; a pending instance of an item that was not disabled is taken off its timer too.
    pub fn enable_work(&self) -> bool {
        self.work.enable_with(|| {
            self.cancel();
        })
    }

    /// As [`DelayedWork::flush`](crate::DelayedWork::flush).
    ///
    /// # Errors
    /// As [`RawWork::flush`].
    pub fn flush(&self) -> Result<bool, FlushError> {
        self.parts().flush(RawWork::flush)
    }

    /// As [`flush`](Self::flush), but the calling thread runs nothing itself.
    ///
    /// # Errors
    /// As [`RawWork::flush`].
    pub fn flush_by_workers(&self) -> Result<bool, FlushError> {
        self.parts().flush(RawWork::flush_by_workers)
    }

    /// As [`DelayedWork::flush_timeout`](crate::DelayedWork::flush_timeout).
    ///
    /// # Errors
    /// As [`RawWork::flush_timeout`].
    pub fn flush_timeout(&self, timeout: Duration) -> Result<bool, FlushError> {
        self.parts().flush(|item| item.flush_timeout(timeout))
    }
}

impl Workqueue {
    /// As [`queue_delayed`](Self::queue_delayed) and [`queue_delayed_on`](Self::queue_delayed_on), for an item whose memory is the
    /// caller's.
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
        // SAFETY: by the caller's promise; from the caller's own pointer, so that the function may get to the whole.
        Ok(match unsafe { self.claim_delayed(item.cast()) } {
            Ok(claimed) => {
                let armed = self.armed_raw(cpu, claimed);
                // SAFETY: valid by the caller's promise; the key is not used once the item may run.
                armed.start(unsafe { &(*item.as_ptr()).timer }, delay, false)
            }
            Err(why) => why,
        })
    }

    /// As [`mod_delayed`](Self::mod_delayed) and [`mod_delayed_on`](Self::mod_delayed_on), for an item whose memory is the
    /// caller's.
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
        let moved = unsafe { self.mod_delayed_raw_if(MoveIf::Always, cpu, item, delay, || ())? };
        Ok(moved.unwrap_or(INHERITED))
    }

    /// As [`mod_delayed_raw`](Self::mod_delayed_raw), if the item is as `which` says: that is checked and done in one step. `None`: it is not, and
    /// stays as it is. `owned` is called before the item is queued, while no other thread can move it.
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
        owned: impl FnOnce(),
    ) -> Result<Option<Moved>, Error> {
        cpu.map_or(Ok(()), |cpu| self.must_have(cpu))?;
        // SAFETY: valid by the caller's promise; the borrows are not used once the item may run.
        let parts = Parts {
            whole: item.cast(),
            ..unsafe { item.as_ref() }.parts()
        };
        let armed = |claimed| {
            owned();
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
