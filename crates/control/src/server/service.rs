//! The gRPC service: turns its methods into [`Call`]s to the device.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use prost::Message;
use tokio::sync::{mpsc, oneshot};
use tokio_rustls::TlsAcceptor;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

use super::Bounds;
use super::actor::{Answer as Told, Call, Hold};
use super::guard::{Claims, Guard, Held};
use super::listen::{self, Bound};
use super::outlet::{self, Inlet};
use super::slots::{Peer, Slot};
use crate::arbitration::StreamId;
use crate::problem::Code;
use crate::proto::p4::v1 as p4;
use crate::proto::p4::v1::p4_runtime_server::{P4Runtime, P4RuntimeServer};
use crate::store::{Reading, Step};

/// Maximum messages waiting on a stream.
const STREAM_MESSAGES: usize = 4_096;
/// Pages of an answer that are made before other tasks run.
const READ_STEPS: usize = 16;
/// Maximum concurrent HTTP/2 streams of a connection.
const MAX_STREAMS: u32 = 256;
/// How long a connection may be silent before its client is probed.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// Serves until it is told to stop.
pub(super) async fn serve(
    bound: Bound,
    acceptor: Option<TlsAcceptor>,
    calls: mpsc::Sender<Call>,
    bounds: Bounds,
    is_ending: oneshot::Receiver<()>,
) {
    let service = P4RuntimeServer::new(Service {
        calls,
        bounds: bounds.clone(),
        last_stream: Arc::default(),
    });
    let service = service.max_decoding_message_size(bounds.max_message_bytes);
    let service = Guard::new(service, bounds.clone());
    let connections = ReceiverStream::new(listen::accept(bound, acceptor, bounds));
    let server = Server::builder()
        .max_concurrent_streams(MAX_STREAMS)
        .http2_keepalive_interval(Some(KEEPALIVE))
        .serve_with_incoming(service, connections);
    // A primary's stream never ends by itself, so this does not wait for it.
    tokio::select! {
        _ = is_ending => {}
        _ = server => {}
    }
}

struct Service {
    calls: mpsc::Sender<Call>,
    bounds: Bounds,
    last_stream: Arc<AtomicU64>,
}

impl Service {
    async fn ask<R>(
        &self,
        what: &str,
        call: impl FnOnce(Told<R>) -> Call,
    ) -> Result<Response<R>, Status> {
        let (sender, receiver) = oneshot::channel();
        self.calls.send(call(sender)).await.map_err(ended)?;
        let answer = receiver.await.map_err(ended)?;
        answer
            .map(Response::new)
            .map_err(|failure| self.bounds.status_of(&failure, what))
    }
}

/// The peer of a call; one without an address is on this machine.
fn peer_of<T>(request: &Request<T>) -> Peer {
    request.extensions().get().copied().unwrap_or(Peer::Local)
}

/// The claims of a call's messages.
fn claims_of<T>(request: &Request<T>) -> Claims {
    request.extensions().get().cloned().unwrap_or_default()
}

/// The answer to a read, made as the client takes it.
struct Answer {
    /// `None` once it has ended.
    reading: Option<Reading>,
    /// Keeps the requests' claim while they are answered.
    _hold: Hold,
    slot: Slot,
    bounds: Bounds,
}

impl Stream for Answer {
    type Item = Result<p4::ReadResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.slot.poll_evicted(context).is_ready() && self.reading.take().is_some() {
            let text = "newer reads need the room of this one; read again, and fewer at once";
            return Poll::Ready(Some(Err(Status::new(Code::Aborted, text))));
        }
        let Some(reading) = &mut self.reading else {
            return Poll::Ready(None);
        };
        for _ in 0..READ_STEPS {
            match reading.step() {
                Step::Message(message) => return Poll::Ready(Some(Ok(message))),
                Step::Working => {}
                Step::End => {
                    let end = reading.end();
                    self.reading = None;
                    let failed = end.err();
                    let status = failed.map(|failure| self.bounds.status_of(&failure, "read"));
                    return Poll::Ready(status.map(Err));
                }
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

fn ended<E>(_: E) -> Status {
    Status::new(Code::Unavailable, "the switch is ending")
}

#[tonic::async_trait]
impl P4Runtime for Service {
    type ReadStream = Answer;
    type StreamChannelStream = Inlet;

    async fn write(
        &self,
        request: Request<p4::WriteRequest>,
    ) -> Result<Response<p4::WriteResponse>, Status> {
        let hold = claims_of(&request).next();
        let request = request.into_inner();
        self.ask("write", |answer| Call::Write(request, hold, answer))
            .await?;
        Ok(Response::new(p4::WriteResponse {}))
    }

    async fn read(
        &self,
        request: Request<p4::ReadRequest>,
    ) -> Result<Response<Self::ReadStream>, Status> {
        let peer = peer_of(&request);
        let (sender, receiver) = oneshot::channel();
        let hold = claims_of(&request).next();
        let call = Call::Read(request.into_inner(), hold, sender);
        self.calls.send(call).await.map_err(ended)?;
        let (reading, hold) = receiver.await.map_err(ended)?;
        Ok(Response::new(Answer {
            reading: Some(reading),
            _hold: hold,
            slot: self.bounds.reads.take(peer),
            bounds: self.bounds.clone(),
        }))
    }

    async fn set_forwarding_pipeline_config(
        &self,
        request: Request<p4::SetForwardingPipelineConfigRequest>,
    ) -> Result<Response<p4::SetForwardingPipelineConfigResponse>, Status> {
        let hold = claims_of(&request).next();
        let request = Box::new(request.into_inner());
        let call = |answer| Call::SetPipeline(request, hold, answer);
        self.ask("setting the pipeline", call).await?;
        Ok(Response::new(p4::SetForwardingPipelineConfigResponse {}))
    }

    async fn get_forwarding_pipeline_config(
        &self,
        request: Request<p4::GetForwardingPipelineConfigRequest>,
    ) -> Result<Response<p4::GetForwardingPipelineConfigResponse>, Status> {
        let peer = peer_of(&request);
        let request = request.into_inner();
        let call = |answer| Call::GetPipeline(request, answer);
        let mut response = self.ask("getting the pipeline", call).await?;
        let size = response.get_ref().encoded_len() as u64;
        let claim = self.bounds.answers.take(peer, size).map_err(|_| {
            let text = "answers that are not taken hold all the memory that they may; take them";
            Status::new(Code::ResourceExhausted, text)
        })?;
        response.extensions_mut().insert(Held::new(claim));
        Ok(response)
    }

    async fn stream_channel(
        &self,
        request: Request<Streaming<p4::StreamMessageRequest>>,
    ) -> Result<Response<Self::StreamChannelStream>, Status> {
        let claims = claims_of(&request);
        let mut messages = request.into_inner();
        let stream = StreamId(self.last_stream.fetch_add(1, Ordering::Relaxed));
        let (outlet, inlet) = outlet::queue(STREAM_MESSAGES, self.bounds.stream_queue_bytes);
        let open = Call::Open(stream, outlet.clone());
        self.calls.send(open).await.map_err(ended)?;
        let calls = self.calls.clone();
        tokio::spawn(async move {
            loop {
                let message = match messages.message().await {
                    Ok(Some(message)) => Box::new(message),
                    Ok(None) => break,
                    Err(status) => {
                        // The client may be gone.
                        let _ = outlet.try_send(Err(status));
                        break;
                    }
                };
                let call = Call::Message(stream, message, claims.next());
                if calls.send(call).await.is_err() {
                    return;
                }
            }
            drop(outlet);
            let _ = calls.send(Call::Close(stream)).await;
        });
        Ok(Response::new(inlet))
    }

    async fn capabilities(
        &self,
        request: Request<p4::CapabilitiesRequest>,
    ) -> Result<Response<p4::CapabilitiesResponse>, Status> {
        let request = request.into_inner();
        let call = |answer| Call::Capabilities(request, answer);
        self.ask("capabilities", call).await
    }
}
