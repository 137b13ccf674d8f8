//! The device's thread: handles calls one after the other, and sends answers and messages.

use std::collections::BTreeMap;
use std::time::{Duration, Instant as Clock};

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use super::budget::Claim;
use super::outlet::Outlet;
use super::since;
use crate::arbitration::StreamId;
use crate::device::{Device, DeviceCounters, StreamEvent};
use crate::problem::{Failure, Problem};
use crate::proto::p4::v1 as p4;
use crate::proto::p4::v1::stream_message_response::Update;
use crate::store::Reading;
use crate::target::Target;
use crate::value::Value;

/// Maximum time the device waits for an event.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// The channel for a call's answer.
pub(super) type Answer<R> = oneshot::Sender<Result<R, Failure>>;
/// A message's claim on the message budget, until it is handled.
pub(super) type Hold = Option<Claim>;

/// A call to the device.
pub(super) enum Call {
    Open(StreamId, Outlet),
    Message(StreamId, Box<p4::StreamMessageRequest>, Hold),
    Close(StreamId),
    Write(p4::WriteRequest, Hold, Answer<()>),
    Read(p4::ReadRequest, Hold, oneshot::Sender<(Reading, Hold)>),
    SetPipeline(
        Box<p4::SetForwardingPipelineConfigRequest>,
        Hold,
        Answer<()>,
    ),
    GetPipeline(
        p4::GetForwardingPipelineConfigRequest,
        Answer<p4::GetForwardingPipelineConfigResponse>,
    ),
    Capabilities(p4::CapabilitiesRequest, Answer<p4::CapabilitiesResponse>),
    Packet(Bytes),
    Digest(u32, Vec<Value>),
    End,
}

/// A device and its streams.
pub(super) struct Actor<T> {
    device: Device<T>,
    calls: mpsc::Receiver<Call>,
    streams: BTreeMap<StreamId, Outlet>,
    start: Clock,
    dropped: u64,
}

impl<T: Target> Actor<T> {
    pub(super) fn new(device: Device<T>, calls: mpsc::Receiver<Call>, start: Clock) -> Actor<T> {
        Actor {
            device,
            calls,
            streams: BTreeMap::new(),
            start,
            dropped: 0,
        }
    }

    /// Runs until [`Call::End`]. Returns the device's counters.
    pub(super) async fn run(mut self) -> DeviceCounters {
        loop {
            let wait = match self.device.poll_timeout() {
                Some(due) => (due - since(self.start)).min(PATIENCE),
                None => PATIENCE,
            };
            match tokio::time::timeout(wait, self.calls.recv()).await {
                Ok(None | Some(Call::End)) => break,
                Ok(Some(call)) => self.handle(call),
                Err(_) => {}
            }
            self.device.handle_timeout(since(self.start));
            self.transmit();
        }
        let mut counters = self.device.counters();
        counters.dropped_messages += self.dropped;
        counters
    }

    fn handle(&mut self, call: Call) {
        let now = since(self.start);
        // The caller may have gone; then the answer is dropped.
        match call {
            Call::Open(stream, outlet) => {
                self.streams.insert(stream, outlet);
            }
            Call::Message(stream, message, _hold) => {
                if self.streams.contains_key(&stream) {
                    self.device.handle_message(stream, &message);
                }
            }
            Call::Close(stream) => {
                if self.streams.remove(&stream).is_some() {
                    self.device.handle_close(stream);
                }
            }
            // Frees the request's claim before its client has the answer.
            Call::Write(request, hold, answer) => {
                let done = self.device.handle_write(&request, now);
                drop((request, hold));
                let _ = answer.send(done);
            }
            Call::Read(request, hold, answer) => {
                let _ = answer.send((self.device.read(request), hold));
            }
            Call::SetPipeline(request, hold, answer) => {
                let done = self.device.handle_set_pipeline(&request, now);
                drop((request, hold));
                let _ = answer.send(done);
            }
            Call::GetPipeline(request, answer) => {
                let _ = answer.send(self.device.handle_get_pipeline(&request));
            }
            Call::Capabilities(request, answer) => {
                let _ = answer.send(self.device.handle_capabilities(&request));
            }
            Call::Packet(packet) => self.device.handle_packet(&packet),
            Call::Digest(digest, numbers) => self.device.handle_digest(digest, numbers, now),
            Call::End => {}
        }
    }

    fn transmit(&mut self) {
        while let Some((stream, event)) = self.device.poll_transmit() {
            let Some(outlet) = self.streams.get(&stream) else {
                continue;
            };
            let end = match event {
                StreamEvent::Message(message) => {
                    let is_arbitration = matches!(message.update, Some(Update::Arbitration(_)));
                    match outlet.try_send(Ok(*message)) {
                        Ok(()) => continue,
                        Err(_) if !is_arbitration => {
                            self.dropped += 1;
                            continue;
                        }
                        // Invariant 1 of the server.
                        Err(_) => Problem::new(
                            crate::Code::ResourceExhausted,
                            "the stream does not take what it is sent",
                        ),
                    }
                }
                StreamEvent::Close(problem) => problem,
            };
            if let Some(outlet) = self.streams.remove(&stream) {
                let _ = outlet.try_send(Err(end.to_status()));
                self.device.handle_close(stream);
            }
        }
    }
}
