//! Timing, recordings and probes of what happens to items.

use crate::harness::{Deadline, engine};
use crate::{alone, live};
use cmwq::Work;
use cmwq::observe::{EnqueueTiming, Recording, TraceEvent, TraceKind};
use cmwq::raw::{RawWork, WorkqueueHandle};
use cmwq::types::Queued;
use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::Arc;

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

/// As C queues.
#[test]
fn calls_of_queue_by_a_handle_are_timed_too() {
    let _alone = alone();
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("calls by a handle", &engine);
    let wq = Arc::new(engine.workqueue("timed").build().expect("a queue"));
    let handle = WorkqueueHandle::new(wq.clone()).expect("a handle");
    extern "C-unwind" fn nothing(_: NonNull<RawWork>) {}
    let item = RawWork::new(nothing);
    let timing = EnqueueTiming::begin();
    for _ in 0..1000 {
        // SAFETY: it is flushed before it goes.
        let queued = unsafe { handle.queue_raw(NonNull::from(&item)) };
        assert_eq!(queued, Ok(Queued::Accepted));
        wq.flush().expect("not from an item");
    }
    drop(timing);
    let count = engine.queue_states()[0].enqueue.count();
    assert!((10..=31).contains(&count), "about every 64th: {count}");
    handle.destroy().expect("it names the queue");
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
