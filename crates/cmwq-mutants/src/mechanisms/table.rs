//! What was measured, as a table in Markdown.

use super::measure::{ALL_ON, ALL_ON_AGAIN, Machine, Results};
use super::switches::Mechanism;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// A ratio that is nearer to 1 is not shown.
const SHOWN: f64 = 0.05;

/// For each mechanism and machine the loads whose figure changes if the mechanism is off, by more
/// than figures change if nothing is off.
pub(crate) fn table(mechanisms: &[&Mechanism], machines: &[Machine], results: &Results) -> String {
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
        for machine in machines {
            let _ = write!(text, " {} |", cell(mechanism.name, machine.name(), results));
        }
        text.push('\n');
    }
    text
}

fn cell(off: &str, machine: &str, results: &Results) -> String {
    let of_machine = || results.of.iter().filter(|(key, _)| key.machine == machine);
    let loads: BTreeSet<&str> = of_machine().map(|(key, _)| key.load.as_str()).collect();
    let figures = |load: &str, off: &str| -> BTreeMap<u32, f64> {
        of_machine()
            .filter(|(key, _)| key.load == load && key.off == off)
            .map(|(key, &figure)| (key.run, figure))
            .collect()
    };
    let mut shown = Vec::new();
    let mut known = false;
    for load in loads {
        let on = figures(load, ALL_ON);
        let Some(ratio) = ratio(&figures(load, off), &on) else {
            continue;
        };
        known = true;
        let spread = super::table::ratio(&figures(load, ALL_ON_AGAIN), &on);
        let spread = spread.map_or(0.0, |ratio| (ratio - 1.0).abs());
        if (ratio - 1.0).abs() <= SHOWN.max(1.5 * spread) {
            continue;
        }
        let short = load
            .replace(" completion", "")
            .replace("item_ns=1000", "1 us");
        shown.push(match ratio < 1.0 {
            true => format!("{short} **{ratio:.2}**"),
            false => format!("{short} {ratio:.2}"),
        });
    }
    match (known, shown.is_empty()) {
        (false, _) => "not run".to_owned(),
        (true, true) => "none".to_owned(),
        (true, false) => shown.join(", "),
    }
}

/// The median of the ratios of runs with the same number.
fn ratio(off: &BTreeMap<u32, f64>, on: &BTreeMap<u32, f64>) -> Option<f64> {
    let mut ratios: Vec<f64> = off
        .iter()
        .filter_map(|(run, figure)| Some(figure / on.get(run)?))
        .collect();
    ratios.sort_by(f64::total_cmp);
    let middle = ratios.len() / 2;
    match ratios.len() % 2 {
        0 => Some((ratios.get(middle.checked_sub(1)?)? + ratios.get(middle)?) / 2.0),
        _ => ratios.get(middle).copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_the_median_of_runs_that_both_have() {
        let runs = |figures: &[(u32, f64)]| figures.iter().copied().collect();
        let on = runs(&[(1, 10.0), (2, 20.0), (3, 10.0)]);
        assert_eq!(
            ratio(&runs(&[(1, 5.0), (2, 20.0), (3, 8.0)]), &on),
            Some(0.8)
        );
        assert_eq!(
            ratio(&runs(&[(1, 5.0), (3, 10.0), (4, 1.0)]), &on),
            Some(0.75)
        );
        assert_eq!(ratio(&runs(&[(4, 1.0)]), &on), None);
    }
}
