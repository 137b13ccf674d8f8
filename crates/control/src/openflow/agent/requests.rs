//! Requests for statistics and descriptions.

use thalweg_openflow::message::connection::Role;
use thalweg_openflow::message::port::{ALL_QUEUES, PortNumber, QueueRequest};
use thalweg_openflow::message::{Message, Reply, Request};
use thalweg_openflow::{ErrorCode, Pieces, Refusal, encode_reply, refuse};

use super::Agent;
use super::link::{Dump, Link, Partial};
use crate::openflow::target::Target;

/// Most parts of a request that come in several messages.
const MAX_PARTS: usize = 256;

impl<T: Target> Agent<T> {
    pub(super) fn request(
        &mut self,
        link: &mut Link,
        xid: u32,
        request: Request,
        more: bool,
    ) -> Result<(), Refusal> {
        let Some(request) = assemble(link, xid, request, more)? else {
            return Ok(());
        };
        let version = link.version();
        match request {
            Request::Flow(asked) => {
                let pieces = Pieces::flows(version, xid, asked.is_nicira);
                let pieces = pieces.ok_or_else(no_such_reply)?;
                let cursor = self.target.flows(&asked)?;
                link.dumps.push_back(Dump { cursor, pieces });
                link.go_on();
            }
            Request::Description => {
                let reply = Reply::Description(self.target.description());
                send(link, xid, &reply)?;
            }
            Request::PortDesc(port) => {
                let mut ports = self.target.ports();
                if port != PortNumber::ANY {
                    ports.retain(|known| known.number == port);
                }
                send(link, xid, &Reply::PortDesc(ports))?;
            }
            Request::Monitor(requests) => self.add_monitors(link, xid, requests)?,
            Request::TableFeatures(asked) if !asked.is_empty() && link.role == Role::Secondary => {
                let what = "a secondary sets up no tables";
                return Err(refuse(ErrorCode::OFPBRC_IS_SECONDARY, what));
            }
            request => {
                let reply = self.target.read(version, &request)?;
                send(link, xid, &reply)?;
            }
        }
        Ok(())
    }

    /// OpenFlow 1.0 to 1.3's request for queues.
    pub(super) fn queue_config(
        &mut self,
        link: &mut Link,
        xid: u32,
        port: PortNumber,
    ) -> Result<(), Refusal> {
        let asked = Request::QueueDesc(QueueRequest {
            port,
            queue: ALL_QUEUES,
        });
        let Reply::QueueDesc(queues) = self.target.read(link.version(), &asked)? else {
            return Err(no_such_reply());
        };
        link.session
            .send(xid, &Message::QueueConfigReply(port, queues));
        Ok(())
    }
}

fn no_such_reply() -> Refusal {
    refuse(ErrorCode::OFPBRC_BAD_STAT, "the version has no such reply")
}

/// Sends a reply, in as many messages as it needs.
pub(super) fn send(link: &mut Link, xid: u32, reply: &Reply) -> Result<(), Refusal> {
    let pieces = encode_reply(link.version(), xid, reply).ok_or_else(no_such_reply)?;
    for piece in pieces {
        link.session.send_bytes(piece);
    }
    Ok(())
}

/// Joins the parts of a request; `None` while more are to come.
fn assemble(
    link: &mut Link,
    xid: u32,
    request: Request,
    more: bool,
) -> Result<Option<Request>, Refusal> {
    let partial = link.partial.take();
    let Some(mut partial) = partial.filter(|partial| partial.xid == xid) else {
        if more {
            let can_have_parts = matches!(request, Request::TableFeatures(_) | Request::Monitor(_));
            if !can_have_parts {
                let what = "this request comes in one message";
                return Err(refuse(ErrorCode::OFPBRC_MULTIPART_BUFFER_OVERFLOW, what));
            }
            link.partial = Some(Partial {
                xid,
                request,
                parts: 1,
            });
            return Ok(None);
        }
        return Ok(Some(request));
    };
    match (&mut partial.request, request) {
        (Request::TableFeatures(known), Request::TableFeatures(further)) => known.extend(further),
        (Request::Monitor(known), Request::Monitor(further)) => known.extend(further),
        _ => {
            let what = "the parts of a request are of two kinds";
            return Err(refuse(ErrorCode::OFPBRC_BAD_STAT, what));
        }
    }
    partial.parts += 1;
    if partial.parts > MAX_PARTS {
        let what = format!("a request of more than {MAX_PARTS} messages");
        return Err(refuse(ErrorCode::OFPBRC_MULTIPART_BUFFER_OVERFLOW, what));
    }
    if more {
        link.partial = Some(partial);
        return Ok(None);
    }
    Ok(Some(partial.request))
}
