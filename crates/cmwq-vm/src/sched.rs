//! The scheduler: which thread a CPU runs, and where one that wakes up goes.
#![forbid(unsafe_code)]

use crate::machine::Placement;
use crate::set::Cpus;
use crate::thread::{State, Tid};
use crate::vm::{Timer, Vm};
use std::cmp::Reverse;

impl Vm {
    /// The running thread leaves its CPU, which picks another one.
    pub(crate) fn leave(&mut self, state: State) {
        let (cpu, tid) = (self.cpu, self.tid);
        let now = self.cpus[cpu].clock;
        self.account(cpu, now);
        let thread = &mut self.threads[tid.index()];
        thread.state = state;
        thread.sleeps += 1;
        thread.voluntary += 1;
        self.cpus[cpu].current = None;
        self.pick(cpu, now);
    }

    /// What the running thread has used since the last accounting, until the caller's time: its own
    /// next operation may be far ahead.
    pub(crate) fn ran_ns(&self, cpu: usize) -> u64 {
        let core = &self.cpus[cpu];
        let until = core.clock.min(self.now());
        let ran = until.saturating_sub(core.picked_at);
        core.current.map_or(0, |_| ran)
    }

    /// The time that all CPUs were not idle, added up.
    pub(crate) fn busy_ns(&self) -> u64 {
        let used = (0..self.cpus.len()).map(|cpu| self.cpus[cpu].busy_ns + self.ran_ns(cpu));
        used.sum()
    }

    /// Adds what the running thread has used since the last accounting.
    pub(crate) fn account(&mut self, cpu: usize, now: u64) {
        let Some(tid) = self.cpus[cpu].current else {
            return;
        };
        let core = &mut self.cpus[cpu];
        let ran = now.saturating_sub(core.picked_at);
        core.picked_at = core.picked_at.max(now);
        core.busy_ns += ran;
        let thread = &mut self.threads[tid.index()];
        thread.ran_ns += ran;
        thread.vruntime_ns += ran;
        thread.left_at = now;
        core.min_vruntime_ns = core
            .min_vruntime_ns
            .max(thread.vruntime_ns.saturating_sub(thread.slice_ns));
    }

    /// Lets the thread that has had the least run next, one of another CPU's if none waits here, or idles.
    pub(crate) fn pick(&mut self, cpu: usize, now: u64) {
        if self.cpus[cpu].queue.is_empty() {
            self.pull(cpu, now);
        }
        let queue = &self.cpus[cpu].queue;
        let best = (0..queue.len()).min_by_key(|&at| self.threads[queue[at].index()].vruntime_ns);
        let Some(best) = best else {
            let core = &mut self.cpus[cpu];
            core.idle_since = now;
            core.reschedule = false;
            self.idle.insert(cpu);
            self.unschedule(cpu);
            return;
        };
        self.run_queued(cpu, best, now);
    }

    /// The thread at this place of a CPU's queue runs there from now on.
    pub(crate) fn run_queued(&mut self, cpu: usize, at: usize, now: u64) {
        let tid = self.cpus[cpu].queue.remove(at);
        let moved = self.threads[tid.index()].cpu != cpu;
        let switch = self.computing(cpu, self.costs.switch_ns);
        let migration = if moved { self.costs.migration_ns } else { 0 };
        let thread = &mut self.threads[tid.index()];
        thread.state = State::Running;
        thread.cpu = cpu;
        let remaining = std::mem::take(&mut thread.remaining_ns);
        let core = &mut self.cpus[cpu];
        core.current = Some(tid);
        core.picked_at = now;
        core.picks += 1;
        core.tick_armed = false;
        core.reschedule = false;
        core.clock = now + switch + migration + remaining;
        self.switches += 1;
        self.idle.remove(cpu);
        self.arm_tick(cpu, now);
        self.schedule(cpu);
    }

    /// A CPU that is about to idle takes a thread that waits for another one: the first that it
    /// finds whose working set is no longer in a cache.
    fn pull(&mut self, cpu: usize, now: u64) {
        if !self.all.contains(cpu) {
            return;
        }
        let count = self.cpus.len();
        let near = |vm: &Vm, other: usize| vm.cpus[cpu].llc.contains(other);
        for is_near in [true, false] {
            let others = (1..count).map(|step| (cpu + step) % count);
            for other in others.filter(|&other| near(self, other) == is_near) {
                let waits = self.cpus[other].queue.iter().position(|&tid| {
                    let thread = &self.threads[tid.index()];
                    let is_cold = now >= thread.left_at + self.costs.hot_ns;
                    is_cold && thread.allowed.contains(cpu)
                });
                if let Some(at) = waits {
                    let tid = self.cpus[other].queue.remove(at);
                    self.queue_on(tid, cpu, now);
                    return;
                }
            }
        }
    }

    /// Others wait: the running thread's slice has an end.
    fn arm_tick(&mut self, cpu: usize, now: u64) {
        let core = &mut self.cpus[cpu];
        let Some(tid) = core.current else { return };
        if core.tick_armed || core.queue.is_empty() {
            return;
        }
        core.tick_armed = true;
        let picks = core.picks;
        let slice = self.threads[tid.index()].slice_ns;
        let end = (core.picked_at + slice).max(now + 1);
        let end = end.next_multiple_of(self.costs.tick_ns.max(1));
        self.add_timer(end, Timer::Tick(cpu, picks));
    }

    pub(crate) fn fire(&mut self, at: u64, timer: Timer) {
        match timer {
            Timer::Begin(cpu) => {
                self.cpus[cpu].begins = false;
                if self.cpus[cpu].current.is_none() {
                    self.pick(cpu, at);
                }
            }
            Timer::Interrupt(cpu) => self.preempt(cpu, at),
            Timer::Tick(cpu, picks) => {
                let core = &mut self.cpus[cpu];
                let is_over = core.picks == picks && core.tick_armed;
                core.tick_armed &= !is_over;
                if !self.push_away(cpu, at) && is_over {
                    self.preempt(cpu, at);
                }
            }
            Timer::Late(tid, waker) => {
                // After a fork it may be a thread of the parent's.
                if std::mem::take(&mut self.threads[tid.index()].waking) {
                    let cpu = self.place(tid, waker);
                    self.enqueue(tid, cpu, at);
                }
            }
            Timer::Probe | Timer::Limit => unreachable!("they are no thread's"),
            Timer::Timeout(tid, sleeps) => {
                let thread = &mut self.threads[tid.index()];
                if thread.state == State::Blocked && thread.sleeps == sleeps {
                    thread.timed_out = true;
                    self.leave_futex(tid);
                    let cpu = self.threads[tid.index()].cpu;
                    self.make_runnable(tid, cpu, at);
                }
            }
        }
    }

    /// Takes a thread that another one wakes by name out of the queue of its futex. The next wake-up of
    /// the futex is for the thread behind it.
    pub(crate) fn leave_futex(&mut self, tid: Tid) {
        if let Some(futex) = self.threads[tid.index()].futex.take()
            && let Some(sleepers) = self.futexes.get_mut(&futex)
        {
            sleepers.retain(|&sleeper| sleeper != tid);
        }
    }

    /// Gives a waiting thread to an idle CPU, as the periodic balancing does.
    fn push_away(&mut self, cpu: usize, at: u64) -> bool {
        if self.idle.is_empty() {
            return false;
        }
        let queue = self.cpus[cpu].queue.clone();
        for tid in queue {
            let allowed = self.threads[tid.index()].allowed.and(&self.all);
            let idle = self.idle.and(&allowed);
            if let Some(to) = idle.next_after(cpu) {
                self.cpus[cpu].queue.retain(|&waiting| waiting != tid);
                self.enqueue(tid, to, at);
                self.arm_tick(cpu, at);
                return true;
            }
        }
        false
    }

    /// Takes the CPU from the thread that runs there, as soon as it may be interrupted.
    pub(crate) fn preempt(&mut self, cpu: usize, at: u64) {
        let core = &mut self.cpus[cpu];
        let Some(tid) = core.current else { return };
        if core.queue.is_empty() {
            return;
        }
        if core.masked > 0 || core.spinning {
            core.reschedule = true;
            return;
        }
        let left = core.clock.saturating_sub(at);
        core.current = None;
        // `account` with the thread that just left.
        core.current = Some(tid);
        self.account(cpu, at);
        let core = &mut self.cpus[cpu];
        core.current = None;
        core.queue.push(tid);
        let thread = &mut self.threads[tid.index()];
        thread.state = State::Runnable;
        thread.remaining_ns = left;
        self.pick(cpu, at);
    }

    /// A sleeper wakes up at `at`. `waker` is where the wake-up comes from. Returns the waker's
    /// share of the cost.
    pub(crate) fn make_runnable(&mut self, tid: Tid, waker: usize, at: u64) -> u64 {
        self.wakeups += 1;
        if self.delays_wakeup(tid, waker, at) {
            return self.costs.wake_ns;
        }
        let cpu = self.place(tid, waker);
        self.enqueue(tid, cpu, at)
    }

    /// A thread waits for this CPU from now on, at most a slice ahead of those that are there, and
    /// a slice behind: neither what it has run elsewhere counts nor how long it has slept.
    fn queue_on(&mut self, tid: Tid, cpu: usize, at: u64) {
        let core = &mut self.cpus[cpu];
        core.queue.push(tid);
        let running = core.current.map_or(0, |running| {
            let running = &self.threads[running.index()];
            (running.vruntime_ns + at.saturating_sub(core.picked_at))
                .saturating_sub(running.slice_ns)
        });
        let floor = core.min_vruntime_ns.max(running);
        let thread = &mut self.threads[tid.index()];
        thread.vruntime_ns = thread.vruntime_ns.clamp(floor, floor + thread.slice_ns);
    }

    pub(crate) fn enqueue(&mut self, tid: Tid, cpu: usize, at: u64) -> u64 {
        self.queue_on(tid, cpu, at);
        let thread = &mut self.threads[tid.index()];
        thread.state = State::Runnable;
        let (vruntime, slice) = (thread.vruntime_ns, thread.slice_ns);
        self.idle.remove(cpu);
        let core = &mut self.cpus[cpu];
        if let Some(running) = core.current {
            let running = &self.threads[running.index()];
            let ran = at.saturating_sub(core.picked_at);
            let earlier = vruntime < running.vruntime_ns + ran;
            if earlier && (ran >= self.costs.preempt_after_ns || slice < running.slice_ns) {
                self.add_timer(at + self.costs.wake_ns, Timer::Interrupt(cpu));
            }
            self.arm_tick(cpu, at);
            return self.costs.wake_ns;
        }
        if core.begins {
            return self.costs.wake_ns;
        }
        core.begins = true;
        let idled = at.saturating_sub(core.idle_since);
        let costs = &self.costs;
        let (share, latency) = if cpu == self.cpu || idled <= costs.idle_poll_ns {
            (costs.wake_ns, 0)
        } else {
            let exit = match idled > costs.idle_deep_after_ns {
                true => costs.idle_exit_deep_ns,
                false => costs.idle_exit_ns,
            };
            (
                costs.wake_ns + costs.interrupt_send_ns,
                costs.interrupt_ns + exit,
            )
        };
        self.add_timer(at + share + latency, Timer::Begin(cpu));
        share
    }

    /// Where a thread that wakes up goes. With [`Placement::Waker`]: to the waker's CPU. Else where
    /// it was, if that is idle; else to an idle CPU under the same last-level cache, a whole core
    /// if there is one; else where it was.
    pub(crate) fn place(&mut self, tid: Tid, waker: usize) -> usize {
        let thread = &self.threads[tid.index()];
        let (allowed, before) = (thread.allowed.and(&self.all), thread.cpu);
        if self.placement == Placement::Waker && allowed.contains(waker) {
            return waker;
        }
        let target = if allowed.contains(before) {
            before
        } else if allowed.contains(waker) {
            waker
        } else {
            let near = allowed.and(&self.cpus[waker].llc).next_after(waker);
            near.or_else(|| allowed.next_after(before))
                .unwrap_or(before)
        };
        if self.idle.contains(target) {
            return target;
        }
        let idle = self.idle.and(&allowed).and(&self.cpus[target].llc);
        if idle.is_empty() {
            return target;
        }
        self.idle_core(&idle, target)
            .or_else(|| idle.next_after(target))
            .unwrap_or(target)
    }

    /// Puts a new thread on its first CPU, if the system looks for idle CPUs. It takes the cache
    /// that has the most idle CPUs, or among equals the one where the fewest threads are at home,
    /// and below that cache the CPU for which the same is true.
    pub(crate) fn spread(&mut self, tid: Tid) {
        if self.placement == Placement::Waker {
            return;
        }
        let mut at_home = vec![0_usize; self.cpus.len()];
        for thread in &self.threads {
            at_home[thread.cpu] += usize::from(thread.state != State::Exited);
        }
        let allowed = self.threads[tid.index()].allowed.and(&self.all);
        let best = allowed.iter().max_by_key(|&cpu| {
            let llc = self.cpus[cpu].llc.and(&allowed);
            let threads: usize = llc.iter().map(|cpu| at_home[cpu]).sum();
            (
                self.idle.and(&llc).len(),
                Reverse(threads),
                self.idle.contains(cpu),
                Reverse(at_home[cpu]),
                Reverse(cpu),
            )
        });
        if let Some(best) = best {
            self.threads[tid.index()].cpu = best;
        }
    }

    fn idle_core(&self, idle: &Cpus, target: usize) -> Option<usize> {
        let after = idle.iter().filter(|&cpu| cpu > target);
        let before = idle.iter().filter(|&cpu| cpu < target);
        after.chain(before).find(|&cpu| {
            let siblings = &self.cpus[cpu].siblings;
            siblings.iter().all(|&sibling| self.idle.contains(sibling))
        })
    }
}
