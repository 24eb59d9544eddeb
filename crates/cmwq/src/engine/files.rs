//! An engine's parameters as texts: what the kernel's files of the workqueue module show, take and refuse.
#![forbid(unsafe_code)]

use super::Engine;
use crate::affinity::AffinityScope;
use crate::error::Error;
use crate::observe::{Errno, TextError, shown, switch, unsigned};
use crate::workqueue::{parse_mask, possible_numbers};
use std::time::Duration;

impl Engine {
    /// The parameters, as the kernel's files are called (those of the module, and the three global masks), and whether each can be
    /// written.
    pub const PARAMETERS: [(&'static str, bool); 10] = [
        ("cache_shard_size", false),
        ("cpu_intensive_thresh_us", true),
        ("cpu_intensive_warning_thresh", true),
        ("cpumask", true),
        ("cpumask_isolated", false),
        ("cpumask_requested", false),
        ("debug_force_rr_cpu", true),
        ("default_affinity_scope", true),
        ("power_efficient", false),
        ("watchdog_thresh", true),
    ];

    fn must_have_parameter(name: &str) -> Result<bool, TextError> {
        if let Some((_, writable)) = Self::PARAMETERS.iter().find(|(own, _)| *own == name) {
            return Ok(*writable);
        }
        let message = format!(
            "there is no parameter {}: there are {}",
            shown(name),
            Self::PARAMETERS.map(|(name, _)| name).join(", ")
        );
        Err(TextError::new(Errno::NoEnt, message))
    }

    /// A parameter as the kernel's file shows it, without the newline.
    ///
    /// # Errors
    /// [`Errno::NoEnt`]: there is no such parameter.
    pub fn parameter(&self, name: &str) -> Result<String, TextError> {
        Self::must_have_parameter(name)?;
        let yes_no = |on: bool| if on { "Y" } else { "N" }.to_owned();
        let possible = self.topology().possible();
        let numbers = possible_numbers(possible);
        Ok(match name {
            "cache_shard_size" => self.cache_shard_size().to_string(),
            "cpu_intensive_thresh_us" => self.cpu_intensive_threshold().as_micros().to_string(),
            "cpu_intensive_warning_thresh" => self.cpu_intensive_warning_threshold().to_string(),
            "cpumask" => self.unbound_cpumask().to_mask_of(numbers),
            "cpumask_requested" => self.requested_unbound_cpumask().to_mask_of(numbers),
            // CPUs that the process may not use are to it what isolated ones are to the kernel.
            "cpumask_isolated" => {
                let cpus = self.cpus_now();
                possible.difference(cpus.usable()).to_mask_of(numbers)
            }
            "debug_force_rr_cpu" => yes_no(self.debug_force_rr_cpu()),
            "default_affinity_scope" => self.default_affinity_scope().to_string(),
            "power_efficient" => yes_no(self.is_power_efficient()),
            _ => self.watchdog_threshold().as_secs().to_string(),
        })
    }

    /// Changes a parameter, by the kernel's rules for the text.
    ///
    /// # Errors
    /// [`Errno::NoEnt`]: there is no such parameter; [`Errno::Acces`]: it can only be read; [`Errno::Inval`]: not such a value;
    /// [`Errno::Range`] and [`Errno::Overflow`]: too large. Nothing is changed then.
    pub fn set_parameter(&self, name: &str, text: &str) -> Result<(), TextError> {
        if !Self::must_have_parameter(name)? {
            let message = format!("{name} can only be read: it is fixed when the engine is built");
            return Err(TextError::new(Errno::Acces, message));
        }
        let named =
            |error: TextError| TextError::new(error.errno, format!("{name}: {}", error.message));
        let inval = |error: Error| TextError::new(Errno::Inval, format!("{name}: {error}"));
        match name {
            "cpu_intensive_thresh_us" => {
                let us = unsigned(text, u64::MAX / 1000).map_err(named)?;
                self.set_cpu_intensive_threshold(Duration::from_micros(us));
            }
            "cpu_intensive_warning_thresh" => {
                let count = unsigned(text, u32::MAX.into()).map_err(named)?;
                self.set_cpu_intensive_warning_threshold(u32::try_from(count).unwrap_or(u32::MAX));
            }
            "cpumask" => {
                let mask = parse_mask(name, text)?;
                self.set_unbound_cpumask(&mask).map_err(inval)?;
            }
            "debug_force_rr_cpu" => {
                let on = switch(text).map_err(named)?;
                self.set_debug_force_rr_cpu(on).map_err(inval)?;
            }
            "default_affinity_scope" => {
                let scope = AffinityScope::parse_kernel(text)
                    .map_err(|error| TextError::new(Errno::Inval, format!("{name}: {error}")))?;
                self.set_default_affinity_scope(scope).map_err(inval)?;
            }
            _ => {
                // Twice as much must still be a number of nanoseconds.
                let seconds = unsigned(text, u64::MAX / 4_000_000_000).map_err(named)?;
                self.set_watchdog_threshold(Duration::from_secs(seconds));
            }
        }
        Ok(())
    }
}
