//! Memory that several threads use: reused blocks, guarded cells, grace periods.

pub(crate) mod blocks;
pub(crate) mod cell;
pub(crate) mod epoch;
pub(crate) mod free_list;
pub(crate) mod prefetch;
pub(crate) mod stack_size;
#[cfg(all(test, cmwq_loom))]
mod stacks;
