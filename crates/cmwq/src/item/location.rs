//! Where an item is, packed in one word of the item.
//!
//! Pool, pool workqueue, and which of the lists that the pool's lock guards. It is written when the
//! item gets its destination, and by each list that takes the item in or gives it out. So it is
//! exact if it is read under the pool's lock.
#![forbid(unsafe_code)]

/// Which list of a pool an item is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListKind {
    /// No list: the item is idle, runs, or is being published.
    None,
    /// The pool's worklist.
    Worklist,
    /// The inactive list of its pool workqueue.
    Inactive,
    /// The private list of the worker that runs it.
    Scheduled,
    /// The staged items of its pool: taken from the inbox, and not accepted yet.
    Staged,
    /// Perhaps in a chunk: the location then has the [number of the
    /// chunk](super::chunk::ChunkNumbers) in place of the pool workqueue's.
    Chunk,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    pool: u32,
    pwq: u32,
    pub(crate) list: ListKind,
}

const PWQ_BITS: u32 = 29;
const LIST_BITS: u32 = 3;
/// Stands in place of a pool workqueue's number while a timer has the item.
const ARMED: u32 = (1 << PWQ_BITS) - 1;
/// All numbers of chunks are less than this.
pub(in crate::item) const MOST_CHUNKS: u32 = ARMED;

impl Location {
    /// The destination is a pool workqueue; the item is on no list yet.
    #[inline]
    pub(crate) fn in_transit(pool: u32, pwq: u32) -> Self {
        Location {
            pool,
            pwq,
            list: ListKind::None,
        }
    }

    /// The item is being written to the chunk of this number.
    #[inline]
    pub(in crate::item) fn in_chunk(pool: u32, number: u32) -> Self {
        Location::in_transit(pool, number).on_list(ListKind::Chunk)
    }

    /// The number of the chunk that it may be in.
    #[inline]
    pub(in crate::item) fn chunk(self) -> Option<u32> {
        (self.list == ListKind::Chunk).then_some(self.pwq)
    }

    /// Whether the location says which list of its pool the item is on. If so, it is exact under
    /// the pool's lock.
    #[inline]
    pub(crate) fn is_on_list(self) -> bool {
        !matches!(self.list, ListKind::None | ListKind::Chunk)
    }

    /// A timer has it; `pool` is where it was last queued.
    pub(in crate::item) fn armed(pool: u32) -> Self {
        Location::in_transit(pool, ARMED)
    }

    /// Whether a timer has it.
    pub(crate) fn is_armed(self) -> bool {
        self.pwq == ARMED
    }

    /// The pool of a packed location.
    #[inline]
    pub(in crate::item) fn pool_in(word: u64) -> u32 {
        (word >> 32) as u32
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
    pub(crate) fn on_list(self, list: ListKind) -> Self {
        Location { list, ..self }
    }

    #[inline]
    pub(in crate::item) fn pack(self) -> u64 {
        u64::from(self.pool) << 32 | u64::from(self.pwq) << LIST_BITS | self.list as u64
    }

    #[inline]
    pub(in crate::item) fn unpack(word: u64) -> Self {
        let list = match word & ((1 << LIST_BITS) - 1) {
            1 => ListKind::Worklist,
            2 => ListKind::Inactive,
            3 => ListKind::Scheduled,
            4 => ListKind::Staged,
            5 => ListKind::Chunk,
            _ => ListKind::None,
        };
        Location {
            pool: Self::pool_in(word),
            pwq: (word as u32) >> LIST_BITS,
            list,
        }
    }
}

const _: () = assert!(
    PWQ_BITS + LIST_BITS == 32,
    "the pool workqueue and the list share half a word"
);

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_place_survives_its_word() {
        for list in [
            ListKind::None,
            ListKind::Worklist,
            ListKind::Inactive,
            ListKind::Scheduled,
            ListKind::Staged,
            ListKind::Chunk,
        ] {
            for (pool, pwq) in [(0, 0), (1, 2), (u32::MAX, (1 << PWQ_BITS) - 1)] {
                let location = Location::in_transit(pool, pwq).on_list(list);
                assert_eq!(Location::unpack(location.pack()), location);
            }
        }
        for pool in [0, 7, u32::MAX] {
            let armed = Location::unpack(Location::armed(pool).pack());
            assert!(armed.is_armed() && armed.pool() == pool && armed.list == ListKind::None);
            assert!(!Location::in_transit(pool, 0).is_armed());
        }
        assert_eq!(
            Location::unpack(0),
            Location::in_transit(0, 0),
            "zeroed memory is an idle item"
        );
    }
}
