//! The schedulers that there are.

/// Which thread is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// That of the CPU with the smallest clock: what may happen follows from costs.
    Time,
    /// That of the highest random priority, with change points: PCT.
    Pct,
    /// A uniform random walk: URW.
    Walk,
}

impl Scheduler {
    /// All of them, with their names.
    pub const ALL: [(Scheduler, &str); 3] = [
        (Scheduler::Time, "time"),
        (Scheduler::Pct, "pct"),
        (Scheduler::Walk, "walk"),
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        let known = Scheduler::ALL
            .iter()
            .find(|(scheduler, _)| *scheduler == self);
        known.map_or("", |(_, name)| name)
    }

    /// By its name.
    ///
    /// # Errors
    /// A sentence with the names that there are.
    pub fn parse(text: &str) -> Result<Scheduler, String> {
        let known = Scheduler::ALL.iter().find(|(_, name)| *name == text);
        let unknown = || format!("no scheduler {text:?}; there are time, pct, walk");
        known.map(|(scheduler, _)| *scheduler).ok_or_else(unknown)
    }
}
