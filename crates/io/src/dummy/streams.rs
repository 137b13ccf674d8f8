//! Streams that join dummies of one machine, in one switch or in several, as Open vSwitch has
//! them: on a Unix socket, each packet behind its length in two bytes.
//!
//! 1. Nothing blocks. Packets for a slow peer are kept up to [`LEAVING_MAX`] bytes; further ones
//!    are dropped, and the port counts them.
//! 2. There are at most [`PEERS_MAX`] peers; others are turned away.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

/// Most peers of a dummy that listens.
const PEERS_MAX: usize = 16;
/// Most bytes that wait for a peer.
const LEAVING_MAX: usize = 1 << 20;
/// Bytes read at once.
const READ_BYTES: usize = 1 << 16;

/// How a dummy is joined to others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DummyEnd {
    /// It listens at this path.
    Listen(PathBuf),
    /// It connects to a dummy that listens at this path, again after that has gone.
    Connect(PathBuf),
}

/// Whether a dummy is joined to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DummyConnection {
    /// It has no streams.
    Unknown,
    /// A peer is connected.
    Connected,
    /// It waits for a peer.
    Disconnected,
}

/// The streams of a dummy.
#[derive(Debug)]
pub(super) struct Streams {
    end: DummyEnd,
    listener: Option<UnixListener>,
    /// Ready while a peer has sent something.
    ready: OwnedFd,
    peers: Vec<Peer>,
}

#[derive(Debug)]
struct Peer {
    socket: UnixStream,
    /// The beginning of a packet.
    arriving: Vec<u8>,
    leaving: Vec<u8>,
}

impl Streams {
    /// Listens, or connects as soon as there is a peer; `event` is watched beside the peers.
    pub(super) fn open(end: DummyEnd, event: &OwnedFd) -> io::Result<Streams> {
        let ready = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&ready, event, EventData::new_u64(0), EventFlags::IN)?;
        let listener = match &end {
            DummyEnd::Listen(path) => {
                // A socket that a process has left behind is in the way.
                let _ = std::fs::remove_file(path);
                let listener = UnixListener::bind(path)?;
                listener.set_nonblocking(true)?;
                Some(listener)
            }
            DummyEnd::Connect(_) => None,
        };
        let mut streams = Streams {
            end,
            listener,
            ready,
            peers: Vec::new(),
        };
        streams.tend();
        Ok(streams)
    }

    /// A copy of the descriptor that is ready while there is something to receive.
    pub(super) fn descriptor(&self) -> io::Result<OwnedFd> {
        self.ready.try_clone()
    }

    pub(super) fn connection(&self) -> DummyConnection {
        match self.peers.is_empty() {
            true => DummyConnection::Disconnected,
            false => DummyConnection::Connected,
        }
    }

    /// Takes peers that wait, or connects; sends what waits.
    pub(super) fn tend(&mut self) {
        match (&self.end, &self.listener) {
            (_, Some(listener)) => {
                let mut taken = Vec::new();
                while let Ok((socket, _)) = listener.accept() {
                    // Invariant 2: a socket that is not kept is closed.
                    if self.peers.len() + taken.len() < PEERS_MAX {
                        taken.push(socket);
                    }
                }
                taken.into_iter().for_each(|socket| self.join(socket));
            }
            (DummyEnd::Connect(path), None) if self.peers.is_empty() => {
                if let Ok(socket) = UnixStream::connect(path) {
                    self.join(socket);
                }
            }
            _ => {}
        }
        self.peers.retain_mut(Peer::flush);
    }

    fn join(&mut self, socket: UnixStream) {
        let event = EventData::new_u64(1);
        let is_joined = socket.set_nonblocking(true).is_ok()
            && epoll::add(&self.ready, socket.as_fd(), event, EventFlags::IN).is_ok();
        if is_joined {
            self.peers.push(Peer {
                socket,
                arriving: Vec::new(),
                leaving: Vec::new(),
            });
        }
    }

    /// Receives packets until `waiting` has `most`; returns whether there were any.
    pub(super) fn receive(&mut self, waiting: &mut VecDeque<Box<[u8]>>, most: usize) -> bool {
        let before = waiting.len();
        self.peers.retain_mut(|peer| peer.receive(waiting, most));
        waiting.len() > before
    }

    /// Sends a packet to all peers; returns whether each had room for it.
    pub(super) fn send(&mut self, packet: &[u8]) -> bool {
        let Ok(length) = u16::try_from(packet.len()) else {
            return false;
        };
        if self.peers.is_empty() {
            // One may wait already.
            self.tend();
        }
        let mut is_sent = true;
        for peer in &mut self.peers {
            // Invariant 1.
            if peer.leaving.len() + packet.len() + 2 > LEAVING_MAX {
                is_sent = false;
                continue;
            }
            peer.leaving.extend_from_slice(&length.to_be_bytes());
            peer.leaving.extend_from_slice(packet);
        }
        is_sent
    }

    /// Writes what waits, as far as peers take it.
    pub(super) fn flush(&mut self) {
        self.peers.retain_mut(Peer::flush);
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        if let (DummyEnd::Listen(path), Some(_)) = (&self.end, &self.listener) {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Peer {
    /// Writes what waits; returns whether the peer is there still.
    fn flush(&mut self) -> bool {
        let mut written = 0;
        while written < self.leaving.len() {
            match self.socket.write(&self.leaving[written..]) {
                Ok(0) => return false,
                Ok(count) => written += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return false,
            }
        }
        self.leaving.drain(..written);
        true
    }

    /// Reads until `waiting` has `most` packets; returns whether the peer is there still.
    fn receive(&mut self, waiting: &mut VecDeque<Box<[u8]>>, most: usize) -> bool {
        let mut bytes = [0; READ_BYTES];
        loop {
            self.split(waiting, most);
            if waiting.len() >= most {
                return true;
            }
            match self.socket.read(&mut bytes) {
                Ok(0) => return false,
                Ok(count) => self.arriving.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
    }

    /// Takes whole packets off the bytes that have arrived.
    fn split(&mut self, waiting: &mut VecDeque<Box<[u8]>>, most: usize) {
        let mut taken = 0;
        while waiting.len() < most {
            let rest = &self.arriving[taken..];
            let Some((length, rest)) = rest.split_first_chunk() else {
                break;
            };
            let length = usize::from(u16::from_be_bytes(*length));
            let Some(packet) = rest.get(..length) else {
                break;
            };
            waiting.push_back(packet.into());
            taken += 2 + length;
        }
        self.arriving.drain(..taken);
    }
}
