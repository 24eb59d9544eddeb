//! Prefetching cache lines.

/// Bytes of a line.
pub(crate) const LINE: usize = 64;

/// Prefetches the line of `address` for writing. A hint: any address is allowed, and nothing is
/// read or written.
#[inline(always)]
pub(crate) fn to_write(address: usize) {
    #[cfg(cmwq_sim)]
    crate::sys::atomic::prefetch(address, true);
    #[cfg(all(target_arch = "x86_64", not(cmwq_sim)))]
    // SAFETY: PREFETCHW faults at no address and changes no memory, register or flag; processors
    // without it execute a NOP.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(all(target_arch = "aarch64", not(cmwq_sim)))]
    // SAFETY: PRFM faults at no address and changes no memory, register or flag.
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}

/// Prefetches the line of `address` for reading. A hint, as above.
#[inline(always)]
pub(crate) fn to_read(address: usize) {
    #[cfg(cmwq_sim)]
    crate::sys::atomic::prefetch(address, false);
    #[cfg(all(target_arch = "x86_64", not(cmwq_sim)))]
    // SAFETY: PREFETCHT0 faults at no address and changes no memory, register or flag.
    unsafe {
        std::arch::asm!("prefetcht0 [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(all(target_arch = "aarch64", not(cmwq_sim)))]
    // SAFETY: PRFM faults at no address and changes no memory, register or flag.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}
