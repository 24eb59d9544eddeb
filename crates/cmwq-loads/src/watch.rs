//! Who ran which items, and on which CPUs.

use rustix::thread::sched_getcpu;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// An item that has run.
#[derive(Clone, Copy)]
struct Ran {
    began_ns: u64,
    ended_ns: u64,
    /// The CPU on which it ended.
    cpu: usize,
}

/// What one thread has run.
struct OfThread {
    is_issuer: bool,
    ran: Mutex<Vec<Ran>>,
}

/// Notes by which threads and on which CPUs the items of a run were run: pass it to
/// [`Threads::watched_by`](crate::real::Threads::watched_by).
///
/// ```
/// use cmwq_loads::real::{Park, Threads, calibrate};
/// use cmwq_loads::watch::Watch;
///
/// let watch = Watch::default();
/// let machine = Threads::<Park>::new(calibrate()).watched_by(watch.clone());
/// // ... run a load on `machine` ...
/// let placed = watch.placed(0); // since the beginning
/// println!("{} threads ran items, on {:.1} CPUs at once", placed.threads, placed.cpus_at_once);
/// ```
#[derive(Clone, Default)]
pub struct Watch(Arc<Mutex<Vec<Arc<OfThread>>>>);

thread_local! {
    /// The calling thread's notes, and whose they are.
    static OWN: RefCell<Option<(Watch, Arc<OfThread>)>> = const { RefCell::new(None) };
}

impl Watch {
    /// The calling thread is an issuer: it runs an item only if the pool lets it help.
    pub(crate) fn is_issuer(&self) {
        self.note_as(true, None);
    }

    pub(crate) fn note(&self, began_ns: u64, ended_ns: u64) {
        let ran = Ran {
            began_ns,
            ended_ns,
            cpu: sched_getcpu(),
        };
        self.note_as(false, Some(ran));
    }

    /// `is_issuer` counts when the thread is first seen.
    fn note_as(&self, is_issuer: bool, ran: Option<Ran>) {
        OWN.with_borrow_mut(|own| {
            if !matches!(own, Some((watch, _)) if Arc::ptr_eq(&watch.0, &self.0)) {
                let ran = Mutex::default();
                let of_thread = Arc::new(OfThread { is_issuer, ran });
                let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                all.push(of_thread.clone());
                *own = Some((self.clone(), of_thread));
            }
            if let (Some((_, own)), Some(ran)) = (own, ran) {
                let mut all = own.ran.lock().unwrap_or_else(PoisonError::into_inner);
                all.push(ran);
            }
        });
    }

    /// What was seen since `from_ns`.
    #[must_use]
    pub fn placed(&self, from_ns: u64) -> Placed {
        let threads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut seen = Seen::default();
        for thread in threads.iter() {
            let ran = thread.ran.lock().unwrap_or_else(PoisonError::into_inner);
            seen.add(
                thread.is_issuer,
                ran.iter().filter(|ran| ran.began_ns >= from_ns),
            );
        }
        seen.placed()
    }
}

/// Where the items of a run were, from [`Watch::placed`].
///
/// ```
/// use cmwq_loads::watch::Placed;
///
/// fn report(placed: &Placed) {
///     for (cpu, share) in &placed.shares {
///         println!("CPU {cpu} ran {:.0} % of the items", share * 100.0);
///     }
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placed {
    /// While at least one item ran: on how many CPUs on average.
    pub cpus_at_once: f64,
    /// Which share of the items each CPU ran, of those that ran one.
    pub shares: Vec<(usize, f64)>,
    /// Which share of the items the issuers ran themselves.
    pub by_issuers: f64,
    /// How many threads ran items.
    pub threads: usize,
}

#[derive(Default)]
struct Seen {
    by_cpu: BTreeMap<usize, Vec<(u64, u64)>>,
    items: usize,
    by_issuers: usize,
    threads: usize,
}

impl Seen {
    fn add<'a>(&mut self, is_issuer: bool, ran: impl Iterator<Item = &'a Ran>) {
        let before = self.items;
        for ran in ran {
            let of_cpu = self.by_cpu.entry(ran.cpu).or_default();
            of_cpu.push((ran.began_ns, ran.ended_ns));
            self.items += 1;
        }
        let added = self.items - before;
        self.threads += usize::from(added > 0);
        self.by_issuers += if is_issuer { added } else { 0 };
    }

    fn placed(self) -> Placed {
        let items = self.items.max(1) as f64;
        let of_cpus: u64 = self.by_cpu.values().map(|ran| covered(ran.clone())).sum();
        let any = covered(self.by_cpu.values().flatten().copied().collect());
        let share = |(&cpu, ran): (&usize, &Vec<_>)| (cpu, ran.len() as f64 / items);
        Placed {
            cpus_at_once: of_cpus as f64 / any.max(1) as f64,
            shares: self.by_cpu.iter().map(share).collect(),
            by_issuers: self.by_issuers as f64 / items,
            threads: self.threads,
        }
    }
}

/// The time in which at least one of these ran. Two items on one CPU, of which one is preempted,
/// count once.
fn covered(mut ran: Vec<(u64, u64)>) -> u64 {
    ran.sort_unstable();
    let (mut sum, mut until) = (0, 0);
    for (began, ended) in ran {
        sum += ended.saturating_sub(began.max(until));
        until = until.max(ended);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(cpu: usize, began_ns: u64, ended_ns: u64) -> Ran {
        Ran {
            began_ns,
            ended_ns,
            cpu,
        }
    }

    #[test]
    fn cpus_at_once_are_counted_while_an_item_runs_and_a_cpu_that_two_share_counts_once() {
        let mut seen = Seen::default();
        // Both CPUs for 10, then one of them for 20 by two threads, then nobody, then one for 10.
        seen.add(false, [ran(0, 0, 10), ran(0, 10, 30)].iter());
        seen.add(
            true,
            [ran(1, 0, 10), ran(0, 15, 25), ran(1, 90, 100)].iter(),
        );
        seen.add(true, [].iter());
        let placed = seen.placed();
        assert_eq!(placed.cpus_at_once, 50.0 / 40.0);
        assert_eq!(placed.shares, [(0, 0.6), (1, 0.4)]);
        assert_eq!(placed.by_issuers, 0.6);
        assert_eq!(placed.threads, 2);
    }

    #[test]
    fn each_thread_notes_for_the_watch_that_it_is_told_of() {
        let (one, other) = (Watch::default(), Watch::default());
        one.is_issuer();
        one.note(5, 6);
        other.note(7, 9);
        std::thread::scope(|scope| _ = scope.spawn(|| one.note(8, 9)));
        assert_eq!(one.placed(0).threads, 2);
        assert_eq!(one.placed(0).by_issuers, 0.5);
        assert_eq!(one.placed(7).by_issuers, 0.0);
        assert_eq!(other.placed(0).by_issuers, 0.0);
        assert_eq!(other.placed(10), Placed::default());
    }
}
