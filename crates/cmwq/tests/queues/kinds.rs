//! The kinds of workqueues: what may be combined, and what is refused or cut.

use crate::harness::{Deadline, Heard, engine, in_own_process, own_name};
use cmwq::affinity::AffinityScope;
use cmwq::raw::{WQ_DFL_ACTIVE, WQ_MAX_ACTIVE};
use cmwq::topology::{CpuSet, Topology};
use cmwq::types::WorkqueueKind;
use cmwq::{ConcurrencyGroup, Engine, Error, Work, WorkqueueBuilder};

type Change = fn(WorkqueueBuilder) -> WorkqueueBuilder;

#[test]
fn what_excludes_each_other_is_refused_and_named() {
    let engine = engine("l3:1 core:2 pu:1");
    let changes: [(&str, Change); 13] = [
        ("bh", |b| b.bh()),
        ("ordered", |b| b.ordered()),
        ("per_cpu", |b| b.per_cpu()),
        ("highpri", |b| b.highpri()),
        ("freezable", |b| b.freezable()),
        ("mem_reclaim", |b| b.mem_reclaim()),
        ("cpu_intensive", |b| b.cpu_intensive()),
        ("power_efficient", |b| b.power_efficient()),
        ("max_active", |b| b.max_active(7)),
        ("nice", |b| b.nice(3)),
        ("cpumask", |b| b.cpumask(CpuSet::from_iter([0]))),
        ("affinity_scope", |b| b.affinity_scope(AffinityScope::Numa)),
        ("affinity_strict", |b| b.affinity_strict(true)),
    ];
    let attributes = ["nice", "cpumask", "affinity_scope", "affinity_strict"];
    let excluded = |one: &str, other: &str| match (one, other) {
        ("bh", "per_cpu" | "highpri") => false,
        ("bh", _) => true,
        ("ordered", "per_cpu" | "power_efficient" | "max_active") => true,
        ("per_cpu" | "power_efficient", other) => attributes.contains(&other),
        ("highpri", "nice") => true,
        _ => false,
    };
    // Also if it is one of many that are set at once.
    let attrs = engine.workqueue("t").nice(3).build().unwrap().attrs();
    let built = engine.workqueue("t").highpri().attrs(attrs).build();
    assert!(matches!(
        built.unwrap_err(),
        Error::Incompatible {
            one: "highpri",
            other: "nice"
        }
    ));
    for (i, (one, first)) in changes.iter().enumerate() {
        assert!(first(engine.workqueue("t")).build().is_ok(), "{one} alone");
        for (other, second) in &changes[i + 1..] {
            // In either order.
            let both = [
                second(first(engine.workqueue("t"))),
                first(second(engine.workqueue("t"))),
            ];
            for built in both.map(WorkqueueBuilder::build) {
                match built {
                    Ok(_) => assert!(!excluded(one, other), "{one} and {other} went through"),
                    Err(Error::Incompatible { one: a, other: b }) => {
                        assert!(excluded(one, other), "{one} and {other}: refused");
                        assert_eq!((a, b), (*one, *other));
                    }
                    Err(Error::OrderedMaxActive) => {
                        assert_eq!((*one, *other), ("ordered", "max_active"));
                    }
                    Err(error) => panic!("{one} and {other}: {error}"),
                }
            }
        }
    }
    let text = engine.workqueue("t").bh().ordered().build().unwrap_err();
    assert_eq!(
        text.to_string(),
        "a workqueue cannot be both bh and ordered"
    );
}

#[test]
fn changes_that_a_kind_does_not_take_are_refused() {
    let engine = engine("l3:1 core:2 pu:1");
    let (unbound, per_cpu, bh, ordered) = (
        engine.workqueue("u").build().unwrap(),
        engine.workqueue("p").per_cpu().build().unwrap(),
        engine.workqueue("b").per_cpu().bh().build().unwrap(),
        engine.workqueue("o").ordered().build().unwrap(),
    );
    let kinds = [&unbound, &per_cpu, &bh, &ordered].map(|wq| wq.kind());
    assert_eq!(
        kinds,
        [
            WorkqueueKind::Unbound,
            WorkqueueKind::PerCpu,
            WorkqueueKind::Bh,
            WorkqueueKind::Ordered
        ]
    );
    assert_eq!(
        kinds.map(|kind| kind.to_string()),
        ["unbound", "percpu", "bh", "ordered"]
    );
    let attrs = unbound.attrs();
    let work = Work::new(|| ());
    for (name, wq) in [("per_cpu", &per_cpu), ("bh", &bh)] {
        for refused in [
            wq.apply_attrs(attrs.clone()),
            wq.set_min_active(3),
            wq.queue_on_node(0, &work).map(|_| ()),
        ] {
            let error = refused.unwrap_err();
            assert!(
                matches!(error, Error::Incompatible { one, .. } if one == name),
                "{error}"
            );
        }
        assert!(!work.is_pending());
    }
    let error = bh.set_max_active(3).unwrap_err();
    assert!(matches!(
        error,
        Error::Incompatible {
            one: "bh",
            other: "max_active"
        }
    ));
    assert!(matches!(
        ordered.set_max_active(3),
        Err(Error::OrderedMaxActive)
    ));
    assert_eq!(
        (unbound.max_active(), ordered.max_active()),
        (WQ_DFL_ACTIVE, 1)
    );
    per_cpu.set_max_active(5).unwrap();
    assert_eq!(per_cpu.max_active(), 5);
}

#[test]
fn numbers_and_names_out_of_range_are_cut_with_a_warning() {
    in_own_process(|| {
        let heard = Heard::warnings();
        let engine = engine("l3:1 core:2 pu:1");
        let wq = engine.workqueue("t").max_active(WQ_MAX_ACTIVE + 1).build();
        let wq = wq.unwrap();
        assert_eq!((wq.max_active(), heard.count("2049")), (WQ_MAX_ACTIVE, 1));
        wq.set_max_active(4_000).unwrap();
        assert_eq!((wq.max_active(), heard.count("4000")), (WQ_MAX_ACTIVE, 1));
        let said = heard.count("out of range");
        wq.set_max_active(0).unwrap();
        let now = (wq.max_active(), heard.count("max_active 0 is out of range"));
        assert_eq!(now, (1, 1), "the default is for new queues only");
        assert_eq!(heard.count("out of range"), said + 1);
        let live = engine.live_queues().remove(0);
        live.set_max_active(usize::MAX).unwrap();
        assert_eq!(
            (live.max_active(), wq.max_active()),
            (WQ_MAX_ACTIVE, WQ_MAX_ACTIVE)
        );
        live.set_max_active(0).unwrap();
        assert_eq!(
            (live.max_active(), heard.count("out of range")),
            (1, said + 3)
        );
        // Built with 0: the default, and nothing to warn of.
        let default = engine.workqueue("d").max_active(0).build().unwrap();
        assert_eq!(
            (default.max_active(), heard.count("out of range")),
            (WQ_DFL_ACTIVE, said + 3)
        );
        // An error changes nothing, so there is nothing to warn of either.
        let ordered = engine.workqueue("o").ordered().build().unwrap();
        assert!(ordered.set_max_active(0).is_err());
        assert_eq!(heard.count("out of range"), said + 3);
        let group = ConcurrencyGroup::new("g", 0);
        assert_eq!(
            (group.max_active(), heard.count("group g: max_active 0")),
            (1, 1)
        );
        group.set_max_active(usize::MAX).unwrap();
        assert_eq!((group.max_active(), heard.count("group g")), (1 << 20, 2));
        // 30 bytes, and one letter of two that does not fit.
        let long = format!("{}äb", "x".repeat(30));
        let wq = engine.workqueue(&long).build().unwrap();
        assert_eq!((wq.name().len(), heard.count("is cut")), (30, 1));
        let wq = engine.workqueue(&"y".repeat(40)).build().unwrap();
        assert_eq!((wq.name().len(), heard.count("is cut")), (31, 1), "once");
        // A warning is one line, whatever the name is.
        let lines = engine.workqueue("two\nlines").max_active(3_000).build();
        assert_eq!(lines.unwrap().name(), "two\nlines");
        assert_eq!(heard.count("workqueue two\\nlines: max_active 3000"), 1);
        let error = engine.workqueue("t").nice(20).build().unwrap_err();
        assert!(matches!(error, Error::Nice(20)));
    });
}

#[test]
fn an_engine_that_saves_power_makes_its_power_efficient_queues_unbound() {
    for on in [false, true] {
        let engine = Engine::builder()
            .topology(Topology::from_synthetic("l3:1 core:2 pu:1").unwrap())
            .power_efficient(on)
            .build()
            .unwrap();
        let _deadline = Deadline::new("power", &engine);
        let expected = match on {
            true => WorkqueueKind::Unbound,
            false => WorkqueueKind::PerCpu,
        };
        let saves = engine.workqueue("s").power_efficient().workers_only();
        let saves = [
            saves.build(),
            engine
                .workqueue("s")
                .per_cpu()
                .power_efficient()
                .workers_only()
                .build(),
        ];
        for wq in saves.map(Result::unwrap) {
            assert_eq!(wq.kind(), expected);
            let name = wq.spawn_on(1, own_name).unwrap().join().unwrap();
            let prefix = if on { "kworker/u" } else { "kworker/1:" };
            assert!(name.starts_with(prefix), "{name}");
            assert_eq!(wq.set_min_active(3).is_ok(), on);
        }
        let per_cpu = engine.workqueue("p").per_cpu().build().unwrap();
        assert_eq!(per_cpu.kind(), WorkqueueKind::PerCpu);
    }
}
