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
