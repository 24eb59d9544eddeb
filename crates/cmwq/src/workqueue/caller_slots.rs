//! Spawning into a *caller slot*: a place for one item that belongs to the issuing thread. If the
//! thread joins the item at once, it runs the item itself, and no other thread is involved.
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

    /// Opens a caller slot for the calling thread in the pool to which its items go.
    fn grant_caller_slot(&self) -> Option<Granted> {
        self.engine.must_be_ours().ok()?;
        if self.room.is_some() {
            // A queue with a limit on waiting items counts each item when it is queued, so it gives
            // no caller slots.
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
        // This is read under the lock of the pool: a drain sets `closed` first, and then takes this
        // lock to close all caller slots.
        if self.closed.load(Ordering::Relaxed) != 0 {
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
