//! Items that are fields of a value of the program's own, which they keep alive.

use super::items::delay;
use super::library::Workqueue;
use super::library::raw::{EmbeddedDelayedWork, EmbeddedDisableGuard, EmbeddedWork};
use super::library::types::{FlushError, Moved, Queued, WorkBusy};
use super::{Broken, Random};
use std::sync::Arc;
use std::time::Duration;

/// A value with one item for the moment and one for later, of which one is used.
pub(crate) struct Value {
    // Not first: the function must find the value from the item.
    body: Box<dyn Fn() + Send + Sync>,
    is_delayed: bool,
    now: EmbeddedWork<Value>,
    later: EmbeddedDelayedWork<Value>,
}

/// Calls a method of the item that is used.
macro_rules! of_item {
    ($value:expr, $method:ident($($argument:expr)?)) => {
        match $value.is_delayed {
            false => $value.now.$method($($argument)?),
            true => $value.later.$method($($argument)?),
        }
    };
}

impl Value {
    pub(crate) fn new(is_delayed: bool, body: impl Fn() + Send + Sync + 'static) -> Arc<Value> {
        Arc::new(Value {
            body: Box::new(body),
            is_delayed,
            now: EmbeddedWork::new(Value::run),
            later: EmbeddedDelayedWork::new(Value::run),
        })
    }

    fn run(self: Arc<Value>) {
        (self.body)();
    }

    /// Named from within an Arc of the caller's, which may be the last one but the instance's.
    pub(crate) fn queue(
        self: &Arc<Value>,
        wq: &Workqueue,
        cpu: Option<usize>,
        random: &mut Random,
    ) -> Queued {
        match (self.is_delayed, cpu) {
            (false, None) => wq.queue_embedded(self, |value| &value.now),
            (false, Some(cpu)) => {
                let queued = wq.queue_embedded_on(cpu, self, |value| &value.now);
                queued.expect("a CPU")
            }
            (true, None) => wq.queue_delayed_embedded(self, |value| &value.later, delay(random)),
            (true, Some(cpu)) => {
                let delay = delay(random);
                let queued = wq.queue_delayed_embedded_on(cpu, self, |value| &value.later, delay);
                queued.expect("a CPU")
            }
        }
    }

    /// `None`: its item is not delayed.
    pub(crate) fn move_it(self: &Arc<Value>, wq: &Workqueue, random: &mut Random) -> Option<Moved> {
        let delay = delay(random);
        let moved = || wq.mod_delayed_embedded(self, |value| &value.later, delay);
        self.is_delayed.then(moved)
    }

    /// Whether the removed instance held a reference of this value.
    fn is_returned(self: &Arc<Value>, removed: Option<Arc<Value>>) -> bool {
        let removed = removed.inspect(|same| assert!(Arc::ptr_eq(same, self), "another value"));
        removed.is_some()
    }

    pub(crate) fn cancel(self: &Arc<Value>) -> bool {
        self.is_returned(of_item!(self, cancel()))
    }

    pub(crate) fn cancel_sync(self: &Arc<Value>) -> bool {
        self.is_returned(of_item!(self, cancel_sync()))
    }

    pub(crate) fn flush(&self) -> Result<bool, FlushError> {
        of_item!(self, flush())
    }

    pub(crate) fn flush_timeout(&self, timeout: Duration) -> Result<bool, FlushError> {
        of_item!(self, flush_timeout(timeout))
    }

    pub(crate) fn busy(&self) -> WorkBusy {
        of_item!(self, busy())
    }

    pub(crate) fn look(&self) {
        let _ = (of_item!(self, is_pending()), self.later.time_left());
    }

    /// Disables its item, and says whether an instance was removed.
    pub(crate) fn disable(self: &Arc<Value>, sync: bool) -> (DisabledValue, bool) {
        let guard = match sync {
            true => of_item!(self, disable_sync()),
            false => of_item!(self, disable()),
        };
        // SAFETY: the guard borrows from the value, which the Arc beside it keeps for longer.
        let mut guard: EmbeddedDisableGuard<'static, Value> = unsafe { std::mem::transmute(guard) };
        let removed = self.is_returned(guard.take_removed());
        let value = self.clone();
        let disabled = DisabledValue {
            _guard: guard,
            _value: value,
        };
        (disabled, removed)
    }

    /// When no instance is left but perhaps one that a timer holds, or one that its timer has just
    /// started and that has armed the next: no other has kept its reference.
    pub(crate) fn check(
        self: &Arc<Value>,
        may_be_armed: bool,
        broken: &Broken,
        whose: impl FnOnce() -> String,
    ) {
        let (held, busy) = (Arc::strong_count(self), self.busy());
        broken.expect(held <= 1 + 2 * usize::from(may_be_armed), || {
            format!("{}: {held} references of a value ({busy:?})", whose())
        });
    }
}

/// A value whose item is disabled.
pub(crate) struct DisabledValue {
    // First: it goes before the value.
    _guard: EmbeddedDisableGuard<'static, Value>,
    _value: Arc<Value>,
}
