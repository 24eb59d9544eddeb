//! Case 19: no thread can be created, or none for long.
//!
//! Each test is a process of its own, in which no thread can be created as long as the test wants.

use super::thread_creation::Shortage;
use super::*;
use cmwq::raw::{current_is_mem_reclaim, current_is_rescuer};

/// The thread that ran an item.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ran {
    item: (usize, usize),
    by: String,
    rescuer: bool,
    reclaim: bool,
}

type Log = Arc<Mutex<Vec<Ran>>>;

/// Queues an item from `cpu` that records the thread that runs it.
fn log_on(wq: &Workqueue, cpu: usize, n: usize, log: &Log) {
    let log = log.clone();
    let note = move || {
        log.lock().unwrap().push(Ran {
            item: (cpu, n),
            by: own_name(),
            rescuer: current_is_rescuer(),
            reclaim: current_is_mem_reclaim(),
        });
    };
    drop(wq.spawn_on(cpu, note).unwrap());
}

fn len(log: &Log) -> usize {
    log.lock().unwrap().len()
}

#[test]
fn case_19_a_rescuer_runs_its_queue_and_others_wait_for_a_worker() {
    in_own_process(|| {
        let heard = Heard::warnings();
        let engine = engine("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("case 19", &engine);
        let reclaim = engine.workqueue("reclaim").mem_reclaim().build().unwrap();
        let plain = engine.workqueue("plain").build().unwrap();
        let shortage = Shortage::of_all();
        let (rescued, stalled) = (Log::default(), Log::default());
        for n in 0..40 {
            // They share a pool: items of the other queue are in front of each.
            log_on(&plain, n % 2, n, &stalled);
            log_on(&reclaim, n % 2, n, &rescued);
        }
        eventually(|| len(&rescued) == 40);
        assert_eq!(len(&stalled), 0, "nobody is there to run these");
        reclaim.flush().unwrap();
        let stats = engine.stats();
        assert_eq!((stats.rescued, stats.workers), (40, 0));
        assert!(stats.mayday >= 1 && stats.create_failures >= 1, "{stats:?}");
        for (n, ran) in rescued.lock().unwrap().iter().enumerate() {
            assert!(ran.rescuer && ran.reclaim, "{ran:?}");
            assert_eq!(ran.by, "kworker/R-recla", "the name is cut by the system");
            assert_eq!(ran.item.1, n, "in order");
        }
        eventually(|| shortage.refused() > 0);
        drop(shortage);
        plain.flush().unwrap();
        assert_eq!(len(&stalled), 40, "nothing is lost");
        for ran in stalled.lock().unwrap().iter() {
            assert!(!ran.rescuer && !ran.reclaim, "{ran:?}");
        }
        // Now that there are workers, the rescuer rests.
        log_on(&reclaim, 0, 40, &rescued);
        reclaim.flush().unwrap();
        let last = rescued.lock().unwrap().pop().unwrap();
        assert!(!last.rescuer && last.reclaim, "{last:?}");
        assert_eq!(engine.stats().rescued, 40);
        // The reporter calls the handler.
        eventually(|| heard.count("worker thread cannot be created") == 1);
    });
}

#[test]
fn case_19_an_item_in_a_rescuers_hands_is_described() {
    in_own_process(|| {
        let _warnings = Heard::warnings();
        let engine = engine("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("case 19", &engine);
        let reclaim = engine.workqueue("reclaim").mem_reclaim().build().unwrap();
        let shortage = Shortage::of_all();
        let door = Door::new();
        let inside = door.clone();
        let item = reclaim.spawn(move || {
            cmwq::observe::set_worker_desc("writes back");
            inside.pass();
            current_is_rescuer()
        });
        door.wait_for(1);
        let dump = engine.dump().to_string();
        assert!(dump.contains(" (writes back) for "), "{dump}");
        door.open.complete();
        // The handle is joined by a thread that would run the item itself, were it not running.
        assert!(item.join().unwrap());
        drop(shortage);
    });
}

#[test]
fn case_28_an_item_that_a_rescuers_items_overtake_is_reported() {
    in_own_process(|| {
        let (reports, _warnings) = (Heard::reports(), Heard::warnings());
        let engine = engine("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("case 28", &engine);
        let reclaim = engine.workqueue("reclaim").mem_reclaim().build().unwrap();
        let plain = engine.workqueue("plain").build().unwrap();
        let shortage = Shortage::of_all();
        engine.set_watchdog_threshold(Duration::from_millis(200));
        let (rescued, stalled) = (Log::default(), Log::default());
        log_on(&plain, 0, 0, &stalled);
        let mut n = 0;
        eventually(|| {
            log_on(&reclaim, 0, n, &rescued);
            n += 1;
            eventually(|| len(&rescued) == n);
            reports.count("lockup") > 0
        });
        assert_eq!(len(&stalled), 0);
        drop(shortage);
        plain.flush().unwrap();
    });
}

#[test]
fn case_19_each_queue_is_rescued_by_its_own_on_every_cpu() {
    in_own_process(|| {
        let engine = engine("l3:2 core:2 pu:1");
        let _deadline = Deadline::new("case 19", &engine);
        let queues = ["one", "two"].map(|name| {
            let queue = engine.workqueue(name).per_cpu().mem_reclaim();
            queue.build().unwrap()
        });
        let plain = engine.workqueue("plain").per_cpu().build().unwrap();
        let shortage = Shortage::of_all();
        let logs = [Log::default(), Log::default()];
        let stalled = Log::default();
        // More items than a rescuer runs in one turn.
        for n in 0..50 {
            for cpu in 0..4 {
                for (wq, log) in queues.iter().zip(&logs) {
                    log_on(wq, cpu, n, log);
                }
                log_on(&plain, cpu, n, &stalled);
            }
        }
        for (wq, log) in queues.iter().zip(&logs) {
            wq.flush().unwrap();
            let log = log.lock().unwrap();
            let by = format!("kworker/R-{}", wq.name());
            assert!(log.iter().all(|ran| ran.rescuer && ran.by == by));
            for cpu in 0..4 {
                let of_cpu = log.iter().filter(|ran| ran.item.0 == cpu);
                assert!(of_cpu.map(|ran| ran.item.1).eq(0..50), "CPU {cpu}: order");
            }
        }
        assert_eq!(engine.stats().rescued, 400);
        assert_eq!(len(&stalled), 0);
        eventually(|| shortage.refused() > 0);
        drop(shortage);
        plain.flush().unwrap();
        assert_eq!(len(&stalled), 200);
    });
}

#[test]
fn case_19_a_rescuer_goes_round_those_who_called_it() {
    in_own_process(|| {
        let engine = engine("l3:1 core:3 pu:1");
        let _deadline = Deadline::new("case 19", &engine);
        let wq = engine.workqueue("r").per_cpu().mem_reclaim().build();
        let wq = wq.unwrap();
        let shortage = Shortage::of_all();
        let (door, log) = (Door::new(), Log::default());
        // Held in its first item until the other CPUs have called as well.
        let _held = held(&wq, 0, 1, &door);
        door.wait_for(1);
        for n in 0..200 {
            for cpu in 0..3 {
                log_on(&wq, cpu, n, &log);
            }
        }
        let called = || {
            let dump = engine.dump().to_string();
            let calls = |cpu: usize| {
                let cpus = format!("cpus={cpu} ");
                dump.lines()
                    .any(|line| line.contains(&cpus) && line.ends_with("MAYDAY"))
            };
            calls(1) && calls(2)
        };
        eventually(called);
        door.open.complete();
        wq.flush().unwrap();
        let log = log.lock().unwrap();
        let first = |cpu| log.iter().position(|ran| ran.item.0 == cpu).unwrap();
        let last_of_0 = log.iter().rposition(|ran| ran.item.0 == 0).unwrap();
        assert!(
            first(1) < last_of_0 && first(2) < last_of_0,
            "one after the other"
        );
        assert_eq!((log.len(), engine.stats().rescued), (600, 601));
        drop(shortage);
    });
}

#[test]
fn case_19_workers_that_block_on_what_is_to_be_rescued_come_free() {
    in_own_process(|| {
        let engine = engine("l3:1 core:1 pu:1");
        let _deadline = Deadline::new("case 19", &engine);
        let reclaim = engine.workqueue("reclaim").mem_reclaim().workers_only();
        let reclaim = Arc::new(reclaim.build().unwrap());
        let plain = engine.workqueue("plain").workers_only().build().unwrap();
        plain.spawn(|| ()).join().unwrap();
        let shortage = Shortage::of_all();
        // Each waits for an item that is queued behind all of them, on a pool that has a worker or two.
        let freed = Arc::new(Completion::new());
        let handles: Vec<_> = (0..20)
            .map(|_| {
                let freed = freed.clone();
                plain.spawn(move || freed.wait())
            })
            .collect();
        let frees = reclaim.spawn({
            let freed = freed.clone();
            move || {
                freed.complete();
                current_is_rescuer()
            }
        });
        assert!(frees.join().unwrap());
        // The existing workers do the rest: none has to be created for it.
        for handle in handles {
            handle.join().unwrap();
        }
        drop(shortage);
        plain.flush().unwrap();
    });
}

#[test]
fn case_19_an_ordered_queue_keeps_its_order_in_its_rescuers_hands() {
    in_own_process(|| {
        let engine = engine("l3:2 core:2 pu:1");
        let _deadline = Deadline::new("case 19", &engine);
        let wq = engine.workqueue("o").ordered().mem_reclaim().build();
        let wq = wq.unwrap();
        let mut shortage = Some(Shortage::of_all());
        let log = Log::default();
        let mut n = 0;
        eventually(|| {
            log_on(&wq, n % 4, n, &log);
            n += 1;
            if n == 100 {
                // Items flow while workers take over. Under load the rescuer may have run all
                // before the creator gets a CPU.
                eventually(|| {
                    let refused = |shortage: &Shortage| shortage.refused() > 0;
                    shortage.as_ref().is_none_or(refused) || len(&log) == n
                });
                shortage = None;
            }
            n == 400
        });
        wq.flush().unwrap();
        let log = log.lock().unwrap();
        assert!(log.iter().map(|ran| ran.item.1).eq(0..400), "order");
        assert!(log.iter().all(|ran| ran.reclaim));
    });
}

#[test]
fn case_19_a_rescuer_ends_with_its_queue_and_runs_everything_before() {
    in_own_process(|| {
        let engine = engine("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("case 19", &engine);
        let wq = engine.workqueue("r").mem_reclaim().build().unwrap();
        eventually(|| threads_named("kworker/R-r").len() == 1);
        let shortage = Shortage::of_all();
        assert!(
            matches!(
                engine.workqueue("s").mem_reclaim().build(),
                Err(Error::Thread(_))
            ),
            "no queue without its rescuer"
        );
        let log = Log::default();
        for n in 0..100 {
            log_on(&wq, n % 2, n, &log);
        }
        drop(wq);
        assert_eq!(len(&log), 100);
        eventually(|| threads_named("kworker/R-").is_empty());
        eventually(|| shortage.refused() > 0);
        drop(shortage);
        eventually(|| engine.stats().pools == 0);
    });
}

#[test]
fn case_19_a_call_that_is_answered_late_is_not_taken_for_another_queues() {
    in_own_process(|| {
        let engine = engine("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("case 19", &engine);
        let by_cpu = |name| engine.workqueue(name).affinity_scope(AffinityScope::Cpu);
        // Keeps the pools alive, whatever the others do.
        let _stays = by_cpu("stays").build().unwrap();
        let wq = by_cpu("r").mem_reclaim().workers_only();
        let wq = wq.build().unwrap();
        let shortage = Shortage::of_all();
        let door = Door::new();
        let _held = held(&wq, 0, 1, &door);
        door.wait_for(1);
        // The other CPU's pool calls, but before the rescuer comes the queue has left that pool,
        // and another one moved in.
        let runs = Arc::new(AtomicUsize::new(0));
        let work = counting(&runs);
        assert!(wq.queue_on(1, &work).unwrap().is_accepted());
        eventually(|| engine.dump().to_string().contains("MAYDAY"));
        assert!(work.cancel());
        let mut attrs = wq.attrs();
        attrs.affinity_scope = AffinityScope::System;
        wq.apply_attrs(attrs).unwrap();
        let plain = by_cpu("plain").build().unwrap();
        let log = Log::default();
        for n in 0..10 {
            log_on(&plain, 1, n, &log);
        }
        door.open.complete();
        // Rescued after that call has been answered.
        wq.spawn(|| ()).join().unwrap();
        assert_eq!(len(&log), 0, "not of its queue");
        eventually(|| shortage.refused() > 0);
        drop(shortage);
        plain.flush().unwrap();
        assert_eq!(len(&log), 10);
        assert!(log.lock().unwrap().iter().all(|ran| !ran.rescuer));
    });
}

#[test]
fn case_19_a_rescuer_stays_on_the_cpu_that_called_it_until_it_is_done_there() {
    in_own_process(|| {
        let engine = engine("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("case 19", &engine);
        let wq = engine.workqueue("r").per_cpu().mem_reclaim().build();
        let wq = wq.unwrap();
        let issuer = engine.become_issuer(1).unwrap();
        let behind_1 = cpus::own_binding();
        drop(issuer);
        let shortage = Shortage::of_all();
        let door = Door::new();
        let bindings = wq.spawn_on(1, {
            let door = door.clone();
            move || {
                let before = cpus::own_binding();
                door.pass();
                (before, cpus::own_binding())
            }
        });
        door.wait_for(1);
        // New CPUs for the rescuer when it is idle.
        let first = CpuSet::from_iter([0]);
        engine.set_unbound_cpumask(&first).unwrap();
        door.open.complete();
        let bindings = bindings.unwrap().join().unwrap();
        assert_eq!(bindings, (behind_1.clone(), behind_1));
        assert_eq!(engine.stats().rescued, 1);
        drop(shortage);
    });
}

#[test]
fn case_19_a_creation_that_takes_long_calls_the_rescuer_too_and_holds_up_nothing() {
    in_own_process(|| {
        let reports = Heard::reports();
        let engine = Engine::builder()
            .topology(Topology::from_synthetic("l3:2 core:1 pu:1").unwrap())
            .watchdog_threshold(Duration::from_millis(100))
            .idle_timeout(Duration::from_millis(1))
            .build()
            .unwrap();
        let _deadline = Deadline::new("case 19", &engine);
        let by_cpu = |name| {
            let queue = engine.workqueue(name).affinity_scope(AffinityScope::Cpu);
            queue.affinity_strict(true).workers_only()
        };
        let reclaim = by_cpu("reclaim").mem_reclaim().build().unwrap();
        let plain = by_cpu("plain").build().unwrap();
        // The second CPU has workers, more than are kept.
        let door = Door::new();
        let held = held(&plain, 1, 8, &door);
        door.wait_for(8);
        let shortage = Shortage::that_waits();
        let (rescued, stalled) = (Log::default(), Log::default());
        for n in 0..20 {
            log_on(&plain, 0, n, &stalled);
            log_on(&reclaim, 0, n, &rescued);
        }
        reclaim.flush().unwrap();
        assert!(rescued.lock().unwrap().iter().all(|ran| ran.rescuer));
        assert_eq!((len(&rescued), len(&stalled)), (20, 0));
        // Under load the rescuer may come before the creator gets a CPU.
        eventually(|| shortage.waited() > 0);
        assert_eq!(engine.stats().create_failures, 0, "none was refused");
        // The watchdog goes on.
        eventually(|| reports.count("has not been created") >= 1);
        // Idle workers go.
        let workers = || engine.stats().workers;
        let before = workers();
        door.open.complete();
        drop(held);
        eventually(|| workers() < before);
        // The monitor goes on: a worker that sleeps without saying so is found, or what is behind
        // it on its CPU would not start.
        let (wakes, sleeps) = std::sync::mpsc::channel::<()>();
        let sleeper = plain.spawn_on(1, move || sleeps.recv().is_ok()).unwrap();
        plain.spawn_on(1, || ()).unwrap().join().unwrap();
        wakes.send(()).unwrap();
        assert!(sleeper.join().unwrap());
        assert_eq!(len(&stalled), 0);
        drop(shortage);
        plain.flush().unwrap();
        assert_eq!(len(&stalled), 20);
    });
}

#[test]
fn case_19_an_item_that_a_rescuer_runs_cannot_wait_for_itself() {
    in_own_process(|| {
        let _heard = Heard::warnings();
        let engine = engine("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("case 19, own item", &engine);
        let wq = Arc::new(engine.workqueue("reclaim").mem_reclaim().build().unwrap());
        let shortage = Shortage::of_all();
        let slot = Arc::new(Mutex::new(None::<cmwq::JoinHandle<()>>));
        let told = Arc::new(Mutex::new(Vec::new()));
        let (own, note, queue) = (slot.clone(), told.clone(), wq.clone());
        *slot.lock().unwrap() = Some(wq.spawn(move || {
            eventually(|| own.lock().unwrap().is_some());
            let own = own.lock().unwrap().take().unwrap();
            let joined = matches!(own.join(), Err(JoinError::OwnItem));
            let flushed = queue.flush() == Err(cmwq::types::FlushError::OwnItem);
            note.lock()
                .unwrap()
                .push((current_is_rescuer(), joined, flushed));
        }));
        eventually(|| !told.lock().unwrap().is_empty());
        assert_eq!(*told.lock().unwrap(), [(true, true, true)]);
        drop(shortage);
    });
}
