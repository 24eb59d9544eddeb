//! A bounded ring in the manner of LMAX. Each of its threads sees all events, and runs those that
//! are its share. They spin.

use super::{Peer, plain};
use crate::everyday::Everyday;
use crate::job::{Job, Pool};
use crate::options::Options;
use crate::report::Report;
use disruptor::{
    BusySpinWithSpinLoopHint, MultiConsumerBarrier, MultiProducer, Producer, build_multi_producer,
};
use std::cell::RefCell;
use std::sync::Mutex;

pub(super) const PEER: Peer = Peer {
    name: "disruptor",
    version: env!("PEER_DISRUPTOR"),
    rows: &[&[
        ("flood", "park"),
        ("batch-1", "park"),
        ("batch-10", "park"),
        ("batch-100", "park"),
    ]],
    everyday: Everyday::NONE,
    run,
};

const SLOTS: usize = 1 << 16;

type Publisher = MultiProducer<Option<Job>, MultiConsumerBarrier>;

thread_local! {
    static PUBLISHER: RefCell<Option<Publisher>> = const { RefCell::new(None) };
}

struct Ring(Mutex<Publisher>);

impl Ring {
    fn publish(&self, publish: impl FnOnce(&mut Publisher)) {
        let first = || self.0.lock().expect("nobody panics").clone();
        PUBLISHER.with_borrow_mut(|mine| publish(mine.get_or_insert_with(first)));
    }
}

impl Pool for Ring {
    type Item = Job;

    fn item(&self, job: Job) -> Job {
        job
    }

    fn submit(&self, job: &Job) {
        self.publish(|ring| ring.publish(|slot| *slot = Some(*job)));
    }

    fn submit_all(&self, jobs: &[Job]) {
        let fill = |(slot, job): (&mut Option<Job>, &Job)| *slot = Some(*job);
        self.publish(|ring| {
            ring.batch_publish(jobs.len(), |slots| slots.zip(jobs).for_each(fill));
        });
    }
}

fn run(options: &Options) -> Result<Report, String> {
    // Its type knows one thread from several.
    let threads = options.workers.max(2) as i64;
    let share = |thread: i64| {
        move |job: &Option<Job>, event: i64, _: bool| {
            if event % threads == thread {
                job.iter().for_each(|job| job.run());
            }
        }
    };
    let mut ring = build_multi_producer(SLOTS, || None, BusySpinWithSpinLoopHint)
        .handle_events_with(share(0))
        .handle_events_with(share(1));
    for thread in 2..threads {
        ring = ring.handle_events_with(share(thread));
    }
    plain::run(Ring(Mutex::new(ring.build())), options)
}
