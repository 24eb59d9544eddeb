//! Names that pages may quote though they are not in our sources.

/// What the kernel has and `<linux/*.h>` of ours has not: docs/c.md says so.
const KERNEL: &[&str] = &[
    "CLASS",
    "__setup",
    "bit_waitqueue",
    "bitmap_parse_user",
    "bitmap_shift_*",
    "cmpxchg_double",
    "cpu_down",
    "cpu_up",
    "devm_alloc_workqueue",
    "dump_stack",
    "hlist",
    "hlist_bl",
    "hlist_nulls",
    "kobject_move",
    "kobject_rename",
    "ksize",
    "kthread_associate_blkcg",
    "kthread_use_mm",
    "next_and",
    "next_wrap",
    "print_worker_info",
    "raw_",
    "request_irq",
    "sched_set_fifo",
    "scoped_cond_guard",
    "seq_operations",
    "seqlock",
    "show_one_workqueue",
    "smp_call_function_single",
    "srcu_notifier_*",
    "wait_on_bit_action",
    "workqueue_prepare_cpu",
    "wq_watchdog_touch",
];

/// System calls, the C library, the processor.
const SYSTEM: &[&str] = &[
    "IORING_OP_FSYNC",
    "MADV_DONTDUMP",
    "POSIX_SPAWN_SETSIGMASK",
    "RWF_NOWAIT",
    "SA_RESTART",
    "SO_PEERCRED",
    "execinfo.h",
    "ffs",
    "longjmp",
    "popen",
    "posix_spawn",
    "pthread_exit",
    "sched_runtime",
    "signalfd",
    "stdatomic.h",
    "strings.h",
];

/// Other languages, crates and programs.
const OTHERS: &[&str] = &[
    "AttachCurrentThread",
    "BLOCKING_MAX_THREADS",
    "LazyLock",
    "SAFETY",
    "cffi",
    "ctypes",
    "forkserver",
    "multiprocessing",
    "subprocess",
    "UV_THREADPOOL_SIZE",
    "openssl",
    "threadpool.c",
    "uv_fs_*",
];

/// Whether a name is known to come from another project.
pub(crate) fn knows(name: &str) -> bool {
    [KERNEL, SYSTEM, OTHERS]
        .iter()
        .any(|names| names.contains(&name))
}

/// All of them, to see that each is needed.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    [KERNEL, SYSTEM, OTHERS]
        .into_iter()
        .flat_map(|names| names.iter().copied())
}
