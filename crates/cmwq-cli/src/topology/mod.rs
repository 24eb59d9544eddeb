//! `cmwq topology`: a machine and the pods that each affinity scope cuts it into.

mod boxes;
mod drawing;
mod dump;
mod json;

use clap::ValueEnum;
use cmwq::affinity::{AffinityScope, Pods};
use cmwq::topology::{CpuQuota, CpuSet, Topology};
use cmwq::types::CpuLimit;

use crate::machine::{MachineArgs, ShardSizeArgs};
use crate::machine::{cpu_limit, default_scope, scope_names, unbound_cpus};
use crate::output;
use cmwq_command::CliError;

const EXAMPLES: &str = "\
Examples:
  cmwq topology
  cmwq topology --synthetic 'pack:2 l3:4 core:8 pu:2' --scope cache_shard
  cmwq topology --full                     # every CPU of a large machine
  cp -r --parents /sys/devices/system .    # on another machine
  cmwq topology --sysfs-root ./sys --shard-size 4 --format json

Environment:
  CMWQ_TOPOLOGY                the machine: a directory like /sys, or a description
  CMWQ_CACHE_SHARD_SIZE        cores in a cache shard, as for --shard-size
  CMWQ_DEFAULT_AFFINITY_SCOPE  the scope that is marked as the default
  CMWQ_MIX_CORE_KINDS          1: cache shards hold cores of several kinds
  CMWQ_CPU_LIMIT               whether the CPU quota is followed
  CMWQ_UNBOUND_CPUS            the CPUs for unbound items
  COLUMNS                      the width of the text";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    machine: MachineArgs,

    #[command(flatten)]
    shard_size: ShardSizeArgs,

    #[arg(long, value_name = "NAME", allow_hyphen_values = true, help = format!("Show the pods of one scope only: {} (text only)", scope_names(&AffinityScope::ALL)))]
    scope: Option<String>,

    /// Draw every part of a large machine, and write every map out (text only)
    #[arg(long)]
    full: bool,

    /// Text to read, or JSON with every scope
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Text,
    Json,
}

/// A machine cut by every scope.
struct View {
    topology: Topology,
    /// Of this process; of a described machine nothing is known.
    quota: Option<CpuQuota>,
    limit: CpuLimit,
    /// For items of unbound queues.
    unbound: CpuSet,
    default_scope: AffinityScope,
    /// In cores.
    shard_size: usize,
    /// In the order of [`AffinityScope::CONCRETE`].
    scopes: Vec<Pods>,
    /// Nothing is left out of text.
    full: bool,
}

impl View {
    fn pods(&self, scope: AffinityScope) -> &Pods {
        let scope = scope.or_default(self.default_scope);
        let made = self.scopes.iter().find(|pods| pods.scope() == scope);
        made.expect("a view is cut by every scope")
    }
}

pub(crate) fn run(args: &Args) -> Result<(), CliError> {
    let scope = match &args.scope {
        Some(name) => {
            let scope = AffinityScope::parse_kernel(name);
            Some(scope.map_err(|error| {
                CliError::new(format!("--scope: {error}"))
                    .suggest(name, AffinityScope::ALL.map(AffinityScope::name))
            })?)
        }
        None => None,
    };
    let default_scope = default_scope()?;
    let shard_size = args.shard_size.shard_size()?;
    let topology = args.machine.topology()?;
    let scopes = AffinityScope::CONCRETE
        .map(|scope| Pods::build(&topology, scope, shard_size))
        .into();
    let (limit, unbound) = (cpu_limit()?, unbound_cpus(&topology)?);
    let quota = (!topology.is_injected()).then(CpuQuota::detect);
    let view = View {
        topology,
        quota,
        limit,
        unbound,
        default_scope,
        shard_size,
        scopes,
        full: args.full,
    };
    let text = match (args.format, scope) {
        (Format::Json, _) => json::json(&view)?,
        (Format::Text, Some(scope)) => dump::scope(&view, scope, output::columns()),
        (Format::Text, None) => {
            let columns = output::columns();
            let drawing = drawing::draw(&view, columns);
            format!("{drawing}\n{}", dump::all_scopes(&view, columns))
        }
    };
    output::print(&text)
}
