//! Guards the service: each request takes a place, and each of its messages a claim.
//!
//! A gRPC message has a header of 5 bytes that announces its length (gRPC over HTTP/2,
//! "Length-Prefixed-Message"). When the header has arrived, the message claims that length. As
//! its bytes arrive, it claims the memory they take when decoded ([`Walk`]). Only then are the
//! bytes passed on. A claim that finds no room ends the call with RESOURCE_EXHAUSTED.
//!
//! The service takes the claims through [`Claims`], in the order of the messages. It passes
//! each with its message to the device, which drops both together.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame};
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::{Code, Status};

use super::Bounds;
use super::budget::{Claim, NoRoom};
use super::decoded::Walk;
use super::slots::Peer;

/// The memory of a message apart from its bytes and elements.
const MESSAGE_BYTES: u64 = 1_024;
/// Bytes of an answer that are sent at a time.
const PIECE_BYTES: usize = 16 << 10;
/// Bytes of a message's header: whether it is compressed, and its length.
const HEADER_BYTES: usize = 5;

/// The claims of a request's messages, in order.
#[derive(Clone, Default)]
pub(super) struct Claims {
    claims: Arc<Mutex<VecDeque<Claim>>>,
}

impl Claims {
    /// Takes the claim of the message that was just decoded.
    pub(super) fn next(&self) -> Option<Claim> {
        let mut claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        claims.pop_front()
    }

    fn push(&self, claim: Claim) {
        let mut claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        claims.push_back(claim);
    }
}

/// An answer's claim until the answer is sent.
#[derive(Clone)]
pub(super) struct Held {
    _claim: Arc<Claim>,
}

impl Held {
    pub(super) fn new(claim: Claim) -> Held {
        Held {
            _claim: Arc::new(claim),
        }
    }
}

/// A service behind its guard.
#[derive(Clone)]
pub(super) struct Guard<S> {
    inner: S,
    bounds: Bounds,
}

impl<S> Guard<S> {
    pub(super) fn new(inner: S, bounds: Bounds) -> Guard<S> {
        Guard { inner, bounds }
    }
}

impl<S> Service<http::Request<Body>> for Guard<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let peer = request.extensions().get().copied().unwrap_or(Peer::Local);
        let Ok(place) = self.bounds.streams.take(peer, 1) else {
            let text = "too many calls of this host, or of all, are coming in; end some first";
            let status = Status::new(Code::ResourceExhausted, text);
            return Box::pin(async move { Ok(status.into_http()) });
        };
        let (mut head, body) = request.into_parts();
        let claims = Claims::default();
        head.extensions.insert(claims.clone());
        let guarded = Guarded {
            body,
            message: request_type(head.uri.path()),
            expect: Expect::Header([0; HEADER_BYTES], 0),
            claims,
            peer,
            bounds: self.bounds.clone(),
            _place: place,
        };
        let call = self
            .inner
            .call(http::Request::from_parts(head, Body::new(guarded)));
        Box::pin(async move {
            let mut response = call.await?;
            Ok(match response.extensions_mut().remove::<Held>() {
                None => response,
                Some(held) => response.map(|body| Body::new(Kept::new(body, held))),
            })
        })
    }
}

/// The type of a method's request messages.
fn request_type(path: &str) -> &'static str {
    match path.rsplit('/').next() {
        Some("Write") => "p4.v1.WriteRequest",
        Some("Read") => "p4.v1.ReadRequest",
        Some("SetForwardingPipelineConfig") => "p4.v1.SetForwardingPipelineConfigRequest",
        Some("StreamChannel") => "p4.v1.StreamMessageRequest",
        // Their messages have no vectors; other methods are refused.
        _ => "",
    }
}

/// The next part of a request.
enum Expect {
    Header([u8; HEADER_BYTES], usize),
    Payload(Walk, u64, Claim),
    /// The announced length will be refused anyway.
    Nothing,
}

/// A request's body whose messages have claims.
struct Guarded {
    body: Body,
    message: &'static str,
    expect: Expect,
    claims: Claims,
    peer: Peer,
    bounds: Bounds,
    _place: Claim,
}

impl Guarded {
    fn handle_bytes(&mut self, mut bytes: &[u8]) -> Result<(), NoRoom> {
        while !bytes.is_empty() {
            match &mut self.expect {
                Expect::Nothing => return Ok(()),
                Expect::Header(header, have) => {
                    let taken = (HEADER_BYTES - *have).min(bytes.len());
                    header[*have..*have + taken].copy_from_slice(&bytes[..taken]);
                    *have += taken;
                    bytes = &bytes[taken..];
                    if *have == HEADER_BYTES {
                        let [_, length @ ..] = *header;
                        self.handle_length(u32::from_be_bytes(length).into())?;
                    }
                }
                Expect::Payload(walk, left, claim) => {
                    let taken = (*left).min(bytes.len() as u64);
                    let (own, rest) = bytes.split_at(taken as usize);
                    let more = walk.handle_bytes(own);
                    if more > 0 {
                        claim.grow(more)?;
                    }
                    *left -= taken;
                    bytes = rest;
                    self.end_message();
                }
            }
        }
        Ok(())
    }

    fn handle_length(&mut self, length: u64) -> Result<(), NoRoom> {
        if length > self.bounds.max_message_bytes as u64 {
            self.expect = Expect::Nothing;
            return Ok(());
        }
        let claim = self
            .bounds
            .messages
            .claim(self.peer, MESSAGE_BYTES + length)?;
        self.expect = Expect::Payload(Walk::new(self.message, length), length, claim);
        self.end_message();
        Ok(())
    }

    /// Passes on the claim of a complete message.
    fn end_message(&mut self) {
        if let Expect::Payload(_, 0, _) = self.expect {
            let next = Expect::Header([0; HEADER_BYTES], 0);
            if let Expect::Payload(_, _, claim) = std::mem::replace(&mut self.expect, next) {
                claim.finish();
                self.claims.push(claim);
            }
        }
    }
}

impl HttpBody for Guarded {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Expect::Payload(_, _, claim) = &mut self.expect
            && claim.poll_evicted(context).is_ready()
        {
            self.expect = Expect::Nothing;
            let text = "other messages need the room of this one, which has not come in whole; \
                        send it again";
            return Poll::Ready(Some(Err(Status::new(Code::ResourceExhausted, text))));
        }
        let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(context)) else {
            return Poll::Ready(None);
        };
        let frame = frame?;
        if let Some(bytes) = frame.data_ref()
            && self.handle_bytes(bytes) == Err(NoRoom)
        {
            self.expect = Expect::Nothing;
            let text = "messages hold all the memory that they may, or this one alone would; send \
                        fewer at once, or smaller ones";
            return Poll::Ready(Some(Err(Status::new(Code::ResourceExhausted, text))));
        }
        // Registers this task to be woken when the new claim is evicted.
        if let Expect::Payload(_, _, claim) = &mut self.expect {
            let _ = claim.poll_evicted(context);
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

/// An answer's body, which keeps its claim until it is sent or dropped.
///
/// It is sent in pieces. HTTP takes the next piece when the client has room for it; it would
/// take a whole answer into its own queue.
struct Kept {
    body: Body,
    rest: Bytes,
    _held: Held,
}

impl Kept {
    fn new(body: Body, held: Held) -> Kept {
        Kept {
            body,
            rest: Bytes::new(),
            _held: held,
        }
    }
}

impl HttpBody for Kept {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.rest.is_empty() {
            let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
            match frame.map(|frame| frame.map(Frame::into_data)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(Err(trailers))) => return Poll::Ready(Some(Ok(trailers))),
                Some(Ok(Ok(bytes))) => self.rest = bytes,
            }
        }
        let length = self.rest.len().min(PIECE_BYTES);
        let piece = self.rest.split_to(length);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }
}
