//! The names of closures: a work function that a closure was made into has no symbol, so the type's
//! name and the place where it was handed over are noted when it is queued for the first time.
//!
//! A spawn of a known function costs a load and a comparison of a line that is hardly ever written.
//! The table is never emptied. Where it is full around a function, that function stays without a
//! name.

mod slot;
#[cfg(not(cmwq_loom))]
mod table;

#[cfg(not(cmwq_loom))]
use table::closure_at;
#[cfg(not(cmwq_loom))]
pub(crate) use table::note;

/// Set in the address of a function that reports show for an item which another function runs
/// (`NamedWork`). Addresses of a process's functions do not reach so far.
pub(crate) const STANDS_IN: usize = 1 << (usize::BITS - 1);

/// The address of the function to show, of the function that an item was made with.
pub(crate) fn shown(func: usize) -> usize {
    func & !STANDS_IN
}

/// Models name nothing.
#[cfg(cmwq_loom)]
pub(crate) fn note<F: ?Sized>(_: usize, _: &'static std::panic::Location<'static>) {}

#[cfg(cmwq_loom)]
fn closure_at(_: usize) -> Option<String> {
    None
}

/// The function at `address`: the type of the closure that it was made for and its place, or its
/// [symbol](cmwq_trace::symbol_at).
pub(crate) fn name_of(address: usize) -> String {
    let address = shown(address);
    closure_at(address).unwrap_or_else(|| cmwq_trace::symbol_at(address))
}
