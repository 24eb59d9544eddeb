//! The pods as text, with the column names of the kernel's `wq_dump` tool.

use cmwq::affinity::AffinityScope;
use cmwq::topology::CpuSet;

use super::View;
use super::boxes::wrap;

/// Every scope, the default one marked.
pub(super) fn all_scopes(view: &View, columns: usize) -> String {
    let unbound = &view.unbound;
    let mut out = String::from("Affinity Scopes\n===============\n");
    let mask = unbound.to_mask_of(view.topology.max_cpu() + 1);
    let mut line = format!("wq_unbound_cpumask={mask} ({unbound})");
    // A mask of many groups says nothing to the eye that the list does not.
    if line.len() > columns {
        line = format!("wq_unbound_cpumask={unbound}");
    }
    out.push_str(&line);
    out.push('\n');
    for scope in AffinityScope::CONCRETE {
        out.push('\n');
        out.push_str(&self::scope(view, scope, columns));
    }
    out
}

/// One scope: how many pods, and for each its CPUs and node; and the pod of each CPU.
pub(super) fn scope(view: &View, scope: AffinityScope, columns: usize) -> String {
    let pods = view.pods(scope);
    let name = pods.scope().name().to_uppercase();
    let mark = if pods.scope() == view.default_scope {
        " (default)"
    } else {
        ""
    };
    let cpus = pods.pods().iter().enumerate();
    let cpus = cpus.map(|(pod, made)| (pod, made.cpus.clone()));
    let nodes = pods.pods().iter().enumerate();
    let nodes = runs(nodes.map(|(pod, made)| (pod, made.node)));
    let nodes = nodes.iter().map(|(pods, node)| match node {
        Some(node) => format!("[{pods}]={node}"),
        None => format!("[{pods}]=none"),
    });
    let of_cpus = view.topology.cpus().iter();
    let of_cpus = runs(of_cpus.filter_map(|cpu| Some((cpu, pods.pod_of(cpu)?))));
    let of_cpus = of_cpus
        .into_iter()
        .map(|(cpus, pod)| (cpus, CpuSet::from_iter([pod])));
    let cpus = cpus.map(|(pod, cpus)| (CpuSet::from_iter([pod]), cpus));
    let fields = [
        ("  nr_pods  ", vec![pods.pods().len().to_string()]),
        ("  pod_cpus ", map(cpus, "CPU", view.full)),
        ("  pod_node ", nodes.collect()),
        ("  cpu_pod  ", map(of_cpus, "pod", view.full)),
    ];
    let fields = fields.map(|(label, items)| field(label, &items, columns));
    format!("{name}{mark}\n{}", fields.concat())
}

/// A stretch of so many neighbours that are each mapped to one number, all by the same distance, is written as one.
const STRETCH: usize = 16;

/// A map of numbers to numbers, item by item; in full, or with such stretches.
fn map(items: impl Iterator<Item = (CpuSet, CpuSet)>, what: &str, full: bool) -> Vec<String> {
    let items: Vec<(CpuSet, CpuSet)> = items.collect();
    let one = |set: &CpuSet| (set.len() == 1).then(|| set.first()).flatten();
    let step = |item: &(CpuSet, CpuSet)| Some((one(&item.0)?, one(&item.1)?));
    let follows = |a: &(CpuSet, CpuSet), b: &(CpuSet, CpuSet)| match (step(a), step(b)) {
        (Some((from, to)), Some(next)) => next == (from + 1, to + 1),
        _ => false,
    };
    let mut out = Vec::new();
    for stretch in items.chunk_by(follows) {
        if full || stretch.len() < STRETCH {
            out.extend(stretch.iter().map(|(from, to)| format!("[{from}]={to}")));
        } else {
            let all = |side: fn(&(CpuSet, CpuSet)) -> &CpuSet| {
                let sets = stretch.iter().map(side);
                sets.fold(CpuSet::new(), |all, set| all.union(set))
            };
            let (from, to) = (all(|item| &item.0), all(|item| &item.1));
            out.push(format!("[{from}]={to}, one {what} each"));
        }
    }
    out
}

/// Neighbouring numbers with the same value, together. (A set of pod numbers prints as one of CPUs does: `0-3`.)
fn runs<V: PartialEq>(values: impl Iterator<Item = (usize, V)>) -> Vec<(CpuSet, V)> {
    let mut runs: Vec<(CpuSet, V)> = Vec::new();
    for (number, value) in values {
        match runs.last_mut() {
            Some((run, same)) if *same == value && run.last() == number.checked_sub(1) => {
                run.insert(number);
            }
            _ => runs.push((CpuSet::from_iter([number]), value)),
        }
    }
    runs
}

/// `label` and the items behind it, wrapped to `columns` with the following lines indented to the first item.
fn field(label: &str, items: &[String], columns: usize) -> String {
    let indent = label.chars().count();
    let lines = wrap(items, columns.saturating_sub(indent));
    lines
        .iter()
        .enumerate()
        .map(|(at, line)| match at {
            0 => format!("{label}{line}\n"),
            _ => format!("{:indent$}{line}\n", ""),
        })
        .collect()
}
