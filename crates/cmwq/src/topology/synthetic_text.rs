//! Parses the text of a synthetic description, level by level. `synthetic` defines what the levels mean.
#![forbid(unsafe_code)]

use super::cpuset::CpuSet;
use super::cpuset_error::MAX_CPUS;
use super::error::{TopologyError, shown};

const LEVELS_ALLOWED: &str = "levels are pack, die, numa, group, l5 to l1 (l1i to l3i), core and pu, written LEVEL:COUNT, such as core:8";

/// The kind of a level's objects, ordered from the outermost to the innermost; `Numa` and `Group` fit anywhere above `Core`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::topology) enum Kind {
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
    fn parse(name: &str) -> Option<Self> {
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
    pub(in crate::topology) fn data_cache_level(self) -> Option<u8> {
        match self {
            Self::Cache(level) => Some(level),
            _ => None,
        }
    }
}

/// One level of the description.
#[derive(Debug)]
pub(in crate::topology) struct Level {
    pub(in crate::topology) kind: Kind,
    /// Objects in each object of the level before.
    pub(in crate::topology) count: usize,
    /// The text as written, for messages.
    pub(in crate::topology) token: String,
    pub(in crate::topology) indexes: Option<Indexes>,
}

impl Level {
    /// The implied last level of a description without `pu`.
    pub(in crate::topology) fn implied_pu() -> Self {
        Self {
            kind: Kind::Pu,
            count: 1,
            token: String::new(),
            indexes: None,
        }
    }
}

/// The value of an `indexes=` attribute.
#[derive(Debug)]
pub(in crate::topology) struct Indexes {
    text: String,
}

impl Indexes {
    /// The numbers of `total` objects, in the order of the objects.
    pub(in crate::topology) fn numbers(&self, total: usize) -> Result<Vec<usize>, TopologyError> {
        let numbers = if self.text.contains('*') {
            self.loops(total)?
        } else {
            self.text
                .split(',')
                .map(|number| self.number(number))
                .collect::<Result<_, _>>()?
        };
        if numbers.len() != total {
            return Err(self.refuse(&format!(
                "it numbers {} objects, and there are {total}",
                numbers.len()
            )));
        }
        let mut seen = CpuSet::new();
        for &number in &numbers {
            let new = seen
                .try_insert(number)
                .map_err(|error| self.refuse(&error.to_string()))?;
            if !new {
                return Err(self.refuse(&format!("it gives the number {number} twice")));
            }
        }
        Ok(numbers)
    }

    /// `STEP*COUNT` loops, the innermost first.
    fn loops(&self, total: usize) -> Result<Vec<usize>, TopologyError> {
        let mut numbers = vec![0_usize];
        for item in self.text.split(':') {
            let (step, count) = item
                .split_once('*')
                .ok_or_else(|| self.refuse(&format!("{} is not STEP*COUNT", shown(item))))?;
            let (step, count) = (self.number(step)?, self.number(count)?);
            if numbers.len().saturating_mul(count) > total {
                return Err(self.refuse(&format!(
                    "it numbers more objects than the {total} there are"
                )));
            }
            // At most MAX_CPUS steps of at most MAX_CPUS, a few times: no overflow.
            numbers = (0..count)
                .flat_map(|turn| numbers.iter().map(move |number| number + turn * step))
                .collect();
        }
        Ok(numbers)
    }

    fn number(&self, text: &str) -> Result<usize, TopologyError> {
        parse_number(text)
            .filter(|&number| number < MAX_CPUS)
            .ok_or_else(|| {
                self.refuse(&format!(
                    "{} is not a number from 0 to {}",
                    shown(text),
                    MAX_CPUS - 1
                ))
            })
    }

    fn refuse(&self, reason: &str) -> TopologyError {
        refuse(
            &format!("indexes={}", self.text),
            format!("{reason}; write every number, as in 0,2,1,3, or loops, as in 2*2:1*2"),
        )
    }
}

pub(in crate::topology) fn refuse(token: &str, reason: impl Into<String>) -> TopologyError {
    TopologyError::Synthetic {
        token: token.into(),
        reason: reason.into(),
    }
}

/// Parses a description, and checks each level and their order. At least one level.
pub(in crate::topology) fn parse_levels(text: &str) -> Result<Vec<Level>, TopologyError> {
    let mut levels: Vec<Level> = Vec::new();
    for (position, token) in tokens(text)?.into_iter().enumerate() {
        if token.starts_with('(') {
            if position > 0 {
                return Err(refuse(
                    token,
                    "attributes stand right behind their level, as in l3:2(size=32MB)",
                ));
            }
            attributes(token, token)?;
            continue;
        }
        let level = if token.starts_with('[') {
            parse_attached(token)?
        } else {
            parse_level(token)?
        };
        check_order(&levels, &level)?;
        levels.push(level);
    }
    if levels.is_empty() {
        return Err(refuse("", format!("no level given; {LEVELS_ALLOWED}")));
    }
    Ok(levels)
}

/// The blank-separated tokens of a description; blanks between parentheses or brackets do not separate.
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
            '[' => open.push(']'),
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

/// `[numa]`, optionally with attributes: one node for each object of the level before.
fn parse_attached(token: &str) -> Result<Level, TopologyError> {
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
    Ok(Level {
        kind: Kind::Numa,
        count: 1,
        token: token.into(),
        indexes: attributes(token, bracketed)?,
    })
}

/// Checks `(NAME=VALUE …)`, or an empty text, and returns the value of `indexes`.
fn attributes(token: &str, bracketed: &str) -> Result<Option<Indexes>, TopologyError> {
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
        .map(|text| Indexes { text: text.into() }))
}

/// Whether `level` may follow the levels before it.
fn check_order(before: &[Level], level: &Level) -> Result<(), TopologyError> {
    let twice = |other: &&Level| other.kind == level.kind && level.kind != Kind::Group;
    if let Some(other) = before.iter().find(twice) {
        return Err(refuse(
            &level.token,
            format!(
                "the level is already given by {:?}; each may be given once",
                other.token
            ),
        ));
    }
    let misplaced = before
        .iter()
        .find(|other| match (other.kind.rank(), level.kind.rank()) {
            (Some(outer), Some(inner)) => outer > inner,
            (Some(_), None) => matches!(other.kind, Kind::Core | Kind::Pu),
            (None, _) => false,
        });
    match misplaced {
        Some(other) => Err(refuse(
            &level.token,
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
fn parse_number(text: &str) -> Option<usize> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(usize::MAX))
}
