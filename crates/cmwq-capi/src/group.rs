//! Limits that several workqueues share.

use crate::call::{Wrong, abi};
use crate::handle::name_of;
use cmwq::ConcurrencyGroup;
use std::ffi::{c_char, c_int};

/// `struct cmwq_group`.
pub struct Group(pub(crate) ConcurrencyGroup);

abi! {
    fn cmwq_alloc_group(call, name: *const c_char, max_active: c_int) -> *mut Group {
        // SAFETY: the header asks for a string.
        let Some(name) = (unsafe { name_of(name) }) else {
            return call.wrong(Wrong::NullArgument, "the name is NULL");
        };
        match usize::try_from(max_active) {
            Ok(limit @ 1..) => Box::into_raw(Box::new(Group(ConcurrencyGroup::new(&name, limit)))),
            _ => call.wrong(Wrong::MaxActive, "max_active of a group is 1 or more"),
        }
    }

    fn cmwq_free_group(_call, group: *mut Group) {
        if !group.is_null() {
            // SAFETY: the header asks for what cmwq_alloc_group returned, once.
            drop(unsafe { Box::from_raw(group) });
        }
    }

    fn cmwq_group_set_max_active(call, group: *mut Group, max_active: c_int) -> c_int {
        if group.is_null() {
            return call.wrong(Wrong::NullArgument, "the group is NULL");
        }
        // SAFETY: not NULL; the header asks for what cmwq_alloc_group returned.
        let group = unsafe { &(*group).0 };
        match usize::try_from(max_active) {
            Ok(limit @ 1..) => match group.set_max_active(limit) {
                Ok(()) => 0,
                Err(error) => call.error(&error),
            },
            _ => call.wrong(Wrong::MaxActive, "max_active of a group is 1 or more"),
        }
    }
}
