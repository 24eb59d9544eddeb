//! The dump of everything that is busy, laid out like the kernel's.

use super::snapshot::{MOST_LISTED, PwqSnapshot, RunSnapshot};
use super::threads;
use crate::pool::{PoolFor, PoolSnapshot, PoolState, WaitList};
use crate::sys::names;
use crate::trace::on_one_line;
use std::collections::BTreeMap;
use std::fmt;

/// Prints what is busy at one moment; made by [`Engine::dump`](crate::Engine::dump). Each pool is
/// copied by itself, so the parts may be a few microseconds apart.
///
/// ```
/// println!("{}", cmwq::Engine::global()?.dump());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Dump {
    pools: Vec<PoolSnapshot>,
    freezable_only: bool,
}

impl Dump {
    pub(crate) fn new(mut pools: Vec<PoolSnapshot>) -> Self {
        for pwq in pools.iter_mut().flat_map(|pool| &mut pool.pwqs) {
            pwq.queue = on_one_line(&pwq.queue);
            if let Some((name, ..)) = &mut pwq.group {
                *name = on_one_line(name);
            }
        }
        Dump {
            pools,
            freezable_only: false,
        }
    }

    /// This dump with freezable queues only, and without pools.
    pub(crate) fn of_freezable(mut self) -> Self {
        for pool in &mut self.pools {
            pool.pwqs.retain(|pwq| pwq.freezable);
            let left: Vec<u32> = pool.pwqs.iter().map(|pwq| pwq.index).collect();
            pool.runs.retain(|run| left.contains(&run.pwq));
        }
        self.freezable_only = true;
        self
    }

    /// One line on a pool: its CPUs, node, kind, nice level.
    pub(crate) fn describe(&self, id: u32) -> String {
        match self.pools.iter().find(|pool| pool.state.id == id) {
            Some(pool) => Described(&pool.state).to_string(),
            None => format!("pool {id}"),
        }
    }

    /// For how long the pool of a worklist has started nothing, as far as that was noticed.
    pub(crate) fn hung_ns(&self, list: WaitList) -> Option<u64> {
        let pool = self.pools.iter().find(|pool| pool.state.id == list.pool());
        let pool = pool.filter(|_| matches!(list, WaitList::Ready(_)));
        pool?.state.hung_ns
    }

    /// Why the items of a list wait, as far as the dump tells.
    pub(crate) fn why_it_waits(&self, list: WaitList) -> String {
        let pool = self.pools.iter().find(|pool| pool.state.id == list.pool());
        let Some(pool) = pool else {
            return "the pool is gone".to_owned();
        };
        let WaitList::Inactive(_, key) = list else {
            let state = &pool.state;
            return if state.running >= state.target {
                format!("{} items run, as many as may", state.running)
            } else if state.manager.is_some() && pool.idle.is_empty() {
                "a worker is needed and has not been created".to_owned()
            } else {
                "no worker takes it".to_owned()
            };
        };
        match pool.pwqs.iter().find(|pwq| pwq.index == key.index) {
            Some(pwq) if pwq.plugged => format!(
                "workqueue {} is ordered, and its items of before a change of attributes come first",
                pwq.queue
            ),
            Some(pwq) => format!(
                "max_active of workqueue {} admits {} here, {} are active and {} wait{}",
                pwq.queue,
                pwq.admits,
                pwq.active,
                pwq.nr_inactive,
                OfGroup(pwq),
            ),
            None => "the workqueue is gone".to_owned(),
        }
    }

    /// What threads do that run items of these pools. Only pools of one CPU are considered, because
    /// those can be held up by a single thread that sleeps.
    pub(crate) fn threads_of(&self, ids: impl Iterator<Item = u32>) -> String {
        let mut text = String::new();
        for id in ids {
            let pool = self.pools.iter().find(|pool| pool.state.id == id);
            if let Some(pool) = pool.filter(|pool| pool.state.kind != PoolFor::Unbound) {
                describe_threads(&mut text, pool);
            }
        }
        text
    }

    /// What the threads do now that run the items of this dump. A line for each, and where it is in
    /// the kernel: its stack if that may be read, otherwise the function and the system call in
    /// which it sleeps. The threads are not disturbed.
    pub fn threads(&self) -> String {
        let mut text = String::new();
        for pool in self.pools.iter().filter(|pool| !pool.runs.is_empty()) {
            describe_threads(&mut text, pool);
        }
        text
    }
}

fn describe_threads(text: &mut String, pool: &PoolSnapshot) {
    *text += &format!("busy threads of pool {}:\n", pool.state.id);
    for run in &pool.runs {
        threads::describe(text, run.state.tid);
    }
}

/// The limit of a queue's group, as a suffix.
struct OfGroup<'a>(&'a PwqSnapshot);

impl fmt::Display for OfGroup<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.group {
            Some((name, limit, held)) => write!(f, "; group {name} admits {limit}, {held} held"),
            None => Ok(()),
        }
    }
}

/// A pool in one line.
struct Described<'a>(&'a PoolState);

impl fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pool = self.0;
        write!(f, "pool {}: cpus={}", pool.id, pool.pod)?;
        if let Some(node) = pool.node {
            write!(f, " node={node}")?;
        }
        write!(f, " flags={:#x}", pool.flags)?;
        match pool.kind {
            PoolFor::Unbound if pool.strict => f.write_str(" unbound strict")?,
            PoolFor::Unbound => f.write_str(" unbound")?,
            PoolFor::PerCpu(_) => f.write_str(" per-CPU")?,
            PoolFor::Bh(_) => f.write_str(" BH")?,
        }
        write!(f, " nice={}", pool.nice)?;
        match pool.effective_nice {
            Some(nice) if nice != pool.nice => write!(f, " (runs at {nice})"),
            _ => Ok(()),
        }
    }
}

/// Functions; equal neighbours become one with a count. A list longer than [`MOST_LISTED`] ends
/// with its length, `all`.
fn write_funcs(f: &mut fmt::Formatter<'_>, funcs: &[usize], all: usize) -> fmt::Result {
    for (index, same) in funcs.chunk_by(|a, b| a == b).enumerate() {
        let comma = if index == 0 { " " } else { ", " };
        match same.len() {
            1 => write!(f, "{comma}{}", names::name_of(same[0]))?,
            count => write!(f, "{comma}{count}*{}", names::name_of(same[0]))?,
        }
    }
    if funcs.len() >= MOST_LISTED {
        write!(f, ", and so on: {all} in all")?;
    }
    writeln!(f)
}

fn write_runs(f: &mut fmt::Formatter<'_>, runs: &[&RunSnapshot]) -> fmt::Result {
    f.write_str("    in-flight:")?;
    for (index, snapshot) in runs.iter().enumerate() {
        let run = &snapshot.state;
        let comma = if index == 0 { " " } else { ", " };
        let rescuer = if run.rescuer { "(RESCUER)" } else { "" };
        let name = names::name_of(run.func);
        let seconds = run.for_ns as f64 / 1e9;
        write!(f, "{comma}{}{rescuer}:{name}", run.tid)?;
        if snapshot.is_described {
            write!(f, " ({})", run.description)?;
        }
        write!(f, " for {seconds:.1}s")?;
        if !run.scheduled.is_empty() {
            f.write_str(" BEHIND IT")?;
            for func in &run.scheduled {
                write!(f, " {}", names::name_of(*func))?;
            }
        }
    }
    writeln!(f)
}

/// What a pool workqueue has in flight, and what runs and waits of it.
fn write_pwq(f: &mut fmt::Formatter<'_>, pool: &PoolSnapshot, pwq: &PwqSnapshot) -> fmt::Result {
    let mayday = if pwq.mayday { " MAYDAY" } else { "" };
    writeln!(
        f,
        "  pwq: {} active={} in_flight={} refcnt={}{mayday}{}",
        Described(&pool.state),
        pwq.active,
        pwq.in_flight,
        pwq.references,
        OfGroup(pwq),
    )?;
    let own = |run: &&RunSnapshot| run.pwq == pwq.index;
    let runs: Vec<&RunSnapshot> = pool.runs.iter().filter(own).collect();
    if !runs.is_empty() {
        write_runs(f, &runs)?;
    }
    let nr_pending = pwq.active.saturating_sub(runs.len());
    for (what, funcs, all) in [
        ("pending", &pwq.pending, nr_pending),
        ("inactive", &pwq.inactive, pwq.nr_inactive),
    ] {
        if !funcs.is_empty() {
            write!(f, "    {what}:")?;
            write_funcs(f, funcs, all)?;
        }
    }
    Ok(())
}

/// A pool and its workers.
fn write_pool(f: &mut fmt::Formatter<'_>, pool: &PoolSnapshot) -> fmt::Result {
    write!(f, "{}", Described(&pool.state))?;
    if let Some(ns) = pool.state.hung_ns {
        write!(f, " hung={}s", ns / 1_000_000_000)?;
    }
    write!(f, " workers={}", pool.state.workers.len())?;
    match pool.state.manager {
        // A worker was asked for, and no thread has begun to create it.
        Some(0) => f.write_str(" manager: none yet")?,
        Some(tid) => write!(f, " manager: {tid}")?,
        None => {}
    }
    if !pool.idle.is_empty() {
        f.write_str(" idle:")?;
        for tid in &pool.idle {
            write!(f, " {tid}")?;
        }
    }
    writeln!(f)
}

impl fmt::Display for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.freezable_only {
            true => "Showing freezable workqueues that are still busy:\n",
            false => "Showing busy workqueues and worker pools:\n",
        })?;
        // Queues of one name and one kind stand together.
        let mut queues: BTreeMap<(&str, &str), Vec<(&PoolSnapshot, &PwqSnapshot)>> =
            BTreeMap::new();
        for pool in &self.pools {
            for pwq in pool.pwqs.iter().filter(|pwq| pwq.in_flight > 0) {
                let queue = queues.entry((&pwq.queue, &pwq.flags)).or_default();
                queue.push((pool, pwq));
            }
        }
        for ((name, flags), pwqs) in queues {
            writeln!(f, "workqueue {name}: {flags}")?;
            for (pool, pwq) in pwqs {
                write_pwq(f, pool, pwq)?;
            }
        }
        if self.freezable_only {
            return Ok(());
        }
        for pool in self.pools.iter().filter(|pool| pool.is_busy()) {
            write_pool(f, pool)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests;
