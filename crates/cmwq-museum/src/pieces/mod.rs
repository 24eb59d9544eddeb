//! The museum: known failures of this field, re-created as mutations of the library, and mutations
//! of lines that are essential. Also read by build.rs. In `to`, MUTANT stands for the question
//! whether the piece is active.

mod counts;
mod ends;
mod items;
mod known;
mod limits;
mod orders;
mod pools;
mod rates;
mod rechecks;
mod timers;
mod waits;

/// One change of the sources. `from` stands there exactly once.
pub struct Edit {
    /// Below `crates/cmwq/src`.
    pub file: &'static str,
    /// What stands there.
    pub from: &'static str,
    /// What stands there instead.
    pub to: &'static str,
}

/// One piece.
pub struct Piece {
    /// On the command line.
    pub name: &'static str,
    /// Whether it is a known failure of the field, or an essential line of ours.
    pub known: bool,
    /// The small program that finds it soonest; `None`: random programs look for it.
    pub program: Option<&'static str>,
    /// The scheduler that finds it soonest.
    pub scheduler: &'static str,
    /// Oracles of rates look for it.
    pub rated: bool,
    /// What is wrong.
    pub what: &'static str,
    /// Faults under which it is looked for.
    pub faults: &'static str,
    /// Seeds within which it must be found.
    pub budget: u64,
    /// The change.
    pub edits: &'static [Edit],
}

const fn known(name: &'static str, what: &'static str, edits: &'static [Edit]) -> Piece {
    Piece {
        name,
        known: true,
        program: None,
        scheduler: "time",
        rated: false,
        what,
        faults: "all",
        budget: 10_000,
        edits,
    }
}

const fn line(name: &'static str, what: &'static str, edits: &'static [Edit]) -> Piece {
    Piece {
        name,
        known: false,
        program: None,
        scheduler: "time",
        rated: false,
        what,
        faults: "all",
        budget: 10_000,
        edits,
    }
}

/// One that a small program under a schedule with a guarantee looks for.
const fn small(
    name: &'static str,
    what: &'static str,
    program: &'static str,
    edits: &'static [Edit],
) -> Piece {
    Piece {
        program: Some(program),
        scheduler: "pct",
        ..line(name, what, edits)
    }
}

/// An essential ordering, for which a small program looks with a weak memory.
const fn weak_in(
    name: &'static str,
    what: &'static str,
    program: &'static str,
    edits: &'static [Edit],
) -> Piece {
    Piece {
        faults: "all,weak",
        ..small(name, what, program, edits)
    }
}

/// One that another scheduler finds sooner.
const fn under(scheduler: &'static str, piece: Piece) -> Piece {
    Piece { scheduler, ..piece }
}

/// One that oracles of rates find: it costs speed or memory.
const fn rated(name: &'static str, what: &'static str, edits: &'static [Edit]) -> Piece {
    Piece {
        rated: true,
        budget: 200,
        ..line(name, what, edits)
    }
}

/// An essential ordering, looked for with a weak memory.
const fn weak(name: &'static str, what: &'static str, edits: &'static [Edit]) -> Piece {
    Piece {
        faults: "all,weak",
        ..line(name, what, edits)
    }
}

const fn edit(file: &'static str, from: &'static str, to: &'static str) -> Edit {
    Edit { file, from, to }
}

impl Piece {
    /// Whether it is looked for with a weak memory.
    pub fn is_weak(&self) -> bool {
        self.faults == "all,weak"
    }

    /// What kind of a failure it is, as the table has it.
    pub fn kind(&self) -> &'static str {
        match self.program {
            _ if self.known => "known",
            _ if self.rated => "rates",
            _ if self.is_weak() => "ordering",
            Some(_) => "small",
            None => "line",
        }
    }
}

/// All of them. The place of one is its number.
pub fn all() -> impl Iterator<Item = &'static Piece> {
    let themes = [
        known::PIECES,
        pools::PIECES,
        limits::PIECES,
        waits::PIECES,
        items::PIECES,
        timers::PIECES,
        orders::PIECES,
        rechecks::PIECES,
        counts::PIECES,
        ends::PIECES,
        rates::PIECES,
    ];
    themes.into_iter().flatten()
}
