//! The one seam to the platform: atomics, locks, parking, threads, CPUs and clocks.
//!
//! Everything above this room is written against these names only. Two back ends exist: the real one, and
//! [loom](https://docs.rs/loom)'s, chosen by `cfg(cmwq_loom)`, under which the crate `cmwq-models` compiles the very
//! same sources and explores their interleavings.

pub(crate) mod atomic;
pub(crate) mod blocks;
pub(crate) mod cell;
pub(crate) mod clock;
pub(crate) mod cpu;
pub(crate) mod fork;
pub(crate) mod gate;
pub(crate) mod park;
pub(crate) mod patience;
pub(crate) mod prefetch;
pub(crate) mod probe;
pub(crate) mod slice;
pub(crate) mod spin;
pub(crate) mod stock;
pub(crate) mod symbol;
pub(crate) mod sync;
pub(crate) mod task;
pub(crate) mod thread;
mod turns;
