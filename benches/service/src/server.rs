//! The server: one task of tokio for each connection, in one of three ways. It is a process of its
//! own, so that its CPU time is.
//!
//! A request is the length of a message in four bytes, and the message. The answer is its length in
//! four bytes, and what [`work::answer`] makes of the message. A request of length 0 is answered at
//! once; one of length [`ASK_USAGE`] with what the process has used so far.

use crate::usage::Usage;
use crate::work::{self, Kind};
use clap::ValueEnum;
use cmwq::Workqueue;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub(crate) const ASK_USAGE: u32 = u32::MAX;
/// A longer message is none of the client's.
const LONGEST: u32 = 1 << 24;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Way {
    /// The connection's task awaits an item of a workqueue
    Cmwq,
    /// The connection's task awaits a closure on tokio's blocking threads
    SpawnBlocking,
    /// The connection's task computes itself, on the executor's thread
    Inline,
}

impl Way {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Way::Cmwq => "cmwq",
            Way::SpawnBlocking => "spawn_blocking",
            Way::Inline => "inline",
        }
    }
}

struct Server {
    way: Way,
    kind: Kind,
    queue: Workqueue,
    /// Counts the requests that are computed.
    number: AtomicU32,
}

impl Server {
    async fn answer(&self, message: Vec<u8>) -> io::Result<Vec<u8>> {
        let kind = self.kind;
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let sleeps = kind.sleep_every > 0 && number.is_multiple_of(kind.sleep_every);
        let compute = move || {
            if sleeps {
                work::sleep();
            }
            work::answer(&message, kind.fresh)
        };
        match self.way {
            Way::Cmwq => self.queue.spawn(compute).await.map_err(io::Error::other),
            Way::SpawnBlocking => Ok(tokio::task::spawn_blocking(compute).await?),
            Way::Inline => Ok(compute()),
        }
    }

    async fn serve(self: Arc<Self>, mut client: TcpStream) -> io::Result<()> {
        client.set_nodelay(true)?;
        let mut out = Vec::new();
        loop {
            let length = client.read_u32().await?;
            let answer = match length {
                0 => Vec::new(),
                ASK_USAGE => Usage::now()?.to_bytes(),
                1..=LONGEST => {
                    let mut message = vec![0; length as usize];
                    client.read_exact(&mut message).await?;
                    self.answer(message).await?
                }
                _ => return Err(io::ErrorKind::InvalidData.into()),
            };
            out.clear();
            out.extend_from_slice(&(answer.len() as u32).to_be_bytes());
            out.extend_from_slice(&answer);
            client.write_all(&out).await?;
        }
    }
}

/// Serves until the process is ended. Prints its address first.
pub(crate) fn run(way: Way, kind: Kind) -> Result<(), Box<dyn std::error::Error>> {
    let server = Arc::new(Server {
        way,
        kind,
        queue: Workqueue::builder("requests").build()?,
        number: AtomicU32::new(1),
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_io()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        println!("{}", listener.local_addr()?);
        loop {
            let (client, _) = listener.accept().await?;
            // A connection ends when its client closes it.
            drop(tokio::spawn(server.clone().serve(client)));
        }
    })
}
