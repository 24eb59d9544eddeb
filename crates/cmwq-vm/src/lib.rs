//! A virtual machine of up to 256 CPUs, in virtual time.
//!
//! One OS thread simulates all CPUs by discrete events. The CPU with the smallest clock runs, until
//! its thread's next *visible* operation: an access of a cache line, a lock, a futex, a yield, a
//! sleep. Virtual threads are stackful coroutines, so real code runs on them. The cost of an
//! operation follows from the [machine's description](machine) and from contention for its line,
//! lock or CPU. Ties and variations come from the seed: the same seed gives the same run, operation
//! by operation ([`Outcome::log_hash`]).
//!
//! ```
//! use cmwq_vm::machine::preset;
//! use cmwq_vm::os;
//!
//! let machine = preset("grace").expect("it is known").machine();
//! let outcome = cmwq_vm::run(&machine, 1, u64::MAX, || {
//!     os::work(1_000);
//! });
//! assert!(outcome.expect("it ends").end_ns >= 900);
//! ```

mod arena;
mod events;
mod faults;
mod fork;
mod held;
mod locals;
pub mod machine;
mod memory;
pub mod os;
mod random;
mod sched;
mod set;
mod sharing;
mod sleeping;
mod spin;
mod stack;
mod steer;
mod thread;
mod totals;
mod vm;
pub mod weak;
mod window;

pub use arena::Arena;
pub use faults::{Faults, Quota, creation, lag, online, quota, set_faults, set_online, set_quota};
pub use fork::{ForkHandlers, Forked, at_fork, fork};
pub use held::{Held, hold, release};
pub use memory::{Access, Line, Wait};
pub use random::Random;
pub use set::Cpus;
pub use spin::{LockTotals, SpinLock};
pub use stack::prepare_stacks;
pub use steer::{
    Plan, Steered, end_of_steps, end_steering, learn_sharing, pass_over, reseed, steer, steered,
    watch_standstills,
};
pub use thread::Tid;
pub use vm::{Outcome, Stuck, is_inside, run};
pub use weak::{WeakMemory, set_weak_memory};
