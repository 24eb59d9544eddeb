//! What an idle process costs: ten workqueues, each used once, then ten seconds of nothing.
//!
//! `cargo run --release -p cmwq-measure --bin idle`
//!
//! CPU time is that of the whole process, with all its workers and the service thread. A second
//! number says how it would look without workqueues: the same process, before it made any.

use cmwq::{Engine, Workqueue};
use rustix::time::{ClockId, clock_gettime};
use std::error::Error;
use std::thread::sleep;
use std::time::Duration;

const QUEUES: usize = 10;
const IDLE_FOR: Duration = Duration::from_secs(10);

fn main() -> Result<(), Box<dyn Error>> {
    let before = cpu_time_while_asleep(Duration::from_secs(1));
    println!(
        "no workqueue yet: {before:?} of CPU time in {:?}",
        Duration::from_secs(1)
    );

    let queues: Vec<Workqueue> = (0..QUEUES)
        .map(|number| Workqueue::builder(&format!("idle{number}")).build())
        .collect::<Result<_, _>>()?;
    for queue in &queues {
        queue.spawn(|| ()).join()?;
    }

    let idle = cpu_time_while_asleep(IDLE_FOR);
    let stats = Engine::global()?.stats();
    println!(
        "{QUEUES} workqueues, {} pools, {} workers: {idle:?} of CPU time in {IDLE_FOR:?}",
        stats.pools, stats.workers
    );
    if idle > IDLE_FOR / 1000 {
        return Err("that is more than a thousandth of the time: something is awake".into());
    }
    Ok(())
}

/// CPU time that the process uses while this thread sleeps.
fn cpu_time_while_asleep(time: Duration) -> Duration {
    let start = process_cpu_time();
    sleep(time);
    process_cpu_time().saturating_sub(start)
}

fn process_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}
