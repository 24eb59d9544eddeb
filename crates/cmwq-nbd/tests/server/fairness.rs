//! How far one request may hold up the replies of others.

use std::collections::BTreeSet;

use crate::common::{Client, memory, serve};
use cmwq_nbd::protocol::command;

#[test]
fn no_request_is_overtaken_without_end() {
    const IN_FLIGHT: u64 = 64;
    const LENGTH: u32 = 256 << 10;
    let server = serve(memory(1 << 20), None, false);
    let mut client = server.client();
    // The client is slower than the server: there are always replies to send.
    let send = |client: &mut Client| client.send(command::READ, 0, 0, LENGTH, &[]);
    let mut unanswered: BTreeSet<u64> = (0..IN_FLIGHT).map(|_| send(&mut client)).collect();
    for _ in 0..20 * IN_FLIGHT {
        let answered = client.receive().cookie;
        let oldest = *unanswered.first().unwrap();
        assert!(
            answered < oldest + 4 * IN_FLIGHT,
            "request {oldest} still waits, and {answered} is answered"
        );
        unanswered.remove(&answered);
        unanswered.insert(send(&mut client));
    }
    for _ in 0..IN_FLIGHT {
        unanswered.remove(&client.receive().cookie);
    }
    assert!(unanswered.is_empty());
}
