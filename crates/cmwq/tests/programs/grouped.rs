//! Queues that share a limit.

use super::library::ConcurrencyGroup;
use super::model::{Inside, Room};
use super::{Broken, Random};
use std::sync::Arc;

/// A group of queues, and how many of its items are active.
pub(crate) struct Grouped {
    pub(crate) group: ConcurrencyGroup,
    room: Arc<Room>,
    /// The largest limit that it ever has.
    most: usize,
}

impl Grouped {
    pub(crate) fn new(random: &mut Random) -> Grouped {
        let limits = [1, 2, 3, 8, 40];
        let most = limits[random.below(limits.len())];
        Grouped {
            group: ConcurrencyGroup::new("group", most),
            room: Arc::default(),
            most,
        }
    }

    pub(crate) fn enter(&self, broken: &Broken) -> Inside {
        self.room.enter(broken, self.most, || "the group".into())
    }

    /// Sets another limit, up to the first one.
    pub(crate) fn change(&self, random: &mut Random) {
        let limit = 1 + random.below(self.most);
        let changed = self.group.set_max_active(limit);
        changed.expect("not in the child of a fork");
    }
}
