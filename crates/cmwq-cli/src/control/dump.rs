//! `cmwq dump`: the configuration, in the sections and with the words of the kernel's `wq_dump`.

use std::fmt::Write as _;

use cmwq::topology::CpuSet;
use cmwq_control::protocol::{Engine, Group, Pool, Queue, State};

use super::{Format, ProcessArgs, latency, nothing_yet, refused};
use crate::output;
use cmwq_command::CliError;

const EXAMPLES: &str = "\
Examples:
  cmwq dump
  cmwq dump -p my-server
  cmwq dump --format json

Sections, as in the kernel's wq_dump: the pods of each affinity scope, the worker pools, the pool of each CPU by workqueue, the \
rescuers, and how many items each unbound workqueue may have active on each node. Two further sections are cmwq's own. One says how long items wait (from the call that queued them to their start) and run, \
measured on a sample of them, and shows the oldest item that waits now and the oldest that runs now. The other is there where \
workqueues share a limit (a concurrency group): how many places each group has, which workqueues hold them, and how many workqueues \
wait for one.

CPU masks are hexadecimal, in groups of eight digits (32 CPUs), the highest CPUs first. A pool's flags are the sum of 1 (a BH pool), \
2 (a worker is being created; manager is the thread that creates it) and 4 (not bound to one CPU). ref is the number of workqueues \
that use the pool.

cpu_limit is the parameter of that name, running_limit the number of workers that may run at once over all pools because of it, and \
cpu_quota the CPU quota of the process's control group, with how often the group was throttled.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    process: ProcessArgs,

    /// Text to read, or JSON with everything
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(crate) fn run(args: &Args) -> Result<(), CliError> {
    let mut client = args.process.connect()?;
    let state = client.state().map_err(refused)?;
    if args.format == Format::Json {
        return output::print(&super::json(&state)?);
    }
    output::print(&output::printable_lines(&text(&state)))
}

fn text(state: &State) -> String {
    if let Some(text) = nothing_yet(state) {
        return text;
    }
    let many = state.engines.len() > 1;
    let mut text = String::new();
    for engine in &state.engines {
        if many {
            text += &heading(&format!("Engine {}", engine.serial));
        }
        text += &of_engine(engine);
    }
    if !state.groups.is_empty() {
        text += &groups(&state.groups);
    }
    text
}

fn heading(title: &str) -> String {
    format!("{title}\n{}\n", "=".repeat(title.len()))
}

/// Sets of CPUs are masks here, as in the kernel's tool: as wide as the machine, in full groups of
/// 32 CPUs, the highest first.
struct Masks {
    numbers: usize,
}

impl Masks {
    fn of(engine: &Engine) -> Masks {
        let possible = CpuSet::parse_list(&engine.possible).unwrap_or_default();
        Masks {
            numbers: possible
                .last()
                .map_or(1, |last| last + 1)
                .next_multiple_of(32),
        }
    }

    /// What a file shows, which has as many digits as the machine needs.
    fn widen(&self, mask: &str) -> String {
        match CpuSet::parse_mask(mask) {
            Ok(cpus) => cpus.to_mask_of(self.numbers),
            Err(_) => mask.to_owned(),
        }
    }

    fn mask(&self, list: &str) -> String {
        match CpuSet::parse_list(list) {
            Ok(cpus) => cpus.to_mask_of(self.numbers),
            Err(_) => list.to_owned(),
        }
    }
}

fn of_engine(engine: &Engine) -> String {
    [
        affinity_scopes(engine),
        worker_pools(engine),
        cpu_to_pool(engine),
        rescuers(engine),
        node_limits(engine),
        times(engine),
    ]
    .join("\n")
        + "\n"
}

fn number<T: ToString>(number: Option<T>) -> String {
    number.map_or_else(|| "-1".to_owned(), |number| number.to_string())
}

fn affinity_scopes(engine: &Engine) -> String {
    let masks = Masks::of(engine);
    let mut text = heading("Affinity Scopes");
    let default = engine.parameters.get("default_affinity_scope");
    let unbound = engine
        .parameters
        .get("cpumask")
        .cloned()
        .unwrap_or_default();
    text += &format!("wq_unbound_cpumask={}\n", masks.widen(&unbound));
    let parameter = |name: &str| {
        let value = engine.parameters.get(name);
        value.map_or("none", String::as_str)
    };
    text += &format!(
        "cpu_limit={} running_limit={} cpu_quota={}\n",
        parameter("cpu_limit"),
        parameter("running_limit"),
        output::printable(parameter("cpu_quota"))
    );
    for scope in &engine.scopes {
        let mark = if Some(&scope.name) == default {
            " (default)"
        } else {
            ""
        };
        let list = |items: Vec<String>| items.join(" ");
        let pods = scope.pods.iter().enumerate();
        let cpus = pods
            .clone()
            .map(|(at, (cpus, _))| format!("[{at}]={}", masks.mask(cpus)));
        let nodes = pods.map(|(at, (_, node))| format!("[{at}]={}", number(*node)));
        let of_cpu = scope.cpu_pod.iter().enumerate();
        let of_cpu = of_cpu.filter_map(|(cpu, pod)| Some(format!("[{cpu}]={}", (*pod)?)));
        let _ = write!(
            text,
            "\n{}{mark}\n  nr_pods  {}\n  pod_cpus {}\n  pod_node {}\n  cpu_pod  {}\n",
            scope.name.to_uppercase(),
            scope.pods.len(),
            list(cpus.collect()),
            list(nodes.collect()),
            list(of_cpu.collect()),
        );
    }
    text
}

/// As many digits as the highest number of a pool takes, but two at least.
fn id_width(engine: &Engine) -> usize {
    let highest = engine.pools.iter().map(|pool| pool.id).max().unwrap_or(0);
    highest.to_string().len().max(2)
}

fn worker_pools(engine: &Engine) -> String {
    let masks = Masks::of(engine);
    let width = id_width(engine);
    let mut text = heading("Worker Pools");
    for pool in &engine.pools {
        text += &worker_pool(pool, width, &masks);
        text.push('\n');
    }
    text
}

fn worker_pool(pool: &Pool, width: usize, masks: &Masks) -> String {
    let idle = pool.workers.iter().filter(|worker| worker.doing == "idle");
    let mut text = format!(
        "pool[{:0width$}] flags={:#x} ref={:>2} nice={:>3} idle/workers={:>3}/{:>3} ",
        pool.id,
        pool.flags,
        pool.users,
        pool.nice,
        idle.count(),
        pool.workers.len(),
    );
    text += &place(pool, masks);
    if let Some(tid) = pool.manager {
        let _ = write!(text, " manager={tid}");
    }
    text
}

fn place(pool: &Pool, masks: &Masks) -> String {
    match (pool.kind.as_str(), pool.cpu) {
        ("bh", Some(cpu)) => format!("cpu={cpu:>3} bh"),
        (_, Some(cpu)) => format!("cpu={cpu:>3}"),
        _ => {
            let strict = if pool.strict { " strict" } else { "" };
            let cpus = masks.mask(&pool.cpus);
            format!(
                "cpus={cpus} pod_cpus={}{strict}",
                masks.mask(&pool.pod_cpus)
            )
        }
    }
}

/// Names are cut to as many columns, from the front.
const NAME_COLUMNS: usize = 24;

pub(super) fn name_column(name: &str) -> String {
    output::end_in_columns(name, NAME_COLUMNS)
}

fn cpu_to_pool(engine: &Engine) -> String {
    let width = id_width(engine);
    let cpus = CpuSet::parse_list(&engine.cpus).unwrap_or_default();
    let mut text = heading("Workqueue CPU -> pool");
    text += &format!(
        "[{:^1$} ",
        "workqueue     \\     type   CPU",
        NAME_COLUMNS + 9
    );
    for cpu in cpus.iter() {
        let _ = write!(text, " {cpu:>width$}");
    }
    let _ = writeln!(text, " {:>width$}]", "dfl");
    for queue in &engine.queues {
        let _ = write!(text, "{} {:10}", name_column(&queue.key), queue.kind);
        for cpu in cpus.iter() {
            let pool = queue.cpu_pool.get(cpu).copied().flatten();
            let pool = pool.map_or_else(|| "-".to_owned(), |pool| pool.to_string());
            let _ = write!(text, " {pool:>width$}");
        }
        if let Some(pool) = queue.default_pool {
            let _ = write!(text, " {pool:>width$}");
        }
        text.push('\n');
    }
    text
}

fn rescuers(engine: &Engine) -> String {
    let masks = Masks::of(engine);
    let mut text = heading("Workqueue -> rescuer");
    let own_mask = engine
        .parameters
        .get("cpumask")
        .cloned()
        .unwrap_or_default();
    for queue in &engine.queues {
        if let Some((tid, cpus)) = &queue.rescuer {
            let wq_mask = queue.attributes.get("cpumask").unwrap_or(&own_mask);
            let _ = writeln!(
                text,
                "{} wq_cpumask={} rescuer_tid={tid} rescuer_cpus={}",
                name_column(&queue.key),
                masks.widen(wq_mask),
                masks.mask(cpus)
            );
        }
    }
    text
}

fn node_limits(engine: &Engine) -> String {
    let mut text = heading("Unbound workqueue -> node_nr/max_active");
    let nodes = engine
        .nodes
        .iter()
        .map(|(node, cpus)| format!("node {node}: CPUs {cpus}"));
    text += &format!("{}\n", nodes.collect::<Vec<_>>().join("; "));
    let _ = write!(text, "{:NAME_COLUMNS$} {:>4} {:>5}", "", "min", "max");
    for (node, _) in &engine.nodes {
        let _ = write!(text, " {:>9}", format!("node {node}"));
    }
    let _ = writeln!(text, " {:>9}", "dfl");
    for queue in engine.queues.iter().filter(|queue| !queue.nodes.is_empty()) {
        text += &node_line(queue);
    }
    text
}

fn times(engine: &Engine) -> String {
    let mut text = heading("Workqueue -> waits and runs of a sample of its items");
    let _ = writeln!(
        text,
        "{:NAME_COLUMNS$} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>12} {:>8}",
        "",
        "wait p50",
        "wait p99",
        "wait now",
        "run p50",
        "run p99",
        "run now",
        "waiting/max",
        "refused"
    );
    for queue in &engine.queues {
        let own = &queue.times;
        let room = queue
            .room
            .map(|(waiting, most)| format!("{waiting}/{most}"));
        let _ = writeln!(
            text,
            "{} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>12} {:>8}",
            name_column(&queue.key),
            latency(own.wait_p50_ns),
            latency(own.wait_p99_ns),
            latency(own.longest_waiting_ns),
            latency(own.run_p50_ns),
            latency(own.run_p99_ns),
            latency(own.longest_running_ns),
            room.unwrap_or_else(|| "-".to_owned()),
            queue.refused,
        );
    }
    text
}

fn node_line(queue: &Queue) -> String {
    let mut text = format!(
        "{} {:>4} {:>5}",
        name_column(&queue.key),
        queue.min_active,
        queue.max_active
    );
    for (_, active, limit) in &queue.nodes {
        let _ = write!(text, " {:>9}", format!("{active}/{limit}"));
    }
    text.push('\n');
    text
}

fn groups(groups: &[Group]) -> String {
    let mut text = heading("Concurrency group -> held/max_active");
    let _ = writeln!(
        text,
        "{:NAME_COLUMNS$} {:>6} {:>9} {:>7} workqueues",
        "", "serial", "places", "waiting"
    );
    for group in groups {
        let queues: Vec<_> = group
            .queues
            .iter()
            .map(|key| output::printable(key))
            .collect();
        let _ = writeln!(
            text,
            "{} {:>6} {:>9} {:>7} {}",
            name_column(&group.name),
            group.serial,
            format!("{}/{}", group.held, group.max_active),
            group.waiting,
            queues.join(" ")
        );
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::{Masks, Pool, worker_pool};

    #[test]
    fn a_pool_whose_worker_is_being_created_names_who_creates_it() {
        let pool = |manager| Pool {
            id: 7,
            kind: "unbound".to_owned(),
            flags: 6,
            manager,
            users: 2,
            cpus: "0-1".to_owned(),
            pod_cpus: "0-1".to_owned(),
            target: 2,
            ..Pool::default()
        };
        let line = |manager| worker_pool(&pool(manager), 2, &Masks { numbers: 32 });
        let without = "pool[07] flags=0x6 ref= 2 nice=  0 idle/workers=  0/  0 cpus=00000003 pod_cpus=00000003";
        assert_eq!(line(None), without);
        assert_eq!(line(Some(99)), format!("{without} manager=99"));
    }

    #[test]
    fn masks_are_as_wide_as_the_machine_in_full_groups_the_highest_first() {
        let masks = Masks { numbers: 32 };
        assert_eq!(masks.mask("0-3"), "0000000f");
        assert_eq!(
            (masks.mask(""), masks.widen("3")),
            ("00000000".into(), "00000003".into())
        );
        let masks = Masks { numbers: 96 };
        assert_eq!(masks.mask("0,33,95"), "80000000,00000002,00000001");
        assert_eq!(masks.widen("ff,00000000"), "00000000,000000ff,00000000");
    }
}
