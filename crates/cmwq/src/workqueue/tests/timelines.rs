//! The timelines that the kernel's documentation gives as examples, in virtual time, with real
//! queues and workers on one simulated CPU.
//!
//! An item that *burns* holds the virtual CPU to the end; items get it in turn. An item that
//! *sleeps* is in a declared blocking section. Virtual time stands still until every item in
//! execution burns or sleeps and no worker is searching. Then it jumps to the next end of a burn or
//! of a sleep. So the result does not depend on the speed of the machine.

use crate::topology::Topology;
use crate::{Engine, Workqueue, blocking};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

#[derive(Default)]
struct World {
    state: Mutex<State>,
    moved: Condvar,
}

#[derive(Default)]
struct State {
    now: u64,
    /// The items that want the virtual CPU.
    burning: Vec<Burn>,
    /// The items that sleep, and until when.
    sleeping: Vec<(usize, u64)>,
}

struct Burn {
    /// Whether the item has the virtual CPU.
    holds: bool,
    /// The order of arrival. Items that arrive at the same time are ordered by number.
    since: u64,
    item: usize,
    left: u64,
}

impl World {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Waits by spinning, and does not sleep for the lock either. So the monitor does not find the
    /// thread asleep, and for the engine the item computes.
    fn wait_until(&self, over: impl Fn(&State) -> bool) {
        while !self.state.try_lock().is_ok_and(|state| over(&state)) {
            std::thread::yield_now();
        }
    }

    fn burn(&self, item: usize, ms: u64) {
        let mut state = self.state();
        let burn = Burn {
            holds: false,
            since: state.now,
            item,
            left: ms,
        };
        state.burning.push(burn);
        drop(state);
        self.wait_until(|state| state.burning.iter().all(|burn| burn.item != item));
    }

    fn sleep(&self, item: usize, ms: u64) {
        blocking(|| {
            let mut state = self.state();
            let deadline = state.now + ms;
            state.sleeping.push((item, deadline));
            // The thread really sleeps here, because a worker whose CPU clock advances is awake for
            // the monitor.
            let sleeps = |state: &mut State| state.sleeping.iter().any(|&(other, _)| other == item);
            drop(self.moved.wait_while(state, sleeps).unwrap());
        });
    }

    fn now(&self) -> u64 {
        self.state().now
    }
}

impl State {
    /// Returns how many items burn or sleep.
    fn settled(&self) -> usize {
        self.burning.len() + self.sleeping.len()
    }

    /// Advances the virtual time to the next end of a burn or of a sleep.
    fn move_on(&mut self) {
        let turn = |burn: &&mut Burn| (!burn.holds, burn.since, burn.item);
        let mut holder = self.burning.iter_mut().min_by_key(turn);
        let burn = holder.as_ref().map(|burn| burn.left);
        let sleeps = self.sleeping.iter();
        let sleeps = sleeps.map(|&(_, deadline)| deadline - self.now);
        let Some(step) = sleeps.chain(burn).min() else {
            return;
        };
        self.now += step;
        if let Some(burn) = &mut holder {
            burn.holds = true;
            burn.left -= step;
        }
        let now = self.now;
        self.burning.retain(|burn| burn.left > 0);
        self.sleeping.retain(|&(_, deadline)| deadline > now);
    }
}

/// Runs three items that are queued together and returns the start and the end of each: w0 (burn 5,
/// sleep 10, burn 5), w1 and w2 (burn 5, sleep 10). `of` names the queue of each item.
fn timeline(queues: &[&Workqueue], of: [usize; 3]) -> [(u64, u64); 3] {
    let world = Arc::new(World::default());
    let spans = Arc::new(Mutex::new([(0, 0); 3]));
    for (index, queue) in of.into_iter().enumerate() {
        let (world, spans) = (world.clone(), spans.clone());
        let item = move || {
            let start = world.now();
            world.burn(index, 5);
            world.sleep(index, 10);
            if index == 0 {
                world.burn(index, 5);
            }
            spans.lock().unwrap()[index] = (start, world.now());
        };
        drop(queues[queue].spawn_on(0, item));
    }
    let members = queues[0].core.members();
    let pool = &members[0].pool;
    loop {
        // The state is locked before the pool is asked. An item enters the blocking section before
        // it counts as sleeping, so the pool already shows the effects of that.
        let mut state = world.state();
        let running = pool.lock().items_running_if_settled();
        match running {
            Some(0) => break,
            Some(running) if state.settled() == running => {
                state.move_on();
                world.moved.notify_all();
            }
            _ => {}
        }
        drop(state);
        std::thread::yield_now();
    }
    *spans.lock().unwrap()
}

fn engine() -> Engine {
    let engine = Engine::builder()
        .topology(Topology::from_synthetic("l3:1 core:1 pu:1").unwrap())
        .build()
        .unwrap();
    // Items that burn in virtual time really spin, so they would be reported as CPU hogs.
    engine.set_cpu_intensive_threshold(Duration::ZERO);
    engine
}

#[test]
fn items_that_sleep_let_the_next_one_start() {
    let engine = engine();
    for max_active in [3, 0] {
        let wq = engine.workqueue("w").per_cpu().max_active(max_active);
        let wq = wq.build().unwrap();
        assert_eq!(timeline(&[&wq], [0; 3]), [(0, 20), (5, 20), (10, 25)]);
    }
}

#[test]
fn at_most_max_active_items_have_begun() {
    let engine = engine();
    let wq = engine.workqueue("w").per_cpu().max_active(2).build();
    assert_eq!(
        timeline(&[&wq.unwrap()], [0; 3]),
        [(0, 20), (5, 20), (20, 35)]
    );
}

#[test]
fn cpu_intensive_items_start_beside_each_other() {
    let engine = engine();
    let wq = engine.workqueue("w").per_cpu().build().unwrap();
    let intensive = engine.workqueue("i").per_cpu().cpu_intensive();
    let intensive = intensive.build().unwrap();
    assert_eq!(
        timeline(&[&wq, &intensive], [0, 1, 1]),
        [(0, 20), (5, 20), (5, 25)]
    );
}

#[test]
fn one_at_a_time_is_what_a_thread_of_its_own_would_do() {
    let engine = engine();
    let wq = engine.workqueue("w").per_cpu().max_active(1).build();
    assert_eq!(
        timeline(&[&wq.unwrap()], [0; 3]),
        [(0, 20), (20, 35), (35, 50)]
    );
}
