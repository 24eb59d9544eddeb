//! A workqueue's name, attributes and limits, and how to change them while it is in use.

use crate::error::Error;
use crate::workqueue::parts::attrs::WorkqueueAttrs;
use crate::workqueue::parts::kind::WorkqueueKind;
use crate::workqueue::queue::Workqueue;

impl Workqueue {
    /// The name that the queue was built with, which tools show.
    ///
    /// ```
    /// let queue = cmwq::Workqueue::builder("io").build()?;
    /// assert_eq!(queue.name(), "io");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// The number by which traces tell queues apart; another queue may get the same one once this
    /// one is gone. See [`LiveQueue::id`](crate::observe::LiveQueue::id).
    pub fn id(&self) -> usize {
        crate::engine::Queue::id(&*self.core)
    }

    /// Says which kind of queue this is. A power-efficient queue is per-CPU or unbound.
    ///
    /// ```
    /// use cmwq::Workqueue;
    /// use cmwq::types::WorkqueueKind;
    ///
    /// let log = Workqueue::builder("log").ordered().build()?;
    /// assert_eq!(log.kind(), WorkqueueKind::Ordered);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn kind(&self) -> WorkqueueKind {
        self.core.kind
    }

    /// The attributes as they were given. In the child of a fork: the default ones, if its parent
    /// was changing them.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// assert_eq!(queue.attrs().nice, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn attrs(&self) -> WorkqueueAttrs {
        self.core.attrs()
    }

    /// Changes all attributes at once, while the queue is in use. Items that are already queued
    /// finish in their old pools; later items go to the new pools. No order holds between the two,
    /// except on an ordered queue, which keeps its order across any number of changes.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// let mut attrs = queue.attrs();
    /// attrs.nice = 10; // a batch of background work begins
    /// queue.apply_attrs(attrs)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Nice`]; [`Error::Incompatible`] if the queue is not unbound. The attributes stay
    /// unchanged then.
    pub fn apply_attrs(&self, attrs: WorkqueueAttrs) -> Result<(), Error> {
        self.core.apply(attrs)
    }

    /// How many items may be active at a time. In the child of a fork: 0, if its parent was
    /// changing it.
    ///
    /// ```
    /// let queue = cmwq::Workqueue::builder("io").max_active(4).build()?;
    /// assert_eq!(queue.max_active(), 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_active(&self) -> usize {
        self.core.limits_given()[0]
    }

    /// Changes how many items may be active at a time. After lowering it, active items stay active;
    /// raising it lets waiting items start, in their order. The limit is 1 to
    /// [`WQ_MAX_ACTIVE`](crate::raw::WQ_MAX_ACTIVE): 0 is taken for 1 and a larger value for the
    /// maximum, with a warning. (Only when a queue is [built](crate::WorkqueueBuilder::max_active),
    /// 0 means the default.)
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// queue.set_max_active(8)?; // a second disk was added
    /// assert_eq!(queue.max_active(), 8);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OrderedMaxActive`] on an ordered queue; [`Error::Incompatible`] on a BH queue,
    /// which has no limit.
    pub fn set_max_active(&self, max_active: usize) -> Result<(), Error> {
        self.core.set_max_active(max_active)
    }

    /// How many items may be active on each NUMA node in any case, so that items that wait for each
    /// other make progress. At first it is the smaller of 8 and `max_active`. In the child of a
    /// fork: 0, if its parent was changing it.
    ///
    /// ```
    /// let queue = cmwq::Workqueue::builder("io").max_active(100).build()?;
    /// assert_eq!(queue.min_active(), 8);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn min_active(&self) -> usize {
        self.core.limits_given()[1]
    }

    /// Changes how many items may be active on each NUMA node in any case; more than `max_active`
    /// is cut to that.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// queue.set_min_active(16)?; // up to 16 items wait for one another
    /// assert_eq!(queue.min_active(), 16);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Incompatible`] if the queue is not unbound, or is ordered.
    pub fn set_min_active(&self, min_active: usize) -> Result<(), Error> {
        self.core.set_min_active(min_active)
    }

    /// The nice level that the queue's workers really have, which may differ from the requested
    /// one: raising it needs a privilege. `None` before the first worker has begun.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// queue.spawn(|| ()).join()?;
    /// if queue.effective_nice() != Some(queue.attrs().nice) {
    ///     println!("no permission for that priority, or no worker yet");
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn effective_nice(&self) -> Option<i32> {
        self.core.engine.must_be_ours().ok()?;
        self.core.effective_nice()
    }

    /// Says whether an item queued from `cpu` now would have to wait because `max_active` is
    /// reached. The answer may be out of date when the caller reads it.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// if !queue.is_congested(0)? {
    ///     queue.execute(|| println!("begins soon"))?;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`] if the machine has no such CPU; [`Error::Forked`].
    pub fn is_congested(&self, cpu: usize) -> Result<bool, Error> {
        self.must_have(cpu)?;
        self.core.engine.must_be_ours()?;
        Ok(self.core.is_congested(cpu))
    }

    /// How many items have started and how many have completed so far. The sums can go down when
    /// attributes change, as the kernel's do. In the child of a fork: 0.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// queue.spawn(|| ()).join()?;
    /// queue.flush()?;
    /// let (started, completed) = queue.counts();
    /// assert_eq!((started, completed), (1, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn counts(&self) -> (u64, u64) {
        if self.core.engine.is_inherited() {
            return (0, 0);
        }
        self.core.counts()
    }
}
