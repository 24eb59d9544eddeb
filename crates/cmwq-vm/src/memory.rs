//! Cache lines: where each one is, and how long an access takes.
//!
//! A line is a server with one queue, in the order of arrival. An access that needs the line from another CPU transfers it, by the distance of
//! the CPU that has it, and waits while earlier transfers go on. An access of a line that the CPU has costs no more than its instruction.
//!
//! A CPU does not wait for the transfers of its stores, nor for prefetches: stores go through a buffer, which takes effect in order and which a
//! read-modify-write drains first. An access of a line that is on its way waits for the line.
#![forbid(unsafe_code)]

use crate::machine::{Costs, Distances, MAX_CPUS};
use crate::vm::ByNumber;
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
}

const NOBODY: u16 = u16::MAX;

pub(crate) struct Lines {
    lines: Vec<State>,
    /// When the last store of each CPU's buffer takes effect.
    stored_at: Vec<u64>,
    /// Transfers and the time they waited, for the report.
    pub(crate) transfers: u64,
    pub(crate) waited_ns: u64,
}

impl Lines {
    pub(crate) fn new(cpus: usize) -> Self {
        Lines {
            lines: Vec::new(),
            stored_at: vec![0; cpus],
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
        });
        Line(u32::try_from(self.lines.len() - 1).expect("fewer than 2^32 lines"))
    }

    /// An access by `cpu` that arrives now; returns when the CPU goes on.
    #[inline]
    pub(crate) fn access(
        &mut self,
        line: Line,
        access: Access,
        cpu: usize,
        now: u64,
        costs: &Costs,
        distances: &Distances,
    ) -> u64 {
        let state = &mut self.lines[line.0 as usize];
        let stored_at = &mut self.stored_at[cpu];
        match access {
            Access::Read if state.has_copy(cpu) => state.there_at(cpu, now),
            Access::Read => {
                let done = state.fetch(cpu, now, costs, distances);
                self.transfers += 1;
                self.waited_ns += done.waited;
                done.at
            }
            Access::Write => {
                if !state.is_only_at(cpu) {
                    let done = state.take(cpu, now, costs, distances);
                    self.transfers += 1;
                    self.waited_ns += done.waited;
                    (state.comes_to, state.comes_at) = (cpu as u16, done.at);
                    *stored_at = done.at.max(*stored_at);
                }
                // Others see it after the stores before it.
                state.busy_until = state.busy_until.max(*stored_at);
                now
            }
            Access::Update => {
                let now = now.max(*stored_at);
                if state.is_only_at(cpu) {
                    return state.there_at(cpu, now) + costs.update_ns;
                }
                let done = state.take(cpu, now, costs, distances);
                self.transfers += 1;
                self.waited_ns += done.waited;
                done.at + costs.update_ns
            }
        }
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
        let state = &mut self.lines[line.0 as usize];
        let done = match to_write {
            true if !state.is_only_at(cpu) => state.take(cpu, now, costs, distances),
            false if !state.has_copy(cpu) => state.fetch(cpu, now, costs, distances),
            _ => return,
        };
        self.transfers += 1;
        (state.comes_to, state.comes_at) = (cpu as u16, done.at);
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
    fn fetch(&mut self, cpu: usize, now: u64, costs: &Costs, distances: &Distances) -> Transfer {
        let transfer = self.transfer_ns(cpu, costs, distances);
        let start = now.max(self.busy_until);
        self.sharers[cpu / 64] |= 1 << (cpu % 64);
        // After the first reader has fetched it the line is shared, and others are served without the owner.
        self.busy_until = start + transfer / costs.read_overlap.max(1);
        Transfer {
            at: start + transfer,
            waited: start - now,
        }
    }

    /// `cpu` gets the only copy.
    fn take(&mut self, cpu: usize, now: u64, costs: &Costs, distances: &Distances) -> Transfer {
        let start = now.max(self.busy_until);
        let at = start + self.transfer_ns(cpu, costs, distances);
        self.sharers = [0; WORDS];
        self.sharers[cpu / 64] = 1 << (cpu % 64);
        self.owner = cpu as u16;
        self.busy_until = at;
        Transfer {
            at,
            waited: start - now,
        }
    }

    /// The distance class of the farthest CPU that has a copy: an invalidation is done when that one has answered.
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
