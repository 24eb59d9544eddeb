//! A tokio server that computes on a workqueue: its threads read and write, and are never busy for
//! longer than that. Its clients are here as well, so that it ends.
//!
//! At most [`WAITING`] requests wait for a CPU. A connection whose request finds no room waits for
//! it before it reads the next one, so a client that sends faster than the server computes is
//! slowed down by TCP. At the end the queue is shut down without blocking the executor's thread.
//!
//! A request is the length of a message in four bytes, and the message; the answer is what a slow
//! hash makes of it, in eight. Try:
//!
//! ```text
//! cargo run --release -p cmwq --example tokio_server
//! ```

use cmwq::Workqueue;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::time::timeout;

const CLIENTS: u32 = 8;
const REQUESTS: u32 = 128;
/// How many requests may wait for a CPU.
const WAITING: usize = 64;
/// A longer message is none of ours.
const LONGEST: u32 = 1 << 20;

/// Some tens of microseconds: too long for a thread that serves connections.
fn slow_hash(message: &[u8]) -> u64 {
    (0..64).fold(0, |seed: u64, _| {
        let mut hasher = DefaultHasher::new();
        (seed, message).hash(&mut hasher);
        hasher.finish()
    })
}

async fn serve(mut client: TcpStream, queue: Workqueue) -> io::Result<u32> {
    let mut answered = 0;
    loop {
        let length = match client.read_u32().await {
            Ok(length) if length <= LONGEST => length,
            Ok(_) => return Err(io::ErrorKind::InvalidData.into()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(answered),
            Err(error) => return Err(error),
        };
        let mut message = vec![0; length as usize];
        client.read_exact(&mut message).await?;
        // A connection that is given up while it waits here takes back what has not begun.
        let room = queue.room().await.map_err(io::Error::other)?;
        let hash = room.spawn(move || slow_hash(&message));
        let hash = hash.map_err(|refused| io::Error::other(refused.why))?;
        let hash = hash.abort_on_drop().await.map_err(io::Error::other)?;
        client.write_u64(hash).await?;
        answered += 1;
    }
}

async fn ask(mut server: TcpStream, number: u32) -> io::Result<()> {
    for request in 0..REQUESTS {
        let message = vec![(number + request) as u8; 1024];
        server.write_u32(message.len() as u32).await?;
        server.write_all(&message).await?;
        assert_eq!(server.read_u64().await?, slow_hash(&message));
    }
    Ok(())
}

async fn serve_all() -> Result<(), Box<dyn std::error::Error>> {
    let queue = Workqueue::builder("hashes").max_waiting(WAITING).build()?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            tokio::spawn(async move { ask(TcpStream::connect(address).await?, number).await })
        })
        .collect();
    let mut connections = Vec::new();
    for _ in 0..CLIENTS {
        let (client, _) = listener.accept().await?;
        connections.push(tokio::spawn(serve(client, queue.clone())));
    }
    let mut answered = 0;
    for connection in connections {
        answered += connection.await??;
    }
    for client in clients {
        client.await??;
    }
    println!("{answered} requests answered");
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
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve_all())
}
