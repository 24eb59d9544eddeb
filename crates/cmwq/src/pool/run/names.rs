//! The names of a pool's workers.
#![forbid(unsafe_code)]

use crate::pool::attrs::kind::PoolFor;
use crate::pool::attrs::threads::{NAME, UNBOUND_NAME, WorkerThread, name_by};
use crate::pool::state::pool::Pool;
use crate::sys::thread::ThreadName;

impl Pool {
    /// As the kernel names its workers, unless the program sets a name. The kernel's BH pools have
    /// no threads, so those names are cmwq's.
    pub(in crate::pool) fn worker_name(&self, id: u32) -> String {
        let (otherwise, pool) = match self.attrs.kind {
            PoolFor::Unbound => (UNBOUND_NAME, format!("u{}", self.id)),
            PoolFor::PerCpu(cpu) => (NAME, cpu.to_string()),
            PoolFor::Bh(cpu) => (NAME, format!("b{cpu}")),
        };
        let wishes = self.attrs.threads.as_ref();
        name_by(wishes, otherwise, &pool, &id.to_string(), self.attrs.nice)
    }

    /// Worker `id`, called `name`.
    pub(in crate::pool) fn about_worker<'a>(&self, id: u32, name: &'a str) -> WorkerThread<'a> {
        WorkerThread {
            name,
            id,
            pool: Some(self.id),
            cpu: match self.attrs.kind {
                PoolFor::Unbound => None,
                PoolFor::PerCpu(cpu) | PoolFor::Bh(cpu) => Some(cpu),
            },
            nice: self.attrs.nice,
            queue: None,
        }
    }

    /// The name of worker `id`, for restoring it.
    pub(in crate::pool) fn own_name(&self, id: u32) -> ThreadName {
        ThreadName::new(&self.worker_name(id))
    }

    /// Whether workers restore their names after each item.
    pub(in crate::pool) fn restores_names(&self) -> bool {
        let threads = self.attrs.threads.as_ref();
        threads.is_some_and(|threads| threads.0.restore_names)
    }
}
