//! Building a workqueue.

use super::Workqueue;
use super::attrs::{NAME_MAX, WQ_DFL_ACTIVE, WQ_MAX_ACTIVE, WorkqueueAttrs};
use super::core::WqCore;
use crate::affinity::AffinityScope;
use crate::engine::Engine;
use crate::error::Error;
use crate::observe::warn;
use crate::topology::CpuSet;

/// Builds a [`Workqueue`]: unbound, with the kernel's defaults unless said otherwise.
#[derive(Debug)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct WorkqueueBuilder {
    engine: Option<Engine>,
    name: String,
    ordered: bool,
    attrs: WorkqueueAttrs,
    max_active: usize,
}

impl WorkqueueBuilder {
    pub(super) fn new(name: &str) -> Self {
        WorkqueueBuilder {
            engine: None,
            name: name.to_owned(),
            ordered: false,
            attrs: WorkqueueAttrs::default(),
            max_active: 0,
        }
    }

    fn on(engine: Engine, name: &str) -> Self {
        WorkqueueBuilder {
            engine: Some(engine),
            ..Self::new(name)
        }
    }

    /// How the machine is cut into pods; `default` unless said otherwise.
    pub fn affinity_scope(mut self, scope: AffinityScope) -> Self {
        self.attrs.affinity_scope = scope;
        self
    }

    /// Items never run outside the pod that they were queued from. Off unless said otherwise.
    pub fn affinity_strict(mut self, strict: bool) -> Self {
        self.attrs.affinity_strict = strict;
        self
    }

    /// The CPUs that items may run on; all that the process may use unless said otherwise.
    pub fn cpumask(mut self, cpus: CpuSet) -> Self {
        self.attrs.cpumask = Some(cpus);
        self
    }

    /// The workers' nice level, -20 to 19; 0 unless said otherwise.
    pub fn nice(mut self, nice: i32) -> Self {
        self.attrs.nice = nice;
        self
    }

    /// All attributes at once.
    pub fn attrs(mut self, attrs: WorkqueueAttrs) -> Self {
        self.attrs = attrs;
        self
    }

    /// How many items may be active (started or ready to start) at the same time, per NUMA node by its share of the CPUs.
    /// 0, the default, stands for [`WQ_DFL_ACTIVE`]; more than [`WQ_MAX_ACTIVE`] is cut to that, with a warning. 1 does
    /// not make a queue ordered: see [`ordered`](Self::ordered).
    pub fn max_active(mut self, max_active: usize) -> Self {
        self.max_active = max_active;
        self
    }

    /// Items run one at a time, in the order in which they were queued, whatever pod they come from. `max_active` is 1.
    pub fn ordered(mut self) -> Self {
        self.ordered = true;
        self
    }

    /// Builds the queue.
    ///
    /// # Errors
    /// What [`Engine::global`] returns; [`Error::Nice`]; [`Error::OrderedMaxActive`] if an ordered queue was given another
    /// `max_active` than 1; [`Error::Thread`] if the engine's first thread cannot be created.
    pub fn build(self) -> Result<Workqueue, Error> {
        self.attrs.check()?;
        let engine = match self.engine {
            Some(engine) => engine,
            None => Engine::global()?,
        };
        let max_active = match (self.ordered, self.max_active) {
            (true, 0 | 1) => 1,
            (true, _) => return Err(Error::OrderedMaxActive),
            (false, wanted) => clamp_max_active(&self.name, wanted),
        };
        engine.service().ensure_started().map_err(Error::Thread)?;
        let name = cut_name(self.name);
        Ok(Workqueue {
            core: WqCore::new(name, engine, self.ordered, self.attrs, max_active),
        })
    }
}

/// 0 stands for the default; too much is cut, with a warning.
pub(super) fn clamp_max_active(name: &str, wanted: usize) -> usize {
    match wanted {
        0 => WQ_DFL_ACTIVE,
        1..=WQ_MAX_ACTIVE => wanted,
        _ => {
            warn(&format!(
                "workqueue {name}: max_active {wanted} is out of range, {WQ_MAX_ACTIVE} is used (1 to {WQ_MAX_ACTIVE})"
            ));
            WQ_MAX_ACTIVE
        }
    }
}

fn cut_name(mut name: String) -> String {
    if name.len() > NAME_MAX {
        let mut end = NAME_MAX;
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        warn(&format!(
            "workqueue name '{name}' is cut to {NAME_MAX} bytes"
        ));
        name.truncate(end);
    }
    name
}

impl Engine {
    /// A builder of a workqueue of this engine. `name`: shown by tools, at most 31 bytes are kept.
    pub fn workqueue(&self, name: &str) -> WorkqueueBuilder {
        WorkqueueBuilder::on(self.clone(), name)
    }
}
