//! Cache lines: where each one is, and how long an access takes.
//!
//! A line is a server with one queue, in the order of arrival. An exclusive access from another CPU transfers the line, by the
//! distance of the CPU that has it, and waits while earlier transfers go on. A read of a line that the CPU has is a hit.
#![forbid(unsafe_code)]

use crate::machine::{Costs, Distances, MAX_CPUS};

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
}

const NOBODY: u16 = u16::MAX;

#[derive(Default)]
pub(crate) struct Lines {
    lines: Vec<State>,
    /// Transfers and the time they waited, for the report.
    pub(crate) transfers: u64,
    pub(crate) waited_ns: u64,
}

impl Lines {
    pub(crate) fn add(&mut self) -> Line {
        self.lines.push(State {
            busy_until: 0,
            owner: NOBODY,
            sharers: [0; WORDS],
        });
        Line(u32::try_from(self.lines.len() - 1).expect("fewer than 2^32 lines"))
    }

    /// An access by `cpu` that arrives now; returns when it is complete.
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
        let (word, bit) = (cpu / 64, 1_u64 << (cpu % 64));
        let has_copy = state.sharers[word] & bit != 0;
        if access == Access::Read {
            if has_copy {
                return now.max(state.busy_until.min(now)) + costs.hit_ns;
            }
        } else if has_copy && usize::from(state.owner) == cpu && state.is_alone(word, bit) {
            let more = if access == Access::Update {
                costs.update_ns
            } else {
                0
            };
            return now + costs.hit_ns + more;
        }
        let from = if state.owner == NOBODY || usize::from(state.owner) == cpu {
            state.farthest(cpu, distances)
        } else {
            distances.between(usize::from(state.owner), cpu)
        };
        let transfer = costs.transfer_ns[from];
        let start = now.max(state.busy_until);
        self.transfers += 1;
        self.waited_ns += start - now;
        let done = start + transfer;
        match access {
            Access::Read => {
                state.sharers[word] |= bit;
                // After the first reader has fetched it the line is shared, and others are served without the owner.
                state.busy_until = start + transfer / costs.read_overlap.max(1);
            }
            Access::Write | Access::Update => {
                state.sharers = [0; WORDS];
                state.sharers[word] = bit;
                state.owner = cpu as u16;
                state.busy_until = done;
            }
        }
        done + if access == Access::Update {
            costs.update_ns
        } else {
            0
        }
    }
}

impl State {
    #[inline]
    fn is_alone(&self, word: usize, bit: u64) -> bool {
        self.sharers
            .iter()
            .enumerate()
            .all(|(at, &sharers)| sharers == if at == word { bit } else { 0 })
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
