//! How much of the CPUs other processes use: a pool knows its own threads only, and binds no worker
//! to a CPU that another process needs.
//!
//! The service thread reads it at its checks of the CPUs, as long as workers are bound on wake-ups;
//! on a system that finds idle CPUs by itself it never does. The busy time of a CPU has the
//! resolution of timer ticks, and between two checks there are about a hundred of them.
#![forbid(unsafe_code)]

use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::{AtomicBool, AtomicU32};
use crate::sys::sync::Mutex;
use crate::sys::{clock, cpu};
use crate::topology::CpuSet;

/// The unit of [`share`](OtherUse::share).
const WHOLE: u32 = 1024;
/// Less than this part of a CPU is not counted: the system's own work.
const NOTICED: u32 = WHOLE / 4;

#[derive(Default)]
pub(crate) struct OtherUse {
    /// A worker was bound, or would have been, since the last check.
    is_wanted: AtomicBool,
    /// What other processes use, as a part of all CPUs of this one.
    share: AtomicU32,
    last: Mutex<Option<Reading>>,
}

/// Times since some start, in ns.
struct Reading {
    at: u64,
    /// All CPUs, of whatever process.
    busy: u64,
    own: u64,
}

impl Reading {
    /// The part of `cpus` CPUs that other processes have used since `before`.
    fn share_since(&self, before: &Reading, cpus: usize) -> u32 {
        let passed = self.at.saturating_sub(before.at).max(1) * cpus.max(1) as u64;
        let busy = self.busy.saturating_sub(before.busy);
        let others = busy.saturating_sub(self.own.saturating_sub(before.own));
        let share = u128::from(others) * u128::from(WHOLE) / u128::from(passed);
        share.min(u128::from(WHOLE)) as u32
    }
}

impl OtherUse {
    /// How many CPUs of a pod of `cpus` CPUs other processes use.
    #[inline]
    pub(in crate::pool) fn of(&self, cpus: usize) -> usize {
        match self.share.load(Ordering::Relaxed) {
            0 => 0,
            share => (share as usize * cpus + (WHOLE - NOTICED) as usize) / WHOLE as usize,
        }
    }

    /// Called when a thread has bound a worker, or would have done so.
    pub(in crate::pool) fn want(&self) {
        if !self.is_wanted.load(Ordering::Relaxed) {
            self.is_wanted.store(true, Ordering::Relaxed);
        }
    }

    /// Called periodically by the service thread; `cpus` are those that the process may use.
    pub(crate) fn check(&self, cpus: &CpuSet) {
        let mut last = self.last.lock();
        let wanted = self.is_wanted.swap(false, Ordering::Relaxed);
        let now = wanted.then(|| cpu::busy_ns(cpus)).flatten();
        let now = now.map(|busy| Reading {
            at: clock::now_ns(),
            busy,
            own: clock::process_cpu_ns(),
        });
        let share = match (&*last, &now) {
            (Some(before), Some(now)) => now.share_since(before, cpus.len()),
            _ => 0,
        };
        self.share.store(share, Ordering::Relaxed);
        *last = now;
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_other_processes_use_is_what_this_one_does_not() {
        let begun = Reading {
            at: 1_000,
            busy: 5_000,
            own: 700,
        };
        let later = |busy: u64, own: u64| Reading {
            at: 1_000 + 400,
            busy: 5_000 + busy,
            own: 700 + own,
        };
        // Two CPUs.
        assert_eq!(later(800, 400).share_since(&begun, 2), WHOLE / 2);
        assert_eq!(later(400, 400).share_since(&begun, 2), 0);
        assert_eq!(
            later(350, 400).share_since(&begun, 2),
            0,
            "an error of ticks"
        );
        assert_eq!(begun.share_since(&begun, 2), 0);
    }

    #[test]
    fn a_pod_has_its_part_of_it_rounded_to_whole_cpus_from_a_quarter_on() {
        let others = OtherUse::default();
        for (share, pod, cpus) in [
            (0, 2, 0),
            (WHOLE / 9, 2, 0),
            (WHOLE / 8, 2, 1),
            (WHOLE / 2, 2, 1),
            (WHOLE, 2, 2),
            (WHOLE / 16, 16, 1),
            (WHOLE / 16, 4, 1),
            (WHOLE / 16, 2, 0),
        ] {
            others.share.store(share, Ordering::Relaxed);
            assert_eq!(others.of(pod), cpus, "{share} of {pod}");
        }
    }

    /// Another process computes.
    #[test]
    fn it_is_read_while_it_is_wanted() {
        let cpus = cpu::process_cpus().unwrap();
        let others = OtherUse::default();
        others.check(&cpus);
        assert!(others.last.lock().is_none(), "nothing is bound");
        others.want();
        others.check(&cpus);
        if others.last.lock().is_none() {
            eprintln!("skipped, because /proc/stat cannot be read");
            return;
        }
        // About a second.
        let computes = "i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done";
        let ended = std::process::Command::new("sh")
            .args(["-c", computes])
            .status();
        assert!(ended.unwrap().success());
        others.want();
        others.check(&cpus);
        assert!(others.share.load(Ordering::Relaxed) > 0);
        others.check(&cpus);
        assert_eq!(others.share.load(Ordering::Relaxed), 0, "not wanted");
    }
}
