//! The reference engine: what the published tables say of it, at a fraction of their size.

use cmwq_sim::kernel::{Measured, Model, Settings, WakeOrder, roundtrip};
use cmwq_sim::pods::Scope;
use cmwq_vm::machine::preset;

/// More than one: the rate of one is up to 4 % off the mean.
const SEEDS: u64 = 4;

fn row(machine: &str, scope: Scope, wake: WakeOrder, seed: u64) -> Measured {
    let machine = preset(machine).unwrap().machine();
    let settings = Settings {
        pods: scope.pods(&machine),
        strict: false,
        wake,
        costs: Model::of(&machine).default_costs(),
    };
    roundtrip(&machine, settings, 200, seed).expect("it ends")
}

#[test]
fn one_pool_for_72_cpus_collapses_and_nine_do_not() {
    let (mut ratio, mut latencies) = (0.0, 0);
    for seed in 1..=SEEDS {
        let cache = row("grace", Scope::Cache, WakeOrder::UnderTheLock, seed);
        let shards = row("grace", Scope::CacheShard(8), WakeOrder::UnderTheLock, seed);
        assert_eq!((cache.pods, shards.pods), (1, 9));
        ratio += shards.items_per_s / cache.items_per_s / SEEDS as f64;
        latencies += cache.enqueue.percentile(50) / shards.enqueue.percentile(50);
    }
    // Published: 5.12 and 4.88. With each of 16 seeds the rates are as 4.38 to 4.64, and the latencies
    // as 8.
    assert!((3.7..6.2).contains(&ratio), "{ratio}");
    assert!(latencies >= 5 * SEEDS, "{latencies}");
}

#[test]
fn a_wake_up_after_the_lock_helps_most_where_one_pool_is_the_bottleneck() {
    let gain = |seed| {
        let rate = |wake| row("grace", Scope::Cache, wake, seed).items_per_s;
        rate(WakeOrder::AfterTheLock) / rate(WakeOrder::UnderTheLock)
    };
    let mean = (1..=SEEDS).map(gain).sum::<f64>() / SEEDS as f64;
    // With each of 16 seeds it is 1.10 to 1.18; exactly 1 if both orders are the same.
    assert!(mean > 1.05, "{mean}");
}

#[test]
fn the_same_seed_gives_the_same_table() {
    for name in ["9d64", "8321hc"] {
        let run = || row(name, Scope::Smt, WakeOrder::UnderTheLock, 1);
        let (one, other) = (run(), run());
        assert_eq!(one.outcome, other.outcome, "{name}");
        assert_eq!(one.enqueue.percentile(95), other.enqueue.percentile(95));
    }
}
