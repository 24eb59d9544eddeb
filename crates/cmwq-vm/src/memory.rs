//! Cache lines: where each one is, and how long an access takes.
//!
//! A line is a server with one queue, in the order of arrival. An access that needs the line from
//! another CPU transfers it, by the distance of the CPU that has it, and waits while earlier
//! transfers go on; it takes effect when the line is there. The next CPU's request may be under way
//! for half of its transfer: then the CPU has the line for so long, and a compare-exchange that has
//! failed can be repeated. An access of a line that the CPU has costs no more than its instruction.
//!
//! A CPU does not wait for the transfers of its stores, nor for prefetches: stores go through a
//! buffer, which takes effect in order and which a read-modify-write drains first. An access of a
//! line that is on its way waits for the line. Where the machine has a [window](crate::window), a
//! line is sent for when the instruction begins, if its owner has not used it since, and
//! instructions pass while accesses before them wait.
//!
//! A CPU also sends for lines by itself, as processors with a stride prefetcher do: what one
//! instruction accesses at a constant distance from its access before. It does so after three
//! accesses in a row, so many steps ahead.
//!
//! A CPU's own cache holds so many lines; one that it used before it fetched as many others has
//! gone to the last-level cache.
#![forbid(unsafe_code)]

use crate::machine::{Costs, Distances, MAX_CPUS, SAME_CPU};
use crate::random::Random;
use crate::vm::ByNumber;
use crate::window::Window;
use std::panic::Location;

const WORDS: usize = MAX_CPUS / 64;

/// What is done to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A load.
    Read,
    /// A store.
    Write,
    /// A read-modify-write.
    Update,
}

/// The number of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Line(pub(crate) u32);

#[derive(Clone, Copy)]
struct State {
    busy_until: u64,
    /// The CPU that wrote it last; it has a copy until another one writes. `NOBODY`: it is in memory.
    owner: u16,
    sharers: [u64; WORDS],
    /// The CPU that it is on its way to without being waited for, and when it is there.
    comes_to: u16,
    comes_at: u64,
    /// How many lines the owner had fetched when it used this one last.
    used: u64,
    /// When it was accessed last, if the machine has a window: a request that was sent before comes
    /// after that.
    accessed_at: u64,
}

/// A line that has come to a CPU, when, and until when the next CPU's request cannot have taken it away.
#[derive(Clone, Copy)]
struct Kept {
    line: u32,
    from: u64,
    until: u64,
}

/// Requests of a CPU that may be under way at a time, as far as it matters which.
const KEPT: usize = 8;

/// The accesses of one instruction.
#[derive(Clone, Copy, Default)]
struct Stride {
    instruction: usize,
    last: usize,
    distance: isize,
    /// How often in a row it was this one.
    times: u32,
}

/// Instructions of which a CPU knows the last access.
const STRIDES: usize = 64;
/// Distances in a row after which a CPU expects the next one.
const SURE: u32 = 2;
/// Longer ones, in bytes, are no stride: a prefetcher does not leave a page.
const LONGEST: isize = 2048;

/// What a CPU has in its caches and buffers.
#[derive(Clone)]
struct Private {
    /// By instruction.
    strides: [Stride; STRIDES],
    /// When the last store of the buffer takes effect.
    stored_at: u64,
    kept: [Kept; KEPT],
    /// Lines that it has fetched.
    fetched: u64,
    window: Window,
}

const NOBODY: u16 = u16::MAX;

pub(crate) struct Lines {
    lines: Vec<State>,
    private: Vec<Private>,
    random: Random,
    /// Transfers and the time they waited, for the report.
    pub(crate) transfers: u64,
    pub(crate) waited_ns: u64,
}

impl Lines {
    pub(crate) fn new(cpus: usize, seed: u64) -> Self {
        Lines {
            lines: Vec::new(),
            private: vec![
                Private {
                    strides: [Stride::default(); STRIDES],
                    stored_at: 0,
                    kept: [Kept {
                        line: u32::MAX,
                        from: 0,
                        until: 0
                    }; KEPT],
                    fetched: 0,
                    window: Window::new(),
                };
                cpus
            ],
            random: Random::new(seed),
            transfers: 0,
            waited_ns: 0,
        }
    }

    pub(crate) fn add(&mut self) -> Line {
        self.lines.push(State {
            busy_until: 0,
            owner: NOBODY,
            sharers: [0; WORDS],
            comes_to: NOBODY,
            comes_at: 0,
            used: 0,
            accessed_at: 0,
        });
        Line(u32::try_from(self.lines.len() - 1).expect("fewer than 2^32 lines"))
    }

    /// `cpu` computes for `ns` from now on; returns when it has. What is hidden behind the accesses
    /// before takes no time.
    #[inline]
    pub(crate) fn compute(&mut self, cpu: usize, ns: u64, now: u64, costs: &Costs) -> u64 {
        match costs.window_ns {
            0 => now + ns,
            size => self.private[cpu].window.compute(ns, now, size),
        }
    }

    /// When `cpu` begins the instruction that comes next: it sends for lines then.
    #[inline]
    fn front(&mut self, cpu: usize, now: u64, costs: &Costs) -> u64 {
        match costs.window_ns {
            0 => now,
            _ => self.private[cpu].window.front(now),
        }
    }

    /// An access by `cpu` that arrives now; returns when the CPU goes on. `update_ns`: what a
    /// read-modify-write takes.
    #[inline]
    #[expect(clippy::too_many_arguments, reason = "the machine lends what it has")]
    pub(crate) fn access(
        &mut self,
        line: Line,
        access: Access,
        cpu: usize,
        now: u64,
        update_ns: u64,
        costs: &Costs,
        distances: &Distances,
    ) -> u64 {
        let sent = self.front(cpu, now, costs);
        let done = self.perform(line, access, cpu, sent, now, update_ns, costs, distances);
        if costs.window_ns > 0 {
            self.private[cpu].window.access(access, done > now, done);
        }
        done
    }

    /// The same, by an instruction that began and sent for the line at `sent`.
    #[inline]
    #[expect(clippy::too_many_arguments, reason = "the machine lends what it has")]
    fn perform(
        &mut self,
        line: Line,
        access: Access,
        cpu: usize,
        sent: u64,
        now: u64,
        update_ns: u64,
        costs: &Costs,
        distances: &Distances,
    ) -> u64 {
        let private = &mut self.private[cpu];
        let arrival = now;
        let now = match access {
            Access::Update => now.max(private.stored_at),
            Access::Read | Access::Write => now,
        };
        // With an empty window it is sent when the stores before are done.
        let sent = match sent == arrival {
            true => now,
            false => sent,
        };
        let more = match access {
            Access::Update => update_ns,
            Access::Read | Access::Write => 0,
        };
        let state = &mut self.lines[line.0 as usize];
        let has = match access {
            Access::Read => state.has_copy(cpu),
            Access::Write | Access::Update => state.is_only_at(cpu),
        };
        if has {
            let mut there = state.there_at(cpu, now);
            if usize::from(state.owner) == cpu {
                if private.fetched - state.used > costs.private_lines {
                    private.fetched += 1;
                    there += costs.transfer_ns[SAME_CPU];
                }
                state.used = private.fetched;
            }
            if costs.window_ns > 0 {
                state.accessed_at = state.accessed_at.max(there);
            }
            if access == Access::Write {
                // Others see it after the stores before it.
                state.busy_until = state.busy_until.max(private.stored_at);
                return now;
            }
            return there + more;
        }
        if let Some(there) = private.keeps(line, now) {
            return if access == Access::Write {
                now
            } else {
                there + more
            };
        }
        let Transfer { at, waited } =
            self.transfer(line, access != Access::Read, cpu, sent, costs, distances);
        self.waited_ns += waited;
        if access != Access::Write {
            return now.max(at) + more;
        }
        let stored_at = &mut self.private[cpu].stored_at;
        *stored_at = at.max(*stored_at);
        let state = &mut self.lines[line.0 as usize];
        state.busy_until = state.busy_until.max(*stored_at);
        (state.comes_to, state.comes_at) = (cpu as u16, at);
        now
    }

    /// The line comes to `cpu`, alone or as another copy.
    fn transfer(
        &mut self,
        line: Line,
        alone: bool,
        cpu: usize,
        now: u64,
        costs: &Costs,
        distances: &Distances,
    ) -> Transfer {
        let state = &mut self.lines[line.0 as usize];
        let owner = self.private.get(usize::from(state.owner));
        let is_gone = owner.is_some_and(|owner| owner.fetched - state.used > costs.private_lines);
        let ns = match is_gone {
            true => costs.transfer_ns[SAME_CPU],
            false => state.transfer_ns(cpu, costs, distances),
        };
        let done = match alone {
            true => state.take(cpu, now, ns),
            false => state.fetch(cpu, now, ns, costs.read_overlap),
        };
        self.transfers += 1;
        let until = match self.random.below(1000) < costs.kept_ppt {
            true => done.at + ns / 2,
            false => done.at,
        };
        let private = &mut self.private[cpu];
        private.fetched += 1;
        if alone {
            state.used = private.fetched;
        }
        private.kept[private.fetched as usize % KEPT] = Kept {
            line: line.0,
            from: done.at,
            until,
        };
        done
    }

    /// `cpu` accesses this address by `instruction`; returns the address that it sends for, if it does.
    #[inline]
    pub(crate) fn expected(
        &mut self,
        instruction: usize,
        address: usize,
        cpu: usize,
        ahead: isize,
    ) -> Option<usize> {
        let distance = self.private[cpu].goes_on(instruction, address)?;
        let next = address.wrapping_add_signed(ahead * distance);
        (next / 64 != address / 64).then_some(next)
    }

    /// Sends for a line that `cpu` is about to access, without waiting for it.
    pub(crate) fn prefetch(
        &mut self,
        line: Line,
        to_write: bool,
        cpu: usize,
        now: u64,
        costs: &Costs,
        distances: &Distances,
    ) {
        let state = &self.lines[line.0 as usize];
        let has = match to_write {
            true => state.is_only_at(cpu),
            false => state.has_copy(cpu),
        };
        if has || self.private[cpu].keeps(line, now).is_some() {
            return;
        }
        let sent = self.front(cpu, now, costs);
        let at = self
            .transfer(line, to_write, cpu, sent, costs, distances)
            .at;
        let state = &mut self.lines[line.0 as usize];
        (state.comes_to, state.comes_at) = (cpu as u16, at);
    }
}

impl Private {
    /// `instruction` accesses this address; returns the distance at which it goes on, if it is known.
    #[inline]
    fn goes_on(&mut self, instruction: usize, address: usize) -> Option<isize> {
        let stride = &mut self.strides[((instruction / 8) ^ (instruction / 512)) % STRIDES];
        if stride.instruction != instruction {
            *stride = Stride {
                instruction,
                last: address,
                ..Stride::default()
            };
            return None;
        }
        let distance = address.wrapping_sub(stride.last) as isize;
        if distance == 0 {
            return None;
        }
        stride.last = address;
        if distance != stride.distance || distance.abs() > LONGEST {
            (stride.distance, stride.times) = (distance, 0);
            return None;
        }
        stride.times = stride.times.saturating_add(1);
        (stride.times >= SURE).then_some(distance)
    }

    /// When a line is there that comes, or that no other CPU's request can have taken yet.
    fn keeps(&self, line: Line, now: u64) -> Option<u64> {
        let mut kept = self.kept.iter();
        let kept = kept.find(|kept| kept.line == line.0 && now <= kept.until)?;
        Some(now.max(kept.from))
    }
}

/// Where in its source a program has waited for lines.
#[derive(Default)]
pub(crate) struct Waits(ByNumber<Wait>);

/// What was waited for lines at one place of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The file and line.
    pub at: &'static Location<'static>,
    /// How often.
    pub count: u64,
    /// How long, all together.
    pub ns: u64,
}

impl Waits {
    #[inline]
    pub(crate) fn note(&mut self, at: &'static Location<'static>, ns: u64) {
        if ns > 0 {
            let new = || Wait {
                at,
                count: 0,
                ns: 0,
            };
            let key = std::ptr::from_ref(at).addr();
            let wait = self.0.entry(key).or_insert_with(new);
            wait.count += 1;
            wait.ns += ns;
        }
    }

    /// The longest first.
    pub(crate) fn sorted(&self) -> Vec<Wait> {
        let mut all: Vec<Wait> = Vec::new();
        for wait in self.0.values() {
            match all.iter_mut().find(|other| other.at == wait.at) {
                Some(other) => {
                    other.count += wait.count;
                    other.ns += wait.ns;
                }
                None => all.push(wait.clone()),
            }
        }
        all.sort_by_key(|wait| (std::cmp::Reverse(wait.ns), wait.at.file(), wait.at.line()));
        all
    }
}

struct Transfer {
    at: u64,
    waited: u64,
}

impl State {
    #[inline]
    fn has_copy(&self, cpu: usize) -> bool {
        self.sharers[cpu / 64] & 1 << (cpu % 64) != 0
    }

    #[inline]
    fn is_only_at(&self, cpu: usize) -> bool {
        usize::from(self.owner) == cpu
            && self.sharers.iter().enumerate().all(|(at, &sharers)| {
                sharers
                    == match at == cpu / 64 {
                        true => 1 << (cpu % 64),
                        false => 0,
                    }
            })
    }

    /// When the copy that `cpu` has can be used.
    #[inline]
    fn there_at(&self, cpu: usize, now: u64) -> u64 {
        match usize::from(self.comes_to) == cpu {
            true => now.max(self.comes_at),
            false => now,
        }
    }

    fn transfer_ns(&self, cpu: usize, costs: &Costs, distances: &Distances) -> u64 {
        let from = if self.owner == NOBODY || usize::from(self.owner) == cpu {
            self.farthest(cpu, distances)
        } else {
            distances.between(usize::from(self.owner), cpu)
        };
        costs.transfer_ns[from]
    }

    /// Another copy comes to `cpu`.
    fn fetch(&mut self, cpu: usize, now: u64, ns: u64, overlap: u64) -> Transfer {
        let start = now.max(self.busy_until).max(self.accessed_at);
        self.sharers[cpu / 64] |= 1 << (cpu % 64);
        // After the first reader has fetched it the line is shared, and others are served without the owner.
        self.busy_until = start + ns / overlap.max(1);
        Transfer {
            at: start + ns,
            waited: start - now,
        }
    }

    /// `cpu` gets the only copy.
    fn take(&mut self, cpu: usize, now: u64, ns: u64) -> Transfer {
        let start = now.max(self.busy_until).max(self.accessed_at);
        self.sharers = [0; WORDS];
        self.sharers[cpu / 64] = 1 << (cpu % 64);
        self.owner = cpu as u16;
        self.busy_until = start + ns;
        Transfer {
            at: start + ns,
            waited: start - now,
        }
    }

    /// The distance class of the farthest CPU that has a copy: an invalidation is done when that
    /// one has answered.
    fn farthest(&self, cpu: usize, distances: &Distances) -> usize {
        let mut farthest = 0;
        for (at, &sharers) in self.sharers.iter().enumerate() {
            let mut rest = sharers;
            while rest != 0 {
                let sharer = at * 64 + rest.trailing_zeros() as usize;
                farthest = farthest.max(distances.between(sharer, cpu));
                rest &= rest - 1;
            }
        }
        farthest
    }
}
