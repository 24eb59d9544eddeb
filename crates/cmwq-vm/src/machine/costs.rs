//! What things cost on a machine, in ns.

/// Classes of distance: indices of [`Costs::transfer_ns`].
pub const SAME_CPU: usize = 0;
/// SMT siblings.
pub const SAME_CORE: usize = 1;
/// Two cores under one last-level cache.
pub const SAME_LLC: usize = 2;
/// Two last-level caches of one socket.
pub const SAME_PACKAGE: usize = 3;
/// Two sockets.
pub const OTHER_PACKAGE: usize = 4;

/// All durations in ns.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    /// A line from one CPU's cache to another's, by class of distance. The first one is from the
    /// last-level cache: what programs use was written before.
    pub transfer_ns: [u64; 5],
    /// How often, in parts per thousand, a CPU to which a line has come keeps it for half a
    /// transfer though others wait for it.
    pub kept_ppt: u64,
    /// How many accesses ahead a CPU sends for what an instruction accesses at a constant distance;
    /// 0: it does not.
    pub strides_ahead: u64,
    /// Lines that fit into a CPU's own caches.
    pub private_lines: u64,
    /// What a read-modify-write takes of a line that the CPU has, in ps. Loads and stores of such a
    /// line are among the instructions.
    pub update_ps: u64,
    /// What real code computes between two of its visible operations, on average, in ps: it is
    /// charged with each.
    pub between_ps: u64,
    /// How many instructions a CPU begins while an access before them waits, as the time that they
    /// take alone; 0: none.
    pub window_ns: u64,
    /// How many readers a shared line serves in the time of one transfer.
    pub read_overlap: u64,
    /// How much longer instructions take while the SMT sibling computes, in parts per thousand of
    /// the time alone.
    pub smt_slowdown_ppt: u64,
    /// Random variation of computing times, in parts per thousand.
    pub jitter_ppt: u64,
    /// Into the system and back.
    pub syscall_ns: u64,
    /// From one thread to another on a CPU.
    pub switch_ns: u64,
    /// A yield that switches to no thread.
    pub yield_ns: u64,
    /// Reading the clock.
    pub clock_ns: u64,
    /// The waker's share of a wake-up on a CPU that is busy or its own: choosing the CPU, the run
    /// queue's lock.
    pub wake_ns: u64,
    /// What the waker pays on top where the CPU must be interrupted.
    pub interrupt_send_ns: u64,
    /// From there until the other CPU handles it.
    pub interrupt_ns: u64,
    /// A wake-up of a thread that is awake already.
    pub wake_awake_ns: u64,
    /// An idle CPU polls for so long before it halts: it needs no interrupt then.
    pub idle_poll_ns: u64,
    /// Leaving the shallow idle state, and the deep one, which is entered after `idle_deep_after_ns`.
    pub idle_exit_ns: u64,
    /// See `idle_exit_ns`.
    pub idle_exit_deep_ns: u64,
    /// See `idle_exit_ns`.
    pub idle_deep_after_ns: u64,
    /// Creating a thread.
    pub clone_ns: u64,
    /// What a thread pays after it was moved to another CPU: its working set.
    pub migration_ns: u64,
    /// A thread that has run within this time stays with its CPU when another one idles: its
    /// working set is in that cache.
    pub hot_ns: u64,
    /// How long a thread may run while others wait.
    pub slice_ns: u64,
    /// Slices end with the timer's next tick.
    pub tick_ns: u64,
    /// A thread that has run this long is preempted by one that wakes up there.
    pub preempt_after_ns: u64,
    /// `pause` and its like.
    pub pause_ns: u64,
}
