//! A client of OpenFlow 1.3 over a Unix socket.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use thalweg_openflow::message::packet::PacketIn;
use thalweg_openflow::message::switch::{FRAG_NORMAL, SwitchConfig};
use thalweg_openflow::message::{Message, Reply, Request};
use thalweg_openflow::{Frame, Session, SessionConfig, Version, Versions, encode};

/// How long a missing message is waited for, before the case has failed.
const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) struct Client {
    stream: UnixStream,
    session: Session,
    xid: u32,
    inbox: VecDeque<Frame>,
    /// Packets that the switch has sent.
    pub(crate) packet_ins: VecDeque<PacketIn>,
}

impl Client {
    pub(crate) fn connect(path: &Path) -> Client {
        let stream = UnixStream::connect(path).expect("the server listens");
        stream
            .set_read_timeout(Some(PATIENCE))
            .expect("it is a socket");
        let config = SessionConfig {
            versions: [Version::V13].into_iter().collect::<Versions>(),
            probe_interval: None,
        };
        let mut client = Client {
            stream,
            session: Session::new(config, Duration::ZERO),
            xid: 0,
            inbox: VecDeque::new(),
            packet_ins: VecDeque::new(),
        };
        client.flush();
        while client.session.version().is_none() {
            assert!(client.read(), "the switch says no hello");
        }
        // As os-ken begins. Without it a switch sends no packets to a client of its own.
        client.send(&Message::SetConfig(SwitchConfig {
            flags: FRAG_NORMAL,
            miss_send_length: 128,
        }));
        client
    }

    /// Sends a message that is encoded already, as the next transaction.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) -> u32 {
        self.xid += 1;
        let mut bytes = bytes.to_vec();
        bytes[4..8].copy_from_slice(&self.xid.to_be_bytes());
        self.session.send_bytes(bytes);
        self.flush();
        self.xid
    }

    pub(crate) fn send(&mut self, message: &Message) -> u32 {
        let bytes = encode(Version::V13, 0, message).expect("1.3 has the message");
        self.send_bytes(&bytes)
    }

    /// Waits until all is done that was sent; returns the first error.
    pub(crate) fn barrier(&mut self) -> Result<(), String> {
        let xid = self.send(&Message::BarrierRequest);
        let mut result = Ok(());
        loop {
            let frame = self.receive().ok_or("no reply to a barrier")?;
            match frame.message {
                Message::BarrierReply if frame.xid == xid => return result,
                Message::Error(error) if result.is_ok() => {
                    result = Err(match error.code(Version::V13) {
                        Some(code) => format!("refused: {code}"),
                        None => format!("refused: {error:?}"),
                    });
                }
                _ => {}
            }
        }
    }

    /// The replies to a request, in pieces.
    pub(crate) fn ask(&mut self, request: Request) -> Result<Vec<Reply>, String> {
        let xid = self.send(&Message::Request(request, false));
        let mut replies = Vec::new();
        loop {
            let frame = self.receive().ok_or("no reply to a request")?;
            match frame.message {
                Message::Reply(reply, more) if frame.xid == xid => {
                    replies.push(reply);
                    if !more {
                        return Ok(replies);
                    }
                }
                Message::Error(error) if frame.xid == xid => {
                    return Err(format!("a request is refused: {error:?}"));
                }
                _ => {}
            }
        }
    }

    /// Waits until this number of packet-ins have come, or no more come.
    pub(crate) fn wait_for_packets(&mut self, count: usize) {
        while self.packet_ins.len() < count && self.read() {}
    }

    /// The next message; `None` when none comes.
    fn receive(&mut self) -> Option<Frame> {
        while self.inbox.is_empty() {
            if !self.read() {
                return None;
            }
        }
        self.inbox.pop_front()
    }

    /// Reads once; returns whether bytes came.
    fn read(&mut self) -> bool {
        let mut bytes = [0; 65_536];
        let length = match self.stream.read(&mut bytes) {
            Ok(0) => panic!("the switch has closed the connection"),
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Err(error) => panic!("{error}"),
        };
        self.session.receive(&bytes[..length], Duration::ZERO);
        while let Some(incoming) = self.session.next() {
            let frame = incoming.frame.expect("the switch's messages can be read");
            match frame.message {
                Message::PacketIn(packet) => self.packet_ins.push_back(packet),
                _ => self.inbox.push_back(frame),
            }
        }
        self.flush();
        true
    }

    fn flush(&mut self) {
        while let Some(bytes) = self.session.take_output() {
            self.stream.write_all(&bytes).expect("the server reads");
        }
    }
}
