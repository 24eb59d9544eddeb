//! What subcommands share about machines: which one to look at, and the parameters that cut it.

use std::path::PathBuf;

use cmwq::affinity::{AffinityScope, DEFAULT_SHARD_SIZE, effective_shard_size};
use cmwq::topology::{CpuSet, Topology};
use cmwq::types::CpuLimit;

use crate::output;
use cmwq_command::CliError;

/// The default of `--shard-size`, and of programs that use the library.
const SHARD_SIZE_VARIABLE: &str = "CMWQ_CACHE_SHARD_SIZE";
/// What the scope `default` stands for.
const DEFAULT_SCOPE_VARIABLE: &str = "CMWQ_DEFAULT_AFFINITY_SCOPE";
/// Whether cache shards mix kinds of cores.
const MIX_VARIABLE: &str = "CMWQ_MIX_CORE_KINDS";
/// How many workers may run at once.
const LIMIT_VARIABLE: &str = "CMWQ_CPU_LIMIT";
/// The CPUs for unbound items.
const UNBOUND_VARIABLE: &str = "CMWQ_UNBOUND_CPUS";

/// The options that choose the machine.
#[derive(clap::Args, Debug, Clone, Default)]
pub(crate) struct MachineArgs {
    /// Read the machine from DIR, a copy of another machine's /sys
    #[arg(long, value_name = "DIR", conflicts_with = "synthetic")]
    pub(crate) sysfs_root: Option<PathBuf>,

    /// Describe the machine in hwloc's syntax, for example 'pack:2 l3:4 core:8 pu:2'
    #[arg(long, value_name = "TEXT")]
    pub(crate) synthetic: Option<String>,
}

impl MachineArgs {
    /// The chosen machine: by the options, or else by `CMWQ_TOPOLOGY`, or else this one. With
    /// `CMWQ_MIX_CORE_KINDS=1` without its kinds of cores.
    pub(crate) fn topology(&self) -> Result<Topology, CliError> {
        let (option, topology) = match (&self.sysfs_root, &self.synthetic) {
            (Some(dir), _) => ("--sysfs-root: ", Topology::from_sysfs(dir)),
            (None, Some(text)) => ("--synthetic: ", Topology::from_synthetic(text)),
            (None, None) => ("", Topology::detect()),
        };
        let topology = topology.map_err(|error| CliError::new(format!("{option}{error}")))?;
        match variable(MIX_VARIABLE)?.as_deref() {
            None | Some("0") => Ok(topology),
            Some("1") => Ok(topology.mixing_core_kinds()),
            Some(text) => Err(CliError::new(format!(
                "{MIX_VARIABLE}: {text:?} is not a switch: it must be 0 or 1"
            ))),
        }
    }
}

/// The option that sets the size of cache shards.
#[derive(clap::Args, Debug, Clone, Default)]
pub(crate) struct ShardSizeArgs {
    /// About how many cores make up a cache shard [default: CMWQ_CACHE_SHARD_SIZE, or else 8]
    #[arg(long, value_name = "CORES", allow_hyphen_values = true)]
    pub(crate) shard_size: Option<String>,
}

impl ShardSizeArgs {
    /// The shard size in cores: by the option, or else by `CMWQ_CACHE_SHARD_SIZE`, or else the
    /// kernel's default. As in the kernel, 0 is taken for 1, with a warning.
    pub(crate) fn shard_size(&self) -> Result<usize, CliError> {
        let (source, text) = match &self.shard_size {
            Some(text) => ("--shard-size", text.clone()),
            None => match variable(SHARD_SIZE_VARIABLE)? {
                Some(text) => (SHARD_SIZE_VARIABLE, text),
                None => return Ok(DEFAULT_SHARD_SIZE),
            },
        };
        let size = parse_shard_size(&text).ok_or_else(|| {
            CliError::new(format!(
                "{source}: {text:?} is not a shard size: it must be a whole number of cores from 1 to {}",
                u32::MAX
            ))
        })?;
        let effective = effective_shard_size(size);
        if effective != size {
            output::warn(format!(
                "{source}: a shard of {size} cores is impossible, {effective} is used"
            ));
        }
        Ok(effective)
    }
}

/// A number of cores as the kernel's parameter takes it: 32 bits without a sign.
fn parse_shard_size(text: &str) -> Option<usize> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let size: u32 = digits.then(|| text.parse().ok())??;
    usize::try_from(size).ok()
}

/// The names of scopes, for help and messages.
pub(crate) fn scope_names(scopes: &[AffinityScope]) -> String {
    let names: Vec<_> = scopes.iter().map(|scope| scope.name()).collect();
    names.join(", ")
}

/// What the scope `default` stands for: by `CMWQ_DEFAULT_AFFINITY_SCOPE`, or else the kernel's
/// initial default.
pub(crate) fn default_scope() -> Result<AffinityScope, CliError> {
    let Some(text) = variable(DEFAULT_SCOPE_VARIABLE)? else {
        return Ok(AffinityScope::INITIAL_DEFAULT);
    };
    match AffinityScope::parse_kernel(&text) {
        Ok(scope) if scope != AffinityScope::Default => Ok(scope),
        _ => {
            let names = scope_names(&AffinityScope::CONCRETE);
            Err(CliError::new(format!(
                "{DEFAULT_SCOPE_VARIABLE}: {text:?} cannot be the default affinity scope: it must be one of {names}"
            )))
        }
    }
}

/// How many workers may run at once: by `CMWQ_CPU_LIMIT`, or else as the quota says.
pub(crate) fn cpu_limit() -> Result<CpuLimit, CliError> {
    let limit = variable(LIMIT_VARIABLE)?.map(|text| text.parse());
    let limit = limit.transpose();
    let limit = limit.map_err(|error| CliError::new(format!("{LIMIT_VARIABLE}: {error}")))?;
    Ok(limit.unwrap_or_default())
}

/// The CPUs for unbound items: those of `CMWQ_UNBOUND_CPUS` that are there, or else all that the
/// process may use.
pub(crate) fn unbound_cpus(topology: &Topology) -> Result<CpuSet, CliError> {
    let allowed = topology.allowed().clone();
    let Some(text) = variable(UNBOUND_VARIABLE)? else {
        return Ok(allowed);
    };
    let wanted = CpuSet::parse_list(&text)
        .map_err(|error| CliError::new(format!("{UNBOUND_VARIABLE}: {error}")))?;
    let there = wanted.intersection(&allowed);
    Ok(if there.is_empty() { allowed } else { there })
}

/// The value of an environment variable; an empty one counts as unset.
fn variable(name: &str) -> Result<Option<String>, CliError> {
    match std::env::var_os(name) {
        Some(value) if !value.is_empty() => match value.into_string() {
            Ok(text) => Ok(Some(text)),
            Err(bytes) => Err(CliError::new(format!(
                "{name}: {bytes:?} is not UTF-8 text"
            ))),
        },
        _ => Ok(None),
    }
}
