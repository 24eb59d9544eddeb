//! From a sharing list for every CPU to disjoint groups that cover all CPUs.
#![forbid(unsafe_code)]

use super::cpuset::CpuSet;

/// Cuts `cpus` into groups. `shares(cpu)` is the system's list for `cpu`; the lists ought to agree.
///
/// Where they do not, the result depends on the lists alone: in ascending order, each CPU without a group founds one, with those CPUs of
/// its list that have no group yet and whose own lists name it. So a CPU that another CPU lists, but that does not list that CPU, stays
/// apart; and a CPU is always in its own group.
pub(in crate::topology) fn partition<'a>(
    cpus: &CpuSet,
    shares: impl Fn(usize) -> &'a CpuSet,
) -> Vec<CpuSet> {
    let mut ungrouped = cpus.clone();
    let mut groups = Vec::new();
    for cpu in cpus {
        if !ungrouped.remove(cpu) {
            continue;
        }
        let mut group = CpuSet::from_iter([cpu]);
        for peer in &shares(cpu).intersection(&ungrouped) {
            if shares(peer).contains(cpu) {
                group.insert(peer);
            }
        }
        ungrouped = ungrouped.difference(&group);
        groups.push(group);
    }
    groups
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    /// The groups of CPUs `0..lists.len()`, in list form.
    fn groups(lists: &[&str]) -> Vec<String> {
        let lists: Vec<CpuSet> = lists
            .iter()
            .map(|list| list.parse().expect("a list"))
            .collect();
        let cpus = (0..lists.len()).collect();
        partition(&cpus, |cpu| &lists[cpu])
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn overlapping_lists_go_to_the_lowest_founder() {
        assert_eq!(groups(&["0-1", "0-2", "1-2"]), ["0-1", "2"]);
    }

    #[test]
    fn cpus_outside_the_set_are_ignored() {
        assert_eq!(groups(&["0-1,7", "0-1"]), ["0-1"]);
    }
}
