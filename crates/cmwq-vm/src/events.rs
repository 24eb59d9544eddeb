//! What happens next: each CPU's next visible operation, and timers.
#![forbid(unsafe_code)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A point in virtual time with its tie-breaker in the low bits. Times are in ns, up to 2^52 (52 days).
pub(crate) type Key = u64;

const TIE_BITS: u32 = 12;
/// The last time that a key can have.
pub(crate) const LAST_NS: u64 = Key::MAX >> TIE_BITS;
/// After everything.
pub(crate) const NEVER: Key = Key::MAX;

#[inline]
pub(crate) fn key(at_ns: u64, tie: u64) -> Key {
    (at_ns << TIE_BITS) | (tie & ((1 << TIE_BITS) - 1))
}

/// The time of a key.
#[inline]
pub(crate) fn time(key: Key) -> u64 {
    key >> TIE_BITS
}

/// The CPUs' keys in a tournament tree (the smallest is at the root), and the timers in a heap.
pub(crate) struct Events<T> {
    /// Leaves from `leaves` on; each inner node holds the smaller key of its two children. Node 1
    /// is the root.
    tree: Vec<Key>,
    leaves: usize,
    timers: BinaryHeap<Reverse<(Key, u64, usize)>>,
    /// The timers' contents; free entries are reused.
    slots: Vec<Option<T>>,
    free: Vec<usize>,
    sequence: u64,
}

/// What comes first.
pub(crate) enum Next<T> {
    Cpu(usize),
    Timer(u64, T),
    Nothing,
}

impl<T> Events<T> {
    pub(crate) fn new(cpus: usize) -> Self {
        let leaves = cpus.max(2).next_power_of_two();
        Events {
            tree: vec![NEVER; 2 * leaves],
            leaves,
            timers: BinaryHeap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            sequence: 0,
        }
    }

    #[inline]
    pub(crate) fn set_cpu(&mut self, cpu: usize, key: Key) {
        let mut node = self.leaves + cpu;
        self.tree[node] = key;
        while node > 1 {
            let smaller = self.tree[node].min(self.tree[node ^ 1]);
            node /= 2;
            if self.tree[node] == smaller {
                return;
            }
            self.tree[node] = smaller;
        }
    }

    /// Whether nothing comes before this key, which a CPU has set.
    #[inline]
    pub(crate) fn is_first(&self, key: Key) -> bool {
        self.tree[1] == key
            && self
                .timers
                .peek()
                .is_none_or(|Reverse((timer, _, _))| *timer > key)
    }

    pub(crate) fn add_timer(&mut self, key: Key, what: T) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[slot] = Some(what);
        self.sequence += 1;
        self.timers.push(Reverse((key, self.sequence, slot)));
    }

    /// When the next timer is due.
    #[inline]
    pub(crate) fn next_timer_at(&self) -> Option<u64> {
        let first = self.timers.peek();
        first.map(|Reverse((timer, _, _))| time(*timer))
    }

    pub(crate) fn next(&mut self) -> Next<T> {
        let cpu = self.tree[1];
        match self.timers.peek() {
            Some(&Reverse((timer, _, slot))) if timer <= cpu => {
                self.timers.pop();
                self.free.push(slot);
                match self.slots[slot].take() {
                    Some(what) => Next::Timer(time(timer), what),
                    None => unreachable!("a timer has its content until it is due"),
                }
            }
            _ if cpu == NEVER => Next::Nothing,
            _ => Next::Cpu(self.first_cpu(cpu)),
        }
    }

    fn first_cpu(&self, key: Key) -> usize {
        let mut node = 1;
        while node < self.leaves {
            node = 2 * node + usize::from(self.tree[2 * node] != key);
        }
        node - self.leaves
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_the_order_of_their_keys() {
        let mut events = Events::new(5);
        for (cpu, at) in [(0, 50), (1, 10), (2, 30), (4, 40)] {
            events.set_cpu(cpu, key(at, 7));
        }
        events.add_timer(key(20, 0), 'b');
        events.add_timer(key(5, 0), 'a');
        events.add_timer(key(60, 0), 'c');
        assert!(!events.is_first(key(10, 7)));
        let mut order = String::new();
        loop {
            match events.next() {
                Next::Cpu(cpu) => {
                    order += &cpu.to_string();
                    events.set_cpu(cpu, NEVER);
                }
                Next::Timer(at, what) => {
                    assert_eq!(
                        at,
                        u64::from("baaabc".find(what).map_or(0, |_| match what {
                            'a' => 5_u8,
                            'b' => 20,
                            _ => 60,
                        }))
                    );
                    order.push(what);
                }
                Next::Nothing => break,
            }
        }
        assert_eq!(order, "a1b240c");
    }
}
