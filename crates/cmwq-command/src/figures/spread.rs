//! Figures over several runs.

use serde::Serialize;

/// Sums up one figure over several runs: the median and the range.
///
/// ```
/// use cmwq_command::figures::Spread;
///
/// let Spread { median, min, max } = Spread::of([3.0, 1.0, 2.0]);
/// assert_eq!((median, min, max), (2.0, 1.0, 3.0));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// Of an even number: the mean of the middle two.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// Median (of an even number: the mean of the middle two), least and greatest. Zeros without values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (Some(&min), Some(&max)) = (values.first(), values.last()) else {
            return Spread {
                median: 0.0,
                min: 0.0,
                max: 0.0,
            };
        };
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            (values[middle - 1] + values[middle]) / 2.0
        };
        Spread { median, min, max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_is_median_least_and_greatest() {
        assert_eq!(
            Spread::of([3.0, 1.0, 2.0]),
            Spread {
                median: 2.0,
                min: 1.0,
                max: 3.0
            }
        );
        assert_eq!(
            Spread::of([4.0, 1.0, 2.0, 3.0]),
            Spread {
                median: 2.5,
                min: 1.0,
                max: 4.0
            }
        );
        assert_eq!(
            Spread::of([7.0]),
            Spread {
                median: 7.0,
                min: 7.0,
                max: 7.0
            }
        );
        assert_eq!(
            Spread::of([]),
            Spread {
                median: 0.0,
                min: 0.0,
                max: 0.0
            }
        );
    }
}
