//! One-shot items: closures that check what the oracles know, spawned, executed, or in memory that
//! their run frees.

use super::bodies::{compute, sleep_until};
use super::issuer::{Issuer, answer, body, join, next_of};
use super::library::affinity::AffinityScope;
use super::library::raw::{RawWork, current_is_rescuer};
use super::library::types::{Queued, WorkqueueKind};
use super::library::{Engine, JoinHandle, Work};
use super::model::Token;
use super::world::{Queue, built};
use super::{Broken, Random, os};
use std::ptr::NonNull;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// An item that its function frees.
#[repr(C)]
struct Shot {
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
fn queue_shot(queue: &Queue, body: Box<dyn FnOnce() + Send>) {
    let shot = Box::new(Shot {
        raw: RawWork::new(run_shot),
        body,
    });
    let item = NonNull::from(Box::leak(shot)).cast::<RawWork>();
    // SAFETY: leaked; freed by its run, or below.
    if unsafe { queue.wq.queue_raw(item) } != Queued::Accepted {
        // SAFETY: it was not accepted: it is ours alone.
        drop(unsafe { Box::from_raw(item.cast::<Shot>().as_ptr()) });
    }
}

impl Issuer {
    /// A closure, and what it checks. Its number is the next of its lane, which is locked until it
    /// is queued. `named`: it is queued on that lane for sure.
    pub(crate) fn closure(
        &mut self,
        queue: &Queue,
        lane: usize,
        number: u64,
        named: bool,
        value: u64,
    ) -> impl FnOnce() -> u64 + Send + use<> {
        let mine = self.mine.entry(queue.number).or_default();
        let mut token = Token::new([queue.shots.clone(), mine.shots.clone()]);
        let (room, most) = (queue.room.clone(), queue.most_active);
        let (grouped, runners) = (queue.grouped.clone(), queue.runners.clone());
        let (lane_room, most_in_lane) = (queue.lanes[lane].room.clone(), queue.most_in_lane());
        let last = queue.lanes[lane].last.clone();
        let number = (named && queue.in_order()).then_some(number);
        let is_bh = queue.kind == WorkqueueKind::Bh;
        let on_bh = is_bh.then(|| self.world.bh[lane][usize::from(queue.highpri)].clone());
        let (freezable, may_block) = (queue.freezable, queue.may_block());
        let name = queue.name.clone();
        let broken = self.world.broken.clone();
        let world = Arc::downgrade(&self.world);
        move || {
            token.runs(&broken);
            let token = token;
            if let Some(world) = world.upgrade() {
                let _does = runners.enter(&broken, &name);
                let _in_queue = room.enter(&broken, most, || name.clone());
                let _in_group = grouped.as_ref().map(|all| all.enter(&broken));
                let one_cpu = || format!("{name}, one CPU");
                // Without a name of a CPU it is on any lane.
                let _in_lane = named.then(|| lane_room.enter(&broken, most_in_lane, one_cpu));
                let of_bh = || format!("BH pool of {name}");
                let _on_cpu = on_bh
                    .filter(|_| named)
                    .map(|room| room.enter(&broken, 1, of_bh));
                if freezable {
                    world.freezable_starts.fetch_add(1, SeqCst);
                }
                if let Some(number) = number {
                    let before = last.swap(number, Relaxed);
                    broken.expect(before < number, || {
                        format!("{name}: number {number} ran after {before}")
                    });
                }
                body(&world, may_block, value);
            }
            drop(token);
            answer(value)
        }
    }

    /// Spawns on a CPU that is named if the queue has lanes.
    fn spawn_numbered(&mut self, queue: &Arc<Queue>, cpu: Option<usize>) -> (u64, JoinHandle<u64>) {
        let bound = queue.lanes.len() > 1;
        let cpu = match bound {
            true => Some(cpu.unwrap_or_else(|| self.world.some_cpu(&mut self.random))),
            false => cpu,
        };
        let lane = cpu.filter(|_| bound).unwrap_or(0);
        let value = self.random.bits();
        let (next, number) = next_of(queue, lane);
        let closure = self.closure(queue, lane, number, true, value);
        let handle = match cpu {
            None => queue.wq.spawn(closure),
            Some(cpu) => queue.wq.spawn_on(cpu, closure).expect("a CPU"),
        };
        drop(next);
        (value, handle)
    }

    pub(crate) fn spawn(&mut self, queue: &Arc<Queue>) {
        let cpu = self.maybe_cpu();
        let (value, handle) = self.spawn_numbered(queue, cpu);
        if self.random.one_in(2) && self.handles.len() < 64 {
            self.handles.push((value, handle));
        } else if self.random.one_in(8) {
            self.abort(queue, handle);
        }
    }

    /// From wherever it is, so the order on a CPU is not known. The closure is small: in a flood it
    /// comes in a chunk.
    pub(crate) fn execute(&mut self, queue: &Arc<Queue>) {
        let value = self.random.bits();
        let (next, number) = next_of(queue, 0);
        let closure = self.closure(queue, 0, number, queue.lanes.len() == 1, value);
        let small: Box<dyn FnOnce() + Send> = Box::new(move || {
            closure();
        });
        // Refused: it was dropped, as its token records.
        let _ = queue.wq.execute(small);
        drop(next);
    }

    /// As `execute`, in memory that the run frees.
    pub(crate) fn shoot(&mut self, queue: &Arc<Queue>) {
        let value = self.random.bits();
        let (next, number) = next_of(queue, 0);
        let closure = self.closure(queue, 0, number, queue.lanes.len() == 1, value);
        let body = move || {
            closure();
        };
        queue_shot(queue, Box::new(body));
        drop(next);
    }

    /// Spawns and joins at once, so often that the caller slot is used, with something else in
    /// between now and then.
    pub(crate) fn spawn_and_join(&mut self, queue: &Arc<Queue>) {
        // Else so often that there is never a slot.
        let earns_a_slot = self.random.one_in(2);
        // It has the slot for the last few of them, or for most.
        let at_once = [20, 80][self.random.below(2)];
        for round in 0..self.random.below(if earns_a_slot { 100 } else { 40 }) {
            // An item that names its CPU is in no caller slot.
            let (value, handle) = self.spawn_numbered(queue, None);
            if earns_a_slot && round % (at_once + 4) < at_once {
                self.join(value, handle);
                continue;
            }
            match self.random.below(if earns_a_slot { 10 } else { 32 }) {
                0 => drop(handle),
                1 if self.handles.len() < 64 => self.handles.push((value, handle)),
                2 => {
                    os::yield_now();
                    self.join(value, handle);
                }
                3 => {
                    sleep_until(Duration::from_micros(1), || handle.is_finished());
                    self.join(value, handle);
                }
                4 => {
                    let broken = self.world.broken.clone();
                    os::on_another_thread(move || join(&broken, value, handle));
                }
                5..8 => self.wait_for(value, handle),
                9 => {
                    let flushed = queue.clone();
                    os::on_another_thread(move || {
                        flushed.wq.flush().expect("not from an item of the queue");
                    });
                    self.world.broken.expect(handle.is_finished(), || {
                        format!("{}: flushed by another thread, and not ended", queue.name)
                    });
                }
                8 => self.abort(queue, handle),
                _ => self.join(value, handle),
            }
        }
        if self.random.one_in(3) {
            self.borrow(queue);
        }
    }

    /// Queues where an idle CPU must not leave anything waiting.
    pub(crate) fn steady(&mut self) {
        let world = self.world.clone();
        let steady = &world.steady[self.random.below(world.steady.len())];
        for _ in 0..1 + self.random.below(12) {
            let cpu = world.some_cpu(&mut self.random);
            let mut token = Token::new([steady.shots.clone(), Arc::default()]);
            let now = os::observe_ns();
            let number = world.waiting.begin(now, steady.reach[cpu].clone());
            let (waiting, broken) = (world.waiting.clone(), world.broken.clone());
            let seed = self.random.bits();
            let run = move || {
                waiting.end(number, os::observe_ns());
                token.runs(&broken);
                broken.expect(!current_is_rescuer(), || {
                    "steady: an item runs on the rescuer of another queue".into()
                });
                compute(&mut Random::new(seed));
                seed
            };
            // Its number decides, so that no other draw changes.
            let topology = world.engine.topology();
            let on_node = topology.nodes().len() > 1 && seed.is_multiple_of(4);
            if let Some(node) = topology.node_of(cpu).filter(|_| on_node) {
                steady.shoot_at(node, run);
                let _ = self.random.one_in(4);
                continue;
            }
            let handle = steady.wq.spawn_on(cpu, run).expect("a CPU");
            if self.random.one_in(4) {
                self.join(seed, handle);
            }
        }
    }
}

/// Two items queue each other from pod to pod: meanwhile the queue is never empty, though every
/// single pool is at times.
pub(crate) fn drain_what_hops(
    engine: &Engine,
    cpus: &[usize],
    random: &mut Random,
    broken: &Broken,
) {
    let wq = Arc::new(built(|| {
        engine.workqueue("hops").affinity_scope(AffinityScope::Cpu)
    }));
    let left = Arc::new(AtomicUsize::new(5 + random.below(40)));
    let works: Arc<OnceLock<[Work; 2]>> = Arc::default();
    let hop = |other: usize, seed: u64| {
        let (wq, left, works) = (Arc::downgrade(&wq), left.clone(), works.clone());
        let cpus = cpus.to_vec();
        Work::new(move || {
            let before = left.fetch_sub(1, SeqCst);
            if let (true, Some(wq), Some(works)) = (before > 1, wq.upgrade(), works.get()) {
                let cpu = cpus[Random::new(seed ^ before as u64).below(cpus.len())];
                let _ = wq.queue_on(cpu, &works[other]).expect("a CPU");
            }
        })
    };
    let pair = [hop(1, random.bits()), hop(0, random.bits())];
    let first = works.get_or_init(|| pair)[0].clone();
    let _ = wq.queue(&first);
    wq.drain().expect("not from an item of the queue");
    let left = left.load(SeqCst);
    broken.expect(left == 0, || {
        format!("a drain returned with {left} hops to go")
    });
}
