//! Parses the text of a synthetic description, level by level. `synthetic` defines what the levels mean.

use crate::cpuset::MAX_CPUS;
use crate::error::{TopologyError, shown};

const LEVELS_ALLOWED: &str = "levels are pack, die, numa, group, l5 to l1 (l1i to l3i), core and pu, written LEVEL:COUNT, such as core:8";

/// The kind of a level's objects, ordered from the outermost to the innermost; `Numa` and `Group`
/// fit anywhere above `Core`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Package,
    Die,
    Numa,
    Group,
    /// A data or unified cache of this level.
    Cache(u8),
    InstructionCache(u8),
    Core,
    Pu,
}

impl Kind {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        Some(match name.as_str() {
            "pack" | "package" | "socket" => Self::Package,
            "die" => Self::Die,
            "numa" | "numanode" | "node" | "nodes" => Self::Numa,
            "group" => Self::Group,
            "core" => Self::Core,
            "pu" => Self::Pu,
            _ => return Self::parse_cache(&name),
        })
    }

    /// `l3`, `l3u`, `l1d`, `l1i`, each also with the suffix `cache`.
    fn parse_cache(name: &str) -> Option<Self> {
        let name = name.strip_suffix("cache").unwrap_or(name);
        let mut rest = name.strip_prefix('l')?.bytes();
        let level = rest.next().filter(|level| (b'1'..=b'5').contains(level))? - b'0';
        match (rest.next(), rest.next()) {
            (None | Some(b'u' | b'd'), None) => Some(Self::Cache(level)),
            (Some(b'i'), None) if level <= 3 => Some(Self::InstructionCache(level)),
            _ => None,
        }
    }

    /// The position of the kind in the order of levels; `None` for the kinds that fit anywhere above `Core`.
    fn rank(self) -> Option<u8> {
        match self {
            Self::Package => Some(0),
            Self::Die => Some(1),
            Self::Numa | Self::Group => None,
            // Data caches before the instruction cache of their level: 10, 20 … for l5, l4 …
            Self::Cache(level) => Some((6 - level) * 10),
            Self::InstructionCache(level) => Some((6 - level) * 10 + 1),
            Self::Core => Some(60),
            Self::Pu => Some(61),
        }
    }

    /// The cache level, if the objects are caches that hold data.
    pub(crate) fn data_cache_level(self) -> Option<u8> {
        match self {
            Self::Cache(level) => Some(level),
            _ => None,
        }
    }
}

/// One level of the description.
#[derive(Debug)]
pub(crate) struct Level {
    pub(crate) kind: Kind,
    /// Objects in each object of the level before.
    pub(crate) count: usize,
    /// The text as written, for messages.
    pub(crate) token: String,
    pub(crate) indexes: Option<String>,
}

impl Level {
    /// The implied last level of a description without `pu`.
    pub(crate) fn implied_pu() -> Self {
        Self {
            kind: Kind::Pu,
            count: 1,
            token: String::new(),
            indexes: None,
        }
    }
}

pub(crate) fn refuse(token: &str, reason: impl Into<String>) -> TopologyError {
    TopologyError::Synthetic {
        token: token.into(),
        reason: reason.into(),
    }
}

/// What a description says.
#[derive(Debug, Default)]
pub(crate) struct Description {
    /// From the outermost to the innermost; at least one.
    pub(crate) levels: Vec<Level>,
    /// For each `[numa]`, the number of levels before it: the objects of the last of them have the
    /// node. Ascending.
    pub(crate) attached: Vec<usize>,
    /// The numbers of all attached nodes.
    pub(crate) attached_indexes: Option<String>,
}

impl Description {
    /// Adds the nodes of a `[numa]`.
    fn attach(&mut self, token: &str) -> Result<(), TopologyError> {
        let indexes = parse_attached(token)?;
        if let Some(level) = self.levels.iter().find(|level| level.kind == Kind::Numa) {
            return Err(level_and_attached(token, &level.token));
        }
        check_order(&self.levels, Kind::Numa, token)?;
        if indexes.is_some() {
            if self.attached_indexes.is_some() {
                let reason = "one list numbers all nodes in brackets, and an earlier one has it";
                return Err(refuse(token, reason));
            }
            self.attached_indexes = indexes;
        }
        self.attached.push(self.levels.len());
        Ok(())
    }

    fn add(&mut self, level: Level) -> Result<(), TopologyError> {
        let twice = |other: &&Level| other.kind == level.kind && level.kind != Kind::Group;
        if let Some(other) = self.levels.iter().find(twice) {
            return Err(refuse(
                &level.token,
                format!(
                    "the level is already given by {:?}; each may be given once",
                    other.token
                ),
            ));
        }
        if level.kind == Kind::Numa && !self.attached.is_empty() {
            return Err(level_and_attached(&level.token, "[numa]"));
        }
        check_order(&self.levels, level.kind, &level.token)?;
        self.levels.push(level);
        Ok(())
    }
}

fn level_and_attached(token: &str, other: &str) -> TopologyError {
    let reason = format!(
        "nodes are already given by {other:?}; they are one level, as numa:2, or attached to others, as [numa], and not both"
    );
    refuse(token, reason)
}

/// Parses a description, and checks each level and their order.
pub(crate) fn parse_description(text: &str) -> Result<Description, TopologyError> {
    let mut description = Description::default();
    for (position, token) in tokens(text)?.into_iter().enumerate() {
        if token.starts_with('(') {
            if position > 0 {
                return Err(refuse(
                    token,
                    "attributes stand right behind their level, as in l3:2(size=32MB)",
                ));
            }
            attributes(token, token)?;
        } else if token.starts_with('[') {
            description.attach(token)?;
        } else {
            description.add(parse_level(token)?)?;
        }
    }
    if description.levels.is_empty() {
        return Err(refuse("", format!("no level given; {LEVELS_ALLOWED}")));
    }
    Ok(description)
}

/// The tokens of a description. Blanks separate them, except between parentheses or brackets, and so
/// do the brackets of attached nodes.
fn tokens(text: &str) -> Result<Vec<&str>, TopologyError> {
    let mut tokens = Vec::new();
    let mut open: Vec<char> = Vec::new();
    let mut start = None;
    for (at, c) in text.char_indices() {
        let begun = *start.get_or_insert(at);
        if matches!(c, ')' | ']') && open.pop() != Some(c) {
            let token = &text[begun..at + c.len_utf8()];
            return Err(refuse(token, format!("{c:?} closes nothing")));
        }
        match c {
            '(' => open.push(')'),
            '[' => {
                if open.is_empty() && begun < at {
                    tokens.push(&text[begun..at]);
                    start = Some(at);
                }
                open.push(']');
            }
            ']' if open.is_empty() => {
                tokens.push(&text[begun..=at]);
                start = None;
            }
            _ if c.is_whitespace() && open.is_empty() => {
                if begun < at {
                    tokens.push(&text[begun..at]);
                }
                start = None;
            }
            _ => {}
        }
    }
    let rest = start.map_or("", |begun| &text[begun..]);
    if let Some(wanted) = open.last() {
        return Err(refuse(rest, format!("no {wanted:?} follows")));
    }
    if !rest.is_empty() {
        tokens.push(rest);
    }
    Ok(tokens)
}

/// `LEVEL:COUNT` with optional attributes.
fn parse_level(token: &str) -> Result<Level, TopologyError> {
    let (plain, bracketed) = match token.find('(') {
        Some(at) => token.split_at(at),
        None => (token, ""),
    };
    let Some((name, count)) = plain.split_once(':') else {
        return Err(refuse(token, LEVELS_ALLOWED));
    };
    let kind = Kind::parse(name).ok_or_else(|| {
        refuse(
            token,
            format!("{} is no level; {LEVELS_ALLOWED}", shown(name)),
        )
    })?;
    let count = parse_number(count)
        .filter(|count| (1..=MAX_CPUS).contains(count))
        .ok_or_else(|| {
            refuse(
                token,
                format!(
                    "{} is no count; it must be a number from 1 to {MAX_CPUS}",
                    shown(count)
                ),
            )
        })?;
    Ok(Level {
        kind,
        count,
        token: token.into(),
        indexes: attributes(token, bracketed)?,
    })
}

/// `[numa]`, optionally with attributes: one node for each object of the level before. Returns the
/// value of `indexes`.
fn parse_attached(token: &str) -> Result<Option<String>, TopologyError> {
    let inside = token.trim_start_matches('[').trim_end_matches(']').trim();
    let (name, bracketed) = match inside.find('(') {
        Some(at) => inside.split_at(at),
        None => (inside, ""),
    };
    let whole = token.matches(['[', ']']).count() == 2 && token.ends_with(']');
    if !whole || Kind::parse(name.trim()) != Some(Kind::Numa) {
        return Err(refuse(
            token,
            "only a NUMA node can be attached, as in [numa] or [numa(memory=8GB)]",
        ));
    }
    attributes(token, bracketed)
}

/// Checks `(NAME=VALUE …)`, or an empty text, and returns the value of `indexes`.
fn attributes(token: &str, bracketed: &str) -> Result<Option<String>, TopologyError> {
    if bracketed.is_empty() {
        return Ok(None);
    }
    let inside = bracketed
        .strip_prefix('(')
        .and_then(|rest| rest.strip_suffix(')'))
        .filter(|inside| !inside.contains(['(', ')']))
        .ok_or_else(|| {
            refuse(
                token,
                "attributes are one pair of parentheses behind the level",
            )
        })?;
    Ok(inside
        .split_whitespace()
        .find_map(|attribute| attribute.strip_prefix("indexes="))
        .map(str::to_owned))
}

/// Whether objects of `kind` may follow the levels before them.
fn check_order(before: &[Level], kind: Kind, token: &str) -> Result<(), TopologyError> {
    let misplaced = before
        .iter()
        .find(|other| match (other.kind.rank(), kind.rank()) {
            (Some(outer), Some(inner)) => outer > inner,
            (Some(_), None) => matches!(other.kind, Kind::Core | Kind::Pu),
            (None, _) => false,
        });
    match misplaced {
        Some(other) => Err(refuse(
            token,
            format!(
                "it cannot stand after {:?}; the order is pack, die, l5 … l1, core, pu, with numa and group anywhere \
                 above core",
                other.token
            ),
        )),
        None => Ok(()),
    }
}

/// Parses a number of decimal digits only; one that is too large becomes the largest number.
pub(crate) fn parse_number(text: &str) -> Option<usize> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(usize::MAX))
}
