//! Issuers that begin a round together.

use crate::{Access, Alone, Bell, Machine};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Where the issuers of a run meet before each round.
pub(crate) struct Meet<B> {
    arrived: Alone<AtomicUsize>,
    /// How often they have met.
    met: Alone<AtomicU64>,
    /// The last that arrives says so for all.
    go_on: AtomicBool,
    bells: Vec<Alone<B>>,
}

impl<B: Bell> Meet<B> {
    pub(crate) fn new(issuers: usize) -> Meet<B> {
        Meet {
            arrived: Alone::default(),
            met: Alone::default(),
            go_on: AtomicBool::new(true),
            bells: (0..issuers).map(|_| Alone(B::new())).collect(),
        }
    }

    /// Called by that issuer before it arrives for the first time.
    pub(crate) fn adopt(&self, issuer: usize) {
        self.bells[issuer].0.adopt();
    }

    /// Waits until all have arrived; says whether they go on, the same to all.
    pub(crate) fn wait<M: Machine>(
        &self,
        machine: &M,
        issuer: usize,
        go_on: impl FnOnce() -> bool,
    ) -> bool {
        let met = self.met.0.load(Ordering::Acquire);
        machine.touch(self.arrived.address(), Access::Update);
        if self.arrived.0.fetch_add(1, Ordering::AcqRel) + 1 < self.bells.len() {
            let bell = &self.bells[issuer].0;
            while B::COUNTS || self.met.0.load(Ordering::Acquire) == met {
                bell.wait();
                if B::COUNTS {
                    break;
                }
            }
        } else {
            self.arrived.0.store(0, Ordering::Relaxed);
            self.go_on.store(go_on(), Ordering::Relaxed);
            machine.touch(self.met.address(), Access::Write);
            self.met.0.store(met + 1, Ordering::Release);
            let others = self.bells.iter().enumerate();
            let others = others.filter(|(other, _)| *other != issuer);
            others.for_each(|(_, bell)| bell.0.ring());
        }
        machine.touch(self.met.address(), Access::Read);
        self.go_on.load(Ordering::Relaxed)
    }
}
