//! Case 25: CPUs that go and come back.

use super::*;

/// The CPUs of the pool that runs a queue's items, as the dump shows them; the queue has one item,
/// which is running.
fn pool_cpus(engine: &Engine, wq: &Workqueue) -> String {
    let dump = engine.dump().to_string();
    let queue = format!("workqueue {}:", wq.name());
    let mut lines = dump.lines().skip_while(|line| !line.starts_with(&queue));
    let pwq = lines.nth(1).unwrap_or_else(|| panic!("{dump}"));
    let (_, cpus) = pwq.split_once("cpus=").expect("a list of CPUs");
    cpus.split(' ').next().unwrap_or_default().to_owned()
}

/// Where an item queued from `cpu` runs.
fn runs_in_pool_of(engine: &Engine, wq: &Workqueue, cpu: usize) -> String {
    let door = Door::new();
    let _held = held(wq, cpu, 1, &door);
    door.wait_for(1);
    let cpus = pool_cpus(engine, wq);
    door.open.complete();
    wq.flush().unwrap();
    cpus
}

#[test]
fn case_25_a_pod_outside_the_unbound_mask_is_served_by_the_pool_of_all() {
    let engine = engine("l3:2 core:2 pu:1");
    let _deadline = Deadline::new("case 25", &engine);
    let wq = engine.workqueue("w").affinity_scope(AffinityScope::Cache);
    let wq = wq.build().unwrap();
    let only_there = engine
        .workqueue("there")
        .affinity_scope(AffinityScope::Cache)
        .cpumask(CpuSet::from_iter([2, 3]))
        .build()
        .unwrap();
    let ordered = engine.workqueue("o").ordered().build().unwrap();
    let bound = engine.workqueue("b").per_cpu().build().unwrap();
    let pools = engine.stats().pools;
    for _ in 0..10 {
        assert_eq!(runs_in_pool_of(&engine, &wq, 3), "2-3");
        assert_eq!(runs_in_pool_of(&engine, &only_there, 0), "2-3");
        // Running when its pod goes, and with others behind it.
        let (door, runs) = (Door::new(), Arc::new(AtomicUsize::new(0)));
        let held = held(&wq, 3, 3, &door);
        let works = [(); 50].map(|()| counting(&runs));
        for work in &works {
            assert!(wq.queue_on(2, work).unwrap().is_accepted());
        }
        door.wait_for(3);
        let first_pod = CpuSet::from_iter([0, 1]);
        engine.set_unbound_cpumask(&first_pod).unwrap();
        assert_eq!(engine.unbound_cpumask(), first_pod);
        door.open.complete();
        wq.flush().unwrap();
        assert_eq!(runs.load(Ordering::SeqCst), 50, "nothing is lost");
        for cpu in 0..4 {
            assert_eq!(runs_in_pool_of(&engine, &wq, cpu), "0-1");
            // A mask of which nothing is left is ignored, but kept.
            assert_eq!(runs_in_pool_of(&engine, &only_there, cpu), "0-1");
            assert_eq!(runs_in_pool_of(&engine, &ordered, cpu), "0-1");
            assert_eq!(runs_in_pool_of(&engine, &bound, cpu), cpu.to_string());
        }
        engine
            .set_unbound_cpumask(engine.topology().cpus())
            .unwrap();
        assert_eq!(runs_in_pool_of(&engine, &wq, 3), "2-3");
        assert_eq!(runs_in_pool_of(&engine, &only_there, 0), "2-3");
        assert_eq!(runs_in_pool_of(&engine, &ordered, 0), "0-3");
        drop(held);
        eventually(|| engine.stats().pools == pools);
    }
}

#[test]
fn case_25_an_unbound_mask_without_cpus_is_refused() {
    let engine = engine("l3:2 core:2 pu:1");
    let two = CpuSet::from_iter([1, 2]);
    engine.set_unbound_cpumask(&two).unwrap();
    for wrong in [CpuSet::new(), CpuSet::from_iter([4, 5])] {
        let refused = engine.set_unbound_cpumask(&wrong);
        assert!(matches!(refused, Err(Error::EmptyCpumask { .. })));
    }
    let more = CpuSet::from_iter([1, 2, 77]);
    engine.set_unbound_cpumask(&more).unwrap();
    assert_eq!(engine.unbound_cpumask(), two);
    assert_eq!(engine.requested_unbound_cpumask(), two);
}

#[test]
fn case_25_ordered_items_keep_their_order_while_the_mask_changes() {
    let engine = engine("numa:2 l3:2 core:2 pu:1");
    let _deadline = Deadline::new("case 25", &engine);
    let wq = engine.workqueue("o").ordered().build().unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let mut random = Random::new(25);
    for n in 0..2_000 {
        let seen = seen.clone();
        drop(wq.spawn(move || seen.lock().unwrap().push(n)));
        if n % 20 == 0 {
            let bits = random.bits() | 1;
            let mask = (0..8).filter(|cpu| bits >> cpu & 1 == 1).collect();
            engine.set_unbound_cpumask(&mask).unwrap();
        }
    }
    wq.flush().unwrap();
    assert!(seen.lock().unwrap().iter().copied().eq(0..2_000));
}

/// Lets every thread of the process run on `cpus` and nowhere else, as `taskset --all-tasks` does.
fn bind_process(cpus: &CpuSet) {
    let mut set = rustix::thread::CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(cpu));
    for (tid, _) in threads_named("") {
        // A thread may have ended meanwhile.
        let _ = rustix::thread::sched_setaffinity(rustix::thread::Pid::from_raw(tid), &set);
    }
}

/// The real CPUs that the calling thread may run on.
pub(super) fn own_binding() -> CpuSet {
    binding_of(0)
}

fn binding_of(tid: i32) -> CpuSet {
    let set = rustix::thread::sched_getaffinity(rustix::thread::Pid::from_raw(tid)).unwrap();
    (0..rustix::thread::CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .collect()
}

/// Queues of every kind, and all CPUs of the machine that there are.
struct Everything {
    queues: Vec<Workqueue>,
    cpus: CpuSet,
}

impl Everything {
    fn new(engine: &Engine) -> Self {
        let queue = |name| engine.workqueue(name);
        let builders = [
            queue("pods").affinity_scope(AffinityScope::Cpu),
            queue("per_cpu").per_cpu(),
            queue("bh").bh(),
            queue("strict")
                .affinity_scope(AffinityScope::Cpu)
                .affinity_strict(true),
            queue("ordered").ordered(),
            queue("reclaim").mem_reclaim(),
        ];
        Everything {
            queues: builders.map(|builder| builder.build().unwrap()).into(),
            cpus: own_binding(),
        }
    }

    /// One item from each CPU through each queue. They return where they may run.
    fn flow(&self) -> Vec<(&str, usize, CpuSet)> {
        let handles = self.queues.iter().flat_map(|wq| {
            let from = |cpu| (wq.name(), cpu, wq.spawn_on(cpu, own_binding).unwrap());
            self.cpus.iter().map(from)
        });
        let handles: Vec<_> = handles.collect();
        let ended = handles
            .into_iter()
            .map(|(name, cpu, handle)| (name, cpu, handle.join().unwrap()));
        ended.collect()
    }
}

#[test]
fn case_25_a_cpu_that_is_taken_from_the_process_and_comes_back() {
    in_own_process(|| {
        let engine = Engine::builder().build().unwrap();
        let _deadline = Deadline::new("case 25", &engine);
        let all = Everything::new(&engine);
        let Some(taken) = all.cpus.iter().last().filter(|_| all.cpus.len() > 1) else {
            eprintln!("skipped, because there is only one CPU");
            return;
        };
        let rest: CpuSet = all.cpus.iter().filter(|&cpu| cpu != taken).collect();
        assert_eq!(engine.unbound_cpumask(), all.cpus);
        all.flow();
        let pools = engine.stats().pools;
        for _ in 0..2 {
            // At work on the CPU when it goes.
            let door = Door::new();
            let running: Vec<_> = all
                .queues
                .iter()
                .filter(|wq| wq.name() != "bh" && wq.name() != "ordered")
                .map(|wq| {
                    let door = door.clone();
                    wq.spawn_on(taken, move || door.pass()).unwrap()
                })
                .collect();
            door.wait_for(running.len());
            bind_process(&rest);
            // Work flows, so it is noticed.
            eventually(|| {
                all.flow();
                engine.unbound_cpumask() == rest
            });
            eventually(|| {
                let flow = all.flow();
                flow.iter().all(|(_, _, binding)| !binding.contains(taken))
            });
            door.open.complete();
            for handle in running {
                handle.join().unwrap();
            }
            bind_process(&all.cpus);
            eventually(|| {
                all.flow();
                engine.unbound_cpumask() == all.cpus
            });
            // Every CPU has its own pools again, and its workers are where they belong.
            eventually(|| {
                let at_home = |(name, cpu, binding): &(&str, usize, CpuSet)| {
                    let own = CpuSet::from_iter([*cpu]);
                    !["per_cpu", "bh", "strict"].contains(name) || *binding == own
                };
                all.flow().iter().all(at_home)
            });
            eventually(|| engine.stats().pools == pools);
        }
        for wq in &all.queues {
            wq.flush().unwrap();
        }
        let stats = engine.stats();
        assert_eq!(stats.started, stats.completed, "nothing is lost");
    });
}

/// What the process may use is read from the service thread's binding. If it bound itself later
/// than this, it would undo a change of all threads' CPUs that came in between, and the engine
/// would never notice that change.
#[test]
fn case_25_the_engines_own_threads_are_bound_when_the_first_queue_is_built() {
    in_own_process(|| {
        let engine = Engine::builder().build().unwrap();
        let cpus = own_binding();
        let mut one = rustix::thread::CpuSet::new();
        one.set(cpus.first().unwrap());
        rustix::thread::sched_setaffinity(None, &one).unwrap();
        let before = threads_named("");
        let _wq = engine.workqueue("q").build().unwrap();
        // A new thread gives itself its name, perhaps only after it has been bound.
        let mut own = threads_named("");
        own.retain(|thread| !before.iter().any(|(tid, _)| *tid == thread.0));
        assert!(own.len() >= 3, "service, creator, reporter: {own:?}");
        for (tid, name) in own {
            assert_eq!(binding_of(tid), cpus, "{name}");
        }
    });
}

/// From the first worker on: no worker ever has a reason to sleep.
#[test]
fn case_25_a_cpu_that_is_taken_is_noticed_by_workers_that_never_sleep() {
    in_own_process(|| {
        let all = own_binding();
        if all.len() == 1 {
            eprintln!("skipped, because there is only one CPU");
            return;
        }
        let engine = Engine::builder().build().unwrap();
        let _deadline = Deadline::new("case 25", &engine);
        let wq = Arc::new(engine.workqueue("bh").bh().build().unwrap());
        let work = Arc::new(OnceLock::<Work>::new());
        let again = (Arc::downgrade(&wq), Arc::downgrade(&work));
        let item = Work::new(move || {
            if let (Some(wq), Some(work)) = (again.0.upgrade(), again.1.upgrade()) {
                let _ = wq.queue(work.get().expect("set before it is queued"));
            }
        });
        work.set(item.clone()).expect("set once");
        assert!(wq.queue(&item).is_accepted());
        let one: CpuSet = all.iter().take(1).collect();
        for cpus in [&one, &all] {
            bind_process(cpus);
            eventually(|| engine.usable_cpus() == *cpus);
        }
        drop(item.disable_sync());
        drop(work);
    });
}

#[test]
fn case_25_workers_that_were_bound_elsewhere_come_back() {
    in_own_process(|| {
        let engine = Engine::builder().build().unwrap();
        let _deadline = Deadline::new("case 25", &engine);
        let all = Everything::new(&engine);
        all.flow();
        let first: CpuSet = all.cpus.iter().take(1).collect();
        let mut set = rustix::thread::CpuSet::new();
        first.iter().for_each(|cpu| set.set(cpu));
        // The workers only: what the process may use is as it was.
        for (tid, _) in threads_named("kworker/") {
            let _ = rustix::thread::sched_setaffinity(rustix::thread::Pid::from_raw(tid), &set);
        }
        eventually(|| {
            let at_home = |(name, cpu, binding): &(&str, usize, CpuSet)| {
                *name != "per_cpu" || *binding == CpuSet::from_iter([*cpu])
            };
            all.flow().iter().all(at_home)
        });
        assert_eq!(engine.unbound_cpumask(), all.cpus);
    });
}
