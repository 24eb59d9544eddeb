//! The reference engine: what the published tables say of it, at a fraction of their size.

use cmwq_sim::kernel::{Measured, Model, Settings, WakeOrder, roundtrip};
use cmwq_sim::pods::Scope;
use cmwq_vm::machine::preset;

fn row(machine: &str, scope: Scope, wake: WakeOrder) -> Measured {
    let machine = preset(machine).unwrap().machine();
    let settings = Settings {
        pods: scope.pods(&machine),
        strict: false,
        wake,
        costs: Model::of(&machine).default_costs(),
    };
    roundtrip(&machine, settings, 200, 1).expect("it ends")
}

#[test]
fn one_pool_for_72_cpus_collapses_and_nine_do_not() {
    let cache = row("grace", Scope::Cache, WakeOrder::UnderTheLock);
    let shards = row("grace", Scope::CacheShard(8), WakeOrder::UnderTheLock);
    assert_eq!((cache.pods, shards.pods), (1, 9));
    // Published: 5.12 and 4.88.
    let ratio = shards.items_per_s / cache.items_per_s;
    assert!((3.9..6.2).contains(&ratio), "{ratio}");
    let latencies = cache.enqueue.percentile(50) / shards.enqueue.percentile(50);
    assert!(latencies >= 5, "{latencies}");
}

#[test]
fn a_wake_up_after_the_lock_helps_most_where_one_pool_is_the_bottleneck() {
    let gain = |scope| {
        let early = row("grace", scope, WakeOrder::UnderTheLock).items_per_s;
        row("grace", scope, WakeOrder::AfterTheLock).items_per_s / early
    };
    let cache = gain(Scope::Cache);
    assert!(cache > 1.05, "{cache}");
}

#[test]
fn the_same_seed_gives_the_same_table() {
    for name in ["9d64", "8321hc"] {
        let run = || row(name, Scope::Smt, WakeOrder::UnderTheLock);
        let (one, other) = (run(), run());
        assert_eq!(one.outcome, other.outcome, "{name}");
        assert_eq!(one.enqueue.percentile(95), other.enqueue.percentile(95));
    }
}
