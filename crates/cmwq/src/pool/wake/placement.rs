//! Placement: a worker is woken on a CPU that no awake thread of its pool uses, and not on its
//! waker's, while the pod has such a CPU.
//!
//! A system wakes a thread near where it has slept. A stock kernel looks for an idle CPU there. The
//! kernel of a virtual machine often finds none: an idle virtual CPU looks to it as if the host had
//! taken it away. So it wakes the thread on the CPU where it slept, or on its waker's, even if
//! other threads run there. Two workers that have once slept on one CPU then take turns on it for
//! ever, and a woken worker preempts the thread that is still queueing.
//!
//! So the pool knows where its awake threads are, and where its sleeping workers have slept. Of
//! these a waker picks one that has slept on a free CPU ([`Occupied::fits`]). If workers are woken
//! for little, it is woken where the system puts it.
//!
//! Each wake-up while a CPU is free is a trial: if the system has put the worker on a used CPU, then
//! for the next [`BOUND_AFTER`] wake-ups the waker binds the worker to a free CPU first (the one on
//! which it has slept, if that is free), and the worker binds itself to the whole pod again as soon
//! as it is awake.
//!
//! If more than half of the CPUs of a pod have an awake thread, the pool leaves the choice to a
//! system of which this is not known, since the other CPUs may have issuers, which the pool does not
//! know. If other processes may use all free CPUs, the pool leaves the choice to any system.
//!
//! All of it is a hint: the system may move a thread at any time, and other threads of the process
//! use CPUs as well.
#![forbid(unsafe_code)]

use crate::topology::CpuSet;

/// For how many wake-ups the waker binds the worker after the system has put one on a used CPU.
const BOUND_AFTER: u16 = 4096;

/// If workers on average compute for less than this between a wake-up and their next sleep,
/// wake-ups are *brief*. Then workers are woken where the system puts them.
const BRIEF_NS: u32 = 60_000;
/// One wake-up counts for at most this long in the average.
const LONG_NS: u32 = 16 * BRIEF_NS;

/// How many awake threads of a pool use each CPU.
#[derive(Debug)]
pub(in crate::pool) struct Occupied {
    /// The number of awake threads for each CPU, up to the pod's last one.
    threads: Box<[u16]>,
    /// How many awake threads there are.
    awake: usize,
    /// How many more wake-ups are bound: the system was seen to wake a worker on a used CPU while
    /// another one was free.
    packs: u16,
    /// How long workers compute from a wake-up until they sleep again, on the average.
    used_ns: u32,
}

/// Where one thread runs, or has slept.
#[derive(Default, Debug)]
pub(in crate::pool) struct Place {
    cpu: Option<usize>,
    /// Whether the thread is awake or about to be, so that it uses the CPU.
    awake: bool,
    /// Set if the thread is about to be woken without being bound, while a CPU is free: the CPU of
    /// its waker. Where it wakes up shows what the system does.
    trial: Option<usize>,
    /// Whether it is bound to a part of the pod, and has to bind itself to the whole again.
    bound: bool,
}

impl Place {
    /// Whether the thread is bound to a part of the pod. It has to bind itself to the whole after this call.
    pub(in crate::pool) fn take_bound(&mut self) -> bool {
        std::mem::take(&mut self.bound)
    }

    pub(in crate::pool) fn is_bound(&self) -> bool {
        self.bound
    }

    /// The CPU on which the thread was last seen, or to which it was moved.
    pub(in crate::pool) fn last_seen(&self) -> Option<usize> {
        self.cpu
    }

    /// The CPU on which a worker that was picked is expected.
    pub(in crate::pool) fn expected(&self) -> Option<usize> {
        self.cpu.filter(|_| self.awake)
    }
}

impl Occupied {
    /// The state of a pool with these CPUs, before any thread is awake.
    pub(in crate::pool) fn of(pod: &CpuSet) -> Self {
        let cpus = pod.last().map_or(0, |last| last + 1);
        Occupied {
            threads: vec![0; cpus].into(),
            awake: 0,
            packs: 0,
            used_ns: LONG_NS,
        }
    }

    /// Notes that the thread is awake on the CPU `now`.
    pub(in crate::pool) fn enter(&mut self, place: &mut Place, now: Option<usize>) {
        if place.awake && place.cpu == now {
            return;
        }
        self.leave(place);
        place.cpu = now;
        if let Some(threads) = now.and_then(|cpu| self.threads.get_mut(cpu)) {
            *threads += 1;
            self.awake += 1;
            place.awake = true;
        }
    }

    /// Notes that the thread is about to sleep where it was last seen, or leaves the pool.
    pub(in crate::pool) fn leave(&mut self, place: &mut Place) {
        if std::mem::take(&mut place.awake)
            && let Some(cpu) = place.cpu
        {
            self.threads[cpu] -= 1;
            self.awake -= 1;
        }
    }

    /// Whether another awake thread of the pool was last seen on the CPU of this one.
    pub(in crate::pool) fn is_shared(&self, place: &Place) -> bool {
        place
            .expected()
            .is_some_and(|cpu| self.threads.get(cpu).is_some_and(|&threads| threads > 1))
    }

    /// Whether the system was lately seen to wake a worker on a used CPU while another one was free.
    pub(in crate::pool) fn packs(&self) -> bool {
        self.packs > 0
    }

    /// The system has woken a worker on a used CPU.
    #[cfg(all(test, not(cmwq_loom)))]
    pub(in crate::pool) fn note_that_it_packs(&mut self) {
        self.packs = BOUND_AFTER;
    }

    /// Whether the CPU of the waker has no awake thread of the pool. So the waker is an issuer, and
    /// computes there. A worker for this CPU would be put anywhere by the system; only one that the
    /// pool itself places there begins as soon as the issuer sleeps.
    pub(in crate::pool) fn is_left_to_waker(&self, waker: Option<usize>, pod: &CpuSet) -> bool {
        self.packs == 0 && waker.is_some_and(|cpu| self.is_free(cpu) && pod.contains(cpu))
    }

    fn is_free(&self, cpu: usize) -> bool {
        self.threads.get(cpu) == Some(&0)
    }

    /// Called when a worker is awake again; between its last two sleeps it computed for `used_ns`.
    /// Returns whether wake-ups are brief.
    pub(in crate::pool) fn note_wake_up(&mut self, used_ns: u64) -> bool {
        let used_ns = used_ns.min(u64::from(LONG_NS)) as u32;
        self.used_ns = (self.used_ns * 7 + used_ns) / 8;
        self.is_brief()
    }

    fn is_brief(&self) -> bool {
        self.used_ns < BRIEF_NS
    }

    /// Whether a worker that slept at `place` has a CPU there, apart from that of its waker.
    pub(in crate::pool) fn fits(&self, place: &Place, waker: Option<usize>) -> bool {
        place
            .cpu
            .is_some_and(|cpu| Some(cpu) != waker && self.is_free(cpu))
    }

    /// Called when a thread on the CPU `waker` has picked a worker. Returns the CPU to which the
    /// worker has to be bound before it is woken, if any.
    pub(in crate::pool) fn pick(
        &mut self,
        place: &mut Place,
        waker: Option<usize>,
        pod: &CpuSet,
    ) -> Option<usize> {
        let is_half_full = 2 * self.awake > pod.len();
        let is_left =
            self.is_brief() || pod.first() == pod.last() || is_half_full && self.packs == 0;
        if is_left {
            let slept = place.cpu;
            self.enter(place, slept);
            return None;
        }
        let fits = self.fits(place, waker);
        let binds = self.packs > 0;
        self.packs = self.packs.saturating_sub(1);
        let slept = place.cpu;
        let free = |cpu: &usize| self.is_free(*cpu) && Some(*cpu) != waker;
        let to = match fits {
            true => slept,
            // The waker's own CPU is the last choice; the waker may be about to sleep.
            false => pod
                .iter()
                .find(free)
                .or(waker.filter(|&cpu| self.is_free(cpu) && pod.contains(cpu))),
        };
        if !binds {
            place.trial = waker.filter(|_| to.is_some() && to != waker);
            let expected = if fits { slept } else { None };
            if expected.is_some() {
                self.enter(place, expected);
            }
            return None;
        }
        if to.is_some() {
            self.enter(place, to);
            place.bound = true;
        }
        to
    }

    /// Called when a picked worker is awake, on the CPU `now`.
    pub(in crate::pool) fn woke(&mut self, place: &mut Place, now: Option<usize>) {
        if let Some(waker) = place.trial.take()
            && let Some(cpu) = now
        {
            let own = u16::from(place.awake && place.cpu == now);
            let used = self.threads.get(cpu).copied().unwrap_or(0) > own;
            if cpu == waker || used {
                self.packs = BOUND_AFTER;
            }
        }
        self.enter(place, now);
    }

    /// Called for a worker that was woken but waits for the CPU `here`, which the calling thread
    /// uses. Returns the CPU to move it to, if one is free.
    pub(in crate::pool) fn move_away(
        &mut self,
        place: &mut Place,
        here: usize,
        pod: &CpuSet,
    ) -> Option<usize> {
        let to = pod.iter().find(|&cpu| self.is_free(cpu) && cpu != here)?;
        self.enter(place, Some(to));
        place.bound = true;
        Some(to)
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    fn pod(cpus: usize) -> (CpuSet, Occupied) {
        let pod: CpuSet = (0..cpus).collect();
        let occupied = Occupied::of(&pod);
        (pod, occupied)
    }

    /// A worker that has slept on this CPU.
    fn asleep(occupied: &mut Occupied, cpu: usize) -> Place {
        let mut place = Place::default();
        occupied.enter(&mut place, Some(cpu));
        occupied.leave(&mut place);
        place
    }

    fn awake(occupied: &mut Occupied, cpu: usize) -> Place {
        let mut place = Place::default();
        occupied.enter(&mut place, Some(cpu));
        place
    }

    #[test]
    fn a_worker_fits_where_no_thread_of_the_pool_is_awake_and_its_waker_is_not() {
        let (_, mut occupied) = pod(3);
        let sleeper = asleep(&mut occupied, 1);
        assert!(occupied.fits(&sleeper, Some(0)));
        assert!(!occupied.fits(&sleeper, Some(1)));
        let mut runs = awake(&mut occupied, 1);
        assert!(!occupied.fits(&sleeper, Some(0)));
        // It has moved, and then another comes and leaves.
        occupied.enter(&mut runs, Some(2));
        let mut other = awake(&mut occupied, 1);
        occupied.leave(&mut other);
        occupied.leave(&mut other);
        assert!(occupied.fits(&sleeper, Some(0)));
        assert!(
            !occupied.fits(&Place::default(), Some(0)),
            "it has never slept"
        );
        // A CPU outside the pod is nobody's concern.
        let mut outside = awake(&mut occupied, 7);
        occupied.leave(&mut outside);
    }

    #[test]
    fn a_cpu_is_left_to_an_issuer_unless_a_worker_is_there_or_the_system_packs() {
        let (pod, mut occupied) = pod(2);
        assert!(occupied.is_left_to_waker(Some(1), &pod));
        assert!(!occupied.is_left_to_waker(Some(2), &pod), "not of the pod");
        assert!(!occupied.is_left_to_waker(None, &pod));
        let mut worker = awake(&mut occupied, 1);
        assert!(!occupied.is_left_to_waker(Some(1), &pod));
        occupied.leave(&mut worker);
        occupied.note_that_it_packs();
        assert!(!occupied.is_left_to_waker(Some(1), &pod));
    }

    /// On a system that looks for an idle CPU.
    #[test]
    fn no_worker_is_bound_as_long_as_the_system_finds_free_cpus() {
        let (pod, mut occupied) = pod(2);
        let _runs = awake(&mut occupied, 0);
        let mut sleeper = asleep(&mut occupied, 0);
        for _ in 0..3 {
            assert_eq!(occupied.pick(&mut sleeper, Some(0), &pod), None);
            occupied.woke(&mut sleeper, Some(1));
            occupied.leave(&mut sleeper);
            sleeper = asleep(&mut occupied, 0);
        }
        assert!(!sleeper.take_bound());
    }

    #[test]
    fn after_a_wake_up_onto_a_used_cpu_workers_are_bound_to_free_ones() {
        let (pod, mut occupied) = pod(2);
        let mut runs = awake(&mut occupied, 0);
        let mut sleeper = asleep(&mut occupied, 0);
        assert_eq!(occupied.pick(&mut sleeper, Some(0), &pod), None);
        occupied.woke(&mut sleeper, Some(0));
        occupied.leave(&mut sleeper);
        assert_eq!(occupied.pick(&mut sleeper, Some(0), &pod), Some(1));
        assert_eq!(sleeper.expected(), Some(1));
        assert!(sleeper.take_bound() && !sleeper.take_bound());
        occupied.woke(&mut sleeper, Some(1));
        occupied.leave(&mut sleeper);
        // It has slept on a free CPU now, to which it is bound.
        assert_eq!(occupied.pick(&mut sleeper, Some(0), &pod), Some(1));
        occupied.woke(&mut sleeper, Some(1));
        // The waker's CPU is the only one that is left, and the waker may be about to sleep.
        let mut third = asleep(&mut occupied, 1);
        occupied.leave(&mut runs);
        assert_eq!(occupied.pick(&mut third, Some(0), &pod), Some(0));
        occupied.woke(&mut third, Some(0));
        let mut fourth = asleep(&mut occupied, 1);
        assert_eq!(
            occupied.pick(&mut fourth, Some(0), &pod),
            None,
            "none is free"
        );
    }

    /// The system wakes a worker on its waker's CPU though its own is free.
    #[test]
    fn workers_that_were_pulled_are_bound_to_where_they_slept() {
        let (pod, mut occupied) = pod(2);
        let mut sleeper = asleep(&mut occupied, 1);
        assert_eq!(occupied.pick(&mut sleeper, Some(0), &pod), None);
        occupied.woke(&mut sleeper, Some(0));
        occupied.leave(&mut sleeper);
        sleeper = asleep(&mut occupied, 1);
        assert_eq!(occupied.pick(&mut sleeper, Some(0), &pod), Some(1));
    }

    #[test]
    fn workers_that_are_woken_for_little_go_where_the_system_puts_them() {
        let (pod, mut occupied) = pod(2);
        let mut sleeper = asleep(&mut occupied, 0);
        let _ = occupied.pick(&mut sleeper, Some(0), &pod);
        occupied.woke(&mut sleeper, Some(0));
        occupied.leave(&mut sleeper);
        assert!((0..64).any(|_| occupied.note_wake_up(5_000)));
        assert_eq!(occupied.pick(&mut sleeper, Some(0), &pod), None);
        occupied.leave(&mut sleeper);
        // One that takes longer now and then changes nothing, many do.
        assert!((0..64).all(|_| occupied.note_wake_up(5_000)));
        assert!(occupied.note_wake_up(300_000));
        assert!((0..64).any(|_| !occupied.note_wake_up(300_000)));
        assert_eq!(occupied.pick(&mut sleeper, Some(0), &pod), Some(1));
    }

    #[test]
    fn a_cpu_is_shared_by_awake_threads_only() {
        let (_, mut occupied) = pod(2);
        let mine = awake(&mut occupied, 0);
        let mut other = asleep(&mut occupied, 0);
        assert!(!occupied.is_shared(&mine));
        occupied.enter(&mut other, Some(0));
        assert!(occupied.is_shared(&mine) && occupied.is_shared(&other));
        occupied.enter(&mut other, Some(1));
        assert!(!occupied.is_shared(&mine));
        assert!(!occupied.is_shared(&Place::default()));
    }

    /// Its other CPUs may have issuers, beside which the system has its reasons.
    #[test]
    fn a_pod_that_is_more_than_half_full_is_left_to_the_system() {
        let (pod, mut occupied) = pod(4);
        let _runs = [0, 1, 2].map(|cpu| awake(&mut occupied, cpu));
        let mut sleeper = asleep(&mut occupied, 0);
        for _ in 0..2 {
            assert_eq!(occupied.pick(&mut sleeper, Some(1), &pod), None);
            occupied.woke(&mut sleeper, Some(1));
            occupied.leave(&mut sleeper);
        }
        // Not if it is known to wake workers on used CPUs.
        occupied.packs = 1;
        assert_eq!(occupied.pick(&mut sleeper, Some(1), &pod), Some(3));
    }

    #[test]
    fn who_waits_for_another_threads_cpu_is_moved_to_a_free_one() {
        let (pod, mut occupied) = pod(3);
        let mut searches = awake(&mut occupied, 0);
        let _runs = awake(&mut occupied, 1);
        assert_eq!(occupied.move_away(&mut searches, 0, &pod), Some(2));
        assert!(searches.take_bound());
        assert_eq!(occupied.move_away(&mut searches, 0, &pod), None);
    }
}
