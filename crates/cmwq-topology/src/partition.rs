//! Disjoint groups of CPUs: from a sharing list for every CPU, and from numbered groups that may overlap.

use crate::cpuset::CpuSet;

/// Cuts `cpus` into groups. `shares(cpu)` is the system's list for `cpu`; the lists ought to agree.
///
/// Where they do not, two CPUs of one group still name each other: in ascending order, each CPU
/// without a group founds one, and of the CPUs of its list without a group, in ascending order,
/// each one joins that all members list and that lists all members. So the result depends on the
/// lists alone, and a CPU that no other CPU agrees with is a group.
pub(crate) fn partition<'a>(cpus: &CpuSet, shares: impl Fn(usize) -> &'a CpuSet) -> Vec<CpuSet> {
    let mut ungrouped = cpus.clone();
    let mut groups = Vec::new();
    for cpu in cpus {
        if !ungrouped.remove(cpu) {
            continue;
        }
        let mut group = CpuSet::from_iter([cpu]);
        let mut listed = shares(cpu).intersection(&ungrouped);
        while let Some(peer) = listed.first() {
            listed.remove(peer);
            if group.is_subset(shares(peer)) {
                group.insert(peer);
                listed = listed.intersection(shares(peer));
            }
        }
        ungrouped = ungrouped.difference(&group);
        groups.push(group);
    }
    groups
}

/// The numbered groups cut to `online`, ascending, each CPU in its lowest-numbered group; no empty groups.
pub(crate) fn disjoint(mut groups: Vec<(u32, CpuSet)>, online: &CpuSet) -> Vec<(u32, CpuSet)> {
    groups.sort();
    let mut left = online.clone();
    let mut out = Vec::with_capacity(groups.len());
    for (number, set) in groups {
        let set = set.intersection(&left);
        left = left.difference(&set);
        if !set.is_empty() {
            out.push((number, set));
        }
    }
    out
}

#[cfg(test)]
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
    fn all_cpus_of_a_group_list_each_other() {
        assert_eq!(groups(&["0-2", "0-1", "0,2"]), ["0-1", "2"]);
        assert_eq!(groups(&["0-3", "0-1", "0,2-3", "0,2-3"]), ["0-1", "2-3"]);
        // Not listed by one that joined before.
        assert_eq!(groups(&["0-2", "0-1", "0-2"]), ["0-1", "2"]);
        assert_eq!(groups(&["0-2", "1", "0-2"]), ["0,2", "1"]);
    }

    #[test]
    fn cpus_outside_the_set_are_ignored() {
        assert_eq!(groups(&["0-1,7", "0-1"]), ["0-1"]);
    }
}
