//! [`Workqueue`]: queueing on it, waiting for it, and its attributes.

use crate::error::{Error, FlushError, Refused};
use crate::item::closure::{self, Small};
use crate::item::{Pending, RawWork, Work};
use crate::pool::{floods, publish_begins, spawn_history};
use crate::sys::names;
use crate::workqueue::parts::attrs::WorkqueueAttrs;
use crate::workqueue::parts::core::WqCore;
use crate::workqueue::parts::kind::WorkqueueKind;
use crate::workqueue::task::control::DisableGuard;
use crate::workqueue::task::counted::Reference;
use crate::workqueue::task::join::{JoinHandle, JoinableTask};
use crate::workqueue::task::queued::Queued;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::Arc;

/// A named workqueue: work items queued on it run on worker pools near the CPU that they were queued from.
///
/// Queues of equal attributes share pools. Items of one queue that one thread queues from one pod start in the order in which they were
/// queued, as long as `max_active` allows, and run concurrently. So do those of several threads; but in pods of more than one CPU an item
/// may start before up to 128 items that another thread has queued just before it, if that thread queues without pause. (A thread that
/// waits for an item may run it before its turn, see [`workers_only`](crate::WorkqueueBuilder::workers_only).) An
/// [`ordered`](crate::WorkqueueBuilder::ordered) queue runs one item at a time, in order. On a
/// [`per_cpu`](crate::WorkqueueBuilder::per_cpu) queue items run on the very CPU that they were queued from.
///
/// What the caller did before `queue` or `spawn` is visible to the item's function; what the function did is visible to every thread that
/// waited for it.
///
/// Cloning gives another handle of the same queue, for the tasks and threads that share it.
///
/// Dropping the last handle waits until everything queued has run, and then releases its workers. **On a thread of an asynchronous executor
/// [shut the queue down](Self::shutdown) first**, and await that: after it no drop waits. If one of the queue's own items drops the last handle, or
/// a task's waker that the library calls, a separate thread does that instead, since these must not wait.
#[derive(Clone, Debug)]
pub struct Workqueue {
    pub(in crate::workqueue) core: Arc<WqCore>,
    /// The handles of the queue share it.
    _owner: Arc<QueueOwner>,
}

/// Ends the queue with its last handle.
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

/// Queues the task with `queue`; the caller has its handle.
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
    /// The first handle of a new queue.
    pub(in crate::workqueue) fn new(core: Arc<WqCore>) -> Self {
        let _owner = Arc::new(QueueOwner(core.clone()));
        Workqueue { core, _owner }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// How traces name it; another queue may get the same once this one is gone. See [`LiveQueue::id`](crate::observe::LiveQueue::id).
    pub fn id(&self) -> usize {
        crate::engine::Queue::id(&*self.core)
    }

    /// Queues `work`, to run near the CPU that the caller is on, and [returns](Queued) the result: one new instance was accepted; the item
    /// was pending already (that instance has not started, and will see what the caller did before); it is disabled; or the queue is
    /// draining or belongs to the parent of a fork, so that nothing runs.
    ///
    /// Costs one exchange on a line that the pod shares. It takes a lock (for a few instructions, with no system call inside) only when a
    /// worker has to be woken, or when the item moves between pods. It allocates only to request a pool's first workers. May be called from
    /// any thread, whatever locks it holds, but not from a signal handler.
    #[inline]
    pub fn queue(&self, work: &Work) -> Queued {
        self.queue_work(None, work)
    }

    /// As [`queue`](Self::queue), from the pod of `cpu` instead of from the caller's.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`] if the machine has no such CPU.
    pub fn queue_on(&self, cpu: usize, work: &Work) -> Result<Queued, Error> {
        self.must_have(cpu)?;
        Ok(self.queue_work(Some(cpu), work))
    }

    pub(in crate::workqueue) fn must_have(&self, cpu: usize) -> Result<(), Error> {
        if self.core.engine.topology().cpus().contains(cpu) {
            Ok(())
        } else {
            Err(self.core.engine.no_such_cpu(cpu))
        }
    }

    /// As [`queue`](Self::queue), from a CPU of NUMA node `node`: the caller's own if that is in the node. If no CPU of the node may be
    /// used now, as [`queue`](Self::queue).
    ///
    /// # Errors
    /// [`Error::NoSuchNode`] if the machine has no such node; [`Error::Incompatible`] if the queue is not unbound.
    pub fn queue_on_node(&self, node: u32, work: &Work) -> Result<Queued, Error> {
        let cpu = self.core.cpu_of_node(node)?;
        Ok(self.queue_work(cpu, work))
    }

    /// As [`queue`](Self::queue), for a disabled item: gives up the guard's step of the disable depth, and queues the item if the depth is
    /// 0 then. [`Queued::Disabled`]: it is not.
    pub fn enable_and_queue(&self, mut guard: DisableGuard) -> Queued {
        match guard.give_up() {
            Some((work, true)) => self.queue(&work),
            _ => Queued::Disabled,
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

    /// Runs `func` as a one-shot item, near the CPU that the caller is on. Tools name it by the type of `func` and the place of this call, such
    /// as `server::handle::{{closure}} (src/main.rs:42)`. One allocation; none if `func` and its result are small (56
    /// bytes) and a free block of an earlier item is at hand.
    ///
    /// While a thread queues faster than the workers run, and drops its handles at once, closures of up to 24 bytes cost as little as with
    /// [`execute`](Self::execute).
    #[track_caller]
    pub fn spawn<F, T>(&self, func: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        match spawn_history::drops_handles() && floods() {
            true => self.spawn_to_be_dropped(func),
            false => self.spawn_from(None, func),
        }
    }

    /// Spawns for a thread in a flood that drops its handles at once.
    #[track_caller]
    fn spawn_to_be_dropped<F, T>(&self, func: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        // SAFETY: the copy is used only if the handle is dropped in time, and then the task forgets its own.
        let copy = unsafe { Small::copy_of(&func) };
        let place = Location::caller();
        let note = || JoinableTask::<F, T>::note_name(place);
        queue_task(JoinableTask::new(func), |item| match copy {
            Some(closure) => self.core.spawn_to_be_dropped(&closure, item, note),
            None => self.core.spawn(item, note),
        })
    }

    /// Runs `func` as a one-shot item without a handle, so that no thread can wait for it, cancel it or inspect it: the cheapest way to run
    /// a closure. [`flush`](Self::flush), [`drain`](Self::drain), `max_active` and all other features of the queue apply as to any item,
    /// and a panic is caught and counted.
    ///
    /// While a thread queues faster than the workers run, closures of up to 24 bytes need no memory of their own.
    ///
    /// # Errors
    /// The queue is [draining](Refused::Draining) or belongs to the parent [of a fork](Refused::Forked): `func` was dropped.
    #[inline]
    #[track_caller]
    pub fn execute<F>(&self, func: F) -> Result<(), Refused>
    where
        F: FnOnce() + Send + 'static,
    {
        self.execute_named::<F, F>(func)
    }

    /// As [`execute`](Self::execute). Tools name it by the type `N`: that of the caller's closure, of which `func` was made.
    #[inline]
    #[track_caller]
    pub(in crate::workqueue) fn execute_named<N, F>(&self, func: F) -> Result<(), Refused>
    where
        F: FnOnce() + Send + 'static,
    {
        names::note::<N>(closure::function_of(&func), Location::caller());
        self.core.execute(func)
    }

    /// As [`spawn`](Self::spawn), from `cpu` instead of from the caller's.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`] if the machine has no such CPU.
    #[track_caller]
    pub fn spawn_on<F, T>(&self, cpu: usize, func: F) -> Result<JoinHandle<T>, Error>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.must_have(cpu)?;
        Ok(self.spawn_from(Some(cpu), func))
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

    /// As [`spawn`](Self::spawn), for a closure that may borrow. `hold` gets the handle before the item is queued.
    ///
    /// # Safety
    /// The borrowed values exist until the handle has been joined, also if this unwinds.
    #[track_caller]
    pub(in crate::workqueue) unsafe fn spawn_within<F: FnOnce() + Send>(
        &self,
        func: F,
        hold: impl FnOnce(JoinHandle<()>),
    ) {
        // SAFETY: by the contract.
        let (task, handle) = unsafe { JoinableTask::new_within(func) };
        hold(handle);
        let place = Location::caller();
        let note = || JoinableTask::<F, ()>::note_name_within(place);
        queue_task_alone(task, |item| self.core.spawn(item, note));
    }

    /// Queues an item whose memory is the caller's.
    ///
    /// # Safety
    /// `item` points to a valid [`RawWork`] that stays valid, and is not moved, until its function has been called for this instance. The
    /// function may free it: it is not touched afterwards. An item is queued on one workqueue at a time, or its runs may overlap.
    #[inline]
    pub unsafe fn queue_raw(&self, item: NonNull<RawWork>) -> Queued {
        // SAFETY: by the caller's promise.
        unsafe { self.queue_raw_from(None, item) }
    }

    /// As [`queue_raw`](Self::queue_raw), for a disabled item: as [`RawWork::enable_work`], and queues the item if that enabled it.
    /// [`Queued::Disabled`]: it did not. On a queue of the parent of a fork it stays disabled.
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

    /// As [`queue_raw`](Self::queue_raw), from the pod of `cpu` instead of from the caller's.
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

    /// As [`queue_raw`](Self::queue_raw), from a CPU of NUMA node `node`; see [`queue_on_node`](Self::queue_on_node).
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

    /// Waits for every item accepted before the call; not for later ones, so a steady producer cannot hold it up. For an item that requeues
    /// itself it waits once.
    ///
    /// # Errors
    /// [`FlushError::OwnItem`] if called from an item of this very queue; [`FlushError::InWaker`]; [`FlushError::Forked`] in a fork's child.
    pub fn flush(&self) -> Result<(), FlushError> {
        self.core.flush()
    }

    /// Waits until the queue is empty. Meanwhile only its own items may queue on it; items queued from outside are dropped.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    pub fn drain(&self) -> Result<(), FlushError> {
        self.core.drain()
    }

    /// The attributes as they were given. In a fork's child: the default ones, if its parent was changing them.
    pub fn attrs(&self) -> WorkqueueAttrs {
        self.core.attrs()
    }

    /// Changes all attributes at once. Items that are already queued finish in their old pools; later items go to the new pools. No order
    /// holds between the two, except on an ordered queue, which keeps its order across any number of changes.
    ///
    /// # Errors
    /// [`Error::Nice`]; [`Error::Incompatible`] if the queue is not unbound. The attributes stay unchanged then.
    pub fn apply_attrs(&self, attrs: WorkqueueAttrs) -> Result<(), Error> {
        self.core.apply(attrs)
    }

    /// The limit on active items. In a fork's child: 0, if its parent was changing it.
    pub fn max_active(&self) -> usize {
        self.core.limits_given()[0]
    }

    /// Changes the limit. After lowering it, active items stay active; raising it lets waiting items start, in their order. The limit is 1
    /// to [`WQ_MAX_ACTIVE`](crate::WQ_MAX_ACTIVE): 0 is taken for 1 and a larger value for the maximum, with a warning. (Only when a queue
    /// is [built](crate::WorkqueueBuilder::max_active), 0 means the default.)
    ///
    /// # Errors
    /// [`Error::OrderedMaxActive`] on an ordered queue; [`Error::Incompatible`] on a BH queue, which has no limit.
    pub fn set_max_active(&self, max_active: usize) -> Result<(), Error> {
        self.core.set_max_active(max_active)
    }

    /// How many items may be active on each NUMA node in any case, so that items that wait for each other make progress. Initially the
    /// smaller of 8 and `max_active`. In a fork's child: 0, if its parent was changing it.
    pub fn min_active(&self) -> usize {
        self.core.limits_given()[1]
    }

    /// Changes [`min_active`](Self::min_active); more than `max_active` is cut to that.
    ///
    /// # Errors
    /// [`Error::Incompatible`] if the queue is not unbound, or is ordered.
    pub fn set_min_active(&self, min_active: usize) -> Result<(), Error> {
        self.core.set_min_active(min_active)
    }

    /// The kind. A power-efficient queue is per-CPU or unbound.
    pub fn kind(&self) -> WorkqueueKind {
        self.core.kind
    }

    /// The nice level that the queue's workers really have, which may differ from the requested one: raising it needs a privilege. `None`
    /// before the first worker has begun.
    pub fn effective_nice(&self) -> Option<i32> {
        self.core.engine.must_be_ours().ok()?;
        self.core.effective_nice()
    }

    /// Whether an item queued from `cpu` now would have to wait for a credit. A hint.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`] if the machine has no such CPU; [`Error::Forked`].
    pub fn is_congested(&self, cpu: usize) -> Result<bool, Error> {
        self.must_have(cpu)?;
        self.core.engine.must_be_ours()?;
        Ok(self.core.is_congested(cpu))
    }

    /// Items started and completed so far. Sums can go down when attributes change, as the kernel's do. In a fork's child: 0.
    pub fn counts(&self) -> (u64, u64) {
        if self.core.engine.is_inherited() {
            return (0, 0);
        }
        let stats = self.core.stats();
        (stats.started, stats.completed)
    }
}

impl Workqueue {
    /// Runs all queued items and releases the workers. No effect the second time, nor in a fork's child, which has no workers; the queue's
    /// memory there is the parent's.
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
            core.destroy();
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
