//! What holds in the child of a fork: it has its parent's engine and queues but not their workers.
//! Calls say so and never hang, and the child can build its own.

use super::Random;
use super::issuer::Issuer;
use super::library::topology::Topology;
use super::library::types::{FlushError, Queued, WorkqueueKind};
use super::library::{Completion, DelayedWork, Engine, Error, JoinError, Refused, Work, Workqueue};
use super::world::{World, built};
use std::sync::Arc;
use std::time::Duration;

/// What is there when the process forks, besides the world.
pub(crate) struct BeforeFork {
    /// Has run.
    ran: Work,
    /// Was queued a moment ago.
    queued: Work,
    /// Its timer is armed.
    armed: DelayedWork,
}

impl BeforeFork {
    pub(crate) fn new(world: &World) -> BeforeFork {
        let wq = &world.helper;
        let items = BeforeFork {
            ran: Work::new(|| {}),
            queued: Work::new(|| {}),
            armed: DelayedWork::new(|| {}),
        };
        assert!(wq.queue(&items.ran).is_accepted());
        items.ran.flush().expect("not from the item itself");
        assert!(wq.queue(&items.queued).is_accepted());
        // Refused if the timers' thread cannot be had.
        let _ = wq.queue_delayed(&items.armed, Duration::from_secs(3600));
        // The thread has a chunk that it adds to.
        for _ in 0..3 {
            wq.execute(|| {}).expect("the helper takes items");
        }
        items
    }

    /// In the parent: all goes on.
    pub(crate) fn check_in_parent(&self) {
        self.queued.flush().expect("not from the item itself");
        assert!(!self.queued.is_pending());
        self.armed.cancel_sync();
    }

    /// In the child; `issuer` did the program's operations until then.
    pub(crate) fn check_in_child(&self, mut issuer: Issuer, topology: Topology) {
        let world = issuer.world.clone();
        for (value, handle) in std::mem::take(&mut issuer.handles) {
            // Else it had panicked, was aborted or dropped; or it will not run.
            if let Ok(got) = handle.join() {
                assert_eq!(got, value, "another closure's result");
            }
        }
        let queues = (0..world.queue_count()).map(|which| world.queue(which));
        for queue in queues.chain(issuer.own.clone()) {
            check_inherited(&queue.wq, world.cpus[0]);
            for item in &queue.items {
                item.check_in_child(&queue, &mut issuer.random);
            }
        }
        check_inherited(&world.helper, world.cpus[0]);
        for steady in &world.steady {
            check_inherited(&steady.wq, world.cpus[0]);
        }
        self.check_items();
        check_inherited_engine(&world.engine);
        // Its own queue, and items that are disabled, go.
        drop(issuer);
        self.check_own_engine(topology);
    }

    fn check_items(&self) {
        assert_eq!(self.ran.flush(), Ok(false), "it had run");
        let flushed = self.queued.flush();
        let is_known = matches!(flushed, Ok(false) | Err(FlushError::Forked));
        assert!(is_known, "a flush in a fork's child: {flushed:?}");
        assert!(!self.queued.cancel_sync() && !self.queued.busy().running);
        self.armed.cancel_sync();
        assert!(!self.armed.is_pending(), "its timer was stopped");
    }

    /// An engine that the child builds works.
    fn check_own_engine(&self, topology: Topology) {
        let engine = Engine::builder().topology(topology).build();
        let engine = engine.expect("a topology is given");
        assert_eq!(Engine::all().len(), 1);
        let queues = [
            built(|| engine.workqueue("child")),
            built(|| engine.workqueue("ordered").ordered()),
            built(|| engine.workqueue("percpu").per_cpu()),
            built(|| engine.workqueue("bh").bh()),
        ];
        for wq in &queues {
            let handles: Vec<_> = (0..20).map(|value| wq.spawn(move || value)).collect();
            for (value, handle) in handles.into_iter().enumerate() {
                assert_eq!(handle.join().ok(), Some(value));
            }
            for _ in 0..100 {
                wq.execute(|| {}).expect("its own queue takes items");
            }
            assert!(wq.queue(&self.ran).is_accepted(), "its parent has run it");
            assert!(self.ran.flush().is_ok() && !self.ran.is_pending());
            let done = Arc::new(Completion::new());
            let timed = DelayedWork::new({
                let done = done.clone();
                move || done.complete()
            });
            let queued = wq.queue_delayed(&timed, Duration::from_millis(1));
            assert!(queued.is_accepted());
            done.wait();
            wq.flush().expect("not from an item of the queue");
        }
        let moved = queues[0].mod_delayed(&self.armed, Duration::ZERO);
        self.armed.flush().expect("not from the item itself");
        assert!(!self.armed.is_pending(), "after it was moved: {moved:?}");
    }
}

/// A queue of the parent's refuses everything.
fn check_inherited(wq: &Workqueue, cpu: usize) {
    let (work, delayed) = (Work::new(|| {}), DelayedWork::new(|| {}));
    let refused = Queued::Refused(Refused::Forked);
    assert_eq!(wq.queue(&work), refused);
    assert!(!work.is_pending(), "a refused item is idle");
    assert_eq!(wq.queue_delayed(&delayed, Duration::ZERO), refused);
    for _ in 0..3 {
        assert_eq!(wq.execute(|| {}), Err(Refused::Forked));
    }
    let joined = wq.spawn(|| 3).join();
    let is_refused = matches!(joined, Err(JoinError::Refused(Refused::Forked)));
    assert!(is_refused, "a spawn in a fork's child: {joined:?}");
    assert_eq!(wq.flush(), Err(FlushError::Forked));
    assert_eq!(wq.drain(), Err(FlushError::Forked));
    assert!(matches!(wq.is_congested(cpu), Err(Error::Forked)));
    assert_eq!(wq.counts(), (0, 0));
    // Its parent may have been changing all of this.
    let applied = wq.apply_attrs(wq.attrs());
    assert!(wq.min_active() <= wq.max_active());
    let limited = wq.set_max_active(3);
    if wq.kind() == WorkqueueKind::Unbound {
        assert!(matches!(applied, Err(Error::Forked)), "{applied:?}");
        assert!(matches!(limited, Err(Error::Forked)), "{limited:?}");
    }
}

/// Nor can anything be built on its engine.
fn check_inherited_engine(engine: &Engine) {
    let built = engine.workqueue("late").build();
    assert!(matches!(built, Err(Error::Forked)), "{built:?}");
    let set = engine.set_unbound_cpumask(engine.topology().cpus());
    assert!(matches!(set, Err(Error::Forked)), "{set:?}");
    engine.freeze_workqueues_begin();
    assert!(!engine.freeze_workqueues_busy());
    let stats = engine.stats();
    assert_eq!((stats.workers, stats.started), (0, 0));
    drop(engine.dump());
    assert_eq!(Engine::all().len(), 0, "all engines are its parent's");
}
