//! The credits that one pool workqueue holds, and how many of them its active items use.
//!
//! Only [`HeldCredits`] changes these numbers. Each change is a transition, named by both of its
//! ends, and asserts the state that it comes from. The pool's lock is held. Credits come from and
//! go to the store, [`NodeLimit`](super::credits::NodeLimit).
#![forbid(unsafe_code)]

/// The credits of one pool workqueue.
#[derive(Default)]
pub(in crate::pool) struct HeldCredits {
    /// Taken from the store and not given back.
    held: i32,
    /// One for each item on the worklist or running, and for each open caller-runs slot.
    used: i32,
}

impl HeldCredits {
    #[inline]
    pub(in crate::pool) fn used(&self) -> i32 {
        self.used
    }

    #[inline]
    pub(in crate::pool) fn unused(&self) -> i32 {
        self.held - self.used
    }

    /// `credits` were taken from the store.
    #[inline]
    pub(in crate::pool) fn transition_store_to_unused(&mut self, credits: i32) {
        debug_assert!(credits >= 0, "a store hands out credits");
        self.held += credits;
    }

    /// As many items become active.
    #[inline]
    pub(in crate::pool) fn transition_unused_to_used(&mut self, credits: i32) {
        debug_assert!(self.unused() >= credits, "an active item has a credit");
        self.used += credits;
    }

    /// As many active items have ended.
    #[inline]
    pub(in crate::pool) fn transition_used_to_unused(&mut self, credits: i32) {
        debug_assert!(self.used >= credits, "an item ends once");
        self.used -= credits;
    }

    /// All unused credits go back to the store. Returns how many.
    pub(in crate::pool) fn transition_unused_to_store(&mut self) -> i32 {
        let unused = self.unused();
        self.held = self.used;
        unused
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::HeldCredits;

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "an active item has a credit")]
    fn an_active_item_without_a_credit_is_noticed() {
        HeldCredits::default().transition_unused_to_used(1);
    }
}
