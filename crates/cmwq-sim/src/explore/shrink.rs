//! Makes a failing case smaller: operations and faults are left out as long as it still fails.

use super::program::FaultSet;
use super::runner::{Case, Runner, Verdict};
use std::collections::BTreeSet;

/// Schedules that are tried for each smaller program: what is left out changes the course of all
/// that follows.
const SCHEDULES: u64 = 4;

/// The smallest case found within `runs` runs, and how it fails.
///
/// # Errors
/// No process can be made.
pub fn shrink(
    runner: &Runner,
    case: &Case,
    why: &str,
    at_once: usize,
    runs: usize,
) -> std::io::Result<(Case, String)> {
    let mut search = Search {
        runner,
        at_once,
        left: runs,
        best: (case.clone(), why.to_owned()),
    };
    let all: BTreeSet<usize> = case.program().ops.iter().map(|op| op.number).collect();
    search.best.0.ops = Some(all);
    let mut pieces = 2;
    while search.left > 0 {
        let before = search.size();
        search.without_faults()?;
        if search.without_a_piece(pieces)? {
            continue;
        }
        if pieces < search.size() {
            pieces = (2 * pieces).min(search.size());
        } else if search.size() == before {
            break;
        }
    }
    Ok(search.best)
}

struct Search<'a> {
    runner: &'a Runner,
    at_once: usize,
    left: usize,
    best: (Case, String),
}

impl Search<'_> {
    fn size(&self) -> usize {
        self.best.0.ops.as_ref().map_or(0, BTreeSet::len)
    }

    /// Takes the case if it fails under some schedule.
    fn takes(&mut self, case: &Case) -> std::io::Result<bool> {
        let schedules = (0..SCHEDULES).map(|schedule| Case {
            schedule,
            ..case.clone()
        });
        let mut found = None;
        let mut runs = 0;
        self.runner
            .run_all(schedules, self.at_once, |case, verdict| {
                runs += 1;
                if let Verdict::Failed(why) = verdict {
                    found = Some((case.clone(), why));
                }
                found.is_none()
            })?;
        self.left = self.left.saturating_sub(runs);
        let taken = found.is_some();
        if let Some(found) = found {
            self.best = found;
        }
        Ok(taken)
    }

    fn without_faults(&mut self) -> std::io::Result<()> {
        if self.best.0.faults == FaultSet::NONE {
            return Ok(());
        }
        let smaller: Vec<FaultSet> = self.best.0.faults.smaller().collect();
        for faults in std::iter::once(FaultSet::NONE).chain(smaller) {
            let case = Case {
                faults,
                ..self.best.0.clone()
            };
            if self.left > 0 && self.takes(&case)? {
                break;
            }
        }
        Ok(())
    }

    /// Leaves out one of so many pieces; `false`: each is needed.
    fn without_a_piece(&mut self, pieces: usize) -> std::io::Result<bool> {
        let ops: Vec<usize> = self.best.0.ops.iter().flatten().copied().collect();
        let size = ops.len().div_ceil(pieces.max(1)).max(1);
        for at in (0..ops.len()).step_by(size) {
            let end = (at + size).min(ops.len());
            let left = ops[..at].iter().chain(&ops[end..]).copied().collect();
            let case = Case {
                ops: Some(left),
                ..self.best.0.clone()
            };
            if self.left == 0 {
                return Ok(false);
            }
            if self.takes(&case)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
