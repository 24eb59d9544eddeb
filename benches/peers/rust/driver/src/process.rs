//! One run: a process of its own, watched, and its figures.

use crate::programs::Program;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// Figures by name.
pub(crate) type Figures = BTreeMap<String, f64>;

/// What to watch while it runs.
pub(crate) struct Watch {
    /// When it says that it is idle, let it be for this long, and measure its CPU time.
    pub(crate) idle_time: Option<Duration>,
    /// It is stopped and has failed after this time.
    pub(crate) limit: Duration,
}

/// Time from the program's word that it is idle to the measurement: what was running comes to rest.
const SETTLING: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// CPU time that everybody has used since the machine started, and that its host took from it, in seconds.
fn busy_time() -> f64 {
    // user, nice, system, idle, waiting, interrupts, soft interrupts, stolen
    const BUSY: [bool; 8] = [true, true, true, false, false, true, true, true];
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let first = stat.lines().next().unwrap_or_default();
    let ticks: f64 = first
        .split_whitespace()
        .skip(1)
        .zip(BUSY)
        .filter(|(_, busy)| *busy)
        .filter_map(|(ticks, _)| ticks.parse::<f64>().ok())
        .sum();
    // SAFETY: it only returns a number.
    ticks / unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64
}

/// CPU time of this process and of its children that have ended, in seconds.
fn own_time() -> f64 {
    let of = |who| {
        // SAFETY: all zeroes is a value of it.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: writes to the variable that it is given.
        unsafe { libc::getrusage(who, &raw mut usage) };
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        seconds(usage.ru_utime) + seconds(usage.ru_stime)
    };
    of(libc::RUSAGE_SELF) + of(libc::RUSAGE_CHILDREN)
}

/// Runs the program and reads its line of JSON; adds how much of a CPU others took meanwhile, in percent.
pub(crate) fn run_beside(
    program: &Program,
    arguments: &[String],
    watch: &Watch,
) -> Result<Figures, String> {
    let (busy, own, start) = (busy_time(), own_time(), Instant::now());
    let mut figures = run(program, arguments, watch)?;
    let others = (busy_time() - busy) - (own_time() - own);
    let percent = others.max(0.0) / start.elapsed().as_secs_f64() * 100.0;
    figures.insert("others_percent".to_owned(), percent);
    Ok(figures)
}

/// Runs the program and reads its line of JSON.
pub(crate) fn run(
    program: &Program,
    arguments: &[String],
    watch: &Watch,
) -> Result<Figures, String> {
    let mut child = Command::new(&program.path)
        .args(&program.arguments)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{}: {error}", program.path.display()))?;
    let result = follow(&mut child, watch);
    if result.is_err() {
        // It may have ended already.
        let _ = child.kill();
    }
    let (is_success, usage) = reap(&child)?;
    let (line, extra) = result?;
    if !is_success {
        let mut complaint = String::new();
        if let Some(mut stderr) = child.stderr.take() {
            let _ = stderr.read_to_string(&mut complaint);
        }
        return Err(complaint.lines().last().unwrap_or("it failed").to_owned());
    }
    let mut figures: Figures =
        serde_json::from_str(&line).map_err(|error| format!("its figures: {error}"))?;
    // What the program has counted itself is of the measured time alone.
    for (key, value) in extra.into_iter().chain(costs(&figures, &usage)) {
        figures.entry(key).or_insert(value);
    }
    Ok(figures)
}

/// Waits for its end; whether it succeeded, and what it has used.
fn reap(child: &Child) -> Result<(bool, libc::rusage), String> {
    let pid = libc::pid_t::try_from(child.id()).map_err(|error| error.to_string())?;
    let mut status = 0;
    // SAFETY: all zeroes is a value of it.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: writes to the variables that it is given; nothing else waits for this child.
        if unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) } == pid {
            return Ok((
                libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
                usage,
            ));
        }
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(error.to_string());
        }
    }
}

/// What can be said of any program from outside. Context switches are those of the whole process, in
/// proportion to the CPU time that its measured items took.
fn costs(figures: &Figures, usage: &libc::rusage) -> Figures {
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    let cpu_s = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    let switches = (usage.ru_nvcsw + usage.ru_nivcsw) as f64;
    let mut costs = Figures::from([("peak_kib".to_owned(), usage.ru_maxrss as f64)]);
    let measured = |key: &str| figures.get(key).copied().filter(|&figure| figure > 0.0);
    if let (Some(items), Some(measured_s)) = (measured("items"), measured("cpu_s"))
        && cpu_s > 0.0
    {
        let per_item = switches / cpu_s * measured_s / items;
        costs.insert("switches_per_item".to_owned(), per_item);
    }
    costs
}

/// Reads its output until the end. Returns the last line, and what was seen from outside.
fn follow(child: &mut Child, watch: &Watch) -> Result<(String, Figures), String> {
    let (sender, lines) = mpsc::channel();
    let stdout = child.stdout.take().ok_or("no output")?;
    let stdin = child.stdin.take();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let deadline = Instant::now() + watch.limit;
    let (mut last, mut figures) = (String::new(), Figures::new());
    let mut most_threads = 0.0_f64;
    loop {
        match lines.recv_timeout(LOOK_EVERY) {
            Ok(line) if line == "idle" => {
                let cpu_us = rest(child.id(), watch, stdin.as_ref())?;
                figures.insert("idle_cpu_us".to_owned(), cpu_us);
            }
            Ok(line) => last = line,
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if Instant::now() >= deadline => {
                return Err(format!("stopped after {} s", watch.limit.as_secs()));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        most_threads = most_threads.max(threads(child.id()).unwrap_or(0.0));
    }
    figures.insert("threads".to_owned(), most_threads);
    Ok((last, figures))
}

/// Lets an idle process be, and returns the CPU time that it used, in microseconds.
fn rest(pid: u32, watch: &Watch, stdin: Option<&ChildStdin>) -> Result<f64, String> {
    let time = watch.idle_time.ok_or("it went idle unasked")?;
    thread::sleep(SETTLING);
    let before = cpu_time_of(pid)?;
    thread::sleep(time);
    let used = cpu_time_of(pid)?.saturating_sub(before);
    if let Some(mut stdin) = stdin {
        stdin.write_all(b"\n").map_err(|error| error.to_string())?;
    }
    Ok(used.as_secs_f64() * 1e6)
}

/// CPU time of another process.
fn cpu_time_of(pid: u32) -> Result<Duration, String> {
    let pid = libc::pid_t::try_from(pid).map_err(|error| error.to_string())?;
    let mut clock = 0;
    // SAFETY: writes to the variable that it is given.
    let error = unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) };
    if error != 0 {
        return Err(std::io::Error::from_raw_os_error(error).to_string());
    }
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes to the variable that it is given.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Err(std::io::Error::last_os_error().to_string());
    }
    Ok(Duration::new(
        time.tv_sec.unsigned_abs(),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    ))
}

fn threads(pid: u32) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("Threads:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Program {
        Program {
            path: "/bin/sh".into(),
            arguments: vec!["-c".to_owned(), script.to_owned()],
        }
    }

    const WATCH: Watch = Watch {
        idle_time: None,
        limit: Duration::from_secs(60),
    };

    #[test]
    fn a_program_that_counts_nothing_has_threads_memory_and_switches_all_the_same() {
        let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo '{\"items\":10,\"seconds\":1,\"cpu_s\":0.5}'";
        let figures = run(&shell(script), &[], &WATCH).expect("it runs");
        assert!(figures.contains_key("threads"), "{figures:?}");
        assert!(figures["peak_kib"] > 100.0, "{figures:?}");
        assert!(figures["switches_per_item"] > 0.0, "{figures:?}");
    }

    #[test]
    fn what_a_program_has_counted_itself_stands() {
        let script = "echo '{\"items\":10,\"cpu_s\":0.5,\"threads\":77,\"peak_kib\":5,\"switches_per_item\":3}'";
        let figures = run(&shell(script), &[], &WATCH).expect("it runs");
        assert_eq!(
            ["threads", "peak_kib", "switches_per_item"].map(|key| figures[key]),
            [77.0, 5.0, 3.0]
        );
    }

    #[test]
    fn a_program_that_fails_is_an_error_with_its_last_line() {
        let error = run(&shell("echo lost >&2; exit 3"), &[], &WATCH).unwrap_err();
        assert_eq!(error, "lost");
    }
}
