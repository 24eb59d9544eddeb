//! An HTTP service in the manner of axum: asynchronous handlers share a state, and leave to a
//! workqueue what computes or blocks.
//!
//! - `GET /thumbnail/SIZE` computes. If too much waits already, the answer is 503 at once: the
//!   closure comes back, and nothing was queued.
//! - `GET /status` says how long requests wait and run, which are the slowest now, and how many were refused.
//!
//! ```text
//! cargo run --release -p cmwq --example http_server 127.0.0.1:8080   # for ever
//! cargo run --release -p cmwq --example http_server                  # with clients of its own, until they are served
//! ```

use cmwq::observe::QueueState;
use cmwq::{Engine, Refused, Workqueue};
use std::fmt::Write as _;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::time::timeout;

/// How many requests may wait for a CPU.
const WAITING: usize = 32;
const CLIENTS: usize = 64;
/// A longer head of a request is none of ours.
const LONGEST: usize = 8192;

/// What the handlers share. A clone is a handle of the same queue.
#[derive(Clone)]
struct App {
    thumbnails: Workqueue,
}

/// The answer to a request: its status and its text.
type Answer = (u16, String);

/// Some hundred microseconds of computing.
fn thumbnail(size: u32) -> u64 {
    let pixels = (0..u64::from(size) * 1000).map(|pixel| pixel.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    pixels.fold(0, |sum, pixel| sum ^ pixel.rotate_left(7))
}

async fn get_thumbnail(app: &App, size: &str) -> Answer {
    let Ok(size) = size.parse::<u32>() else {
        return (400, "the size is no number\n".to_owned());
    };
    match app.thumbnails.try_spawn(move || thumbnail(size)) {
        // A client that goes away takes back what has not begun.
        Ok(handle) => match handle.abort_on_drop().await {
            Ok(sum) => (200, format!("{sum:016x}\n")),
            Err(error) if error.is_panic() => (500, "it panicked\n".to_owned()),
            Err(error) => (503, format!("{error}\n")),
        },
        Err(refused) if refused.why == Refused::Full => (503, "try again later\n".to_owned()),
        Err(refused) => (503, format!("{}\n", refused.why)),
    }
}

fn microseconds(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".to_owned(), |ns| format!("{} us", ns / 1000))
}

fn describe(text: &mut String, queue: &QueueState) {
    let times = &queue.times;
    for (what, histogram, longest) in [
        ("wait", &times.wait, times.longest_waiting_ns),
        ("run", &times.run, times.longest_running_ns),
    ] {
        let [p50, p99] = [0.5, 0.99].map(|share| microseconds(histogram.quantile_ns(share)));
        let longest = microseconds(longest);
        let _ = writeln!(
            text,
            "{} {what}: p50 {p50}, p99 {p99}, longest now {longest}",
            queue.name
        );
    }
    if let Some(room) = queue.room {
        let (waiting, most) = (room.waiting, room.max_waiting);
        let refused = queue.stats.refused;
        let _ = writeln!(
            text,
            "{}: {waiting} of {most} wait, {refused} were refused",
            queue.name
        );
    }
}

async fn get_status() -> Answer {
    let Ok(engine) = Engine::global() else {
        return (500, "there is no engine\n".to_owned());
    };
    let mut text = String::new();
    for queue in engine.queue_states() {
        describe(&mut text, &queue);
    }
    (200, text)
}

async fn route(app: &App, path: &str) -> Answer {
    match path.strip_prefix("/thumbnail/") {
        Some(size) => get_thumbnail(app, size).await,
        None if path == "/status" => get_status().await,
        None => (404, "there is no such page\n".to_owned()),
    }
}

/// The path that a `GET` asks for.
async fn read_path(client: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() > LONGEST || client.read_buf(&mut head).await? == 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    let head = String::from_utf8_lossy(&head);
    let mut words = head.split_whitespace();
    match (words.next(), words.next()) {
        (Some("GET"), Some(path)) => Ok(path.to_owned()),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

async fn serve(app: App, mut client: TcpStream) -> io::Result<()> {
    let path = read_path(&mut client).await?;
    let (status, text) = route(&app, &path).await;
    let length = text.len();
    let answer = format!(
        "HTTP/1.1 {status} -\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{text}"
    );
    client.write_all(answer.as_bytes()).await
}

async fn accept_all(app: App, listener: TcpListener) -> io::Result<()> {
    loop {
        let (client, _) = listener.accept().await?;
        tokio::spawn(serve(app.clone(), client));
    }
}

/// What the server answers.
async fn get(address: std::net::SocketAddr, path: &str) -> io::Result<String> {
    let mut server = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\n\r\n");
    server.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    server.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// More clients at once than may wait.
async fn be_served(address: std::net::SocketAddr) -> io::Result<()> {
    static SERVED: AtomicUsize = AtomicUsize::new(0);
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            tokio::spawn(async move {
                // A refused client comes again.
                while !get(address, &format!("/thumbnail/{number}"))
                    .await?
                    .contains(" 200 ")
                {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                SERVED.fetch_add(1, Ordering::Relaxed);
                io::Result::Ok(())
            })
        })
        .collect();
    for client in clients {
        client.await??;
    }
    println!("{} clients served", SERVED.load(Ordering::Relaxed));
    print!("{}", get(address, "/status").await?);
    Ok(())
}

async fn run(address: Option<String>) -> Result<(), Box<dyn std::error::Error>> {
    let builder = Workqueue::builder("thumbnails").max_waiting(WAITING);
    let app = App {
        thumbnails: builder.build()?,
    };
    let queue = app.thumbnails.clone();
    let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:0")).await?;
    let own = listener.local_addr()?;
    println!("on http://{own}/status");
    let accepts = tokio::spawn(accept_all(app, listener));
    if address.is_some() {
        return Ok(accepts.await??);
    }
    be_served(own).await?;
    accepts.abort();
    // No request is cut off, and the executor's thread does not block.
    let mut shutdown = queue.shutdown();
    if timeout(Duration::from_secs(10), &mut shutdown)
        .await
        .is_err()
    {
        eprintln!("{}", shutdown.unfinished());
    }
    Ok(())
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args()
        .nth(1)
        .filter(|argument| argument.contains(':'));
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run(address))
}
