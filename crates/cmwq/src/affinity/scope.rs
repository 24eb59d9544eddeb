//! [`AffinityScope`]: the rule that cuts a machine into pods.
#![forbid(unsafe_code)]

use std::fmt;
use std::str::FromStr;

/// The rule that cuts a machine into pods. In the kernel's index order, with the kernel's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AffinityScope {
    /// An alias: whatever the global default scope is when the CPUs are mapped to pods.
    #[default]
    Default,
    /// Every CPU is a pod.
    Cpu,
    /// The CPUs of a core (SMT siblings) are a pod.
    Smt,
    /// The CPUs that share a last-level cache are a pod.
    Cache,
    /// A last-level cache is cut into pods of about eight cores; see [`shard_layout`](super::shard_layout).
    CacheShard,
    /// The CPUs of a NUMA node are a pod.
    Numa,
    /// All CPUs are one pod.
    System,
}

impl AffinityScope {
    /// Every scope, in index order.
    pub const ALL: [Self; 7] = [
        Self::Default,
        Self::Cpu,
        Self::Smt,
        Self::Cache,
        Self::CacheShard,
        Self::Numa,
        Self::System,
    ];

    /// The scopes that are rules of their own: all but [`Default`](Self::Default).
    pub const CONCRETE: [Self; 6] = [
        Self::Cpu,
        Self::Smt,
        Self::Cache,
        Self::CacheShard,
        Self::Numa,
        Self::System,
    ];

    /// What the global default is until it is changed, as in the kernel.
    pub const INITIAL_DEFAULT: Self = Self::CacheShard;

    /// The kernel's name, such as `cache_shard`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Cpu => "cpu",
            Self::Smt => "smt",
            Self::Cache => "cache",
            Self::CacheShard => "cache_shard",
            Self::Numa => "numa",
            Self::System => "system",
        }
    }

    /// Reads a name as the kernel's files do: exactly, in this case, with at most one trailing newline ignored.
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

/// A text that is not the name of an affinity scope.
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

#[cfg(all(test, not(cmwq_loom)))]
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
    fn names_are_exact() {
        for text in [
            "",
            "\n",
            "Cache",
            "cache ",
            " cache",
            "cache_",
            "cache\n\n",
            "cache\r\n",
            "CACHE_SHARD",
            "cache_shar",
            "cache-shard",
            "dfl",
            "cpu0",
        ] {
            assert_eq!(
                AffinityScope::parse_kernel(text),
                Err(UnknownScope { value: text.into() })
            );
        }
        let error = AffinityScope::parse_kernel("Cache\n").expect_err("wrong case");
        assert_eq!(
            error.to_string(),
            "unknown affinity scope \"Cache\\n\": it must be default, cpu, smt, cache, cache_shard, numa or system"
        );
    }

    #[test]
    fn the_alias_alone_is_replaced() {
        assert_eq!(
            AffinityScope::Default.or_default(AffinityScope::Numa),
            AffinityScope::Numa
        );
        assert_eq!(
            AffinityScope::Cpu.or_default(AffinityScope::Numa),
            AffinityScope::Cpu
        );
    }
}
