//! What a machine does to its threads that no protocol may rely on not happening: it stops them
//! anywhere, wakes them late or for nothing, refuses new ones, takes CPUs away, and reads clocks
//! that stand still.
#![forbid(unsafe_code)]

use crate::set::Cpus;
use crate::thread::{State, Tid};
use crate::vm::{Timer, Vm, suspend, with};
use std::panic::Location;

/// How often each fault happens, in parts per million of its occasions, and for how long at most.
/// All are 0 at first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Of visible operations: the CPU does nothing for a while before, as under another system.
    pub delay_ppm: u32,
    /// See `delay_ppm`. Short delays are as likely as long ones: the logarithm is uniform.
    pub delay_ns: u64,
    /// Of visible operations: the thread loses its CPU to the next one that waits there.
    pub preempt_ppm: u32,
    /// Of threads: one that [lags](lag) from its start, by `lag_ns`.
    pub lag_ppm: u32,
    /// See `lag_ppm`.
    pub lag_ns: u64,
    /// Of steps, from one place in the sources where a thread accesses memory to the next: those at
    /// which threads are held back, every other time, by up to `step_ns`. A step that is seldom
    /// done is as likely to be one of them as one that is done all the time.
    pub step_ppm: u32,
    /// See `step_ppm`. Short times are as likely as long ones.
    pub step_ns: u64,
    /// Which steps these are.
    pub step_choice: u64,
    /// Of visible operations: the CPU does nothing for `stop_ns`.
    pub stop_ppm: u32,
    /// See `stop_ppm`.
    pub stop_ns: u64,
    /// Of futex waits: one that ends though no thread woke it.
    pub spurious_ppm: u32,
    /// Of wake-ups: it takes effect later.
    pub late_ppm: u32,
    /// See `late_ppm`.
    pub late_ns: u64,
    /// Of thread creations: refused.
    pub refuse_ppm: u32,
    /// Of thread creations: it takes longer.
    pub slow_ppm: u32,
    /// See `slow_ppm`.
    pub slow_ns: u64,
    /// Of clock reads: the clock stands still from then on.
    pub clock_ppm: u32,
    /// See `clock_ppm`.
    pub clock_ns: u64,
}

impl Faults {
    /// Of visible operations.
    fn disturbances_ppm(&self) -> u64 {
        u64::from(self.stop_ppm) + u64::from(self.delay_ppm) + u64::from(self.preempt_ppm)
    }
}

/// Sets the faults of the machine from now on.
pub fn set_faults(faults: Faults) {
    with(|vm| {
        vm.faults = faults;
        vm.draw_undisturbed();
    });
}

/// Each visible operation of the calling thread takes up to `lag_ns` of the machine's [`Faults`]
/// longer from now on, as if it had the least share of its CPU; or none does.
pub fn lag(lags: bool) {
    with(|vm| {
        vm.lag_ns = if lags { vm.faults.lag_ns } else { 0 };
        vm.threads[vm.tid.index()].lag_ns = vm.lag_ns;
    });
}

/// Whether this thread creation is refused, or how long it takes more.
///
/// # Errors
/// It is refused.
pub fn creation() -> std::io::Result<()> {
    let (refused, ns) = with(|vm| {
        let faults = vm.faults;
        let refused = faults.refuse_ppm > 0 && vm.random.chance_ppm(faults.refuse_ppm);
        let slow = faults.slow_ppm > 0 && vm.random.chance_ppm(faults.slow_ppm);
        (refused, if slow { vm.up_to(faults.slow_ns) } else { 0 })
    });
    if ns > 0 {
        crate::os::sleep(std::time::Duration::from_nanos(ns));
    }
    match refused {
        true => Err(std::io::ErrorKind::WouldBlock.into()),
        false => Ok(()),
    }
}

/// Before a visible operation of the calling thread.
#[cold]
pub(crate) fn disturb() {
    let lost = with(|vm| {
        let (cpu, faults) = (vm.cpu, vm.faults);
        if vm.lag_ns > 0 {
            vm.cpus[cpu].clock += vm.up_to(vm.lag_ns);
        }
        if vm.undisturbed != u64::MAX {
            return false;
        }
        vm.draw_undisturbed();
        let which = vm.random.below(faults.disturbances_ppm().max(1)) as u32;
        if which < faults.stop_ppm {
            vm.cpus[cpu].clock += faults.stop_ns;
            return false;
        }
        if which < faults.stop_ppm + faults.delay_ppm {
            vm.cpus[cpu].clock += vm.up_to(faults.delay_ns);
            return false;
        }
        let now = vm.now();
        let tid = vm.tid;
        // Behind all that wait, as after a yield.
        let waits = vm.cpus[cpu].queue.iter();
        let last = waits.map(|tid| vm.threads[tid.index()].vruntime_ns).max();
        let Some(last) = last else { return false };
        vm.account(cpu, now);
        let thread = &mut vm.threads[tid.index()];
        thread.vruntime_ns = thread.vruntime_ns.max(last + 1);
        vm.preempt(cpu, now);
        vm.cpus[cpu].current != Some(tid)
    });
    if lost {
        suspend();
    }
}

/// The CPUs that are there from now on. Threads on others go on elsewhere; one that may run on none
/// of them may run on all.
///
/// # Panics
/// Without any CPU of the machine.
pub fn set_online(cpus: Cpus) {
    crate::os::visible(13);
    let moves = with(|vm| {
        let there: Cpus = (0..vm.cpus.len()).filter(|&c| cpus.contains(c)).collect();
        assert!(!there.is_empty(), "a machine has a CPU");
        vm.all = there;
        for thread in &mut vm.threads {
            if thread.allowed.and(&there).is_empty() {
                thread.allowed = (0..vm.cpus.len()).collect();
            }
        }
        let now = vm.now();
        vm.expel(now);
        let (cpu, stays) = (vm.cpu, there.contains(vm.cpu));
        if !stays {
            vm.leave(State::Blocked);
            vm.make_runnable(vm.tid, cpu, now);
        }
        !stays
    });
    if moves {
        suspend();
    }
}

/// The CPU time that a process may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// CPU time for each period, in us.
    pub quota_us: u64,
    /// The period, in us.
    pub period_us: u64,
}

/// The quota that the process is told from now on. The machine does not enforce it: that threads
/// stop is a fault of its own.
pub fn set_quota(quota: Option<Quota>) {
    with(|vm| vm.quota = quota);
}

/// The quota that the process is told.
#[must_use]
pub fn quota() -> Option<Quota> {
    with(|vm| vm.quota)
}

/// The CPUs that are there.
#[must_use]
pub fn online() -> Cpus {
    with(|vm| vm.all)
}

impl Vm {
    /// Whether the visible operation that begins now is disturbed.
    #[inline]
    pub(crate) fn is_disturbed(&mut self) -> bool {
        self.undisturbed = self.undisturbed.wrapping_sub(1);
        self.undisturbed == u64::MAX || self.lag_ns > 0
    }

    /// The running thread is about to access memory at a place in the sources: it is held back if
    /// the step from its last place is one of those.
    #[cold]
    pub(crate) fn step_to(&mut self, place: &Location<'_>) {
        let here = u64::from(place.line()) << 16 ^ u64::from(place.column()) << 8;
        let here = (here ^ place.file().len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let last = std::mem::replace(&mut self.threads[self.tid.index()].place, here);
        let step = last.rotate_left(32) ^ here ^ self.faults.step_choice;
        let drawn = step.wrapping_mul(0xd134_2543_de82_ef95) >> 32;
        let is_chosen = (drawn * 1_000_000) >> 32 < u64::from(self.faults.step_ppm);
        if is_chosen && self.random.below(2) == 0 {
            let cpu = self.cpu;
            self.cpus[cpu].clock += self.up_to(self.faults.step_ns);
        }
    }

    /// How much longer each visible operation of a new thread takes at most.
    pub(crate) fn draw_lag(&mut self) -> u64 {
        let faults = self.faults;
        let lags = faults.lag_ppm > 0 && self.random.chance_ppm(faults.lag_ppm);
        if lags { faults.lag_ns } else { 0 }
    }

    /// Draws ahead how many visible operations go undisturbed: one draw for each of them would take
    /// longer than the operation.
    pub(crate) fn draw_undisturbed(&mut self) {
        let ppm = self.faults.disturbances_ppm();
        self.undisturbed = match ppm {
            0 => u64::MAX - 1,
            1..1_000_000 => {
                // Geometric: of a uniform number in (0, 1].
                let uniform = ((self.random.bits() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
                (uniform.ln() / (-(ppm as f64) / 1e6).ln_1p()) as u64
            }
            _ => 0,
        };
    }

    /// A duration of at most `most`: its logarithm is uniform.
    fn up_to(&mut self, most: u64) -> u64 {
        let bits = u64::from(64 - most.leading_zeros());
        let shift = self.random.below(bits.max(1));
        self.random.below((most >> shift).max(1)) + 1
    }

    /// Moves the threads to others that run or wait on a CPU which is gone or not theirs, but the caller.
    pub(crate) fn expel(&mut self, now: u64) {
        for cpu in 0..self.cpus.len() {
            let there = self.all.contains(cpu);
            let stays = |vm: &Vm, tid: Tid| there && vm.threads[tid.index()].allowed.contains(cpu);
            let queue = std::mem::take(&mut self.cpus[cpu].queue);
            let (stay, mut moved): (_, Vec<Tid>) =
                queue.into_iter().partition(|&tid| stays(self, tid));
            self.cpus[cpu].queue = stay;
            let running = self.cpus[cpu].current;
            if let Some(tid) = running.filter(|&tid| tid != self.tid && !stays(self, tid)) {
                self.account(cpu, now);
                let core = &mut self.cpus[cpu];
                core.current = None;
                let left = core.clock.saturating_sub(now);
                self.threads[tid.index()].remaining_ns = left;
                moved.push(tid);
                self.pick(cpu, now);
            }
            for tid in moved {
                let to = self.place(tid, self.cpu);
                self.enqueue(tid, to, now);
            }
        }
    }

    /// Whether a wake-up at `at` takes effect later; then it is on its way.
    pub(crate) fn delays_wakeup(&mut self, tid: Tid, waker: usize, at: u64) -> bool {
        let faults = self.faults;
        if faults.late_ppm == 0 || !self.random.chance_ppm(faults.late_ppm) {
            return false;
        }
        let late = self.up_to(faults.late_ns);
        let thread = &mut self.threads[tid.index()];
        // No time-out of this sleep counts any more.
        thread.sleeps += 1;
        thread.waking = true;
        self.add_timer(at + late, Timer::Late(tid, waker));
        true
    }

    /// What the clock says at `now`.
    pub(crate) fn clock_at(&mut self, now: u64) -> u64 {
        if self.faults.clock_ppm == 0 {
            return now;
        }
        let said = self.standing_clock_at(now);
        let last = &mut self.threads[self.tid.index()].last_clock;
        *last = said.max(*last);
        *last
    }

    fn standing_clock_at(&mut self, now: u64) -> u64 {
        let (value, until) = self.standing_clock;
        if now < until {
            return value;
        }
        if self.random.chance_ppm(self.faults.clock_ppm) {
            self.standing_clock = (now, now + self.up_to(self.faults.clock_ns));
        }
        now
    }
}
