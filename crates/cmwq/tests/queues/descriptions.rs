//! What an item describes itself as, and which views show it for how long.

use crate::harness::{Broken, Deadline, Door, Heard, engine, eventually, in_own_process};
use cmwq::observe::RunState;
use cmwq::observe::set_worker_desc;
use cmwq::{Engine, Work, Workqueue};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The item that the calling thread runs, as tools see it.
fn own_runs(engine: &Engine) -> Vec<RunState> {
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    let runs = engine.pool_states().into_iter().flat_map(|pool| pool.runs);
    runs.filter(|run| run.tid == own).collect()
}

fn own_descriptions(engine: &Engine) -> Vec<String> {
    let runs = own_runs(engine).into_iter();
    runs.map(|run| run.description).collect()
}

/// An item that describes itself at every other run, and checks the result.
fn looks(engine: &Engine, broken: &Arc<Broken>, run: usize) {
    let text = format!("run {run}");
    let expected = match run % 2 {
        0 => {
            set_worker_desc(&text);
            text
        }
        _ => "described".to_owned(),
    };
    let seen = own_descriptions(engine);
    broken.expect(seen == [expected.clone()], || {
        format!("{seen:?} instead of {expected:?}")
    });
}

fn queue(engine: &Engine) -> Workqueue {
    engine.workqueue("described").build().unwrap()
}

#[test]
fn an_item_of_a_bh_queue_is_described() {
    let engine = engine("l3:1 core:1 pu:1");
    let _deadline = Deadline::new("descriptions", &engine);
    let bh = engine.workqueue("bh").bh().build().unwrap();
    let seen = bh.spawn({
        let engine = engine.clone();
        move || {
            set_worker_desc("softly");
            own_descriptions(&engine)
        }
    });
    assert_eq!(seen.join().unwrap(), ["softly"]);
}

#[test]
fn an_item_is_described_in_the_dump_until_it_ends() {
    let engine = engine("l3:1 core:1 pu:1");
    let _deadline = Deadline::new("descriptions", &engine);
    let wq = queue(&engine);
    let door = Door::new();
    let runs = Arc::new(AtomicUsize::new(0));
    let work = Work::new({
        let (door, runs) = (door.clone(), runs.clone());
        move || {
            if runs.fetch_add(1, Ordering::SeqCst) == 0 {
                set_worker_desc("eth0: the first of its kind");
            }
            door.pass();
        }
    });
    assert!(wq.queue(&work).is_accepted());
    door.wait_for(1);
    let dump = engine.dump().to_string();
    assert!(
        dump.contains(" (eth0: the first of its kind) for "),
        "{dump}"
    );
    // Again, on the same worker right behind: the entry in the busy table is the same, and the
    // description is not.
    assert!(wq.queue(&work).is_accepted());
    door.open.complete();
    wq.flush().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    let second = Door::new();
    let own = second.clone();
    let handle = wq.spawn(move || own.pass());
    second.wait_for(1);
    let dump = engine.dump().to_string();
    assert!(
        dump.contains("in-flight:") && !dump.contains("eth0"),
        "{dump}"
    );
    second.open.complete();
    handle.join().unwrap();
}

#[test]
fn an_item_that_was_queued_again_meanwhile_begins_without_a_description() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("descriptions", &engine);
    let broken = Arc::new(Broken::default());
    let wq = Arc::new(queue(&engine));
    let runs = Arc::new(AtomicUsize::new(0));
    let again: Arc<std::sync::OnceLock<Work>> = Arc::default();
    let work = Work::new({
        let (engine, broken, runs) = (engine.clone(), broken.clone(), runs.clone());
        let (wq, again) = (Arc::downgrade(&wq), again.clone());
        move || {
            let run = runs.fetch_add(1, Ordering::SeqCst);
            looks(&engine, &broken, run);
            // The other worker takes the instance and leaves it to this one.
            if run < 100
                && let Some(wq) = wq.upgrade()
            {
                let _ = wq.queue(again.get().unwrap());
                eventually(|| own_runs(&engine)[0].scheduled.len() == 1);
            }
        }
    });
    again.set(work.clone()).unwrap_or_else(|_| unreachable!());
    assert!(wq.queue(&work).is_accepted());
    eventually(|| runs.load(Ordering::SeqCst) == 101);
    wq.flush().unwrap();
    broken.none();
}

#[test]
fn items_of_batches_describe_themselves_one_by_one() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("descriptions", &engine);
    let broken = Arc::new(Broken::default());
    let wq = queue(&engine);
    for run in 0..2000 {
        let (engine, broken) = (engine.clone(), broken.clone());
        wq.execute(move || looks(&engine, &broken, run)).unwrap();
        // Short ones between them, so that batches are opened.
        for _ in 0..50 {
            wq.execute(|| ()).unwrap();
        }
    }
    wq.flush().unwrap();
    broken.none();
}

#[test]
fn who_waits_for_an_item_and_runs_it_shows_its_description() {
    let engine = engine("l3:1 core:1 pu:1");
    let _deadline = Deadline::new("descriptions", &engine);
    let broken = Arc::new(Broken::default());
    let wq = queue(&engine);
    let _here = engine.become_issuer(0).unwrap();
    let mut run = 0;
    // As queued items at first, in a caller slot from the seventeenth on.
    while engine.stats().waiter_runs < 200 {
        let (engine, broken, number) = (engine.clone(), broken.clone(), run);
        let handle = wq.spawn(move || looks(&engine, &broken, number));
        handle.join().unwrap();
        run += 1;
    }
    broken.none();
}

#[test]
fn a_run_in_a_lane_that_is_closed_meanwhile_is_still_shown() {
    let engine = engine("l3:1 core:1 pu:1");
    let _deadline = Deadline::new("descriptions", &engine);
    let broken = Arc::new(Broken::default());
    let wq = Arc::new(queue(&engine));
    let _here = engine.become_issuer(0).unwrap();
    for run in 0..400 {
        let (engine, broken, own) = (engine.clone(), broken.clone(), wq.clone());
        let handle = wq.spawn(move || {
            // Visits every pool workqueue, and so closes their caller slots.
            if run % 50 >= 40 {
                own.set_max_active(64 + run).unwrap();
            }
            looks(&engine, &broken, run);
            if run % 50 >= 40 {
                own.set_max_active(64).unwrap();
            }
            looks(&engine, &broken, run);
        });
        handle.join().unwrap();
    }
    wq.flush().unwrap();
    broken.none();
    let (started, completed) = wq.counts();
    assert_eq!((started, completed), (400, 400));
}

#[test]
fn a_thread_that_runs_no_item_has_no_description() {
    let engine = engine("l3:1 core:1 pu:1");
    let _deadline = Deadline::new("descriptions", &engine);
    let wq = queue(&engine);
    set_worker_desc("nobody");
    let door = Door::new();
    let own = door.clone();
    let handle = wq.spawn(move || own.pass());
    door.wait_for(1);
    let dump = engine.dump().to_string();
    assert!(!dump.contains("nobody"), "{dump}");
    door.open.complete();
    handle.join().unwrap();
}

#[test]
fn the_report_of_a_stall_has_the_description_of_who_is_to_blame() {
    in_own_process(|| {
        let reports = Heard::reports();
        let engine = engine("l3:1 core:1 pu:1");
        let _deadline = Deadline::new("descriptions", &engine);
        engine.set_cpu_intensive_threshold(Duration::ZERO);
        let wq = engine.workqueue("stuck").per_cpu().build().unwrap();
        let door = Door::new();
        let own = door.clone();
        let spins = wq.spawn(move || {
            set_worker_desc("spins for ever");
            own.pass_awake();
        });
        door.wait_for(1);
        let waits = wq.spawn(|| ());
        engine.set_watchdog_threshold(Duration::from_millis(200));
        eventually(|| reports.count("lockup") >= 1);
        let report = reports.with("lockup").remove(0);
        assert!(report.contains(" (spins for ever) for "), "{report}");
        door.open.complete();
        spins.join().unwrap();
        waits.join().unwrap();
    });
}
