//! One-shot items: closures that check what the model knows, spawned or in memory that their run frees.

use crate::harness::{Random, quiet_panic};
use crate::issuer::Issuer;
use crate::model::Token;
use crate::queues::{Queue, World};
use cmwq::{Completion, Queued, RawWork, WorkqueueKind, blocking};
use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Computes, mostly for an instant.
pub(crate) fn spin(random: &mut Random) {
    let rounds = match random.below(64) {
        0 => 5_000,
        1..4 => 1_000,
        _ => random.below(200),
    };
    for _ in 0..rounds {
        std::hint::spin_loop();
    }
    if random.one_in(8) {
        // No sleep: a BH item may do it too, and gives others the chance to get in wrongly.
        std::thread::yield_now();
    }
}

/// Waits for something in one of the ways that there are, now and then.
pub(crate) fn block(world: &World, random: &mut Random) {
    match random.below(2048) {
        // Long enough for others to queue up behind.
        0..128 => {
            let time = Duration::from_micros(random.below(400) as u64);
            blocking(|| std::thread::sleep(time));
        }
        128..160 => std::thread::sleep(Duration::from_micros(random.below(400) as u64)),
        // Long enough for the monitor to find out.
        160 => std::thread::sleep(Duration::from_millis(6)),
        161..193 => {
            let value = random.next();
            let got = world.helper.spawn(move || value).join();
            world.broken.expect(got.is_ok_and(|got| got == value), || {
                "the helper did not answer".into()
            });
        }
        193..225 => {
            let done = Arc::new(Completion::new());
            drop(world.helper.spawn({
                let done = done.clone();
                move || done.complete()
            }));
            if !done.wait_timeout(Duration::from_micros(20)) {
                done.wait();
            }
        }
        225..233 => world.helper.flush().expect("not one of its items"),
        _ => {}
    }
}

/// An item that its function frees.
#[repr(C)]
pub(crate) struct Shot {
    raw: RawWork,
    body: Box<dyn FnOnce() + Send>,
}

/// # Safety
/// `item` is the first field of a leaked `Shot`.
unsafe extern "C-unwind" fn run_shot(item: NonNull<RawWork>) {
    // SAFETY: by this function's contract.
    let shot = unsafe { Box::from_raw(item.cast::<Shot>().as_ptr()) };
    let Shot { body, .. } = *shot;
    body();
}

/// Queues a closure in memory that its run frees; drops it if the queue does not take it.
pub(crate) fn shoot(queue: &Queue, body: Box<dyn FnOnce() + Send>) {
    let shot = Box::new(Shot {
        raw: RawWork::new(run_shot),
        body,
    });
    let item = NonNull::from(Box::leak(shot)).cast::<RawWork>();
    // SAFETY: leaked; freed by its run, or below.
    if unsafe { queue.wq.queue_raw(item) } != Queued::Accepted {
        // SAFETY: it was not accepted: nobody else has it.
        drop(unsafe { Box::from_raw(item.cast::<Shot>().as_ptr()) });
    }
}

impl Issuer {
    /// A closure, and what it checks. Its number is the next of its lane: `fire` queues it while the lane is locked.
    pub(crate) fn closure(
        &mut self,
        queue: &Queue,
        lane: usize,
        number: u64,
        value: u64,
    ) -> Box<dyn FnOnce() -> u64 + Send> {
        let mine = self.mine.entry(queue.number).or_default();
        let mut token = Token::new([queue.shots.clone(), mine.shots.clone()]);
        let (room, most) = (queue.room.clone(), queue.most_active);
        let (lane_room, most_in_lane) = (queue.lanes[lane].room.clone(), queue.most_in_lane());
        let last = queue.in_order().then(|| queue.lanes[lane].last.clone());
        let bh = (queue.kind == WorkqueueKind::Bh)
            .then(|| self.world.bh[lane][usize::from(queue.highpri)].clone());
        let (freezable, may_block) = (queue.freezable, queue.may_block());
        let name = queue.name.clone();
        let world = Arc::downgrade(&self.world);
        Box::new(move || {
            token.runs();
            let token = token;
            if let Some(world) = world.upgrade() {
                let broken = &world.broken;
                let _in_queue = room.enter(broken, most, || name.clone());
                let _in_lane = lane_room.enter(broken, most_in_lane, || format!("{name}, one CPU"));
                let _on_cpu = bh
                    .as_ref()
                    .map(|room| room.enter(broken, 1, || format!("BH pool of {name}")));
                if freezable {
                    world.freezable_starts.fetch_add(1, Ordering::SeqCst);
                }
                if let Some(last) = last {
                    let before = last.swap(number, Ordering::Relaxed);
                    broken.expect(before < number, || {
                        format!("{name}: number {number} ran after {before}")
                    });
                }
                spin(&mut Random::new(value));
                if may_block {
                    block(&world, &mut Random::new(value));
                }
            }
            drop(token);
            if value.is_multiple_of(64) {
                quiet_panic();
            }
            value
        })
    }

    pub(crate) fn spawn(&mut self, queue: &Arc<Queue>) {
        let bound = queue.lanes.len() > 1;
        let cpu = if bound {
            Some(self.world.some_cpu(&mut self.random))
        } else {
            self.maybe_cpu()
        };
        let lane = cpu.filter(|_| bound).unwrap_or(0);
        let value = self.random.next();
        // Locked until it is queued: the order of the numbers is that of queueing.
        let mut next = queue.lanes[lane]
            .next
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *next += 1;
        let closure = self.closure(queue, lane, *next, value);
        let handle = match cpu {
            None => queue.wq.spawn(closure),
            Some(cpu) => queue.wq.spawn_on(cpu, closure).expect("a CPU"),
        };
        drop(next);
        if self.random.one_in(2) && self.handles.len() < 64 {
            self.handles.push((value, handle));
        }
    }

    /// Spawns and joins at once, so often that it goes the short way, with something else in between now and then.
    pub(crate) fn spawn_and_join(&mut self, queue: &Arc<Queue>) {
        for _ in 0..self.random.below(80) {
            let value = self.random.next();
            let handle = {
                let mut next = queue.lanes[0]
                    .next
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                *next += 1;
                let closure = self.closure(queue, 0, *next, value);
                match queue.lanes.len() {
                    1 => queue.wq.spawn(closure),
                    _ => queue.wq.spawn_on(0, closure).expect("a CPU"),
                }
            };
            match self.random.below(64) {
                0 => drop(handle),
                1 if self.handles.len() < 64 => self.handles.push((value, handle)),
                2 => {
                    std::thread::yield_now();
                    self.join(value, handle);
                }
                3 => {
                    std::thread::scope(|scope| {
                        scope.spawn(|| self.join(value, handle));
                    });
                }
                4 => {
                    while !handle.is_finished() {
                        std::thread::yield_now();
                    }
                    self.join(value, handle);
                }
                _ => self.join(value, handle),
            }
        }
    }

    /// As `spawn`, in memory that the run frees. From wherever it is, so the order on a CPU is not known.
    pub(crate) fn shoot(&mut self, queue: &Arc<Queue>) {
        if queue.lanes.len() > 1 {
            let mine = self.mine.entry(queue.number).or_default();
            let mut token = Token::new([queue.shots.clone(), mine.shots.clone()]);
            let (freezable, world) = (queue.freezable, Arc::downgrade(&self.world));
            let body = move || {
                token.runs();
                if let Some(world) = world.upgrade().filter(|_| freezable) {
                    world.freezable_starts.fetch_add(1, Ordering::SeqCst);
                }
            };
            return shoot(queue, Box::new(body));
        }
        let mut next = queue.lanes[0]
            .next
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *next += 1;
        let value = self.random.next();
        let closure = self.closure(queue, 0, *next, value);
        shoot(
            queue,
            Box::new(move || {
                closure();
            }),
        );
    }
}
