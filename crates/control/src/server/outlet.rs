//! The queue of a stream's messages to its controller, bounded in messages and in bytes.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use prost::Message;
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tonic::Status;

use crate::proto::p4::v1 as p4;

type Item = Result<p4::StreamMessageResponse, Status>;

/// The sending end.
#[derive(Clone)]
pub(super) struct Outlet {
    sender: mpsc::Sender<(Item, usize)>,
    bytes: Arc<AtomicUsize>,
    max_bytes: usize,
}

/// The receiving end.
pub(super) struct Inlet {
    receiver: mpsc::Receiver<(Item, usize)>,
    bytes: Arc<AtomicUsize>,
}

/// The error when the queue has no room.
#[derive(Debug)]
pub(super) struct Full;

/// Creates a queue of at most `max_messages` messages and `max_bytes` bytes.
pub(super) fn queue(max_messages: usize, max_bytes: usize) -> (Outlet, Inlet) {
    let (sender, receiver) = mpsc::channel(max_messages);
    let bytes = Arc::<AtomicUsize>::default();
    let inlet = Inlet {
        receiver,
        bytes: bytes.clone(),
    };
    let outlet = Outlet {
        sender,
        bytes,
        max_bytes,
    };
    (outlet, inlet)
}

impl Outlet {
    /// Appends a message or a status; a status counts no bytes. A message larger than the
    /// queue's limit is accepted only when the queue is empty.
    pub(super) fn try_send(&self, item: Item) -> Result<(), Full> {
        let size = match &item {
            Ok(message) => message.encoded_len(),
            Err(_) => 0,
        };
        let before = self.bytes.fetch_add(size, Ordering::Relaxed);
        let has_room = size == 0 || before == 0 || before + size <= self.max_bytes;
        if has_room && self.sender.try_send((item, size)).is_ok() {
            return Ok(());
        }
        self.bytes.fetch_sub(size, Ordering::Relaxed);
        Err(Full)
    }
}

impl Stream for Inlet {
    type Item = Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Item>> {
        let Some((item, size)) = ready!(self.receiver.poll_recv(context)) else {
            return Poll::Ready(None);
        };
        self.bytes.fetch_sub(size, Ordering::Relaxed);
        Poll::Ready(Some(item))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::p4::v1::stream_message_response::Update;

    fn packet(bytes: usize) -> Item {
        Ok(p4::StreamMessageResponse {
            update: Some(Update::Packet(p4::PacketIn {
                payload: vec![0; bytes].into(),
                ..Default::default()
            })),
        })
    }

    #[test]
    fn bytes_bound_the_queue_as_messages_do() {
        let (outlet, mut inlet) = queue(4, 3_000);
        let mut context = Context::from_waker(std::task::Waker::noop());
        let mut take = || Pin::new(&mut inlet).poll_next(&mut context).is_ready();
        assert!(outlet.try_send(packet(5_000)).is_ok(), "alone");
        assert!(outlet.try_send(packet(10)).is_err());
        assert!(outlet.try_send(Err(Status::aborted("the end"))).is_ok());
        assert!(take() && take() && !take());
        let sent = (0..9).filter(|_| outlet.try_send(packet(1_000)).is_ok());
        assert_eq!(sent.count(), 2, "with their headers");
        assert!(take() && take());
        let sent = (0..9).filter(|_| outlet.try_send(packet(10)).is_ok());
        assert_eq!(sent.count(), 4);
    }
}
