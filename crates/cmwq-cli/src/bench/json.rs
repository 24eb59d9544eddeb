//! `--format json`: the report as it is, one object.

use crate::cli_error::CliError;

use super::report::Report;

/// The report as indented JSON that ends with a newline.
pub(super) fn render(report: &Report) -> Result<String, CliError> {
    let mut text = serde_json::to_string_pretty(report)
        .map_err(|error| CliError::new(format!("cannot write the results as JSON: {error}")))?;
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use crate::bench::report::tests::sample;

    #[test]
    fn the_object_holds_what_the_help_promises() {
        let text = super::render(&sample(|o| o.wake_under_lock = true)).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["format"], "cmwq-bench");
        assert_eq!(value["version"], 1);
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
        for field in [
            "threads",
            "items",
            "items_calibrated",
            "runs",
            "strict",
            "wake_under_lock",
        ] {
            assert!(!value["settings"][field].is_null(), "settings.{field}");
        }
        let result = &value["results"][1];
        assert_eq!(result["label"], "cpu");
        assert_eq!(result["wake"], "under_lock");
        assert!(result["shard_size"].is_null());
        for field in [
            "items_per_s",
            "ratio_to_cache",
            "workers_created",
            "wakeups_per_item",
            "helps_per_item",
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
        assert_eq!(result["runs"].as_array().unwrap().len(), 3);
        assert!(value["wake_ratios"][0]["enqueue_p95"]["median"].is_number());
    }
}
