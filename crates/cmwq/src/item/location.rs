//! Where an item is, packed in one word of the item.
//!
//! Pool, pool workqueue, and which of the lists that the pool's lock guards. It is written when the item is bound, and by each list that takes
//! the item in or lets it go; so it is exact when read under the pool's lock.
#![forbid(unsafe_code)]

/// The list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seat {
    /// None: idle, running, or on its way.
    None,
    /// The pool's worklist.
    Worklist,
    /// The inactive list of its pool workqueue.
    Inactive,
    /// The private list of the worker that runs it.
    Scheduled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pool: u32,
    pwq: u32,
    pub(crate) seat: Seat,
}

const PWQ_BITS: u32 = 30;
/// In place of a pool workqueue's number: a timer has the item.
const ARMED: u32 = (1 << PWQ_BITS) - 1;

impl Place {
    /// The destination is a pool workqueue; the item is on no list yet.
    #[inline]
    pub(crate) fn in_transit(pool: u32, pwq: u32) -> Self {
        Place {
            pool,
            pwq,
            seat: Seat::None,
        }
    }

    /// A timer has it; `pool` is where it was last queued.
    pub(in crate::item) fn armed(pool: u32) -> Self {
        Place::in_transit(pool, ARMED)
    }

    /// Whether a timer has it.
    pub(crate) fn is_armed(self) -> bool {
        self.pwq == ARMED
    }

    /// The pool; 0: none.
    #[inline]
    pub(crate) fn pool(self) -> u32 {
        self.pool
    }

    #[inline]
    pub(crate) fn pwq(self) -> u32 {
        self.pwq
    }

    #[inline]
    pub(crate) fn seated(self, seat: Seat) -> Self {
        Place { seat, ..self }
    }

    #[inline]
    pub(in crate::item) fn pack(self) -> u64 {
        u64::from(self.pool) << 32 | u64::from(self.pwq) << 2 | self.seat as u64
    }

    #[inline]
    pub(in crate::item) fn unpack(word: u64) -> Self {
        let seat = match word & 3 {
            0 => Seat::None,
            1 => Seat::Worklist,
            2 => Seat::Inactive,
            _ => Seat::Scheduled,
        };
        Place {
            pool: (word >> 32) as u32,
            pwq: (word as u32) >> 2,
            seat,
        }
    }
}

const _: () = assert!(PWQ_BITS + 2 == 32, "place and seat share half a word");

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_place_survives_its_word() {
        for seat in [Seat::None, Seat::Worklist, Seat::Inactive, Seat::Scheduled] {
            for (pool, pwq) in [(0, 0), (1, 2), (u32::MAX, (1 << PWQ_BITS) - 1)] {
                let place = Place::in_transit(pool, pwq).seated(seat);
                assert_eq!(Place::unpack(place.pack()), place);
            }
        }
        for pool in [0, 7, u32::MAX] {
            let armed = Place::unpack(Place::armed(pool).pack());
            assert!(armed.is_armed() && armed.pool() == pool && armed.seat == Seat::None);
            assert!(!Place::in_transit(pool, 0).is_armed());
        }
        assert_eq!(
            Place::unpack(0),
            Place::in_transit(0, 0),
            "zeroed memory is an idle item"
        );
    }
}
