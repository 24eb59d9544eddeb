//! The system's own workqueues, the deprecated ones among them.

use crate::harness::{Deadline, Door, Heard, in_own_process, settle_with, threads_named};
use cmwq::raw::{RawWork, SystemWorkqueue, WorkqueueHandle};
use cmwq::types::{Queued, WorkqueueKind};
use cmwq::{Engine, Work, Workqueue};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn system_queues_are_made_at_first_use_and_flushing_one_is_warned_of_once() {
    in_own_process(|| {
        let heard = Heard::warnings();
        let engine = Engine::global().unwrap();
        let _deadline = Deadline::new("system queues", &engine);
        assert_eq!(engine.stats().pools, 0, "nobody asked for one yet");
        let expected = [
            ("events", WorkqueueKind::PerCpu, 1024),
            ("events_highpri", WorkqueueKind::PerCpu, 1024),
            ("events_long", WorkqueueKind::PerCpu, 1024),
            ("events_unbound", WorkqueueKind::Unbound, 2048),
            ("events_dfl_long", WorkqueueKind::Unbound, 2048),
            ("events_freezable", WorkqueueKind::PerCpu, 1024),
            ("events_power_efficient", WorkqueueKind::PerCpu, 1024),
            (
                "events_freezable_pwr_efficient",
                WorkqueueKind::PerCpu,
                1024,
            ),
            ("events_bh", WorkqueueKind::Bh, 1024),
            ("events_bh_highpri", WorkqueueKind::Bh, 1024),
        ];
        let bh = SystemWorkqueue::Bh.get().unwrap();
        bh.flush().unwrap();
        assert_eq!(heard.count("whole process"), 0, "BH items are short");
        for (which, (name, kind, max_active)) in SystemWorkqueue::ALL.into_iter().zip(expected) {
            let wq = which.get().unwrap();
            assert_eq!((wq.name(), which.name(), wq.kind()), (name, name, kind));
            if kind != WorkqueueKind::Bh {
                assert_eq!(wq.max_active(), max_active, "{name}");
            }
            assert_eq!(wq.spawn(|| 5).join().unwrap(), 5);
            // Twice the same queue.
            wq.flush().unwrap();
            let again = which.get().unwrap();
            assert_eq!(again.counts(), (1, 1), "{name}");
            again.flush().unwrap();
        }
        assert_eq!(heard.count("whole process"), 1);
        assert!(threads_named("kworker/R-").is_empty(), "none has a rescuer");
        engine.freeze_workqueues_begin();
        for which in SystemWorkqueue::ALL {
            let frozen = which.name().contains("freezable");
            let handle = which.get().unwrap().spawn(|| ());
            if frozen {
                assert!(which.get().unwrap().is_congested(0).is_ok());
                settle_with(&engine, engine.workqueue("probe").per_cpu());
                assert!(!handle.is_finished(), "{which:?}");
            } else {
                handle.join().unwrap();
            }
        }
        engine.thaw_workqueues();
    });
}

#[test]
fn the_first_item_on_a_deprecated_queue_is_warned_of_once_and_runs_like_all() {
    in_own_process(|| {
        let heard = Heard::warnings();
        let engine = Engine::global().unwrap();
        let _deadline = Deadline::new("deprecated queues", &engine);
        let cpu = engine.usable_cpus().first().unwrap();
        let ways: [&dyn Fn(&Workqueue); 4] = [
            &|wq| wq.spawn_on(cpu, || ()).unwrap().join().unwrap(),
            &|wq| wq.spawn(|| ()).join().unwrap(),
            &|wq| wq.execute(|| ()).unwrap(),
            &|wq| assert!(wq.queue(&Work::new(|| ())).is_accepted()),
        ];
        let name = "system_wq is deprecated, use system_percpu_wq: ";
        for which in [
            SystemWorkqueue::DeprecatedWq,
            SystemWorkqueue::DeprecatedUnboundWq,
        ] {
            let wq = which.get().unwrap();
            let before = usize::from(which != SystemWorkqueue::DeprecatedWq);
            assert_eq!(
                heard.count("is deprecated"),
                before,
                "not before it is used"
            );
            for way in ways {
                way(&wq);
            }
            wq.flush().unwrap();
            assert_eq!(wq.counts(), (4, 4), "{which:?}");
            let warnings = heard.with(name);
            assert_eq!(warnings.len(), 1, "{warnings:?}");
            assert_eq!(heard.count("is deprecated"), 1, "one for both");
            // The type of the closure, and where it was handed over.
            assert!(
                warnings[0].contains("{{closure}} (") && warnings[0].contains("/system.rs:"),
                "{warnings:?}"
            );
        }
        assert_eq!(
            heard.count("whole process"),
            0,
            "to wait for these was always allowed"
        );
    });
}

/// Whatever is used first: the item that the warning is about is not lost.
#[test]
fn a_deprecated_queue_takes_its_first_item_by_a_handle_too() {
    extern "C-unwind" fn note(_: NonNull<RawWork>) {
        RUNS.fetch_add(1, Ordering::SeqCst);
    }
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    in_own_process(|| {
        let heard = Heard::warnings();
        let engine = Engine::global().unwrap();
        let _deadline = Deadline::new("deprecated handles", &engine);
        let cpu = engine.usable_cpus().first().unwrap();
        for (named, which) in [
            (None, SystemWorkqueue::DeprecatedWq),
            (Some(cpu), SystemWorkqueue::DeprecatedUnboundWq),
        ] {
            let item = RawWork::new(note);
            let wq = which.get().unwrap();
            let handle = WorkqueueHandle::new(wq.clone()).unwrap();
            // SAFETY: it is flushed before it goes.
            let queued = unsafe {
                match named {
                    None => handle.queue_raw(NonNull::from(&item)).unwrap(),
                    Some(cpu) => handle.queue_raw_on(cpu, NonNull::from(&item)).unwrap(),
                }
            };
            assert_eq!(queued, Queued::Accepted);
            wq.flush().unwrap();
        }
        assert_eq!(RUNS.load(Ordering::SeqCst), 2);
        let warned = heard.with("is deprecated");
        let function = cmwq::observe::function_name(note as *const () as usize);
        assert_eq!(warned.len(), 1, "{warned:?}");
        assert!(warned[0].contains(&function), "{warned:?}: {function}");
    });
}

#[test]
fn a_deprecated_queue_and_its_successor_are_two() {
    in_own_process(|| {
        let engine = Engine::global().unwrap();
        let _deadline = Deadline::new("deprecated queues", &engine);
        for (old, new) in [
            (SystemWorkqueue::DeprecatedWq, SystemWorkqueue::PerCpu),
            (SystemWorkqueue::DeprecatedUnboundWq, SystemWorkqueue::Dfl),
        ] {
            assert_eq!(old.name(), new.name());
            for (flushed, other) in [(old, new), (new, old)] {
                let (flushed, other) = (flushed.get().unwrap(), other.get().unwrap());
                let door = Door::new();
                let own = door.clone();
                let held = other.spawn(move || own.pass());
                door.wait_for(1);
                // It would wait for ever otherwise.
                flushed.flush().unwrap();
                assert!(!held.is_finished());
                door.open.complete();
                held.join().unwrap();
            }
        }
    });
}
