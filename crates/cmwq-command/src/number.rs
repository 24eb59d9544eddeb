//! Options that are numbers.

use std::fmt::Display;
use std::str::FromStr;

/// Reads an option that is a whole number of this range.
pub fn whole<T>(least: T, most: T) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: FromStr + PartialOrd + Display + Copy,
{
    move |text| {
        let number = text.parse().ok();
        let allowed = number.filter(|number| (least..=most).contains(number));
        allowed.ok_or_else(|| format!("it must be a whole number from {least} to {most}"))
    }
}
