//! Numbers and switches as the kernel's files parse them, and the errors that they return.
#![forbid(unsafe_code)]

use crate::topology::{CpuSet, CpuSetError};
use std::fmt;
use std::time::Duration;

/// A function that sets a value of a `T` from a text.
pub(crate) type SetText<T> = fn(&T, &str) -> Result<(), TextError>;

/// Says by which of the kernel's error numbers a text was refused, for tools that behave as its
/// files do.
///
/// ```
/// use cmwq::observe::Errno;
///
/// let engine = cmwq::Engine::global()?;
/// let error = engine.set_parameter("no_such_parameter", "1").unwrap_err();
/// assert_eq!(error.errno, Errno::NoEnt);
/// assert_eq!(error.errno.name(), "ENOENT");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Errno {
    /// The text is not valid here.
    Inval,
    /// The number does not fit into its type.
    Range,
    /// The mask has more CPUs than there can be.
    Overflow,
    /// The file is read-only.
    Acces,
    /// There is no such file: queue, attribute or parameter.
    NoEnt,
}

impl Errno {
    /// The name, such as `EINVAL`.
    pub fn name(self) -> &'static str {
        match self {
            Errno::Inval => "EINVAL",
            Errno::Range => "ERANGE",
            Errno::Overflow => "EOVERFLOW",
            Errno::Acces => "EACCES",
            Errno::NoEnt => "ENOENT",
        }
    }

    /// The number of the error, as in the C header `errno.h`.
    pub fn code(self) -> i32 {
        match self {
            Errno::Inval => libc::EINVAL,
            Errno::Range => libc::ERANGE,
            Errno::Overflow => libc::EOVERFLOW,
            Errno::Acces => libc::EACCES,
            Errno::NoEnt => libc::ENOENT,
        }
    }
}

/// Says why a text was refused: the error number that the kernel's file returns, and a line that
/// says what is allowed.
///
/// ```
/// let engine = cmwq::Engine::global()?;
/// let error = engine.set_parameter("default_affinity_scope", "moon").unwrap_err();
/// println!("{} {}", error.errno.name(), error.message);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError {
    /// What the kernel's file returns.
    pub errno: Errno,
    /// One line with the refused value and what is allowed.
    pub message: String,
}

impl TextError {
    pub(crate) fn new(errno: Errno, message: impl Into<String>) -> Self {
        TextError {
            errno,
            message: message.into(),
        }
    }

    /// Adds the name of the file to the message.
    pub(crate) fn of(self, name: &str) -> Self {
        Self::new(self.errno, format!("{name}: {}", self.message))
    }
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.errno.name(), self.message)
    }
}

impl std::error::Error for TextError {}

/// Makes the error for a text that is not a valid value.
pub(crate) fn inval(error: impl fmt::Display) -> TextError {
    TextError::new(Errno::Inval, error.to_string())
}

/// Returns a text for use in a message: quoted, and cut to a bounded length.
pub(crate) fn shown(text: &str) -> String {
    /// The largest number of characters of the text that are shown.
    const MOST: usize = 40;
    if text.chars().count() <= MOST {
        return format!("{text:?}");
    }
    let begin: String = text.chars().take(MOST).collect();
    format!("{begin:?}...")
}

/// Parses the integer at the beginning of a text as the kernel's files of workqueues do: leading
/// white space is skipped, and text behind the digits is ignored. A value that is too large is cut
/// to the largest one.
pub(crate) fn leading_integer(text: &str) -> Option<i64> {
    let text = text.trim_start();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let end = digits
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(digits.len());
    if end == 0 {
        return None;
    }
    let value = digits[..end].parse().unwrap_or(i64::MAX);
    Some(if negative { -value } else { value })
}

/// Parses a whole number as the kernel does for module parameters: decimal, hexadecimal with `0x`
/// or octal with `0`, with at most one newline behind it and nothing else around it.
pub(crate) fn unsigned(text: &str, most: u64) -> Result<u64, TextError> {
    let digits = text.strip_suffix('\n').unwrap_or(text);
    let digits = digits.strip_prefix('+').unwrap_or(digits);
    let (digits, radix) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&digits[2..], 16),
        [b'0', _, ..] => (&digits[1..], 8),
        _ => (digits, 10),
    };
    let allowed = format!("a whole number from 0 to {most}");
    let is_number = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
    if !is_number {
        let message = format!("{} is not a number: it must be {allowed}", shown(text));
        return Err(TextError::new(Errno::Inval, message));
    }
    match u64::from_str_radix(digits, radix) {
        Ok(value) if value <= most => Ok(value),
        _ => {
            let message = format!("{} is too large: it must be {allowed}", shown(text));
            Err(TextError::new(Errno::Range, message))
        }
    }
}

pub(crate) fn u32_of(text: &str) -> Result<u32, TextError> {
    let number = unsigned(text, u32::MAX.into())?;
    Ok(u32::try_from(number).unwrap_or(u32::MAX))
}

/// Returns a time in whole units. A time of less than one unit counts as 1, because 0 would mean
/// "never".
pub(crate) fn whole<U: Into<u128>>(time: Duration, units: fn(&Duration) -> U) -> String {
    let units: u128 = units(&time).into();
    units.max(u128::from(!time.is_zero())).to_string()
}

/// Parses a time in seconds. Twice the time must still fit into a number of nanoseconds.
pub(crate) fn seconds(text: &str) -> Result<Duration, TextError> {
    let number = unsigned(text, u64::MAX / 4_000_000_000)?;
    Ok(Duration::from_secs(number))
}

/// Parses a switch as the kernel does for module parameters. Only the beginning of the text counts:
/// `1`, `y`, `t` or `on` for on, `0`, `n`, `f` or `of` for off, in either case.
pub(crate) fn switch(text: &str) -> Result<bool, TextError> {
    match text.as_bytes() {
        [b'1' | b'y' | b'Y' | b't' | b'T', ..] | [b'o' | b'O', b'n' | b'N', ..] => Ok(true),
        [b'0' | b'n' | b'N' | b'f' | b'F', ..] | [b'o' | b'O', b'f' | b'F', ..] => Ok(false),
        _ => Err(TextError::new(
            Errno::Inval,
            format!("{} is not a switch: it must be Y or N", shown(text)),
        )),
    }
}

/// Returns how many CPU numbers have a digit in a mask.
pub(crate) fn possible_numbers(possible: &CpuSet) -> usize {
    possible.last().map_or(1, |last| last + 1)
}

/// Parses a mask as the kernel's `cpumask` files do.
pub(crate) fn parse_mask(text: &str) -> Result<CpuSet, TextError> {
    CpuSet::parse_mask(text).map_err(|error| {
        let errno = match error {
            CpuSetError::TooLarge { .. } => Errno::Overflow,
            _ => Errno::Inval,
        };
        TextError::new(errno, error.to_string())
    })
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    #[test]
    fn files_of_workqueues_take_what_begins_with_an_integer() {
        let taken = [
            ("16", 16),
            ("16\n", 16),
            (" \t-20\n", -20),
            ("7abc", 7),
            ("0x10", 0),
            ("3.9", 3),
            ("99999999999999999999999", i64::MAX),
            ("-99999999999999999999999", -i64::MAX),
        ];
        for (text, value) in taken {
            assert_eq!(leading_integer(text), Some(value), "{text:?}");
        }
        for text in ["", "\n", "x", "-", "--1", "- 1", "+5", "\u{665}"] {
            assert_eq!(leading_integer(text), None, "{text:?}");
        }
    }

    #[test]
    fn parameters_take_numbers_of_three_kinds_and_nothing_around_them() {
        for (text, value) in [("10", 10), ("010", 8), ("0x10\n", 16), ("0", 0), ("+7", 7)] {
            assert_eq!(unsigned(text, 100), Ok(value), "{text:?}");
        }
        for text in [
            "", "\n", "-1", " 1", "1 ", "1\n\n", "08", "0x", "ten", "1.5", "++1",
        ] {
            assert_eq!(
                unsigned(text, 100).map_err(|e| e.errno),
                Err(Errno::Inval),
                "{text:?}"
            );
        }
        for text in ["101", "0x65", "99999999999999999999999"] {
            assert_eq!(
                unsigned(text, 100).map_err(|e| e.errno),
                Err(Errno::Range),
                "{text:?}"
            );
        }
    }

    #[test]
    fn switches_look_at_their_beginning_only() {
        for text in ["1", "Y", "yes\n", "true", "on", "ON"] {
            assert_eq!(switch(text), Ok(true), "{text:?}");
        }
        for text in ["0", "N\n", "no", "F", "off", "0x1"] {
            assert_eq!(switch(text), Ok(false), "{text:?}");
        }
        for text in ["", "\n", "2", "o", "x", " 1", "-1"] {
            assert!(switch(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn messages_are_one_line_of_bounded_length() {
        let error = unsigned(&"9\n".repeat(1000), 7).expect_err("not a number");
        assert!(
            error.message.len() < 200 && !error.message.contains('\n'),
            "{error}"
        );
    }
}
