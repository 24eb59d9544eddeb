//! Spawning into a caller slot of the issuer.
#![forbid(unsafe_code)]

use super::parts::core::WqCore;
use crate::engine::{self, epochs};
use crate::error::Refused;
use crate::item::Pending;
use crate::pool::{Granted, spawn_history};
use crate::sys::atomic::Ordering;

impl WqCore {
    #[inline]
    pub(in crate::workqueue) fn spawn_in_caller_slot(
        &self,
        item: Pending,
        note: impl FnOnce(),
    ) -> Result<(), Refused> {
        spawn_history::let_go();
        match spawn_history::spawn(self.issuer(), item, || self.grant_caller_slot()) {
            Ok(()) => Ok(()),
            Err(item) => {
                note();
                self.publish(None, item)
            }
        }
    }

    /// Opens a caller slot of the calling thread, in the pool that is the destination of its items.
    fn grant_caller_slot(&self) -> Option<Granted> {
        self.engine.must_be_ours().ok()?;
        if self.room.is_some() {
            // Each of its items is counted when it is queued.
            return None;
        }
        let real = engine::here();
        let pwq = {
            let pin = epochs().pin(real);
            let cpus = self.engine.cpus(&pin);
            if !cpus.stays(real) {
                return None;
            }
            let cpu = cpus.issuing(real, false);
            self.slots.get()?.get(cpu)?.get(&pin)
        };
        if pwq.pool.attrs.nice != 0 || pwq.pool.attrs.strict {
            return None;
        }
        let mut guard = pwq.pool.lock();
        // Under the lock: a drain sets `closed` before it takes this lock to close all caller slots.
        if self.closed.load(Ordering::SeqCst) != 0 {
            return None;
        }
        let caller_slot = guard.open_caller_slot(pwq.key)?;
        drop(guard);
        Some(Granted {
            caller_slot,
            pool: pwq.pool.clone(),
            key: pwq.key,
            reclaim: self.rescuer.is_some(),
        })
    }
}
