//! Queueing items whose memory is the caller's.

use super::Workqueue;
use crate::error::{Error, Refused};
use crate::item::{Pending, RawWork};
use crate::pool::publish_begins;
use crate::workqueue::task::queued::Queued;
use std::ptr::NonNull;

impl Workqueue {
    /// Queues an item whose memory is the caller's: for C, and for items inside other structures.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// use cmwq::raw::RawWork;
    /// use std::ptr::NonNull;
    ///
    /// unsafe extern "C-unwind" fn hello(_item: NonNull<RawWork>) {
    ///     println!("hello");
    /// }
    /// let item = Box::new(RawWork::new(hello));
    /// // SAFETY: the item stays where it is until the flush below has returned.
    /// assert!(unsafe { queue.queue_raw(NonNull::from(&*item)) }.is_accepted());
    /// item.flush()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Safety
    /// `item` points to a valid [`RawWork`], which stays valid and does not move until its function
    /// has been called for this instance. The function may free the item, which is not touched
    /// afterwards. An item must be queued on only one workqueue at a time, or its runs may overlap.
    #[inline]
    pub unsafe fn queue_raw(&self, item: NonNull<RawWork>) -> Queued {
        // SAFETY: by the caller's promise.
        unsafe { self.queue_raw_from(None, item) }
    }

    /// Queues an item as [`queue_raw`](Self::queue_raw) does, from the pod of `cpu` instead of from
    /// the caller's.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`] if the machine has no such CPU.
    ///
    /// # Safety
    /// As for [`queue_raw`](Self::queue_raw).
    pub unsafe fn queue_raw_on(&self, cpu: usize, item: NonNull<RawWork>) -> Result<Queued, Error> {
        self.must_have(cpu)?;
        // SAFETY: by the caller's promise.
        Ok(unsafe { self.queue_raw_from(Some(cpu), item) })
    }

    /// Queues an item as [`queue_raw`](Self::queue_raw) does, from a CPU of NUMA node `node`: see
    /// [`queue_on_node`](Self::queue_on_node).
    ///
    /// # Errors
    /// As [`queue_on_node`](Self::queue_on_node).
    ///
    /// # Safety
    /// As for [`queue_raw`](Self::queue_raw).
    pub unsafe fn queue_raw_on_node(
        &self,
        node: u32,
        item: NonNull<RawWork>,
    ) -> Result<Queued, Error> {
        let cpu = self.core.cpu_of_node(node)?;
        // SAFETY: by the caller's promise.
        Ok(unsafe { self.queue_raw_from(cpu, item) })
    }

    /// Enables an item as [`RawWork::enable_work`] does, and queues it if it may be queued then.
    /// [`Queued::Disabled`]: the item is still disabled. If the queue belongs to the parent of a
    /// fork, the item stays disabled.
    ///
    /// # Safety
    /// As for [`queue_raw`](Self::queue_raw).
    pub unsafe fn enable_and_queue_raw(&self, item: NonNull<RawWork>) -> Queued {
        if self.core.engine.is_inherited() {
            return Queued::Refused(Refused::Forked);
        }
        // SAFETY: by the caller's promise.
        unsafe {
            match item.as_ref().enable_work() {
                true => self.queue_raw(item),
                false => Queued::Disabled,
            }
        }
    }

    /// # Safety
    /// As for [`queue_raw`](Self::queue_raw).
    #[inline]
    unsafe fn queue_raw_from(&self, cpu: Option<usize>, item: NonNull<RawWork>) -> Queued {
        publish_begins(item.addr().get());
        // SAFETY: by the caller's promise.
        let item = match unsafe { Pending::claim(item) } {
            Ok(item) => item,
            Err(why_not) => return why_not.into(),
        };
        self.core.queue(cpu, item).into()
    }
}
