//! Stand-ins for pools of tests and models: a queue that ignores what it is told, and a helper that creates no worker.

use super::queue::pwq::PwqKey;
use super::state::pool::{FrontEnd, Helper, Pool};
use crate::item::{RawWork, WorkFn};
use std::sync::Arc;

/// Creates no worker: the pool has only the workers that it has.
pub(in crate::pool) struct NoHelper;

impl Helper for NoHelper {
    fn create_worker(&self, _: &Arc<Pool>) {}
    fn watch(&self, _: &Arc<Pool>) {}
    fn cull_later(&self, _: &Arc<Pool>) {}
    fn woke(&self) {}
    fn call_thief(&self, pool: &Arc<Pool>) {
        pool.call_thief();
    }
}

pub(in crate::pool) struct NoFront;

impl FrontEnd for NoFront {
    fn name(&self) -> &str {
        "silent"
    }
    fn flags(&self) -> String {
        String::new()
    }
    fn check_dependency(&self, _: Option<WorkFn>) {}
    fn pool_that_runs(&self, _: &RawWork, _: u32) -> Option<u32> {
        None
    }
    fn colour_done(&self, _: u32) {}
    fn must_wait(&self, _: &Arc<Pool>, _: PwqKey) {}
    fn credits_freed(&self, _: usize) {}
    fn pwq_gone(&self, _: &Arc<Pool>, _: PwqKey) {}
}
