//! The machine in words, today's date, and how long an item computes.

use std::hint::black_box;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Processor and kernel.
pub(crate) fn describe() -> String {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo
        .lines()
        .find(|line| line.starts_with("model name"))
        .and_then(|line| line.split_once(':'))
        .map_or("a processor without a name", |(_, name)| name.trim());
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let kernel = release.trim().split('-').next().unwrap_or_default();
    format!("{model}, Linux {kernel}")
}

/// Today in universal time, as year-month-day.
pub(crate) fn today() -> String {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs());
    let (year, month, day) = civil(seconds / 86_400);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Year, month and day of a number of days since 1970 (Gregorian; years begin in March while computing).
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// The computing of an item, as every program does it.
fn spin(steps: u64) {
    let mut x = black_box(0x9e37_79b9_7f4a_7c15_u64);
    for _ in 0..steps {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    black_box(x);
}

/// How long the steps of [`calibrate_spin`] take.
pub(crate) const SPIN: Duration = Duration::from_micros(20);

/// Steps that take [`SPIN`], and how long they take. The shortest of many tries: those that nothing
/// disturbed.
pub(crate) fn calibrate_spin() -> (u64, f64) {
    let wanted_ns = SPIN.as_nanos() as f64;
    const TRIAL: u64 = 20_000;
    let shortest = |steps: u64| {
        let time = || {
            let start = Instant::now();
            spin(steps);
            start.elapsed()
        };
        let tries = (0..2_000).map(|_| time());
        tries.min().map_or(wanted_ns, |time| time.as_nanos() as f64)
    };
    let steps = (TRIAL as f64 * wanted_ns / shortest(TRIAL))
        .round()
        .max(1.0) as u64;
    (steps, shortest(steps))
}

#[cfg(test)]
mod tests {
    use super::civil;

    #[test]
    fn days_have_dates() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(11_017), (2000, 3, 1));
        assert_eq!(civil(20_778), (2026, 11, 21));
    }
}
