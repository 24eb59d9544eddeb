//! What threads of this process do, as far as the system tells. The threads themselves are not involved.

use crate::trace::on_one_line;
use std::fmt::Write as _;
use std::fs;

/// One line on a thread, and its kernel stack if that may be read (a privilege), otherwise its system call.
pub(in crate::pool) fn describe(text: &mut String, tid: i32) {
    let read = |file: &str| {
        fs::read_to_string(format!("/proc/self/task/{tid}/{file}")).unwrap_or_default()
    };
    let stat = read("stat");
    // The name may contain anything.
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    let Some(state) = state else {
        let _ = writeln!(text, "  {tid} has ended");
        return;
    };
    let name = read("comm");
    let name = on_one_line(name.trim_end());
    let _ = write!(text, "  {tid} {name} state {state}");
    // "0": in no function.
    match read("wchan").trim_end() {
        "" | "0" => {}
        place => {
            let _ = write!(text, " in {place}");
        }
    }
    text.push('\n');
    let stack = read("stack");
    if !stack.trim().is_empty() {
        for frame in stack.lines() {
            let _ = writeln!(text, "    {frame}");
        }
        return;
    }
    let call = read("syscall");
    match call.split_whitespace().next() {
        Some("running") => text.push_str("    running\n"),
        Some(number) if number != "-1" => {
            let _ = writeln!(text, "    in system call {number}");
        }
        _ => {}
    }
}
