//! Which CPUs this process may run on.

use std::fs;
use std::io;

use rustix::io::Errno;
use rustix::process::getpid;
use rustix::thread::{CpuSet as SystemCpuSet, sched_getaffinity};

use crate::cpuset::CpuSet;
use crate::error::TopologyError;

/// Tells the mask where the fixed-size set of the system call is too small for the kernel.
const STATUS_FILE: &str = "/proc/self/status";
const STATUS_LINE: &str = "Cpus_allowed:";

/// The CPUs this process may run on: those of its first thread, so that the answer does not depend
/// on the calling thread, which may have pinned itself.
///
/// The wrapper's set holds 1,024 CPUs. A kernel built for more refuses it (`EINVAL`); then the same
/// mask is read from `/proc/self/status`.
pub fn process_cpus() -> Result<CpuSet, TopologyError> {
    match sched_getaffinity(Some(getpid())) {
        Ok(set) => Ok((0..SystemCpuSet::MAX_CPU)
            .filter(|&cpu| set.is_set(cpu))
            .collect()),
        // More CPUs than the set holds, or refused by a filter: the file has the same mask.
        Err(Errno::INVAL | Errno::PERM | Errno::NOSYS | Errno::ACCESS) => {
            let error = |error| TopologyError::Allowed { error };
            parse_status(&fs::read_to_string(STATUS_FILE).map_err(error)?).map_err(error)
        }
        Err(errno) => Err(TopologyError::Allowed {
            error: errno.into(),
        }),
    }
}

/// The mask on the `Cpus_allowed:` line of a `status` file.
fn parse_status(status: &str) -> io::Result<CpuSet> {
    let invalid = |reason: String| io::Error::new(io::ErrorKind::InvalidData, reason);
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix(STATUS_LINE))
        .ok_or_else(|| invalid(format!("{STATUS_FILE} has no line {STATUS_LINE}")))?;
    CpuSet::parse_mask(mask)
        .map_err(|error| invalid(format!("{STATUS_FILE}, line {STATUS_LINE} {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_call_and_the_status_file_agree() {
        let by_call = process_cpus().expect("allowed CPUs");
        let by_file =
            parse_status(&fs::read_to_string(STATUS_FILE).expect("status")).expect("mask");
        assert_eq!(by_call, by_file);
        assert!(!by_call.is_empty());
    }

    #[test]
    fn a_status_file_without_a_mask_is_an_error() {
        assert!(parse_status("Name:\tx\n").is_err());
        assert!(parse_status("Cpus_allowed:\tzz\n").is_err());
        let wide = format!("Cpus_allowed:\t1{}\n", ",00000000".repeat(32));
        assert_eq!(parse_status(&wide).expect("1,025 CPUs").to_string(), "1024");
    }
}
