//! Machines that others have published figures of, and this project's own.
//!
//! Shapes are from the published descriptions; transfers from public core-to-core tables, named at
//! each preset. What the operating system costs is not published for any of them: [`SYSTEM`] is an
//! estimate, the same for all, from this project's own virtual machine without the cost of virtual
//! interrupts. What a machine differs in beyond that is fitted on the rows that the report names,
//! and is no part of a preset.

use super::{Costs, Machine};

/// A machine by name.
#[derive(Clone, Debug)]
pub struct Preset {
    /// Its name on the command line.
    pub name: &'static str,
    /// In words, with the sources.
    pub about: &'static str,
    packages: usize,
    llcs: usize,
    cores: usize,
    threads: usize,
    /// The last CPUs that are not there.
    absent: usize,
    costs: Costs,
}

/// What all presets have in common. A pause takes 140 cycles on recent Intel processors, 40 on
/// AMD's and Arm's.
///
/// Between two visible operations of cmwq are 19 instructions
/// (`docs/lab/2026-11-22-instructions.md`: 1,120 for an item without the thaw; 60 such operations),
/// taken at four a cycle and 3.2 GHz. A read-modify-write takes 20 cycles. A CPU's own cache has 1
/// MiB; the last-level cache answers in 20 ns where nothing nearer is known.
const SYSTEM: Costs = Costs {
    transfer_ns: [20, 9, 50, 100, 140],
    kept_ppt: 400,
    strides_ahead: 4,
    private_lines: 16_384,
    update_ps: 5_000,
    between_ps: 1_500,
    window_ns: 0,
    read_overlap: 4,
    smt_slowdown_ppt: 600,
    jitter_ppt: 100,
    syscall_ns: 150,
    switch_ns: 800,
    yield_ns: 300,
    clock_ns: 25,
    wake_ns: 500,
    interrupt_send_ns: 300,
    interrupt_ns: 700,
    wake_awake_ns: 60,
    idle_poll_ns: 2_000,
    idle_exit_ns: 700,
    idle_exit_deep_ns: 20_000,
    idle_deep_after_ns: 200_000,
    clone_ns: 12_000,
    migration_ns: 500,
    hot_ns: 500_000,
    slice_ns: 3_000_000,
    tick_ns: 1,
    preempt_after_ns: 1_000_000,
    pause_ns: 15,
};

impl Default for Costs {
    /// What all presets have in common: estimates.
    fn default() -> Self {
        SYSTEM
    }
}

/// All of them.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "grace",
        about: "NVIDIA Grace: 72 Neoverse V2 cores, one last-level cache, no SMT (published with the cache_shard series). \
                Transfers: Graviton4, of the same cores and mesh, 30 to 60 ns in the socket, 139 to the other (public tables, 2024). \
                Wake-ups and interrupts: twice and three times the others' estimate, since their cost on 64-bit Arm is the published \
                reason for deferring them",
        packages: 1,
        llcs: 1,
        cores: 72,
        threads: 1,
        absent: 0,
        costs: Costs {
            transfer_ns: [35, 45, 45, 45, 139],
            kept_ppt: 150,
            wake_ns: 1_000,
            interrupt_send_ns: 1_000,
            ..SYSTEM
        },
    },
    Preset {
        name: "8321hc",
        about: "Intel Xeon Platinum 8321HC: 51 hardware threads under one last-level cache, so one core has a single one (published with the \
                cache_shard series). Transfers: Cascade Lake, mean 47 ns, other socket 135 (public core-to-core results)",
        packages: 1,
        llcs: 1,
        cores: 26,
        threads: 2,
        absent: 1,
        costs: Costs {
            transfer_ns: [22, 8, 47, 47, 135],
            pause_ns: 45,
            ..SYSTEM
        },
    },
    Preset {
        name: "9d64",
        about: "AMD EPYC 9D64: 88 cores, 11 last-level caches of 8 cores, SMT siblings n and n+88 (published with the cache_shard series). \
                Transfers: Genoa 9274F, SMT 9 ns, same cache 22 to 24, other cache 97 to 104, other socket 194 to 200 (public core-to-core results)",
        packages: 1,
        llcs: 11,
        cores: 8,
        threads: 2,
        absent: 0,
        costs: Costs {
            transfer_ns: [13, 9, 23, 100, 197],
            ..SYSTEM
        },
    },
    Preset {
        name: "3900x",
        about: "AMD Ryzen 9 3900X: 12 cores, 4 last-level caches of 3 cores, SMT (published with the affinity scopes). Transfers: Zen 2 3960X, \
                same cache 24 ns, other 94 (public core-to-core results)",
        packages: 1,
        llcs: 4,
        cores: 3,
        threads: 2,
        absent: 0,
        costs: Costs {
            transfer_ns: [11, 9, 24, 94, 94],
            private_lines: 8_192,
            ..SYSTEM
        },
    },
    Preset {
        name: "d2191a",
        about: "Intel Xeon D-2191A: 16 cores, SMT, one last-level cache assumed (published with the cache_shard series). Transfers: as the 8321HC",
        packages: 1,
        llcs: 1,
        cores: 16,
        threads: 2,
        absent: 0,
        costs: Costs {
            transfer_ns: [22, 8, 47, 47, 135],
            pause_ns: 45,
            ..SYSTEM
        },
    },
    Preset {
        name: "two-vcpus",
        about: "This project's virtual machine of 2 CPUs (AMD EPYC, Zen 5), measured 2026-11-24 and 25 (docs/lab). A line takes 20.5 ns \
                by additions that depend on each other, 24.5 by loads; two CPUs that add to one line all the time, 6.3 to 6.9 an addition, of which the part of lines kept follows; an atomic addition alone 4.7; 4.2 GHz. \
                Additions to missing lines wait for each other where 128 to 256 instructions lie between, so the window is 224, half of this core's reorder buffer. By the floor program of benches/peers: a system call in 0.11 us, a yield to another thread in 1.1 us, a \
                ping-pong on one CPU in 3.5 us and across two in 47.6 us, of which the waker spends 7.9 us each time, with idle CPUs kept from \
                halting in 25. A pause takes 23.4 ns; a slice is 1.4 ms (sched_getattr), and ends with a tick of 4 ms. How the line and the pause are \
                rounded, and what instructions cost, was fitted on the round trip of one issuer and the flood of two",
        packages: 1,
        llcs: 1,
        cores: 2,
        threads: 1,
        absent: 0,
        costs: Costs {
            transfer_ns: [12, 23, 23, 23, 23],
            kept_ppt: 1000,
            update_ps: 4_700,
            between_ps: 1_000,
            window_ns: 13,
            syscall_ns: 110,
            switch_ns: 750,
            yield_ns: 370,
            clock_ns: 23,
            wake_ns: 700,
            interrupt_send_ns: 7_100,
            interrupt_ns: 3_800,
            idle_exit_ns: 11_300,
            idle_exit_deep_ns: 11_300,
            idle_poll_ns: 0,
            clone_ns: 15_000,
            slice_ns: 1_400_000,
            tick_ns: 4_000_000,
            pause_ns: 24,
            ..SYSTEM
        },
    },
    Preset {
        name: "16-vcpus",
        about: "A virtual machine of 16 CPUs (Intel Xeon, Emerald Rapids, one last-level cache), measured 2026-11-26 \
                (docs/lab/2026-11-26-peers-16cpu.md). A line takes 59 to 89 ns to another CPU: the mean. A wake-up of a thread on another \
                CPU takes 7 to 10 us: half of a round trip of pools whose threads sleep (async-executor 13.7 us, tokio 16.0, mutex and \
                condition variable 20.4), divided as on `two-vcpus`; 99 % of these take 22 to 37 us. Slices are of Linux 6.18 with 8 CPUs or more, \
                ticks as on `two-vcpus`. No figure is fitted on a row of cmwq",
        packages: 1,
        llcs: 1,
        cores: 16,
        threads: 1,
        absent: 0,
        costs: Costs {
            transfer_ns: [30, 74, 74, 74, 74],
            wake_ns: 700,
            interrupt_send_ns: 2_000,
            interrupt_ns: 1_500,
            idle_exit_ns: 2_500,
            idle_exit_deep_ns: 10_000,
            idle_poll_ns: 0,
            slice_ns: 2_800_000,
            tick_ns: 4_000_000,
            pause_ns: 45,
            ..SYSTEM
        },
    },
];

/// The preset of this name.
#[must_use]
pub fn preset(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

impl Preset {
    /// The machine.
    #[must_use]
    pub fn machine(&self) -> Machine {
        let costs = self.costs.clone();
        let mut machine = Machine::regular(
            self.name,
            self.packages,
            self.llcs,
            self.cores,
            self.threads,
            costs,
        );
        machine.cpus.truncate(machine.cpus.len() - self.absent);
        machine
    }
}
