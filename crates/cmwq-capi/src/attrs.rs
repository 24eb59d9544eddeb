//! Attributes of unbound workqueues, and sets of CPUs.

use crate::call::{Call, Wrong, abi};
use crate::handle::Wq;
use cmwq::Engine;
use cmwq::affinity::AffinityScope;
use cmwq::topology::CpuSet;
use cmwq::types::WorkqueueAttrs;
use std::ffi::c_int;
use std::mem::{offset_of, size_of};

const MAX_CPUS: usize = 8192;
const _: () = assert!(MAX_CPUS == cmwq::topology::MAX_CPUS);

/// `struct cmwq_cpumask`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Mask {
    bits: [u64; MAX_CPUS / 64],
}

impl Mask {
    const EMPTY: Mask = Mask {
        bits: [0; MAX_CPUS / 64],
    };

    fn of(cpus: &CpuSet) -> Mask {
        let mut mask = Mask::EMPTY;
        for cpu in cpus.iter() {
            mask.bits[cpu / 64] |= 1 << (cpu % 64);
        }
        mask
    }

    fn cpus(&self) -> CpuSet {
        (0..MAX_CPUS)
            .filter(|cpu| self.bits[cpu / 64] & 1 << (cpu % 64) != 0)
            .collect()
    }
}

/// `struct cmwq_workqueue_attrs`.
#[repr(C)]
pub struct Attrs {
    /// How much of it the caller knows.
    size: u32,
    nice: c_int,
    affinity_scope: c_int,
    /// A bool in C: any byte that is not 0 is true.
    affinity_strict: u8,
    cpumask: Mask,
}

// What cmwq.h says of its layout.
const _: () = assert!(offset_of!(Attrs, cpumask) == 16 && size_of::<Attrs>() == 1040);

/// The size of the first version: a caller never passes less.
const LEAST: usize = 1040;

/// How much of attributes in C is to be read or written; `None`: they do not say, so they were not
/// initialised.
///
/// # Safety
/// They are as long as they say.
unsafe fn known(attrs: *const Attrs) -> Option<usize> {
    // SAFETY: the size comes first, and is there in every version.
    let size = unsafe { (&raw const (*attrs).size).read() } as usize;
    // A program that knows more than this library: what it knows besides is left alone.
    (LEAST..=1 << 20)
        .contains(&size)
        .then_some(size.min(size_of::<Attrs>()))
}

impl Attrs {
    fn of(attrs: &WorkqueueAttrs, all: &CpuSet) -> Attrs {
        Attrs {
            size: size_of::<Attrs>() as u32,
            nice: attrs.nice,
            affinity_scope: attrs.affinity_scope.index() as c_int,
            affinity_strict: attrs.affinity_strict.into(),
            cpumask: Mask::of(attrs.cpumask.as_ref().unwrap_or(all)),
        }
    }

    /// `None`: the scope is none.
    fn to_rust(&self, all: &CpuSet) -> Option<WorkqueueAttrs> {
        let scope = usize::try_from(self.affinity_scope).ok();
        let cpus = self.cpumask.cpus();
        Some(WorkqueueAttrs {
            nice: self.nice,
            affinity_scope: AffinityScope::from_index(scope?)?,
            affinity_strict: self.affinity_strict != 0,
            cpumask: (!all.is_subset(&cpus)).then_some(cpus),
        })
    }
}

const NO_SIZE: &str = "the attributes' size is not set: they were not initialised";

abi! {
    fn cmwq_alloc_workqueue_attrs(call) -> *mut Attrs {
        match Engine::global() {
            Ok(engine) => {
                let attrs = Attrs::of(&WorkqueueAttrs::default(), engine.topology().cpus());
                Box::into_raw(Box::new(attrs))
            }
            Err(error) => call.error(&error),
        }
    }

    fn cmwq_free_workqueue_attrs(_call, attrs: *mut Attrs) {
        if !attrs.is_null() {
            // SAFETY: the header asks for what cmwq_alloc_workqueue_attrs returned, once.
            drop(unsafe { Box::from_raw(attrs) });
        }
    }

    fn cmwq_apply_workqueue_attrs(call, wq: *mut Wq, attrs: *const Attrs) -> c_int {
        if attrs.is_null() {
            return call.wrong(Wrong::NullArgument, "the attributes are NULL");
        }
        call.with(wq, |queue| {
            let engine = match Engine::global() {
                Ok(engine) => engine,
                Err(error) => return call.error(&error),
            };
            // SAFETY: not NULL; the header asks for attributes. The least that is known is all that
            // there is in this version.
            if unsafe { known(attrs) }.is_none() {
                return call.wrong(Wrong::NullArgument, NO_SIZE);
            }
            // SAFETY: as above.
            let Some(attrs) = (unsafe { &*attrs }).to_rust(engine.topology().cpus()) else {
                return call.wrong(Wrong::Unsuitable, "there is no such affinity scope");
            };
            match queue.apply_attrs(attrs) {
                Ok(()) => 0,
                Err(error) => call.error(&error),
            }
        })
    }

    fn cmwq_get_workqueue_attrs(call, wq: *mut Wq, attrs: *mut Attrs) -> c_int {
        if attrs.is_null() {
            return call.wrong(Wrong::NullArgument, "the attributes are NULL");
        }
        call.with(wq, |queue| {
            let engine = match Engine::global() {
                Ok(engine) => engine,
                Err(error) => return call.error(&error),
            };
            // SAFETY: not NULL; the header asks for attributes that say how long they are.
            let Some(known) = (unsafe { known(attrs) }) else {
                return call.wrong(Wrong::NullArgument, NO_SIZE);
            };
            let now = Attrs::of(&queue.attrs(), engine.topology().cpus());
            let skip = offset_of!(Attrs, nice);
            // SAFETY: both are that long; what the caller has said of the size stays.
            unsafe {
                std::ptr::from_ref(&now)
                    .byte_add(skip)
                    .cast::<u8>()
                    .copy_to_nonoverlapping(attrs.byte_add(skip).cast(), known - skip);
            }
            0
        })
    }

    fn cmwq_set_unbound_cpumask(call, cpus: *const Mask) -> c_int {
        if cpus.is_null() {
            return call.wrong(Wrong::NullArgument, "the CPUs are NULL");
        }
        // SAFETY: not NULL; the header asks for a mask.
        let cpus = unsafe { &*cpus }.cpus();
        match Engine::global().and_then(|engine| engine.set_unbound_cpumask(&cpus)) {
            Ok(()) => 0,
            Err(error) => call.error(&error),
        }
    }

    fn cmwq_possible_cpus(call, cpus: *mut Mask) -> c_int {
        // SAFETY: by the caller's promise.
        unsafe { write_cpus(call, cpus, |engine| engine.topology().cpus().clone()) }
    }

    fn cmwq_online_cpus(call, cpus: *mut Mask) -> c_int {
        // SAFETY: by the caller's promise.
        unsafe { write_cpus(call, cpus, Engine::usable_cpus) }
    }
}

/// Writes CPUs of the process's engine. 0: it has written them.
///
/// # Safety
/// `cpus` is NULL or has memory for a mask.
unsafe fn write_cpus(call: &Call, cpus: *mut Mask, which: impl FnOnce(&Engine) -> CpuSet) -> c_int {
    if cpus.is_null() {
        return call.wrong(Wrong::NullArgument, "the CPUs are NULL");
    }
    match Engine::global() {
        Ok(engine) => {
            // SAFETY: not NULL, and by the caller's promise.
            unsafe { cpus.write(Mask::of(&which(&engine))) };
            0
        }
        Err(error) => call.error(&error),
    }
}
