//! What the whole process shares: the epoch pins of its CPUs, and the pools by their numbers.

use crate::pool::{self, Pool};
use crate::sys::cpu;
use crate::sys::epoch::{EpochPin, Epochs, Replaced, Shared};
use crate::sys::fork::{self, ProcessLock, Side};
use crate::sys::sync::Mutex;
use crossbeam_utils::CachePadded;
use std::sync::{Arc, OnceLock, Weak};

/// The largest number of epoch pins; CPUs beyond it share pins, since more would only cost memory. A
/// pin is a mark by which a reader delays the freeing of what it reads.
const MAX_READERS: usize = 1024;

/// The process's epoch pins, one per CPU.
pub(crate) fn epochs() -> &'static Epochs {
    static EPOCHS: OnceLock<Epochs> = OnceLock::new();
    #[cold]
    fn initialise() -> &'static Epochs {
        // The lock is taken before the pins are made. A thread that forks meanwhile has to wait for
        // it; otherwise the pins would stay half made in the child, where a thread that needs them
        // would wait for ever.
        fork::hold_during_forks(ProcessLock::Epochs, || {
            let readers = epochs().hold_during_fork();
            Box::new(|side| {
                readers(side);
                if side == Side::Child {
                    pool::leave_in_child();
                }
            })
        });
        // There is a pin for every CPU that exists, and not only for the usable ones, because pins
        // are found by CPU number.
        EPOCHS.get_or_init(|| Epochs::new(cpu::configured().min(MAX_READERS)))
    }
    EPOCHS.get().unwrap_or_else(initialise)
}

/// All pools of the process by number, so that an issuer finds the pool on which an item was last
/// queued. A reader that has pinned the epoch writes nothing that other threads read. A writer
/// copies the table and replaces it.
pub(crate) struct Registry {
    table: Shared<Vec<Option<Arc<Pool>>>>,
    /// The numbers of pools that were taken out, each with its pool. The number 0 is never given
    /// out, because it means "no pool".
    free: Mutex<Vec<(u32, Weak<Pool>)>>,
}

impl Registry {
    pub(crate) fn process() -> &'static Registry {
        // Items that change their pool read it: it has a cache line of its own.
        static REGISTRY: CachePadded<OnceLock<Registry>> = CachePadded::new(OnceLock::new());
        #[cold]
        fn initialise() -> &'static Registry {
            // The lock is taken first, for the same reason as in [`epochs`].
            fork::hold_during_forks(ProcessLock::Registry, || {
                let free = Registry::process().free.lock();
                Box::new(|_| drop(free))
            });
            REGISTRY.get_or_init(|| Registry {
                table: Shared::new(Arc::new(vec![None])),
                free: Mutex::new(Vec::new()),
            })
        }
        REGISTRY.get().unwrap_or_else(initialise)
    }

    /// Returns the pool with this number. The reference is valid while the epoch is pinned.
    pub(crate) fn find<'g>(&self, id: u32, pin: &'g EpochPin<'_>) -> Option<&'g Arc<Pool>> {
        self.table.load(pin).get(id as usize)?.as_ref()
    }

    /// Gives a new pool a number; `make` builds the pool with it.
    pub(crate) fn add(&self, make: impl FnOnce(u32) -> Arc<Pool>) -> Arc<Pool> {
        let mut free = self.free.lock();
        let mut table = self.copy();
        let unused = free.iter().position(|(_, pool)| pool.strong_count() == 0);
        let id = unused.map_or(table.len() as u32, |at| free.swap_remove(at).0);
        if id as usize == table.len() {
            table.push(None);
        }
        let pool = make(id);
        table[id as usize] = Some(pool.clone());
        self.put(table);
        pool
    }

    /// Takes a pool out. Its number is used again only when no thread has a reference to the pool
    /// any more. Otherwise a thread that cancels an item, and has found the old pool by the number,
    /// could remove an item of the next pool from its list under the old pool's lock. An issuer
    /// whose item still carries the number finds the next pool, which does not run the item.
    pub(crate) fn remove(&self, pool: &Arc<Pool>) {
        let mut free = self.free.lock();
        let mut table = self.copy();
        table[pool.id as usize] = None;
        self.put(table);
        free.push((pool.id, Arc::downgrade(pool)));
    }

    /// Returns a copy of the table. The caller holds the lock of `free`, so no other thread
    /// replaces the table meanwhile.
    fn copy(&self) -> Vec<Option<Arc<Pool>>> {
        let pin = epochs().pin(0);
        self.table.load(&pin).clone()
    }

    fn put(&self, table: Vec<Option<Arc<Pool>>>) {
        let old = self.table.replace(Arc::new(table));
        drop(Replaced::retire(vec![old], epochs()));
    }
}
