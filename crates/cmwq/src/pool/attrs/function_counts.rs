//! Counts offences for each function that hogs a CPU, or sleeps where it must not.
#![forbid(unsafe_code)]

use crate::sys::map::HashMap;
use crate::sys::sync::Mutex;

/// How many functions are counted at most; later ones are ignored.
const MOST: usize = 128;

#[derive(Default)]
pub(crate) struct FunctionCounts {
    counts: Mutex<HashMap<usize, u64>>,
}

impl FunctionCounts {
    /// Counts one more offence of the function at this address. Returns how many it has now, `None`
    /// if it is not counted.
    pub(crate) fn one_more(&self, func: usize) -> Option<u64> {
        let mut counts = self.counts.lock();
        if !counts.contains_key(&func) && counts.len() == MOST {
            return None;
        }
        let count = counts.entry(func).or_insert(0);
        *count += 1;
        Some(*count)
    }
}

/// Whether the `count`th offence is to be reported: from the `threshold`th on, ever more rarely. 0: never.
pub(crate) fn worth_a_report(count: u64, threshold: u32) -> bool {
    let threshold = u64::from(threshold);
    threshold != 0 && count >= threshold && (count + 1 - threshold).is_power_of_two()
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    #[test]
    fn reports_come_at_the_kernels_counts() {
        let reported =
            |threshold| -> Vec<u64> { (1..70).filter(|&n| worth_a_report(n, threshold)).collect() };
        assert_eq!(reported(4), [4, 5, 7, 11, 19, 35, 67]);
        assert_eq!(reported(1), [1, 2, 4, 8, 16, 32, 64]);
        assert!(reported(0).is_empty());
    }

    #[test]
    fn only_so_many_functions_are_counted() {
        let function_counts = FunctionCounts::default();
        for func in 0..MOST {
            assert_eq!(function_counts.one_more(func), Some(1));
        }
        assert_eq!(function_counts.one_more(MOST), None);
        assert_eq!(function_counts.one_more(5), Some(2));
    }
}
