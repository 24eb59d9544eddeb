//! The handshake: fixed newstyle, up to the choice of the export.
#![forbid(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use crate::export::Export;
use crate::protocol::{
    BASE_ALLOCATION, BASE_ALLOCATION_ID, INIT_MAGIC, MAX_PAYLOAD, OPTION_MAGIC, OPTION_REPLY_MAGIC,
    be16, be32, be64, handshake, info, option, option_reply, transmission,
};
use crate::socket::{self, Full, Input, Piece};

/// The longest option data that are read; longer options are refused.
const MAX_OPTION: u32 = 8 << 10;
/// Options whose data are longer than this are not even skipped.
const ABSURD_OPTION: u32 = 1 << 20;
/// Options in one handshake.
const MAX_OPTIONS: usize = 1000;
/// The preferred block size.
const PREFERRED_BLOCK: u32 = 4096;

/// What a client has chosen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Session {
    pub(crate) structured: bool,
    pub(crate) block_status: bool,
}

/// Leads the handshake. `None`: the client only wanted to know something.
///
/// # Errors
/// The connection's, or a client that does not speak the protocol.
pub(crate) fn negotiate(
    fd: BorrowedFd<'_>,
    input: &mut Input,
    export: &Export,
) -> io::Result<Option<Session>> {
    let mut greeting = Vec::with_capacity(18);
    greeting.extend(INIT_MAGIC.to_be_bytes());
    greeting.extend(OPTION_MAGIC.to_be_bytes());
    let flags = handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES;
    greeting.extend(flags.to_be_bytes());
    socket::send(fd, &mut [Piece::new(&greeting)], Full::Wait)?;
    let client_flags = u32::from_be_bytes(input.read_array(fd)?);
    if client_flags & !u32::from(flags) != 0 {
        return Err(io::Error::other("the client has unknown handshake flags"));
    }
    let mut talk = Talk {
        fd,
        input,
        export,
        no_zeroes: client_flags & u32::from(handshake::NO_ZEROES) != 0,
        session: Session::default(),
        reply: Vec::new(),
    };
    for _ in 0..MAX_OPTIONS {
        match talk.option()? {
            Next::Option => {}
            Next::End => return Ok(None),
            Next::Transmission => return Ok(Some(talk.session)),
        }
    }
    Err(io::Error::other("the client sent too many options"))
}

enum Next {
    Option,
    End,
    Transmission,
}

struct Talk<'a> {
    fd: BorrowedFd<'a>,
    input: &'a mut Input,
    export: &'a Export,
    no_zeroes: bool,
    session: Session,
    /// Sent when the option has been dealt with.
    reply: Vec<u8>,
}

impl Talk<'_> {
    fn option(&mut self) -> io::Result<Next> {
        let header: [u8; 16] = self.input.read_array(self.fd)?;
        if be64(&header, 0) != OPTION_MAGIC {
            return Err(io::Error::other("this is not an NBD option"));
        }
        let (option, length) = (be32(&header, 8), be32(&header, 12));
        if length > ABSURD_OPTION {
            return Err(io::Error::other("an option is too long"));
        }
        if length > MAX_OPTION {
            self.input.discard(self.fd, length)?;
            if option == option::EXPORT_NAME {
                return Err(io::Error::other("an export's name is too long"));
            }
            self.answer(option, option_reply::ERR_TOO_BIG, &[]);
            return self.send(Next::Option);
        }
        let mut data = vec![0; length as usize];
        self.input.read(self.fd, &mut data)?;
        let next = self.deal_with(option, &data)?;
        self.send(next)
    }

    fn deal_with(&mut self, option: u32, data: &[u8]) -> io::Result<Next> {
        match option {
            option::EXPORT_NAME => {
                if !self.is_here(data) {
                    // The protocol has no way to say so.
                    return Err(io::Error::other("the client asks for an unknown export"));
                }
                self.reply.extend(self.export.size().to_be_bytes());
                self.reply.extend(self.flags().to_be_bytes());
                if !self.no_zeroes {
                    self.reply.extend([0; 124]);
                }
                return Ok(Next::Transmission);
            }
            option::ABORT => {
                self.answer(option, option_reply::ACK, &[]);
                return Ok(Next::End);
            }
            option::LIST if data.is_empty() => {
                let name = self.export.name().as_bytes();
                let mut entry = (name.len() as u32).to_be_bytes().to_vec();
                entry.extend(name);
                self.answer(option, option_reply::SERVER, &entry);
                self.answer(option, option_reply::ACK, &[]);
            }
            option::STRUCTURED_REPLY if data.is_empty() => {
                self.session.structured = true;
                self.answer(option, option_reply::ACK, &[]);
            }
            option::LIST | option::STRUCTURED_REPLY => {
                self.answer(option, option_reply::ERR_INVALID, &[]);
            }
            option::INFO | option::GO => {
                if self.tell(option, data) && option == option::GO {
                    return Ok(Next::Transmission);
                }
            }
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => self.contexts(option, data),
            _ => self.answer(option, option_reply::ERR_UNSUP, &[]),
        }
        Ok(Next::Option)
    }

    /// `INFO` and `GO`; whether they were granted.
    fn tell(&mut self, option: u32, data: &[u8]) -> bool {
        let Some((name, wanted)) = split_info(data) else {
            self.answer(option, option_reply::ERR_INVALID, &[]);
            return false;
        };
        if !self.is_here(name) {
            self.answer(option, option_reply::ERR_UNKNOWN, &[]);
            return false;
        }
        let asked = |kind: u16| wanted.chunks_exact(2).any(|asked| be16(asked, 0) == kind);
        let asks_name = asked(info::NAME);
        let min_block = self.export.min_block();
        let mut about = info::EXPORT.to_be_bytes().to_vec();
        about.extend(self.export.size().to_be_bytes());
        about.extend(self.flags().to_be_bytes());
        self.answer(option, option_reply::INFO, &about);
        if asks_name {
            let mut about = info::NAME.to_be_bytes().to_vec();
            about.extend(self.export.name().as_bytes());
            self.answer(option, option_reply::INFO, &about);
        }
        // Sent to all: a client skips those that it does not know. One that does not ask is served
        // all the same, although the protocol permits a refusal: the kernel's client never asks,
        // and is told its block size by its user (`nbd-client -b 4096`).
        let mut about = info::BLOCK_SIZE.to_be_bytes().to_vec();
        about.extend(min_block.to_be_bytes());
        about.extend(PREFERRED_BLOCK.max(min_block).to_be_bytes());
        about.extend(MAX_PAYLOAD.to_be_bytes());
        self.answer(option, option_reply::INFO, &about);
        self.answer(option, option_reply::ACK, &[]);
        true
    }

    /// `LIST_META_CONTEXT` and `SET_META_CONTEXT`.
    fn contexts(&mut self, option: u32, data: &[u8]) {
        let sets = option == option::SET_META_CONTEXT;
        if sets {
            self.session.block_status = false;
        }
        let Some((name, queries)) = split_contexts(data).filter(|_| self.session.structured) else {
            return self.answer(option, option_reply::ERR_INVALID, &[]);
        };
        if !self.is_here(name) {
            return self.answer(option, option_reply::ERR_UNKNOWN, &[]);
        }
        let lists_all = !sets && queries.is_empty();
        let asked = queries
            .iter()
            .any(|&query| query == BASE_ALLOCATION.as_bytes() || (!sets && query == b"base:"));
        if lists_all || asked {
            let id = if sets { BASE_ALLOCATION_ID } else { 0 };
            let mut context = id.to_be_bytes().to_vec();
            context.extend(BASE_ALLOCATION.as_bytes());
            self.session.block_status |= sets;
            self.answer(option, option_reply::META_CONTEXT, &context);
        }
        self.answer(option, option_reply::ACK, &[]);
    }

    fn is_here(&self, name: &[u8]) -> bool {
        name.is_empty() || name == self.export.name().as_bytes()
    }

    fn flags(&self) -> u16 {
        use transmission::*;
        // A flush covers what was written over any connection: what was answered is in the one store.
        let mut flags = HAS_FLAGS | SEND_FLUSH | SEND_FUA | SEND_CACHE | CAN_MULTI_CONN;
        if self.session.structured {
            flags |= SEND_DF;
        }
        flags
            | if self.export.is_read_only() {
                READ_ONLY
            } else {
                SEND_TRIM | SEND_WRITE_ZEROES
            }
            | if self.export.has_fast_zeroes() {
                SEND_FAST_ZERO
            } else {
                0
            }
    }

    fn answer(&mut self, option: u32, kind: u32, data: &[u8]) {
        self.reply.extend(OPTION_REPLY_MAGIC.to_be_bytes());
        self.reply.extend(option.to_be_bytes());
        self.reply.extend(kind.to_be_bytes());
        self.reply.extend((data.len() as u32).to_be_bytes());
        self.reply.extend(data);
    }

    fn send(&mut self, next: Next) -> io::Result<Next> {
        let sent = socket::send(self.fd.as_fd(), &mut [Piece::new(&self.reply)], Full::Wait);
        self.reply.clear();
        match (sent, next) {
            // A client that says goodbye need not stay for the answer.
            (_, Next::End) => Ok(Next::End),
            (sent, next) => sent.map(|_| next),
        }
    }
}

/// Name and wanted kinds of `INFO` and `GO`. `None`: lengths that do not fit.
fn split_info(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (name, rest) = split_name(data)?;
    let (count, wanted) = rest.split_first_chunk::<2>()?;
    (wanted.len() == 2 * usize::from(u16::from_be_bytes(*count))).then_some((name, wanted))
}

/// Name and queries of the two options about metadata contexts.
fn split_contexts(data: &[u8]) -> Option<(&[u8], Vec<&[u8]>)> {
    let (name, rest) = split_name(data)?;
    let (count, mut rest) = rest.split_first_chunk::<4>()?;
    let count = u32::from_be_bytes(*count) as usize;
    // Each takes 4 bytes at least.
    let mut queries = Vec::with_capacity(count.min(rest.len() / 4));
    for _ in 0..count {
        let (query, more) = split_name(rest)?;
        queries.push(query);
        rest = more;
    }
    rest.is_empty().then_some((name, queries))
}

fn split_name(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = data.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_be_bytes(*length) as usize)
}
