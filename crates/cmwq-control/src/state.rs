//! The library's states in the protocol's form.

use crate::counter;
use crate::protocol::{self, Totals};
use cmwq::Engine;
use cmwq::observe::{LiveQueue, PoolFor, PoolState, QueueState, RunState, function_name};
use cmwq::topology::CpuSet;
use cmwq::types::WorkqueueKind;
use std::collections::{BTreeMap, HashMap};

/// The process's name, as the system shows it.
pub(crate) fn process_name() -> String {
    std::fs::read_to_string("/proc/self/comm").map_or_else(
        |_| String::new(),
        |name| name.trim_end_matches('\n').to_owned(),
    )
}

pub(crate) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Every queue of the process, the oldest first, by what commands call it: the name, or
/// `NAME#SERIAL` where another has the same, or where the name would not do for a folder or stands
/// for something else there.
pub(crate) fn keyed_queues() -> Vec<(String, Engine, LiveQueue)> {
    let engines = Engine::all();
    let queues: Vec<(Engine, LiveQueue)> = engines
        .into_iter()
        .flat_map(|engine| {
            let queues = engine.live_queues();
            queues.into_iter().map(move |queue| (engine.clone(), queue))
        })
        .collect();
    let mut times: HashMap<String, usize> = HashMap::new();
    for (_, queue) in &queues {
        *times.entry(queue.name().to_owned()).or_default() += 1;
    }
    let keyed = queues.into_iter().map(|(engine, queue)| {
        let key = key_of(queue.name(), queue.serial(), times[queue.name()] == 1);
        (key, engine, queue)
    });
    keyed.collect()
}

/// Names that mean something else beside the queues' folders.
const TAKEN: [&str; 5] = [
    "",
    "parameters",
    "cpumask",
    "cpumask_isolated",
    "cpumask_requested",
];

fn key_of(name: &str, serial: u64, unique: bool) -> String {
    // As the kernel does for files of that name.
    let safe: String = name
        .chars()
        .map(|c| if c == '/' { '!' } else { c })
        .filter(|c| !c.is_control())
        .collect();
    if unique
        && safe == name
        && !TAKEN.contains(&name)
        && !name.starts_with('.')
        && !name.contains('#')
    {
        safe
    } else {
        format!("{safe}#{serial}")
    }
}

pub(crate) fn state() -> protocol::State {
    let keyed = keyed_queues();
    let engines = Engine::all();
    let mut groups = Groups::default();
    let engines = engines
        .iter()
        .map(|engine| engine_state(engine, &keyed, &mut groups));
    protocol::State {
        pid: std::process::id(),
        name: process_name(),
        at_ns: now_ns(),
        engines: engines.collect(),
        groups: groups.0.into_values().collect(),
        counters: counter::shown(),
    }
}

/// The groups of the queues converted so far, by number.
#[derive(Default)]
pub(crate) struct Groups(pub(crate) BTreeMap<u64, protocol::Group>);

impl Groups {
    /// Notes the group of a queue, if it has one.
    pub(crate) fn note(&mut self, queue: &QueueState, key: &str) {
        let Some(group) = &queue.group else {
            return;
        };
        let noted = self.0.entry(group.serial);
        let noted = noted.or_insert_with(|| protocol::Group {
            serial: group.serial,
            name: group.name.clone(),
            max_active: group.max_active,
            held: group.held,
            waiting: group.waiting,
            queues: Vec::new(),
        });
        noted.queues.push(key.to_owned());
    }
}

fn engine_state(
    engine: &Engine,
    keyed: &[(String, Engine, LiveQueue)],
    groups: &mut Groups,
) -> protocol::Engine {
    let topology = engine.topology();
    let parameters = Engine::parameter_settings()
        .into_iter()
        .filter_map(|setting| {
            let value = engine.parameter(setting.name).ok()?;
            Some((setting.name.to_owned(), value))
        });
    let names: HashMap<usize, String> = keyed
        .iter()
        .map(|(key, _, queue)| (queue.id(), key.clone()))
        .collect();
    let queues = engine.queue_states().into_iter().filter_map(|state| {
        let (key, _, live) = keyed
            .iter()
            .find(|(_, _, queue)| queue.serial() == state.serial)?;
        groups.note(&state, key);
        Some(queue_state(state, key, live))
    });
    let scopes = engine.scope_states().into_iter().map(|scope| {
        let pods = scope.pods.into_iter();
        protocol::Scope {
            name: scope.scope.name().to_owned(),
            pods: pods.map(|(cpus, node)| (cpus.to_string(), node)).collect(),
            cpu_pod: scope.cpu_pod,
        }
    });
    let stats = engine.stats();
    protocol::Engine {
        serial: engine.serial(),
        possible: topology.possible().to_string(),
        cpus: topology.cpus().to_string(),
        nodes: topology
            .nodes()
            .iter()
            .map(|(node, cpus)| (*node, cpus.to_string()))
            .collect(),
        parameters: parameters.collect(),
        scopes: scopes.collect(),
        pools: engine
            .pool_states()
            .into_iter()
            .map(|pool| pool_state(pool, &names))
            .collect(),
        queues: queues.collect(),
        totals: Totals {
            workers: stats.workers,
            ..Totals::counted(&stats)
        },
    }
}

fn queue_state(state: QueueState, key: &str, live: &LiveQueue) -> protocol::Queue {
    let attributes = live.attributes().into_iter().filter_map(|(name, _)| {
        let value = live.attribute(name).ok()?;
        Some((name.to_owned(), value))
    });
    protocol::Queue {
        serial: state.serial,
        name: state.name,
        key: key.to_owned(),
        kind: match state.kind {
            WorkqueueKind::Unbound if state.attrs.affinity_strict => "unbound,S".to_owned(),
            kind => kind.to_string(),
        },
        flags: state.flags,
        attributes: attributes.collect(),
        min_active: state.min_active,
        max_active: state.max_active,
        cpu_pool: state.cpu_pool,
        default_pool: state.default_pool,
        nodes: state
            .nodes
            .iter()
            .map(|node| (node.node, node.active, node.max_active))
            .collect(),
        pwqs: state
            .pwqs
            .iter()
            .map(|pwq| (pwq.pool, pwq.active, pwq.inactive))
            .collect(),
        group: state.group.map(|group| group.serial),
        rescuer: state
            .rescuer
            .map(|rescuer| (rescuer.tid, rescuer.cpus.to_string())),
        enqueue_timed: state.enqueue.count(),
        enqueue_p50_ns: state.enqueue.quantile_ns(0.5),
        enqueue_p99_ns: state.enqueue.quantile_ns(0.99),
        times: protocol::Times {
            waits: state.times.wait.count(),
            wait_p50_ns: state.times.wait.quantile_ns(0.5),
            wait_p99_ns: state.times.wait.quantile_ns(0.99),
            longest_waiting_ns: state.times.longest_waiting_ns,
            runs: state.times.run.count(),
            run_p50_ns: state.times.run.quantile_ns(0.5),
            run_p99_ns: state.times.run.quantile_ns(0.99),
            longest_running_ns: state.times.longest_running_ns,
        },
        room: state.room.map(|room| (room.waiting, room.max_waiting)),
        ..protocol::Queue::counted(&state.stats)
    }
}

fn pool_state(pool: PoolState, names: &HashMap<usize, String>) -> protocol::Pool {
    let (kind, cpu) = match pool.kind {
        PoolFor::Unbound => ("unbound", None),
        PoolFor::PerCpu(cpu) => ("percpu", Some(cpu)),
        PoolFor::Bh(cpu) => ("bh", Some(cpu)),
    };
    let text = |cpus: &CpuSet| cpus.to_string();
    let run = |run: &RunState| protocol::Run {
        tid: run.tid,
        rescuer: run.rescuer,
        queue: names.get(&run.queue).cloned().unwrap_or_default(),
        function: function_name(run.func),
        description: run.description.clone(),
        for_ns: run.for_ns,
        behind_it: run
            .scheduled
            .iter()
            .map(|func| function_name(*func))
            .collect(),
    };
    protocol::Pool {
        id: pool.id,
        kind: kind.to_owned(),
        cpu,
        flags: pool.flags,
        manager: pool.manager,
        hung_ns: pool.hung_ns,
        users: pool.users,
        nice: pool.nice,
        effective_nice: pool.effective_nice,
        pod_cpus: text(&pool.pod),
        cpus: text(&pool.cpus),
        strict: pool.strict,
        node: pool.node,
        binding: text(&pool.binding),
        target: pool.target,
        running: pool.running,
        waiting: pool.waiting,
        workers: pool
            .workers
            .iter()
            .map(|worker| protocol::Worker {
                id: worker.id,
                tid: worker.tid,
                doing: worker.doing.to_owned(),
            })
            .collect(),
        runs: pool.runs.iter().map(run).collect(),
        ..protocol::Pool::counted(&pool.stats)
    }
}

#[cfg(test)]
mod tests {
    use super::key_of;

    #[test]
    fn a_key_is_the_name_unless_that_is_ambiguous_or_no_name_for_a_folder() {
        assert_eq!(key_of("io", 3, true), "io");
        assert_eq!(key_of("io", 3, false), "io#3");
        assert_eq!(key_of("a/b", 4, true), "a!b#4");
        for name in ["", "..", ".x", "parameters", "cpumask", "x#1", "new\nline"] {
            let key = key_of(name, 5, true);
            assert!(key.ends_with("#5") && !key.contains(['/', '\n']), "{key:?}");
        }
    }
}
