//! The server's socket in the file system, and its end beside clients that read nothing.

use std::os::unix::net::UnixListener;
use std::sync::{Arc, Barrier};

use crate::common::{Client, Deadline, Dir, memory, queues, serve};
use cmwq_nbd::export::Export;
use cmwq_nbd::server::{Endpoint, Server};

#[test]
fn the_uri_of_any_path_is_one() {
    let dir = Dir::new();
    let export = Arc::new(Export::new("disk", memory(1 << 20), None, false));
    let endpoint = Endpoint::Unix(dir.file("a b#%\u{e9}&"));
    let server = Server::start(export, queues(0), &endpoint, 1).unwrap();
    let uri = server.uri();
    assert!(uri.ends_with("/a%20b%23%25%C3%A9%26"), "{uri}");
}

#[test]
fn a_server_that_has_stopped_leaves_no_socket() {
    for _ in 0..50 {
        let serving = serve(memory(1 << 20), None, false);
        let _clients: Vec<Client> = (0..8).map(|_| serving.client()).collect();
        serving.server.stop().unwrap();
        assert!(!serving.socket.exists());
    }
}

#[test]
fn the_socket_of_another_server_stays() {
    let serving = serve(memory(1 << 20), None, false);
    std::fs::remove_file(&serving.socket).unwrap();
    let _other = UnixListener::bind(&serving.socket).unwrap();
    serving.server.stop().unwrap();
    assert!(serving.socket.exists());
}

#[test]
fn of_servers_that_find_a_stale_socket_at_the_same_time_one_gets_the_path() {
    let _deadline = Deadline::long("servers at one path");
    let dir = Dir::new();
    for round in 0..100 {
        let socket = dir.file(&format!("socket{round}"));
        drop(UnixListener::bind(&socket).unwrap());
        let together = Barrier::new(4);
        let servers: Vec<_> = std::thread::scope(|scope| {
            let threads = [(); 4].map(|()| {
                let export = Arc::new(Export::new("disk", memory(1 << 20), None, false));
                let (endpoint, together) = (Endpoint::Unix(socket.clone()), &together);
                scope.spawn(move || {
                    together.wait();
                    Server::start(export, queues(0), &endpoint, 64)
                })
            });
            threads.map(|thread| thread.join().unwrap()).into()
        });
        assert_eq!(servers.iter().filter(|server| server.is_ok()).count(), 1);
        Client::greet(&socket);
    }
}
