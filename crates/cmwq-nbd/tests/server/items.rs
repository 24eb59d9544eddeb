//! Which requests are work items, and that none is left out of the count.

use std::io::{Read, Write};
use std::sync::Arc;

use crate::common::{Client, Deadline, Dir, cipher, memory, queues, ways};
use cmwq_nbd::export::{Export, Requests};
use cmwq_nbd::protocol::{Request, command};
use cmwq_nbd::server::{Endpoint, Queues, Server};
use cmwq_nbd::store::Store;

const SIZE: u64 = 1 << 20;

/// Sends reads of one sector, some at a time, and returns how many items were started for them, and how the export counted them.
fn items_of_short_reads(store: Box<dyn Store>, inline: bool) -> (u64, Requests) {
    const REQUESTS: u64 = 640;
    let dir = Dir::new();
    let export = Arc::new(Export::new("disk", store, Some(cipher(64, 512)), false));
    let queues = Queues {
        inline,
        ..queues(0)
    };
    let endpoint = Endpoint::Unix(dir.file("socket"));
    let server = Server::start(export.clone(), queues, &endpoint, 4).unwrap();
    let mut client = Client::connect(&dir.file("socket"), false);
    let request = Request {
        command: command::READ,
        flags: 0,
        cookie: 7,
        offset: 512,
        length: 512,
    };
    let window = request.encode().repeat(32);
    for _ in 0..REQUESTS / 32 {
        client.stream.write_all(&window).unwrap();
        client.stream.read_exact(&mut [0; 32 * (16 + 512)]).unwrap();
    }
    // The reader has counted all before it waits for more, and the connection's end waits for the reader.
    drop(client);
    let _deadline = Deadline::long("the reader's end");
    while server.clients() > 0 {
        std::thread::yield_now();
    }
    let counted = export.requests();
    assert_eq!(counted.all, REQUESTS);
    (server.queue().counts().0, counted)
}

#[test]
fn every_request_is_an_item_unless_readers_may_carry_out_short_ones() {
    let dir = Dir::new();
    let file = dir.file("disk");
    std::fs::write(&file, vec![1; SIZE as usize]).unwrap();
    let stores = || ways(&file, 512).chain([memory(SIZE)]);
    for store in stores() {
        // By io_uring a request is an item before and after the transfer, unless the page cache has what is read.
        let is_cached = store.read_at_once(512, &mut [0; 512]);
        let twice = store.file_for_ring().is_some() && !is_cached;
        let (started, counted) = items_of_short_reads(store, false);
        assert_eq!(
            (started, counted.inline),
            (counted.all << u32::from(twice), 0)
        );
    }
    let (started, counted) = items_of_short_reads(memory(SIZE), true);
    assert!(counted.inline > 0, "{counted:?}");
    assert_eq!(started + counted.inline, counted.all);
}
