//! What tools call closures: the type and the place where it was handed over.

use crate::harness::{Deadline, Door, engine, eventually};
use cmwq::observe::function_name;
use cmwq::types::Chunks;
use cmwq::{CompletionQueue, DelayedWork, Engine, JoinSet, Work, scope};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

/// The names of what runs, once `count` run.
fn running(engine: &Engine, door: &Door, count: usize) -> Vec<String> {
    door.wait_for(count);
    let pools = engine.pool_states();
    let runs = pools.iter().flat_map(|pool| &pool.runs);
    runs.map(|run| function_name(run.func)).collect()
}

#[test]
fn every_way_to_hand_a_closure_over_names_it_by_its_type_and_place() {
    let engine = engine("l3:1 core:4 pu:1");
    let _deadline = Deadline::new("names", &engine);
    let wq = engine.workqueue("names").build().unwrap();
    let door = Door::new();
    // Of different code: the linker may make one function of equal ones.
    let pass = |door: &Arc<Door>| door.clone();
    let mut places = vec![line!() + 1];
    wq.execute({
        let door = pass(&door);
        move || {
            door.pass();
            black_box(1);
        }
    })
    .unwrap();
    places.push(line!() + 1);
    drop(wq.spawn({
        let door = pass(&door);
        move || {
            door.pass();
            black_box(2);
        }
    }));
    places.push(line!() + 1);
    drop(wq.try_spawn({
        let door = pass(&door);
        move || {
            door.pass();
            black_box(3);
        }
    }));
    let room = wq.room().wait().unwrap();
    places.push(line!() + 1);
    room.execute({
        let door = pass(&door);
        move || {
            door.pass();
            black_box(4);
        }
    })
    .unwrap();
    places.push(line!() + 1);
    let work = Work::new({
        let door = pass(&door);
        move || {
            door.pass();
            black_box(5);
        }
    });
    assert!(wq.queue(&work).is_accepted());
    places.push(line!() + 1);
    let delayed = DelayedWork::new({
        let door = pass(&door);
        move || {
            door.pass();
            black_box(6);
        }
    });
    assert!(wq.queue_delayed(&delayed, Duration::ZERO).is_accepted());
    let done = CompletionQueue::new();
    places.push(line!() + 1);
    done.submit(&wq, 0, {
        let door = pass(&door);
        move || {
            door.pass();
            black_box(7);
        }
    })
    .unwrap();
    let mut set = JoinSet::new(&wq);
    places.push(line!() + 1);
    set.spawn({
        let door = pass(&door);
        move || {
            door.pass();
            black_box(8);
        }
    });
    places.push(line!() + 1);
    wq.execute_batch([{
        let door = pass(&door);
        move || {
            door.pass();
            black_box(9);
        }
    }])
    .unwrap();
    places.push(line!() + 1);
    drop(wq.spawn_batch([{
        let door = pass(&door);
        move || {
            door.pass();
            black_box(10);
        }
    }]));
    let names = running(&engine, &door, places.len());
    assert_eq!(names.len(), places.len());
    for place in &places {
        let own = format!("names.rs:{place})");
        let name = names.iter().find(|name| name.ends_with(&own));
        let name = name.unwrap_or_else(|| panic!("{own} is not in {names:#?}"));
        let kind = "every_way_to_hand_a_closure_over_names_it_by_its_type_and_place::{{closure}} (";
        assert!(name.contains(kind), "{name}");
    }
    door.open.complete();
    wq.flush().unwrap();
}

#[test]
fn a_scope_and_a_dump_show_the_names_too() {
    let engine = engine("l3:1 core:4 pu:1");
    let _deadline = Deadline::new("names in a dump", &engine);
    let wq = engine.workqueue("names").workers_only().build().unwrap();
    let door = Door::new();
    scope(&wq, |s| {
        s.spawn(|| door.pass());
        let dump = || engine.dump().to_string();
        eventually(|| dump().contains("a_scope_and_a_dump_show_the_names_too::{{closure}}"));
        let place = format!("names.rs:{})", line!() - 3);
        assert!(dump().contains(&place), "{}", dump());
        door.open.complete();
    });
}

#[test]
fn a_parallel_loop_is_named_by_the_callers_closure_and_place() {
    let engine = engine("l3:1 core:4 pu:1");
    let _deadline = Deadline::new("names of a loop", &engine);
    let wq = engine.workqueue("names").build().unwrap();
    let door = Door::new();
    let chunks = Chunks {
        min_chunk: 1,
        max_threads: 3,
    };
    std::thread::scope(|s| {
        let (wq, door) = (&wq, &door);
        let line = line!() + 1;
        s.spawn(move || wq.for_each_chunk(0..3, chunks, |_| door.pass()));
        let names = running(&engine, door, 3);
        // Before anything can fail: the loop waits for it.
        door.open.complete();
        let own = "a_parallel_loop_is_named_by_the_callers_closure_and_place::{{closure}}";
        assert!(!names.is_empty());
        for name in &names {
            assert!(name.contains(own), "{name}");
            assert!(!name.contains("for_each_chunk"), "{name}");
            assert!(name.ends_with(&format!("names.rs:{line})")), "{name}");
        }
    });
}

/// A wrapper: the closure has the caller's type and, since the wrapper tracks its caller, its place.
#[track_caller]
fn offload(wq: &cmwq::Workqueue, func: impl FnOnce() + Send + 'static) {
    wq.execute(func).unwrap();
}

#[test]
fn a_function_pointer_from_several_places_has_its_type_only() {
    let engine = engine("l3:1 core:4 pu:1");
    let _deadline = Deadline::new("function pointers", &engine);
    let wq = engine.workqueue("names").build().unwrap();
    static DOOR: std::sync::OnceLock<Arc<Door>> = std::sync::OnceLock::new();
    let door = DOOR.get_or_init(Door::new);
    fn pass() {
        DOOR.get().expect("set").pass();
    }
    let pointer: fn() = pass;
    offload(&wq, pointer);
    offload(&wq, pointer);
    let names = running(&engine, door, 2);
    assert_eq!(names, ["fn()", "fn()"]);
    door.open.complete();
    wq.flush().unwrap();
}
