//! Atomics that the model checker can take over.

#[cfg(not(cmwq_loom))]
pub(crate) use std::sync::atomic::{
    AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, fence,
};

#[cfg(cmwq_loom)]
pub(crate) use super::modelled::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, fence};

pub(crate) use std::sync::atomic::Ordering;

/// Atomics of the standard library under any back end that checks models: for ids, hints, figures and flags.
///
/// A model always reads their newest value, so it cannot show that an ordering of theirs is needed.
/// Each access of them is `Relaxed` (a test of `cmwq-mutants` sees to that), and they are of one
/// of these kinds:
///
/// - Numbers that are given out, and counts that must not pass a limit (`outstanding`): they are
///   read and changed in one step, which has the newest value on any machine.
/// - Figures and times that are reported, or from which a guess follows (spins, paces, limits of
///   CPU time): an older value is another guess, and what is decided by it is checked again under a
///   lock or by the monitor.
/// - Flags and counts that are written under a lock; a thread that depends on them takes that lock
///   before it acts (`armed`, `manager`, `waiting`, the slots and the groups of pools): the lock orders them.
/// - Flags that are written before an epoch flips and are read behind a pin (`closed`, a handle's
///   place): the epoch orders them, whose atomics models see.
///
/// The virtual machine's weak memory returns older values of these, too.
pub(crate) mod plain {
    #[cfg(not(cmwq_loom))]
    pub(crate) use std::sync::atomic::AtomicPtr;
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize};
}
