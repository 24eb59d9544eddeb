//! Case 28: pools that get on with nothing.
//!
//! The monitor soon finds an item that sleeps, and an item over the CPU-intensive threshold gets company. So who holds a
//! per-CPU pool up here computes, without such a threshold; a BH pool is held up by anything.

use super::*;

const THRESHOLD: Duration = Duration::from_millis(200);

fn watched(threshold: Duration) -> Engine {
    let engine = Engine::builder()
        .topology(Topology::from_synthetic("l3:1 core:2 pu:1").unwrap())
        .watchdog_threshold(threshold)
        .build()
        .unwrap();
    engine.set_cpu_intensive_threshold(Duration::ZERO);
    engine
}

#[test]
fn case_28_a_per_cpu_pool_behind_an_item_that_computes_is_reported() {
    in_own_process(|| {
        let reports = Heard::reports();
        let engine = watched(THRESHOLD);
        let _deadline = Deadline::new("case 28", &engine);
        let wq = engine.workqueue("stuck").per_cpu().build().unwrap();
        let door = Door::new();
        let spinner = wq.spawn_on(1, {
            let door = door.clone();
            move || door.pass_awake()
        });
        door.wait_for(1);
        let begun = Instant::now();
        let waiting = wq.spawn_on(1, || ()).unwrap();
        eventually(|| reports.count("lockup") >= 1);
        assert!(begun.elapsed() >= THRESHOLD, "not before the threshold");
        let report = reports.with("lockup").remove(0);
        let first = report.lines().next().unwrap();
        assert!(
            first.contains("cpus=1 ") && first.contains("per-CPU"),
            "{report}"
        );
        assert!(report.contains("workqueue stuck: percpu"), "{report}");
        assert!(report.contains("in-flight:"), "{report}");
        assert!(report.contains("pending:"), "{report}");
        assert!(
            report.contains("kworker/1:"),
            "what its threads do: {report}"
        );
        eventually(|| reports.count("lockup") >= 2);
        assert!(begun.elapsed() >= 2 * THRESHOLD, "again after another one");
        door.open.complete();
        spinner.unwrap().join().unwrap();
        waiting.join().unwrap();
        assert_eq!(reports.count("lockup"), reports.count("cpus=1 "));
    });
}

#[test]
fn case_28_a_bh_pool_behind_an_item_that_sleeps_is_reported() {
    in_own_process(|| {
        let (reports, _warnings) = (Heard::reports(), Heard::warnings());
        let engine = watched(THRESHOLD);
        let _deadline = Deadline::new("case 28", &engine);
        let wq = engine.workqueue("stuck").bh().build().unwrap();
        let door = Door::new();
        let _held = held(&wq, 0, 1, &door);
        door.wait_for(1);
        let waiting = wq.spawn_on(0, || ()).unwrap();
        eventually(|| reports.count("lockup") >= 1);
        let report = reports.with("lockup").remove(0);
        let first = report.lines().next().unwrap();
        assert!(
            first.contains("cpus=0 ") && first.contains("BH"),
            "{report}"
        );
        assert!(report.contains("workqueue stuck: bh"), "{report}");
        door.open.complete();
        waiting.join().unwrap();
    });
}

#[test]
fn case_28_long_items_alone_and_pools_that_get_on_are_not_reported() {
    in_own_process(|| {
        let reports = Heard::reports();
        let engine = watched(Duration::ZERO);
        let unwatched = watched(Duration::ZERO);
        let _deadline = Deadline::new("case 28", &engine);
        let door = Door::new();
        let awake = |wq: &Workqueue| {
            let door = door.clone();
            wq.spawn_on(1, move || door.pass_awake()).unwrap()
        };
        // Long, but with a CPU to spare; on all the CPUs of its pod, where others wait in order; long, but with nothing
        // behind it; stuck, but nobody is to look.
        let spare = engine.workqueue("spare").build().unwrap();
        let full = engine.workqueue("full").cpumask(CpuSet::from_iter([0]));
        let full = full.build().unwrap();
        let alone = engine.workqueue("alone").per_cpu().highpri();
        let alone = alone.build().unwrap();
        let unseen = unwatched.workqueue("unseen").per_cpu().build().unwrap();
        // And the one that will be reported: the test's clock.
        let stuck = engine.workqueue("stuck").per_cpu().build().unwrap();
        let mut handles: Vec<_> = [&spare, &full, &alone, &unseen, &stuck].map(awake).into();
        door.wait_for(5);
        // Not before: on a busy machine a pool's first worker may take longer to come.
        engine.set_watchdog_threshold(THRESHOLD);
        handles.push(full.spawn_on(1, || ()).unwrap());
        handles.push(unseen.spawn_on(1, || ()).unwrap());
        handles.push(stuck.spawn_on(1, || ()).unwrap());
        eventually(|| {
            spare.spawn_on(1, || ()).unwrap().join().unwrap();
            reports.count("lockup") >= 2
        });
        for report in reports.with("lockup") {
            let lockups = report.lines().filter(|line| line.contains("lockup"));
            for line in lockups {
                assert!(
                    line.contains("cpus=1 ") && line.contains("nice=0"),
                    "{report}"
                );
            }
            assert!(!report.contains("unseen"), "{report}");
        }
        door.open.complete();
        for handle in handles {
            handle.join().unwrap();
        }
    });
}

#[test]
fn case_28_the_threshold_can_be_changed_while_a_pool_is_stuck() {
    in_own_process(|| {
        let reports = Heard::reports();
        let engine = watched(Duration::ZERO);
        let _deadline = Deadline::new("case 28", &engine);
        let wq = engine.workqueue("stuck").per_cpu().build().unwrap();
        let door = Door::new();
        let spinner = wq.spawn_on(0, {
            let door = door.clone();
            move || door.pass_awake()
        });
        door.wait_for(1);
        let waiting = wq.spawn_on(0, || ()).unwrap();
        let begun = Instant::now();
        engine.set_watchdog_threshold(THRESHOLD);
        assert_eq!(engine.watchdog_threshold(), THRESHOLD);
        eventually(|| reports.count("lockup") >= 1);
        assert!(begun.elapsed() >= THRESHOLD);
        engine.set_watchdog_threshold(Duration::ZERO);
        door.open.complete();
        spinner.unwrap().join().unwrap();
        waiting.join().unwrap();
    });
}
