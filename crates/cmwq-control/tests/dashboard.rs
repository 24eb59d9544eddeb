//! docs/grafana-dashboard.json: each metric that it asks for is one that a process has, and its
//! panels have places of their own.
//!
//! It fails when a metric has another name there or here, when two panels stand at one place, or
//! when a panel's legend or a variable lacks a field that Grafana's schema requires.

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// The names that begin with `cmwq_`.
fn names(text: &str) -> BTreeSet<&str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_name(c));
    words.filter(|word| word.starts_with("cmwq_")).collect()
}

#[test]
fn the_dashboard_asks_for_metrics_that_exist() {
    let folder = tempfile::tempdir().expect("a folder");
    let control = cmwq_control::ControlBuilder::new()
        .dir(folder.path().join("cmwq"))
        .serve()
        .expect("an endpoint");
    // Some metrics exist only where there is a bound on what waits.
    let wq = cmwq::Workqueue::builder("dashboard")
        .max_waiting(8)
        .build()
        .expect("a queue");
    wq.spawn(|| {}).join().expect("no panic");
    let mut client = cmwq_control::Client::connect_to(control.path()).expect("a client");
    let metrics = client.metrics().expect("metrics");
    let existing = names(&metrics);

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/grafana-dashboard.json");
    let text = std::fs::read_to_string(path).expect("the dashboard");
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    assert!(panels.len() >= 8);
    let (mut ids, mut places) = (BTreeSet::new(), BTreeSet::new());
    for panel in panels {
        let title = &panel["title"];
        let place = &panel["gridPos"];
        assert!(ids.insert(panel["id"].as_u64()), "{title}: its id is taken");
        let corner = (place["x"].as_u64(), place["y"].as_u64());
        assert!(places.insert(corner), "{title}: its place is taken");
        // What Grafana's schema requires; `scripts/dashboard` checks all of it.
        for field in ["calcs", "displayMode", "placement", "showLegend"] {
            let legend = &panel["options"]["legend"];
            assert!(!legend[field].is_null(), "{title}: its legend's {field}");
        }
        let targets = panel["targets"].as_array().expect("targets");
        for expression in targets
            .iter()
            .map(|target| target["expr"].as_str().expect("text"))
        {
            let asked = names(expression);
            assert_eq!(asked.len(), 1, "{title}: {expression}");
            let missing: Vec<_> = asked.difference(&existing).collect();
            assert!(missing.is_empty(), "{title}: {missing:?} of {existing:?}");
        }
    }
    let variables = dashboard["templating"]["list"]
        .as_array()
        .expect("variables");
    for variable in variables {
        for field in ["text", "value"] {
            let name = &variable["name"];
            assert!(
                !variable["current"][field].is_null(),
                "{name}: its {field} at first"
            );
        }
        if let Some(definition) = variable["definition"].as_str() {
            assert!(names(definition).is_subset(&existing), "{definition}");
        }
    }
}
