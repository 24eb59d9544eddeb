//! [`AffinityScope`]: the rule that cuts a machine into pods.

use super::shard::shards_of_cpus;
use crate::machine::Topology;
use std::cell::OnceCell;
use std::fmt;
use std::str::FromStr;

/// The one table of scopes. Each has its Rust name, its number (the value in C, and the kernel's index
/// where the kernel has that scope), its name in files, commands and JSON, and its rule: two CPUs are
/// in one pod when the rule gives them the same key. The first entry is the alias and has no rule.
///
/// A new scope also needs its constants in `cmwq.h` and `linux/workqueue.h`, and its oracle in
/// `tests/topology/pods_property.rs`. If its pods can span NUMA nodes,
/// [`Pods::build`](super::Pods::build) must give them no node, as it gives none to `System`.
macro_rules! affinity_scopes {
    (
        $(#[$alias_doc:meta])* $alias:ident = $alias_number:literal, $alias_name:literal;
        $(#[$first_doc:meta])* $first:ident = $first_number:literal, $first_name:literal, $first_rule:expr;
        $($(#[$doc:meta])* $scope:ident = $number:literal, $name:literal, $rule:expr;)*
    ) => {
        /// The rule that cuts a machine into pods. The scopes that the kernel
        /// has come in its order and have its names.
        ///
        /// ```
        /// use cmwq_topology::affinity::AffinityScope;
        ///
        /// let scope: AffinityScope = "cache_shard".parse()?;
        /// assert_eq!(scope, AffinityScope::CacheShard);
        /// assert_eq!(scope.name(), "cache_shard");
        /// # Ok::<(), cmwq_topology::affinity::UnknownScope>(())
        /// ```
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum AffinityScope {
            $(#[$alias_doc])* #[default] $alias,
            $(#[$first_doc])* $first,
            $($(#[$doc])* $scope,)*
        }

        const _: () = assert!(
            AffinityScope::$alias as usize == $alias_number
                && AffinityScope::$first as usize == $first_number
                $(&& AffinityScope::$scope as usize == $number)*,
            "the numbers are the positions"
        );

        impl AffinityScope {
            /// Every scope, in index order.
            pub const ALL: [Self; [$alias_number, $first_number $(, $number)*].len()] =
                [Self::$alias, Self::$first $(, Self::$scope)*];

            /// The scopes that have a rule: all but [`Default`](Self::Default).
            pub const CONCRETE: [Self; Self::ALL.len() - 1] = [Self::$first $(, Self::$scope)*];

            /// The names of [`CONCRETE`](Self::CONCRETE), for messages.
            pub const CONCRETE_NAMES: &str = concat!($first_name $(, ", ", $name)*);

            /// The kernel's name, such as `cache_shard`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    Self::$alias => $alias_name,
                    Self::$first => $first_name,
                    $(Self::$scope => $name,)*
                }
            }

            /// The key of a CPU's pod. The alias has one pod.
            pub(super) fn key(self, machine: &Cut<'_>, cpu: usize) -> Key {
                let rule: fn(&Cut<'_>, usize) -> Key = match self {
                    Self::$alias => |_, _| (None, 0),
                    Self::$first => $first_rule,
                    $(Self::$scope => $rule,)*
                };
                rule(machine, cpu)
            }
        }
    };
}

affinity_scopes! {
    /// An alias of the global default scope at the time when the CPUs are mapped to pods.
    Default = 0, "default";
    /// Every CPU is a pod.
    Cpu = 1, "cpu", |_, cpu| (Some(cpu), 0);
    /// The CPUs of a core (SMT siblings) are a pod.
    Smt = 2, "smt", |machine, cpu| (machine.topology.core_of(cpu), 0);
    /// The CPUs that share a last-level cache are a pod.
    Cache = 3, "cache", |machine, cpu| (machine.topology.llc_of(cpu), 0);
    /// A last-level cache is cut into pods of about eight cores; see [`shard_layout`](super::shard_layout).
    CacheShard = 4, "cache_shard", |machine, cpu| (machine.topology.llc_of(cpu), machine.shard_of(cpu));
    /// The CPUs of a NUMA node are a pod.
    // CPUs without a node are one pod.
    Numa = 5, "numa", |machine, cpu| (machine.topology.node_of(cpu).map(|node| node as usize), 0);
    /// All CPUs are one pod.
    System = 6, "system", |_, _| (None, 0);
}

/// The key that a rule gives a CPU.
pub(super) type Key = (Option<usize>, usize);

/// What the rules read of a machine.
pub(super) struct Cut<'a> {
    topology: &'a Topology,
    shard_size: usize,
    shards: OnceCell<Vec<usize>>,
}

impl<'a> Cut<'a> {
    pub(super) fn new(topology: &'a Topology, shard_size: usize) -> Self {
        Cut {
            topology,
            shard_size,
            shards: OnceCell::new(),
        }
    }

    /// The index of the CPU's shard in its last-level cache.
    fn shard_of(&self, cpu: usize) -> usize {
        self.shards
            .get_or_init(|| shards_of_cpus(self.topology, self.shard_size))[cpu]
    }
}

impl AffinityScope {
    /// The global default until it is changed, as in the kernel.
    pub const INITIAL_DEFAULT: Self = Self::CacheShard;

    /// The kernel's index: the number of the scope in `enum cmwq_affinity_scope` of C.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The scope of an [index](Self::index).
    #[must_use]
    pub fn from_index(index: usize) -> Option<Self> {
        Self::ALL.get(index).copied()
    }

    /// Reads a name as the kernel's files do: exact, case-sensitive, with at most one trailing
    /// newline ignored.
    ///
    /// # Errors
    /// [`UnknownScope`] for anything else.
    pub fn parse_kernel(text: &str) -> Result<Self, UnknownScope> {
        let name = text.strip_suffix('\n').unwrap_or(text);
        Self::ALL
            .into_iter()
            .find(|scope| scope.name() == name)
            .ok_or_else(|| UnknownScope { value: text.into() })
    }

    /// The scope itself, or `default` where it is [`Default`](Self::Default).
    #[must_use]
    pub fn or_default(self, default: Self) -> Self {
        if self == Self::Default { default } else { self }
    }
}

impl fmt::Display for AffinityScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// As [`AffinityScope::parse_kernel`].
impl FromStr for AffinityScope {
    type Err = UnknownScope;

    fn from_str(text: &str) -> Result<Self, UnknownScope> {
        Self::parse_kernel(text)
    }
}

/// Says that a text is not the name of an affinity scope.
///
/// ```
/// use cmwq_topology::affinity::AffinityScope;
///
/// let error = "moon".parse::<AffinityScope>().unwrap_err();
/// assert_eq!(error.value, "moon");
/// println!("{error}");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownScope {
    /// The text, as given.
    pub value: String,
}

impl fmt::Display for UnknownScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown affinity scope {:?}: it must be", self.value)?;
        let last = AffinityScope::ALL.len() - 1;
        for (position, scope) in AffinityScope::ALL.into_iter().enumerate() {
            let before = match position {
                0 => " ",
                _ if position == last => " or ",
                _ => ", ",
            };
            write!(f, "{before}{scope}")?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownScope {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back_with_and_without_a_newline() {
        for scope in AffinityScope::ALL {
            assert_eq!(scope.name().parse(), Ok(scope));
            assert_eq!(format!("{scope}\n").parse(), Ok(scope));
        }
    }

    #[test]
    fn the_index_is_the_position_and_reads_back() {
        for (position, scope) in AffinityScope::ALL.into_iter().enumerate() {
            assert_eq!(scope.index(), position);
            assert_eq!(AffinityScope::from_index(position), Some(scope));
        }
        assert_eq!(AffinityScope::from_index(AffinityScope::ALL.len()), None);
    }

    #[test]
    fn an_unknown_name_is_refused_with_all_that_there_are() {
        let error = AffinityScope::parse_kernel("Cache\n").expect_err("wrong case");
        assert_eq!(error.to_string(), {
            let (first, last) = AffinityScope::CONCRETE_NAMES
                .rsplit_once(", ")
                .expect("several");
            format!("unknown affinity scope \"Cache\\n\": it must be default, {first} or {last}")
        });
    }
}
