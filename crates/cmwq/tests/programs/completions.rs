//! Completion queues: each token that was submitted or posted is delivered once, with its own
//! result, to one owner; after a flush it is there; an owner that sleeps on the eventfd is woken;
//! what is dropped early takes nothing else with it.

use super::bodies::{compute, sleep_until};
use super::issuer::{Issuer, answer};
use super::library::types::{
    BatchRefused, Completed, NotPosted, NotSubmitted, Poster, WorkqueueKind,
};
use super::library::{CompletionQueue, JoinError};
use super::model::lock;
use super::os;
use super::os::lock_long;
use super::world::Queue;
use super::{Broken, Random};
use std::collections::BTreeMap;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What items return: it is counted as long as it is anywhere.
pub(crate) struct Payload {
    value: u64,
    _results: Arc<()>,
}

/// Where a token comes from that no queue's item delivers.
const POSTED: u64 = u64::MAX;

#[derive(Clone, Copy)]
struct Expected {
    value: u64,
    /// The number of the queue it was submitted to, or [`POSTED`].
    queue: u64,
    /// What the only issuer and owner submits to it comes in order.
    ordered: bool,
}

/// What is under way.
#[derive(Default)]
struct Open {
    expected: BTreeMap<u64, Expected>,
    last_token: u64,
    /// It has no owner any more.
    closed: bool,
}

impl Open {
    fn begin(&mut self, value: u64, queue: u64, ordered: bool) -> u64 {
        self.last_token += 1;
        let expected = Expected {
            value,
            queue,
            ordered,
        };
        self.expected.insert(self.last_token, expected);
        self.last_token
    }
}

/// A completion queue, and what its owner knows.
pub(crate) struct Cq {
    queue: CompletionQueue<Payload>,
    capacity: Option<usize>,
    /// No other thread is an owner.
    own: bool,
    open: Arc<Mutex<Open>>,
    results: Arc<()>,
    /// The last token that came from each queue.
    last: Mutex<BTreeMap<u64, u64>>,
}

impl Cq {
    pub(crate) fn new(capacity: Option<usize>) -> Cq {
        let mut builder = CompletionQueue::<Payload>::builder().eventfd();
        if let Some(capacity) = capacity {
            builder = builder.capacity(capacity);
        }
        Cq {
            queue: builder.build().expect("descriptors are left"),
            capacity,
            own: true,
            open: Arc::default(),
            results: Arc::new(()),
            last: Mutex::default(),
        }
    }

    /// Another owner.
    fn another(&self) -> Cq {
        Cq {
            queue: self.queue.clone(),
            capacity: self.capacity,
            own: false,
            open: self.open.clone(),
            results: self.results.clone(),
            last: Mutex::default(),
        }
    }

    /// What all results hold.
    pub(crate) fn results(&self) -> Arc<()> {
        self.results.clone()
    }

    fn left(&self) -> usize {
        lock(&self.open).expected.len()
    }

    fn forget(&self, tokens: &[u64]) {
        let mut open = lock(&self.open);
        for token in tokens {
            open.expected.remove(token);
        }
    }

    fn take_down(&self, entries: Vec<Completed<Payload>>, broken: &Broken) {
        for Completed { token, result } in entries {
            let Some(expected) = lock(&self.open).expected.remove(&token) else {
                broken.expect(false, || {
                    format!("a completion queue delivered token {token} twice, or from nowhere")
                });
                continue;
            };
            let Expected {
                value,
                queue,
                ordered,
            } = expected;
            let panics = queue != POSTED && value.is_multiple_of(64);
            let right = match &result {
                Ok(payload) => !panics && payload.value == value,
                Err(JoinError::Panicked(_)) => panics,
                Err(_) => false,
            };
            broken.expect(right, || {
                format!("token {token} came with another result than its own")
            });
            let before = lock(&self.last).insert(queue, token).unwrap_or(0);
            broken.expect(!ordered || before < token, || {
                format!("token {token} of an ordered queue came after {before}")
            });
        }
    }

    fn drain(&self, max: usize, broken: &Broken) -> usize {
        let mut entries = Vec::new();
        let drained = self.queue.drain(max, &mut entries);
        broken.expect(drained == entries.len() && drained <= max, || {
            format!("drained {} of {max}, said {drained}", entries.len())
        });
        self.take_down(entries, broken);
        drained
    }

    /// Takes what there is. Returns how many are still to come.
    pub(crate) fn deliver_all(&self, broken: &Broken) -> usize {
        self.drain(usize::MAX, broken);
        self.left()
    }

    /// Whether the eventfd is readable.
    fn is_readable(&self) -> bool {
        let fd = self.queue.fd().expect("it was built with one");
        let mut ask = libc::pollfd {
            fd: fd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one entry is there.
        unsafe { libc::poll(&raw mut ask, 1, 0) > 0 }
    }
}

/// Posts, and takes down if it could not.
fn post(
    poster: &Poster<Payload>,
    token: u64,
    payload: Payload,
    open: &Mutex<Open>,
    limited: bool,
    broken: &Broken,
) {
    let why_not = poster.post(token, payload).err();
    let mut open = lock(open);
    let possible = match why_not {
        None => return,
        Some(NotPosted::Full(_)) => limited,
        Some(NotPosted::Closed(_)) => open.closed,
    };
    open.expected.remove(&token);
    broken.expect(possible, || format!("token {token} was not posted"));
}

impl Issuer {
    pub(crate) fn completions(&mut self, queue: &Arc<Queue>) {
        if self.random.one_in(3) {
            // An owner that comes and goes.
            let shared = self.world.shared.another();
            self.operate(&shared, queue);
            return;
        }
        let cq = match self.cq.take() {
            Some(cq) => cq,
            None => {
                let capacity = self.random.one_in(3).then(|| 1 + self.random.below(8));
                Cq::new(capacity)
            }
        };
        self.operate(&cq, queue);
        if self.random.one_in(4) {
            self.flush_finds_all(&cq, queue);
        }
        if self.random.one_in(12) {
            // Early: what is under way runs all the same.
            lock(&cq.open).closed = true;
            drop(cq);
        } else {
            self.cq = Some(cq);
        }
    }

    fn operate(&mut self, cq: &Cq, queue: &Arc<Queue>) {
        let broken = self.world.broken.clone();
        let max = [1, 4, usize::MAX][self.random.below(3)];
        match self.random.below(8) {
            0..2 => {
                for _ in 0..1 + self.random.below(12) {
                    self.submit(cq, queue);
                }
            }
            2 => self.submit_batch(cq, queue),
            3 => self.post_some(cq),
            4 => drop(cq.drain(max, &broken)),
            5 if cq.own && cq.left() > 0 => self.wait(cq, max),
            6 if cq.own => self.sleep_on_the_eventfd(cq),
            _ => {
                let mut entries = Vec::new();
                let time = Duration::from_micros(self.random.below(200) as u64);
                cq.queue.wait_timeout(max, &mut entries, time);
                cq.take_down(entries, &broken);
            }
        }
    }

    /// The function of an item for a token. It is entered in its queue's account unless it may be
    /// dropped for lack of room.
    fn item(
        &mut self,
        cq: &Cq,
        queue: &Queue,
        number: u64,
        value: u64,
    ) -> Box<dyn FnOnce() -> Payload + Send> {
        let results = cq.results();
        let payload = move |value| Payload {
            value,
            _results: results,
        };
        if cq.capacity.is_some() {
            return Box::new(move || {
                compute(&mut Random::new(value));
                payload(answer(value))
            });
        }
        let closure = self.closure(queue, 0, number, queue.lanes.len() == 1, value);
        Box::new(move || payload(closure()))
    }

    fn submit(&mut self, cq: &Cq, queue: &Arc<Queue>) {
        let wq = queue.clone();
        let mut next = lock_long(&wq.lanes[0].next);
        *next += 1;
        let value = self.random.bits();
        let item = self.item(cq, queue, *next, value);
        let ordered = cq.own && queue.kind == WorkqueueKind::Ordered;
        let token = lock(&cq.open).begin(value, queue.number, ordered);
        let result = cq.queue.submit(&queue.wq, token, item);
        drop(next);
        let Err(why) = result else { return };
        // With this one itself.
        let left = cq.left();
        cq.forget(&[token]);
        let possible = match why {
            NotSubmitted::Full => cq.capacity.is_some_and(|capacity| left > capacity),
            NotSubmitted::Refused(_) => queue.drains,
        };
        self.world.broken.expect(possible, || {
            let (name, capacity) = (&queue.name, cq.capacity);
            format!("{name}: {why}, with {left} left, capacity {capacity:?}")
        });
    }

    fn submit_batch(&mut self, cq: &Cq, queue: &Arc<Queue>) {
        let most = [4, 40, 300][self.random.below(3)];
        let count = self.random.below(most);
        let mut tokens = Vec::new();
        let wq = queue.clone();
        let mut next = lock_long(&wq.lanes[0].next);
        let items = (0..count).map(|_| {
            *next += 1;
            let value = self.random.bits();
            let item = self.item(cq, queue, *next, value);
            let ordered = cq.own && queue.kind == WorkqueueKind::Ordered;
            let token = lock(&cq.open).begin(value, queue.number, ordered);
            tokens.push(token);
            (token, item)
        });
        let result = cq.queue.submit_batch(&queue.wq, items);
        drop(next);
        let (submitted, possible) = match result {
            Ok(submitted) => (submitted, submitted == count || cq.capacity.is_some()),
            Err(BatchRefused { accepted, .. }) => (accepted, queue.drains),
        };
        let possible = possible && submitted <= tokens.len();
        self.world.broken.expect(possible, || {
            let (name, capacity) = (&queue.name, cq.capacity);
            format!("{name}: a batch of {count} with capacity {capacity:?}: {result:?}")
        });
        cq.forget(tokens.get(submitted..).unwrap_or_default());
    }

    /// By itself, and by items of a queue that takes them always.
    fn post_some(&mut self, cq: &Cq) {
        for _ in 0..self.random.below(6) {
            let value = self.random.bits();
            let token = lock(&cq.open).begin(value, POSTED, false);
            let payload = Payload {
                value,
                _results: cq.results(),
            };
            let (poster, limited) = (cq.queue.poster(), cq.capacity.is_some());
            let (open, broken) = (cq.open.clone(), self.world.broken.clone());
            let run = move || post(&poster, token, payload, &open, limited, &broken);
            if self.random.one_in(2) {
                run();
            } else {
                let queued = self.world.helper.execute(run);
                queued.expect("it is never drained");
            }
        }
    }

    /// Something is under way; unless it is not posted after all.
    fn wait(&mut self, cq: &Cq, max: usize) {
        let mut entries = Vec::new();
        let broken = self.world.broken.clone();
        let certain = lock(&cq.open)
            .expected
            .values()
            .any(|expected| expected.queue != POSTED);
        if certain {
            let came = cq.queue.wait(max, &mut entries);
            broken.expect(came > 0, || "a wait without an end came back empty".into());
        } else {
            cq.queue
                .wait_timeout(max, &mut entries, Duration::from_millis(1));
        }
        cq.take_down(entries, &broken);
    }

    /// A signal that was deferred, or whose poster was stopped, may come after the drain that has
    /// made it pointless: it wakes in vain.
    fn sleep_on_the_eventfd(&mut self, cq: &Cq) {
        let broken = self.world.broken.clone();
        for _ in 0..100 {
            if !cq.queue.arm() {
                let found = cq.drain(1, &broken);
                broken.expect(found == 1, || "not armed, though there is nothing".into());
                return;
            }
            sleep_until(Duration::from_micros(50), || {
                cq.left() == 0 || cq.is_readable()
            });
            if cq.left() == 0 || cq.drain(usize::MAX, &broken) > 0 {
                return;
            }
        }
        broken.expect(false, || "readable, though there is nothing".into());
    }

    /// What was submitted to a queue that has been flushed is there.
    fn flush_finds_all(&mut self, cq: &Cq, queue: &Queue) {
        queue.wq.flush().expect("not from an item of the queue");
        cq.drain(usize::MAX, &self.world.broken);
        let missing = lock(&cq.open)
            .expected
            .values()
            .filter(|expected| expected.queue == queue.number)
            .count();
        self.world.broken.expect(missing == 0, || {
            let name = &queue.name;
            format!("{name}: after a flush {missing} completions are missing")
        });
    }

    /// Takes all that is under way.
    pub(crate) fn finish_completions(&mut self) {
        let Some(cq) = self.cq.take() else { return };
        sleep_until(Duration::from_micros(50), || {
            cq.deliver_all(&self.world.broken) == 0
        });
    }
}
