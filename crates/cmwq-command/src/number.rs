//! Options that are numbers.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

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

/// Reads an option that is a number of seconds of this range, with a fraction if need be.
pub fn seconds_from(least: f64, most: f64) -> impl Fn(&str) -> Result<Duration, String> + Clone {
    move |text| {
        let number: Option<f64> = text.parse().ok();
        let allowed = number.filter(|number| (least..=most).contains(number));
        let allowed = allowed.map(Duration::from_secs_f64);
        allowed.ok_or_else(|| format!("it must be a number of seconds from {least} to {most}"))
    }
}
