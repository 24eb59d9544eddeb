//! What tools can read, and what they may write: the kernel's own files are the reference.

use crate::harness::{Deadline, engine};
use crate::live;
use cmwq::affinity::AffinityScope;
use cmwq::observe::{Errno, LiveQueue};
use serde_json::Value;
use std::time::Duration;

fn recorded_writes() -> Value {
    let recorded: Value =
        serde_json::from_str(include_str!("../data/kernel-writes.json")).expect("valid JSON");
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
        let allowed = format!("allowed: {}", AffinityScope::CONCRETE_NAMES);
        assert!(message.ends_with(&allowed), "{message}");
    }
    assert_eq!(engine.parameter("cpumask_requested"), Ok("3".to_owned()));
    assert_eq!(engine.parameter("cpumask_isolated"), Ok("0".to_owned()));
    assert_eq!(engine.parameter("power_efficient"), Ok("N".to_owned()));
}
