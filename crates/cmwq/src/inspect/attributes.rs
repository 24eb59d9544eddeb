//! The table of a queue's attributes: name, help, which queues have it, value as text, and how to
//! set it. The endpoint, the commands, `cmwq mount` and the C functions for attributes all use this
//! one table.
//!
//! The texts are parsed by the rules of the kernel's workqueue files.
#![forbid(unsafe_code)]

use super::live::LiveQueue;
use crate::engine::{
    Errno, SetText, Setting, TextError, inval, leading_integer, parse_mask, possible_numbers, shown,
};
use crate::error::Error;
use crate::workqueue::{ConcurrencyGroup, WorkqueueKind};
use cmwq_topology::affinity::AffinityScope;

/// An entry of the table.
struct Attribute {
    name: &'static str,
    help: &'static str,
    access: fn(&LiveQueue) -> Access,
    get: fn(&LiveQueue) -> String,
    /// The setter. `None`: the attribute cannot be changed on any queue.
    set: Option<SetText<LiveQueue>>,
}

/// What a queue allows for an attribute.
#[derive(PartialEq)]
enum Access {
    /// The queue does not have the attribute. Which ones have it, unless that goes by their kind.
    Absent(&'static str),
    /// The attribute can only be read on this queue, for the reason given.
    Fixed(String),
    /// The attribute can be changed on this queue if it has a setter.
    Free,
}

/// Sorted by name.
const TABLE: [Attribute; 9] = [
    Attribute {
        name: "affinity_scope",
        help: "how the machine is cut into pods",
        access: unbound,
        get: |queue| match queue.attrs().affinity_scope {
            AffinityScope::Default => {
                format!("default ({})", queue.core.engine.default_affinity_scope())
            }
            named => named.to_string(),
        },
        set: Some(|queue, text| {
            let scope = AffinityScope::parse_kernel(text).map_err(inval)?;
            changed(queue.change_attrs(|attrs| attrs.affinity_scope = scope))
        }),
    },
    Attribute {
        name: "affinity_strict",
        help: "whether items stay in their pod (0, 1)",
        access: unbound,
        get: |queue| u8::from(queue.attrs().affinity_strict).to_string(),
        set: Some(|queue, text| {
            let strict = integer(text, "it must be 0 or 1", |_| true)? != 0;
            changed(queue.change_attrs(|attrs| attrs.affinity_strict = strict))
        }),
    },
    Attribute {
        name: "cpumask",
        help: "CPUs on which items may run, as a hexadecimal mask such as 3; 0: all that cpumask of the engine allows",
        access: unbound,
        get: |queue| {
            let all = queue.core.engine.topology().possible();
            let mask = queue.attrs().cpumask.unwrap_or_else(|| all.clone());
            mask.intersection(all).to_mask_of(possible_numbers(all))
        },
        set: Some(|queue, text| {
            let mask = parse_mask(text)?;
            let mask = mask.intersection(queue.core.engine.topology().possible());
            changed(queue.change_attrs(|attrs| attrs.cpumask = Some(mask)))
        }),
    },
    Attribute {
        name: "group",
        help: "the name of its concurrency group, if it has one",
        access: grouped,
        // Control characters are left out, so that the value is one line.
        get: |queue| {
            let group = queue.core.limits.group();
            let name = group.map_or("", ConcurrencyGroup::name);
            name.chars().filter(|c| !c.is_control()).collect()
        },
        set: None,
    },
    Attribute {
        name: "group_max_active",
        help: "the limit that all workqueues of its group share",
        access: grouped,
        get: |queue| {
            let group = queue.core.limits.group();
            group.map_or(0, ConcurrencyGroup::max_active).to_string()
        },
        set: Some(|queue, text| {
            let value = integer(text, "it must be a whole number from 1 on", |value| {
                value > 0
            })?;
            let value = usize::try_from(value).unwrap_or(usize::MAX);
            let group = queue.core.limits.group();
            changed(group.map_or(Ok(()), |group| group.set_max_active(value)))
        }),
    },
    Attribute {
        name: "max_active",
        help: "how many items may be active at once (of an unbound workqueue: shared out to the nodes by their CPUs)",
        access: |queue| match queue.kind() {
            WorkqueueKind::Unbound | WorkqueueKind::PerCpu => Access::Free,
            WorkqueueKind::Ordered => Access::Fixed(Error::OrderedMaxActive.to_string()),
            WorkqueueKind::Bh => Access::Fixed("a BH workqueue has no limit to change".to_owned()),
        },
        get: |queue| queue.max_active().to_string(),
        set: Some(|queue, text| {
            let value = integer(text, "it must be a whole number from 1 to 2048", |value| {
                value > 0
            })?;
            // A value above the maximum is cut to it, with a warning.
            let value = usize::try_from(value).unwrap_or(usize::MAX);
            changed(queue.set_max_active(value))
        }),
    },
    Attribute {
        name: "max_waiting",
        help: "how many items may be queued and not started",
        access: |queue| match queue.max_waiting() {
            Some(_) => Access::Free,
            None => Access::Absent("only a workqueue that was built with a max_waiting has it"),
        },
        get: |queue| queue.max_waiting().unwrap_or(0).to_string(),
        set: Some(|queue, text| {
            let value = integer(text, "it must be a whole number from 1 on", |value| {
                value > 0
            })?;
            let value = usize::try_from(value).unwrap_or(usize::MAX);
            changed(queue.set_max_waiting(value))
        }),
    },
    Attribute {
        name: "nice",
        help: "the workers' nice level, -20 to 19",
        access: unbound,
        get: |queue| queue.attrs().nice.to_string(),
        set: Some(|queue, text| {
            let in_range = |value| (-20..=19).contains(&value);
            let nice = integer(text, "it must be a whole number from -20 to 19", in_range)?;
            changed(queue.change_attrs(|attrs| attrs.nice = nice as i32))
        }),
    },
    Attribute {
        name: "per_cpu",
        help: "whether items run on the CPU that they were queued from (0, 1)",
        access: |_| Access::Free,
        get: |queue| u8::from(!queue.kind().is_unbound()).to_string(),
        set: None,
    },
];

/// Allows the attribute on unbound and ordered queues.
fn unbound(queue: &LiveQueue) -> Access {
    match queue.kind().is_unbound() {
        true => Access::Free,
        false => Access::Absent(""),
    }
}

/// Allows the attribute on queues that belong to a group.
fn grouped(queue: &LiveQueue) -> Access {
    match queue.core.limits.group() {
        Some(_) => Access::Free,
        None => Access::Absent("only a workqueue that was built in a group has it"),
    }
}

fn integer(text: &str, allowed: &str, is_allowed: fn(i64) -> bool) -> Result<i64, TextError> {
    leading_integer(text)
        .filter(|&value| is_allowed(value))
        .ok_or_else(|| inval(format!("{} is not possible: {allowed}", shown(text))))
}

/// Makes the error that does not come from the text: the queue belongs to the parent of a fork.
fn changed(result: Result<(), Error>) -> Result<(), TextError> {
    result.map_err(inval)
}

impl LiveQueue {
    /// Returns all attributes that a queue can have, with their help, whether this queue has them
    /// or not.
    pub fn attribute_settings() -> Vec<Setting> {
        let settings = TABLE.iter();
        settings
            .map(|own| Setting::new(own.name, own.help, own.set.is_some()))
            .collect()
    }

    /// Returns the names of the queue's attributes, which are those of the kernel's files, and
    /// whether each can be written. A queue in a [group](crate::ConcurrencyGroup) has two more:
    /// `group`, the name of the group, and `group_max_active`, the limit that all queues of the
    /// group share.
    pub fn attributes(&self) -> Vec<(&'static str, bool)> {
        let own = TABLE.iter().filter_map(|own| match (own.access)(self) {
            Access::Absent(_) => None,
            access => Some((own.name, own.set.is_some() && access == Access::Free)),
        });
        own.collect()
    }

    fn find(&self, attribute: &str) -> Result<&'static Attribute, TextError> {
        const ALL: &[Attribute] = &TABLE;
        let found = ALL.iter().find(|own| own.name == attribute);
        let which = match found.map(|own| (own, (own.access)(self))) {
            Some((_, Access::Absent(which))) => which,
            Some((own, _)) => return Ok(own),
            None => "",
        };
        let names: Vec<&str> = self.attributes().iter().map(|(name, _)| *name).collect();
        let semicolon = if which.is_empty() { "" } else { "; " };
        let message = format!(
            "workqueue {} ({}) has no attribute {}: it has {}{semicolon}{which}",
            self.name(),
            self.kind(),
            shown(attribute),
            names.join(", ")
        );
        Err(TextError::new(Errno::NoEnt, message))
    }

    /// Returns an attribute in the format of the kernel's file, without the newline.
    ///
    /// # Errors
    /// [`Errno::NoEnt`]: a queue of this kind has no such attribute.
    pub fn attribute(&self, name: &str) -> Result<String, TextError> {
        Ok((self.find(name)?.get)(self))
    }

    /// Changes one attribute. The text is parsed by the kernel's rules: an integer ends at the
    /// first character that is no digit, the name of a scope is exact with at most one newline
    /// behind it, and a mask is hexadecimal.
    ///
    /// # Errors
    /// [`Errno::NoEnt`]: a queue of this kind has no such attribute; [`Errno::Acces`]: it can only
    /// be read; [`Errno::Inval`]: the value is not valid; [`Errno::Overflow`]: a mask has CPUs beyond
    /// the possible ones. The attribute stays unchanged then.
    pub fn set_attribute(&self, name: &str, text: &str) -> Result<(), TextError> {
        let own = self.find(name)?;
        match ((own.access)(self), own.set) {
            (Access::Fixed(why), _) => Err(TextError::new(Errno::Acces, why)),
            (_, None) => {
                let message = format!("{name} can only be read");
                Err(TextError::new(Errno::Acces, message))
            }
            (_, Some(set)) => set(self, text).map_err(|error| error.of(name)),
        }
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;
    use crate::engine::Engine;

    #[test]
    fn what_a_queue_has_to_be_built_with_is_said_where_it_is_missing() {
        let engine = Engine::builder().build().unwrap();
        let _queue = engine.workqueue("plain").build().unwrap();
        let queue = engine.live_queues().remove(0);
        for (name, hint) in [
            (
                "max_waiting",
                "; only a workqueue that was built with a max_waiting has it",
            ),
            (
                "group_max_active",
                "; only a workqueue that was built in a group has it",
            ),
            ("x", "per_cpu"),
        ] {
            let error = queue.set_attribute(name, "8").unwrap_err();
            assert_eq!(error.errno, Errno::NoEnt);
            assert!(error.message.ends_with(hint), "{error}");
        }
    }

    #[test]
    fn the_table_is_sorted_and_every_line_is_complete() {
        assert!(TABLE.windows(2).all(|pair| pair[0].name < pair[1].name));
        let engine = Engine::builder().build().unwrap();
        let group = ConcurrencyGroup::new("group", 4);
        let builder = engine.workqueue("all").group(&group).max_waiting(8);
        let _queue = builder.build().unwrap();
        let queue = engine.live_queues().remove(0);
        assert_eq!(queue.attributes().len(), TABLE.len());
        for own in &TABLE {
            assert!(
                !own.help.is_empty() && !own.help.contains('\n'),
                "{}",
                own.name
            );
            let value = queue.attribute(own.name).unwrap();
            assert!(!value.contains('\n'), "{}: {value:?}", own.name);
            let error = queue.set_attribute(own.name, "?").unwrap_err();
            assert!(error.message.starts_with(own.name), "{error}");
            let expected = if own.set.is_some() {
                Errno::Inval
            } else {
                Errno::Acces
            };
            assert_eq!(error.errno, expected, "{error}");
        }
    }
}
