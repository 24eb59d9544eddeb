//! A store that fails, waits, or counts: what the server answers, and that it goes on.

use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use crate::common::{Answer, Dir, Random, Serving, cipher, pattern, serve, ways};
use cmwq_nbd::protocol::{Request, command};
use cmwq_nbd::store::{Extent, FileStore, MemoryStore, Store, ZeroOptions};

const EIO: u32 = 5;
const ENOSPC: u32 = 28;
const FUA: u16 = 1;
const SIZE: u64 = 1 << 20;

/// What the test decides and sees.
#[derive(Default)]
struct Control {
    error: Mutex<Option<ErrorKind>>,
    panics: AtomicBool,
    /// Bytes written since the last sync, and syncs.
    unsynced: AtomicU32,
    syncs: AtomicU32,
    reads: AtomicU32,
    /// Every other 4096 bytes can be read at once.
    at_once: AtomicBool,
    /// While true, reads of offset 0 wait.
    closed: Mutex<bool>,
    opened: Condvar,
}

struct Faulty {
    inner: MemoryStore,
    control: Arc<Control>,
}

impl Faulty {
    fn store() -> (Box<dyn Store>, Arc<Control>) {
        let control = Arc::new(Control::default());
        let store = Faulty {
            inner: MemoryStore::new(SIZE).unwrap(),
            control: control.clone(),
        };
        (Box::new(store), control)
    }

    fn fault(&self) -> io::Result<()> {
        assert!(!self.control.panics.load(Ordering::Relaxed), "told to");
        match *self.control.error.lock().unwrap() {
            Some(kind) => Err(kind.into()),
            None => Ok(()),
        }
    }
}

impl Store for Faulty {
    fn size(&self) -> u64 {
        SIZE
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.control.reads.fetch_add(1, Ordering::Relaxed);
        if offset == 0 {
            cmwq::blocking(|| {
                let closed = self.control.closed.lock().unwrap();
                drop(self.control.opened.wait_while(closed, |closed| *closed));
            });
        }
        self.fault()?;
        self.inner.read(offset, buf)
    }

    fn read_at_once(&self, offset: u64, buf: &mut [u8]) -> bool {
        assert!(!self.control.panics.load(Ordering::Relaxed), "told to");
        buf.fill(0xee);
        let is_here = (offset / 4096).is_multiple_of(2);
        self.control.at_once.load(Ordering::Relaxed)
            && is_here
            && self.inner.read(offset, buf).is_ok()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.fault()?;
        self.control
            .unsynced
            .fetch_add(data.len() as u32, Ordering::Relaxed);
        self.inner.write(offset, data)
    }

    fn zero(&self, offset: u64, length: u64, options: ZeroOptions) -> io::Result<()> {
        self.fault()?;
        self.control
            .unsynced
            .fetch_add(length as u32, Ordering::Relaxed);
        self.inner.zero(offset, length, options)
    }

    fn trim(&self, offset: u64, length: u64) -> io::Result<()> {
        self.fault()?;
        self.inner.trim(offset, length)
    }

    fn sync(&self) -> io::Result<()> {
        self.fault()?;
        self.control.unsynced.store(0, Ordering::Relaxed);
        self.control.syncs.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn extent(&self, offset: u64, length: u64) -> Extent {
        self.inner.extent(offset, length)
    }
}

#[test]
fn the_stores_errors_are_the_protocols_and_pass() {
    for encrypted in [false, true] {
        let (store, control) = Faulty::store();
        let server = serve(store, encrypted.then(|| cipher(64, 512)), false);
        let mut client = server.client();
        let cases = [
            (ErrorKind::StorageFull, ENOSPC),
            (ErrorKind::QuotaExceeded, ENOSPC),
            (ErrorKind::FileTooLarge, ENOSPC),
            (ErrorKind::OutOfMemory, 12),
            (ErrorKind::PermissionDenied, 1),
            (ErrorKind::UnexpectedEof, EIO),
            (ErrorKind::Other, EIO),
        ];
        for (kind, number) in cases {
            *control.error.lock().unwrap() = Some(kind);
            assert_eq!(client.write(0, &[1; 4096]), Err(number), "{kind:?}");
            assert_eq!(client.read(0, 4096), Err(number));
            assert_eq!(client.ask(command::FLUSH, 0, 0, 0, &[]), Err(number));
            assert_eq!(
                client.ask(command::WRITE_ZEROES, 0, 0, 4096, &[]),
                Err(number)
            );
            assert_eq!(client.ask(command::TRIM, 0, 0, 4096, &[]), Err(number));
            assert_eq!(server.simple_client().read(0, 4096), Err(number));
        }
        *control.error.lock().unwrap() = None;
        client.write(0, &pattern(0, 4096, 1)).unwrap();
        assert!(client.read(0, 4096).unwrap() == pattern(0, 4096, 1));
    }
}

#[test]
fn a_request_whose_function_panics_is_answered() {
    let (store, control) = Faulty::store();
    let server = serve(store, None, false);
    let mut client = server.client();
    control.panics.store(true, Ordering::Relaxed);
    assert_eq!(client.write(0, &[1; 512]), Err(EIO));
    assert_eq!(client.read(0, 512), Err(EIO));
    assert_eq!(client.read(0, 65536), Err(EIO));
    // More than sixteen together, of which the reader tries some.
    client.stream.write_all(&reads(40)).unwrap();
    client.expect_reads(0..=39, 4096);
    for _ in 0..40 {
        assert_eq!(client.receive().error, EIO);
    }
    control.panics.store(false, Ordering::Relaxed);
    client.write(0, &[1; 512]).unwrap();
}

#[test]
fn flush_and_fua_are_answered_after_the_sync() {
    for encrypted in [false, true] {
        let (store, control) = Faulty::store();
        let server = serve(store, encrypted.then(|| cipher(64, 512)), false);
        let (mut client, mut other) = (server.client(), server.client());
        let unsynced = || control.unsynced.load(Ordering::Relaxed);
        client.write(0, &[1; 4096]).unwrap();
        assert_eq!(
            (unsynced(), control.syncs.load(Ordering::Relaxed)),
            (4096, 0)
        );
        // Over another connection.
        other.ask(command::FLUSH, 0, 0, 0, &[]).unwrap();
        assert_eq!((unsynced(), control.syncs.load(Ordering::Relaxed)), (0, 1));
        client.ask(command::WRITE, FUA, 0, 512, &[2; 512]).unwrap();
        assert_eq!((unsynced(), control.syncs.load(Ordering::Relaxed)), (0, 2));
        client
            .ask(command::WRITE_ZEROES, FUA, 0, 4096, &[])
            .unwrap();
        assert_eq!((unsynced(), control.syncs.load(Ordering::Relaxed)), (0, 3));
        client.ask(command::TRIM, FUA, 0, 4096, &[]).unwrap();
        assert_eq!(control.syncs.load(Ordering::Relaxed), 4);
        // Stopping syncs as well.
        client.write(0, &[1; 4096]).unwrap();
        drop((client, other));
        server.server.stop().unwrap();
        assert_eq!((unsynced(), control.syncs.load(Ordering::Relaxed)), (0, 5));
    }
}

#[test]
fn after_a_sync_that_failed_no_flush_succeeds() {
    let (store, control) = Faulty::store();
    let server = serve(store, None, false);
    let (mut one, mut other) = (server.client(), server.client());
    other.write(0, &[1; 4096]).unwrap();
    // The system reports a failure once, and forgets what it could not write.
    *control.error.lock().unwrap() = Some(ErrorKind::StorageFull);
    assert_eq!(one.ask(command::FLUSH, 0, 0, 0, &[]), Err(ENOSPC));
    *control.error.lock().unwrap() = None;
    for mut client in [one, other, server.client()] {
        assert_eq!(client.ask(command::FLUSH, 0, 0, 0, &[]), Err(EIO));
        assert_eq!(client.ask(command::WRITE, FUA, 0, 1, &[2]), Err(EIO));
        assert_eq!(client.ask(command::WRITE, 0, 0, 1, &[3]), Ok(vec![]));
        assert_eq!(client.read(0, 1), Ok(vec![3]));
    }
    assert!(server.server.stop().is_err());
}

#[test]
fn what_waits_for_the_disk_is_overtaken() {
    let (store, control) = Faulty::store();
    let server = serve(store, Some(cipher(64, 512)), false);
    *control.closed.lock().unwrap() = true;
    let mut client = server.client();
    // More than there are workers at first: each blocked one is replaced.
    let slow: Vec<u64> = (0..16)
        .map(|_| client.send(command::READ, 0, 0, 512, &[]))
        .collect();
    let quick = client.send(command::READ, 0, 4096, 512, &[]);
    assert_eq!(client.receive().cookie, quick);
    *control.closed.lock().unwrap() = false;
    control.opened.notify_all();
    let mut answered: Vec<u64> = slow.iter().map(|_| client.receive().cookie).collect();
    answered.sort_unstable();
    assert_eq!(answered, slow);
}

#[test]
fn reads_that_no_client_waits_for_are_not_carried_out() {
    let (store, control) = Faulty::store();
    let server = serve(store, None, false);
    let mut client = server.client();
    let read = Request {
        command: command::READ,
        flags: 0,
        cookie: 1,
        offset: 65536,
        length: 65536,
    };
    // The socket holds them all; some may be read before the client leaves.
    client
        .stream
        .write_all(&read.encode().repeat(5000))
        .unwrap();
    drop(client);
    while server.server.clients() > 0 {
        std::thread::yield_now();
    }
    let reads = control.reads.load(Ordering::Relaxed);
    assert!(reads < 1000, "{reads} of 5000");
}

/// Requests to read so many times 4096 bytes; the cookies are their places.
fn reads(requests: u64) -> Vec<u8> {
    let reads = (0..requests).map(|n| Request {
        command: command::READ,
        flags: 0,
        cookie: n,
        offset: n * 4096,
        length: 4096,
    });
    reads.flat_map(|read| read.encode()).collect()
}

#[test]
fn of_reads_that_come_together_some_may_wait() {
    const READS: u64 = 200;
    for encrypted in [false, true] {
        let (store, control) = Faulty::store();
        let server = serve(store, encrypted.then(|| cipher(64, 512)), false);
        let mut client = server.client();
        let data = pattern(0, SIZE as usize, 1);
        client.write(0, &data).unwrap();
        control.at_once.store(true, Ordering::Relaxed);
        client.stream.write_all(&reads(READS)).unwrap();
        client.expect_reads(0..=READS - 1, 4096);
        for _ in 0..READS {
            let Answer { cookie, data, .. } = client.receive();
            assert!(data == pattern(cookie * 4096, 4096, 1), "{cookie}");
        }
        let waited = u64::from(control.reads.load(Ordering::Relaxed));
        assert!((READS / 2..READS).contains(&waited), "{waited}");
    }
}

#[test]
fn a_device_takes_zeroes_and_trims_of_any_length() {
    let dir = Dir::new();
    let image = dir.file("image");
    std::fs::write(&image, pattern(0, SIZE as usize, 1)).unwrap();
    let attach = ["-f", "--show"].map(std::ffi::OsStr::new);
    let losetup = Command::new("losetup").args(attach).arg(&image).output();
    let device = match losetup {
        Ok(done) if done.status.success() => LoopDevice(String::from_utf8(done.stdout).unwrap()),
        other => {
            println!("a_device_takes_zeroes: skipped, because there is no loop device: {other:?}");
            return;
        }
    };
    for store in ways(Path::new(device.0.trim()), 1) {
        let server = serve(store, None, false);
        let mut client = server.client();
        client.write(0, &pattern(0, 4096, 2)).unwrap();
        client.ask(command::WRITE_ZEROES, 0, 1000, 3, &[]).unwrap();
        client.ask(command::TRIM, 0, 2001, 7, &[]).unwrap();
        let mut expected = pattern(0, 4096, 2);
        expected[1000..1003].fill(0);
        assert!(client.read(0, 2001).unwrap() == expected[..2001]);
        server.server.stop().unwrap();
    }
}

/// Detached when its last user is gone.
struct LoopDevice(String);

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup")
            .arg("-d")
            .arg(self.0.trim())
            .status();
    }
}

#[test]
fn a_file_that_has_become_short_is_an_error_and_no_zeroes() {
    let dir = Dir::new();
    let path = dir.file("image");
    std::fs::write(&path, []).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(1 << 20).unwrap();
    for store in ways(&path, 1) {
        file.write_all_at(&vec![7; 1 << 20], 0).unwrap();
        let server = serve(store, None, false);
        let mut client = server.client();
        file.set_len(4096 + 100).unwrap();
        assert_eq!(client.read(4096, 512), Err(EIO));
        assert_eq!(client.read(512 << 10, 4096), Err(EIO));
        assert_eq!(client.read(0, 4096).unwrap(), vec![7; 4096]);
        // No zeroes: a client that copies the disk must not skip it.
        for (offset, length) in [(0, 1 << 20), (4096, 4096), (1 << 19, 4096)] {
            let extents = client.ask(command::BLOCK_STATUS, 0, offset, length, &[]);
            for extent in extents.unwrap().chunks(8) {
                assert_eq!(extent[4..], [0; 4], "{length} at {offset}");
            }
        }
        // Writing makes it long again.
        client.write(1 << 19, &[8; 512]).unwrap();
        assert_eq!(client.read(1 << 19, 512).unwrap(), vec![8; 512]);
        file.set_len(1 << 20).unwrap();
    }
}

/// What a file must do, however it is read and written.
fn play_with_a_file(server: &Serving, size: u64) {
    let mut client = server.client();
    let mut random = Random::new(size);
    // All is written, in random order and many at a time, some of it durably.
    let piece = 48 << 10;
    let mut pieces: Vec<u64> = (0..size / piece).collect();
    for n in (1..pieces.len()).rev() {
        pieces.swap(n, random.below(n + 1));
    }
    for &n in &pieces {
        let fua = u16::from(random.below(4) == 0);
        let data = pattern(n * piece, piece as usize, 5);
        client.send(command::WRITE, fua, n * piece, piece as u32, &data);
    }
    client.send(command::FLUSH, 0, 0, 0, &[]);
    for _ in 0..=pieces.len() {
        assert_eq!(client.receive().error, 0);
    }
    for &n in &pieces {
        // Also across two pieces.
        let offset = (n * piece).saturating_sub(512);
        client.send(command::READ, 0, offset, piece as u32, &[]);
    }
    let first = client.next - pieces.len() as u64;
    for _ in 0..pieces.len() {
        let answer = client.receive();
        let offset = (pieces[(answer.cookie - first) as usize] * piece).saturating_sub(512);
        assert_eq!(answer.error, 0);
        assert!(
            answer.data == pattern(offset, piece as usize, 5),
            "{offset}"
        );
    }
    // Longer than a small buffer.
    let data = pattern(512, 300 << 10, 6);
    client.write(512, &data).unwrap();
    assert!(client.read(512, 300 << 10).unwrap() == data);
    for command in [command::WRITE_ZEROES, command::TRIM] {
        client.ask(command, FUA, 65536, 65536, &[]).unwrap();
        client.ask(command, 0, 0, 512, &[]).unwrap();
    }
    client.ask(command::CACHE, 0, 0, 65536, &[]).unwrap();
    client.ask(command::FLUSH, 0, 0, 0, &[]).unwrap();
    assert!(client.read(131_072, 512).unwrap() == data[131_072 - 512..][..512]);
}

#[test]
fn a_file_keeps_what_it_is_given_in_each_way() {
    const SIZE: u64 = 48 << 17;
    for encrypted in [false, true] {
        let dir = Dir::new();
        let path = dir.file("image");
        std::fs::File::create(&path).unwrap().set_len(SIZE).unwrap();
        for store in ways(&path, 512) {
            let server = serve(store, encrypted.then(|| cipher(64, 512)), false);
            play_with_a_file(&server, SIZE);
            assert_eq!(server.client().read(SIZE, 512), Err(22));
            server.server.stop().unwrap();
        }
    }
}

#[test]
fn clients_of_a_file_may_vanish_or_leave_with_requests_in_flight() {
    let dir = Dir::new();
    let path = dir.file("image");
    std::fs::write(&path, vec![0; 1 << 20]).unwrap();
    for store in ways(&path, 512) {
        let server = serve(store, Some(cipher(64, 512)), false);
        let mut other = server.client();
        other.write(0, &pattern(0, 4096, 3)).unwrap();
        for n in 0..20 {
            let mut client = server.client();
            for at in 1..100 {
                let data = pattern(at * 8192, 8192, n);
                client.send(
                    command::WRITE,
                    u16::from(at % 50 == 0),
                    at * 8192,
                    8192,
                    &data,
                );
                client.send(command::READ, 0, at * 8192, 8192, &[]);
            }
            // In every other round the client half-closes and reads all answers.
            if n % 2 == 0 {
                client.stream.shutdown(std::net::Shutdown::Write).unwrap();
                for _ in 0..198 {
                    assert_eq!(client.receive().error, 0);
                }
                assert!(client.at_end());
            }
            drop(client);
            assert!(other.read(0, 4096).unwrap() == pattern(0, 4096, 3), "{n}");
        }
        // The server is stopped with requests in flight: it finishes those that it has read.
        for at in 1..100 {
            other.send(
                command::WRITE,
                0,
                at * 8192,
                8192,
                &pattern(at * 8192, 8192, 99),
            );
        }
        other.receive();
        server.server.stop().unwrap();
    }
}

#[test]
fn files_and_devices_that_cannot_be_served_are_refused() {
    let dir = Dir::new();
    let path = dir.file("image");
    assert!(FileStore::open(&path, false, 1).is_err(), "nothing there");
    std::fs::write(&path, b"").unwrap();
    let why = |path: &std::path::Path| FileStore::open(path, false, 512).err().unwrap().to_string();
    assert!(why(&path).contains("empty"));
    std::fs::write(&path, [0; 511]).unwrap();
    assert!(why(&path).contains("empty"));
    std::fs::write(&path, [0; 1025]).unwrap();
    let store = FileStore::open(&path, false, 512).unwrap();
    assert_eq!(store.size(), 1024, "a rest is left out");
    assert!(why(&path).contains("in use by another process"));
    drop(store);
    let two = [
        FileStore::open(&path, true, 1).unwrap(),
        FileStore::open(&path, true, 1).unwrap(),
    ];
    assert!(
        why(&path).contains("in use by another process"),
        "by readers"
    );
    drop(two);
    assert!(why(std::path::Path::new("/dev/null")).contains("neither"));
}

#[test]
fn holes_of_a_file_are_told_and_zeroes_leave_holes() {
    let dir = Dir::new();
    let path = dir.file("image");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(1 << 20).unwrap();
    for store in ways(&path, 1) {
        holes(&serve(store, None, false));
    }
}

fn holes(server: &Serving) {
    let mut client = server.client();
    client.write(0, &pattern(0, 1 << 20, 1)).unwrap();
    client
        .ask(command::WRITE_ZEROES, 0, 256 << 10, 256 << 10, &[])
        .unwrap();
    client
        .ask(command::WRITE_ZEROES, 2, 768 << 10, 4096, &[])
        .unwrap();
    client.ask(command::TRIM, 0, 0, 4096, &[]).unwrap();
    client.ask(command::CACHE, 0, 0, 1 << 20, &[]).unwrap();
    client.ask(command::FLUSH, 0, 0, 0, &[]).unwrap();
    let all = client.read(0, 1 << 20).unwrap();
    assert!(all[256 << 10..512 << 10].iter().all(|&byte| byte == 0));
    assert!(
        all[768 << 10..(768 << 10) + 4096]
            .iter()
            .all(|&byte| byte == 0)
    );
    assert!(all[512 << 10..768 << 10] == pattern(512 << 10, 256 << 10, 1));
    let told = client
        .ask(command::BLOCK_STATUS, 0, 256 << 10, 512 << 10, &[])
        .unwrap();
    let lengths = told
        .chunks(8)
        .map(|each| u32::from_be_bytes(each[..4].try_into().unwrap()));
    assert_eq!(
        lengths.sum::<u32>(),
        512 << 10,
        "the whole range, by whatever extents"
    );
    // Where the file system makes holes, the server reports them.
    if told.len() > 8 {
        assert_eq!(told[..8], [0, 4, 0, 0, 0, 0, 0, 3]);
    }
}
