//! Which requests are work items, and that none is left out of the count.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use crate::common::{Client, Deadline, Dir, cipher, memory, queues, ways};
use cmwq_nbd::export::{Export, Requests};
use cmwq_nbd::protocol::{Request, command};
use cmwq_nbd::server::{Endpoint, Queues, Server};
use cmwq_nbd::store::{Extent, MemoryStore, Store, ZeroOptions};

const SIZE: u64 = 1 << 20;

/// How many items were started for what a client does, and how the export counted its requests.
fn items_of(
    store: Box<dyn Store>,
    inline: bool,
    mut talk: impl FnMut(&mut Client),
) -> (u64, Requests) {
    let dir = Dir::new();
    let export = Arc::new(Export::new("disk", store, Some(cipher(64, 512)), false));
    let queues = Queues {
        inline,
        ..queues(0)
    };
    let endpoint = Endpoint::Unix(dir.file("socket"));
    let server = Server::start(export.clone(), queues, &endpoint, 4).unwrap();
    let mut client = Client::connect(&dir.file("socket"), false);
    talk(&mut client);
    // The reader has counted all before it waits for more, and the connection's end waits for the
    // reader.
    drop(client);
    let _deadline = Deadline::long("the reader's end");
    while server.clients() > 0 {
        std::thread::yield_now();
    }
    (server.queue().counts().0, export.requests())
}

/// The same for reads of one sector, some at a time.
fn items_of_short_reads(store: Box<dyn Store>, inline: bool) -> (u64, Requests) {
    const REQUESTS: u64 = 640;
    let request = Request {
        command: command::READ,
        flags: 0,
        cookie: 7,
        offset: 512,
        length: 512,
    };
    let window = request.encode().repeat(32);
    let (started, counted) = items_of(store, inline, |client| {
        for _ in 0..REQUESTS / 32 {
            client.stream.write_all(&window).unwrap();
            client.stream.read_exact(&mut [0; 32 * (16 + 512)]).unwrap();
        }
    });
    assert_eq!(counted.all, REQUESTS);
    (started, counted)
}

#[test]
fn every_request_is_an_item_unless_readers_may_carry_out_short_ones() {
    let dir = Dir::new();
    let file = dir.file("disk");
    std::fs::write(&file, vec![1; SIZE as usize]).unwrap();
    let stores = || ways(&file, 512).chain([memory(SIZE)]);
    for store in stores() {
        // By io_uring a request is an item before and after the transfer, unless the page cache has
        // what is read.
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

#[test]
fn a_request_that_comes_alone_is_no_item_unless_it_waits() {
    const LONG: usize = 32 << 10;
    let dir = Dir::new();
    let file = dir.file("disk");
    std::fs::write(&file, vec![1; SIZE as usize]).unwrap();
    let data = [7; LONG];
    for store in ways(&file, 512).chain([memory(SIZE)]) {
        let tells_cached = store.read_at_once(512, &mut [0; 512]) || store.memory().is_some();
        let (started, counted) = items_of(store, true, |client| {
            for _ in 0..20 {
                client.write(0, &data).unwrap();
                assert!(client.read(0, LONG as u32) == Ok(data.to_vec()));
            }
        });
        assert_eq!(counted.all, 40);
        // In tmpfs the system does not say what is cached.
        assert_eq!(counted.inline, if tells_cached { 40 } else { 20 });
        assert!(started >= counted.all - counted.inline, "{started}");
        assert!(!tells_cached || started == 0, "{started}");
    }
}

#[test]
fn the_last_of_those_that_come_together_for_memory_is_no_item() {
    const LONG: u32 = 32 << 10;
    let dir = Dir::new();
    let file = dir.file("disk");
    std::fs::write(&file, vec![1; SIZE as usize]).unwrap();
    let request = Request {
        command: command::READ,
        flags: 0,
        cookie: 7,
        offset: 0,
        length: LONG,
    };
    for store in ways(&file, 512).chain([memory(SIZE)]) {
        let expected = if store.memory().is_some() { 20 } else { 0 };
        let (started, counted) = items_of(store, true, |client| {
            for _ in 0..20 {
                let three = request.encode().repeat(3);
                client.stream.write_all(&three).unwrap();
                let mut replies = vec![0; 3 * (16 + LONG as usize)];
                client.stream.read_exact(&mut replies).unwrap();
            }
        });
        assert_eq!((counted.all, counted.inline), (60, expected));
        assert!(started >= 60 - expected, "{started}");
    }
}

/// A file whose writes wait for the disk, since the page cache takes no more.
struct FullCache(MemoryStore);

impl Store for FullCache {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, buf)
    }

    fn writes_into_cache(&self) -> bool {
        true
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        std::thread::sleep(Duration::from_millis(20));
        self.0.write(offset, data)
    }

    fn zero(&self, offset: u64, length: u64, options: ZeroOptions) -> io::Result<()> {
        self.0.zero(offset, length, options)
    }

    fn trim(&self, offset: u64, length: u64) -> io::Result<()> {
        self.0.trim(offset, length)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn extent(&self, offset: u64, length: u64) -> Extent {
        self.0.extent(offset, length)
    }
}

#[test]
fn workers_carry_out_the_writes_once_one_has_waited_for_the_disk() {
    let store = Box::new(FullCache(MemoryStore::new(SIZE).unwrap()));
    let (started, counted) = items_of(store, true, |client| {
        for _ in 0..10 {
            client.write(0, &[7; 512]).unwrap();
        }
    });
    // After a second the reader tries again: a slow machine may get so far.
    assert!(started > 0 && counted.inline > 0, "{started}, {counted:?}");
    assert_eq!(started + counted.inline, counted.all);
}
