//! What was measured, as a table in Markdown.

use super::measure::{Machine, Results};
use super::switches::Mechanism;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// A change of a load's figure that is smaller is not shown, nor one on which the runs do not agree,
/// nor one that is not `OUTSIDE` times as far from none as the median mechanism is: most mechanisms
/// change nothing in one load, so theirs show how far figures of the same library are apart.
const SHOWN: f64 = 0.05;
const OUTSIDE: f64 = 4.0;

/// For each mechanism and machine the loads whose figure changes if the mechanism is off.
pub(crate) fn table(mechanisms: &[&Mechanism], machines: &[Machine], results: &Results) -> String {
    let of_machines: Vec<Changes> = machines
        .iter()
        .map(|machine| changes(machine.name(), results))
        .collect();
    let mut text = String::from("| mechanism |");
    for machine in machines {
        // Writing to a string does not fail.
        let _ = write!(text, " {} |", machine.name());
    }
    text += "\n|---|";
    text += &"---|".repeat(machines.len());
    text.push('\n');
    for mechanism in mechanisms {
        let _ = write!(text, "| {} |", mechanism.name);
        for changes in &of_machines {
            let _ = write!(text, " {} |", cell(changes.get(mechanism.name)));
        }
        text.push('\n');
    }
    text
}

fn cell(changes: Option<&BTreeMap<String, f64>>) -> String {
    let Some(changes) = changes else {
        return "not run".to_owned();
    };
    if changes.is_empty() {
        return "none".to_owned();
    }
    let shown: Vec<String> = changes
        .iter()
        .map(|(load, ratio)| match *ratio < 1.0 {
            true => format!("{load} **{ratio:.2}**"),
            false => format!("{load} {ratio:.2}"),
        })
        .collect();
    shown.join(", ")
}

/// By what is off, and by load: the figure as a part of what it is otherwise.
type Changes = BTreeMap<String, BTreeMap<String, f64>>;

fn changes(machine: &str, results: &Results) -> Changes {
    let of_machine = || results.of.iter().filter(|(key, _)| key.machine == machine);
    let loads: BTreeSet<&str> = of_machine().map(|(key, _)| key.load.as_str()).collect();
    let mut changes = Changes::new();
    for load in loads {
        let mut runs: BTreeMap<u32, Vec<(&str, f64)>> = BTreeMap::new();
        for (key, &figure) in of_machine().filter(|(key, _)| key.load == load) {
            let run = runs.entry(key.run).or_default();
            run.push((key.off.as_str(), figure));
        }
        let ratios = ratios(runs.into_values());
        let far = median(
            ratios
                .values()
                .map(|of| (median(of.iter().copied()) - 1.0).abs()),
        );
        let short = load
            .replace(" completion", "")
            .replace("item_ns=1000", "1 us");
        for (off, ratios) in ratios {
            let of_mechanism = changes.entry(off.to_owned()).or_default();
            let ratio = median(ratios.iter().copied());
            if (ratio - 1.0).abs() > SHOWN.max(OUTSIDE * far) && agree(&ratios) {
                of_mechanism.insert(short.clone(), ratio);
            }
        }
    }
    changes
}

/// For each that was off, its figure in each run as a part of the median of that run.
fn ratios<'a>(runs: impl Iterator<Item = Vec<(&'a str, f64)>>) -> BTreeMap<&'a str, Vec<f64>> {
    let mut of: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for run in runs {
        let middle = median(run.iter().map(|(_, figure)| *figure));
        for (off, figure) in run {
            of.entry(off).or_default().push(figure / middle);
        }
    }
    of
}

/// Whether all runs say that it is better, or all that it is worse; of five and more all but one.
fn agree(ratios: &[f64]) -> bool {
    let better = ratios.iter().filter(|&&ratio| ratio > 1.0).count();
    let others = better.min(ratios.len() - better);
    others <= usize::from(ratios.len() >= 5)
}

/// Of at least one number.
fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    match numbers.len() % 2 {
        0 => f64::midpoint(numbers[middle - 1], numbers[middle]),
        _ => numbers[middle],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_that_to_the_median_of_its_run() {
        let first = vec![("-", 10.0), ("a", 5.0), ("b", 11.0)];
        let second = vec![("-", 20.0), ("a", 30.0), ("b", 16.0)];
        let ratios = ratios([first, second].into_iter());
        assert_eq!(ratios["a"], [0.5, 1.5]);
    }

    #[test]
    fn runs_agree_if_no_more_than_one_of_five_says_something_else() {
        assert!(agree(&[0.9]) && agree(&[0.9, 0.8, 0.7]) && agree(&[1.1, 1.2]));
        assert!(!agree(&[0.9, 1.1]) && !agree(&[0.9, 0.8, 0.7, 1.1]));
        assert!(agree(&[0.9, 0.8, 0.7, 1.1, 0.9]) && !agree(&[0.9, 0.8, 1.2, 1.1, 0.9]));
    }

    #[test]
    fn what_is_no_further_off_than_others_is_not_shown() {
        let text =
            "m\tl\t-\t1\t100\nm\tl\ta\t1\t104\nm\tl\tb\t1\t97\nm\tl\tc\t1\t70\nm\tl\td\t1\t106\n";
        let path = std::env::temp_dir().join(format!("results-{}", std::process::id()));
        std::fs::write(&path, text).expect("a file");
        let results = Results::read(&path).expect("they are well-formed");
        std::fs::remove_file(&path).expect("it was written");
        let changes = changes("m", &results);
        assert_eq!(cell(changes.get("c")), "l **0.70**");
        for same in ["-", "a", "b", "d"] {
            assert_eq!(cell(changes.get(same)), "none", "{same}");
        }
        assert_eq!(cell(changes.get("e")), "not run");
    }
}
