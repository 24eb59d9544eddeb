//! An unbounded crossbeam channel and threads that receive from it: messages of one type, which
//! only a program with one kind of item can send, and boxed closures, as a general pool sends them.

use super::{PLAIN, Peer, plain};
use crate::everyday::Everyday;
use crate::job::{Job, Pool};
use crate::options::Options;
use crate::report::Report;
use crossbeam_channel::{Sender, unbounded};
use std::thread;

pub(super) const MESSAGES: Peer = Peer {
    name: "crossbeam-messages",
    version: env!("PEER_CROSSBEAM_CHANNEL"),
    rows: &[PLAIN],
    everyday: Everyday::NONE,
    run: |options| run(options, |job: Job| job.run(), Messages),
};

pub(super) const CLOSURES: Peer = Peer {
    name: "crossbeam-closures",
    version: env!("PEER_CROSSBEAM_CHANNEL"),
    rows: &[PLAIN],
    everyday: Everyday {
        joins: &["park"],
        bursts: &["park"],
        flows: &["park"],
    },
    run: |options| run(options, |closure: Closure| closure(), Closures),
};

type Closure = Box<dyn FnOnce() + Send>;

struct Messages(Sender<Job>);
struct Closures(Sender<Closure>);

impl Pool for Messages {
    type Item = Job;

    fn item(&self, job: Job) -> Job {
        job
    }

    fn submit(&self, job: &Job) {
        self.0.send(*job).expect("the receivers live as long");
    }
}

impl Pool for Closures {
    type Item = Job;

    fn item(&self, job: Job) -> Job {
        job
    }

    fn submit(&self, job: &Job) {
        let job = *job;
        let closure = Box::new(move || job.run());
        assert!(self.0.send(closure).is_ok(), "the receivers live as long");
    }
}

fn run<T, P>(
    options: &Options,
    work: fn(T),
    pool: impl FnOnce(Sender<T>) -> P,
) -> Result<Report, String>
where
    T: Send + 'static,
    P: Pool<Item = Job> + Send + Sync + 'static,
{
    let (sender, receiver) = unbounded::<T>();
    let threads: Vec<_> = (0..options.workers)
        .map(|_| {
            let receiver = receiver.clone();
            thread::spawn(move || receiver.iter().for_each(work))
        })
        .collect();
    // Its sender is the last, and goes with it: the threads end.
    let report = plain::run(pool(sender), options);
    for thread in threads {
        thread.join().map_err(|_| "a thread panicked")?;
    }
    report
}
