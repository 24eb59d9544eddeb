//! How a thread sleeps until another wakes it: on an address, as the kernel's futexes do, or on its
//! own name. The address is remembered by the machine and not read.
#![forbid(unsafe_code)]

use crate::os::visible;
use crate::thread::{State, Tid};
use crate::vm::{Timer, suspend, with};
use std::time::Duration;

/// Addresses from here on are for sleeps, by thread.
const SLEEPS: usize = usize::MAX - u32::MAX as usize;
/// A wait that ends for nothing does so within this time.
const SPURIOUS_NS: u64 = 50_000;

/// From now on a wake-up of the calling thread is remembered until [`sleep_unless_woken`].
pub fn prepare_sleep() {
    with(|vm| {
        let tid = vm.tid;
        vm.threads[tid.index()].woken = false;
    });
}

/// Sleeps until another thread [wakes](wake) this one; not at all if one has since [`prepare_sleep`].
pub fn sleep_unless_woken() {
    visible(7);
    let sleeps = with(|vm| {
        let tid = vm.tid;
        let sleeps = !std::mem::take(&mut vm.threads[tid.index()].woken);
        if sleeps {
            vm.leave(State::Blocked);
        }
        sleeps
    });
    if sleeps {
        suspend();
    }
    crate::weak::awoke();
}

/// Wakes a thread that sleeps, or keeps it from sleeping. `hint`: where it should go.
pub fn wake(tid: Tid, hint: Option<usize>) {
    visible(9);
    crate::weak::woke(tid);
    with(|vm| {
        let cpu = vm.cpu;
        let thread = &mut vm.threads[tid.index()];
        if thread.state != State::Blocked || thread.waking {
            thread.woken = true;
            vm.cpus[cpu].clock += vm.costs.wake_awake_ns;
            return;
        }
        if let Some(hint) = hint {
            thread.cpu = hint;
        }
        vm.leave_futex(tid);
        let now = vm.now();
        let share = vm.make_runnable(tid, cpu, now);
        let share = vm.computing(cpu, share);
        vm.cpus[cpu].clock += share;
    });
}

/// Sleeps on the futex at this address if `is_unchanged` says so at the point of time of the call.
/// `true`: the time ran out.
pub fn futex_wait(
    address: usize,
    is_unchanged: impl FnOnce() -> bool,
    timeout: Option<Duration>,
) -> bool {
    with(|vm| {
        let cpu = vm.cpu;
        let ns = vm.computing(cpu, vm.costs.syscall_ns);
        vm.cpus[cpu].clock += ns;
    });
    visible(10);
    if !is_unchanged() {
        return false;
    }
    let is_sleep = address >= SLEEPS;
    let (timeout, spurious) = with(|vm| {
        let ppm = vm.faults.spurious_ppm;
        if is_sleep || ppm == 0 || !vm.random.chance_ppm(ppm) {
            return (timeout, false);
        }
        let early = Duration::from_nanos(vm.random.below(SPURIOUS_NS));
        let earlier = timeout.is_none_or(|timeout| early < timeout);
        (if earlier { Some(early) } else { timeout }, earlier)
    });
    with(|vm| {
        let tid = vm.tid;
        vm.futexes.entry(address).or_default().push_back(tid);
        let now = vm.now();
        vm.threads[tid.index()].futex = Some(address);
        vm.threads[tid.index()].timed_out = false;
        vm.leave(State::Blocked);
        if let Some(timeout) = timeout {
            let sleeps = vm.threads[tid.index()].sleeps;
            let ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX / 4);
            vm.add_timer(
                now.saturating_add(ns).min(1 << 51),
                Timer::Timeout(tid, sleeps),
            );
        }
    });
    suspend();
    with(|vm| std::mem::take(&mut vm.threads[vm.tid.index()].timed_out)) && !spurious
}

/// Wakes up to `most` threads that sleep on the futex; returns how many there were.
pub fn futex_wake(address: usize, most: usize) -> usize {
    with(|vm| {
        let cpu = vm.cpu;
        let ns = vm.computing(cpu, vm.costs.syscall_ns);
        vm.cpus[cpu].clock += ns;
    });
    visible(11);
    with(|vm| {
        let cpu = vm.cpu;
        let mut woken = 0;
        while woken < most {
            let sleeper = vm
                .futexes
                .get_mut(&address)
                .and_then(|sleepers| sleepers.pop_front());
            let Some(tid) = sleeper else { break };
            vm.threads[tid.index()].futex = None;
            let now = vm.now();
            let share = vm.make_runnable(tid, cpu, now);
            let share = vm.computing(cpu, share);
            vm.cpus[cpu].clock += share;
            woken += 1;
        }
        if vm
            .futexes
            .get(&address)
            .is_some_and(|sleepers| sleepers.is_empty())
        {
            vm.futexes.remove(&address);
        }
        woken
    })
}

/// Sleeps for so long.
pub fn sleep(duration: Duration) {
    // No thread wakes this address.
    let nobody = SLEEPS + with(|vm| vm.tid.index());
    futex_wait(nobody, || true, Some(duration));
}
