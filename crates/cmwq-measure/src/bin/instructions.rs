//! Something for `scripts/instructions` to count: many items by one of three ways, one thread at a
//! time having anything to do.
//!
//! `instructions work N`: reusable items are queued on a frozen queue, a thousand at a time, which
//! is then thawed and flushed, until N have run. `quiet`: the same, but the thread says before each
//! item that it waits, so it does not count as one that floods. `spawn`: as `work` with closures
//! whose handles are dropped. `join`: N closures, each joined at once.

use cmwq::{Engine, Work};
use std::hint::black_box;
use std::process::ExitCode;

/// Items that are queued before they run.
const ROUND: usize = 1000;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let way = arguments.first().map(String::as_str);
    let number = arguments.get(1).and_then(|number| number.parse().ok());
    let (Some(way @ ("work" | "quiet" | "spawn" | "join")), Some(number)) = (way, number) else {
        eprintln!("usage: instructions work|quiet|spawn|join NUMBER");
        return ExitCode::from(2);
    };
    match run(way, number) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("instructions: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(way: &str, number: usize) -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::builder().build()?;
    let queue = engine
        .workqueue("instructions")
        .freezable()
        .max_active(cmwq::raw::WQ_MAX_ACTIVE)
        .build()?;
    if way == "join" {
        for item in 0..number {
            queue.spawn(move || black_box(item)).join()?;
        }
        return Ok(());
    }
    let works: Vec<Work> = (0..ROUND)
        .map(|item| {
            Work::new(move || {
                black_box(item);
            })
        })
        .collect();
    for _ in 0..number.div_ceil(ROUND) {
        // All are queued before the first runs: nobody looks for work, waits awake or sleeps in between.
        engine.freeze_workqueues_begin();
        for (item, work) in works.iter().enumerate() {
            if way == "quiet" {
                cmwq::blocking(|| ());
            }
            if way == "work" || way == "quiet" {
                let _ = queue.queue(work);
            } else {
                drop(queue.spawn(move || {
                    black_box(item);
                }));
            }
        }
        engine.thaw_workqueues();
        queue.flush()?;
    }
    Ok(())
}
