//! What was measured, as a table in Markdown.

use super::measure::{Machine, Results};
use super::switches::Mechanism;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// A change of a load's figure that is smaller is not shown, nor one that is not `OUTSIDE` times as
/// far from none as the median mechanism is: most mechanisms change nothing in one load, so theirs
/// show how far figures of the same library are apart.
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
        let far = median(ratios.values().map(|ratio| (ratio - 1.0).abs()));
        let short = load
            .replace(" completion", "")
            .replace("item_ns=1000", "1 us");
        for (off, ratio) in ratios {
            let of_mechanism = changes.entry(off.to_owned()).or_default();
            if (ratio - 1.0).abs() > SHOWN.max(OUTSIDE * far) {
                of_mechanism.insert(short.clone(), ratio);
            }
        }
    }
    changes
}

/// For each that was off, the median over all runs of its figure as a part of the median of the same
/// run.
fn ratios<'a>(runs: impl Iterator<Item = Vec<(&'a str, f64)>>) -> BTreeMap<&'a str, f64> {
    let mut of: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for run in runs {
        let middle = median(run.iter().map(|(_, figure)| *figure));
        for (off, figure) in run {
            of.entry(off).or_default().push(figure / middle);
        }
    }
    of.into_iter()
        .map(|(off, ratios)| (off, median(ratios.into_iter())))
        .collect()
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
    fn a_ratio_is_the_median_of_what_each_run_says() {
        let first = vec![("-", 10.0), ("a", 5.0), ("b", 11.0)];
        let second = vec![("-", 20.0), ("a", 12.0), ("b", 19.0)];
        let third = vec![("-", 10.0), ("a", 8.0), ("b", 10.0)];
        let ratios = ratios([first, second, third].into_iter());
        let a = ratios["a"];
        assert!((a - 12.0 / 19.0).abs() < 1e-9, "{a}");
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
