//! What it costs a short program to hand one closure to a pool of threads: see README.md.
//!
//! The program runs itself, once for each way in turns, and each run is a process of its own. All
//! ways are in one executable, so that loading it takes each of them equally long.

use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

const WAYS: [(&str, fn()); 6] = [
    ("nothing", || ()),
    ("a thread", thread),
    ("rayon", with_rayon),
    ("spawn_blocking", spawn_blocking),
    ("cmwq, execute", execute),
    ("cmwq, awaited", awaited),
];

fn thread() {
    assert_eq!(std::thread::spawn(answer).join().expect("it ends"), 42);
}

fn with_rayon() {
    let (sender, receiver) = std::sync::mpsc::channel();
    rayon::spawn(move || sender.send(answer()).expect("it is awaited"));
    assert_eq!(receiver.recv(), Ok(42));
}

fn spawn_blocking() {
    let result = executor().block_on(async { tokio::task::spawn_blocking(answer).await });
    assert_eq!(result.expect("it ends"), 42);
}

fn execute() {
    let queue = cmwq::Workqueue::builder("start").build().expect("a queue");
    let (sender, receiver) = std::sync::mpsc::channel();
    let job = move || sender.send(answer()).expect("it is awaited");
    queue.execute(job).expect("accepted");
    assert_eq!(receiver.recv(), Ok(42));
}

fn awaited() {
    let queue = cmwq::Workqueue::builder("start").build().expect("a queue");
    let result = executor().block_on(async { queue.spawn(answer).await });
    assert_eq!(result.expect("it ends"), 42);
}

fn answer() -> u32 {
    std::hint::black_box(42)
}

fn executor() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.build().expect("a runtime")
}

/// One run of a way, in microseconds.
#[derive(Clone, Copy)]
struct Sample {
    /// From the start of the process to its end.
    whole: u64,
    /// From the beginning of `main` to the result.
    result: u64,
    cpu: u64,
}

fn sample(way: &str) -> Sample {
    let cpu_before = cpu_of_children();
    let begun = Instant::now();
    let own = std::env::current_exe().expect("this program");
    let mut command = Command::new(own);
    command.args(["--one", way]).stdin(Stdio::null());
    let output = command.output().expect("it starts");
    let whole = begun.elapsed().as_micros() as u64;
    assert!(output.status.success(), "{way}: {output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    Sample {
        whole,
        result: text.trim().parse().expect("a number"),
        cpu: cpu_of_children() - cpu_before,
    }
}

/// The CPU time of all children that have ended, in microseconds.
fn cpu_of_children() -> u64 {
    // SAFETY: the call fills in plain data.
    let used = unsafe {
        let mut used: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut used);
        used
    };
    let micros = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
    micros(used.ru_utime) + micros(used.ru_stime)
}

/// The value below which a quarter, a half and three quarters of the samples are.
fn quartiles(samples: &[Sample], of: impl Fn(&Sample) -> u64) -> [u64; 3] {
    let mut values: Vec<u64> = samples.iter().map(of).collect();
    values.sort_unstable();
    [1, 2, 3].map(|quarter| values[(values.len() - 1) * quarter / 4])
}

fn compare(rounds: usize) {
    let mut samples = [const { Vec::new() }; WAYS.len()];
    for round in 0..=rounds {
        for turn in 0..WAYS.len() {
            let at = (turn + round) % WAYS.len();
            let one = sample(WAYS[at].0);
            // The first round only warms up.
            if round > 0 {
                samples[at].push(one);
            }
        }
    }
    println!("| way | process, µs (middle half) | main to result, µs | CPU, µs |");
    println!("|---|--:|--:|--:|");
    for ((name, _), samples) in WAYS.iter().zip(&samples) {
        let [low, whole, high] = quartiles(samples, |sample| sample.whole);
        let [_, result, _] = quartiles(samples, |sample| sample.result);
        let [_, cpu, _] = quartiles(samples, |sample| sample.cpu);
        println!("| {name} | {whole} ({low} to {high}) | {result} | {cpu} |");
    }
}

fn main() -> ExitCode {
    let begun = Instant::now();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["--one", way] => {
            let Some((_, run)) = WAYS.iter().find(|(name, _)| *name == way) else {
                return ExitCode::from(2);
            };
            run();
            println!("{}", begun.elapsed().as_micros());
        }
        [] => compare(300),
        ["--rounds", number] if number.parse().is_ok_and(|number: usize| number > 0) => {
            compare(number.parse().unwrap_or(1));
        }
        _ => {
            eprintln!("usage: benches/start/run [--rounds N]   (default 300)");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
