//! What a control socket has to say to its owner's log.

use std::io::Error;

use crate::conversation::ControlRequest;

/// Something that happened at a control socket.
#[derive(Clone, Copy, Debug)]
pub enum ControlNote<'a> {
    /// A command reached the owner's loop; with the request's number.
    Received(&'a ControlRequest, &'a str),
    /// A command has its answer; with the request's number.
    Replied(&'a Result<String, String>, &'a str),
    /// A client was refused, since all connections wait for answers.
    Refused,
    /// A client could not be accepted.
    NotAccepted(&'a Error),
    /// A client that does not keep to the protocol was cut off; with the reason.
    Closed(&'a str),
    /// The socket is served no more.
    Broken(&'a Error),
}

/// Takes notes of what happens at a control socket. Called on several threads.
pub trait ControlNotes: Send + Sync {
    /// Takes one note.
    fn note(&self, note: ControlNote<'_>);
}
