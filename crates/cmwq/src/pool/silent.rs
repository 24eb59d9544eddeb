//! What pools of tests and models talk to: a queue that is told nothing of interest, and a helper by which no worker comes.

use super::queue::pwq::PwqKey;
use super::state::pool::{FrontEnd, Helper, Pool};
use crate::item::{RawWork, WorkFn};
use std::sync::Arc;

/// Creates no worker: those that are there must do.
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
