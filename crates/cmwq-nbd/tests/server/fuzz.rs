//! Random bytes and random mutations of good sessions: the server never fails, and answers other
//! clients meanwhile.
//!
//! `CMWQ_NBD_FUZZ_SECONDS` says for how long (2 unless set); `CMWQ_TEST_SEED` repeats a run.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::common::{Dir, Random, cipher, memory, pattern, seed, serve, ways};
use cmwq_nbd::protocol::{OPTION_MAGIC, Request, command, option};

const SIZE: u64 = 1 << 20;

fn seconds() -> Duration {
    let text = std::env::var("CMWQ_NBD_FUZZ_SECONDS").ok();
    Duration::from_secs(text.map_or(2, |text| {
        text.parse().expect("CMWQ_NBD_FUZZ_SECONDS is a number")
    }))
}

/// A length, an offset, a count: mostly near something that matters.
fn number(random: &mut Random) -> u64 {
    let base = [
        0,
        1,
        512,
        4096,
        65536,
        SIZE,
        32 << 20,
        u64::from(u32::MAX),
        1 << 63,
        u64::MAX,
    ];
    match random.below(4) {
        0 => random.bits(),
        1 => random.below(SIZE as usize) as u64,
        2 => random.below((SIZE / 512) as usize) as u64 * 512,
        _ => base[random.below(base.len())]
            .wrapping_add(random.below(3) as u64)
            .wrapping_sub(1),
    }
}

fn an_option(random: &mut Random, out: &mut Vec<u8>) {
    let options = [
        option::EXPORT_NAME,
        option::ABORT,
        option::LIST,
        5,
        option::INFO,
        option::GO,
        option::STRUCTURED_REPLY,
        option::LIST_META_CONTEXT,
        option::SET_META_CONTEXT,
        99,
    ];
    let mut data = vec![];
    for _ in 0..random.below(4) {
        match random.below(4) {
            0 => data.extend((number(random) as u32).to_be_bytes()),
            1 => data.extend([0, 0, 0, 0]),
            2 => data.extend(b"\0\0\0\x0fbase:allocation"),
            _ => data.extend(b"\0\0\0\x04disk\0\x01\0\x03"),
        }
    }
    out.extend(OPTION_MAGIC.to_be_bytes());
    out.extend((options[random.below(10)]).to_be_bytes());
    let length = if random.below(20) == 0 {
        number(random) as u32
    } else {
        data.len() as u32
    };
    out.extend(length.to_be_bytes());
    out.extend(data);
}

fn a_request(random: &mut Random, out: &mut Vec<u8>) {
    let length = if random.below(8) == 0 {
        number(random) as u32
    } else {
        random.below(64) as u32 * 512
    };
    let request = Request {
        command: if random.below(30) == 0 {
            random.bits() as u16
        } else {
            random.below(8) as u16
        },
        flags: if random.below(4) == 0 {
            random.below(64) as u16
        } else {
            0
        },
        cookie: random.bits(),
        offset: number(random),
        length,
    };
    // Leaving is rarely wanted.
    if request.command == command::DISCONNECT && random.below(10) != 0 {
        return;
    }
    out.extend(request.encode());
    if request.command == command::WRITE {
        out.extend(std::iter::repeat_n(
            random.bits() as u8,
            length.min(40_000) as usize,
        ));
    }
}

/// A session's bytes: a handshake, mostly a good one, and requests; then a few are changed.
fn session(random: &mut Random) -> Vec<u8> {
    let mut out = vec![];
    out.extend(
        if random.below(20) == 0 {
            random.bits() as u32
        } else {
            3
        }
        .to_be_bytes(),
    );
    for _ in 0..random.below(6) {
        an_option(random, &mut out);
    }
    if random.below(8) != 0 {
        if random.below(2) == 0 {
            out.extend(OPTION_MAGIC.to_be_bytes());
            out.extend(option::STRUCTURED_REPLY.to_be_bytes());
            out.extend(0u32.to_be_bytes());
        }
        out.extend(OPTION_MAGIC.to_be_bytes());
        out.extend(option::GO.to_be_bytes());
        out.extend([0, 0, 0, 8, 0, 0, 0, 0, 0, 1, 0, 3]);
    }
    for _ in 0..random.below(40) {
        a_request(random, &mut out);
    }
    if random.below(3) == 0 {
        for _ in 0..=random.below(4) {
            let at = random.below(out.len());
            out[at] = random.bits() as u8;
        }
    }
    if random.below(3) == 0 {
        out.truncate(random.below(out.len() + 1));
    }
    out
}

#[test]
fn no_bytes_bring_the_server_down() {
    let seed = seed("fuzz");
    let mut random = Random::new(seed);
    // Half of the export is the witness's, read-only half the time.
    for round in 0.. {
        let encrypted = round % 2 == 0;
        // One round with a file, by io_uring where the system has it.
        let dir = Dir::new();
        let image = dir.file("image");
        std::fs::write(&image, vec![0; SIZE as usize]).unwrap();
        let file = (round == 2).then(|| ways(&image, 512).nth(1)).flatten();
        let server = serve(
            file.unwrap_or_else(|| memory(SIZE)),
            encrypted.then(|| cipher(64, 512)),
            round % 4 == 3,
        );
        let until = Instant::now() + seconds() / 4;
        let mut sessions = 0;
        while Instant::now() < until {
            let bytes = session(&mut random);
            let mut stream = UnixStream::connect(&server.socket).unwrap();
            stream
                .set_read_timeout(Some(Duration::from_secs(60)))
                .unwrap();
            let mut sender = stream.try_clone().unwrap();
            let sending = std::thread::spawn(move || {
                // The server may close the connection before all is sent.
                let _ = sender.write_all(&bytes);
                let _ = sender.shutdown(Shutdown::Write);
            });
            if random.below(4) == 0 {
                let some = random.below(4096);
                let _ = stream.read(&mut vec![0; some + 1]);
                let _ = stream.shutdown(Shutdown::Both);
            } else {
                // Whatever was sent, the answers come, and then the end.
                let end = std::io::copy(&mut stream, &mut std::io::sink());
                assert!(
                    end.as_ref().map_or_else(
                        |error| error.kind() == std::io::ErrorKind::ConnectionReset,
                        |_| true
                    ),
                    "seed {seed}: {end:?}"
                );
            }
            drop(stream);
            sending.join().unwrap();
            sessions += 1;
        }
        println!("round {round}: {sessions} sessions");
        let mut witness = server.client();
        if round % 4 != 3 {
            witness.write(0, &pattern(0, 65536, 1)).unwrap();
            assert!(
                witness.read(0, 65536).unwrap() == pattern(0, 65536, 1),
                "seed {seed}"
            );
        }
        assert_eq!(witness.read(SIZE, 512), Err(22));
        if round == 3 {
            return;
        }
    }
}
