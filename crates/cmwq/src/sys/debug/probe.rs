//! Observing from outside: one switch that says whether a tool observes, and four USDT probes.
//!
//! The hot paths read the switch, a line that is written only when a tool attaches or detaches, and
//! branch to a cold function if it is not 0. Half of it is the probes' *semaphore*, which tools
//! such as bpftrace and perf raise (through the kernel) while they are attached; the other half
//! holds this process's own [bits]. A probe is one `nop` in the cold function and a note in the
//! program's file that names its address and the registers of its arguments.

use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::AtomicU32;
use crossbeam_utils::CachePadded;

/// Our half of the switch.
pub(crate) mod bits {
    const SHIFT: u32 = if cfg!(target_endian = "little") {
        16
    } else {
        0
    };
    /// Events are recorded.
    pub(crate) const RECORD: u32 = 1 << SHIFT;
    /// Some calls of `queue()` are timed.
    pub(crate) const TIME: u32 = 2 << SHIFT;
    /// Runs of items are reported to hooks.
    pub(crate) const RUNS: u32 = 4 << SHIFT;
}

/// Its first two bytes are the semaphore of all four probes, in the section where tools expect semaphores.
#[cfg_attr(not(cmwq_loom), unsafe(link_section = ".probes"))]
static SWITCH: CachePadded<AtomicU32> = CachePadded::new(AtomicU32::new(0));

/// 0: no tool observes.
#[inline(always)]
pub(crate) fn switch() -> u32 {
    // Relaxed: a hint. A tool that attaches may miss the very first events.
    SWITCH.load(Ordering::Relaxed)
}

/// Whether the recorder or a tool wants events.
#[inline(always)]
pub(crate) fn events_wanted() -> bool {
    switch() & !bits::TIME != 0
}

pub(crate) fn set(bit: u32, on: bool) {
    if on {
        SWITCH.fetch_or(bit, Ordering::Relaxed);
    } else {
        SWITCH.fetch_and(!bit, Ordering::Relaxed);
    }
}

#[cfg(all(
    not(cmwq_loom),
    not(miri),
    any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64"
    )
))]
macro_rules! probe {
    ($name:literal, $($arg:expr),+) => {
        #[cfg(target_arch = "x86_64")]
        probe!(@asm [att_syntax] $name, $($arg),+);
        #[cfg(not(target_arch = "x86_64"))]
        probe!(@asm [] $name, $($arg),+);
    };
    (@asm [$($syntax:ident)?] $name:literal, $first:expr $(, $arg:expr)*) => {
        // SAFETY: one instruction that does nothing; the rest goes to sections that are not loaded,
        // except one byte of the base that the format requires. The registers are only named.
        unsafe {
            core::arch::asm!(
                concat!(
                    "990: nop\n",
                    ".pushsection .note.stapsdt,\"?\",\"note\"\n",
                    ".balign 4\n",
                    ".4byte 992f-991f, 994f-993f, 3\n",
                    "991: .asciz \"stapsdt\"\n",
                    "992: .balign 4\n",
                    "993: .8byte 990b\n",
                    ".8byte _.stapsdt.base\n",
                    ".8byte {semaphore}\n",
                    ".asciz \"cmwq\"\n",
                    ".asciz \"", $name, "\"\n",
                    ".asciz \"-8@{}", $(probe!(@more $arg),)* "\"\n",
                    "994: .balign 4\n",
                    ".popsection\n",
                    ".ifndef _.stapsdt.base\n",
                    ".pushsection .stapsdt.base,\"aGR\",\"progbits\",.stapsdt.base,comdat\n",
                    ".weak _.stapsdt.base\n",
                    ".hidden _.stapsdt.base\n",
                    "_.stapsdt.base: .space 1\n",
                    ".size _.stapsdt.base, 1\n",
                    ".popsection\n",
                    ".endif\n",
                ),
                in(reg) $first as isize,
                $(in(reg) $arg as isize,)*
                semaphore = sym SWITCH,
                options(readonly, nostack, preserves_flags $(, $syntax)?),
            );
        }
    };
    (@more $arg:expr) => { " -8@{}" };
}

#[cfg(not(all(
    not(cmwq_loom),
    not(miri),
    any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64"
    )
)))]
macro_rules! probe {
    ($name:literal, $($arg:expr),+) => { $(let _ = $arg;)+ };
}

/// An instance of an item was accepted. `name`: the queue's, ending with 0. CPUs: the requested one
/// and the pool's, -1 for any.
#[inline(never)]
pub(crate) fn workqueue_queue_work(
    item: usize,
    func: usize,
    name: &std::ffi::CStr,
    requested_cpu: i32,
    cpu: i32,
) {
    probe!(
        "workqueue_queue_work",
        item,
        func,
        name.as_ptr(),
        requested_cpu,
        cpu
    );
}

/// An instance became active.
#[inline(never)]
pub(crate) fn workqueue_activate_work(item: usize, func: usize) {
    probe!("workqueue_activate_work", item, func);
}

/// The item's function is about to be called.
#[inline(never)]
pub(crate) fn workqueue_execute_start(item: usize, func: usize) {
    probe!("workqueue_execute_start", item, func);
}

/// The function has returned. The item may be freed: use its address only to compare.
#[inline(never)]
pub(crate) fn workqueue_execute_end(item: usize, func: usize) {
    probe!("workqueue_execute_end", item, func);
}
