//! What tools can read, and what they may write: the kernel's own files are the reference.

use crate::harness::{Deadline, engine};
use cmwq::affinity::AffinityScope;
use cmwq::observe::{EnqueueTiming, Errno, LiveQueue, PoolFor, Recording, TraceEvent, TraceKind};
use cmwq::topology::CpuSet;
use cmwq::{Completion, Engine, Work, WorkqueueKind};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

fn live(engine: &Engine, name: &str) -> LiveQueue {
    let queues = engine.live_queues();
    let found = queues.into_iter().find(|queue| queue.name() == name);
    found.expect("the queue is there")
}

fn recorded_writes() -> Value {
    let recorded: Value =
        serde_json::from_str(include_str!("../data/kernel-pods.json")).expect("valid JSON");
    recorded["writes"].clone()
}

/// Each write in turn leaves what the kernel's file then showed.
fn replay(writes: &Value, write: impl Fn(&str) -> bool, read: impl Fn() -> String) {
    let writes = writes.as_array().expect("a list of writes");
    assert!(writes.len() >= 5, "the recording is complete");
    let mut before = read();
    for one in writes {
        let (written, reads_back) = (one["written"].as_str(), one["reads_back"].as_str());
        let (written, reads_back) = (written.expect("text"), reads_back.expect("text"));
        // As a shell's echo writes it, and without the newline.
        for text in [format!("{written}\n"), written.to_owned()] {
            let accepted = write(&text);
            assert_eq!(read(), reads_back, "after writing {text:?}");
            assert!(
                accepted || read() == before,
                "refused, and changed: {text:?}"
            );
        }
        before = read();
    }
}

#[test]
fn attributes_take_and_show_what_the_kernels_files_did() {
    let engine = engine("l3:2 core:4 pu:2");
    let _deadline = Deadline::new("attributes", &engine);
    let _wq = engine.workqueue("wq").build().expect("a queue");
    let wq = live(&engine, "wq");
    let writes = recorded_writes();
    let cases = [
        (
            "affinity_scope",
            "affinity_scope (starting from system)",
            "system",
        ),
        ("affinity_strict", "affinity_strict (starting from 0)", "0"),
        ("max_active", "max_active (starting from 1024)", "1024"),
        ("nice", "nice (starting from 0)", "0"),
    ];
    for (name, recorded, start) in cases {
        wq.set_attribute(name, start)
            .expect("the start is possible");
        replay(
            &writes[recorded],
            |text| wq.set_attribute(name, text).is_ok(),
            || wq.attribute(name).expect("it is there"),
        );
    }
}

#[test]
fn the_default_scope_takes_and_shows_what_the_kernels_file_did() {
    let engine = engine("l3:2 core:4 pu:2");
    let _deadline = Deadline::new("the default scope", &engine);
    let _wq = engine.workqueue("wq").build().expect("a queue");
    let wq = live(&engine, "wq");
    replay(
        &recorded_writes()["default_affinity_scope, with a queue on default"],
        |text| engine.set_parameter("default_affinity_scope", text).is_ok(),
        || {
            let default = engine.parameter("default_affinity_scope").expect("there");
            format!(
                "{default}; wq: {}",
                wq.attribute("affinity_scope").expect("there")
            )
        },
    );
    let refused = engine.set_parameter("default_affinity_scope", "default\n");
    assert_eq!(refused.expect_err("no meaning").errno, Errno::Inval);
}

#[test]
fn what_changes_attributes_may_use_the_queue_and_change_others_of_them() {
    let engine = engine("l3:1 core:4 pu:1");
    let _deadline = Deadline::new("a change within a change", &engine);
    let queue = engine.workqueue("wq").build().expect("a queue");
    let wq = live(&engine, "wq");
    let changed = wq.change_attrs(|attrs| {
        assert_eq!(queue.spawn(|| 1).join().ok(), Some(1));
        assert_eq!((queue.attrs(), queue.max_active()), (attrs.clone(), 1024));
        queue.set_max_active(5).expect("it has a limit");
        wq.change_attrs(|attrs| (attrs.affinity_strict, attrs.nice) = (true, 3))
            .expect("valid");
        attrs.nice = 7;
    });
    changed.expect("valid");
    let now = queue.attrs();
    assert_eq!(
        (now.affinity_strict, now.nice, queue.max_active()),
        (true, 7, 5)
    );
    let refused = wq.change_attrs(|attrs| (attrs.affinity_strict, attrs.nice) = (false, 20));
    assert!(refused.is_err() && queue.attrs() == now);
}

#[test]
fn refusals_have_the_kernels_error_numbers() {
    let engine = engine("l3:1 core:4 pu:1");
    let _deadline = Deadline::new("refusals", &engine);
    let _queues = [
        engine.workqueue("unbound").build().expect("a queue"),
        engine
            .workqueue("ordered")
            .ordered()
            .build()
            .expect("a queue"),
        engine
            .workqueue("percpu")
            .per_cpu()
            .build()
            .expect("a queue"),
        engine.workqueue("bh").bh().build().expect("a queue"),
    ];
    let unbound = live(&engine, "unbound");
    for (name, text, errno) in [
        ("nice", "20", Errno::Inval),
        ("nice", "", Errno::Inval),
        ("max_active", "0", Errno::Inval),
        ("max_active", "-1", Errno::Inval),
        ("affinity_strict", "yes", Errno::Inval),
        ("affinity_scope", "cache\n\n", Errno::Inval),
        ("cpumask", "", Errno::Inval),
        ("cpumask", "0-3", Errno::Inval),
        ("cpumask", "g", Errno::Inval),
        ("cpumask", "123456789", Errno::Inval),
        ("per_cpu", "1", Errno::Acces),
        ("no_such", "1", Errno::NoEnt),
    ] {
        let error = unbound.set_attribute(name, text).expect_err(text);
        assert_eq!(error.errno, errno, "{name} {text:?}: {error}");
        assert!(!error.message.contains('\n'), "{error}");
    }
    let too_many = format!("1{}", ",00000000".repeat(1000));
    let error = unbound
        .set_attribute("cpumask", &too_many)
        .expect_err("too many CPUs");
    assert_eq!(error.errno, Errno::Overflow);

    let ordered = live(&engine, "ordered");
    assert_eq!(ordered.attribute("max_active"), Ok("1".to_owned()));
    let refused = ordered.set_attribute("max_active", "1").expect_err("fixed");
    assert_eq!(refused.errno, Errno::Acces);
    ordered.set_attribute("nice", "5").expect("allowed");
    for name in ["percpu", "bh"] {
        let queue = live(&engine, name);
        assert_eq!(queue.attribute("per_cpu"), Ok("1".to_owned()));
        for absent in ["nice", "cpumask", "affinity_scope", "affinity_strict"] {
            let error = queue
                .attribute(absent)
                .expect_err("only unbound ones have it");
            assert_eq!(error.errno, Errno::NoEnt);
            let error = queue.set_attribute(absent, "0").expect_err("likewise");
            assert_eq!(error.errno, Errno::NoEnt);
        }
    }
    live(&engine, "percpu")
        .set_attribute("max_active", "3")
        .expect("allowed");
    let refused = live(&engine, "bh").set_attribute("max_active", "3");
    assert_eq!(refused.expect_err("no limit").errno, Errno::Acces);

    for (name, text, errno) in [
        ("cache_shard_size", "4", Errno::Acces),
        ("power_efficient", "1", Errno::Acces),
        ("cpumask_requested", "1", Errno::Acces),
        ("running_limit", "1", Errno::Acces),
        ("cpu_quota", "1", Errno::Acces),
        ("cpu_quota_pauses", "1", Errno::Acces),
        ("cpu_limit", "0", Errno::Inval),
        ("cpumask", "0", Errno::Inval),
        ("cpumask", "10", Errno::Inval),
        ("watchdog_thresh", "-1", Errno::Inval),
        ("watchdog_thresh", "99999999999999999999", Errno::Range),
        ("cpu_intensive_warning_thresh", "4294967296", Errno::Range),
        ("debug_force_rr_cpu", "maybe", Errno::Inval),
        ("panic_on_stall", "4294967296", Errno::Range),
        ("panic_on_stall", "-1", Errno::Inval),
        ("panic_on_stall_time", "99999999999999999999", Errno::Range),
        ("panic_on_all", "1", Errno::NoEnt),
    ] {
        let before = engine.parameter(name);
        let error = engine.set_parameter(name, text).expect_err(text);
        assert_eq!(error.errno, errno, "{name} {text:?}: {error}");
        assert_eq!(engine.parameter(name), before);
    }
}

#[test]
fn masks_are_cut_to_the_cpus_that_can_be_and_an_empty_one_means_all() {
    let engine = engine("l3:2 core:3 pu:2");
    let _deadline = Deadline::new("masks", &engine);
    let _wq = engine.workqueue("wq").build().expect("a queue");
    let wq = live(&engine, "wq");
    assert_eq!(wq.attribute("cpumask"), Ok("fff".to_owned()));
    let pools = |wq: &LiveQueue| {
        let states = engine.queue_states();
        let state = states.into_iter().find(|state| state.serial == wq.serial());
        state.expect("the queue is there").cpu_pool
    };
    for (written, shown) in [("3\n", "003"), ("ffff003f", "03f"), ("1,00000004", "004")] {
        wq.set_attribute("cpumask", written).expect("a mask");
        assert_eq!(wq.attribute("cpumask"), Ok(shown.to_owned()));
    }
    // CPUs of the second cache are served by the default pool, which is the first one's pod.
    let narrow = pools(&wq);
    assert!(narrow.iter().all(|pool| *pool == narrow[0]), "{narrow:?}");
    wq.set_attribute("cpumask", "0")
        .expect("an empty mask is taken");
    assert_eq!(wq.attribute("cpumask"), Ok("000".to_owned()));
    let all = pools(&wq);
    assert_ne!(all[0], all[11], "as if there were no mask: {all:?}");
}

#[test]
fn parameters_show_what_was_written() {
    let engine = engine("l3:1 core:4 pu:1");
    let _deadline = Deadline::new("parameters", &engine);
    for (name, written, shown) in [
        ("cpu_intensive_thresh_us", "0x1000\n", "4096"),
        ("cpu_intensive_warning_thresh", "0", "0"),
        ("watchdog_thresh", "0", "0"),
        ("watchdog_thresh", "60\n", "60"),
        ("panic_on_stall", "5\n", "5"),
        ("panic_on_stall", "0", "0"),
        ("panic_on_stall_time", "0x10", "16"),
        ("debug_force_rr_cpu", "1", "Y"),
        ("debug_force_rr_cpu", "off", "N"),
        ("default_affinity_scope", "numa\n", "numa"),
        ("cpumask", "3", "3"),
    ] {
        engine.set_parameter(name, written).expect(written);
        assert_eq!(engine.parameter(name).expect("there"), shown, "{name}");
    }
    // A time that the program has set in parts of a unit is not "never".
    engine.set_watchdog_threshold(Duration::from_millis(1));
    engine.set_panic_on_stall_time(Duration::from_millis(2500));
    engine.set_cpu_intensive_threshold(Duration::from_nanos(7));
    for (name, shown) in [
        ("watchdog_thresh", "1"),
        ("panic_on_stall_time", "2"),
        ("cpu_intensive_thresh_us", "1"),
    ] {
        assert_eq!(engine.parameter(name).expect("there"), shown, "{name}");
    }
    for refused in ["Numa", "default", ""] {
        let error = engine.set_parameter("default_affinity_scope", refused);
        let message = error.expect_err(refused).message;
        let allowed = "allowed: cpu, smt, cache, cache_shard, numa, system";
        assert!(message.ends_with(allowed), "{message}");
    }
    assert_eq!(engine.parameter("cpumask_requested"), Ok("3".to_owned()));
    assert_eq!(engine.parameter("cpumask_isolated"), Ok("0".to_owned()));
    assert_eq!(engine.parameter("power_efficient"), Ok("N".to_owned()));
}

#[test]
fn queues_are_found_while_they_live_and_show_where_their_items_go() {
    let engine = engine("l3:2 core:2 pu:1");
    let _deadline = Deadline::new("queues", &engine);
    let wq = engine
        .workqueue("mine")
        .affinity_scope(AffinityScope::Cache)
        .max_active(10)
        .mem_reclaim()
        .build()
        .expect("a queue");
    let other = engine
        .workqueue("mine")
        .per_cpu()
        .build()
        .expect("a queue of the same name");
    let live = engine.live_queues();
    assert_eq!(live.len(), 2);
    assert!(live[0].serial() < live[1].serial());
    assert!(
        Engine::all()
            .iter()
            .any(|own| own.serial() == engine.serial())
    );

    let states = engine.queue_states();
    let pools: HashMap<u32, _> = engine
        .pool_states()
        .into_iter()
        .map(|pool| (pool.id, pool))
        .collect();
    let cache = &states[0];
    assert_eq!(
        (cache.kind, cache.max_active, cache.min_active),
        (WorkqueueKind::Unbound, 10, 8)
    );
    for (cpu, pool) in cache.cpu_pool.iter().enumerate() {
        let pool = &pools[&pool.expect("every CPU has one")];
        assert_eq!(pool.kind, PoolFor::Unbound);
        assert_eq!(
            pool.pod,
            if cpu < 2 {
                CpuSet::from_iter([0, 1])
            } else {
                CpuSet::from_iter([2, 3])
            }
        );
        assert_eq!(pool.cpus, CpuSet::from_iter(0..4), "neighbours may help");
    }
    let default = &pools[&cache.default_pool.expect("an unbound queue has one")];
    assert_eq!(default.pod, CpuSet::from_iter(0..4));
    assert!(cache.rescuer.is_some());
    assert_eq!(cache.nodes.last().expect("of no node").max_active, 10);
    for (cpu, pool) in states[1].cpu_pool.iter().enumerate() {
        assert_eq!(
            pools[&pool.expect("every CPU has one")].kind,
            PoolFor::PerCpu(cpu)
        );
    }
    assert_eq!(states[1].default_pool, None);

    live[0]
        .set_attribute("affinity_scope", "system")
        .expect("possible");
    let moved = &engine.queue_states()[0];
    assert_eq!(moved.attrs.affinity_scope, AffinityScope::System);
    assert_eq!(moved.cpu_pool[0], moved.cpu_pool[3], "at once");
    drop((wq, other));
    assert!(engine.live_queues().is_empty());
    // It is gone; a handle from before shows what it was and harms nothing.
    assert_eq!(live[0].attribute("max_active"), Ok("10".to_owned()));
    live[0]
        .set_attribute("affinity_scope", "cpu")
        .expect("of no consequence");
}

#[test]
fn a_queues_counts_name_its_own_items_their_cpu_time_and_what_runs_now() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("counts", &engine);
    let wq = engine.workqueue("counted").build().expect("a queue");
    let state = || engine.queue_states().remove(0);
    engine.account_cpu_time();
    let stop = Arc::new(AtomicBool::new(false));
    let begun = Arc::new(Completion::new());
    let (seen, running) = (stop.clone(), begun.clone());
    let spins = wq.spawn(move || {
        running.complete();
        while !seen.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    });
    begun.wait();
    let runs = engine.pool_states().into_iter().flat_map(|pool| pool.runs);
    let runs: Vec<_> = runs.collect();
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0].queue, live(&engine, "counted").id());
    // It ends when its CPU time was seen.
    while state().stats.cpu_ns == 0 {
        assert!(engine.account_cpu_time(), "an item runs");
    }
    stop.store(true, Ordering::Relaxed);
    spins.join().expect("no panic");
    wq.flush().expect("not from an item");
    let stats = state().stats;
    assert_eq!((stats.started, stats.completed), (1, 1));
    assert_eq!(engine.stats().cpu_ns, stats.cpu_ns);
}

/// Timing and recording are the process's, and so are their tests'.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn calls_of_queue_are_timed_while_somebody_wants_to_know() {
    let _alone = alone();
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("calls", &engine);
    let wq = engine.workqueue("timed").build().expect("a queue");
    let timed = || engine.queue_states()[0].enqueue.count();
    let queue_some = || {
        for _ in 0..1000 {
            drop(wq.spawn(|| {}));
        }
        wq.flush().expect("not from an item");
    };
    queue_some();
    assert_eq!(timed(), 0);
    let timing = EnqueueTiming::begin();
    queue_some();
    let count = timed();
    assert!((10..=31).contains(&count), "about every 64th: {count}");
    let p99 = engine.queue_states()[0].enqueue.quantile_ns(0.99);
    assert!(p99.is_some_and(|ns| ns > 0), "{p99:?}");
    drop(timing);
    queue_some();
    assert_eq!(timed(), count);
}

#[test]
fn a_recording_has_the_four_events_of_every_instance_in_their_order() {
    let _alone = alone();
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("a recording", &engine);
    let wq = engine
        .workqueue("recorded")
        .max_active(1)
        .build()
        .expect("a queue");
    let id = live(&engine, "recorded").id();
    wq.spawn(|| {}).join().expect("no panic");
    let recording = Recording::begin(1000).expect("none is going on");
    assert!(Recording::begin(1).is_none(), "one at a time");
    let works: Vec<Work> = (0..20).map(|_| Work::new(|| {})).collect();
    for work in &works {
        assert!(wq.queue(work).is_accepted());
    }
    wq.flush().expect("not from an item");
    let threads = recording.take();
    let own_tid = rustix::thread::gettid().as_raw_nonzero().get();
    // Other tests of this program are recorded too: only items that were queued here count.
    let all = || {
        threads
            .iter()
            .flat_map(|thread| thread.events.iter().map(move |event| (thread, event)))
    };
    let mut of_item: HashMap<usize, Vec<TraceEvent>> = all()
        .filter(|(_, event)| event.kind == TraceKind::QueueWork && event.queue == id)
        .map(|(_, event)| (event.item, Vec::new()))
        .collect();
    for (thread, event) in all() {
        let Some(own) = of_item.get_mut(&event.item) else {
            continue;
        };
        own.push(*event);
        assert_eq!(thread.lost, 0);
        match event.kind {
            TraceKind::QueueWork => assert_eq!((thread.tid, event.requested_cpu), (own_tid, -1)),
            TraceKind::ActivateWork => assert_eq!(event.queue, 0),
            _ => {
                assert_eq!(event.queue, id);
                assert!(
                    thread.pool.is_some() && thread.name.starts_with("kworker/u"),
                    "{thread:?}"
                );
            }
        }
    }
    assert_eq!(of_item.len(), 20);
    for events in of_item.values_mut() {
        events.sort_by_key(|event| event.at_ns);
        let kinds: Vec<TraceKind> = events.iter().map(|event| event.kind).collect();
        use TraceKind::{ActivateWork, ExecuteEnd, ExecuteStart, QueueWork};
        assert_eq!(kinds, [QueueWork, ActivateWork, ExecuteStart, ExecuteEnd]);
        assert!(events.iter().all(|event| event.func == events[0].func));
    }
    let again = recording.take();
    let mut again = again.iter().flat_map(|thread| &thread.events);
    assert!(
        again.all(|event| !of_item.contains_key(&event.item)),
        "taken is taken"
    );

    drop(recording);
    wq.spawn(|| {}).join().expect("no panic");
    let recording = Recording::begin(2).expect("the first is over");
    for _ in 0..10 {
        wq.spawn(|| {}).join().expect("no panic");
    }
    wq.flush().expect("not from an item");
    let own = recording
        .take()
        .into_iter()
        .find(|thread| thread.tid == own_tid);
    let own = own.expect("this thread has queued");
    assert_eq!(own.events.len(), 2);
    assert!(own.lost >= 8, "{}", own.lost);
}

/// The notes of the USDT probes in this very program: name, arguments, address of the semaphore.
#[cfg(target_arch = "x86_64")]
fn probe_notes() -> Vec<(String, String, u64)> {
    let program = std::fs::read("/proc/self/exe").expect("it is running");
    let mut notes = Vec::new();
    let marker = b"stapsdt\0";
    for at in 0..program.len() - marker.len() {
        if &program[at..at + marker.len()] != marker {
            continue;
        }
        // Its header: the size of the name (8), of the description, and the kind (3).
        let number =
            |from: usize| u32::from_le_bytes(program[from..from + 4].try_into().expect("4"));
        if at < 12 || number(at - 12) != 8 || number(at - 4) != 3 {
            continue;
        }
        let end = at + 8 + number(at - 8) as usize;
        let Some(description) = program.get(at + 8..end) else {
            continue;
        };
        let semaphore = u64::from_le_bytes(description[16..24].try_into().expect("8 bytes"));
        let text = String::from_utf8_lossy(&description[24..]).into_owned();
        let mut parts = text.split('\0');
        if parts.next() == Some("cmwq") {
            let name = parts.next().unwrap_or_default().to_owned();
            notes.push((name, parts.next().unwrap_or_default().to_owned(), semaphore));
        }
    }
    notes
}

#[test]
#[cfg(target_arch = "x86_64")]
fn the_four_probes_are_in_the_program_and_share_the_switch_as_semaphore() {
    use std::os::unix::fs::FileExt;
    let _alone = alone();
    // The code must be linked in.
    let engine = engine("l3:1 core:1 pu:1");
    let _deadline = Deadline::new("probes", &engine);
    engine
        .workqueue("wq")
        .build()
        .expect("a queue")
        .spawn(|| {})
        .join()
        .expect("no panic");
    let notes = probe_notes();
    for (name, arguments) in [
        ("workqueue_queue_work", 5),
        ("workqueue_activate_work", 2),
        ("workqueue_execute_start", 2),
        ("workqueue_execute_end", 2),
    ] {
        let note = notes.iter().find(|(own, ..)| own == name);
        let (_, own, _) = note.unwrap_or_else(|| panic!("no {name} in {notes:?}"));
        assert_eq!(own.split(' ').count(), arguments, "{name}: {own}");
        assert!(
            own.split(' ').all(|argument| argument.starts_with("-8@%r")),
            "{name}: {own}"
        );
    }
    let semaphore = notes[0].2;
    assert!(notes.iter().all(|(.., own)| *own == semaphore), "{notes:?}");
    // Where the program lies. A sanitizer's memory may be mapped before it.
    let maps = std::fs::read_to_string("/proc/self/maps").expect("it is running");
    let program = std::env::current_exe().expect("it is running");
    let program = program.to_str().expect("a name in UTF-8");
    let own = maps.lines().find(|mapping| mapping.ends_with(program));
    let begin = own.expect("its first mapping").split('-').next();
    let begin = begin.expect("an address");
    let begin = u64::from_str_radix(begin, 16).expect("hexadecimal");
    let memory = std::fs::File::open("/proc/self/mem").expect("one's own");
    let read = || {
        let mut bytes = [0; 4];
        memory
            .read_exact_at(&mut bytes, begin + semaphore)
            .expect("mapped");
        bytes
    };
    assert_eq!(read()[..2], [0, 0], "no tool is attached");
    let recording = Recording::begin(10).expect("none is going on");
    assert_eq!(read(), [0, 0, 1, 0], "the recorder's bit is beside it");
    drop(recording);
    assert_eq!(read(), [0; 4]);
}

/// Two queues of one pool, and one worker's CPU time between them: what computes has it, what sleeps has none, and all of it is charged.
#[test]
fn cpu_time_goes_to_those_who_compute() {
    let engine = engine("l3:1 core:1 pu:1");
    let _deadline = Deadline::new("CPU time", &engine);
    let computes = engine
        .workqueue("computes")
        .per_cpu()
        .cpu_intensive()
        .build()
        .expect("a queue");
    let sleeps = engine
        .workqueue("sleeps")
        .per_cpu()
        .build()
        .expect("a queue");
    engine.account_cpu_time();
    let stop = Arc::new(AtomicBool::new(false));
    let begun = Arc::new(Completion::new());
    let (seen, running) = (stop.clone(), begun.clone());
    let sleeper = sleeps.spawn(move || {
        running.complete();
        while !seen.load(Ordering::Relaxed) {
            std::thread::park_timeout(std::time::Duration::from_millis(1));
        }
    });
    begun.wait();
    // So short that samples rarely find one running.
    let work = Work::new(|| {
        for _ in 0..100_000 {
            std::hint::spin_loop();
        }
    });
    let cpu_ns = || {
        let states = engine.queue_states();
        let of = |name: &str| {
            let state = states.iter().find(|state| state.name == name);
            state.expect("it is there").stats.cpu_ns
        };
        (of("computes"), of("sleeps"))
    };
    while cpu_ns().0 < 50_000_000 {
        let _ = computes.queue(&work);
        engine.account_cpu_time();
    }
    let (computing, sleeping) = cpu_ns();
    assert!(sleeping < computing / 5, "{computing} ns and {sleeping} ns");
    stop.store(true, Ordering::Relaxed);
    sleeper.join().expect("no panic");
}
