//! A process to try the commands on: four workqueues under a light load, served until it is killed
//! or for as many seconds as its argument says. With `CMWQ_CONTROL=1
//! CMWQ_CONTROL_HTTP=127.0.0.1:9464` its metrics are served there too.
//!
//! `cargo run --release -p cmwq-control --example serve`, and then `cmwq top` in another terminal.

use cmwq::{Engine, Work};
use std::time::{Duration, Instant};

/// Between two bursts.
const PAUSE: Duration = Duration::from_millis(2);

fn busy_for(time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}

fn read_block() {
    busy_for(Duration::from_micros(2));
}

fn encrypt_block() {
    busy_for(Duration::from_micros(50));
}

fn write_record() {}

fn wait_for_the_disk() {
    std::thread::sleep(Duration::from_millis(30));
}

/// Tools show the function's name, and the place of the call.
#[track_caller]
fn items(count: usize, work: impl Fn() + Copy + Send + Sync + 'static) -> Vec<Work> {
    let mut items = Vec::with_capacity(count);
    for _ in 0..count {
        items.push(Work::new(work));
    }
    items
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds = match std::env::args().nth(1) {
        Some(text) => text.parse()?,
        None => u64::MAX / 4,
    };
    // As the environment asks; without being asked as well.
    let control = match cmwq_control::serve_if_asked()? {
        Some(control) => control,
        None => cmwq_control::serve()?,
    };
    println!(
        "process {} serves at {}",
        std::process::id(),
        control.path().display()
    );
    let engine = Engine::global()?;
    let io = engine.workqueue("io").mem_reclaim().build()?;
    let crypt = engine.workqueue("crypt").cpu_intensive().build()?;
    let commit = engine
        .workqueue("commit")
        .ordered()
        .max_waiting(64)
        .build()?;
    let timers = engine.workqueue("timers").per_cpu().build()?;
    let short = items(64, read_block);
    let long = items(8, encrypt_block);
    let in_turn = items(16, write_record);
    let naps = items(1, wait_for_the_disk);
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        for (queue, works) in [
            (&io, &short),
            (&crypt, &long),
            (&commit, &in_turn),
            (&timers, &naps),
        ] {
            for work in works {
                let _ = queue.queue(work);
            }
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}
