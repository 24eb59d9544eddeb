//! Runs a program that some system calls are refused to, as sandboxes do: `refuse EPERM
//! sched_setaffinity,getcpu -- COMMAND...`
//!
//! For `scripts/places`. The filter is seccomp's; the program and all that it starts have it.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// Calls that the library or its programs make, and can do without.
const CALLS: [(&str, i64); 15] = [
    ("clone", libc::SYS_clone),
    ("clone3", libc::SYS_clone3),
    ("futex_waitv", libc::SYS_futex_waitv),
    ("getcpu", libc::SYS_getcpu),
    ("getpriority", libc::SYS_getpriority),
    ("io_uring_enter", libc::SYS_io_uring_enter),
    ("io_uring_setup", libc::SYS_io_uring_setup),
    ("membarrier", libc::SYS_membarrier),
    ("mlock", libc::SYS_mlock),
    ("rseq", libc::SYS_rseq),
    ("sched_getaffinity", libc::SYS_sched_getaffinity),
    ("sched_getattr", libc::SYS_sched_getattr),
    ("sched_setaffinity", libc::SYS_sched_setaffinity),
    ("sched_setattr", libc::SYS_sched_setattr),
    ("setpriority", libc::SYS_setpriority),
];

const USAGE: &str = "usage: refuse EPERM|ENOSYS CALL[,CALL...] -- COMMAND [ARGUMENT...]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(never) => match never {},
        Err(message) => {
            eprintln!("refuse: {message}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &[String]) -> Result<std::convert::Infallible, String> {
    let [errno, calls, dashes, program, rest @ ..] = arguments else {
        return Err(USAGE.to_owned());
    };
    if dashes != "--" {
        return Err(USAGE.to_owned());
    }
    let errno = match errno.as_str() {
        "EPERM" => libc::EPERM,
        "ENOSYS" => libc::ENOSYS,
        other => return Err(format!("{other} is not EPERM or ENOSYS")),
    };
    let number = |name: &str| {
        let known = CALLS.iter().find(|(own, _)| *own == name);
        let known = known.ok_or_else(|| {
            let all = CALLS.map(|(name, _)| name).join(", ");
            format!("{name} is none of {all}")
        });
        known.map(|(_, number)| *number)
    };
    let calls: Result<Vec<i64>, String> = calls.split(',').map(number).collect();
    install(&calls?, errno).map_err(|error| format!("the filter is refused: {error}"))?;
    let error = Command::new(program).args(rest).exec();
    Err(format!("{program}: {error}"))
}

fn install(calls: &[i64], errno: i32) -> std::io::Result<()> {
    let step = |code: u32, jf: u8, k: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf,
        k,
    };
    let end = |k: u32| step(libc::BPF_RET | libc::BPF_K, 0, k);
    // The call's number is the first word of what a filter sees.
    let mut filter = vec![step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0)];
    for &call in calls {
        filter.push(step(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            1,
            call as u32,
        ));
        filter.push(end(libc::SECCOMP_RET_ERRNO | errno as u32));
    }
    filter.push(end(libc::SECCOMP_RET_ALLOW));
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the program and its steps outlive the calls, which copy them.
    let result = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        let set = libc::SECCOMP_SET_MODE_FILTER;
        libc::syscall(libc::SYS_seccomp, set, 0, &raw const program)
    };
    match result {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}
