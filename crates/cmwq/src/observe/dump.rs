//! The dump of everything that is busy, laid out like the kernel's.

use crate::pool::{MOST_LISTED, PoolKind, PoolSnapshot, PwqSnapshot, RunSnapshot};
use crate::sys::symbol;
use std::collections::BTreeMap;
use std::fmt;

/// What is busy at one moment: see [`Engine::dump`](crate::Engine::dump). Each pool is looked at by itself, so that the
/// parts may be a few microseconds apart.
pub struct Dump {
    pools: Vec<PoolSnapshot>,
}

impl Dump {
    pub(crate) fn new(pools: Vec<PoolSnapshot>) -> Self {
        Dump { pools }
    }

    /// One line on a pool: its CPUs, node, kind, nice level.
    pub(crate) fn describe(&self, id: u32) -> String {
        match self.pools.iter().find(|pool| pool.id == id) {
            Some(pool) => Described(pool).to_string(),
            None => format!("pool {id}"),
        }
    }

    /// What the threads are doing that run items of those of these pools that belong to one CPU: one that sleeps can hold such a
    /// pool up.
    pub(crate) fn threads_of(&self, ids: impl Iterator<Item = u32>) -> String {
        let mut text = String::new();
        for id in ids {
            let Some(pool) = self.pools.iter().find(|pool| pool.id == id) else {
                continue;
            };
            if pool.kind == PoolKind::Unbound {
                continue;
            }
            text += &format!("busy threads of pool {id}:\n");
            for run in &pool.runs {
                let read = |file: &str| {
                    std::fs::read_to_string(format!("/proc/self/task/{}/{file}", run.tid))
                        .unwrap_or_default()
                };
                let stat = read("stat");
                let state = stat
                    .rsplit_once(") ")
                    .and_then(|(_, rest)| rest.chars().next())
                    .unwrap_or('?');
                text += &format!(
                    "  {} {} state {state} in {}\n",
                    run.tid,
                    read("comm").trim_end(),
                    read("wchan")
                );
            }
        }
        text
    }
}

/// A pool in one line.
struct Described<'a>(&'a PoolSnapshot);

impl fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pool = self.0;
        write!(f, "pool {}: cpus={}", pool.id, pool.cpus)?;
        if let Some(node) = pool.node {
            write!(f, " node={node}")?;
        }
        match pool.kind {
            PoolKind::Unbound if pool.strict => f.write_str(" unbound strict")?,
            PoolKind::Unbound => f.write_str(" unbound")?,
            PoolKind::PerCpu(_) => f.write_str(" per-CPU")?,
            PoolKind::Bh(_) => f.write_str(" BH")?,
        }
        write!(f, " nice={}", pool.nice)?;
        match pool.effective_nice {
            Some(nice) if nice != pool.nice => write!(f, " (runs at {nice})"),
            _ => Ok(()),
        }
    }
}

/// Functions, equal neighbours as one with a count.
/// Of a list that is longer than [`MOST_LISTED`] only its length is told, `all`.
fn write_funcs(f: &mut fmt::Formatter<'_>, funcs: &[usize], all: usize) -> fmt::Result {
    for (index, same) in funcs.chunk_by(|a, b| a == b).enumerate() {
        let comma = if index == 0 { " " } else { ", " };
        match same.len() {
            1 => write!(f, "{comma}{}", symbol::name_of(same[0]))?,
            count => write!(f, "{comma}{count}*{}", symbol::name_of(same[0]))?,
        }
    }
    if funcs.len() >= MOST_LISTED {
        write!(f, ", and so on: {all} in all")?;
    }
    writeln!(f)
}

fn write_runs(f: &mut fmt::Formatter<'_>, runs: &[&RunSnapshot]) -> fmt::Result {
    f.write_str("    in-flight:")?;
    for (index, run) in runs.iter().enumerate() {
        let comma = if index == 0 { " " } else { ", " };
        let rescuer = if run.rescuer { "(RESCUER)" } else { "" };
        let name = symbol::name_of(run.func);
        let seconds = run.for_ns as f64 / 1e9;
        write!(f, "{comma}{}{rescuer}:{name} for {seconds:.1}s", run.tid)?;
        if !run.scheduled.is_empty() {
            f.write_str(" BEHIND IT")?;
            for func in &run.scheduled {
                write!(f, " {}", symbol::name_of(*func))?;
            }
        }
    }
    writeln!(f)
}

impl fmt::Display for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Showing busy workqueues and worker pools:")?;
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
                let mayday = if pwq.mayday { " MAYDAY" } else { "" };
                writeln!(
                    f,
                    "  pwq: {} active={} in_flight={}{mayday}",
                    Described(pool),
                    pwq.active,
                    pwq.in_flight
                )?;
                let runs: Vec<&RunSnapshot> = pool
                    .runs
                    .iter()
                    .filter(|run| run.pwq == pwq.place)
                    .collect();
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
            }
        }
        for pool in self.pools.iter().filter(|pool| pool.is_busy()) {
            write!(f, "{} workers={}", Described(pool), pool.workers.len())?;
            if pool.creating {
                f.write_str(" creating one")?;
            }
            if !pool.idle.is_empty() {
                f.write_str(" idle:")?;
                for tid in &pool.idle {
                    write!(f, " {tid}")?;
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
