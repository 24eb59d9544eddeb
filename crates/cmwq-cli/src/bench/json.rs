//! `--format json`: the report as it is, one object.

use cmwq_command::CliError;

use super::report::Report;

/// The report as indented JSON that ends with a newline.
pub(super) fn render(report: &Report) -> Result<String, CliError> {
    let mut text = serde_json::to_string(report)
        .map_err(|error| CliError::failed(format!("cannot write the results as JSON: {error}")))?;
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use crate::bench::report::tests::{sample, sample_on};

    #[test]
    fn the_object_holds_what_the_help_promises() {
        let text = super::render(&sample(|_| ())).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["format"], "cmwq-bench");
        assert_eq!(value["version"], 2);
        for field in [
            "description",
            "source",
            "cpu_model",
            "kernel",
            "cpus",
            "llcs",
            "real_cpus",
        ] {
            assert!(!value["machine"][field].is_null(), "machine.{field}");
        }
        for field in ["threads", "items", "items_calibrated", "runs", "strict"] {
            assert!(!value["settings"][field].is_null(), "settings.{field}");
        }
        let result = &value["results"][0];
        assert!(result["pods"].is_u64() && result["same_pods_as"].is_null());
        for bound in ["low", "high", "confidence"] {
            let interval = &result["ratio_to_cache"]["interval"];
            assert!(
                interval[bound].is_number(),
                "ratio_to_cache.interval.{bound}"
            );
        }
        assert_eq!(result["label"], "cpu");
        assert!(result["shard_size"].is_null());
        for field in [
            "items_per_s",
            "ratio_to_cache",
            "workers_created",
            "wakeups_per_item",
            "stolen_per_item",
            "cpu_percent",
        ] {
            assert!(result[field]["median"].is_number(), "results.{field}");
        }
        for kind in ["enqueue_ns", "round_trip_ns"] {
            for percentile in ["p50", "p90", "p95", "p99"] {
                assert!(result[kind][percentile]["max"].is_number());
                assert!(result["runs"][0][kind][percentile].is_u64());
            }
        }
        assert_eq!(result["runs"].as_array().unwrap().len(), 9);
    }

    #[test]
    fn every_scope_is_there_even_if_another_was_measured_for_it() {
        let text = super::render(&sample_on("l3:1 core:2 pu:1", |_| ())).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let results = value["results"].as_array().unwrap();
        assert_eq!(results.len(), 6);
        assert_eq!(results[4]["label"], "numa");
        assert_eq!(results[4]["same_pods_as"], "cache");
        assert_eq!(results[4]["items_per_s"], results[3]["items_per_s"]);
        assert_eq!(results[4]["ratio_to_cache"]["median"], 1.0);
        assert!(results[4]["ratio_to_cache"]["interval"].is_null());
    }
}
