//! [`Workqueue`]: queueing on it, and waiting for it.

use crate::error::{Error, FlushError, Refused};
use crate::item::closure;
use crate::item::{Pending, Work};
use crate::pool::publish_begins;
use crate::sys::names;
use crate::trace::foreign;
use crate::workqueue::parts::core::WqCore;
use crate::workqueue::task::control::DisableGuard;
use crate::workqueue::task::counted::Reference;
use crate::workqueue::task::join::{JoinHandle, JoinableTask};
use crate::workqueue::task::queued::Queued;
use std::panic::Location;
use std::sync::Arc;

mod raw;

/// Runs closures and reusable items on threads that the library creates, within limits that the
/// queue sets.
///
/// Items run near the CPU that they were queued from, on worker pools that queues with equal
/// attributes share. Items of one queue that one thread queues from one pod (the group of CPUs with
/// a common worker pool) start in the order in which they were queued, as long as `max_active`
/// allows, and run concurrently. If more of them wait than the pod will soon run, and they take a
/// microsecond or longer, then other pods get some, which start there at once. That does not apply
/// to [`affinity_strict`](crate::WorkqueueBuilder::affinity_strict) queues, nor where `max_active`
/// is at most the number of the pod's CPUs. Items of several threads start in order too; but in pods
/// of more than one CPU an item may start before up to 128 items that another thread has queued
/// just before it, if that thread queues without pause. (A thread that waits for an item may run it
/// before its turn: see [`workers_only`](crate::WorkqueueBuilder::workers_only).) An
/// [`ordered`](crate::WorkqueueBuilder::ordered) queue runs one item at a time, in order. On a
/// [`per_cpu`](crate::WorkqueueBuilder::per_cpu) queue items run on the very CPU that they were
/// queued from.
///
/// Whatever the caller did before `queue` or `spawn` is visible to the item's function. Whatever
/// the function did is visible to every thread that has waited for the item.
///
/// Cloning gives another handle of the same queue, for the tasks and threads that share it.
///
/// Dropping the last handle waits until everything queued has run, and then releases the workers.
/// **On a thread of an asynchronous executor [shut the queue down](Self::shutdown) first**, and
/// await that; after it no drop waits. A drop that has waited for a second
/// [warns](crate::observe::set_warning_handler), once in a process.
/// If the last handle is dropped by one of the queue's own
/// items, or by a task's waker that the library calls, a separate thread waits instead, since these
/// must not wait.
///
/// ```
/// use cmwq::Workqueue;
///
/// let io = Workqueue::builder("io").max_active(64).build()?;
/// let length = io.spawn(|| "some text".len()); // join or await the handle
/// io.execute(|| println!("nobody waits for this one"))?;
/// assert_eq!(length.join()?, 9);
/// io.flush()?; // all that was queued before has run
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Workqueue {
    pub(in crate::workqueue) core: Arc<WqCore>,
    /// The owner of the queue, which all handles share.
    _owner: Arc<QueueOwner>,
}

/// Ends the queue when the last handle is dropped.
#[derive(Debug)]
struct QueueOwner(Arc<WqCore>);

/// Queues the task with `queue`, and returns its handle.
#[inline]
fn queue_task<F, T>(
    (task, handle): (Reference<JoinableTask<F, T>>, JoinHandle<T>),
    queue: impl FnOnce(Pending) -> Result<(), Refused>,
) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    queue_task_alone(task, queue);
    handle
}

/// Queues the task with `queue`. The caller has the task's handle.
#[inline]
fn queue_task_alone<F, T>(
    task: Reference<JoinableTask<F, T>>,
    queue: impl FnOnce(Pending) -> Result<(), Refused>,
) where
    F: FnOnce() -> T + Send,
    T: Send,
{
    let raw = JoinableTask::into_raw(task);
    // SAFETY: the reference in `raw` keeps the task alive until its function has taken it over.
    let item = unsafe { Pending::one_shot(raw) };
    if let Err(why) = queue(item) {
        // SAFETY: the queue did not use the reference.
        unsafe { JoinableTask::<F, T>::reject(raw, why) };
    }
}

impl Workqueue {
    /// Makes the first handle of a new queue.
    pub(in crate::workqueue) fn new(core: Arc<WqCore>) -> Self {
        let _owner = Arc::new(QueueOwner(core.clone()));
        Workqueue { core, _owner }
    }

    /// Runs a closure near the CPU that the caller is on, and returns a [handle](JoinHandle) that
    /// waits for its result.
    ///
    /// Tools name the item by the type of `func` and the place of this call, such as
    /// `server::handle::{{closure}} (src/main.rs:42)`. It takes one allocation; none if `func` and
    /// its result are small (56 bytes) and a free block of an earlier item is at hand.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// let sum = queue.spawn(|| (1..=100).sum::<u32>());
    /// assert_eq!(sum.join()?, 5050); // in an async function: `sum.await?`
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn spawn<F, T>(&self, func: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.spawn_from(None, func)
    }

    /// Runs a closure as [`spawn`](Self::spawn) does, near CPU `cpu` instead of near the caller's.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// let handle = queue.spawn_on(0, || "queued from CPU 0")?;
    /// assert_eq!(handle.join()?, "queued from CPU 0");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`] if the machine has no such CPU.
    #[track_caller]
    pub fn spawn_on<F, T>(&self, cpu: usize, func: F) -> Result<JoinHandle<T>, Error>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        if let Err(unknown) = self.must_have(cpu) {
            foreign::dispose(func);
            return Err(unknown);
        }
        Ok(self.spawn_from(Some(cpu), func))
    }

    /// Runs a closure without a handle: the cheapest way. No thread can wait for this item alone,
    /// cancel it or inspect it. [`flush`](Self::flush), [`drain`](Self::drain), `max_active` and
    /// all other features of the queue apply as to any item, and a panic is caught and counted.
    ///
    /// While a thread queues faster than the workers run the items, closures of up to 24 bytes need
    /// no memory of their own.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU32, Ordering};
    ///
    /// let hits = Arc::new(AtomicU32::new(0));
    /// for _ in 0..100 {
    ///     let hits = hits.clone();
    ///     queue.execute(move || { hits.fetch_add(1, Ordering::Relaxed); })?;
    /// }
    /// queue.flush()?;
    /// assert_eq!(hits.load(Ordering::Relaxed), 100);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The queue is [draining](Refused::Draining), or it belongs to the parent [of a
    /// fork](Refused::Forked). `func` was dropped.
    #[inline]
    #[track_caller]
    pub fn execute<F>(&self, func: F) -> Result<(), Refused>
    where
        F: FnOnce() + Send + 'static,
    {
        self.execute_named::<F, F>(func)
    }

    /// Queues a reusable item, to run near the CPU that the caller is on, and [returns](Queued) the
    /// result: one new instance was accepted; the item was pending already (that instance has not
    /// started, and will see what the caller did before); it is disabled; or the queue is draining
    /// or belongs to the parent of a fork, so that nothing runs.
    ///
    /// Queueing costs one atomic exchange on a cache line that the pod shares. It takes a lock only
    /// if a worker has to be woken or if the item moves between pods. The lock is held for a few
    /// instructions, with no system call inside. Queueing allocates memory only to request a pool's
    /// first workers. Any thread may call this, whatever locks it holds, but a signal handler must
    /// not.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// use cmwq::Work;
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU32, Ordering};
    ///
    /// let runs = Arc::new(AtomicU32::new(0));
    /// let count = runs.clone();
    /// let work = Work::new(move || { count.fetch_add(1, Ordering::Relaxed); });
    /// assert!(queue.queue(&work).is_accepted());
    /// work.flush()?;
    /// queue.queue(&work); // the same item once more, without an allocation
    /// work.flush()?;
    /// assert_eq!(runs.load(Ordering::Relaxed), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn queue(&self, work: &Work) -> Queued {
        self.queue_work(None, work)
    }

    /// Queues an item as [`queue`](Self::queue) does, from the pod of `cpu` instead of from the
    /// caller's.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// let work = cmwq::Work::new(|| println!("near CPU 0"));
    /// assert!(queue.queue_on(0, &work)?.will_run());
    /// work.flush()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`] if the machine has no such CPU.
    pub fn queue_on(&self, cpu: usize, work: &Work) -> Result<Queued, Error> {
        self.must_have(cpu)?;
        Ok(self.queue_work(Some(cpu), work))
    }

    /// Queues an item as [`queue`](Self::queue) does, from a CPU of NUMA node `node`: the caller's
    /// own if that is in the node. If no CPU of the node may be used now, it is queued from the
    /// caller's.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// let work = cmwq::Work::new(|| println!("where the data is"));
    /// let node = cmwq::Engine::global()?.topology().nodes()[0].0;
    /// assert!(queue.queue_on_node(node, &work)?.will_run());
    /// work.flush()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoSuchNode`] if the machine has no such node; [`Error::Incompatible`] if the queue
    /// is not unbound.
    pub fn queue_on_node(&self, node: u32, work: &Work) -> Result<Queued, Error> {
        let cpu = self.core.cpu_of_node(node)?;
        Ok(self.queue_work(cpu, work))
    }

    /// Ends a pause of an item and queues it: gives up the guard's step of the disable depth, and
    /// queues the item if the depth is 0 then. [`Queued::Disabled`]: it is not.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// let work = cmwq::Work::new(|| println!("configuration read"));
    /// let paused = work.disable_sync(); // until then, no run begins
    /// assert!(!queue.queue(&work).will_run());
    /// assert!(queue.enable_and_queue(paused).will_run());
    /// work.flush()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn enable_and_queue(&self, mut guard: DisableGuard) -> Queued {
        match guard.give_up() {
            Some((work, true)) => self.queue(&work),
            _ => Queued::Disabled,
        }
    }

    /// Waits until every item that was accepted before the call has ended. It does not wait for
    /// later ones, so a steady producer cannot hold it up. For an item that requeues itself it
    /// waits once.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// queue.execute(|| println!("written"))?;
    /// queue.flush()?; // it was written
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`FlushError::OwnItem`] if called from an item of this very queue; [`FlushError::InWaker`];
    /// [`FlushError::Forked`] in a fork's child.
    pub fn flush(&self) -> Result<(), FlushError> {
        self.core.flush()
    }

    /// Waits until the queue is empty. Meanwhile only its own items may queue on it; items queued
    /// from outside are refused as [draining](Refused::Draining).
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// queue.execute(|| println!("the last one"))?;
    /// queue.drain()?;
    /// let (started, completed) = queue.counts();
    /// assert_eq!(started, completed);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    pub fn drain(&self) -> Result<(), FlushError> {
        self.core.drain()
    }
}

impl Workqueue {
    pub(in crate::workqueue) fn must_have(&self, cpu: usize) -> Result<(), Error> {
        if self.core.engine.topology().cpus().contains(cpu) {
            Ok(())
        } else {
            Err(self.core.engine.no_such_cpu(cpu))
        }
    }

    #[inline]
    pub(in crate::workqueue) fn queue_work(&self, cpu: Option<usize>, work: &Work) -> Queued {
        publish_begins(work.raw().addr().get());
        let item = match work.claim() {
            Ok(item) => item,
            Err(why_not) => return why_not.into(),
        };
        let result = self.core.queue(cpu, item);
        if result.is_err() {
            work.unlend();
        }
        result.into()
    }

    /// Queues a closure as [`execute`](Self::execute) does. Tools name the item by the type `N`:
    /// that of the caller's closure, from which `func` was made.
    #[inline]
    #[track_caller]
    pub(in crate::workqueue) fn execute_named<N, F>(&self, func: F) -> Result<(), Refused>
    where
        F: FnOnce() + Send + 'static,
    {
        names::note::<N>(closure::function_of(&func), Location::caller());
        self.core.execute(func)
    }

    #[track_caller]
    fn spawn_from<F, T>(&self, cpu: Option<usize>, func: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let place = Location::caller();
        let note = || JoinableTask::<F, T>::note_name(place);
        queue_task(JoinableTask::new(func), |item| match cpu {
            None => self.core.spawn(item, note),
            named => {
                note();
                self.core.queue(named, item)
            }
        })
    }

    /// Spawns as [`spawn`](Self::spawn) does, for a closure that may borrow. `hold` gets the handle
    /// before the item is queued. Tools name the item by the type `N` and this place.
    ///
    /// # Safety
    /// The borrowed values exist until the handle has been joined, also if this unwinds.
    pub(in crate::workqueue) unsafe fn spawn_within<N, F: FnOnce() + Send>(
        &self,
        func: F,
        place: &'static Location<'static>,
        hold: impl FnOnce(JoinHandle<()>),
    ) {
        // SAFETY: by the contract.
        let (task, handle) = unsafe { JoinableTask::new_within(func) };
        hold(handle);
        let note = || JoinableTask::<F, ()>::note_name_within::<N>(place);
        queue_task_alone(task, |item| self.core.spawn(item, note));
    }
}

impl Workqueue {
    /// Runs all queued items and releases the workers. It does nothing the second time. In the
    /// child of a fork it does nothing either: there are no workers there, and the memory of the
    /// queue belongs to the parent.
    pub(in crate::workqueue) fn end(&self) {
        if !self.core.engine.is_inherited() && self.core.begin_to_end() {
            self.core.destroy();
        }
    }
}

impl Drop for QueueOwner {
    fn drop(&mut self) {
        let core = &self.0;
        if core.engine.is_inherited() || !core.begin_to_end() {
            return;
        }
        if !core.is_shut_down() && !core.ends_elsewhere() {
            core.destroy_in_drop();
            return;
        }
        let (service, core) = (core.engine.service(), core.clone());
        service.perform_elsewhere("cmwq-destroy", move || core.destroy());
    }
}

impl std::fmt::Debug for WqCore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WqCore")
            .field("name", &self.name)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}
