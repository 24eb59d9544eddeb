//! The examples of services serve their own clients to the end.
#![allow(dead_code, reason = "examples are programs")]

#[path = "harness/deadline.rs"]
mod deadline;
#[path = "../examples/epoll_server.rs"]
mod epoll_server;
#[path = "../examples/http_server.rs"]
mod http_server;
#[path = "harness/random.rs"]
mod random;
#[path = "../examples/tokio_server.rs"]
mod tokio_server;

use deadline::Deadline;
use std::fs;
use std::path::Path;

/// Programs that measure are in the crate `cmwq-measure`. Seen to fail: an example that a page does
/// not name.
#[test]
fn the_examples_are_services_and_are_found_from_where_readers_begin() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages = ["../../README.md", "../../docs/adopting.md", "src/lib.rs"];
    let pages = pages.map(|page| (page, fs::read_to_string(root.join(page)).unwrap()));
    let mut names = Vec::new();
    for entry in fs::read_dir(root.join("examples")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        for (page, text) in &pages {
            let link = format!("crates/cmwq/examples/{name}");
            assert!(text.contains(&link), "{page} has no link to {name}");
        }
        names.push(name);
    }
    names.sort();
    // Each of them is run below.
    assert_eq!(
        names,
        ["epoll_server.rs", "http_server.rs", "tokio_server.rs"]
    );
}

#[test]
fn an_epoll_loop_gets_results_by_an_eventfd() {
    let _deadline = Deadline::long("the epoll server");
    epoll_server::main().unwrap();
}

#[test]
fn asynchronous_handlers_refuse_what_finds_no_room() {
    let _deadline = Deadline::long("the HTTP server");
    http_server::main().unwrap();
}

#[test]
fn tokio_connections_wait_for_room() {
    let _deadline = Deadline::long("the tokio server");
    tokio_server::main().unwrap();
}
