//! The description of the item that the calling thread runs.
#![forbid(unsafe_code)]

use crate::engine::Engine;
use crate::pool::{current, describe_at_home};
use crate::workqueue::parts::core::WqCore;

/// How many bytes of a description are kept, as in the kernel.
const DESCRIPTION_MAX: usize = 31;

/// Describes the item that the calling thread runs. Until the item ends, dumps, reports of stalls
/// and `cmwq busy` show `description` beside the item's function. At most 31 bytes are kept. The
/// default description is the name of the item's queue. On a thread that runs no item this has no
/// effect. It is the kernel's `set_worker_desc`. It takes the lock of the item's pool.
///
/// ```
/// # let queue = cmwq::Workqueue::builder("doc").build()?;
/// let handle = queue.spawn(|| {
///     cmwq::observe::set_worker_desc("copying block 17");
///     // ... a long copy ...
/// });
/// handle.join()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn set_worker_desc(description: &str) {
    let what = current();
    if what.item == 0 {
        return;
    }
    let description = fitting(description);
    #[cfg(all(feature = "tracing", not(cmwq_loom)))]
    crate::trace::spans::describe(&description);
    let Err(mut description) = describe_at_home(what, description) else {
        return;
    };
    // The thread is no worker of the item's pool: it is a thief or a rescuer, or it runs the item
    // while it waits for it. So the pool is looked for in all engines.
    for engine in Engine::all() {
        let queues = engine.queues().into_iter();
        let own = queues.filter(|queue| queue.id() == what.front);
        for core in own.filter_map(|queue| queue.as_any().downcast::<WqCore>().ok()) {
            for pwq in core.members() {
                match pwq.pool.describe(what, description) {
                    Ok(()) => return,
                    Err(back) => description = back,
                }
            }
        }
    }
}

/// Returns the part of a text that is kept, on one line.
fn fitting(text: &str) -> String {
    let mut end = text.len().min(DESCRIPTION_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].replace(|c: char| c.is_control(), " ")
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::fitting;

    #[test]
    fn a_description_is_cut_between_characters_and_is_one_line() {
        assert_eq!(fitting("eth0"), "eth0");
        assert_eq!(fitting(""), "");
        assert_eq!(fitting(&"x".repeat(40)), "x".repeat(31));
        assert_eq!(fitting(&"\u{e9}".repeat(20)), "\u{e9}".repeat(15));
        assert_eq!(fitting("a\nb\tc"), "a b c");
    }
}
