//! What was made durable outlives a kill; a full disk is an error.

use super::served::{Served, key_file, path, ways};
use crate::common::{Client, Dir, pattern};
use cmwq_nbd::protocol::command;

#[test]
fn nothing_that_was_made_durable_is_lost_to_a_kill() {
    for way in ways() {
        kill_after_flush_and_fua(way);
    }
}

fn kill_after_flush_and_fua(way: &[&str]) {
    let dir = Dir::new();
    let (key, image) = (key_file(&dir), dir.file("image"));
    std::fs::File::create(&image)
        .unwrap()
        .set_len(4 << 20)
        .unwrap();
    let (key, image) = (path(&key).to_owned(), path(&image).to_owned());
    let args = [&*image, "--cipher", "aes-xts-plain64", "--key-file", &*key];
    let args = [&args, way].concat();
    let mut served = Served::start(dir, &args);
    for round in 0..5u8 {
        let mut client = Client::connect(&served.socket(), true);
        // Flushed over this connection, and by FUA.
        client.write(0, &pattern(0, 1 << 20, round)).unwrap();
        client.ask(command::FLUSH, 0, 0, 0, &[]).unwrap();
        client
            .ask(
                command::WRITE,
                1,
                1 << 20,
                65536,
                &pattern(1 << 20, 65536, round),
            )
            .unwrap();
        // And some that are not acknowledged.
        for n in 0..32 {
            client.send(
                command::WRITE,
                0,
                (2 << 20) + n * 4096,
                4096,
                &[round; 4096],
            );
        }
        served.child.kill().unwrap();
        served.child.wait().unwrap();
        // The dead server's socket is in the way, and is known to be dead.
        let dir = std::mem::replace(&mut served.dir, Dir::new());
        assert!(dir.file("socket").exists());
        served = Served::start(dir, &args);
        let mut client = Client::connect(&served.socket(), true);
        assert!(client.read(0, 1 << 20).unwrap() == pattern(0, 1 << 20, round));
        assert!(client.read(1 << 20, 65536).unwrap() == pattern(1 << 20, 65536, round));
    }
    assert_eq!(served.stop(), 0);
}

#[test]
fn a_full_disk_is_an_error_to_the_client_and_the_server_lives_on() {
    for way in ways() {
        fill_the_disk(way);
    }
}

fn fill_the_disk(way: &[&str]) {
    // The file may not grow beyond half of what is served: as if the disk were full.
    let dir = Dir::new();
    let image = dir.file("image");
    std::fs::File::create(&image)
        .unwrap()
        .set_len(2 << 20)
        .unwrap();
    let limits = rustix::process::Rlimit {
        current: Some(1 << 20),
        maximum: Some(1 << 20),
    };
    let mut served = Served::start(dir, &[&[path(&image)], way].concat());
    let pid = rustix::process::Pid::from_child(&served.child);
    rustix::process::prlimit(Some(pid), rustix::process::Resource::Fsize, limits).unwrap();
    let mut client = Client::connect(&served.socket(), true);
    assert_eq!(client.write(1 << 20, &[1; 4096]), Err(28));
    // The part that has room is written, and then there is none.
    assert_eq!(client.write((1 << 20) - 512, &[1; 4096]), Err(28));
    assert_eq!(
        client.write(2 << 20, &[1; 4096]),
        Err(28),
        "beyond the end as well"
    );
    client.write(0, &[2; 4096]).unwrap();
    assert_eq!(client.read(0, 4096).unwrap(), vec![2; 4096]);
    assert!(served.child.try_wait().unwrap().is_none());
}
