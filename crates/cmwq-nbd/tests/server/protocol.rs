//! Correct and incorrect clients: every request gets the protocol's answer, and the server goes on.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use crate::common::{Client, cipher, memory, pattern, read_option, send_option, serve};
use cmwq_nbd::protocol::{Request, command, option, option_reply};

const EPERM: u32 = 1;
const EINVAL: u32 = 22;
const ENOSPC: u32 = 28;
const ENOTSUP: u32 = 95;

const FUA: u16 = 1;
const NO_HOLE: u16 = 2;
const DF: u16 = 4;
const REQ_ONE: u16 = 8;
const FAST_ZERO: u16 = 16;
const SEND_FAST_ZERO: u16 = 1 << 11;

const SIZE: u64 = 1 << 20;

#[test]
fn what_is_written_is_read_with_and_without_cipher_and_chunks() {
    for encrypted in [None, Some(32), Some(64)] {
        let server = serve(memory(SIZE), encrypted.map(|key| cipher(key, 512)), false);
        for mut client in [server.client(), server.simple_client()] {
            assert_eq!(client.size, SIZE);
            // One sector; all of a stripe; across stripes; longer than a small buffer; everything.
            for (offset, length) in [
                (0, 512),
                (65536, 65536),
                (60 << 10, 8192),
                (512, 200 << 10),
                (0, 1 << 20),
            ] {
                let data = pattern(offset, length, length as u8);
                client.write(offset, &data).unwrap();
                assert!(
                    client.read(offset, length as u32).unwrap() == data,
                    "{length} at {offset}"
                );
            }
        }
    }
}

#[test]
fn beyond_the_end_is_no_space_for_writes_and_invalid_for_the_rest() {
    let server = serve(memory(SIZE), Some(cipher(64, 512)), false);
    let mut client = server.client();
    for (offset, length) in [
        (SIZE, 512),
        (SIZE - 512, 1024),
        (u64::MAX - 511, 512),
        (1 << 63, 512),
        (0, (1 << 20) + 512),
    ] {
        assert_eq!(client.read(offset, length), Err(EINVAL));
        assert_eq!(client.write(offset, &vec![1; length as usize]), Err(ENOSPC));
        assert_eq!(
            client.ask(command::WRITE_ZEROES, 0, offset, length, &[]),
            Err(ENOSPC)
        );
        for command in [command::TRIM, command::CACHE, command::BLOCK_STATUS] {
            assert_eq!(client.ask(command, 0, offset, length, &[]), Err(EINVAL));
        }
    }
    client.write(SIZE - 512, &[7; 512]).unwrap();
    assert_eq!(client.read(SIZE - 512, 512).unwrap(), [7; 512]);
}

#[test]
fn what_is_no_whole_sector_is_invalid_and_its_data_are_skipped() {
    let server = serve(memory(SIZE), Some(cipher(64, 512)), false);
    let mut client = server.client();
    for (offset, length) in [(0, 0), (1, 512), (0, 511), (0, 513), (256, 256), (511, 1)] {
        assert_eq!(
            client.read(offset, length),
            Err(EINVAL),
            "{length} at {offset}"
        );
        assert_eq!(client.write(offset, &vec![1; length as usize]), Err(EINVAL));
        assert_eq!(
            client.ask(command::TRIM, 0, offset, length, &[]),
            Err(EINVAL)
        );
        assert_eq!(
            client.ask(command::WRITE_ZEROES, 0, offset, length, &[]),
            Err(EINVAL)
        );
    }
    // Without a cipher there are no sectors.
    let plain = serve(memory(SIZE), None, false);
    let mut client = plain.client();
    client.write(4097, b"odd").unwrap();
    assert_eq!(client.read(4096, 5).unwrap(), b"\0odd\0");
    assert_eq!(client.read(0, 0), Err(EINVAL));
}

#[test]
fn absurd_lengths_are_refused_and_the_connection_goes_on() {
    let server = serve(memory(256 << 20), Some(cipher(64, 512)), false);
    let mut client = server.client();
    assert_eq!(client.read(0, (32 << 20) + 512), Err(EINVAL));
    assert_eq!(client.read(0, u32::MAX - 511), Err(EINVAL));
    assert_eq!(client.read(0, u32::MAX), Err(EINVAL));
    // What is announced must come, and is skipped.
    assert_eq!(client.write(0, &vec![1; (32 << 20) + 512]), Err(EINVAL));
    let longest = client.read(0, 32 << 20).unwrap();
    assert_eq!(longest.len(), 32 << 20);
    // Requests without data may be longer.
    assert_eq!(client.ask(command::TRIM, 0, 0, 256 << 20, &[]), Ok(vec![]));
    assert_eq!(
        client.ask(command::WRITE_ZEROES, FUA, 0, 128 << 20, &[]),
        Ok(vec![])
    );
    assert!(
        client
            .read(127 << 20, 1 << 20)
            .unwrap()
            .iter()
            .all(|&byte| byte == 0)
    );
}

#[test]
fn unknown_commands_and_flags_are_invalid() {
    let server = serve(memory(SIZE), None, false);
    let mut client = server.client();
    for command in [8, 9, 0x7fff, 0xffff] {
        assert_eq!(client.ask(command, 0, 0, 512, &[]), Err(EINVAL));
    }
    assert_eq!(client.ask(command::READ, 1 << 6, 0, 512, &[]), Err(EINVAL));
    assert_eq!(client.ask(command::WRITE, DF, 0, 4, b"data"), Err(EINVAL));
    assert_eq!(client.ask(command::READ, DF, 0, 4, &[]), Ok(vec![0; 4]));
    assert_eq!(client.ask(command::FLUSH, 0, 512, 0, &[]), Err(EINVAL));
    // Without structured replies there is no context to ask for, and no reply that must not be fragmented.
    let mut client = server.simple_client();
    assert_eq!(
        client.ask(command::BLOCK_STATUS, 0, 0, 512, &[]),
        Err(EINVAL)
    );
    assert_eq!(client.ask(command::READ, DF, 0, 4, &[]), Err(EINVAL));
}

#[test]
fn a_read_only_export_permits_no_change_and_says_so() {
    let server = serve(memory(SIZE), None, true);
    let mut client = server.client();
    assert_eq!(client.flags & 2, 2, "READ_ONLY");
    assert_eq!(
        client.flags & (1 << 5 | 1 << 6),
        0,
        "neither TRIM nor WRITE_ZEROES"
    );
    assert_eq!(client.write(0, &[1; 512]), Err(EPERM));
    assert_eq!(client.ask(command::TRIM, 0, 0, 512, &[]), Err(EPERM));
    assert_eq!(
        client.ask(command::WRITE_ZEROES, 0, 0, 512, &[]),
        Err(EPERM)
    );
    assert_eq!(client.ask(command::FLUSH, 0, 0, 0, &[]), Ok(vec![]));
    assert_eq!(client.read(0, 512), Ok(vec![0; 512]));
}

#[test]
fn zeroes_are_zeroes_with_every_flag() {
    for encrypted in [false, true] {
        let server = serve(memory(SIZE), encrypted.then(|| cipher(64, 512)), false);
        let mut client = server.client();
        client.write(0, &pattern(0, SIZE as usize, 1)).unwrap();
        // Half a stripe, stripes and a bit of others.
        for (offset, length, flags) in [
            (0, 32 << 10, 0),
            (100 << 10, 300 << 10, FUA),
            (512 << 10, 65536, NO_HOLE),
        ] {
            assert_eq!(
                client.ask(command::WRITE_ZEROES, flags, offset, length, &[]),
                Ok(vec![])
            );
            assert!(
                client
                    .read(offset, length)
                    .unwrap()
                    .iter()
                    .all(|&byte| byte == 0)
            );
            let end = offset + u64::from(length);
            assert!(
                client.read(end, 512).unwrap() == pattern(end, 512, 1),
                "after {end}"
            );
        }
        // Ciphered zeroes must be written out, and that is not fast. It is not promised either.
        assert_eq!(client.flags & SEND_FAST_ZERO == 0, encrypted);
        let fast = client.ask(command::WRITE_ZEROES, FAST_ZERO, 700 << 10, 65536, &[]);
        assert_eq!(fast, if encrypted { Err(ENOTSUP) } else { Ok(vec![]) });
        let kept = client.read(700 << 10, 65536).unwrap() == pattern(700 << 10, 65536, 1);
        assert_eq!(kept, encrypted);
    }
}

#[test]
fn holes_are_told_where_they_read_as_zeroes() {
    fn extents(client: &mut Client, offset: u64, length: u32, flags: u16) -> Vec<(u32, u32)> {
        let told = client
            .ask(command::BLOCK_STATUS, flags, offset, length, &[])
            .unwrap();
        let word = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
        told.chunks(8)
            .map(|each| (word(&each[..4]), word(&each[4..])))
            .collect()
    }
    let server = serve(memory(SIZE), None, false);
    let mut client = server.client();
    client.write(128 << 10, &[1; 512]).unwrap();
    let all = extents(&mut client, 0, SIZE as u32, 0);
    assert_eq!(all, [(128 << 10, 3), (64 << 10, 0), (832 << 10, 3)]);
    assert_eq!(
        extents(&mut client, 0, SIZE as u32, REQ_ONE),
        [(128 << 10, 3)]
    );
    assert_eq!(extents(&mut client, 130 << 10, 512, 0), [(512, 0)]);
    client
        .ask(command::TRIM, 0, 128 << 10, 64 << 10, &[])
        .unwrap();
    assert_eq!(extents(&mut client, 0, SIZE as u32, 0), [(1 << 20, 3)]);
    // What must be no hole takes its memory now.
    for (flags, kind) in [(NO_HOLE, 0), (0, 3)] {
        client
            .ask(command::WRITE_ZEROES, flags, 0, 64 << 10, &[])
            .unwrap();
        assert_eq!(extents(&mut client, 0, 64 << 10, 0), [(64 << 10, kind)]);
    }
    // A hole does not decipher to zeroes.
    let server = serve(memory(SIZE), Some(cipher(64, 512)), false);
    assert_eq!(
        extents(&mut server.client(), 0, SIZE as u32, 0),
        [(1 << 20, 0)]
    );
}

#[test]
fn a_client_that_talks_nonsense_is_left_and_others_go_on() {
    let server = serve(memory(SIZE), Some(cipher(64, 512)), false);
    let mut good = server.client();
    let mut bad = server.client();
    bad.stream.write_all(&[0xee; 28]).unwrap();
    assert!(bad.is_closed());
    let mut old = UnixStream::connect(&server.socket).unwrap();
    let mut hello = [0; 18];
    old.read_exact(&mut hello).unwrap();
    old.write_all(&0x8000_0003_u32.to_be_bytes()).unwrap();
    assert_eq!(old.read(&mut [0]).unwrap(), 0, "unknown flags");
    good.write(0, &[1; 512]).unwrap();
}

#[test]
fn a_client_that_vanishes_takes_nothing_with_it() {
    let server = serve(memory(SIZE), Some(cipher(64, 512)), false);
    let mut other = server.client();
    other.write(0, &pattern(0, 4096, 3)).unwrap();
    for cut in [1, 27, 28, 29, 28 + 511, 28 + 4095] {
        let mut client = server.client();
        for n in 0..100 {
            client.send(command::READ, 0, n * 512, 65536, &[]);
        }
        // In the middle of a write to the same place, and nothing of the answers read.
        let request = Request {
            command: command::WRITE,
            flags: 0,
            cookie: 1000,
            offset: 0,
            length: 4096,
        };
        let bytes = [&request.encode()[..], &[9; 4096]].concat();
        client.stream.write_all(&bytes[..cut]).unwrap();
        drop(client);
        assert!(
            other.read(0, 4096).unwrap() == pattern(0, 4096, 3),
            "cut after {cut}"
        );
    }
}

#[test]
fn many_in_flight_are_each_answered_once() {
    // More requests than slots, and replies that the client reads only at the end.
    const REQUESTS: u64 = 1000;
    for encrypted in [false, true] {
        let server = serve(memory(SIZE), encrypted.then(|| cipher(64, 512)), false);
        server
            .client()
            .write(0, &pattern(0, SIZE as usize, 0))
            .unwrap();
        let mut client = server.client();
        let mut sender = Client {
            stream: client.stream.try_clone().unwrap(),
            ..server.client()
        };
        let sending = std::thread::spawn(move || {
            for n in 0..REQUESTS {
                let cookie = sender.send(command::READ, 0, n % 200 * 4096, 4096, &[]);
                assert_eq!(cookie, n + 1);
            }
        });
        client.expect_reads(1..=REQUESTS, 4096);
        let mut seen = vec![false; REQUESTS as usize];
        for _ in 0..REQUESTS {
            let answer = client.receive();
            let n = answer.cookie - 1;
            assert!(
                !std::mem::replace(&mut seen[n as usize], true),
                "twice: {n}"
            );
            assert!(answer.data == pattern(n % 200 * 4096, 4096, 0), "{n}");
        }
        sending.join().unwrap();
    }
}

#[test]
fn a_client_may_send_as_many_requests_as_there_are_slots_before_it_reads_an_answer() {
    // More replies than the server's socket takes, and then more data than the client's does.
    const READS: u64 = 240;
    const WRITES: u64 = 16;
    for encrypted in [false, true] {
        let server = serve(memory(2 * SIZE), encrypted.then(|| cipher(64, 512)), false);
        let mut client = server.client();
        rustix::net::sockopt::set_socket_send_buffer_size(&client.stream, 4096).unwrap();
        let data = pattern(0, 8192, 0);
        client.write(SIZE, &data).unwrap();
        for _ in 0..READS {
            client.send(command::READ, 0, SIZE, 8192, &[]);
        }
        for n in 0..WRITES {
            client.send(command::WRITE, 0, n * 8192, 8192, &data);
        }
        for _ in 0..READS + WRITES {
            let answer = client.receive();
            assert_eq!(answer.error, 0);
            assert!(answer.data.is_empty() || answer.data == data);
        }
        for n in 0..WRITES {
            assert!(client.read(n * 8192, 8192).unwrap() == data);
        }
    }
}

#[test]
fn sectors_that_two_clients_write_belong_to_one_of_them() {
    for (encrypted, length) in [(true, 8192), (false, 8192), (true, 128 << 10)] {
        let server = serve(memory(SIZE), encrypted.then(|| cipher(64, 512)), false);
        let writers: Vec<_> = [1u8, 2]
            .map(|who| {
                let mut client = server.client();
                std::thread::spawn(move || {
                    for n in 0..50 {
                        // Overlapping, not equal.
                        let offset = (n % 4) * 1024 + u64::from(who) * 512;
                        client.write(offset, &vec![who; length]).unwrap();
                    }
                })
            })
            .into();
        let mut reader = server.client();
        let mut look = || {
            let all = reader.read(0, (length + 8192) as u32).unwrap();
            for (n, sector) in all.chunks(512).enumerate() {
                // Never written sectors decipher to anything.
                let untouched = n == 0 || n > length / 512;
                assert!(
                    untouched || sector.iter().all(|byte| *byte == sector[0]),
                    "sector {n} is mixed"
                );
            }
        };
        for writer in writers {
            writer.join().unwrap();
            look();
        }
    }
}

#[test]
fn a_flush_covers_what_other_connections_were_answered() {
    let server = serve(memory(SIZE), None, false);
    let (mut one, mut other) = (server.client(), server.client());
    assert_ne!(one.flags & 1 << 8, 0, "CAN_MULTI_CONN");
    one.write(0, &[1; 512]).unwrap();
    other.ask(command::FLUSH, 0, 0, 0, &[]).unwrap();
    assert_eq!(other.read(0, 512).unwrap(), [1; 512]);
}

#[test]
fn a_client_may_leave_with_requests_in_flight_and_gets_its_answers() {
    let server = serve(memory(SIZE), Some(cipher(64, 512)), false);
    let mut client = server.client();
    for n in 0..64 {
        client.send(
            command::WRITE,
            0,
            n * 4096,
            4096,
            &pattern(n * 4096, 4096, 5),
        );
    }
    client
        .stream
        .write_all(
            &Request {
                command: command::DISCONNECT,
                flags: 0,
                cookie: 0,
                offset: 0,
                length: 0,
            }
            .encode(),
        )
        .unwrap();
    for _ in 0..64 {
        assert_eq!(client.receive().error, 0);
    }
    assert!(client.is_closed());
    assert!(server.client().read(0, 64 * 4096).unwrap() == pattern(0, 64 * 4096, 5));
}

#[test]
fn the_handshake_answers_every_option() {
    let server = serve(memory(SIZE), Some(cipher(64, 4096)), false);
    let mut stream = Client::greet(&server.socket);
    let mut ask = |option: u32, data: &[u8]| {
        send_option(&mut stream, option, data);
        let mut kinds = vec![];
        loop {
            let (echo, kind, data) = read_option(&mut stream);
            assert_eq!(echo, option);
            kinds.push((kind, data));
            if kind == option_reply::ACK || kind & 1 << 31 != 0 {
                return kinds;
            }
        }
    };
    let kind = |answer: Vec<(u32, Vec<u8>)>| answer.last().unwrap().0;
    assert_eq!(kind(ask(5, &[])), option_reply::ERR_UNSUP, "no TLS");
    assert_eq!(kind(ask(4711, b"whatever")), option_reply::ERR_UNSUP);
    assert_eq!(ask(option::LIST, &[])[0].1, b"\0\0\0\x04disk");
    assert_eq!(kind(ask(option::LIST, b"x")), option_reply::ERR_INVALID);
    assert_eq!(
        kind(ask(option::INFO, &[0; 9000])),
        option_reply::ERR_TOO_BIG
    );
    for bad in [
        &b""[..],
        &[0; 3],
        &[0, 0, 0, 9, b'd'],
        &[0, 0, 0, 0, 0, 1],
        &[255; 8],
    ] {
        assert_eq!(
            kind(ask(option::INFO, bad)),
            option_reply::ERR_INVALID,
            "{bad:?}"
        );
    }
    assert_eq!(
        kind(ask(option::INFO, b"\0\0\0\x05other\0\0")),
        option_reply::ERR_UNKNOWN
    );
    // Sectors of 4096: served to a client that does not ask for block sizes too, as the kernel's.
    assert_eq!(
        kind(ask(option::INFO, b"\0\0\0\x04disk\0\0")),
        option_reply::ACK
    );
    let told = ask(option::INFO, b"\0\0\0\x04disk\0\x01\0\x03");
    let sizes = &told.iter().find(|(_, data)| data[..2] == [0, 3]).unwrap().1;
    assert_eq!(sizes[2..], [0, 0, 16, 0, 0, 0, 16, 0, 2, 0, 0, 0]);
    // Contexts need structured replies.
    let all = b"\0\0\0\0\0\0\0\0";
    assert_eq!(
        kind(ask(option::LIST_META_CONTEXT, all)),
        option_reply::ERR_INVALID
    );
    assert_eq!(kind(ask(option::STRUCTURED_REPLY, &[])), option_reply::ACK);
    assert_eq!(
        ask(option::LIST_META_CONTEXT, all)[0].1[4..],
        *b"base:allocation"
    );
    assert_eq!(
        ask(option::SET_META_CONTEXT, b"\0\0\0\0\0\0\0\x01\0\0\0\x03x:y").len(),
        1
    );
    assert_eq!(
        kind(ask(option::SET_META_CONTEXT, b"\0\0\0\0\xff\xff\xff\xff")),
        option_reply::ERR_INVALID
    );
    assert_eq!(kind(ask(option::ABORT, &[])), option_reply::ACK);
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
}

#[test]
fn the_old_way_to_choose_an_export_works() {
    let server = serve(memory(SIZE), None, false);
    let mut stream = Client::greet(&server.socket);
    send_option(&mut stream, option::EXPORT_NAME, b"disk");
    let mut about = [0; 10];
    stream.read_exact(&mut about).unwrap();
    assert_eq!(about[..8], SIZE.to_be_bytes());
    let mut stream = Client::greet(&server.socket);
    send_option(&mut stream, option::EXPORT_NAME, b"another");
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
}
