//! Which load, which scopes, how often.

use std::path::PathBuf;

use cmwq::affinity::AffinityScope;
use cmwq_command::CliError;
use cmwq_loads::{Issuers, Load, Rate, Shape};
use serde::Serialize;

use super::super::args::{self, Args, Format, whole_number};
use super::super::plan::Config;
use crate::machine::default_scope;

/// Runs of each scope: the interval of a ratio then reaches from the 3rd smallest to the 3rd
/// greatest.
const DEFAULT_RUNS: usize = 15;
/// Measured time of a run.
const DEFAULT_TIME_MS: u64 = 300;
/// The loop whose rate `--load` gives, and what it is without.
const OPEN: &str = "open";
const OPEN_PERCENT: u32 = 60;

/// The options that only `--loop` heeds, as they were given.
#[derive(clap::Args, Debug, Clone, Default)]
pub(crate) struct Given {
    /// Measure this load instead, and say in words which scope is best for it: --loop list names
    /// them
    #[arg(long = "loop", value_name = "NAME", conflicts_with_all = ["threads", "items", "html", "control"])]
    pub(super) name: Option<String>,

    /// With --loop: what an item computes, in microseconds [default: the load's own]
    #[arg(long, value_name = "US", requires = "name", allow_hyphen_values = true)]
    item_us: Option<String>,

    /// With --loop: threads that queue items: a number, half (of the CPUs) or all [default: the
    /// load's own]
    #[arg(long, value_name = "N", requires = "name", allow_hyphen_values = true)]
    issuers: Option<String>,

    /// With --loop open: items arrive at so many percent of what the CPUs bear [default: 60]
    #[arg(
        long,
        value_name = "PERCENT",
        requires = "name",
        allow_hyphen_values = true
    )]
    load: Option<String>,

    /// With --loop scatter-8, -64 or -512: how the issuer waits for the items it has spawned: join
    /// (their handles, one after the other), scope (the end of a scope) or future (their handles,
    /// awaited) [default: join]
    #[arg(long, value_name = "HOW", requires = "name")]
    wait: Option<String>,

    /// With --loop: measured time of a run in milliseconds; it goes on, for four times that at
    /// most, until its halves agree [default: 300]
    #[arg(long, value_name = "MS", requires = "name", allow_hyphen_values = true)]
    time_ms: Option<String>,

    /// With --loop: also write every figure of every scope as a line
    #[arg(long, value_name = "FILE", requires = "name")]
    pub(super) csv: Option<PathBuf>,

    /// One run of one scope, as JSON; the value is the calibration of this machine.
    #[arg(long, value_name = "STEPS", requires = "name", hide = true)]
    pub(super) one_run: Option<f64>,
}

/// How an issuer waits for the items of a round that are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Wait {
    Join,
    Scope,
    Future,
}

impl Wait {
    /// What `text` says about a load.
    fn read(text: Option<&str>, load: &Load) -> Result<Option<Wait>, CliError> {
        let joins = matches!(load.shape, Shape::Gather { joins: true, .. });
        match text {
            Some(_) if !joins => Err(CliError::new(format!(
                "--wait: it goes with scatter-8, scatter-64 and scatter-512, and the loop is {}",
                load.name
            ))),
            None => Ok(joins.then_some(Wait::Join)),
            Some("join") => Ok(Some(Wait::Join)),
            Some("scope") => Ok(Some(Wait::Scope)),
            Some("future") => Ok(Some(Wait::Future)),
            Some(text) => Err(CliError::new(format!(
                "--wait: {text:?} is not possible: it must be join, scope or future"
            ))),
        }
    }

    /// After what the load stands for.
    pub(super) fn words(self) -> &'static str {
        match self {
            Wait::Join => "",
            Wait::Scope => " by the end of a scope",
            Wait::Future => " as futures that are awaited",
        }
    }
}

impl Given {
    /// Whether a load was named.
    pub(in super::super) fn is_given(&self) -> bool {
        self.name.is_some()
    }
}

/// The options after reading.
#[derive(Debug, Clone)]
pub(super) struct Options {
    pub(super) given: Given,
    pub(super) load: Load,
    /// Only if the load joins what it spawns.
    pub(super) wait: Option<Wait>,
    pub(super) scopes: Vec<AffinityScope>,
    pub(super) shard_sizes: Vec<usize>,
    pub(super) strict: bool,
    pub(super) runs: usize,
    pub(super) time_ms: u64,
    pub(super) format: Format,
}

impl Options {
    pub(super) fn read(args: &Args) -> Result<Options, CliError> {
        let given = args.load.clone();
        let load = load(&given)?;
        let wait = Wait::read(given.wait.as_deref(), &load)?;
        let read = args.options()?;
        let time_ms = match &given.time_ms {
            Some(text) => whole_number("--time-ms", text, 10, 600_000)?,
            None => DEFAULT_TIME_MS,
        };
        Ok(Options {
            load,
            wait,
            scopes: read.scopes,
            shard_sizes: read.shard_sizes,
            strict: read.strict,
            runs: if args.runs.is_some() {
                read.runs
            } else {
                DEFAULT_RUNS
            },
            time_ms,
            format: read.format,
            given,
        })
    }

    /// What is measured: the default first, then what was asked for.
    pub(super) fn configs(&self) -> Vec<Config> {
        let default = Config {
            scope: default_scope().unwrap_or(AffinityScope::INITIAL_DEFAULT),
            shard_size: None,
            in_sweep: false,
        };
        let mut configs = vec![default];
        for &scope in &self.scopes {
            let sizes: Vec<Option<usize>> = match scope {
                AffinityScope::CacheShard if !self.shard_sizes.is_empty() => {
                    self.shard_sizes.iter().copied().map(Some).collect()
                }
                _ => vec![None],
            };
            for shard_size in sizes {
                let config = Config {
                    scope,
                    shard_size,
                    in_sweep: shard_size.is_some(),
                };
                if !configs.contains(&config) {
                    configs.push(config);
                }
            }
        }
        configs
    }

    /// The options of a process that measures one configuration once.
    pub(super) fn of_child(&self, config: &Config, steps_per_us: f64) -> Vec<String> {
        let mut options = vec![
            format!("--one-run={steps_per_us}"),
            format!("--time-ms={}", self.time_ms),
            format!("--scopes={}", config.scope.name()),
        ];
        let mut add = |name: &str, value: &Option<String>| {
            options.extend(value.iter().map(|value| format!("--{name}={value}")));
        };
        add("loop", &self.given.name);
        add("item-us", &self.given.item_us);
        add("issuers", &self.given.issuers);
        add("load", &self.given.load);
        add("wait", &self.given.wait);
        add(
            "shard-size",
            &config.shard_size.map(|size| size.to_string()),
        );
        options.extend(self.strict.then(|| "--strict".to_owned()));
        options
    }
}

/// The load that was asked for.
fn load(given: &Given) -> Result<Load, CliError> {
    let name = given.name.as_deref().unwrap_or_default();
    let named = Load::named(if name == OPEN { "open-60" } else { name });
    let mut load = named.ok_or_else(|| {
        let names: Vec<&str> = Load::all().iter().map(|load| load.name).collect();
        CliError::new(format!(
            "--loop: {name:?} is no load: it must be open or one of {}",
            names.join(", ")
        ))
        .suggest(name, names)
    })?;
    if name == OPEN {
        load.name = OPEN;
        load.about = "items arrive at so many percent of what the CPUs bear";
    }
    if let Some(text) = &given.item_us {
        let us: Option<f64> = text.parse().ok();
        let us = us.filter(|us| (0.0..=1e6).contains(us)).ok_or_else(|| {
            CliError::new(format!(
                "--item-us: {text:?} is not possible: it must be a number from 0 to 1000000"
            ))
        })?;
        load.item_ns = (us * 1e3).round() as u64;
    }
    if let Some(text) = &given.issuers {
        load.issuers = Issuers::parse(text).ok_or_else(|| {
            CliError::new(format!(
                "--issuers: {text:?} is not possible: it must be a whole number from 1 to {}, half or all",
                args::MAX_THREADS
            ))
        })?;
    }
    match (&given.load, &mut load.shape) {
        (Some(text), Shape::Arrive { rate }) if name == OPEN => {
            *rate = Rate::Percent(whole_number("--load", text, 1, 1000)? as u32);
        }
        (Some(_), _) => {
            return Err(CliError::new(format!(
                "--load: it goes with --loop open, and the loop is {name}"
            )));
        }
        (None, Shape::Arrive { rate }) if name == OPEN => *rate = Rate::Percent(OPEN_PERCENT),
        (None, _) => {}
    }
    Ok(load)
}

/// The names and what they stand for, for `--loop list`.
pub(super) fn list() -> String {
    let mut text = format!(
        "{:<15} items arrive at --load percent of what the CPUs bear\n",
        OPEN
    );
    for load in Load::all() {
        text += &format!("{:<15} {}\n", load.name, load.about);
    }
    text
}
