//! A queue's attributes as texts: what the kernel's files of a workqueue show, take and refuse.
#![forbid(unsafe_code)]

use super::attrs::WQ_MAX_ACTIVE;
use super::kind::WorkqueueKind;
use super::live::LiveQueue;
use crate::affinity::AffinityScope;
use crate::error::Error;
use crate::observe::{Errno, TextError, leading_integer, shown};
use crate::topology::{CpuSet, CpuSetError};

impl LiveQueue {
    /// The names of its attributes, as the kernel's files are called, and whether each can be written.
    pub fn attributes(&self) -> Vec<(&'static str, bool)> {
        let limited = matches!(self.kind(), WorkqueueKind::Unbound | WorkqueueKind::PerCpu);
        let mut names = vec![("max_active", limited), ("per_cpu", false)];
        if self.kind().is_unbound() {
            names.extend([
                ("affinity_scope", true),
                ("affinity_strict", true),
                ("cpumask", true),
                ("nice", true),
            ]);
        }
        names.sort_unstable();
        names
    }

    fn must_have(&self, attribute: &str) -> Result<bool, TextError> {
        let all = self.attributes();
        if let Some((_, writable)) = all.iter().find(|(name, _)| *name == attribute) {
            return Ok(*writable);
        }
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        let message = format!(
            "workqueue {} ({}) has no attribute {}: it has {}",
            self.name(),
            self.kind(),
            shown(attribute),
            names.join(", ")
        );
        Err(TextError::new(Errno::NoEnt, message))
    }

    /// An attribute as the kernel's file shows it, without the newline.
    ///
    /// # Errors
    /// [`Errno::NoEnt`]: a queue of this kind has no such attribute.
    pub fn attribute(&self, name: &str) -> Result<String, TextError> {
        self.must_have(name)?;
        let attrs = self.attrs();
        Ok(match name {
            "max_active" => self.max_active().to_string(),
            "per_cpu" => u8::from(!self.kind().is_unbound()).to_string(),
            "nice" => attrs.nice.to_string(),
            "affinity_strict" => u8::from(attrs.affinity_strict).to_string(),
            "affinity_scope" => match attrs.affinity_scope {
                AffinityScope::Default => {
                    format!("default ({})", self.engine().default_affinity_scope())
                }
                named => named.to_string(),
            },
            _ => {
                let topology = self.engine().topology();
                let all = topology.possible();
                let mask = attrs.cpumask.unwrap_or_else(|| all.clone());
                mask.intersection(all).to_mask_of(possible_numbers(all))
            }
        })
    }

    /// Changes one attribute, by the kernel's rules for the text: integers are read as far as they go, scopes are exact names with a
    /// newline behind at most, masks are hexadecimal.
    ///
    /// # Errors
    /// [`Errno::NoEnt`]: a queue of this kind has no such attribute; [`Errno::Acces`]: it can only be read; [`Errno::Inval`]: not
    /// such a value; [`Errno::Overflow`]: a mask with CPUs beyond all that there can be. Nothing is changed then.
    pub fn set_attribute(&self, name: &str, text: &str) -> Result<(), TextError> {
        if !self.must_have(name)? {
            let message = match (name, self.kind()) {
                ("max_active", WorkqueueKind::Ordered) => Error::OrderedMaxActive.to_string(),
                ("max_active", _) => "a BH workqueue has no limit to change".to_owned(),
                _ => format!("{name} can only be read"),
            };
            return Err(TextError::new(Errno::Acces, message));
        }
        let inval = |allowed: &str| {
            let message = format!("{name}: {} is not possible: {allowed}", shown(text));
            TextError::new(Errno::Inval, message)
        };
        let integer = |allowed: &str| leading_integer(text).ok_or_else(|| inval(allowed));
        let result = match name {
            "max_active" => {
                const ALLOWED: &str = "it must be a whole number from 1 to 2048";
                let value = integer(ALLOWED)?;
                // More than there is room for is clamped, with a warning.
                let value = usize::try_from(value).unwrap_or(0).min(WQ_MAX_ACTIVE + 1);
                if value == 0 {
                    return Err(inval(ALLOWED));
                }
                self.set_max_active(value)
            }
            "nice" => {
                const ALLOWED: &str = "it must be a whole number from -20 to 19";
                let value = integer(ALLOWED)?;
                let nice = i32::try_from(value).ok().filter(|n| (-20..=19).contains(n));
                let nice = nice.ok_or_else(|| inval(ALLOWED))?;
                self.change_attrs(|attrs| attrs.nice = nice)
            }
            "affinity_strict" => {
                let strict = integer("it must be 0 or 1")? != 0;
                self.change_attrs(|attrs| attrs.affinity_strict = strict)
            }
            "affinity_scope" => {
                let scope = AffinityScope::parse_kernel(text)
                    .map_err(|error| TextError::new(Errno::Inval, format!("{name}: {error}")))?;
                self.change_attrs(|attrs| attrs.affinity_scope = scope)
            }
            _ => {
                let mask = parse_mask(name, text)?;
                let mask = mask.intersection(self.engine().topology().possible());
                self.change_attrs(|attrs| attrs.cpumask = Some(mask))
            }
        };
        // What the texts do not rule out: the queue is a fork's parent's.
        result.map_err(|error| TextError::new(Errno::Inval, error.to_string()))
    }
}

/// So many CPU numbers a mask has digits for.
pub(crate) fn possible_numbers(possible: &CpuSet) -> usize {
    possible.last().map_or(1, |last| last + 1)
}

/// A mask as the kernel's `cpumask` files take it.
pub(crate) fn parse_mask(name: &str, text: &str) -> Result<CpuSet, TextError> {
    CpuSet::parse_mask(text).map_err(|error| {
        let errno = match error {
            CpuSetError::TooLarge { .. } => Errno::Overflow,
            _ => Errno::Inval,
        };
        TextError::new(errno, format!("{name}: {error}"))
    })
}
