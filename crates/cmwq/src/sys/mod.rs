//! The one seam to the platform: atomics, locks, parking, threads, CPUs and clocks.
//!
//! All modules above this one use these names only. There are three back ends: the real one;
//! [loom](https://docs.rs/loom)'s, chosen by `cfg(cmwq_loom)`, under which the crate `cmwq-models`
//! compiles the very same sources and explores their interleavings; and the virtual machine's,
//! chosen by `cfg(cmwq_sim)`, under which the crate `cmwq-simulated` compiles them for machines of
//! up to 256 CPUs in virtual time (`sim/`).

#[cfg_attr(cmwq_sim, path = "sim/atomic.rs")]
pub(crate) mod atomic;
#[cfg_attr(cmwq_sim, path = "sim/clock.rs")]
pub(crate) mod clock;
#[cfg_attr(cmwq_sim, path = "sim/cpu.rs")]
pub(crate) mod cpu;
pub(crate) mod fork;
// Virtual threads and those of models are not ended from inside.
#[cfg_attr(any(cmwq_loom, cmwq_sim), allow(dead_code, unreachable_pub))]
pub(crate) mod forced_unwind;
#[cfg_attr(cmwq_sim, path = "sim/local.rs")]
pub(crate) mod local;
pub(crate) mod map;
#[cfg(cmwq_loom)]
mod modelled;
// Virtual threads get no signals.
#[cfg_attr(cmwq_sim, allow(dead_code))]
pub(crate) mod signals;
#[cfg_attr(cmwq_sim, path = "sim/slice.rs")]
pub(crate) mod slice;
#[cfg_attr(cmwq_sim, path = "sim/sync.rs")]
pub(crate) mod sync;
#[cfg_attr(cmwq_sim, path = "sim/task.rs")]
pub(crate) mod task;
#[cfg_attr(cmwq_sim, path = "sim/thread.rs")]
pub(crate) mod thread;

mod debug;
mod memory;
mod waiting;

#[cfg(all(debug_assertions, not(any(test, cmwq_loom))))]
pub(crate) use debug::ends;
pub(crate) use debug::{holds, names, probe};
pub(crate) use memory::{blocks, cell, epoch, free_list, prefetch, stack_size};
pub(crate) use waiting::{bell, brief_spin, lock, park, spin};
