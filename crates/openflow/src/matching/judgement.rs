//! How strictly a list of entries is read.

/// How a list of entries is judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Judgement {
    /// Refuses unknown fields and those whose prerequisites are missing: requests.
    Strict,
    /// Skips unknown fields and asks for no prerequisites: packet-in, packet-out, replies.
    Loose,
}
