//! Changing queues at random, through the endpoint and under full load, loses and reorders nothing,
//! and every change shows in the next state.

mod common;

use cmwq::topology::Topology;
use cmwq::{Engine, Work};
use common::{Endpoint, Random, seed};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Changes, unless `CMWQ_TEST_OPS` says otherwise.
const CHANGES: u64 = 1000;

fn changes() -> u64 {
    let given = std::env::var("CMWQ_TEST_OPS").ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(CHANGES)
}

/// An item that counts its runs. Its issuer queues it anew as soon as it is not pending.
struct Counted {
    work: Work,
    ran: Arc<AtomicU64>,
    queued: AtomicU64,
}

impl Counted {
    fn new() -> Self {
        let ran = Arc::new(AtomicU64::new(0));
        let count = ran.clone();
        Counted {
            work: Work::new(move || {
                count.fetch_add(1, Ordering::Relaxed);
            }),
            ran,
            queued: AtomicU64::new(0),
        }
    }
}

#[test]
fn a_thousand_changes_under_load_lose_and_reorder_nothing_and_show_at_once() {
    let mut random = Random::new(seed("steering"));
    let endpoint = Endpoint::new();
    let topology = Topology::from_synthetic("numa:2 l3:2 core:2 pu:1").expect("valid");
    let engine = Engine::builder()
        .topology(topology)
        .build()
        .expect("an engine");
    let unbound = engine.workqueue("unbound").build().expect("a queue");
    let ordered = engine
        .workqueue("ordered")
        .ordered()
        .build()
        .expect("a queue");
    let items: Vec<Counted> = (0..64).map(|_| Counted::new()).collect();
    let order: Arc<Mutex<Vec<u64>>> = Arc::default();
    let stop = AtomicBool::new(false);
    let issued = std::thread::scope(|scope| {
        for part in items.chunks(32) {
            let (unbound, stop) = (&unbound, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    for item in part {
                        if unbound.queue(&item.work).is_accepted() {
                            item.queued.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    std::thread::yield_now();
                }
            });
        }
        let issuer = {
            let (ordered, stop, order) = (&ordered, &stop, &order);
            scope.spawn(move || {
                let mut number = 0;
                let mut last = None;
                while !stop.load(Ordering::Relaxed) {
                    for _ in 0..16 {
                        let order = order.clone();
                        last = Some(
                            ordered.spawn(move || order.lock().expect("no panic").push(number)),
                        );
                        number += 1;
                    }
                    // Not further ahead than that.
                    if let Some(handle) = last.take() {
                        handle.join().expect("no panic");
                    }
                }
                number
            })
        };
        let mut client = endpoint.client();
        for _ in 0..changes() {
            let queue = *random.pick(&["unbound", "ordered"]);
            let (attribute, value) = match random.below(if queue == "ordered" { 4 } else { 5 }) {
                0 => {
                    let scopes = [
                        "default",
                        "cpu",
                        "smt",
                        "cache",
                        "cache_shard",
                        "numa",
                        "system",
                    ];
                    ("affinity_scope", (*random.pick(&scopes)).to_owned())
                }
                1 => ("affinity_strict", random.below(2).to_string()),
                2 => ("cpumask", format!("{:02x}", random.below(256))),
                3 => ("nice", random.below(5).to_string()),
                _ => ("max_active", (1 + random.below(40)).to_string()),
            };
            client
                .set(queue, attribute, &value)
                .expect("a possible value");
            let state = client.state().expect("an answer");
            let shown = state
                .engines
                .iter()
                .flat_map(|engine| &engine.queues)
                .find(|own| own.name == queue)
                .expect("it is there");
            let expected = match value.as_str() {
                "default" => "default (cache_shard)".to_owned(),
                _ => value,
            };
            assert_eq!(shown.attributes[attribute], expected, "{queue} {attribute}");
        }
        stop.store(true, Ordering::Relaxed);
        issuer.join().expect("no panic")
    });
    unbound.flush().expect("not from an item");
    ordered.flush().expect("not from an item");
    for item in &items {
        let (queued, ran) = (
            item.queued.load(Ordering::Relaxed),
            item.ran.load(Ordering::Relaxed),
        );
        assert_eq!(queued, ran, "each accepted instance ran once");
        assert!(ran > 0);
    }
    let order = order.lock().expect("no panic");
    assert_eq!(order.len() as u64, issued);
    assert!(
        order
            .iter()
            .enumerate()
            .all(|(at, number)| at as u64 == *number),
        "out of order"
    );
}
