//! A pool, and what its lock guards.

pub(in crate::pool) mod caller_slots;
pub(in crate::pool) mod counts;
pub(in crate::pool) mod group;
pub(in crate::pool) mod hogs;
#[cfg(all(debug_assertions, not(any(test, cmwq_loom))))]
mod invariants;
pub(in crate::pool) mod member;
pub(in crate::pool) mod pace;
pub(in crate::pool) mod pool;
pub(in crate::pool) mod pwqs;
pub(in crate::pool) mod standstill;
pub(in crate::pool) mod transitions;
pub(in crate::pool) mod worker;
