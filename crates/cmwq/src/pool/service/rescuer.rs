//! The rescuer: a thread made with a workqueue, which runs that queue's items when a pool needs a
//! worker and none can be created. So a queue whose items free what others wait for makes progress
//! without a single new thread.
//!
//! The service thread calls it (`mayday`): first when a needed worker has not come within 10 ms,
//! because the system refuses to create a thread or is slow; then every 100 ms while a worker is
//! still needed. The rescuer serves pool workqueues in the order in which they called, and takes
//! only their items from a pool's worklist.
//!
//! If an item ends the rescuer's thread, the rescuer continues on a new thread. As long as none can be
//! created, it stays on the old one: the queue must not lose its rescuer.
#![forbid(unsafe_code)]

use crate::pool::attrs::params::Params;
use crate::pool::attrs::threads::{self, Hooked, WorkerThreads};
use crate::pool::lock::holds::most_in_a_hold;
use crate::pool::queue::pwq::PwqKey;
use crate::pool::state::pool::{Inner, Pool, Rescue};
use crate::pool::task::busy::Executor;
use crate::pool::task::call::call;
use crate::pool::task::current;
use crate::pool::task::run::Task;
use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::AtomicU32;
use crate::sys::forced_unwind::thread_ends;
use crate::sys::park::Parker;
use crate::sys::sync::Mutex;
use crate::sys::thread::{self, ThreadName};
use crate::topology::CpuSet;
use crate::trace::Speaker;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// How many items of one pool workqueue the rescuer runs in a turn if another one waits and a
/// worker is still needed. As in the kernel, an item is counted before the comparison, so a turn
/// has 17 items.
const BATCH: u32 = 16;
/// The nice level of rescuers. Without the privilege the system refuses it, and the level stays as
/// it is.
const NICE: i32 = -20;
/// Stack touched in advance, so that running an item needs no new page. The model checker's stacks are small.
const TOUCHED_STACK: usize = if cfg!(cmwq_loom) { 1 } else { 64 * 1024 };

pub(crate) struct Rescuer {
    requests: Mutex<RescueRequests>,
    parker: Parker,
    tid: AtomicU32,
}

/// What the threads of a rescuer are like.
#[derive(Clone)]
struct ThreadOf {
    queue: String,
    /// The program's settings.
    wishes: Option<WorkerThreads>,
    params: Arc<Params>,
}

struct RescueRequests {
    calls: VecDeque<(Arc<Pool>, PwqKey)>,
    /// The CPUs that it is bound to while it waits for calls.
    rest: CpuSet,
    /// Whether it serves a pool now, and is bound to that pool's CPUs.
    visiting: bool,
    stop: bool,
}

impl Rescuer {
    /// Starts the rescuer of the queue `name`; it rests on `rest`. `wishes`: the program's settings
    /// of the thread. `params`: those of its pools. `speaker`: of the engine's reporter.
    pub(crate) fn start(
        name: &str,
        rest: CpuSet,
        wishes: Option<&WorkerThreads>,
        params: &Arc<Params>,
        speaker: Speaker,
    ) -> io::Result<Arc<Rescuer>> {
        let rescuer = Self::new(rest);
        let thread = ThreadOf {
            queue: name.to_owned(),
            wishes: wishes.cloned(),
            params: params.clone(),
        };
        rescuer.start_thread(thread, speaker)?;
        Ok(rescuer)
    }

    fn start_thread(self: &Arc<Self>, thread: ThreadOf, speaker: Speaker) -> io::Result<()> {
        let name = threads::rescuer_name(thread.wishes.as_ref(), &thread.queue, NICE);
        let (wishes, params) = (thread.wishes.clone(), thread.params.clone());
        let (rescuer, its_name) = (self.clone(), name.clone());
        threads::spawn(wishes.as_ref(), &params, &name, move || {
            rescuer.live(&thread, &its_name, speaker);
        })
    }

    /// The life of one of its threads.
    fn live(self: &Arc<Self>, thread: &ThreadOf, name: &str, speaker: Speaker) {
        let speaks = speaker.speak();
        self.prepare();
        let about = threads::rescuer(name, &thread.queue, NICE);
        let hooked = Hooked::begin(thread.wishes.as_ref(), about);
        let go_on_elsewhere = || self.start_thread(thread.clone(), speaks.another()).is_ok();
        self.serve(&ThreadName::new(name), &go_on_elsewhere);
        hooked.end();
    }

    /// A rescuer whose thread has to call [`serve`](Self::serve).
    pub(in crate::pool) fn new(rest: CpuSet) -> Arc<Rescuer> {
        Arc::new(Rescuer {
            requests: Mutex::new(RescueRequests {
                // A queue has few pool workqueues that can need it at once: no allocation when it matters.
                calls: VecDeque::with_capacity(16),
                rest,
                visiting: false,
                stop: false,
            }),
            parker: Parker::new(),
            tid: AtomicU32::new(0),
        })
    }

    /// The kernel's thread id, 0 before the thread has begun.
    pub(crate) fn tid(&self) -> i32 {
        self.tid.load(Ordering::Relaxed) as i32
    }

    /// Ends it after it has answered the calls that it has got.
    pub(crate) fn stop(&self) {
        self.requests.lock().stop = true;
        self.parker.unpark();
    }

    /// Changes the CPUs to which it is bound between visits, at once or after the present visit.
    pub(crate) fn move_to(&self, rest: &CpuSet) {
        let mut requests = self.requests.lock();
        requests.rest = rest.clone();
        // After it was stopped its thread may end, and another thread may get its id.
        if self.tid() != 0 && !requests.visiting && !requests.stop {
            let _ = thread::bind_other(self.tid(), rest);
        }
    }

    fn others_wait(&self) -> bool {
        !self.requests.lock().calls.is_empty()
    }

    /// The rescuer's life, without the program's hooks.
    #[cfg(test)]
    pub(in crate::pool) fn run(&self) {
        self.prepare();
        self.serve(&ThreadName::new("rescuer"), &|| false);
    }

    /// Makes the calling thread the rescuer.
    fn prepare(&self) {
        current::become_rescuer();
        touch_stack();
        let _ = thread::set_nice_current(NICE);
        {
            let requests = self.requests.lock();
            self.tid
                .store(thread::current_tid() as u32, Ordering::Relaxed);
            let _ = thread::bind_current(&requests.rest);
        }
    }

    /// Answers calls until it is stopped, or until an item has ended the thread and
    /// `go_on_elsewhere` has started another one, which answers the calls that are left.
    fn serve(&self, name: &ThreadName, go_on_elsewhere: &impl Fn() -> bool) {
        loop {
            let (call, stop) = {
                let mut requests = self.requests.lock();
                let call = requests.calls.pop_front();
                requests.visiting = call.is_some();
                (call, requests.stop)
            };
            match call {
                Some((pool, pwq)) => {
                    if self.visit(&pool, pwq, name, go_on_elsewhere) {
                        return;
                    }
                    // Bound under the lock, as at the beginning: otherwise it could bind itself to
                    // the CPUs from before a move.
                    let mut requests = self.requests.lock();
                    requests.visiting = false;
                    let _ = thread::bind_current(&requests.rest);
                }
                None if stop => return,
                None => self.parker.park(),
            }
        }
    }

    /// Runs the items of `pwq` that wait in `pool`, for as long as the pool needs a worker. `true`:
    /// another thread is the rescuer from now on, and goes on with the visit.
    fn visit(
        &self,
        pool: &Arc<Pool>,
        pwq: PwqKey,
        name: &ThreadName,
        go_on_elsewhere: &impl Fn() -> bool,
    ) -> bool {
        let binding = {
            let mut guard = pool.lock();
            guard.rescuer_came(pwq);
            guard.binding.clone()
        };
        let _ = thread::bind_current(&binding);
        let mut rescued = 0;
        // Releasing the pool's lock settles it: regular workers go on.
        while let Some(task) = self.next_of(pool, pwq, rescued) {
            let mut task = Some(task);
            while let Some(Task { started, run }) = task {
                let panicked = call(started, run.current);
                // The rescuer is needed because creating threads takes long, so one more system
                // call does not matter.
                name.restore();
                task = pool.lock().end_task(run, panicked);
            }
            rescued += 1;
            // The next item may want to end its thread too, or be cancelled with it.
            if thread_ends() && self.hands_over(pool, pwq, go_on_elsewhere) {
                return true;
            }
        }
        false
    }

    /// Another thread answers this call, and those behind it. `false`: none could be started.
    fn hands_over(
        &self,
        pool: &Arc<Pool>,
        pwq: PwqKey,
        go_on_elsewhere: &impl Fn() -> bool,
    ) -> bool {
        // The call is there before the other thread looks. Only the rescuer takes calls out.
        self.requests.lock().calls.push_front((pool.clone(), pwq));
        let is_elsewhere = go_on_elsewhere();
        if !is_elsewhere {
            self.requests.lock().calls.pop_front();
        }
        is_elsewhere
    }

    fn next_of(&self, pool: &Arc<Pool>, pwq: PwqKey, rescued: u32) -> Option<Task> {
        let others_wait = self.others_wait();
        let mut guard = pool.lock_accepting();
        // The pool workqueue may have been removed since it called, and its index may belong to
        // another queue.
        guard.pwq_mut(pwq)?;
        let needed = guard.needs_worker();
        if needed && others_wait && rescued > BATCH {
            // The other pool workqueues that have called come first.
            let calls = guard.calls_rescuer(pwq);
            drop(guard);
            if calls {
                self.call(pool.clone(), pwq);
            }
            return None;
        }
        if !needed && (others_wait || !guard.creating) {
            return None;
        }
        loop {
            guard.pwq_mut(pwq)?;
            if !guard.has_on_worklist(pwq.index) {
                return None;
            }
            let head = guard.worklist.head();
            let Some(item) = guard.worklist.take_next_of(pwq.index, most_in_a_hold()) else {
                guard = pool.lock_again(guard);
                continue;
            };
            let overtakes = head != Some(item.address());
            if let Some(task) = guard.start_or_hand_over(item, Executor::rescuer()) {
                guard.overtook += u64::from(overtakes);
                guard.pwqs[pwq.index].stats.rescued += 1;
                return Some(task);
            }
        }
    }
}

/// Touches the stack's pages now.
#[inline(never)]
fn touch_stack() {
    let mut stack = [0_u8; TOUCHED_STACK];
    for page in stack.chunks_mut(4096) {
        page[0] = 1;
        std::hint::black_box(&page);
    }
}

impl Rescue for Rescuer {
    fn call(&self, pool: Arc<Pool>, pwq: PwqKey) {
        self.requests.lock().calls.push_back((pool, pwq));
        self.parker.unpark();
    }
}

impl Pool {
    /// If the pool still needs a worker, calls the rescuers of those queues that have one and have
    /// items waiting here. Returns `false` if a worker has come.
    pub(in crate::pool) fn mayday(self: &Arc<Self>) -> bool {
        let mut calls = Vec::new();
        {
            let guard = self.lock();
            if !guard.creating || guard.dying {
                return false;
            }
        }
        let mut guard = self.lock_accepting();
        guard.note_standstill();
        if guard.needs_worker() {
            let inner: &mut Inner = &mut guard;
            let with_rescuer = inner.pwqs.iter().filter_map(|(index, pwq)| {
                let calls = pwq.owner.rescuer.is_some() && !pwq.mayday;
                (calls && inner.has_on_worklist(index)).then_some(index)
            });
            for index in with_rescuer.collect::<Vec<u32>>() {
                let pwq = &mut inner.pwqs[index];
                if let Some(rescuer) = &pwq.owner.rescuer {
                    pwq.mayday = true;
                    pwq.stats.mayday += 1;
                    calls.push((rescuer.clone(), index));
                }
            }
        }
        let calls: Vec<_> = calls
            .into_iter()
            .map(|(rescuer, index)| (rescuer, guard.key_of(index)))
            .collect();
        drop(guard);
        for (rescuer, pwq) in calls {
            rescuer.call(self.clone(), pwq);
        }
        true
    }
}

impl Inner {
    /// Whether an item waits, a CPU is free, and no worker is there to take the item. Running slots
    /// are not considered (a pool without one has the target 0), because a rescuer needs none.
    fn needs_worker(&self) -> bool {
        !self.worklist.is_empty()
            && self.running() < self.target().max(self.cpus)
            && self.searching() == 0
            && self.idle().is_empty()
    }

    /// Whether the worklist has an item of the pool workqueue. The counts tell, so the list, which
    /// may be long, is not walked: each active item runs, or waits behind a run of itself, or is on
    /// the worklist.
    fn has_on_worklist(&self, index: u32) -> bool {
        let of_it = |pwq: u32| usize::from(pwq == index);
        let elsewhere = self.busy.iter().map(|run| {
            let behind = run
                .scheduled
                .iter()
                .map(|item| of_it(item.location().pwq()));
            of_it(run.pwq) + behind.sum::<usize>()
        });
        let pwq = &self.pwqs[index];
        let elsewhere = elsewhere.sum::<usize>() + pwq.caller_slots_with_runs().count();
        pwq.credits.used() > i32::try_from(elsewhere).unwrap_or(i32::MAX)
    }

    fn rescuer_came(&mut self, pwq: PwqKey) {
        if let Some(pwq) = self.pwq_mut(pwq) {
            pwq.mayday = false;
        }
    }

    /// Notes a call of the pool workqueue for its rescuer. Returns `false` if an earlier call has
    /// not been answered yet.
    fn calls_rescuer(&mut self, pwq: PwqKey) -> bool {
        self.pwq_mut(pwq)
            .is_some_and(|pwq| !std::mem::replace(&mut pwq.mayday, true))
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests;
