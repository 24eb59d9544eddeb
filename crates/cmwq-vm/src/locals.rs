//! Values of a thread's own, by key; they are dropped at its end.
#![forbid(unsafe_code)]

use crate::vm::{Vm, is_inside, with};
use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;

thread_local! {
    /// The values of a thread that is no virtual one.
    static OUTSIDE: RefCell<HashMap<usize, &'static dyn Any>> = RefCell::default();
}

/// A value of the calling thread's own under this key, made at first use; `None`: the thread is at
/// its end. Outside a machine values are never dropped.
///
/// # Panics
/// When the key is used with two types.
pub fn local<T: 'static>(key: usize, make: impl FnOnce() -> T) -> Option<*const T> {
    const ONE_TYPE: &str = "one key is for one type";
    if !is_inside() {
        let known = OUTSIDE.with(|values| values.borrow().get(&key).copied());
        let value = known.unwrap_or_else(|| {
            let value: &'static dyn Any = Box::leak(Box::new(make()));
            OUTSIDE.with(|values| values.borrow_mut().insert(key, value));
            value
        });
        return Some(std::ptr::from_ref(value.downcast_ref().expect(ONE_TYPE)));
    }
    let place = |vm: &mut Vm| -> Option<*const T> {
        let locals = &vm.threads[vm.tid.index()].locals;
        let value = locals.get(&key)?;
        Some(std::ptr::from_ref(value.downcast_ref().expect(ONE_TYPE)))
    };
    if let Some(value) = with(place) {
        return Some(value);
    }
    if with(|vm| vm.threads[vm.tid.index()].ending) {
        return None;
    }
    let value: Box<dyn Any> = Box::new(make());
    with(|vm| {
        let tid = vm.tid;
        vm.threads[tid.index()].locals.insert(key, value);
        place(vm)
    })
}

/// Drops the calling thread's values, at its end.
pub(crate) fn drop_locals() {
    let locals = with(|vm| {
        let thread = &mut vm.threads[vm.tid.index()];
        thread.ending = true;
        std::mem::take(&mut thread.locals)
    });
    // In an order that the seed decides alone: addresses differ.
    let mut values: Vec<(usize, Box<dyn Any>)> = locals.into_iter().collect();
    values.sort_by_key(|(key, _)| *key);
    drop(values);
}
