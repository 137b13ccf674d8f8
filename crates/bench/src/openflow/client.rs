//! The client: one connection over a Unix socket, used by one thread, the same for all switches.
//!
//! Messages are encoded before the clock starts, and replies decoded after it stops, so that
//! the client's own work is as little of a time as possible.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant as Wall};

use anyhow::{Context as _, Result, bail, ensure};
use thalweg_openflow::message::bundle::BundleControlType;
use thalweg_openflow::message::connection::Hello;
use thalweg_openflow::message::{Message, Reply, Request};
use thalweg_openflow::{Context, Version, decode, encode, message_length, xid_of};

use super::flows;

/// The version that the client speaks: the first with bundles of its own.
const VERSION: Version = Version::V14;
/// A switch that says nothing for this long has failed.
const PATIENCE: Duration = Duration::from_secs(120);
/// Bytes read in one go.
const READ_BYTES: usize = 256 << 10;

/// The numbers of message types that replies are told apart by (OpenFlow 1.4.1, section A.1).
const ERROR: u8 = 1;
const ECHO_REQUEST: u8 = 2;

/// A connection.
pub(super) struct Client {
    stream: UnixStream,
    /// Bytes that were read, and how many of them are used.
    input: Vec<u8>,
    used: usize,
    /// The next transaction.
    xid: u32,
}

impl Client {
    /// Connects, and agrees on a version.
    ///
    /// # Errors
    /// If there is no such socket, or the switch does not speak the version.
    pub(super) fn connect(path: &Path) -> Result<Client> {
        let stream = UnixStream::connect(path);
        let stream = stream.with_context(|| format!("connecting to {}", path.display()))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut client = Client {
            stream,
            input: Vec::new(),
            used: 0,
            xid: 1,
        };
        let versions = [VERSION].into_iter().collect();
        let hello = client.encode(&Message::Hello(Hello { versions }))?;
        client.stream.write_all(&hello)?;
        let answer = decode(&client.receive()?, Context::default())?;
        ensure!(
            matches!(answer.message, Message::Hello(hello) if hello.versions.contains(VERSION)),
            "the switch does not speak OpenFlow {VERSION}"
        );
        client.barrier()?;
        Ok(client)
    }

    /// Waits until the switch has done everything that was sent.
    pub(super) fn barrier(&mut self) -> Result<()> {
        let (bytes, xid) = self.numbered(&Message::BarrierRequest)?;
        self.exchange(&bytes, xid)
    }

    /// Adds `count` rules from number `first` on, with one barrier at the end; returns the
    /// time.
    pub(super) fn add_singly(&mut self, first: u32, count: u32) -> Result<Duration> {
        let mut bytes = Vec::new();
        for number in first..first + count {
            bytes.extend(self.encode(&Message::FlowMod(Box::new(flows::add(number))))?);
        }
        let (barrier, xid) = self.numbered(&Message::BarrierRequest)?;
        bytes.extend(barrier);
        let start = Wall::now();
        self.exchange(&bytes, xid)?;
        Ok(start.elapsed())
    }

    /// Adds `count` rules in bundles of `size`, each committed before the next begins; returns
    /// the time.
    pub(super) fn add_in_bundles(&mut self, count: u32, size: u32) -> Result<Duration> {
        let mut bundles = Vec::new();
        for (place, first) in (0..count).step_by(size as usize).enumerate() {
            let id = place as u32 + 1;
            let mut bytes = self.encode(&flows::bundle(BundleControlType::OpenRequest, id))?;
            for number in first..count.min(first + size) {
                let (inner, xid) =
                    self.numbered(&Message::FlowMod(Box::new(flows::add(number))))?;
                let outer = flows::bundled(id, inner);
                bytes.extend(encode(VERSION, xid, &outer).context("1.4 has bundles")?);
            }
            bytes.extend(self.encode(&flows::bundle(BundleControlType::CloseRequest, id))?);
            let (commit, xid) =
                self.numbered(&flows::bundle(BundleControlType::CommitRequest, id))?;
            bytes.extend(commit);
            bundles.push((bytes, xid));
        }
        let start = Wall::now();
        for (bytes, xid) in &bundles {
            self.exchange(bytes, *xid)?;
        }
        Ok(start.elapsed())
    }

    /// Adds `count` rules, each with its own barrier; returns the time of each.
    pub(super) fn add_with_barriers(&mut self, count: u32) -> Result<Vec<Duration>> {
        let mut messages = Vec::new();
        for number in 0..count {
            let mut bytes = self.encode(&Message::FlowMod(Box::new(flows::add(number))))?;
            let (barrier, xid) = self.numbered(&Message::BarrierRequest)?;
            bytes.extend(barrier);
            messages.push((bytes, xid));
        }
        let mut times = Vec::with_capacity(messages.len());
        for (bytes, xid) in &messages {
            let start = Wall::now();
            self.exchange(bytes, *xid)?;
            times.push(start.elapsed());
        }
        Ok(times)
    }

    /// Deletes all rules that the client added.
    pub(super) fn delete_all(&mut self) -> Result<()> {
        let bytes = self.encode(&Message::FlowMod(Box::new(flows::delete_all())))?;
        self.stream.write_all(&bytes)?;
        self.barrier()
    }

    /// Reads all rules that the client added; returns the time.
    ///
    /// # Errors
    /// If there are not `count` of them.
    pub(super) fn dump(&mut self, count: u32) -> Result<Duration> {
        let request = Message::Request(Request::Flow(flows::dump()), false);
        let (bytes, xid) = self.numbered(&request)?;
        let mut replies = Vec::new();
        let start = Wall::now();
        self.stream.write_all(&bytes)?;
        loop {
            let reply = self.reply(xid)?;
            // Whether more replies follow, in the header of all multipart replies.
            let is_last = reply.get(11).is_none_or(|flags| flags & 1 == 0);
            replies.push(reply);
            if is_last {
                break;
            }
        }
        let time = start.elapsed();
        let mut found = 0;
        for reply in &replies {
            match decode(reply, Context::default())?.message {
                Message::Reply(Reply::Flow(_, entries), _) => found += entries.len(),
                other => bail!("the reply to a dump is {other:?}"),
            }
        }
        ensure!(
            found == count as usize,
            "the dump has {found} rules instead of {count}"
        );
        Ok(time)
    }

    fn encode(&mut self, message: &Message) -> Result<Vec<u8>> {
        Ok(self.numbered(message)?.0)
    }

    /// A message with a transaction of its own.
    fn numbered(&mut self, message: &Message) -> Result<(Vec<u8>, u32)> {
        let xid = self.xid;
        self.xid += 1;
        let bytes = encode(VERSION, xid, message);
        let bytes = bytes.with_context(|| format!("OpenFlow {VERSION} has no {message:?}"))?;
        Ok((bytes, xid))
    }

    /// Sends messages and waits for the reply to the last.
    fn exchange(&mut self, bytes: &[u8], xid: u32) -> Result<()> {
        self.stream.write_all(bytes)?;
        self.reply(xid).map(drop)
    }

    /// The next reply to a transaction; other replies are passed over.
    ///
    /// # Errors
    /// If the switch refused something, or is gone.
    fn reply(&mut self, xid: u32) -> Result<Vec<u8>> {
        loop {
            let message = self.receive()?;
            match message[1] {
                ERROR => bail!(
                    "the switch refused: {:?}",
                    decode(&message, Context::default())
                ),
                ECHO_REQUEST => {
                    let data = message[8..].to_vec().into();
                    let echo = encode(VERSION, xid_of(&message), &Message::EchoReply(data));
                    self.stream.write_all(&echo.context("1.4 has echoes")?)?;
                }
                _ if xid_of(&message) == xid => return Ok(message),
                _ => {}
            }
        }
    }

    /// The next message.
    fn receive(&mut self) -> Result<Vec<u8>> {
        loop {
            let rest = &self.input[self.used..];
            if let Some(length) = message_length(rest)?
                && length <= rest.len()
            {
                let message = rest[..length].to_vec();
                self.used += length;
                return Ok(message);
            }
            self.input.drain(..self.used);
            self.used = 0;
            let known = self.input.len();
            self.input.resize(known + READ_BYTES, 0);
            let read = self.stream.read(&mut self.input[known..]);
            let read = read.context("waiting for the switch")?;
            self.input.truncate(known + read);
            ensure!(read > 0, "the switch closed the connection");
        }
    }
}
