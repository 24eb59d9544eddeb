//! The operations of a random program.

/// What an issuer does in one step. Details follow from the operation's own seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Queues a reusable item.
    QueueItem,
    /// Spawns a closure, and keeps or drops its handle.
    Spawn,
    /// Has a closure executed.
    Execute,
    /// Queues a one-shot item in memory of its own.
    Shoot,
    /// Joins a handle.
    JoinOne,
    /// Cancels, disables, moves, flushes an item, or reads its state.
    HandleItem,
    /// Flushes a queue.
    Flush,
    /// Drains a queue.
    Drain,
    /// Changes `max_active` or `min_active`.
    Limits,
    /// Changes a queue's attributes.
    Attrs,
    /// Changes the engine's default scope.
    DefaultScope,
    /// Changes the unbound mask, or takes CPUs away and gives them back.
    ChangeCpus,
    /// Freezes, checks, and thaws.
    Freeze,
    /// Reads statistics, dumps, states.
    Look,
    /// Queues an item from each CPU.
    Everywhere,
    /// Enables an item again.
    Release,
    /// Replaces a queue by a new one.
    Replace,
    /// Makes, or fills and drops, a queue of the issuer's own.
    Own,
    /// Queues so much that pools saturate.
    Burst,
    /// Spawns and joins at once, again and again.
    SpawnAndJoin,
    /// Queues where work conservation is watched.
    Steady,
    /// Sleeps for a while.
    Rest,
    /// Queues, executes or spawns many at once, or executes many in a row.
    Batch,
    /// Submits to a completion queue, posts, drains, waits, arms it, or drops it.
    Completions,
    /// Changes the limit on running workers, or the process's CPU quota.
    CpuLimit,
    /// Has pools go and others come, or queues, cancels, moves and flushes one item again and again.
    Churn,
    /// Tries, waits or awaits room on the queue with a bound, gives up, or changes the bound.
    Bounded,
}

/// How often each is drawn, beside the others. [`Kind::CpuLimit`], [`Kind::Churn`] and
/// [`Kind::Bounded`] are drawn apart: most programs have none.
pub(crate) const KINDS: [(Kind, u64); 24] = [
    (Kind::QueueItem, 300),
    (Kind::Spawn, 220),
    (Kind::Execute, 60),
    (Kind::Shoot, 40),
    (Kind::JoinOne, 40),
    (Kind::HandleItem, 150),
    (Kind::Flush, 50),
    (Kind::Drain, 15),
    (Kind::Limits, 30),
    (Kind::Attrs, 20),
    (Kind::DefaultScope, 5),
    (Kind::ChangeCpus, 8),
    (Kind::Freeze, 8),
    (Kind::Look, 10),
    (Kind::Everywhere, 6),
    (Kind::Release, 45),
    (Kind::Replace, 8),
    (Kind::Own, 20),
    (Kind::Burst, 3),
    (Kind::SpawnAndJoin, 6),
    (Kind::Steady, 80),
    (Kind::Rest, 60),
    (Kind::Batch, 40),
    (Kind::Completions, 80),
];

/// The kind at a number below the sum of the weights.
pub(crate) fn pick(weights: &[(Kind, u64)], mut at: u64) -> Kind {
    for &(kind, weight) in weights {
        if at < weight {
            return kind;
        }
        at -= weight;
    }
    Kind::Spawn
}
