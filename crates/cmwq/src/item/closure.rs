//! Closures without a handle. Small ones travel in a [chunk](super::chunk) as bytes, and become
//! items only when a thread has to see them as such. All others are items of their own, in reused
//! memory.

use super::callable::Callable;
use super::named::NamedWork;
use super::raw::{Pending, RawWork, WorkFn};
use crate::sys::blocks;
use crate::trace::foreign;
use std::alloc::Layout;
use std::any::Any;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// Room for a small closure.
pub(in crate::item) type Payload = [MaybeUninit<u64>; 3];

/// The operations on closures of one type.
struct Kind {
    /// The function that stands for the type in reports: the work function that the closure would
    /// have as an item.
    func: WorkFn,
    /// Calls one.
    ///
    /// # Safety
    /// The payload is a closure of this type, and not used any more.
    call: unsafe fn(&Payload),
    /// Makes an item of one.
    ///
    /// # Safety
    /// As for `call`.
    boxed: unsafe fn(&Payload) -> NonNull<RawWork>,
}

/// The bytes of a small closure, and its kind. Dropping this value does not drop the closure: its
/// owner uses it exactly once.
#[must_use = "a closure that is not used is lost"]
pub(crate) struct Small {
    payload: Payload,
    kind: &'static Kind,
    /// The address at which it lay in its chunk; reports know it by this address while it runs.
    address: usize,
}

// SAFETY: it is made of closures that are Send.
unsafe impl Send for Small {}

/// A closure as an item: what is queued is its first part, a `RawWork` or a `NamedWork`.
#[repr(C)]
struct Boxed<F, W = RawWork> {
    work: W,
    func: F,
}

/// What closures of type `F` have in common.
struct Closures<F>(F);

impl<F: FnOnce() + Send + 'static> Closures<F> {
    const KIND: &'static Kind = &Kind {
        func: run_boxed::<F>,
        call: call::<F>,
        boxed: boxed_from::<F>,
    };
}

/// # Safety
/// See [`Kind::call`].
unsafe fn call<F: FnOnce()>(payload: &Payload) {
    // SAFETY: by the contract.
    let func = unsafe { payload.as_ptr().cast::<F>().read() };
    func();
}

/// # Safety
/// See [`Kind::boxed`].
unsafe fn boxed_from<F: FnOnce() + Send + 'static>(payload: &Payload) -> NonNull<RawWork> {
    // SAFETY: by the contract.
    into_raw(unsafe { payload.as_ptr().cast::<F>().read() })
}

/// # Safety
/// `item` belongs to a `Boxed<F>` from [`into_raw`], and runs once.
unsafe extern "C-unwind" fn run_boxed<F: FnOnce() + Send + 'static>(item: NonNull<RawWork>) {
    // SAFETY: by the contract.
    let func = unsafe { from_raw::<F>(item) };
    func();
}

/// The function of the items that closures of this type become.
#[inline]
pub(crate) fn function_of<F: FnOnce() + Send + 'static>(_: &F) -> usize {
    run_boxed::<F> as WorkFn as usize
}

#[inline]
fn boxed<F, W>(work: W, func: F) -> NonNull<RawWork> {
    let memory = blocks::take(Layout::new::<Boxed<F, W>>()).cast::<Boxed<F, W>>();
    // SAFETY: the memory is ours and of this layout.
    unsafe { memory.write(Boxed { work, func }) };
    memory.cast()
}

/// # Safety
/// `item` came from [`boxed`] of the same types, no other thread uses it, and this is called once.
#[inline]
unsafe fn unboxed<F, W>(item: NonNull<RawWork>) -> F {
    let memory = item.cast::<Boxed<F, W>>();
    // SAFETY: by the contract; the item has nothing to drop.
    unsafe {
        let Boxed { func, .. } = memory.read();
        blocks::give(memory.cast(), Layout::new::<Boxed<F, W>>());
        func
    }
}

/// `func` as an item of its own, for [`from_raw`].
pub(crate) fn into_raw<F: FnOnce() + Send + 'static>(func: F) -> NonNull<RawWork> {
    boxed(RawWork::new(run_boxed::<F>), func)
}

/// The closure of an item that will not run, or runs now. This frees the item.
///
/// # Safety
/// `item` came from [`into_raw`] of the same type, no other thread uses it, and this is called once.
pub(crate) unsafe fn from_raw<F>(item: NonNull<RawWork>) -> F {
    // SAFETY: by the contract.
    unsafe { unboxed::<F, RawWork>(item) }
}

/// `func` as an item that reports show as the function at the address `shown`, for
/// [`from_raw_named`].
pub(crate) fn into_raw_named<F>(func: F, shown: usize) -> NonNull<RawWork>
where
    F: FnOnce() + Send + 'static,
{
    boxed(NamedWork::new(run_named::<F>, shown), func)
}

/// As [`from_raw`], for an item from [`into_raw_named`].
///
/// # Safety
/// As there.
pub(crate) unsafe fn from_raw_named<F>(item: NonNull<RawWork>) -> F {
    // SAFETY: by the contract.
    unsafe { unboxed::<F, NamedWork>(item) }
}

/// # Safety
/// `item` came from [`into_raw_named`] of the same type, and runs once.
unsafe extern "C-unwind" fn run_named<F: FnOnce()>(item: NonNull<RawWork>) {
    // SAFETY: by the contract.
    let func = unsafe { from_raw_named::<F>(item) };
    func();
}

impl Small {
    /// Whether closures of this type are small.
    #[inline]
    pub(crate) const fn fits<F>() -> bool {
        size_of::<F>() <= size_of::<Payload>() && align_of::<F>() <= align_of::<Payload>()
    }

    /// `func` as a small closure, if it fits.
    #[inline]
    pub(crate) fn of<F: FnOnce() + Send + 'static>(func: F) -> Result<Self, F> {
        if !Self::fits::<F>() {
            return Err(func);
        }
        let mut payload = [MaybeUninit::uninit(); 3];
        // SAFETY: it fits, and the address is aligned for it.
        unsafe { payload.as_mut_ptr().cast::<F>().write(func) };
        Ok(Small {
            payload,
            kind: Closures::<F>::KIND,
            address: 0,
        })
    }

    /// The original closure.
    ///
    /// # Safety
    /// It was made [of](Self::of) this type.
    #[inline]
    pub(crate) unsafe fn into_inner<F>(self) -> F {
        // SAFETY: by the contract.
        unsafe { self.payload.as_ptr().cast::<F>().read() }
    }

    /// The bytes, to be handed on.
    #[inline]
    pub(in crate::item) fn payload(&self) -> Payload {
        self.payload
    }

    /// The kind as a number, the same for all closures of its type; not 0.
    #[inline]
    pub(in crate::item) fn number(&self) -> usize {
        std::ptr::from_ref(self.kind).expose_provenance()
    }

    /// A small closure from its [payload](Self::payload) and its [number](Self::number).
    ///
    /// # Safety
    /// The payload and the number belong to one closure, which no other thread uses.
    #[inline]
    pub(in crate::item) unsafe fn from_parts(
        payload: Payload,
        number: usize,
        address: usize,
    ) -> Self {
        // SAFETY: by the contract the number came from a reference to a kind.
        let kind = unsafe { &*std::ptr::with_exposed_provenance::<Kind>(number) };
        Small {
            payload,
            kind,
            address,
        }
    }

    /// The function that names the closures with this [number](Self::number).
    ///
    /// # Safety
    /// It is such a number.
    #[inline]
    pub(in crate::item) unsafe fn func_of(number: usize) -> WorkFn {
        // SAFETY: by the contract.
        unsafe { &*std::ptr::with_exposed_provenance::<Kind>(number) }.func
    }

    /// Makes an item of its own, claimed.
    pub(crate) fn into_item(self) -> Pending {
        // SAFETY: as in `call`; the item exists until its function has run.
        unsafe { Pending::one_shot((self.kind.boxed)(&self.payload)) }
    }
}

impl Callable for Small {
    #[inline]
    fn address(&self) -> usize {
        self.address
    }

    #[inline]
    fn func(&self) -> Option<WorkFn> {
        Some(self.kind.func)
    }

    #[inline]
    fn call(self) -> Result<(), Box<dyn Any + Send>> {
        // SAFETY: payload and kind belong together, and `self` is used up.
        foreign::run(|| unsafe { (self.kind.call)(&self.payload) })
    }
}
