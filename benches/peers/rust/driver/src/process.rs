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
    /// Look at the number of threads.
    pub(crate) threads: bool,
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
    let status = child.wait().map_err(|error| error.to_string())?;
    let (line, extra) = result?;
    if !status.success() {
        let mut complaint = String::new();
        if let Some(mut stderr) = child.stderr.take() {
            let _ = stderr.read_to_string(&mut complaint);
        }
        return Err(complaint.lines().last().unwrap_or("it failed").to_owned());
    }
    let mut figures: Figures =
        serde_json::from_str(&line).map_err(|error| format!("its figures: {error}"))?;
    figures.extend(extra);
    Ok(figures)
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
        if watch.threads {
            most_threads = most_threads.max(threads(child.id()).unwrap_or(0.0));
        }
    }
    if watch.threads {
        figures.insert("threads".to_owned(), most_threads);
    }
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
