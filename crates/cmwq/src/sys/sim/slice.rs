//! Slices of virtual threads.
#![forbid(unsafe_code)]

use cmwq_vm::os;
use std::io;

/// The calling thread's default slice.
pub(crate) struct Slice {
    default_ns: u64,
}

impl Slice {
    pub(crate) fn of_current() -> Option<Slice> {
        Some(Slice {
            default_ns: os::default_slice_ns(),
        })
    }

    pub(crate) fn halve(&self) -> io::Result<()> {
        os::set_slice(Some(self.default_ns / 2));
        Ok(())
    }

    pub(crate) fn restore(&self) -> io::Result<()> {
        os::set_slice(None);
        Ok(())
    }
}
