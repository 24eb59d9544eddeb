//! A hierarchical timer wheel that counts in ticks. It does not read a clock: its owner passes the
//! time, so that tests run in virtual time.
//!
//! Level 0 has a slot for each of the next 64 ticks, level 1 has one for each of the next 64 blocks
//! of 64 ticks, and so on. To find the level of an entry, its deadline is compared with the present
//! in groups of six bits: the level is the highest group in which they differ. When the present
//! reaches the slot of an entry, the entry moves to a lower level. It does so at most once per
//! level, so arming and expiring cost O(1) amortised. Entries have numbers and are linked by
//! number, so cancelling costs O(1) as well. Each level has a bitmap of its slots in use, so the
//! search for the next one skips the empty slots.

const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
/// 64^11 ticks are more than 64 bits can count, so every deadline has a level.
const LEVELS: usize = 11;
const NONE: u32 = u32::MAX;
/// The largest number of entries of a slot that one call of `expire` moves to lower levels.
const DISTRIBUTED_AT_ONCE: usize = 256;

/// Names an armed entry. No other entry ever gets the same key: when an entry's number is used
/// again, its serial has grown, and after the last serial the number is not used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    index: u32,
    serial: u32,
}

impl Key {
    pub(crate) fn pack(self) -> u64 {
        u64::from(self.serial) << 32 | u64::from(self.index)
    }

    pub(crate) fn unpack(word: u64) -> Self {
        Key {
            index: word as u32,
            serial: (word >> 32) as u32,
        }
    }
}

struct TimerEntry<T> {
    deadline: u64,
    /// Grows each time that the number is used again, and never wraps: see [`Wheel::release`]. A
    /// key never has the serial 0, so no key is packed into 0.
    serial: u32,
    slot: u16,
    prev: u32,
    next: u32,
    value: Option<T>,
}

pub(crate) struct Wheel<T> {
    /// The present: everything that was due at this tick or before has expired.
    now: u64,
    heads: Box<[u32]>,
    occupied: [u64; LEVELS],
    entries: Vec<TimerEntry<T>>,
    free: Vec<u32>,
    armed: usize,
    /// The slot whose entries are being moved to lower levels, and its level. The slot begins at
    /// the present tick.
    distributing: Option<(usize, usize)>,
}

impl<T> Wheel<T> {
    pub(crate) fn new(now: u64) -> Self {
        Wheel {
            now,
            heads: vec![NONE; LEVELS * SLOTS].into(),
            occupied: [0; LEVELS],
            entries: Vec::new(),
            free: Vec::new(),
            armed: 0,
            distributing: None,
        }
    }

    #[cfg(all(test, not(cmwq_loom)))]
    pub(crate) fn len(&self) -> usize {
        self.armed
    }

    /// Arms an entry. If its deadline has passed, the entry expires at the next tick.
    pub(crate) fn arm(&mut self, deadline: u64, value: T) -> Key {
        let index = self.free.pop().unwrap_or_else(|| self.new_entry());
        let entry = &mut self.entries[index as usize];
        entry.serial += 1;
        entry.deadline = deadline.max(self.now + 1);
        entry.value = Some(value);
        let key = Key {
            index,
            serial: entry.serial,
        };
        self.armed += 1;
        self.link(index);
        key
    }

    /// Makes an entry whose number was never used before, and returns the number.
    fn new_entry(&mut self) -> u32 {
        let index = u32::try_from(self.entries.len()).ok();
        let index = index.filter(|&index| index != NONE);
        // So many entries would take 200 GB of memory, and their items at least as much again.
        let index = index.expect("fewer than 2^32 - 1 timers are armed at the same time");
        self.entries.push(TimerEntry {
            deadline: 0,
            serial: 0,
            slot: 0,
            prev: NONE,
            next: NONE,
            value: None,
        });
        index
    }

    /// Whether the entry has neither expired nor been cancelled.
    pub(crate) fn is_armed(&self, key: Key) -> bool {
        let entry = self.entries.get(key.index as usize);
        entry.is_some_and(|entry| entry.serial == key.serial && entry.value.is_some())
    }

    /// Removes an entry and returns its value. `None`: it has expired or was cancelled.
    pub(crate) fn cancel(&mut self, key: Key) -> Option<T> {
        if !self.is_armed(key) {
            return None;
        }
        self.unlink(key.index);
        self.release(key.index)
    }

    /// Returns the next tick at which [`expire`](Self::expire) has something to do: an entry
    /// expires, or entries have to be moved to a lower level first.
    pub(crate) fn next_tick(&self) -> Option<u64> {
        self.next_slot().map(|(_, _, tick)| tick)
    }

    /// Removes one entry that is due at `now` and returns its value. Repeated calls return the
    /// entries in the order of their ticks, and the other due entries can still be cancelled
    /// between two calls. `None` has two meanings. Either nothing is due any more, and `now` has
    /// become the present. Or this call has moved a part of the entries of a full slot to lower
    /// levels; then the [next tick](Self::next_tick) is not after `now`, and the caller calls
    /// again.
    pub(crate) fn expire(&mut self, now: u64) -> Option<T> {
        let is_empty = |&(level, slot): &(usize, usize)| self.heads[level * SLOTS + slot] == NONE;
        if self.distributing.as_ref().is_some_and(is_empty) {
            self.distributing = None;
        }
        while let Some((level, slot, tick)) = self.next_slot().filter(|&(_, _, tick)| tick <= now) {
            self.now = tick;
            let mut index = self.heads[level * SLOTS + slot];
            if level == 0 {
                // A slot of this level is one tick long, so all its entries are due.
                self.unlink(index);
                return self.release(index);
            }
            // One call moves only some of the entries: its caller holds a lock that other threads
            // need to arm and to cancel.
            for _ in 0..DISTRIBUTED_AT_ONCE {
                self.unlink(index);
                self.link(index);
                index = self.heads[level * SLOTS + slot];
                if index == NONE {
                    break;
                }
            }
            self.distributing = (index != NONE).then_some((level, slot));
            if self.distributing.is_some() {
                return None;
            }
        }
        self.now = self.now.max(now);
        None
    }

    /// Returns the first slot in use after the present: its level, its number, and the tick at
    /// which it begins.
    fn next_slot(&self) -> Option<(usize, usize, u64)> {
        if let Some((level, slot)) = self.distributing
            && self.heads[level * SLOTS + slot] != NONE
        {
            return Some((level, slot, self.now));
        }
        // All slots in use on a level lie within the present slot of the level above. So the first
        // slot in use is on the lowest level that has one.
        let level = self.occupied.iter().position(|&bits| bits != 0)?;
        let slot = self.occupied[level].trailing_zeros() as usize;
        let shift = SLOT_BITS * level as u32;
        let above = shift + SLOT_BITS;
        let base = if above >= u64::BITS {
            0
        } else {
            self.now >> above << above
        };
        Some((level, slot, base | (slot as u64) << shift))
    }

    fn link(&mut self, index: u32) {
        let deadline = self.entries[index as usize].deadline;
        let differs = (deadline ^ self.now) | (SLOTS as u64 - 1);
        let level = ((u64::BITS - 1 - differs.leading_zeros()) / SLOT_BITS) as usize;
        let slot = (deadline >> (SLOT_BITS * level as u32)) as usize & (SLOTS - 1);
        let at = level * SLOTS + slot;
        let head = std::mem::replace(&mut self.heads[at], index);
        if head != NONE {
            self.entries[head as usize].prev = index;
        }
        let entry = &mut self.entries[index as usize];
        (entry.slot, entry.prev, entry.next) = (at as u16, NONE, head);
        self.occupied[level] |= 1 << slot;
    }

    fn unlink(&mut self, index: u32) {
        let TimerEntry {
            slot, prev, next, ..
        } = self.entries[index as usize];
        if next != NONE {
            self.entries[next as usize].prev = prev;
        }
        if prev != NONE {
            self.entries[prev as usize].next = next;
            return;
        }
        self.heads[slot as usize] = next;
        if next == NONE {
            self.occupied[slot as usize / SLOTS] &= !(1 << (slot as usize % SLOTS));
        }
    }

    /// Frees an entry that is not linked any more, and returns its value. An entry whose serials
    /// are used up is not used again, because an old key would then name a later timer with the
    /// same number. So the wheel loses one entry with every 2^32 timers.
    fn release(&mut self, index: u32) -> Option<T> {
        self.armed -= 1;
        let entry = &mut self.entries[index as usize];
        if entry.serial < u32::MAX {
            self.free.push(index);
        }
        entry.value.take()
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Clone, Debug)]
    enum Op {
        Arm(u64),
        Cancel(usize),
        Advance(u64),
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        // Delays of all sizes, from the next tick to years.
        let delay = (0u32..40).prop_flat_map(|bits| 0u64..=(1 << bits));
        let op = prop_oneof![
            4 => delay.clone().prop_map(Op::Arm),
            2 => any::<usize>().prop_map(Op::Cancel),
            3 => delay.prop_map(Op::Advance),
        ];
        proptest::collection::vec(op, 1..200)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Compares the wheel with a sorted map: the same entries expire at the same advance, none
        /// too early and none twice.
        #[test]
        fn behaves_as_a_sorted_map(start in 0u64..1 << 50, ops in ops()) {
            let mut wheel = Wheel::new(start);
            let mut now = start;
            let mut model: BTreeMap<(u64, usize), Key> = BTreeMap::new();
            for (id, op) in ops.into_iter().enumerate() {
                match op {
                    Op::Arm(delay) => {
                        let deadline = now + delay;
                        let key = wheel.arm(deadline, id);
                        model.insert((deadline.max(now + 1), id), key);
                    }
                    Op::Cancel(which) if !model.is_empty() => {
                        let (&(deadline, id), &key) = model.iter().nth(which % model.len()).unwrap();
                        prop_assert_eq!(wheel.cancel(key), Some(id));
                        prop_assert_eq!(wheel.cancel(key), None);
                        model.remove(&(deadline, id));
                    }
                    Op::Cancel(_) => {}
                    Op::Advance(by) => {
                        now += by;
                        if let Some(&(first, _)) = model.keys().next() {
                            prop_assert!(wheel.next_tick().unwrap() <= first, "would wake too late");
                        }
                        let mut last = 0;
                        while let Some(id) = wheel.expire(now) {
                            let (&(deadline, id), _) = model.iter().find(|((_, other), _)| *other == id).unwrap();
                            prop_assert!(last <= deadline && deadline <= now);
                            last = deadline;
                            model.remove(&(deadline, id));
                            // Cancels an entry that is due as well and was not returned yet.
                            if id % 3 == 0 && let Some((&(deadline, id), &key)) = model.iter().next() {
                                prop_assert_eq!(wheel.cancel(key), Some(id));
                                model.remove(&(deadline, id));
                            }
                        }
                        prop_assert!(model.keys().next().is_none_or(|&(deadline, _)| deadline > now));
                    }
                }
                prop_assert_eq!(wheel.len(), model.len());
            }
        }
    }

    /// The state after 2^32 - 1 armings of one number, which the test sets instead of arming so
    /// often.
    #[test]
    fn a_key_never_names_another_entry_though_serials_are_used_up() {
        let mut wheel = Wheel::new(0);
        let old = wheel.arm(5, 'x');
        assert_eq!(wheel.expire(5), Some('x'));
        // The last serial of this number can still be used.
        wheel.entries[0].serial = u32::MAX - 1;
        let last = wheel.arm(9, 'y');
        assert_eq!(last.index, 0);
        assert_eq!((wheel.cancel(old), wheel.cancel(last)), (None, Some('y')));
        let new = wheel.arm(9, 'z');
        assert!(!wheel.is_armed(old) && !wheel.is_armed(last));
        assert_eq!((wheel.cancel(old), wheel.cancel(last)), (None, None));
        assert_eq!((wheel.cancel(new), wheel.len()), (Some('z'), 0));
    }

    /// A thread that arms or cancels waits for one call of `expire` at most.
    #[test]
    fn a_slot_of_many_entries_is_distributed_in_several_calls() {
        let mut wheel = Wheel::new(0);
        let many = 1024;
        let keys: Vec<Key> = (0..many).map(|id| wheel.arm(100, id)).collect();
        let late = wheel.arm(101, many);
        let mut calls = 0;
        let first = loop {
            match wheel.expire(100) {
                Some(first) => break first,
                None => calls += 1,
            }
            assert!(wheel.next_tick().is_some_and(|tick| tick <= 100));
            assert_eq!(wheel.cancel(keys[calls]), Some(calls));
        };
        assert!(calls >= 3, "{calls}");
        let rest: Vec<usize> = std::iter::from_fn(|| wheel.expire(100)).collect();
        assert_eq!(1 + rest.len(), many - calls);
        assert!(!rest.contains(&first));
        assert_eq!(wheel.cancel(late), Some(many));
        // The rest of the full slot was cancelled.
        let keys: Vec<Key> = (0..many).map(|id| wheel.arm(1_000, id)).collect();
        assert_eq!(wheel.expire(1_000), None);
        for (id, key) in keys.into_iter().enumerate() {
            assert_eq!(wheel.cancel(key), Some(id));
        }
        wheel.arm(70_000, 7);
        assert_eq!(wheel.expire(69_999), None);
        assert_eq!(wheel.expire(70_000), Some(7));
    }

    /// What is armed later for a slot whose distribution was cut short expires in its own time, and
    /// keeps no other entry from that.
    #[test]
    fn a_slot_that_was_emptied_by_cancels_may_be_used_again() {
        let mut wheel = Wheel::new(0);
        let keys: Vec<Key> = (0..1024).map(|id| wheel.arm(1_000, id)).collect();
        assert_eq!(wheel.expire(1_000), None, "some are distributed");
        for (id, key) in keys.into_iter().enumerate() {
            assert_eq!(wheel.cancel(key), Some(id));
        }
        let next_turn = (SLOTS * SLOTS) as u64;
        assert_eq!(wheel.expire(next_turn), None);
        wheel.arm(next_turn + 1_000, 1);
        wheel.arm(next_turn + 2, 2);
        assert_eq!(wheel.expire(next_turn + 2), Some(2));
        assert_eq!(wheel.expire(next_turn + 999), None);
        assert_eq!(wheel.expire(next_turn + 1_000), Some(1));
    }

    #[test]
    fn a_key_does_not_cancel_the_next_entry_of_its_number() {
        let mut wheel = Wheel::new(0);
        let old = wheel.arm(5, 'a');
        assert_eq!(wheel.expire(4), None);
        assert_eq!(wheel.expire(5), Some('a'));
        let new = wheel.arm(9, 'b');
        assert_eq!(wheel.cancel(old), None);
        assert_eq!(wheel.cancel(Key::unpack(new.pack())), Some('b'));
    }
}
