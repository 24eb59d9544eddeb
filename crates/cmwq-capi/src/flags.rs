//! From the kernel's flags to a workqueue, by the kernel's rules.

use crate::call::{Call, Wrong};
use crate::handle::{Wq, to_c};
use cmwq::raw::{WQ_MAX_ACTIVE, WorkqueueHandle};
use cmwq::{Engine, Error, Workqueue, WorkqueueBuilder};

pub(crate) const BH: u32 = 1 << 0;
pub(crate) const UNBOUND: u32 = 1 << 1;
pub(crate) const FREEZABLE: u32 = 1 << 2;
pub(crate) const MEM_RECLAIM: u32 = 1 << 3;
pub(crate) const HIGHPRI: u32 = 1 << 4;
pub(crate) const CPU_INTENSIVE: u32 = 1 << 5;
pub(crate) const SYSFS: u32 = 1 << 6;
pub(crate) const POWER_EFFICIENT: u32 = 1 << 7;
pub(crate) const PERCPU: u32 = 1 << 8;

const NAMES: [(u32, &str); 9] = [
    (BH, "WQ_BH"),
    (UNBOUND, "WQ_UNBOUND"),
    (FREEZABLE, "WQ_FREEZABLE"),
    (MEM_RECLAIM, "WQ_MEM_RECLAIM"),
    (HIGHPRI, "WQ_HIGHPRI"),
    (CPU_INTENSIVE, "WQ_CPU_INTENSIVE"),
    (SYSFS, "WQ_SYSFS"),
    (POWER_EFFICIENT, "WQ_POWER_EFFICIENT"),
    (PERCPU, "WQ_PERCPU"),
];
const KNOWN: u32 = (1 << NAMES.len()) - 1;
/// What goes with BH.
const WITH_BH: u32 = BH | HIGHPRI | PERCPU;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Free,
    Ordered,
}

fn names(flags: u32) -> String {
    let known = NAMES.iter().filter(|(flag, _)| flags & flag != 0);
    let mut names: Vec<String> = known.map(|(_, name)| (*name).to_owned()).collect();
    if flags & !KNOWN != 0 {
        names.push(format!("{:#x}", flags & !KNOWN));
    }
    names.join(" | ")
}

/// Makes the workqueue that C asks for. `more`: what else is said of it.
pub(crate) fn make(
    call: &'static Call,
    name: &str,
    flags: u32,
    max_active: i32,
    order: Order,
    more: impl FnOnce(WorkqueueBuilder) -> WorkqueueBuilder,
) -> *mut Wq {
    match build(call, name, flags, max_active, order, more) {
        Ok(handle) => to_c(handle),
        Err(Some(error)) => call.error(&error),
        // Said already.
        Err(None) => crate::call::Failed::failed(Wrong::Flags),
    }
}

fn build(
    call: &'static Call,
    name: &str,
    flags: u32,
    max_active: i32,
    order: Order,
    more: impl FnOnce(WorkqueueBuilder) -> WorkqueueBuilder,
) -> Result<WorkqueueHandle, Option<Error>> {
    let refuse = |text: String| {
        call.warn(Wrong::Flags, || format!("workqueue {name}: {text}"));
        None
    };
    if flags & !KNOWN != 0 {
        let text = format!(
            "unknown flags {}; known: {}",
            names(flags & !KNOWN),
            names(KNOWN)
        );
        return Err(refuse(text));
    }
    if flags & BH != 0 && (flags & !WITH_BH != 0 || order == Order::Ordered) {
        let others = match order {
            Order::Ordered => "an ordered workqueue".to_owned(),
            Order::Free => names(flags & !WITH_BH),
        };
        return Err(refuse(format!("WQ_BH does not go with {others}")));
    }
    if flags & BH != 0 && max_active != 0 {
        return Err(refuse(format!(
            "max_active of a WQ_BH workqueue must be 0, not {max_active}"
        )));
    }
    if order == Order::Ordered && max_active > 1 {
        return Err(Some(Error::OrderedMaxActive));
    }
    let engine = Engine::global().map_err(Some)?;
    let flags = kind(call, name, flags, order, engine.is_power_efficient());
    let mut builder = engine.workqueue(name);
    builder = match (order, flags & (BH | PERCPU)) {
        (Order::Ordered, _) => builder.ordered(),
        (_, 0) => builder,
        (_, PERCPU) => builder.per_cpu(),
        _ => builder.bh(),
    };
    if order == Order::Free && flags & BH == 0 {
        // 0 is the default here, and only here.
        builder = match max_active {
            0 => builder,
            given => {
                let used = clamp_max_active(given);
                warn_if_clamped(call, name, given, used);
                builder.max_active(used)
            }
        };
    }
    if flags & FREEZABLE != 0 {
        builder = builder.freezable();
    }
    if flags & MEM_RECLAIM != 0 {
        builder = builder.mem_reclaim();
    }
    if flags & HIGHPRI != 0 {
        builder = builder.highpri();
    }
    if flags & CPU_INTENSIVE != 0 {
        builder = builder.cpu_intensive();
    }
    let queue: Workqueue = more(builder).build().map_err(Some)?;
    crate::runs::made(queue.id(), order == Order::Ordered);
    WorkqueueHandle::new(queue).map_err(Some)
}

/// The flags with exactly one of PERCPU and UNBOUND.
fn kind(call: &'static Call, name: &str, flags: u32, order: Order, saves_power: bool) -> u32 {
    let mut flags = flags;
    if order == Order::Ordered {
        flags |= UNBOUND;
    }
    if flags & POWER_EFFICIENT != 0 && saves_power {
        flags = flags & !PERCPU | UNBOUND;
    }
    match flags & (PERCPU | UNBOUND) {
        0 => {
            call.warn(Wrong::NeitherKind, || {
                format!(
                    "workqueue {name}: neither WQ_PERCPU nor WQ_UNBOUND: it is WQ_PERCPU; say which"
                )
            });
            flags | PERCPU
        }
        both if both == PERCPU | UNBOUND => {
            call.warn(Wrong::BothKinds, || {
                format!(
                    "workqueue {name}: both WQ_PERCPU and WQ_UNBOUND: it is WQ_UNBOUND; say one"
                )
            });
            flags & !PERCPU
        }
        _ => flags,
    }
}

/// The value within the range that is nearest to `given`.
pub(crate) fn clamp_max_active(given: i32) -> usize {
    usize::try_from(given).unwrap_or(0).clamp(1, WQ_MAX_ACTIVE)
}

/// Says that another value is used, if it is.
pub(crate) fn warn_if_clamped(call: &Call, name: &str, given: i32, used: usize) {
    if usize::try_from(given) != Ok(used) {
        call.warn(Wrong::MaxActive, || {
            format!("workqueue {name}: max_active {given} is out of range, {used} is used (1 to {WQ_MAX_ACTIVE})")
        });
    }
}
