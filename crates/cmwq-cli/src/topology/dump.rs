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
        ("  pod_cpus ", map(cpus, view.full)),
        ("  pod_node ", nodes.collect()),
        ("  cpu_pod  ", map(of_cpus, view.full)),
    ];
    let fields = fields.map(|(label, items)| field(label, &items, columns));
    format!("{name}{mark}\n{}", fields.concat())
}

/// A stretch of at least so many regular items is written as its first two and its last one.
const STRETCH: usize = 16;

/// By how much each number of `a` must grow to make `b`, if there is such a number.
fn step(a: &CpuSet, b: &CpuSet) -> Option<usize> {
    let step = b.first()?.checked_sub(a.first()?)?;
    a.iter()
        .map(|number| number + step)
        .eq(b.iter())
        .then_some(step)
}

/// How many items from the first on are regular: on both sides, each is as far from the one before
/// it as the second from the first.
fn regular(items: &[(CpuSet, CpuSet)]) -> usize {
    let steps = |pair: &[(CpuSet, CpuSet)]| {
        Some((step(&pair[0].0, &pair[1].0)?, step(&pair[0].1, &pair[1].1)?))
    };
    let mut pairs = items.windows(2).map(steps);
    let Some(first) = pairs.next().flatten() else {
        return items.len().min(1);
    };
    2 + pairs.take_while(|steps| *steps == Some(first)).count()
}

/// A map of numbers to numbers, item by item; in full, or without the middle of such stretches.
fn map(items: impl Iterator<Item = (CpuSet, CpuSet)>, full: bool) -> Vec<String> {
    let items: Vec<(CpuSet, CpuSet)> = items.collect();
    let text = |(from, to): &(CpuSet, CpuSet)| format!("[{from}]={to}");
    let mut left = &items[..];
    let mut out = Vec::new();
    while !left.is_empty() {
        let (stretch, behind) = left.split_at(regular(left));
        if full || stretch.len() < STRETCH {
            // Its last item may begin another stretch.
            let taken = (stretch.len() - 1).max(1);
            out.extend(stretch[..taken].iter().map(text));
            left = &left[taken..];
        } else {
            out.extend(stretch[..2].iter().map(text));
            out.push("…".to_owned());
            out.extend(stretch.last().map(text));
            left = behind;
        }
    }
    out
}

/// Neighbouring numbers with the same value, together. (A set of pod numbers prints as one of CPUs
/// does: `0-3`.)
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
