//! Calls of code that may end its thread: `pthread_exit()`, or a cancellation by
//! `pthread_cancel()`. Python up to 3.13 does the former to each thread that wants to run Python
//! code while the interpreter ends.
//!
//! glibc ends a thread by unwinding its stack as for an exception ("forced unwinding"), down to the
//! thread's first frame. Rust cannot take part: `catch_unwind` aborts when such an exception comes
//! by, and frames with destructors must not be passed. So the unwinding has to end before it
//! reaches a frame of Rust. It passes one frame that is no Rust: [`enter`], between the library and
//! the program's function. Its personality routine, which the unwinder asks at each frame, says
//! that the unwinding ends here, and lets `enter` return 1. By then the frames of the program's
//! function are unwound: its cleanup handlers and destructors have run. The library accounts for
//! the item, and the thread leaves its pool and ends by returning from its first function, which
//! runs the destructors of thread-specific data as `pthread_exit()` does.
//!
//! glibc has marked the thread as exiting meanwhile, so it is not cancelled again. It also
//! remembers the innermost cleanup handler of the thread, where a later `pthread_exit()`, of a hook
//! for the thread's end for example, would begin: [`Handlers`] is what it remembered before the
//! call. A panic, or an exception of C++, passes `enter` as if it were not there. musl does not
//! unwind: `pthread_exit()` there ends the thread at once, and the item never ends.

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::panic::resume_unwind;

type Function = unsafe extern "C-unwind" fn(*mut c_void);

thread_local! {
    /// Whether the library has made this thread, and so may end it.
    static OWN: Cell<bool> = const { Cell::new(false) };
    /// The cleanup handlers that a thread has when it begins: none.
    static NO_HANDLERS: Handlers = const { Handlers::new() };
    static ENDS: Cell<bool> = const { Cell::new(false) };
}

/// Marks the calling thread as one of the library's.
pub(super) fn own_thread() {
    OWN.set(true);
    NO_HANDLERS.with(Handlers::save);
}

/// Whether an item has ended the calling thread, which must leave its pool.
pub(crate) fn thread_ends() -> bool {
    ENDS.get()
}

/// Calls `func(argument)`, an item's function. An error if it has ended its thread.
///
/// # Safety
/// `func` may be called with `argument`.
#[inline]
pub(crate) unsafe fn call_item(
    argument: *mut c_void,
    func: Function,
) -> Result<(), Box<dyn Any + Send>> {
    // SAFETY: by the caller's promise.
    match unsafe { enter(argument, func) } {
        0 => Ok(()),
        _ => Err(ended()),
    }
}

#[cold]
fn ended() -> Box<dyn Any + Send> {
    must_be_own();
    NO_HANDLERS.with(Handlers::restore);
    ENDS.set(true);
    Box::new("the item has ended its thread")
}

/// Aborts if an item has ended a thread of the program. The library must not end such a thread; nor
/// can the unwinding go on, since frames of Rust are in between.
fn must_be_own() {
    if !OWN.get() {
        eprintln!(
            "cmwq: pthread_exit() or a cancellation in an item that a waiting thread of the program runs"
        );
        std::process::abort();
    }
}

/// Calls C code of the program other than an item's function: `None` if it has ended its thread,
/// which goes on nevertheless. The closure only makes the call: it is unwound as C would be.
///
/// A thread of the program is not cancelled meanwhile, but afterwards: who cancels it may wait for its end.
pub fn call<T: Copy>(code: impl FnOnce() -> T + Copy) -> Option<T> {
    let _uncancelled = (!OWN.get()).then(Uncancelled::begin);
    call_anywhere(code).ok()
}

/// As [`call`], and cancellations have their effect: the caller goes on, or ends the thread by
/// [`ThreadEnd::go_on`].
pub fn call_anywhere<T: Copy>(code: impl FnOnce() -> T + Copy) -> Result<T, ThreadEnd> {
    let handlers = Handlers::new();
    handlers.save();
    enter_with(code).ok_or_else(|| {
        handlers.restore();
        ThreadEnd(())
    })
}

/// The end of the calling thread, which was stopped.
pub struct ThreadEnd(());

impl ThreadEnd {
    /// Goes on with it. The thread's value is still that which it was ended with: the argument of
    /// `pthread_exit()`, or `PTHREAD_CANCELED`.
    ///
    /// # Safety
    /// The thread is the one that was to be ended, and between the caller and the code that has
    /// called it no frame has a destructor of Rust.
    pub unsafe fn go_on(self) -> ! {
        #[cfg(target_env = "gnu")]
        {
            let handlers = Handlers::new();
            handlers.save();
            // SAFETY: this is what pthread_cleanup_push() of <pthread.h> expands to for the end of
            // a handler. It reads which handler comes next, which was noted just now. The thread
            // has its value since it was ended first, so there is nothing to be given again.
            unsafe { __pthread_unwind_next(handlers.0.get().cast()) }
        }
        // SAFETY: by the caller's promise. Not reached: no end is stopped there.
        #[cfg(not(target_env = "gnu"))]
        unsafe {
            pthread_exit(std::ptr::null_mut())
        }
    }
}

/// While there is one, a cancellation of the calling thread waits.
struct Uncancelled {
    before: c_int,
}

impl Uncancelled {
    fn begin() -> Self {
        /// `PTHREAD_CANCEL_DISABLE`, in glibc and musl.
        const DISABLE: c_int = 1;
        let mut before = 0;
        // SAFETY: `before` may be written.
        unsafe { pthread_setcancelstate(DISABLE, &mut before) };
        Uncancelled { before }
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        // SAFETY: what it was before. Nothing is cancelled here, unless the thread may be cancelled
        // at any moment, which it must not be in a call of the library.
        unsafe { pthread_setcancelstate(self.before, std::ptr::null_mut()) };
    }
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// Calls C code of the program that is an item's function: if it has ended its thread, the item
/// ends here, and then the thread.
#[inline]
pub fn call_item_code<T: Copy>(code: impl FnOnce() -> T + Copy) -> T {
    enter_with(code).unwrap_or_else(|| end_item())
}

#[inline]
fn enter_with<T: Copy>(code: impl FnOnce() -> T + Copy) -> Option<T> {
    struct Call<F, T> {
        code: F,
        result: MaybeUninit<T>,
    }
    unsafe extern "C-unwind" fn run<F: FnOnce() -> T + Copy, T: Copy>(call: *mut c_void) {
        let call = call.cast::<Call<F, T>>();
        // SAFETY: the call below, which waits for this one. Nothing here has a destructor.
        unsafe {
            let result = ((*call).code)();
            (&raw mut (*call).result).write(MaybeUninit::new(result));
        }
    }
    fn begin<F: FnOnce() -> T + Copy, T: Copy>(call: &mut Call<F, T>) -> u32 {
        // SAFETY: `run` is for just this argument.
        unsafe { enter((&raw mut *call).cast(), run::<F, T>) }
    }
    let mut call = Call {
        code,
        result: MaybeUninit::uninit(),
    };
    match begin(&mut call) {
        // SAFETY: `run` has returned, and so written it.
        0 => Some(unsafe { call.result.assume_init() }),
        _ => None,
    }
}

/// The innermost cleanup handler of a thread (`pthread_cleanup_push()`), as glibc remembers it.
#[repr(align(16))]
struct Handlers(#[cfg_attr(not(target_env = "gnu"), allow(dead_code))] UnsafeCell<[usize; 32]>);

impl Handlers {
    const fn new() -> Self {
        Handlers(UnsafeCell::new([0; 32]))
    }

    #[cfg(target_env = "gnu")]
    fn save(&self) {
        let buffer = self.0.get().cast();
        // SAFETY: the two functions are what pthread_cleanup_push() and pthread_cleanup_pop() of
        // <pthread.h> expand to. The buffer is as large as that header's or larger (104 bytes, on
        // Arm 216); the former function notes in it what was innermost, the latter makes that
        // innermost again.
        unsafe {
            __pthread_register_cancel(buffer);
            __pthread_unregister_cancel(buffer);
        }
    }

    /// Makes innermost what was when this was saved.
    #[cfg(target_env = "gnu")]
    fn restore(&self) {
        // SAFETY: as above; it was saved.
        unsafe { __pthread_unregister_cancel(self.0.get().cast()) };
    }

    #[cfg(not(target_env = "gnu"))]
    fn save(&self) {}

    #[cfg(not(target_env = "gnu"))]
    fn restore(&self) {}
}

#[cfg(target_env = "gnu")]
unsafe extern "C" {
    fn __pthread_register_cancel(buffer: *mut c_void);
    fn __pthread_unregister_cancel(buffer: *mut c_void);
}

#[cfg(target_env = "gnu")]
unsafe extern "C-unwind" {
    fn __pthread_unwind_next(buffer: *mut c_void) -> !;
}

#[cfg(not(target_env = "gnu"))]
unsafe extern "C-unwind" {
    fn pthread_exit(value: *mut c_void) -> !;
}

/// Ends the item that the calling thread runs, and then the thread: for code of an item that was
/// called with [`call`].
pub fn end_item() -> ! {
    resume_unwind(ended())
}

/// Calls `func(argument)`. 0: it has returned; 1: it has ended its thread.
///
/// # Safety
/// `func` may be called with `argument`.
#[cfg(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(cmwq_loom, cmwq_sim, miri))
))]
#[unsafe(naked)]
unsafe extern "C-unwind" fn enter(argument: *mut c_void, func: Function) -> u32 {
    // The unwinder describes frames in .eh_frame: 0x1b is an address of four bytes, relative to its place.
    #[cfg(target_arch = "x86_64")]
    std::arch::naked_asm!(
        ".cfi_startproc",
        ".cfi_personality 0x1b, {personality}",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        "call rsi",
        // `AFTER_CLEAR` skips this.
        "xor eax, eax",
        "pop rbp",
        ".cfi_def_cfa_offset 8",
        ".cfi_restore rbp",
        "ret",
        ".cfi_endproc",
        personality = sym personality,
    );
    #[cfg(target_arch = "aarch64")]
    std::arch::naked_asm!(
        ".cfi_startproc",
        ".cfi_personality 0x1b, {personality}",
        "stp x29, x30, [sp, #-16]!",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset x29, -16",
        ".cfi_offset x30, -8",
        "mov x29, sp",
        "blr x1",
        // `AFTER_CLEAR` skips this.
        "mov w0, #0",
        "ldp x29, x30, [sp], #16",
        ".cfi_def_cfa_offset 0",
        ".cfi_restore x29",
        ".cfi_restore x30",
        "ret",
        ".cfi_endproc",
        personality = sym personality,
    );
}

/// The personality routine of [`enter`]: what the unwinder has to do at its frame.
#[cfg(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(cmwq_loom, cmwq_sim, miri))
))]
unsafe extern "C" fn personality(
    _version: i32,
    actions: i32,
    _class: u64,
    _exception: *mut c_void,
    context: *mut c_void,
) -> i32 {
    // From the C++ ABI for exceptions, which the unwinder follows for all languages.
    const CLEANUP_PHASE: i32 = 2;
    const FORCE_UNWIND: i32 = 8;
    const INSTALL_CONTEXT: i32 = 7;
    const CONTINUE_UNWIND: i32 = 8;
    /// The register of the return value, by the numbers of DWARF: RAX and X0.
    const RESULT: i32 = 0;
    /// The bytes of the instruction behind the call, which clears that register.
    const AFTER_CLEAR: usize = if cfg!(target_arch = "x86_64") { 2 } else { 4 };
    unsafe extern "C" {
        fn _Unwind_GetIP(context: *mut c_void) -> usize;
        fn _Unwind_SetIP(context: *mut c_void, address: usize);
        fn _Unwind_SetGR(context: *mut c_void, register: i32, value: usize);
    }
    if actions & CLEANUP_PHASE == 0 || actions & FORCE_UNWIND == 0 {
        return CONTINUE_UNWIND;
    }
    // SAFETY: the unwinder's own context; `enter` goes on behind its call, with 1 as what it returns.
    unsafe {
        let returned_to = _Unwind_GetIP(context);
        _Unwind_SetGR(context, RESULT, 1);
        _Unwind_SetIP(context, returned_to + AFTER_CLEAR);
    }
    INSTALL_CONTEXT
}

/// Where no thread is ended from inside.
#[cfg(any(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    cmwq_loom,
    cmwq_sim,
    miri
))]
unsafe fn enter(argument: *mut c_void, func: Function) -> u32 {
    // SAFETY: by the caller's promise.
    unsafe { func(argument) };
    0
}
