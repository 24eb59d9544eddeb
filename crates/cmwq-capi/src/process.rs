//! The calling thread, and the whole process.

use crate::call::{Call, Wrong, abi, beside};
use cmwq::{Engine, Error};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io::Write;

/// The CPU that the caller is on.
pub(crate) fn real_cpu() -> usize {
    // SAFETY: takes no arguments.
    usize::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(0)
}

/// Nanoseconds of the clock that delays are counted by.
pub(crate) fn now_ns() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is valid for writes; the clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(feature = "control")]
fn serve_if_asked(call: &'static Call) -> c_int {
    match cmwq_control::serve_if_asked() {
        Ok(None) => 0,
        Ok(Some(control)) => {
            // For as long as the process lives.
            std::mem::forget(control);
            1
        }
        Err(error) => {
            call.warn(Wrong::Unsuitable, || error.to_string());
            -error.code()
        }
    }
}

/// The small library has no endpoint, and says so to those who ask for it.
#[cfg(not(feature = "control"))]
fn serve_if_asked(call: &'static Call) -> c_int {
    match std::env::var_os("CMWQ_CONTROL") {
        Some(asked) if !asked.is_empty() && asked != "0" => {
            let text = "this libcmwq was built without the control endpoint (install --small)";
            call.warn(Wrong::Unsuitable, || text.to_owned());
            -libc::ENOSYS
        }
        _ => 0,
    }
}

/// A C program's handler of warnings and what it wants to be called with.
struct Handler(
    unsafe extern "C-unwind" fn(*const c_char, *mut c_void),
    *mut c_void,
);

// SAFETY: the header says that any thread may call it.
unsafe impl Send for Handler {}
// SAFETY: as above.
unsafe impl Sync for Handler {}

impl Handler {
    fn call(&self, text: &str) {
        let text = CString::new(text.replace('\0', "?")).unwrap_or_default();
        // SAFETY: the header asks for a function that may be called with a string and this argument.
        let _ = cmwq::raw::call_c(|| unsafe { (self.0)(text.as_ptr(), self.1) });
    }
}

/// Writes to standard error; where that cannot be written the text is lost.
fn print(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// See `cmwq_blocking` in cmwq.h. By hand: what ends the thread inside `func` has to go on behind
/// the net under the function's body.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cmwq_blocking(
    func: Option<unsafe extern "C-unwind" fn(*mut c_void)>,
    arg: *mut c_void,
) {
    static CALL: Call = Call::new("cmwq_blocking");
    let end = CALL.run(|call| match func {
        Some(func) => {
            // SAFETY: the header asks for a function that may be called with the argument.
            let returns = || cmwq::raw::call_c_anywhere(|| unsafe { func(arg) });
            cmwq::blocking(returns).err()
        }
        None => call.wrong(Wrong::NullArgument, "the function is NULL"),
    });
    if let Some(end) = end {
        // SAFETY: it is this thread's, nothing here has a destructor, and the caller is C.
        unsafe { end.go_on() };
    }
}

abi! {
    fn cmwq_current_is_rescuer(_call) -> bool {
        cmwq::raw::current_is_rescuer()
    }

    fn cmwq_current_is_mem_reclaim(_call) -> bool {
        cmwq::raw::current_is_mem_reclaim()
    }

    fn cmwq_set_worker_desc(call, desc: *const c_char) {
        if desc.is_null() {
            return call.wrong(Wrong::NullArgument, "the description is NULL");
        }
        // SAFETY: the header asks for a string.
        let desc = unsafe { CStr::from_ptr(desc) };
        cmwq::observe::set_worker_desc(&desc.to_string_lossy());
    }

    fn cmwq_current_cpu(_call) -> c_int {
        real_cpu() as c_int
    }

    fn cmwq_reset_signal_mask(_call) -> c_int {
        match cmwq::raw::reset_signal_mask() {
            Ok(()) => 0,
            Err(error) => -error.raw_os_error().unwrap_or(libc::EINVAL),
        }
    }

    fn cmwq_sleep_ns(_call, ns: u64) {
        cmwq::blocking(|| std::thread::sleep(std::time::Duration::from_nanos(ns)));
    }

    fn cmwq_set_warning_handler(_call, handler: Option<unsafe extern "C-unwind" fn(*const c_char, *mut c_void)>, arg: *mut c_void) {
        match handler {
            Some(handler) => {
                let handler = Handler(handler, arg);
                cmwq::observe::set_warning_handler(move |text| handler.call(text));
            }
            None => {
                cmwq::observe::set_warning_handler(|text| {
                    print(&format!("cmwq: warning: {text}\n"));
                });
            }
        }
    }

    fn cmwq_freeze_workqueues_begin(call) -> c_int {
        match Engine::global() {
            Ok(engine) => {
                engine.freeze_workqueues_begin();
                0
            }
            Err(error) => call.error(&error),
        }
    }

    fn cmwq_freeze_workqueues_busy(call) -> bool {
        match beside(Engine::global) {
            Ok(engine) => engine.freeze_workqueues_busy(),
            Err(error) => call.error::<bool>(&error),
        }
    }

    fn cmwq_thaw_workqueues(call) -> c_int {
        match Engine::global() {
            Ok(engine) => {
                engine.thaw_workqueues();
                0
            }
            Err(error) => call.error(&error),
        }
    }

    fn cmwq_show_all_workqueues(call) {
        let shown: Result<(), Error> = Engine::global().map(|engine| print(&engine.dump().to_string()));
        if let Err(error) = shown {
            call.error::<()>(&error);
        }
    }

    fn cmwq_show_freezable_workqueues(call) {
        let shown: Result<(), Error> =
            Engine::global().map(|engine| print(&engine.dump_freezable().to_string()));
        if let Err(error) = shown {
            call.error::<()>(&error);
        }
    }

    fn cmwq_serve_control_if_asked(call) -> c_int {
        serve_if_asked(call)
    }

    fn cmwq_now_ns(_call) -> u64 {
        now_ns()
    }
}
