//! The environment variables that the library itself reads, each in a process of its own.

use cmwq::topology::CpuSet;
use cmwq::{Engine, Error};
use std::process::{Command, Output};
use std::time::Duration;

const CHILD: &str = "CMWQ_TEST_CHILD";
/// Four CPUs with two caches.
const MACHINE: (&str, &str) = ("CMWQ_TOPOLOGY", "l3:2 core:2 pu:1");
/// Each with the parameter that it is the first value of, and what that shows.
const VARIABLES: [(&str, &str, &str, &str); 14] = [
    ("CMWQ_CACHE_SHARD_SIZE", "5", "cache_shard_size", "5"),
    (
        "CMWQ_DEFAULT_AFFINITY_SCOPE",
        "numa",
        "default_affinity_scope",
        "numa",
    ),
    ("CMWQ_CPU_LIMIT", "3", "cpu_limit", "3"),
    ("CMWQ_CPU_LIMIT", "3", "running_limit", "3"),
    ("CMWQ_POWER_EFFICIENT", "1", "power_efficient", "Y"),
    ("CMWQ_DEBUG_FORCE_RR_CPU", "1", "debug_force_rr_cpu", "Y"),
    ("CMWQ_WATCHDOG_THRESH", "77", "watchdog_thresh", "77"),
    (
        "CMWQ_CPU_INTENSIVE_THRESH_US",
        "12345",
        "cpu_intensive_thresh_us",
        "12345",
    ),
    (
        "CMWQ_CPU_INTENSIVE_WARNING_THRESH",
        "9",
        "cpu_intensive_warning_thresh",
        "9",
    ),
    ("CMWQ_UNBOUND_CPUS", "1-2", "cpumask", "6"),
    ("CMWQ_UNBOUND_CPUS", "1-2", "cpumask_requested", "6"),
    ("CMWQ_MIX_CORE_KINDS", "1", "mix_core_kinds", "Y"),
    ("CMWQ_PANIC_ON_STALL", "7", "panic_on_stall", "7"),
    ("CMWQ_PANIC_ON_STALL_TIME", "8", "panic_on_stall_time", "8"),
];

#[test]
fn every_variable_of_the_table_is_tried() {
    for setting in Engine::parameter_settings() {
        let Some(variable) = setting.variable else {
            continue;
        };
        let tried = VARIABLES
            .iter()
            .any(|own| (own.0, own.2) == (variable, setting.name));
        assert!(tried, "{variable}");
    }
}

/// What the global engine's parameters are in a process with these variables, or the error of building it.
fn child(variables: &[(&str, &str)]) -> Output {
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    let first = "environment::every_variable_is_the_first_value_of_its_parameter";
    child.args(["--exact", first, "--nocapture"]);
    for (name, ..) in VARIABLES {
        child.env_remove(name);
    }
    child.envs([MACHINE, (CHILD, "1")]);
    child.envs(variables.iter().copied());
    child.output().expect("it ran")
}

fn says(variables: &[(&str, &str)]) -> String {
    let said = String::from_utf8_lossy(&child(variables).stdout).into_owned();
    // Behind it is how long the test took.
    let end = said.find("\ntest result").unwrap_or(said.len());
    said[..end].to_owned()
}

/// In the process that the tests start.
fn tell_parameters() {
    match Engine::global() {
        Ok(engine) => {
            // How often the process was throttled, and paused, changes while it runs.
            let settings = Engine::parameter_settings().into_iter();
            let names = settings.map(|setting| setting.name);
            for name in names.filter(|name| !name.starts_with("cpu_quota")) {
                println!("{name}={}", engine.parameter(name).expect("there"));
            }
        }
        Err(error) => println!("error: {error}"),
    }
}

#[test]
fn every_variable_is_the_first_value_of_its_parameter() {
    if std::env::var_os(CHILD).is_some() {
        return tell_parameters();
    }
    let defaults = says(&[]);
    for (variable, value, parameter, shown) in VARIABLES {
        let line = format!("{parameter}={shown}\n");
        assert!(!defaults.contains(&line), "{variable} unset: {defaults}");
        let said = says(&[(variable, value)]);
        assert!(said.contains(&line), "{variable}={value}: {said}");
        let empty = says(&[(variable, "")]);
        assert_eq!(empty, defaults, "{variable} empty counts as unset");
    }
    let all: Vec<(&str, &str)> = VARIABLES.map(|(name, value, ..)| (name, value)).into();
    let said = says(&all);
    for (_, _, parameter, shown) in VARIABLES {
        assert!(said.contains(&format!("{parameter}={shown}\n")), "{said}");
    }
}

#[test]
fn a_wrong_value_is_an_error_that_names_the_variable_and_what_is_allowed() {
    for (variable, wrong, allowed) in [
        ("CMWQ_CACHE_SHARD_SIZE", "many", "a whole number of cores"),
        ("CMWQ_CPU_LIMIT", "0", "auto, none, a number of workers"),
        ("CMWQ_CPU_LIMIT", "three", "auto, none, a number of workers"),
        ("CMWQ_DEFAULT_AFFINITY_SCOPE", "default", "cache_shard"),
        ("CMWQ_POWER_EFFICIENT", "yes", "0, 1"),
        ("CMWQ_DEBUG_FORCE_RR_CPU", "2", "0, 1"),
        ("CMWQ_WATCHDOG_THRESH", "-1", "a whole number of seconds"),
        (
            "CMWQ_CPU_INTENSIVE_THRESH_US",
            "10ms",
            "a whole number of microseconds",
        ),
        (
            "CMWQ_CPU_INTENSIVE_WARNING_THRESH",
            "4294967296",
            "a whole number from 0 to 4294967295",
        ),
        (
            "CMWQ_UNBOUND_CPUS",
            "3-1",
            "a list of CPUs such as 0-3,8, none above 8191",
        ),
        (
            "CMWQ_UNBOUND_CPUS",
            "0xf",
            "a list of CPUs such as 0-3,8, none above 8191",
        ),
    ] {
        let said = says(&[(variable, wrong)]);
        // Behind the test's name, where the machine has one CPU.
        let line = said.lines().find(|line| line.contains("error: "));
        let line = line.unwrap_or_else(|| panic!("{variable}={wrong}: {said}"));
        assert!(
            line.contains(&format!("{variable} is '{wrong}'; allowed: ")) && line.contains(allowed),
            "{line}"
        );
    }
}

#[test]
fn cpus_that_are_not_there_leave_unbound_items_where_they_were_and_are_warned_of() {
    let output = child(&[("CMWQ_UNBOUND_CPUS", "8-9")]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("cpumask=f\n"), "{said}");
    let complaint = String::from_utf8_lossy(&output.stderr);
    let ignored = "unbound_cpus 8-9 has none of the CPUs 0-3 and is ignored";
    assert!(complaint.contains(ignored), "{complaint}");
}

/// The builder's settings have priority: the environment is not even read.
#[test]
fn a_builder_is_not_overruled() {
    crate::harness::in_own_process(|| {
        // SAFETY: no other thread of this process is there that could read the environment.
        unsafe {
            std::env::set_var("CMWQ_CPU_INTENSIVE_THRESH_US", "nonsense");
            std::env::set_var("CMWQ_CPU_INTENSIVE_WARNING_THRESH", "nonsense");
            std::env::set_var("CMWQ_UNBOUND_CPUS", "nonsense");
            std::env::set_var(MACHINE.0, MACHINE.1);
        }
        let build = |threshold: Duration| {
            Engine::builder()
                .cpu_intensive_threshold(threshold)
                .cpu_intensive_warning_threshold(7)
                .unbound_cpus(CpuSet::from_iter([2]))
                .build()
        };
        let engine = build(Duration::from_millis(3)).unwrap();
        assert_eq!(engine.cpu_intensive_threshold(), Duration::from_millis(3));
        assert_eq!(engine.cpu_intensive_warning_threshold(), 7);
        assert_eq!(engine.unbound_cpumask(), CpuSet::from_iter([2]));
        let longest = build(Duration::MAX).unwrap();
        let century = Duration::from_secs(100 * 365 * 24 * 3600);
        assert!(longest.cpu_intensive_threshold() > century);
        let told_nothing = Engine::builder().build();
        assert!(matches!(
            told_nothing,
            Err(Error::Variable {
                name: "CMWQ_CPU_INTENSIVE_THRESH_US",
                ..
            })
        ));
    });
}
