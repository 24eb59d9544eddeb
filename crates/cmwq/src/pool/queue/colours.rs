//! Flush colours of one pool workqueue: how many of its items are in flight under each, and which
//! ends a flush waits for.
//!
//! Only [`Colours`] changes these numbers. Each change is a transition, named by both of its ends,
//! and asserts the state that it comes from. The pool's lock is held.
#![forbid(unsafe_code)]

/// Flush colours, as in the kernel.
pub(crate) const COLOURS: usize = 16;

/// The counts of one pool workqueue.
pub(in crate::pool) struct Colours {
    /// The colour under which items are accepted.
    current: u32,
    /// Items accepted and not ended, for each colour.
    in_flight: [u64; COLOURS],
    /// Their sum.
    total: u64,
    /// A bit for each colour whose end the front end waits for.
    flushing: u16,
}

impl Colours {
    pub(in crate::pool) fn new(current: u32) -> Self {
        Colours {
            current,
            in_flight: [0; COLOURS],
            total: 0,
            flushing: 0,
        }
    }

    #[inline]
    pub(in crate::pool) fn current(&self) -> u32 {
        self.current
    }

    /// Items accepted and not ended.
    #[inline]
    pub(in crate::pool) fn in_flight(&self) -> u64 {
        self.total
    }

    /// `items` are accepted, under the current colour.
    #[inline]
    pub(in crate::pool) fn transition_none_to_in_flight(&mut self, items: u32) {
        self.in_flight[self.current as usize] += u64::from(items);
        self.total += u64::from(items);
    }

    /// Takes `items` items of `colour` out of flight. Returns `true` if they were the last ones of
    /// a colour for whose end the front end waits.
    #[inline]
    pub(in crate::pool) fn transition_in_flight_to_none(
        &mut self,
        colour: u32,
        items: u32,
    ) -> bool {
        let items = u64::from(items);
        debug_assert!(
            self.in_flight[colour as usize] >= items,
            "an item ends under the colour that it was accepted under"
        );
        self.total -= items;
        self.in_flight[colour as usize] -= items;
        let done = self.in_flight[colour as usize] == 0 && self.flushing & (1 << colour) != 0;
        self.flushing &= !(u16::from(done) << colour);
        done
    }

    /// From now on items are accepted under `next` instead of `old`. `true`: some of `old` are in
    /// flight, and the front end waits for their end.
    pub(in crate::pool) fn transition_current_to_flushing(&mut self, old: u32, next: u32) -> bool {
        debug_assert_eq!(
            self.current, old,
            "all pool workqueues of a queue have its colour"
        );
        debug_assert_eq!(
            self.in_flight[next as usize], 0,
            "a colour is used again when its generation is complete"
        );
        self.current = next;
        let busy = self.in_flight[old as usize] > 0;
        if busy {
            self.flushing |= 1 << old;
        }
        busy
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::Colours;

    /// A closure that waits takes 24 bytes: a machine with 128 GiB of memory holds more of them
    /// than 32 bits count.
    #[test]
    fn more_items_are_in_flight_than_32_bits_count() {
        let mut colours = Colours::new(0);
        colours.transition_none_to_in_flight(u32::MAX);
        colours.transition_none_to_in_flight(1);
        assert_eq!(colours.in_flight(), 1 << 32);
        assert!(
            colours.transition_current_to_flushing(0, 1),
            "they are in flight"
        );
        assert!(!colours.transition_in_flight_to_none(0, u32::MAX));
        assert!(colours.transition_in_flight_to_none(0, 1));
        assert_eq!(colours.in_flight(), 0);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "under the colour that it was accepted under")]
    fn an_item_that_ends_under_another_colour_is_noticed() {
        let mut colours = Colours::new(3);
        colours.transition_none_to_in_flight(1);
        colours.transition_in_flight_to_none(4, 1);
    }
}
