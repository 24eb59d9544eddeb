//! What C passes for a workqueue, a CPU and a name.

use cmwq::raw::WorkqueueHandle;
use std::ffi::{CStr, c_char, c_int};

/// What C has of a workqueue: a pointer that points nowhere and whose value is a [`WorkqueueHandle`].
#[repr(C)]
pub struct Wq {
    _nothing: [u8; 0],
}

pub(crate) fn to_c(handle: WorkqueueHandle) -> *mut Wq {
    std::ptr::without_provenance_mut(handle.to_bits() as usize)
}

/// No handle is below: what is, is NULL or stands for a [system workqueue](crate::system),
/// whichever process asks.
pub(crate) const FIRST_HANDLE: u64 = 4096;

/// "Any CPU" in C.
pub(crate) const CPU_ANY: c_int = 8192;

/// A CPU's number from C; `None`: any.
pub(crate) fn cpu_from_c(cpu: c_int) -> Option<usize> {
    // A negative one becomes a number that no machine has.
    (cpu != CPU_ANY).then_some(cpu as usize)
}

/// # Safety
/// `name` is NULL or a string that ends with 0.
pub(crate) unsafe fn name_of(name: *const c_char) -> Option<String> {
    if name.is_null() {
        return None;
    }
    // SAFETY: by the caller's promise.
    let name = unsafe { CStr::from_ptr(name) };
    Some(name.to_string_lossy().into_owned())
}
