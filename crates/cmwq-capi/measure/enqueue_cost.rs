//! What `queue_raw()` costs a Rust program: the counterpart of enqueue_cost.c, which does the same
//! through the C ABI. Prints one number, ns an item: the median of the rounds. `scripts/capi-cost`
//! alternates the two.

use cmwq::Workqueue;
use cmwq::raw::RawWork;
use cmwq::types::Queued;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

const ITEMS: usize = 1_000;
const ROUNDS: usize = 50;

static STOP: AtomicBool = AtomicBool::new(false);
static SPINNING: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C-unwind" fn nothing(_item: NonNull<RawWork>) {}

/// Keeps a worker busy, awake on purpose.
unsafe extern "C-unwind" fn spin(_item: NonNull<RawWork>) {
    SPINNING.fetch_add(1, Ordering::SeqCst);
    while !STOP.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let wq = Workqueue::builder("enqueue_cost").build()?;
    let busy = cmwq::Engine::global()?.usable_cpus().len();
    let spinners: Vec<RawWork> = (0..busy).map(|_| RawWork::new(spin)).collect();
    let items: Vec<RawWork> = (0..ITEMS).map(|_| RawWork::new(nothing)).collect();
    let mut costs_ns: Vec<f64> = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        STOP.store(false, Ordering::SeqCst);
        SPINNING.store(0, Ordering::SeqCst);
        for spinner in &spinners {
            // SAFETY: the queue is flushed before the item goes or is queued again.
            let queued = unsafe { wq.queue_raw(NonNull::from(spinner)) };
            assert_eq!(queued, Queued::Accepted);
        }
        while SPINNING.load(Ordering::SeqCst) < busy {
            std::thread::yield_now();
        }
        let start = Instant::now();
        for item in &items {
            // SAFETY: as above.
            let _ = unsafe { wq.queue_raw(NonNull::from(item)) };
        }
        costs_ns.push(start.elapsed().as_nanos() as f64 / ITEMS as f64);
        STOP.store(true, Ordering::SeqCst);
        wq.flush()?;
    }
    costs_ns.sort_by(f64::total_cmp);
    println!("{:.1}", costs_ns[ROUNDS / 2]);
    Ok(())
}
