//! What a server of ours counts: requests, and the work items that they were.

use cmwq_command::CliError;

/// What a server of ours counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) requests: u64,
    /// Requests that readers carried out.
    pub(super) inline: u64,
    /// Items that were started on the queue of the requests.
    pub(super) items: u64,
}

impl Counts {
    /// Requests since `earlier`, and work items for each of them.
    ///
    /// # Errors
    /// Some requests were no work items, although each was to be one: the row would not be about the queue.
    pub(super) fn since(
        self,
        earlier: Counts,
        may_be_inline: bool,
    ) -> Result<(u64, f64), CliError> {
        let [requests, inline, items] = [
            self.requests - earlier.requests,
            self.inline - earlier.inline,
            self.items.saturating_sub(earlier.items),
        ];
        if requests == 0 {
            return Err(CliError::failed("no request came to the server"));
        }
        if !may_be_inline && (inline > 0 || items < requests) {
            return Err(CliError::failed(format!(
                "only {items} work items were started for {requests} requests ({inline} were carried out by readers): \
                 the row would not be about the queue"
            )));
        }
        Ok((requests, items as f64 / requests as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_whose_requests_were_not_all_work_items_is_refused() {
        let earlier = Counts {
            requests: 100,
            inline: 0,
            items: 100,
        };
        let later = |inline, items: u64| Counts {
            requests: 1_100,
            inline,
            items: 100 + items,
        };
        let of = |counts: Counts, inline| counts.since(earlier, inline).map_err(|e| e.to_string());
        assert_eq!(of(later(0, 1_000), false), Ok((1_000, 1.0)));
        assert_eq!(of(later(0, 2_000), false), Ok((1_000, 2.0)), "by io_uring");
        assert_eq!(of(later(999, 1), true), Ok((1_000, 0.001)));
        for void in [later(1, 2_000), later(0, 999), later(999, 1)] {
            let message = of(void, false).expect_err("it is refused");
            assert!(
                message.contains("work items were started for 1000 requests"),
                "{message}"
            );
        }
        assert!(of(earlier, false).is_err(), "nothing was measured");
    }
}
