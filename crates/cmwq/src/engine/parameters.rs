//! The table of an engine's parameters: name, help, value as text, setter, and the environment
//! variable with its first value. Each parameter is a file of `cmwq mount`; the endpoint and the
//! commands show and take what is in this table.
//!
//! Texts are read by the rules of the kernel's files of the workqueue module; variables more strictly.
#![forbid(unsafe_code)]

use super::builder::EngineBuilder;
use super::core::Engine;
use super::text::{
    Errno, TextError, inval, parse_mask, possible_numbers, seconds, shown, switch, u32_of,
    unsigned, whole,
};
use crate::error::{CPU_LIMITS, Error};
use crate::topology::CpuSet;
use cmwq_topology::affinity::AffinityScope;
use std::time::Duration;

/// One parameter.
struct Parameter {
    name: &'static str,
    help: &'static str,
    get: fn(&Engine) -> String,
    /// Checks a text. `None`: the parameter is fixed when the engine is built.
    check: Option<Check>,
    variable: Option<Variable>,
}

/// A change that was checked. It can fail only because the engine belongs to the parent of a fork.
type Change = Box<dyn FnOnce(&Engine) -> Result<(), Error>>;
type Check = fn(&Engine, &str) -> Result<Change, TextError>;

fn change(change: impl FnOnce(&Engine) + 'static) -> Result<Change, TextError> {
    try_change(|engine| {
        change(engine);
        Ok(())
    })
}

fn try_change(
    change: impl FnOnce(&Engine) -> Result<(), Error> + 'static,
) -> Result<Change, TextError> {
    Ok(Box::new(change))
}

/// An environment variable: the first value of a parameter that the program has not set.
struct Variable {
    name: &'static str,
    allowed: &'static str,
    /// Sets an empty field of the builder. `false`: the text (`None`: not UTF-8) is not allowed.
    read: fn(&mut EngineBuilder, Option<&str>) -> bool,
}

/// Sorted by name.
const TABLE: [Parameter; 17] = [
    Parameter {
        name: "cache_shard_size",
        help: "cores of a cache shard, about",
        get: |engine| engine.cache_shard_size().to_string(),
        check: None,
        variable: Some(Variable {
            name: "CMWQ_CACHE_SHARD_SIZE",
            allowed: "a whole number of cores",
            read: |builder, text| fill(&mut builder.shard_size, text, whole_number),
        }),
    },
    Parameter {
        name: "cpu_intensive_thresh_us",
        help: "microseconds on a CPU an item may compute before others start beside it; 0: never",
        get: |engine| whole(engine.cpu_intensive_threshold(), Duration::as_micros),
        check: Some(|_, text| {
            let threshold = Duration::from_micros(unsigned(text, u64::MAX / 1000)?);
            change(move |engine| engine.set_cpu_intensive_threshold(threshold))
        }),
        variable: Some(Variable {
            name: "CMWQ_CPU_INTENSIVE_THRESH_US",
            allowed: "a whole number of microseconds",
            read: |builder, text| {
                fill(&mut builder.cpu_intensive, text, |text| {
                    Some(Duration::from_micros(whole_number(text)? as u64))
                })
            },
        }),
    },
    Parameter {
        name: "cpu_intensive_warning_thresh",
        help: "how often a function is a CPU hog before it is reported; 0: never",
        get: |engine| engine.cpu_intensive_warning_threshold().to_string(),
        check: Some(|_, text| {
            let count = u32_of(text)?;
            change(move |engine| engine.set_cpu_intensive_warning_threshold(count))
        }),
        variable: Some(Variable {
            name: "CMWQ_CPU_INTENSIVE_WARNING_THRESH",
            allowed: "a whole number from 0 to 4294967295",
            read: |builder, text| fill(&mut builder.cpu_intensive_warnings, text, whole_u32),
        }),
    },
    Parameter {
        name: "cpu_limit",
        help: "how many workers may run at once: auto (the CPU quota), none, or a number",
        get: |engine| engine.cpu_limit().to_string(),
        check: Some(|_, text| {
            let setting = text.strip_suffix('\n').unwrap_or(text).parse();
            let setting = setting.map_err(inval)?;
            try_change(move |engine| engine.set_cpu_limit(setting))
        }),
        variable: Some(Variable {
            name: "CMWQ_CPU_LIMIT",
            allowed: CPU_LIMITS,
            read: |builder, text| fill(&mut builder.cpu_limit, text, |text| text.parse().ok()),
        }),
    },
    Parameter {
        name: "cpu_quota",
        help: "the CPU quota of the process's control group",
        get: |engine| engine.cpu_quota().to_string(),
        check: None,
        variable: None,
    },
    Parameter {
        name: "cpu_quota_pauses",
        help: "how often workers paused so that the process does not use up its CPU quota",
        get: |engine| engine.cpu_quota_pauses().to_string(),
        check: None,
        variable: None,
    },
    Parameter {
        name: "cpumask",
        help: "CPUs on which items of unbound workqueues may run, as a hexadecimal mask such as 3",
        get: |engine| mask(engine, &engine.unbound_cpumask()),
        check: Some(|engine, text| {
            let mask = parse_mask(text)?;
            engine.requestable(&mask).map_err(inval)?;
            try_change(move |engine| engine.set_unbound_cpumask(&mask))
        }),
        variable: Some(Variable {
            name: "CMWQ_UNBOUND_CPUS",
            allowed: "a list of CPUs such as 0-3,8, none above 8191",
            read: |builder, text| {
                fill(&mut builder.unbound_cpus, text, |text| {
                    CpuSet::parse_list(text).ok()
                })
            },
        }),
    },
    // CPUs that the process may not use are shown as the kernel's isolated CPUs.
    Parameter {
        name: "cpumask_isolated",
        help: "CPUs that the process may not use",
        get: |engine| {
            let cpus = engine.cpus_now();
            mask(
                engine,
                &engine.topology().possible().difference(cpus.usable()),
            )
        },
        check: None,
        variable: None,
    },
    Parameter {
        name: "cpumask_requested",
        help: "cpumask as it was written",
        get: |engine| mask(engine, &engine.requested_unbound_cpumask()),
        check: None,
        variable: None,
    },
    Parameter {
        name: "debug_force_rr_cpu",
        help: "items of unbound workqueues that name no CPU go round all CPUs (Y, N)",
        get: |engine| yes_no(engine.debug_force_rr_cpu()),
        check: Some(|_, text| {
            let on = switch(text)?;
            try_change(move |engine| engine.set_debug_force_rr_cpu(on))
        }),
        variable: Some(Variable {
            name: "CMWQ_DEBUG_FORCE_RR_CPU",
            allowed: SWITCH,
            read: |builder, text| fill(&mut builder.force_rr, text, zero_or_one),
        }),
    },
    Parameter {
        name: "default_affinity_scope",
        help: "what the affinity scope default stands for",
        get: |engine| engine.default_affinity_scope().to_string(),
        check: Some(|_, text| {
            let scope = AffinityScope::parse_kernel(text).map_err(|_| {
                // The list of all scopes has `default`, which is not allowed here.
                let allowed = AffinityScope::CONCRETE_NAMES;
                inval(format!(
                    "unknown affinity scope {}; allowed: {allowed}",
                    shown(text)
                ))
            })?;
            try_change(move |engine| engine.set_default_affinity_scope(scope))
        }),
        variable: Some(Variable {
            name: "CMWQ_DEFAULT_AFFINITY_SCOPE",
            allowed: AffinityScope::CONCRETE_NAMES,
            read: |builder, text| {
                fill(&mut builder.default_scope, text, |text| {
                    let scope = text.parse().ok();
                    scope.filter(|&scope| scope != AffinityScope::Default)
                })
            },
        }),
    },
    Parameter {
        name: "mix_core_kinds",
        help: "whether a cache shard may hold cores of several kinds (Y, N)",
        get: |engine| yes_no(engine.mixes_core_kinds()),
        check: None,
        variable: Some(Variable {
            name: "CMWQ_MIX_CORE_KINDS",
            allowed: SWITCH,
            read: |builder, text| fill(&mut builder.mix_core_kinds, text, zero_or_one),
        }),
    },
    Parameter {
        name: "panic_on_stall",
        help: "the number of the stall report that aborts the process; 0: none",
        get: |engine| engine.panic_on_stall().to_string(),
        check: Some(|_, text| {
            let count = u32_of(text)?;
            change(move |engine| engine.set_panic_on_stall(count))
        }),
        variable: Some(Variable {
            name: "CMWQ_PANIC_ON_STALL",
            allowed: "a whole number of reports",
            read: |builder, text| fill(&mut builder.panic_on_stall, text, whole_u32),
        }),
    },
    Parameter {
        name: "panic_on_stall_time",
        help: "seconds of a stall after which its report aborts the process; 0: never",
        get: |engine| whole(engine.panic_on_stall_time(), Duration::as_secs),
        check: Some(|_, text| {
            let time = seconds(text)?;
            change(move |engine| engine.set_panic_on_stall_time(time))
        }),
        variable: Some(Variable {
            name: "CMWQ_PANIC_ON_STALL_TIME",
            allowed: SECONDS,
            read: |builder, text| fill(&mut builder.panic_on_stall_time, text, whole_seconds),
        }),
    },
    Parameter {
        name: "power_efficient",
        help: "power-efficient per-CPU workqueues are unbound (Y, N)",
        get: |engine| yes_no(engine.is_power_efficient()),
        check: None,
        variable: Some(Variable {
            name: "CMWQ_POWER_EFFICIENT",
            allowed: SWITCH,
            read: |builder, text| fill(&mut builder.power_efficient, text, zero_or_one),
        }),
    },
    Parameter {
        name: "running_limit",
        help: "how many workers may run at once now, or none",
        get: |engine| {
            let limit = engine.running_limit();
            limit.map_or_else(|| "none".to_owned(), |limit| limit.to_string())
        },
        check: None,
        variable: None,
    },
    Parameter {
        name: "watchdog_thresh",
        help: "seconds after which a pool that starts nothing is reported as stalled; 0: never",
        get: |engine| whole(engine.watchdog_threshold(), Duration::as_secs),
        check: Some(|_, text| {
            let threshold = seconds(text)?;
            change(move |engine| engine.set_watchdog_threshold(threshold))
        }),
        variable: Some(Variable {
            name: "CMWQ_WATCHDOG_THRESH",
            allowed: SECONDS,
            read: |builder, text| fill(&mut builder.watchdog, text, whole_seconds),
        }),
    },
];

const SWITCH: &str = "0, 1";
const SECONDS: &str = "a whole number of seconds";

/// A value that can be read, and perhaps set, as text: an attribute of a workqueue or a parameter
/// of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Setting {
    /// The name, which is that of the kernel's file.
    pub name: &'static str,
    /// What the value means, in one line.
    pub help: &'static str,
    /// Whether it can be set.
    pub writable: bool,
    /// The environment variable with its first value.
    pub variable: Option<&'static str>,
}

impl Setting {
    pub(crate) fn new(name: &'static str, help: &'static str, writable: bool) -> Self {
        Setting {
            name,
            help,
            writable,
            variable: None,
        }
    }
}

impl Engine {
    /// The parameters, named as the kernel's files (those of the module, and the three global
    /// masks), with their help and their environment variables.
    pub fn parameter_settings() -> Vec<Setting> {
        let settings = TABLE.iter().map(|own| Setting {
            variable: own.variable.as_ref().map(|variable| variable.name),
            ..Setting::new(own.name, own.help, own.check.is_some())
        });
        settings.collect()
    }

    /// Returns a parameter as the kernel's file shows it, without the newline.
    ///
    /// # Errors
    /// [`Errno::NoEnt`]: there is no such parameter.
    pub fn parameter(&self, name: &str) -> Result<String, TextError> {
        Ok((find(name)?.get)(self))
    }

    /// Changes a parameter. The text is parsed by the kernel's rules.
    ///
    /// # Errors
    /// [`Errno::NoEnt`]: there is no such parameter; [`Errno::Acces`]: it is read-only;
    /// [`Errno::Inval`]: not a valid value; [`Errno::Range`] and [`Errno::Overflow`]: too large.
    /// Nothing is changed then.
    pub fn set_parameter(&self, name: &str, text: &str) -> Result<(), TextError> {
        Self::set_parameter_of(std::slice::from_ref(self), name, text)
    }

    /// Changes a parameter of several engines. If one of them refuses the text, none is changed.
    ///
    /// # Errors
    /// As [`set_parameter`](Self::set_parameter); if there are several, the message has the
    /// [number](Self::serial) of the one that refuses.
    pub fn set_parameter_of(engines: &[Engine], name: &str, text: &str) -> Result<(), TextError> {
        let own = find(name)?;
        let Some(check) = own.check else {
            let why = own
                .variable
                .as_ref()
                .map_or("", |_| ": it is fixed when the engine is built");
            let message = format!("{name} can only be read{why}");
            return Err(TextError::new(Errno::Acces, message));
        };
        let of = |engine: &Engine, error: TextError| match engines {
            [_] => error.of(name),
            _ => error.of(&format!("{name} of engine {}", engine.serial())),
        };
        let mut changes = Vec::new();
        for engine in engines {
            changes.push(check(engine, text).map_err(|error| of(engine, error))?);
        }
        for (engine, change) in engines.iter().zip(changes) {
            change(engine).map_err(|error| of(engine, inval(error)))?;
        }
        Ok(())
    }
}

fn find(name: &str) -> Result<&'static Parameter, TextError> {
    const ALL: &[Parameter] = &TABLE;
    ALL.iter().find(|own| own.name == name).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|own| own.name).collect();
        let message = format!(
            "there is no parameter {}: there are {}",
            shown(name),
            names.join(", ")
        );
        TextError::new(Errno::NoEnt, message)
    })
}

/// Sets from the environment what the program has not set. An empty variable counts as unset.
pub(in crate::engine) fn read_variables(builder: &mut EngineBuilder) -> Result<(), Error> {
    for Variable {
        name,
        allowed,
        read,
    } in TABLE.iter().filter_map(|own| own.variable.as_ref())
    {
        let value = std::env::var_os(name).filter(|value| !value.is_empty());
        if let Some(value) = value
            && !read(builder, value.to_str())
        {
            return Err(Error::Variable {
                name,
                value: value.to_string_lossy().into_owned(),
                allowed,
            });
        }
    }
    Ok(())
}

fn fill<T>(
    field: &mut Option<T>,
    text: Option<&str>,
    parse: impl FnOnce(&str) -> Option<T>,
) -> bool {
    if field.is_none() {
        *field = text.and_then(parse);
    }
    field.is_some()
}

/// Parses a number of digits only: without sign or blank.
fn whole_number(text: &str) -> Option<usize> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())?
}

fn whole_u32(text: &str) -> Option<u32> {
    whole_number(text)?.try_into().ok()
}

fn whole_seconds(text: &str) -> Option<Duration> {
    Some(Duration::from_secs(whole_number(text)? as u64))
}

fn zero_or_one(text: &str) -> Option<bool> {
    match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

fn yes_no(on: bool) -> String {
    if on { "Y" } else { "N" }.to_owned()
}

/// Formats a mask with a digit for each possible CPU.
fn mask(engine: &Engine, cpus: &CpuSet) -> String {
    cpus.to_mask_of(possible_numbers(engine.topology().possible()))
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests;
