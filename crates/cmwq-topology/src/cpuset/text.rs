//! The kernel's two texts for a set of CPUs: lists (`0-3,8`) and hexadecimal masks (`0000010f`).

use super::CpuSet;
use super::error::{CpuSetError, MAX_CPUS};
use std::fmt;
use std::fmt::Write as _;
use std::str::FromStr;

/// Digits in one full group of a mask: 32 CPUs.
const GROUP_DIGITS: usize = 8;
const GROUP_CPUS: usize = 32;

impl CpuSet {
    /// Reads the kernel's list form: numbers and ranges separated by commas, each range optionally
    /// with a stride, `FIRST-LAST:USED/GROUP`, which takes the first `USED` CPUs of every `GROUP`
    /// (`0-10:2/4` is `0-1,4-5,8-9`). White space around the list and its items is ignored, as is a
    /// trailing newline; the empty text is the empty set.
    ///
    /// # Errors
    /// Names the item that is not understood, or the CPU number that is not below [`MAX_CPUS`].
    pub fn parse_list(text: &str) -> Result<Self, CpuSetError> {
        let mut set = Self::new();
        if text.trim().is_empty() {
            return Ok(set);
        }
        for item in text.split(',').map(str::trim) {
            insert_item(&mut set, item)?;
        }
        Ok(set)
    }

    /// Reads the kernel's hexadecimal form: groups of 32 CPUs separated by commas, the most
    /// significant first. White space around the mask, such as a trailing newline, is ignored.
    ///
    /// # Errors
    /// Names the group that is not hexadecimal, or the CPU that is not below [`MAX_CPUS`].
    pub fn parse_mask(text: &str) -> Result<Self, CpuSetError> {
        let mut set = Self::new();
        for (group, digits) in text.trim().rsplit(',').enumerate() {
            let bad = || CpuSetError::BadGroup {
                group: digits.into(),
            };
            if digits.is_empty()
                || digits.len() > GROUP_DIGITS
                || !digits.bytes().all(|b| b.is_ascii_hexdigit())
            {
                return Err(bad());
            }
            let mut bits = u32::from_str_radix(digits, 16).map_err(|_| bad())?;
            while bits != 0 {
                set.try_insert(group * GROUP_CPUS + bits.trailing_zeros() as usize)?;
                bits &= bits - 1;
            }
        }
        Ok(set)
    }

    /// The kernel's hexadecimal form with full groups: eight digits for every 32 CPUs up to the
    /// highest member, the most significant group first. The empty set is `00000000`.
    #[must_use]
    pub fn to_mask(&self) -> String {
        let highest = self.last().unwrap_or(0);
        self.to_mask_of((highest / GROUP_CPUS + 1) * GROUP_CPUS)
    }

    /// The hexadecimal form as the kernel's `cpumask` files show it on a machine of `cpus` CPUs:
    /// only as many digits as needed (at least one), so 12 CPUs are `fff` and 40 are `ff,ffffffff`.
    /// Members at or above `cpus` are left out.
    #[must_use]
    pub fn to_mask_of(&self, cpus: usize) -> String {
        let cpus = cpus.clamp(1, MAX_CPUS);
        let groups = cpus.div_ceil(GROUP_CPUS);
        let mut out = String::with_capacity(groups * (GROUP_DIGITS + 1));
        for group in (0..groups).rev() {
            let width = (cpus - group * GROUP_CPUS).min(GROUP_CPUS);
            let bits = self.group32(group) & (u32::MAX >> (GROUP_CPUS - width));
            let digits = width.div_ceil(4);
            // Writing to a String cannot fail.
            let _ = write!(out, "{bits:0digits$x}");
            if group > 0 {
                out.push(',');
            }
        }
        out
    }
}

/// Adds one item of a list: `N`, `FIRST-LAST` or `FIRST-LAST:USED/GROUP`.
fn insert_item(set: &mut CpuSet, item: &str) -> Result<(), CpuSetError> {
    let bad_item = || CpuSetError::BadItem { item: item.into() };
    let (range, stride) = match item.split_once(':') {
        Some((range, stride)) => (range, Some(stride)),
        None => (item, None),
    };
    let (first, last) = match range.split_once('-') {
        Some((first, last)) => (number(first, bad_item)?, number(last, bad_item)?),
        None if stride.is_some() => return Err(bad_item()),
        None => {
            let cpu = number(range, bad_item)?;
            (cpu, cpu)
        }
    };
    if last < first {
        return Err(CpuSetError::Backwards { range: item.into() });
    }
    let Some(stride) = stride else {
        return set.try_insert_range(first, last);
    };
    let bad_stride = || CpuSetError::BadStride { item: item.into() };
    let (used, group) = stride.split_once('/').ok_or_else(bad_stride)?;
    let (used, group) = (number(used, bad_stride)?, number(group, bad_stride)?);
    if used == 0 || used > group {
        return Err(bad_stride());
    }
    for start in (first..=last).step_by(group) {
        set.try_insert_range(start, (start + used - 1).min(last))?;
    }
    Ok(())
}

/// A decimal number below [`MAX_CPUS`] (strides obey the same limit); `bad` makes the error for a
/// text that is not a number.
fn number(text: &str, bad: impl Fn() -> CpuSetError) -> Result<usize, CpuSetError> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(bad());
    }
    // All are digits, so parsing fails only if the number is too large.
    match text.parse::<usize>() {
        Ok(number) if number < MAX_CPUS => Ok(number),
        _ => Err(CpuSetError::TooLarge {
            number: text.into(),
        }),
    }
}

/// The kernel's list form, `0-3,8`; empty for the empty set.
impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        let mut cpus = self.iter().peekable();
        while let Some(first) = cpus.next() {
            let mut last = first;
            while cpus.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            let comma = if out.is_empty() { "" } else { "," };
            if last == first {
                write!(out, "{comma}{first}")?;
            } else {
                write!(out, "{comma}{first}-{last}")?;
            }
        }
        f.pad(&out)
    }
}

/// The list form; see [`CpuSet::parse_list`].
impl FromStr for CpuSet {
    type Err = CpuSetError;

    fn from_str(text: &str) -> Result<Self, CpuSetError> {
        Self::parse_list(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_read_as_the_kernel_reads_them() {
        for (text, shown) in [
            ("", ""),
            ("\n", ""),
            ("0\n", "0"),
            ("0-3,8", "0-3,8"),
            ("8,0-3", "0-3,8"),
            ("3,2,1,0", "0-3"),
            ("0-10:2/4", "0-1,4-5,8-9"),
            ("0-7:1/2, 32", "0,2,4,6,32"),
            ("5-5", "5"),
            ("8191", "8191"),
        ] {
            assert_eq!(
                CpuSet::parse_list(text).expect(text).to_string(),
                shown,
                "{text:?}"
            );
        }
    }

    #[test]
    fn bad_lists_are_refused_with_the_item_named() {
        let item =
            |item: &str| format!("{item:?} is not a CPU number or a range such as 0-3 or 0-15:2/4");
        let stride = |item: &str| {
            format!(
                "{item:?} has a bad stride: write FIRST-LAST:USED/GROUP with USED from 1 to GROUP"
            )
        };
        let large = |n: &str| format!("CPU {n} is too large: CPU numbers run from 0 to 8191");
        for (text, error) in [
            ("x", item("x")),
            ("0,,2", item("")),
            ("1-", item("1-")),
            ("-1", item("-1")),
            ("+1", item("+1")),
            ("0x3", item("0x3")),
            ("1 2", item("1 2")),
            ("4:1/2", item("4:1/2")),
            (
                "3-1",
                "\"3-1\" runs backwards: a range is written FIRST-LAST".into(),
            ),
            ("0-7:2", stride("0-7:2")),
            ("0-7:0/2", stride("0-7:0/2")),
            ("0-7:3/2", stride("0-7:3/2")),
            ("0-7:/", stride("0-7:/")),
            ("8192", large("8192")),
            ("0-99999999999999999999", large("99999999999999999999")),
        ] {
            let refused = CpuSet::parse_list(text).expect_err(text);
            assert_eq!(refused.to_string(), error, "{text:?}");
        }
    }

    #[test]
    fn masks_read_and_show_32_cpus_a_group() {
        for (mask, list) in [
            ("0", ""),
            ("f\n", "0-3"),
            ("80000000", "31"),
            ("1,00000000", "32"),
            ("00000000,00000000,00000003", "0-1"),
            ("ff,FFFFFFFF", "0-39"),
        ] {
            assert_eq!(
                CpuSet::parse_mask(mask).expect(mask).to_string(),
                list,
                "{mask:?}"
            );
        }
        let set = CpuSet::from_iter(0..40);
        assert_eq!(set.to_mask(), "000000ff,ffffffff");
        assert_eq!(set.to_mask_of(40), "ff,ffffffff");
        assert_eq!(set.to_mask_of(12), "fff");
        assert_eq!(CpuSet::new().to_mask(), "00000000");
        assert_eq!(CpuSet::new().to_mask_of(0), "0");
        for mask in ["", "g", "123456789", "1,", ",1", "0x1", "1 2"] {
            assert!(
                matches!(CpuSet::parse_mask(mask), Err(CpuSetError::BadGroup { .. })),
                "{mask:?}"
            );
        }
        let too_wide = format!("1{}", ",00000000".repeat(MAX_CPUS / 32));
        assert!(matches!(
            CpuSet::parse_mask(&too_wide),
            Err(CpuSetError::TooLarge { .. })
        ));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn both_forms_read_back_as_the_same_set(cpus in proptest::collection::vec(0_usize..MAX_CPUS, 0..40)) {
            let set: CpuSet = cpus.into_iter().collect();
            prop_assert_eq!(&CpuSet::parse_list(&set.to_string()).expect("a list"), &set);
            prop_assert_eq!(&CpuSet::parse_mask(&set.to_mask()).expect("a mask"), &set);
            prop_assert_eq!(&CpuSet::parse_mask(&set.to_mask_of(MAX_CPUS)).expect("a mask"), &set);
        }

        #[test]
        fn no_text_makes_the_parsers_panic(text in "[0-9a-f,:/ -]{0,24}") {
            let _ = CpuSet::parse_list(&text);
            let _ = CpuSet::parse_mask(&text);
        }
    }
}
