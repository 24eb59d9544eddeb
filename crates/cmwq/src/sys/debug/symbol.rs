//! The name of the code at an address.

use std::ffi::{CStr, c_void};
use std::path::Path;

/// The function at `address`: its symbol if the program exports it, and otherwise the file and the offset in it, which
/// `addr2line -f -e FILE OFFSET` turns into a name.
pub(crate) fn name_of(address: usize) -> String {
    let mut info = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    let at = std::ptr::without_provenance::<c_void>(address);
    // SAFETY: dladdr only compares the address with the ranges of the loaded files and fills in `info`.
    let found = unsafe { libc::dladdr(at, &mut info) } != 0;
    let text = |text: *const libc::c_char| {
        // SAFETY: dladdr's strings end with 0 and live as long as the file is loaded, which it is: its code was queued.
        (found && !text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy())
    };
    if let Some(symbol) = text(info.dli_sname).filter(|_| info.dli_saddr.addr() == address) {
        return symbol.into_owned();
    }
    match text(info.dli_fname) {
        Some(file) => {
            let name = Path::new(file.as_ref()).file_name().unwrap_or_default();
            format!("{}+{:#x}", name.display(), address - info.dli_fbase.addr())
        }
        None => format!("{address:#x}"),
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::name_of;

    #[test]
    fn an_exported_function_has_its_name_and_another_its_place() {
        assert_eq!(name_of(libc::malloc as *const () as usize), "malloc");
        let here = name_of(name_of as *const () as usize);
        assert!(here.contains("+0x"), "{here}");
        assert_eq!(name_of(1), "0x1");
    }
}
