//! The date of a report.

use std::time::Duration;

/// A time since 1970 as `2026-11-21 10:33:37 UTC`.
pub(super) fn utc(since_1970: Duration) -> String {
    let seconds = since_1970.as_secs();
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Years that start in March put the leap day at their end; 719_468 days lie between 0000-03-01
    // and 1970-01-01.
    let days = days + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_around_leap_days() {
        let text = |seconds| utc(Duration::from_secs(seconds));
        assert_eq!(text(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(text(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(text(1_709_251_199), "2024-02-29 23:59:59 UTC");
        assert_eq!(text(1_795_257_217), "2026-11-21 10:33:37 UTC");
    }
}
