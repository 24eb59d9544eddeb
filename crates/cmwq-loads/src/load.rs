//! What a load is, and the loads that have a name.

/// How many threads queue items.
///
/// ```
/// use cmwq_loads::Issuers;
///
/// assert_eq!(Issuers::parse("half"), Some(Issuers::Half));
/// assert_eq!(Issuers::Half.on(16), 8); // of 16 CPUs
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Issuers {
    /// So many.
    Number(usize),
    /// Half as many as there are CPUs, but one.
    Half,
    /// As many as there are CPUs.
    All,
}

impl Issuers {
    /// The number on a machine with so many CPUs.
    #[must_use]
    pub fn on(self, cpus: usize) -> usize {
        match self {
            Issuers::Number(number) => number.max(1),
            Issuers::Half => (cpus / 2).max(1),
            Issuers::All => cpus.max(1),
        }
    }

    /// Reads a number above 0, `half` or `all`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Issuers> {
        match text {
            "half" => Some(Issuers::Half),
            "all" => Some(Issuers::All),
            _ => {
                let number = text.parse().ok();
                number
                    .filter(|number| (1..=8192).contains(number))
                    .map(Issuers::Number)
            }
        }
    }
}

/// What an issuer (a thread that queues items) does between two rounds: a part of a [`Shape`].
///
/// ```
/// use cmwq_loads::{Load, Pause, Shape};
///
/// let load = Load::named("burst-16").expect("it is one of them");
/// let every_5_ms = Pause::Every(5_000_000);
/// assert!(matches!(load.shape, Shape::Gather { items: 16, pause, .. } if pause == every_5_ms));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Nothing.
    None,
    /// It sleeps for so long.
    Sleep(u64),
    /// It computes for so long.
    Compute(u64),
    /// It sleeps until so long after the begin of the round before.
    Every(u64),
}

/// How often items arrive that wait for nothing: a part of a [`Shape`].
///
/// ```
/// use cmwq_loads::{Load, Rate, Shape};
///
/// let load = Load::named("open-60").expect("it is one of them");
/// assert_eq!(load.shape, Shape::Arrive { rate: Rate::Percent(60) });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// At so many percent of what the CPUs bear, at times that nobody foresees (the gaps are
    /// exponential).
    Percent(u32),
    /// One every so many nanoseconds.
    Every(u64),
}

/// What an issuer (a thread that queues items) does, over and over.
///
/// ```
/// use cmwq_loads::{Load, Shape};
///
/// let load = Load::named("window").expect("it is one of them");
/// assert_eq!(load.shape, Shape::Flow { in_flight: 64, stages: 1 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// It queues so many items at once and waits for all of them.
    Gather {
        /// Items of a round.
        items: u32,
        /// Between two rounds.
        pause: Pause,
        /// It waits by the pool's own means if there are some, else for one wake-up by the last
        /// item.
        joins: bool,
    },
    /// It keeps so many items in flight and takes all that have run at once.
    Flow {
        /// Items in flight.
        in_flight: u32,
        /// Each consists of so many pieces; the end of one queues the next, from its worker.
        stages: u32,
    },
    /// Items come when they come, whatever becomes of those before them.
    Arrive {
        /// How often, all issuers together.
        rate: Rate,
    },
}

/// Which items are unlike the others.
///
/// ```
/// use cmwq_loads::{Load, Mix};
///
/// let load = Load::named("mixed").expect("it is one of them");
/// assert_eq!(load.mix, Mix::Longer { one_in: 50, times: 100 });
/// assert_eq!(load.mean_ns().round(), 8_940.0); // 3 us; one in 50 takes 300 us
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// None.
    Even,
    /// One in so many computes so many times as long.
    Longer {
        /// One in so many.
        one_in: u64,
        /// So many times as long.
        times: u64,
    },
    /// One in so many sleeps in a system call before it computes.
    Sleeps {
        /// One in so many.
        one_in: u64,
        /// For so long.
        ns: u64,
    },
}

/// Where the issuers (the threads that queue items) are.
///
/// ```
/// use cmwq_loads::{Load, Place};
///
/// let load = Load::named("one-cpu").expect("it is one of them");
/// assert_eq!(load.place, Place::OneCpu);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Each is pinned: the first to the first CPU, and so on, round all CPUs.
    Spread,
    /// All are pinned to the first CPU.
    OneCpu,
    /// Where the system puts them.
    Free,
}

/// Describes a load: what items do, how they are queued, and by how many threads.
///
/// ```
/// use cmwq_loads::Load;
///
/// for load in Load::all() {
///     println!("{}: {}", load.name, load.about);
/// }
/// let shorter = Load { item_ns: 1_000, ..Load::named("window").expect("it is one of them") };
/// assert_eq!(shorter.mean_ns(), 1_000.0);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// Its name.
    pub name: &'static str,
    /// What it stands for.
    pub about: &'static str,
    /// What the issuers do.
    pub shape: Shape,
    /// What an item computes; a piece of it, if it has stages.
    pub item_ns: u64,
    /// Items unlike the others.
    pub mix: Mix,
    /// How many issuers.
    pub issuers: Issuers,
    /// Where they are.
    pub place: Place,
    /// All issuers begin a round together, when each of them has ended the one before.
    pub together: bool,
    /// A thread that only computes is on each CPU.
    pub hogs: bool,
    /// Not 0: for so many nanoseconds all issuers are at work, then for as long only the first, and
    /// so on.
    pub moving_ns: u64,
}

impl Load {
    const fn new(name: &'static str, about: &'static str, shape: Shape, item_ns: u64) -> Load {
        Load {
            name,
            about,
            shape,
            item_ns,
            mix: Mix::Even,
            issuers: Issuers::Number(1),
            place: Place::Spread,
            together: false,
            hogs: false,
            moving_ns: 0,
        }
    }

    const fn from(self, issuers: Issuers, place: Place) -> Load {
        Load {
            issuers,
            place,
            ..self
        }
    }

    const fn with(self, mix: Mix) -> Load {
        Load { mix, ..self }
    }

    /// The load of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Load> {
        ALL.iter().find(|load| load.name == name).cloned()
    }

    /// All that have a name.
    #[must_use]
    pub fn all() -> &'static [Load] {
        ALL
    }

    /// All but the round trip, the flood and the window, of which `benches/peers` has loops of its
    /// own.
    pub fn everyday() -> impl Iterator<Item = &'static Load> {
        let own = ["roundtrip", "flood", "window"];
        ALL.iter().filter(move |load| !own.contains(&load.name))
    }

    /// What one item computes on average, and a millisecond is no computing.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        let item = self.item_ns as f64;
        match self.mix {
            Mix::Longer { one_in, times } => item * (1.0 + (times - 1) as f64 / one_in as f64),
            Mix::Even | Mix::Sleeps { .. } => item,
        }
    }

    /// One in so many items is timed: reading the clock takes time too.
    pub(crate) fn timed_every(&self) -> u64 {
        match self.shape {
            _ if self.item_ns >= 3_000 => 1,
            Shape::Gather { items: 1_000.., .. } => 61,
            _ => 7,
        }
    }

    /// What the item of that number computes, and for how long it sleeps first.
    pub(crate) fn item(&self, number: u64) -> (u64, u64) {
        match self.mix {
            Mix::Longer { one_in, times } if number.is_multiple_of(one_in) => {
                (self.item_ns * times, 0)
            }
            Mix::Sleeps { one_in, ns } if number.is_multiple_of(one_in) => (self.item_ns, ns),
            _ => (self.item_ns, 0),
        }
    }
}

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

const fn scatter(items: u32) -> Shape {
    Shape::Gather {
        items,
        pause: Pause::None,
        joins: true,
    }
}

const fn burst(items: u32, pause: Pause) -> Shape {
    Shape::Gather {
        items,
        pause,
        joins: false,
    }
}

const fn client(think_ns: u64) -> Shape {
    burst(1, Pause::Sleep(think_ns))
}

const fn flow(in_flight: u32, stages: u32) -> Shape {
    Shape::Flow { in_flight, stages }
}

const fn arrive(rate: Rate) -> Shape {
    Shape::Arrive { rate }
}

const IDLE: Pause = Pause::Every(5 * MS);
const BUSY: Pause = Pause::Compute(100 * US);

const ALL: &[Load] = &[
    Load::new(
        "roundtrip",
        "each issuer queues one item, waits for it, and again",
        burst(1, Pause::None),
        0,
    )
    .from(Issuers::All, Place::Spread),
    Load {
        together: true,
        ..Load::new(
            "flood",
            "all issuers together: each queues 20,000 items, then waits for all of them",
            burst(20_000, Pause::None),
            0,
        )
        .from(Issuers::All, Place::Spread)
    },
    Load::new(
        "window",
        "each issuer keeps 64 items in flight",
        flow(64, 1),
        20 * US,
    )
    .from(Issuers::All, Place::Spread),
    Load::new(
        "scatter-8",
        "spawn 8 items, join all of them",
        scatter(8),
        20 * US,
    ),
    Load::new(
        "scatter-64",
        "spawn 64 items, join all of them",
        scatter(64),
        20 * US,
    ),
    Load::new(
        "scatter-512",
        "spawn 512 items, join all of them",
        scatter(512),
        20 * US,
    ),
    Load::new(
        "burst-4",
        "every 5 ms, from idle, 4 items behind one wake-up",
        burst(4, IDLE),
        500 * US,
    ),
    Load::new(
        "burst-16",
        "every 5 ms, from idle, 16 items behind one wake-up",
        burst(16, IDLE),
        50 * US,
    ),
    Load::new(
        "burst-256",
        "every 5 ms, from idle, 256 items behind one wake-up",
        burst(256, IDLE),
        5 * US,
    ),
    Load::new(
        "busy-burst-16",
        "16 items behind one wake-up, after the issuer has computed for 100 µs",
        burst(16, BUSY),
        20 * US,
    ),
    Load::new(
        "busy-burst-256",
        "256 items behind one wake-up, after the issuer has computed for 100 µs",
        burst(256, BUSY),
        5 * US,
    ),
    Load::new(
        "open-30",
        "items arrive at 30 % of what the CPUs bear",
        arrive(Rate::Percent(30)),
        20 * US,
    )
    .from(Issuers::Half, Place::Free),
    Load::new(
        "open-60",
        "items arrive at 60 % of what the CPUs bear",
        arrive(Rate::Percent(60)),
        20 * US,
    )
    .from(Issuers::Half, Place::Free),
    Load::new(
        "open-90",
        "items arrive at 90 % of what the CPUs bear",
        arrive(Rate::Percent(90)),
        20 * US,
    )
    .from(Issuers::Half, Place::Free),
    Load::new(
        "clients-4",
        "4 threads queue one item, wait for it and think for 100 µs",
        client(100 * US),
        5 * US,
    )
    .from(Issuers::Number(4), Place::Free),
    Load::new(
        "clients-50",
        "50 threads queue one item, wait for it and think for 2 ms",
        client(2 * MS),
        20 * US,
    )
    .from(Issuers::Number(50), Place::Free),
    Load::new(
        "stages",
        "items of three stages, 128 in flight",
        flow(128, 3),
        5 * US,
    ),
    Load::new(
        "trickle-100us",
        "one item every 100 µs",
        arrive(Rate::Every(100 * US)),
        20 * US,
    )
    .from(Issuers::Number(1), Place::Free),
    Load::new(
        "trickle-1ms",
        "one item every millisecond",
        arrive(Rate::Every(MS)),
        20 * US,
    )
    .from(Issuers::Number(1), Place::Free),
    Load::new(
        "mixed",
        "64 items in flight, of which 2 % are 100 times longer",
        flow(64, 1),
        3 * US,
    )
    .with(Mix::Longer {
        one_in: 50,
        times: 100,
    }),
    Load {
        hogs: true,
        ..Load::new(
            "saturated",
            "a thread computes on each CPU; 16 others queue one item every 500 µs and wait for it",
            client(500 * US),
            10 * US,
        )
        .from(Issuers::Number(16), Place::Free)
    },
    Load::new(
        "blocking",
        "64 items in flight, a quarter of which first sleep for 1 ms",
        flow(64, 1),
        20 * US,
    )
    .with(Mix::Sleeps { one_in: 4, ns: MS }),
    Load::new(
        "one-cpu",
        "half as many issuers as CPUs, all on the first CPU, 64 items in flight each",
        flow(64, 1),
        20 * US,
    )
    .from(Issuers::Half, Place::OneCpu),
    Load {
        moving_ns: 20 * MS,
        ..Load::new(
            "moving",
            "64 items in flight for each issuer; for 20 ms all issuers, for 20 ms only one",
            flow(64, 1),
            20 * US,
        )
        .from(Issuers::All, Place::Spread)
    },
];
