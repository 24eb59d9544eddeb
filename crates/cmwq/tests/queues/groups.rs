//! Concurrency groups: a limit on the active items of several workqueues together.

use crate::harness::{
    Broken, Deadline, Door, Random, engine, eventually, held, in_own_process, seed,
};
use cmwq::affinity::AffinityScope;
use cmwq::{ConcurrencyGroup, Engine, Error, Work, Workqueue};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Counts how many are inside at a time.
#[derive(Default)]
struct Inside {
    now: AtomicUsize,
    most: AtomicUsize,
}

static PASSES: AtomicUsize = AtomicUsize::new(0);

impl Inside {
    fn pass(&self) -> usize {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        // Now and then another thread may come in between. Beside processes that compute it takes
        // milliseconds to come back.
        if PASSES.fetch_add(1, Ordering::Relaxed).is_multiple_of(16) {
            std::thread::yield_now();
        }
        self.now.fetch_sub(1, Ordering::SeqCst);
        now
    }
}

/// All credits are free again, as soon as queues have returned those that they keep for their next items.
fn nothing_is_held(group: &ConcurrencyGroup, queues: Vec<Workqueue>) {
    drop(queues);
    eventually(|| group.state().held == 0);
}

fn three(engine: &Engine, group: &ConcurrencyGroup) -> Vec<Workqueue> {
    let scope = AffinityScope::Cpu;
    let builders = [
        engine.workqueue("wide").affinity_scope(scope),
        engine
            .workqueue("narrow")
            .affinity_scope(scope)
            .max_active(2),
        engine.workqueue("percpu").per_cpu(),
        engine.workqueue("ordered").ordered(),
    ];
    let queues = builders.into_iter();
    queues
        .map(|builder| builder.group(group).build().unwrap())
        .collect()
}

#[test]
fn never_more_are_active_than_the_group_admits_and_all_run() {
    const ITEMS: usize = 3_000;
    let engine = engine("numa:2 l3:1 core:2 pu:1");
    let _deadline = Deadline::new("total", &engine);
    let mut random = Random::new(seed("total"));
    for limit in [1, 3] {
        let group = ConcurrencyGroup::new("total", limit);
        let queues = three(&engine, &group);
        let (inside, broken, ran) = (
            Arc::new(Inside::default()),
            Arc::new(Broken::default()),
            Arc::new(AtomicUsize::new(0)),
        );
        for _ in 0..ITEMS {
            let (inside, broken, ran) = (inside.clone(), broken.clone(), ran.clone());
            let wq = &queues[random.below(queues.len())];
            let item = move || {
                let now = inside.pass();
                broken.expect(now <= limit, || format!("{now} of {limit}"));
                ran.fetch_add(1, Ordering::SeqCst);
            };
            drop(wq.spawn_on(random.below(4), item).unwrap());
        }
        for wq in &queues {
            wq.flush().unwrap();
        }
        assert_eq!(ran.load(Ordering::SeqCst), ITEMS);
        broken.none();
        nothing_is_held(&group, queues);
    }
}

#[test]
fn the_limit_changes_while_items_flow() {
    let engine = engine("l3:1 core:4 pu:1");
    let _deadline = Deadline::new("changes", &engine);
    let group = ConcurrencyGroup::new("changes", 1);
    let queues = three(&engine, &group);
    let door = Door::new();
    let all = [held(&queues[0], 0, 3, &door), held(&queues[2], 1, 3, &door)];
    for limit in 1..=6 {
        group.set_max_active(limit).unwrap();
        assert_eq!(group.max_active(), limit);
        door.wait_for(limit);
        // No further item starts: all credits are used. Reading the states accepts what is in flight.
        let states = engine.queue_states();
        let active: usize = states
            .iter()
            .flat_map(|queue| &queue.pwqs)
            .map(|pwq| pwq.active)
            .sum();
        assert_eq!(active, limit);
    }
    // Lowered: those that run go on, nothing new begins until enough have ended.
    group.set_max_active(2).unwrap();
    let inside = Arc::new(Inside::default());
    let late: Vec<_> = (0..50)
        .map(|_| {
            let inside = inside.clone();
            queues[0].spawn(move || inside.pass())
        })
        .collect();
    assert_eq!(inside.most.load(Ordering::SeqCst), 0);
    door.open.complete();
    for item in late {
        assert!(item.join().unwrap() <= 2);
    }
    drop(all);
    nothing_is_held(&group, queues);
}

#[test]
fn places_go_round() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("round", &engine);
    let group = ConcurrencyGroup::new("round", 1);
    let queue = |name| engine.workqueue(name).group(&group).build().unwrap();
    let (flood, few) = (queue("flood"), queue("few"));
    let door = Door::new();
    let first = held(&flood, 0, 1, &door);
    door.wait_for(1);
    let order = Arc::new(Mutex::new(Vec::new()));
    let note = |who: &'static str| {
        let order = order.clone();
        move || order.lock().unwrap().push(who)
    };
    let mut items = Vec::new();
    for _ in 0..200 {
        items.push(flood.spawn_on(0, note("flood")).unwrap());
    }
    for _ in 0..10 {
        items.push(few.spawn_on(0, note("few")).unwrap());
    }
    // All are accepted, and wait.
    let waiting = || {
        let states = engine.queue_states();
        states
            .iter()
            .flat_map(|queue| &queue.pwqs)
            .map(|pwq| pwq.inactive)
            .sum::<usize>()
    };
    assert_eq!(waiting(), 210);
    // The thread that accepts them enters their workqueues in the ring a moment later.
    eventually(|| group.state().waiting == 2);
    door.open.complete();
    for item in items {
        item.join().unwrap();
    }
    let order = order.lock().unwrap();
    let last = order.iter().rposition(|&who| who == "few").unwrap();
    // One of each in turn.
    assert!(last <= 20, "{last}: {:?}", &order[..40]);
    drop(first);
}

/// Threads look for a free place now and then, and most often in vain.
#[test]
fn queues_keep_their_turns_while_no_place_is_free() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("turns", &engine);
    for looks in 0..4 {
        let group = ConcurrencyGroup::new("turns", 1);
        let queue = |name| engine.workqueue(name).group(&group).build().unwrap();
        let queues = ["holds", "first", "second"].map(queue);
        let door = Door::new();
        let holds = held(&queues[0], 0, 1, &door);
        door.wait_for(1);
        let order = Arc::new(Mutex::new(Vec::new()));
        for (number, queue) in queues[1..].iter().enumerate() {
            let order = order.clone();
            let note = move || order.lock().unwrap().push(number);
            queue.execute(note).unwrap();
            // The thread that accepts an item enters its workqueue in the ring.
            eventually(|| !engine.queue_states().is_empty() && group.state().waiting == number + 1);
        }
        (0..looks).for_each(|_| group.set_max_active(1).expect("no child's"));
        door.open.complete();
        eventually(|| order.lock().unwrap().len() == 2);
        assert_eq!(*order.lock().unwrap(), [0, 1], "after {looks} looks");
        drop(holds);
    }
}

#[test]
fn a_queue_at_its_own_limit_keeps_nobody_from_the_groups() {
    let engine = engine("l3:1 core:4 pu:1");
    let _deadline = Deadline::new("own limit", &engine);
    let group = ConcurrencyGroup::new("kinds", 4);
    let slow = engine.workqueue("slow").max_active(2).group(&group);
    let slow = slow.build().unwrap();
    let fast = engine.workqueue("fast").group(&group).build().unwrap();
    let door = Door::new();
    let blocked = held(&slow, 0, 20, &door);
    door.wait_for(2);
    for _ in 0..500 {
        assert_eq!(fast.spawn(|| 1).join().unwrap(), 1);
    }
    assert_eq!(door.arrived(), 2);
    door.open.complete();
    slow.flush().unwrap();
    assert_eq!(door.arrived(), 20);
    drop(blocked);
    nothing_is_held(&group, vec![slow, fast]);
}

#[test]
fn one_queue_in_a_group_has_a_total_over_all_nodes() {
    let engine = engine("numa:4 l3:1 core:1 pu:1");
    let _deadline = Deadline::new("nodes", &engine);
    let group = ConcurrencyGroup::new("nodes", 3);
    let wq = engine.workqueue("nodes").max_active(16).group(&group);
    let wq = wq.build().unwrap();
    let door = Door::new();
    let items: Vec<Vec<Work>> = (0..4).map(|cpu| held(&wq, cpu, 2, &door)).collect();
    door.wait_for(3);
    let state = engine.queue_states().remove(0);
    assert!(
        state
            .nodes
            .iter()
            .filter(|node| node.node.is_some())
            .count()
            == 4
    );
    let active: usize = state.nodes.iter().map(|node| node.active).sum();
    assert_eq!(active, 3);
    door.open.complete();
    wq.drain().unwrap();
    assert_eq!(door.arrived(), 8);
    drop(items);
    nothing_is_held(&group, vec![wq]);
}

#[test]
fn a_frozen_queue_and_a_cancelled_item_hold_no_place() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("frozen", &engine);
    let group = ConcurrencyGroup::new("frozen", 1);
    let cold = engine.workqueue("cold").freezable().group(&group);
    let cold = cold.build().unwrap();
    let warm = engine.workqueue("warm").group(&group).build().unwrap();
    engine.freeze_workqueues_begin();
    let frozen = cold.spawn(|| 1);
    assert_eq!(warm.spawn(|| 2).join().unwrap(), 2);
    let door = Door::new();
    let holds = held(&warm, 0, 1, &door);
    door.wait_for(1);
    engine.thaw_workqueues();
    // It waits for the credit until it is cancelled.
    let waits = Work::new(|| unreachable!("it was cancelled"));
    assert!(warm.queue(&waits).is_accepted());
    assert!(waits.cancel());
    door.open.complete();
    assert_eq!(frozen.join().unwrap(), 1);
    assert!(warm.spawn(|| crate::harness::quiet_panic()).join().is_err());
    assert_eq!(cold.spawn(|| 3).join().unwrap(), 3);
    drop(holds);
    nothing_is_held(&group, vec![cold, warm]);
}

#[test]
fn an_ordered_queue_stays_in_order() {
    let engine = engine("l3:1 core:4 pu:1");
    let _deadline = Deadline::new("ordered", &engine);
    let group = ConcurrencyGroup::new("ordered", 1);
    let queues = three(&engine, &group);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let items: Vec<_> = (0..1000)
        .map(|number| {
            drop(queues[number % 3].spawn_on(number % 4, || ()).unwrap());
            let seen = seen.clone();
            queues[3]
                .spawn_on(number % 4, move || seen.lock().unwrap().push(number))
                .unwrap()
        })
        .collect();
    for item in items {
        item.join().unwrap();
    }
    assert!(seen.lock().unwrap().iter().copied().eq(0..1000));
    nothing_is_held(&group, queues);
}

#[test]
fn states_and_dumps_show_the_group() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("shown", &engine);
    let group = ConcurrencyGroup::new("disks", 1);
    let wq = engine.workqueue("sda").group(&group).build().unwrap();
    let alone = engine.workqueue("sdb").build().unwrap();
    let door = Door::new();
    let items = held(&wq, 0, 2, &door);
    door.wait_for(1);
    let state = &engine.queue_states()[0];
    let shown = state.group.as_ref().expect("it has one");
    assert_eq!(
        (shown.name.as_str(), shown.max_active, shown.held),
        ("disks", 1, 1)
    );
    assert!(engine.queue_states()[1].group.is_none());
    let text = engine.dump().to_string();
    assert!(text.contains("; group disks admits 1, 1 held"), "{text}");
    door.open.complete();
    drop((items, alone));
}

#[test]
fn what_does_not_go_together_is_refused() {
    let engine = engine("l3:1 core:1 pu:1");
    let group = ConcurrencyGroup::new("refused", 0);
    assert_eq!(group.max_active(), 1, "the least that there is");
    let bh = engine.workqueue("b").bh().group(&group).build();
    let refused = Error::Incompatible {
        one: "bh",
        other: "group",
    }
    .to_string();
    assert_eq!(bh.unwrap_err().to_string(), refused);
}

#[test]
fn a_child_has_no_group() {
    in_own_process(|| {
        let group = ConcurrencyGroup::new("parents", 2);
        // SAFETY: the child calls what a child may, and ends at once.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let refused = matches!(group.set_max_active(1), Err(Error::Forked))
                && matches!(
                    Workqueue::builder("t").group(&group).build(),
                    Err(Error::Forked)
                );
            // SAFETY: ends the process.
            unsafe { libc::_exit(if refused { 0 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: waits for the child.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
    });
}
