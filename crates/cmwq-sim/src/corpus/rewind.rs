//! Puts a process back to where it was: its memory, and the place where it runs.
//!
//! A fork before each run does the same, and takes the kernel longer than the run takes: it copies
//! page tables, and copies each page that the run writes when that happens. Here all writable
//! memory is made read-only once. The first write to a page comes as a signal; its handler copies
//! the page and makes it writable for good. Before the next run the copies are written back. After
//! a few runs no page is written for the first time any more.
//!
//! What the kernel knows of the process does not go back: a run must map no memory and open no
//! file. The memory of this module is shared, by which it is told from what goes back.

use super::snapshot::{Order, PATIENCE, Shared};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

const PAGE: usize = 4096;
/// Pages that runs write; a program has less than 200.
const PAGES: usize = 8_192;
/// Mappings that are writable; a process has less than 100.
const REGIONS: usize = 256;
const STACK: usize = 256 << 10;
/// More than a run allocates outside its machine.
const SPARE: usize = 64 << 20;

#[repr(C, align(4096))]
struct Store {
    machine: libc::ucontext_t,
    keeper: libc::ucontext_t,
    orders: libc::c_int,
    ends: libc::c_int,
    order: Order,
    told: Option<Shared>,
    /// Runs that the order still asks for, with the one that is on.
    left: u64,
    count: usize,
    regions: [(usize, usize); REGIONS],
    kept: usize,
    addresses: [usize; PAGES],
    /// The keeper's own, and the one of the signal's handler.
    stacks: [[u8; STACK]; 2],
    pages: [[u8; PAGE]; PAGES],
}

/// There if this process goes back.
static STORE: AtomicPtr<Store> = AtomicPtr::new(null_mut());

unsafe extern "C" {
    fn getcontext(at: *mut libc::ucontext_t) -> libc::c_int;
    fn setcontext(at: *const libc::ucontext_t) -> libc::c_int;
    fn makecontext(at: *mut libc::ucontext_t, start: extern "C" fn(), count: libc::c_int, ...);
    fn swapcontext(from: *mut libc::ucontext_t, to: *const libc::ucontext_t) -> libc::c_int;
}

/// Orders are read from one descriptor, and what the end of each run is told by is written to the
/// other. Returns in each run, with its order. The process has one thread.
///
/// # Errors
/// What the system refuses.
pub(super) fn serve(
    orders: libc::c_int,
    ends: libc::c_int,
    told: Shared,
) -> Result<Order, &'static str> {
    let store = Store::new().ok_or("no memory")?;
    STORE.store(store.as_ptr(), Relaxed);
    let order = prepare(store, orders, ends, told);
    if order.is_err() {
        STORE.store(null_mut(), Relaxed);
    }
    order
}

/// Whether this process goes back, by [`again`].
pub(super) fn is_used() -> bool {
    !STORE.load(Relaxed).is_null()
}

fn prepare(
    store: NonNull<Store>,
    orders: libc::c_int,
    ends: libc::c_int,
    told: Shared,
) -> Result<Order, &'static str> {
    // SAFETY: the mapping is there until the process ends, and this is the only thread. A context
    // is used after it was made. After each return of `swapcontext` all is as it was at its call,
    // but for what is in the store.
    unsafe {
        let store = store.as_ptr();
        ((*store).orders, (*store).ends, (*store).told) = (orders, ends, Some(told));
        keep_mappings();
        forget_rseq()?;
        catch_writes(store)?;
        find_regions(&mut *store)?;
        enter(store, first);
        swapcontext(&raw mut (*store).machine, &raw const (*store).keeper);
        Ok((&raw const (*store).order).read_volatile())
    }
}

/// This run has ended: the next one begins where [`serve`] returns.
pub(super) fn again() -> ! {
    let store = STORE.load(Relaxed);
    // SAFETY: `serve` has returned in this run, so the store is there; the keeper's stack is not in use.
    unsafe {
        enter(store, next);
        setcontext(&raw const (*store).keeper);
        libc::_exit(3)
    }
}

/// The keeper will begin with this function, on its own stack.
///
/// # Safety
/// The store is there, and its stack is not in use.
unsafe fn enter(store: *mut Store, start: extern "C" fn()) {
    // SAFETY: by the contract; `getcontext` makes what `makecontext` changes.
    unsafe {
        let keeper = &raw mut (*store).keeper;
        getcontext(keeper);
        (*keeper).uc_stack.ss_sp = (&raw mut (*store).stacks[0]).cast();
        (*keeper).uc_stack.ss_size = STACK;
        (*keeper).uc_link = null_mut();
        makecontext(keeper, start, 0);
    }
}

/// From here on memory is read-only until it is written.
extern "C" fn first() {
    let store = STORE.load(Relaxed);
    // SAFETY: this runs on the store's stack, and nothing else runs. The regions are mapped, and
    // the handler makes their pages writable again.
    unsafe {
        for at in 0..(*store).count {
            let (from, to) = (*store).regions[at];
            if libc::mprotect(from as *mut libc::c_void, to - from, libc::PROT_READ) != 0 {
                libc::_exit(4);
            }
        }
    }
    next();
}

extern "C" fn next() {
    let store = STORE.load(Relaxed);
    // SAFETY: this runs on the store's stack, and what is written back are pages that are writable.
    // System calls write to the store only.
    unsafe {
        let Some(told) = (*store).told else {
            libc::_exit(3)
        };
        for at in 0..(*store).kept {
            let to = (*store).addresses[at] as *mut [u8; PAGE];
            std::ptr::copy_nonoverlapping(&raw const (*store).pages[at], to, 1);
        }
        (*store).order.seed += 1;
        (*store).left = (*store).left.saturating_sub(1);
        if (*store).left == 0 || !told.has_passed() {
            libc::alarm(0);
            next_order(store);
        }
        told.begin();
        libc::alarm(PATIENCE);
        setcontext(&raw const (*store).machine);
        libc::_exit(3)
    }
}

/// Tells that the last order is over, if there was one, and waits for the next.
///
/// # Safety
/// The store is there.
unsafe fn next_order(store: *mut Store) {
    // SAFETY: by the contract; system calls write to the store only.
    unsafe {
        let order = (&raw mut (*store).order).cast::<u8>();
        if (*store).order.runs > 0 {
            let status = 0_i32;
            // The driver has gone if it does not read.
            libc::write((*store).ends, (&raw const status).cast(), size_of::<i32>());
        }
        let mut got = 0;
        while got < size_of::<Order>() {
            let rest = size_of::<Order>() - got;
            match libc::read((*store).orders, order.add(got).cast(), rest) {
                more if more > 0 => got += more as usize,
                // The driver wants no more runs.
                _ => libc::_exit(0),
            }
        }
        (*store).left = (*store).order.runs;
    }
}

/// Memory that the C library hands out comes from what it has, whatever its size: a run neither
/// maps memory nor gives any back.
fn keep_mappings() {
    // SAFETY: numbers alone. What is allocated and freed at once leaves room for all that a run allocates.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, libc::c_int::MAX);
        libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX);
        libc::free(std::hint::black_box(libc::malloc(SPARE)));
    }
}

/// The kernel writes to this part of a thread's memory when the thread moves to another CPU, and
/// ends the process if it is read-only.
fn forget_rseq() -> Result<(), &'static str> {
    const UNREGISTER: libc::c_int = 1;
    #[cfg(target_arch = "x86_64")]
    const SIGNATURE: u32 = 0x5305_3053;
    #[cfg(target_arch = "aarch64")]
    const SIGNATURE: u32 = 0xd428_bc00;
    let thread: usize;
    // SAFETY: reads a register, or the word that a thread's memory begins with by the ABI.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!("mov {}, fs:0", out(reg) thread);
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!("mrs {}, tpidr_el0", out(reg) thread);
    }
    // SAFETY: names of constants of the C library, if it has them.
    let (offset, size) = unsafe {
        let offset = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr());
        let size = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr());
        if offset.is_null() || size.is_null() {
            return Ok(());
        }
        (*offset.cast::<isize>(), *size.cast::<u32>())
    };
    // The size is the one of the fields that are used; it was registered with 32 bytes at least.
    for size in [size, 32] {
        let at = thread.wrapping_add_signed(offset);
        // SAFETY: the area that the C library has registered, or the call is refused.
        let refused = unsafe { libc::syscall(libc::SYS_rseq, at, size, UNREGISTER, SIGNATURE) };
        if size == 0 || refused == 0 {
            return Ok(());
        }
    }
    Err("the kernel goes on to write to the thread's memory")
}

/// The handler of writes runs on a stack of the store.
///
/// # Safety
/// The store is there.
unsafe fn catch_writes(store: *mut Store) -> Result<(), &'static str> {
    // SAFETY: zeros are an action without flags; the stack is there as long as the process.
    unsafe {
        let stack = libc::stack_t {
            ss_sp: (&raw mut (*store).stacks[1]).cast(),
            ss_flags: 0,
            ss_size: STACK,
        };
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = written as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        let done = libc::sigaltstack(&raw const stack, null_mut()) == 0
            && libc::sigaction(libc::SIGSEGV, &raw const action, null_mut()) == 0;
        done.then_some(()).ok_or("no handler of a signal")
    }
}

extern "C" fn written(_: libc::c_int, info: *const libc::siginfo_t, _: *mut libc::c_void) {
    let store = STORE.load(Relaxed);
    // SAFETY: the handler runs on the store's stack, on the only thread, for an access to this
    // address. The page was readable: it is one of the process's own regions.
    unsafe {
        let at = (*info).si_addr() as usize / PAGE * PAGE;
        let kept = (*store).kept;
        let is_ours = (&(*store).regions)[..(*store).count]
            .iter()
            .any(|&(from, to)| (from..to).contains(&at));
        let is_known = (&(*store).addresses)[..kept].contains(&at);
        if !is_ours || is_known || kept == PAGES {
            // A crash: it comes once more when this returns, and ends the process.
            libc::signal(libc::SIGSEGV, libc::SIG_DFL);
            return;
        }
        let page = at as *mut [u8; PAGE];
        std::ptr::copy_nonoverlapping(page, &raw mut (*store).pages[kept], 1);
        (*store).addresses[kept] = at;
        (*store).kept = kept + 1;
        libc::mprotect(page.cast(), PAGE, libc::PROT_READ | libc::PROT_WRITE);
    }
}

/// All writable memory that no other process has.
fn find_regions(store: &mut Store) -> Result<(), &'static str> {
    const UNREADABLE: &str = "the process's mappings cannot be read";
    let maps = std::fs::read_to_string("/proc/self/maps").map_err(|_| UNREADABLE)?;
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        let (range, rights) = (words.next(), words.next());
        if rights != Some("rw-p") {
            continue;
        }
        let range = range.and_then(|range| range.split_once('-'));
        let number = |text| usize::from_str_radix(text, 16).map_err(|_| UNREADABLE);
        let (from, to) = range.ok_or(UNREADABLE)?;
        let region = store.regions.get_mut(store.count);
        *region.ok_or("too many mappings")? = (number(from)?, number(to)?);
        store.count += 1;
    }
    Ok(())
}

impl Store {
    fn new() -> Option<NonNull<Store>> {
        // SAFETY: new memory. Zeros are numbers, and contexts that are not used before they are made.
        let made = unsafe {
            libc::mmap(
                null_mut(),
                size_of::<Store>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        match made == libc::MAP_FAILED {
            true => None,
            false => NonNull::new(made.cast()),
        }
    }
}
