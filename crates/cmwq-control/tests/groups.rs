//! Limits that several queues share, as the endpoint shows and changes them.

mod common;

use cmwq::topology::Topology;
use cmwq::{Completion, ConcurrencyGroup, Engine};
use common::Endpoint;
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn engine() -> Engine {
    let topology = Topology::from_synthetic("l3:2 core:2 pu:1").expect("valid");
    Engine::builder()
        .topology(topology)
        .build()
        .expect("an engine")
}

#[test]
fn a_group_is_shown_with_its_queues_and_what_they_hold_and_its_limit_can_be_changed() {
    let endpoint = Endpoint::new();
    let engine = engine();
    let group = ConcurrencyGroup::new("disks", 2);
    let member = |name: &str| {
        let queue = engine.workqueue(name).group(&group);
        queue.build().expect("a queue")
    };
    let (fast, slow) = (member("fast"), member("slow"));
    let alone = engine.workqueue("alone").build().expect("a queue");
    let other = ConcurrencyGroup::new("disks", 1);
    let bound = engine.workqueue("bound").per_cpu().group(&other);
    let bound = bound.build().expect("a queue");

    // Three items for two credits: one queue waits. All from one CPU, so that they are accepted in
    // this order.
    let begun: Vec<Arc<Completion>> = (0..3).map(|_| Arc::default()).collect();
    let end = Arc::new(Completion::new());
    let queues = [&fast, &fast, &slow];
    let items = queues.iter().zip(&begun).map(|(queue, begun)| {
        let (begun, end) = (begun.clone(), end.clone());
        let item = queue.spawn_on(0, move || {
            begun.complete();
            end.wait();
        });
        item.expect("a CPU")
    });
    let items: Vec<_> = items.collect();
    begun[0].wait();
    begun[1].wait();

    let mut client = endpoint.client();
    assert_eq!(client.hello().expect("an answer").groups, 2);
    // The item of the slow queue has asked for a credit by now, or is about to: its issuer has.
    let until = Instant::now() + Duration::from_secs(60);
    let state = loop {
        let state = client.state().expect("an answer");
        if state.groups[0].waiting == 1 || Instant::now() > until {
            break state;
        }
    };
    let [disks, second] = &state.groups[..] else {
        panic!("{:?}", state.groups);
    };
    assert_eq!(
        (
            disks.name.as_str(),
            disks.held,
            disks.max_active,
            disks.waiting
        ),
        ("disks", 2, 2, 1)
    );
    assert_eq!(disks.queues, ["fast", "slow"]);
    assert_eq!((second.name.as_str(), second.max_active), ("disks", 1));
    assert_eq!(second.queues, ["bound"]);
    assert!(disks.serial < second.serial);
    let queues = &state.engines[0].queues;
    let of = |name: &str| {
        let queue = queues.iter().find(|queue| queue.name == name);
        queue.expect("it is there").group
    };
    assert_eq!(
        ["fast", "slow", "bound", "alone"].map(of),
        [
            Some(disks.serial),
            Some(disks.serial),
            Some(second.serial),
            None
        ]
    );

    // As attributes of its queues, and in the metrics.
    let get = |client: &mut cmwq_control::Client, attribute: &str| {
        let params = json!({ "queue": "slow", "attribute": attribute });
        let answer = client.call("get", params).expect("it has one");
        answer["value"].as_str().expect("a text").to_owned()
    };
    assert_eq!(get(&mut client, "group"), "disks");
    assert_eq!(get(&mut client, "group_max_active"), "2");
    let metrics = client.metrics().expect("metrics");
    for (name, value) in [
        ("cmwq_group_max_active_items", 2),
        ("cmwq_group_held_places", 2),
        ("cmwq_group_waiting_queues", 1),
        ("cmwq_group_queues", 2),
    ] {
        let line = format!(
            "{name}{{group=\"disks\",serial=\"{}\"}} {value}\n",
            disks.serial
        );
        assert!(metrics.contains(&line), "{line} in\n{metrics}");
    }

    // Raised through one queue: the item of the other gets its credit.
    client
        .set("fast", "group_max_active", "3")
        .expect("a possible value");
    begun[2].wait();
    assert_eq!(group.max_active(), 3);
    assert_eq!(other.max_active(), 1);
    for (queue, attribute, value, errno) in [
        ("fast", "group_max_active", "0", "EINVAL"),
        ("fast", "group_max_active", "-4", "EINVAL"),
        ("fast", "group_max_active", "x", "EINVAL"),
        ("fast", "group", "other", "EACCES"),
        ("alone", "group_max_active", "4", "ENOENT"),
        ("alone", "group", "disks", "ENOENT"),
    ] {
        let refused = client.set(queue, attribute, value).expect_err("refused");
        assert_eq!(refused.errno, errno, "{queue} {attribute} {value}");
    }
    assert_eq!(group.max_active(), 3);

    end.complete();
    for item in items {
        item.join().expect("no panic");
    }
    // A group is there as long as it has queues.
    drop((fast, slow, bound));
    assert_eq!(client.state().expect("an answer").groups, []);
    assert_eq!(client.hello().expect("an answer").groups, 0);
    drop(alone);
}
